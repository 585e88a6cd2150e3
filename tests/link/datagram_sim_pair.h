// The pair of tests/link/datagram_contract.h over the simulated net, on virtual time.
#pragma once

#include "link/datagram/sim.h"
#include "tests/link/datagram_contract.h"

static struct datagram_net *net;
static instant_ns now_ns;

static instant_ns clock_of(void *ctx)
{
    return now_ns;
}

void pair_turn(unsigned to)
{
    while (datagram_net_next_event(net) != INSTANT_NEVER) {
        now_ns = instant_min(datagram_net_next_event(net), INSTANT_NEVER - 1) > now_ns
                     ? datagram_net_next_event(net)
                     : now_ns;
        datagram_net_advance(net);
    }
}

int pair_open_at(unsigned i, const struct in6_addr *local)
{
    return datagram_open(pair.link[i], local, 0);
}

instant_ns pair_now(void)
{
    return now_ns;
}

static inline void net_make(struct datagram_net_config config, const char *faults)
{
    config.clock = clock_of;
    assert_true(fault_config_parse(faults, &config.faults));
    now_ns = NS_PER_S;
    net = datagram_net_create(&config);
    for (unsigned i = 0; i < 2; i++) {
        pair.ipv4[i] = ipv4_mapped(0x0a000001 + i);
        pair.ipv6[i] = (struct in6_addr){.s6_addr = {0xfd, [15] = (uint8_t)(1 + i)}};
        struct in6_addr addrs[] = {pair.ipv4[i], pair.ipv6[i]};
        pair.link[i] = datagram_net_attach(net, addrs, 2);
        assert_non_null(pair.link[i]);
    }
}
