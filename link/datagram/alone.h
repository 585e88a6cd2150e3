// What a link answers whose addresses no other process has: nobody else serves anything there,
// inherits from it or gets packets, and of receivers' buffers it knows nothing. As in struct
// datagram_link_ops.
#pragma once

#include "base/port_datagram.h"

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
