// Two links of the simulator on virtual time, a listener at the second, and what tests do to them.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/sim.h"

enum { WINDOW_LEN = 4096, PORT = 4791 };

struct world {
    instant_ns now_ns;
    struct sim_net *net;
    struct link *link[2];
    struct link_stream *listener;
    struct link_stream *end[2];
};

static inline instant_ns world_clock(void *ctx)
{
    return ((struct world *)ctx)->now_ns;
}

static inline struct sockaddr_in addr_of(unsigned host, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(0x0a000001 + host),
    };
}

static inline bool world_step(struct world *w)
{
    instant_ns at_ns = sim_net_next_event(w->net);
    if (at_ns == INSTANT_NEVER) {
        return false;
    }
    w->now_ns = at_ns > w->now_ns ? at_ns : w->now_ns;
    return sim_net_advance(w->net);
}

static inline int connect_to(struct world *w, struct sockaddr_in peer)
{
    assert_int_equal(w->link[0]->ops->bind(w->link[0], NULL, 0, w, &w->end[0]), 0);
    return w->link[0]->ops->connect(w->end[0], (struct sockaddr *)&peer);
}

static inline int setup(void **state)
{
    static struct world w;
    w = (struct world){0};
    w.net = sim_net_create(&(struct sim_net_config){.seed = 7,
                                                    .clock = world_clock,
                                                    .clock_ctx = &w,
                                                    .delay_max_ns = 1000,
                                                    .window_len = WINDOW_LEN,
                                                    .piece_max_len = 700,
                                                    .emss = 1460,
                                                    .peer_timeout_ns = 10 * NS_PER_S});
    for (unsigned i = 0; i < 2; i++) {
        struct in_addr host = addr_of(i, 0).sin_addr;
        w.link[i] = sim_net_attach(w.net, &host, 1);
    }
    struct sockaddr_in here = addr_of(1, PORT);
    w.link[1]->ops->bind(w.link[1], (struct sockaddr *)&here, 0, &w, &w.listener);
    w.link[1]->ops->listen(w.listener, 4);
    *state = &w;
    return 0;
}

static inline int setup_connected(void **state)
{
    setup(state);
    struct world *w = *state;
    connect_to(w, addr_of(1, PORT));
    while (world_step(w)) {
    }
    return w->link[1]->ops->accept(w->listener, &w->end[1]);
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    w->link[0]->ops->destroy(w->link[0]);
    w->link[1]->ops->destroy(w->link[1]);
    sim_net_destroy(w->net);
    return 0;
}

static inline ssize_t send_octets(struct link_stream *s, const void *octets, size_t len)
{
    struct iovec iov = {.iov_base = (void *)octets, .iov_len = len};
    return s->link->ops->send(s, &(struct link_tx){.iov = &iov, .iov_count = 1});
}

static inline ssize_t recv_octets(struct link_stream *s, void *into, size_t len)
{
    return s->link->ops->recv(s, mspan_of(into, len));
}

static inline void strike(struct world *w, enum sim_fault fault)
{
    struct sockaddr_storage end;
    w->end[0]->link->ops->local_addr(w->end[0], &end);
    assert_true(sim_net_strike(w->net, fault, (struct sockaddr_in *)&end));
}
