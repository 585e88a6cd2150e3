// The link of streams through memory, over loopback, as `the_link` of its tests.
#pragma once

#include <time.h>

#include "link/local/local.h"
#include "link/local/stream.h"
#include "link/socket.h"
#include "tests/link/contract.h"

enum { RING_LEN = 64 * 1024 };

static inline instant_ns clock_of_test(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static const struct link_local_config config = {
    .ring_len = RING_LEN,
    .peer_timeout_ns = 200 * NS_PER_MS,
    .clock = clock_of_test,
};

static inline int begin(void **state)
{
    struct link_socket_config socket_config = {.peer_timeout_ns = 10 * NS_PER_S};
    struct link *inner;
    descriptors_note();
    int error = link_socket_create(&socket_config, &inner);
    return error != 0 ? error : link_local_wrap(inner, &config, &the_link);
}

// What the stream is ready for at this look.
static inline unsigned ready_now(const struct link_stream *stream)
{
    struct link_ready ready[8];
    unsigned what = 0;
    for (int turn = 0; turn < 8; turn++) { // with streams awake TCP is asked now and then
        int count = the_link->ops->poll(the_link, ready, 8);
        for (int i = 0; i < count; i++) {
            what |= ready[i].stream == stream ? ready[i].what : 0;
        }
    }
    return what;
}

static inline int end(void **state)
{
    contract_begin_pair = NULL;
    the_link->ops->destroy(the_link);
    descriptors_check();
    return 0;
}

static inline enum local_path path_of(const struct link_stream *stream)
{
    return local_stream_of(stream)->path;
}

static inline const struct local_counters *counters(void)
{
    return &local_link_of(the_link)->counters;
}
