// What a wrapper of devices hands on: it stands before a device and is one itself. Its table names
// these where it does not care.
#pragma once

#include "base/time.h"
#include "link/device/device.h"

// A wrapper embeds this first.
struct device_forward {
    struct device base;
    struct device *inner;
};

int device_forward_open(struct device *d, struct net_flow *place, unsigned flags,
                        struct channel **ret);
int device_forward_connect(struct device *d, struct channel *channel, struct net_flow *flow);
int device_forward_accept(struct device *d, struct channel *listener, const struct net_flow *flow,
                          struct channel **ret);
void device_forward_set_tos(struct device *d, struct channel *channel, uint8_t tos);
uint32_t device_forward_segment_len_max(struct device *d, struct channel *channel,
                                        const struct net_flow *flow);
int device_forward_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                         struct net_addr *ret_local);
bool device_forward_poll(struct device *d, instant_ns now);
void device_forward_receive(struct device *d, struct channel *channel, size_t max_len);
void device_forward_corrupt(struct device *d, struct fault_model *model);
void device_forward_counters(const struct device *d, counter_each each, void *ctx);
instant_ns device_forward_next_deadline(struct device *d);
void device_forward_wait(struct device *d, duration_ns timeout_ns);
void device_forward_wake(struct device *d);
int device_forward_descriptor(const struct device *d);
void device_forward_abandon(struct device *d);
