// What a wrapper of datagram links hands on: it stands before a link and is one itself. Its table
// names these where it does not care.
#pragma once

#include "base/port_datagram.h"
#include "base/time.h"

// A wrapper embeds this first.
struct datagram_forward {
    struct datagram_link base;
    struct datagram_link *inner;
};

// The numbers of queue pairs are the inner link's.
void datagram_forward_init(struct datagram_forward *f, const struct datagram_link_ops *ops,
                           struct datagram_link *inner);

int datagram_forward_open(struct datagram_link *link, const struct in6_addr *local,
                          uint32_t scope_id);
void datagram_forward_close(struct datagram_link *link, const struct in6_addr *local,
                            uint32_t scope_id);
int datagram_forward_route(struct datagram_link *link, const struct in6_addr *remote,
                           uint32_t scope_id, struct in6_addr *ret_local);
uint32_t datagram_forward_len_max(struct datagram_link *link, const struct datagram_path *path);
int datagram_forward_join(struct datagram_link *link, const struct in6_addr *group,
                          const struct in6_addr *local, uint32_t scope_id);
void datagram_forward_leave(struct datagram_link *link, const struct in6_addr *group,
                            const struct in6_addr *local, uint32_t scope_id);
bool datagram_forward_has_room(struct datagram_link *link, const struct datagram_tx *tx);
int datagram_forward_serve(struct datagram_link *link, uint64_t service,
                           const struct in6_addr *local);
void datagram_forward_unserve(struct datagram_link *link, uint64_t service,
                              const struct in6_addr *local);
void datagram_forward_bequeath(struct datagram_link *link, uint32_t place,
                               const struct datagram_tx *tx);
void datagram_forward_revoke(struct datagram_link *link, uint32_t place);
bool datagram_forward_is_served(struct datagram_link *link, uint64_t service,
                                const struct in6_addr *local);
bool datagram_forward_flush(struct datagram_link *link);
void datagram_forward_look_around(struct datagram_link *link);
unsigned datagram_forward_poll(struct datagram_link *link, instant_ns now);
bool datagram_forward_hand_on(struct datagram_link *link, const struct datagram_rx *rx,
                              unsigned slot);
uint64_t datagram_forward_receive_buffer_len(const struct datagram_link *link);
instant_ns datagram_forward_next_deadline(struct datagram_link *link);
bool datagram_forward_may_wait(struct datagram_link *link);
void datagram_forward_wait(struct datagram_link *link, duration_ns timeout_ns);
void datagram_forward_wake(struct datagram_link *link);
void datagram_forward_counters(const struct datagram_link *link, counter_each each, void *ctx);
void datagram_forward_abandon(struct datagram_link *link);
