// What this process serves, and what others of the UDP datagram link's addresses do.

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/wildcard.h"
#include "link/datagram/share.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

int datagram_udp_serve(struct datagram_link *link, uint64_t service, const struct in6_addr *local)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_service *it = calloc(1, sizeof *it);
    if (it == NULL) {
        return -ENOMEM;
    }
    *it = (struct datagram_service){.service = service, .local = *local};
    it->fd = datagram_share_serve(&d->share, service, local);
    if (it->fd == -EPERM) {
        it->fd = -1; // others of ours cannot find it, and are not found: it serves all the same
    } else if (it->fd < 0) {
        const int error = it->fd;
        free(it);
        return error;
    }
    list_push_tail(&d->services, &it->link);
    return 0;
}

void datagram_service_free(struct datagram_service *it)
{
    list_remove(&it->link);
    if (it->fd >= 0) {
        sys_close(it->fd);
    }
    free(it);
}

void datagram_udp_unserve(struct datagram_link *link, uint64_t service,
                          const struct in6_addr *local)
{
    struct datagram_udp *d = datagram_udp_of(link);
    for (struct list_link *l = d->services.next; l != &d->services; l = l->next) {
        struct datagram_service *it = LIST_ENTRY(l, struct datagram_service, link);
        if (it->service == service && datagram_addr_is(&it->local, local)) {
            datagram_service_free(it);
            return;
        }
    }
}

bool datagram_udp_is_served(struct datagram_link *link, uint64_t service,
                            const struct in6_addr *local)
{
    const struct in6_addr family = wildcard_of(local), both = wildcard_of_both();
    const struct datagram_share *share = &datagram_udp_of(link)->share;
    return datagram_share_is_served(share, service, local) ||
           datagram_share_is_served(share, service, &family) ||
           datagram_share_is_served(share, service, &both);
}
