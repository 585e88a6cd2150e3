// Two streams of this process, each the other's peer, that have gone over to memory.
#pragma once

#include "link/local/local.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "tests/link/contract.h"

static inline void local_link_open(const struct link_local_config *config)
{
    const struct link_socket_config socket_config = {0};
    struct link *inner;
    assert_int_equal(link_socket_create(&socket_config, &inner), 0);
    assert_int_equal(link_local_wrap(inner, config, &the_link), 0);
}

static inline void exchange(struct link_stream *from, struct link_stream *to)
{
    char octets[4];
    assert_int_equal(send_text(from, "?"), 1);
    assert_int_equal(recv_some(to, octets, sizeof octets), 1);
}

static inline void local_loop_open(void)
{
    loop_open(&l, the_link, AF_INET);
    exchange(l.active, l.passive);
    exchange(l.passive, l.active);
    exchange(l.active, l.passive);
}

static inline int end(void **state)
{
    the_link->ops->destroy(the_link);
    descriptors_check();
    return 0;
}

static inline const struct local_counters *counters(void)
{
    return &local_link_of(the_link)->counters;
}
