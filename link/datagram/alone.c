#include "link/datagram/alone.h"

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
