#include "link/datagram/alone.h"

#include <errno.h>

/* ---- addresses ------------------------------------------------------------------------------- */

static int place_of(const struct datagram_alone *a, const struct in6_addr *addr)
{
    for (unsigned i = 0; i < a->addr_count; i++) {
        if (IN6_ARE_ADDR_EQUAL(&a->addrs[i], addr)) {
            return (int)i;
        }
    }
    return -1;
}

bool datagram_alone_has_addr(const struct datagram_alone *a, const struct in6_addr *addr)
{
    return place_of(a, addr) >= 0;
}

static bool is_addr_open(const struct datagram_alone *a, const struct in6_addr *addr)
{
    const int at = place_of(a, addr);
    return at >= 0 && a->opened[at] > 0;
}

bool datagram_alone_is_open(const struct datagram_alone *a, const struct in6_addr *local)
{
    return is_addr_open(a, local) || datagram_memberships_has(&a->groups, local);
}

int datagram_alone_open(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_alone *a = (struct datagram_alone *)link;
    const int at = place_of(a, local);
    if (at < 0) {
        return -EADDRNOTAVAIL;
    }
    a->opened[at]++;
    return 0;
}

void datagram_alone_close(struct datagram_link *link, const struct in6_addr *local,
                          uint32_t scope_id)
{
    struct datagram_alone *a = (struct datagram_alone *)link;
    if (is_addr_open(a, local)) {
        a->opened[place_of(a, local)]--;
    }
}

int datagram_alone_join(struct datagram_link *link, const struct in6_addr *group,
                        const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_alone *a = (struct datagram_alone *)link;
    if (!datagram_addr_is_group(group)) {
        return -EINVAL;
    }
    return is_addr_open(a, local) ? datagram_memberships_join(&a->groups, group) : -EADDRNOTAVAIL;
}

void datagram_alone_leave(struct datagram_link *link, const struct in6_addr *group,
                          const struct in6_addr *local, uint32_t scope_id)
{
    datagram_memberships_leave(&((struct datagram_alone *)link)->groups, group);
}

/* ---- nobody else ----------------------------------------------------------------------------- */

bool datagram_alone_has_room(struct datagram_link *link, const struct datagram_tx *tx)
{
    return true;
}

int datagram_alone_serve(struct datagram_link *link, uint64_t service, const struct in6_addr *local)
{
    return 0;
}

void datagram_alone_unserve(struct datagram_link *link, uint64_t service,
                            const struct in6_addr *local)
{
}

bool datagram_alone_is_served(struct datagram_link *link, uint64_t service,
                              const struct in6_addr *local)
{
    return false;
}

void datagram_alone_bequeath(struct datagram_link *link, uint32_t place,
                             const struct datagram_tx *tx)
{
}

void datagram_alone_revoke(struct datagram_link *link, uint32_t place)
{
}

void datagram_alone_look_around(struct datagram_link *link)
{
}

bool datagram_alone_hand_on(struct datagram_link *link, const struct datagram_rx *rx, unsigned slot)
{
    return false;
}
