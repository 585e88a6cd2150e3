// A link whose addresses no other process has: which they are, and what it answers because nobody
// else serves anything there, inherits from it or gets packets. Of receivers' buffers it knows
// nothing. As in struct datagram_link_ops.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "link/datagram/memberships.h"

enum { DATAGRAM_ALONE_ADDR_MAX = 8 };

// A link embeds this first in a struct of its own.
struct datagram_alone {
    struct datagram_link base;
    unsigned addr_count;
    struct in6_addr addrs[DATAGRAM_ALONE_ADDR_MAX];
    unsigned opened[DATAGRAM_ALONE_ADDR_MAX]; // how often
    struct datagram_memberships groups;
};

bool datagram_alone_has_addr(const struct datagram_alone *a, const struct in6_addr *addr);
// One of its addresses, or a group's, to which packets are received now.
bool datagram_alone_is_open(const struct datagram_alone *a, const struct in6_addr *local);

int datagram_alone_open(struct datagram_link *link, const struct in6_addr *local,
                        uint32_t scope_id);
void datagram_alone_close(struct datagram_link *link, const struct in6_addr *local,
                          uint32_t scope_id);
int datagram_alone_join(struct datagram_link *link, const struct in6_addr *group,
                        const struct in6_addr *local, uint32_t scope_id);
void datagram_alone_leave(struct datagram_link *link, const struct in6_addr *group,
                          const struct in6_addr *local, uint32_t scope_id);

bool datagram_alone_has_room(struct datagram_link *link, const struct datagram_tx *tx);
int datagram_alone_serve(struct datagram_link *link, uint64_t service,
                         const struct in6_addr *local);
void datagram_alone_unserve(struct datagram_link *link, uint64_t service,
                            const struct in6_addr *local);
bool datagram_alone_is_served(struct datagram_link *link, uint64_t service,
                              const struct in6_addr *local);
void datagram_alone_bequeath(struct datagram_link *link, uint32_t place,
                             const struct datagram_tx *tx);
void datagram_alone_revoke(struct datagram_link *link, uint32_t place);
// Each look finds all that has come.
void datagram_alone_look_around(struct datagram_link *link);
bool datagram_alone_hand_on(struct datagram_link *link, const struct datagram_rx *rx,
                            unsigned slot);
