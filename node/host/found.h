// Volumes that the operator names by a source: which of them there are now.
#pragma once

#include "node/discovery/sources.h"
#include "node/host/host.h"

// Appends the volumes that `wish` finds, in the order of their source, or itself if it names one
// device. What is not served is said with `say`. 0, or -EEXIST or -ENOMEM of what names one device.
int host_found_add(struct host_config *to, const struct volume_wish *wish, struct sources *sources,
                   void (*say)(void *ctx, const char *line), void *ctx);
