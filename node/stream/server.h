// A server of byte streams: it listens at some addresses, accepts within the protocol's limits, and
// lets each stream have its turns, be they due to its socket, to what the agents say, or to its
// deadline.
//
//     server.c    the listeners, the limits, the member of the loop
//     stream.c    one stream's life: input, output, when it ends
#pragma once

#include "base/deadlines.h"
#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "base/why.h"
#include "node/loop/loop.h"
#include "node/stream/spare.h"
#include "node/stream/stream.h"
#include "text/addresses.h"

enum { STREAM_PATH_MAX = 128 };

struct stream_server_parts {
    struct loop *loop;
    struct addresses listen; // each as for address_listen
    duration_ns patience_ns; // with peers that hold memory (progress.h)
    // One line for the operator about a stranger from this host.
    void (*say)(void *say_ctx, const char *host, const char *line);
    void *say_ctx;
    void *ctx; // of the protocol's create
};

#define STREAM_COUNTERS(X)                      \
    X(accepted, "connections")                  \
    X(refused, "connections beyond the limits") \
    X(stalled, "connections ended because nothing moved for too long")

struct stream_server_counters {
#define X(name, text) uint64_t name;
    STREAM_COUNTERS(X)
#undef X
};

// One address.
struct stream_listener {
    struct stream_server *server;
    const char *text; // as it was given
    int fd;
    struct loop_watch *watch;
    char unix_path[STREAM_PATH_MAX]; // empty: over IP
    char authority[96];              // as clients reach it
};

struct stream_server {
    const struct stream_protocol *protocol;
    struct stream_server_parts parts;
    struct loop_member member;
    struct stream_listener listeners[ADDRESSES_COUNT_MAX];
    unsigned listener_count; // 0: it does not listen
    unsigned stream_count;
    struct spare spare;
    struct list_link streams;
    struct list_link dirty;
    struct deadlines deadlines;
    struct stream_server_counters counters;
    struct stream *heard; // who has spoken last; NULL: it has ended
    bool is_alone;        // it spoke before that, too, and said one thing
    instant_ns heard_at;  // the turn
    bool is_answered;     // ... in that turn
    bool is_looking;      // what it says next is looked for in the turn that begins
    uint64_t heard_count;
    struct lookout lookout;
};

// It joins the loop as a member.
void stream_server_init(struct stream_server *server, const struct stream_protocol *protocol,
                        const struct stream_server_parts *parts);
// Every stream is destroyed as it is.
void stream_server_fini(struct stream_server *server);

// At all addresses. 0, or a negative errno with a reason; then nothing listens, and it may be tried
// again.
int stream_server_listen(struct stream_server *server, struct why *ret_why);
// No stream comes any more; those that are there stay. Harmless if it does not listen.
void stream_server_close(struct stream_server *server);
