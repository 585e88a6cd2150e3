// A server of byte streams: it listens, accepts within the protocol's limits, and lets each stream
// have its turns, be they due to its socket, to what the agents say, or to its deadline.
//
//     server.c    the listener, the limits, the member of the loop
//     stream.c    one stream's life: input, output, when it ends
#pragma once

#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/loop/loop.h"
#include "node/stream/spare.h"
#include "node/stream/stream.h"

enum { STREAM_PATH_MAX = 128 };

struct stream_server_parts {
    struct loop *loop;
    const char *listen;      // as for address_listen; stands as long as the server
    duration_ns patience_ns; // with peers that hold memory (progress.h)
    // One line for the operator about a stranger from this host.
    void (*say)(void *say_ctx, const char *host, const char *line);
    void *say_ctx;
    void *ctx; // of the protocol's create
};

struct stream_counters {
    uint64_t accepted;
    uint64_t refused; // beyond the limits
    uint64_t stalled; // ended because nothing moved for too long
};

struct stream_server {
    const struct stream_protocol *protocol;
    struct stream_server_parts parts;
    struct loop_member member;
    int listen_fd; // -1: it does not listen
    struct loop_watch *listen_watch;
    char unix_path[STREAM_PATH_MAX]; // empty: over IP
    char authority[96];              // where it listens, as clients reach it
    unsigned stream_count;
    struct spare spare;
    struct list_link streams;
    struct list_link dirty;
    struct deadlines deadlines;
    struct stream_counters counters;
};

// It joins the loop as a member.
void stream_server_init(struct stream_server *server, const struct stream_protocol *protocol,
                        const struct stream_server_parts *parts);
// Every stream is destroyed as it is.
void stream_server_fini(struct stream_server *server);

// 0, or a negative errno with a reason; then nothing listens, and it may be tried again.
int stream_server_listen(struct stream_server *server, struct why *ret_why);
// No stream comes any more; those that are there stay. Harmless if it does not listen.
void stream_server_close(struct stream_server *server);
