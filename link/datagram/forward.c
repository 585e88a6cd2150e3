#include "link/datagram/forward.h"

static struct datagram_link *inner_of(const struct datagram_link *link)
{
    return ((const struct datagram_forward *)link)->inner;
}

void datagram_forward_init(struct datagram_forward *f, const struct datagram_link_ops *ops,
                           struct datagram_link *inner)
{
    *f = (struct datagram_forward){.base = {.ops = ops,
                                            .qp_num_first = inner->qp_num_first,
                                            .qp_num_count = inner->qp_num_count,
                                            .hops = inner->hops,
                                            .journal = inner->journal},
                                   .inner = inner};
}

int datagram_forward_open(struct datagram_link *link, const struct in6_addr *local,
                          uint32_t scope_id)
{
    return datagram_open(inner_of(link), local, scope_id);
}

void datagram_forward_close(struct datagram_link *link, const struct in6_addr *local,
                            uint32_t scope_id)
{
    datagram_close(inner_of(link), local, scope_id);
}

int datagram_forward_route(struct datagram_link *link, const struct in6_addr *remote,
                           uint32_t scope_id, struct in6_addr *ret_local)
{
    return datagram_route(inner_of(link), remote, scope_id, ret_local);
}

uint32_t datagram_forward_len_max(struct datagram_link *link, const struct datagram_path *path)
{
    return datagram_len_max(inner_of(link), path);
}

int datagram_forward_join(struct datagram_link *link, const struct in6_addr *group,
                          const struct in6_addr *local, uint32_t scope_id)
{
    return datagram_join(inner_of(link), group, local, scope_id);
}

void datagram_forward_leave(struct datagram_link *link, const struct in6_addr *group,
                            const struct in6_addr *local, uint32_t scope_id)
{
    datagram_leave(inner_of(link), group, local, scope_id);
}

bool datagram_forward_has_room(struct datagram_link *link, const struct datagram_tx *tx)
{
    return datagram_has_room(inner_of(link), tx);
}

int datagram_forward_serve(struct datagram_link *link, uint64_t service,
                           const struct in6_addr *local)
{
    return datagram_serve(inner_of(link), service, local);
}

void datagram_forward_unserve(struct datagram_link *link, uint64_t service,
                              const struct in6_addr *local)
{
    datagram_unserve(inner_of(link), service, local);
}

bool datagram_forward_is_served(struct datagram_link *link, uint64_t service,
                                const struct in6_addr *local)
{
    return datagram_is_served(inner_of(link), service, local);
}

void datagram_forward_bequeath(struct datagram_link *link, uint32_t place,
                               const struct datagram_tx *tx)
{
    datagram_bequeath(inner_of(link), place, tx);
}

void datagram_forward_revoke(struct datagram_link *link, uint32_t place)
{
    datagram_revoke(inner_of(link), place);
}

bool datagram_forward_flush(struct datagram_link *link)
{
    return datagram_flush(inner_of(link));
}

void datagram_forward_look_around(struct datagram_link *link)
{
    datagram_look_around(inner_of(link));
}

unsigned datagram_forward_poll(struct datagram_link *link, instant_ns now)
{
    return datagram_poll(inner_of(link), now);
}

bool datagram_forward_hand_on(struct datagram_link *link, const struct datagram_rx *rx,
                              unsigned slot)
{
    return datagram_hand_on(inner_of(link), rx, slot);
}

uint64_t datagram_forward_receive_buffer_len(const struct datagram_link *link)
{
    return datagram_receive_buffer_len(inner_of(link));
}

instant_ns datagram_forward_next_deadline(struct datagram_link *link)
{
    return datagram_next_deadline(inner_of(link));
}

bool datagram_forward_may_wait(struct datagram_link *link)
{
    return datagram_may_wait(inner_of(link));
}

void datagram_forward_wait(struct datagram_link *link, duration_ns timeout_ns)
{
    datagram_wait(inner_of(link), timeout_ns);
}

void datagram_forward_wake(struct datagram_link *link)
{
    datagram_wake(inner_of(link));
}

void datagram_forward_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    datagram_counters(inner_of(link), each, ctx);
}

void datagram_forward_abandon(struct datagram_link *link)
{
    datagram_abandon(inner_of(link));
}
