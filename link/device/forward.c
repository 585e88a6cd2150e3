#include "link/device/forward.h"

#include "base/time.h"

static struct device *inner_of(const struct device *d)
{
    return ((const struct device_forward *)d)->inner;
}

int device_forward_open(struct device *d, struct net_flow *place, unsigned flags,
                        struct channel **ret)
{
    return device_open(inner_of(d), place, flags, ret);
}

int device_forward_connect(struct device *d, struct channel *channel, struct net_flow *flow)
{
    return device_connect(inner_of(d), channel, flow);
}

int device_forward_accept(struct device *d, struct channel *listener, const struct net_flow *flow,
                          struct channel **ret)
{
    return device_accept(inner_of(d), listener, flow, ret);
}

void device_forward_set_tos(struct device *d, struct channel *channel, uint8_t tos)
{
    device_set_tos(inner_of(d), channel, tos);
}

uint32_t device_forward_segment_len_max(struct device *d, struct channel *channel,
                                        const struct net_flow *flow)
{
    return device_segment_len_max(inner_of(d), channel, flow);
}

int device_forward_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                         struct net_addr *ret_local)
{
    return device_route(inner_of(d), remote, scope, ret_local);
}

void device_forward_counters(const struct device *d, counter_each each, void *ctx)
{
    device_counters(inner_of(d), each, ctx);
}

instant_ns device_forward_next_deadline(struct device *d)
{
    return device_next_deadline(inner_of(d));
}

void device_forward_wait(struct device *d, duration_ns timeout_ns)
{
    device_wait(inner_of(d), timeout_ns);
}

void device_forward_wake(struct device *d)
{
    device_wake(inner_of(d));
}

int device_forward_descriptor(const struct device *d)
{
    return device_descriptor(inner_of(d));
}

void device_forward_abandon(struct device *d)
{
    device_abandon(inner_of(d));
}

bool device_forward_poll(struct device *d, instant_ns now)
{
    return device_poll(inner_of(d), now);
}

void device_forward_receive(struct device *d, struct channel *channel, size_t max_len)
{
    device_receive(inner_of(d), channel, max_len);
}

void device_forward_corrupt(struct device *d, struct fault_model *model)
{
    device_corrupt(inner_of(d), model);
}
