// Who asks, by a protocol of its own, in an envoy's process: it may block there. portal.c asks
// iSCSI portals, service.c NVMe discovery services.
#pragma once

#include <stdbool.h>

#include "base/why.h"
#include "node/discovery/asking.h"
#include "node/discovery/remote_uri.h"

struct asker {
    const char *driver;
    // What the process may call of the system while it asks, as ddm_driver.calls; NULL: all.
    const char *const *(*calls)(void);
    // NULL without memory.
    void *(*create)(const struct remote_uri *uri);
    // 0 when all has been reported; or a negative errno with the reason.
    int (*read)(void *self, struct asking *asking, struct why *ret_why);
    // Readable when there may be news; -1: never. And are there? Both NULL: never.
    int (*news_fd)(void *self);
    bool (*has_news)(void *self);
};

extern const struct asker asker_portal, asker_service_tcp, asker_service_rdma;
