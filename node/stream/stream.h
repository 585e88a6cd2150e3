// A client's byte stream, embedded in a protocol's connection: its socket, what has come and is not
// used, what silence means. A protocol says what the octets are:
//
//     take    uses what has come, one step, and says whether it needs more
//     flush   sends what is to go, with stream_send
//     wants_input, expects    what may come next, and what has to
//
// All of it runs in the loop's thread. A call touches the stream; at the end of the batch each
// touched one is taken further, flushed, and waits for what it needs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"
#include "node/interface/uma_tts.h"
#include "node/loop/loop.h"
#include "node/stream/progress.h"

struct stream_server;

struct stream {
    struct stream_server *server;
    int fd; // -1: it has ended
    struct loop_watch *watch;
    uint32_t watched;           // events
    char host[CLIENT_HOST_MAX]; // who it is, for limits
    uint8_t *in;                // in_len of its protocol; NULL: nothing has come
    uint32_t in_at, in_len;     // what has come and is not used: [in_at, in_len)
    bool is_dry;                // the last look at the socket found it empty
    bool is_short;              // ... and what has come needs more
    unsigned step_count;        // that take has gone on by, when it was last its turn
    struct lookout lookout;     // for the rest of a message that has begun to come
    bool is_lingering;
    // When it ends unless something is done about it: the earliest of the protocol's own, which is
    // for a beginning at first, and what is awaited.
    instant_ns silent_until_ns;
    struct progress receiving, sending;
    struct deadline deadline;
    struct list_link link;       // all of its server
    struct list_link dirty_link; // the touched ones
};

enum stream_verdict {
    STREAM_GOES_ON,
    STREAM_NEEDS_MORE, // octets
    STREAM_STOPS,      // until something else has happened
    STREAM_LEAVES,     // what is ready to go is sent, then the stream ends
};

struct stream_protocol {
    // What the operator reads: "NAME: a PEER at 192.0.2.7 is refused: the node has as many TITLE
    // connections as it can".
    const char *name, *peer, *title;
    const char *default_port;                // of an address without one; NULL: it must have one
    unsigned stream_max, stream_of_host_max; // at a time, from one address
    uint32_t in_len;                         // read at once
    duration_ns handshake_ns;                // the first silent_until_ns

    // A connection with its stream, all zero but for what the protocol sets; NULL without memory.
    struct stream *(*create)(void *ctx);
    // It is accepted. False: no memory, it ends.
    bool (*begin)(struct stream *s);
    enum stream_verdict (*take)(struct stream *s, instant_ns now);
    // Where octets may be received straight into place, `*ret_len` of them, or NULL; and then they
    // have been. Asked only if all that has come is used.
    uint8_t *(*direct)(struct stream *s, uint32_t *ret_len);
    void (*received)(struct stream *s, uint32_t len, instant_ns now);
    // Would take use what comes next?
    bool (*wants_input)(const struct stream *s);
    // Should the socket be looked at, although it was not reported readable? NULL: never.
    bool (*wants_look)(const struct stream *s);
    // 0: all is sent. -EAGAIN: the rest when there is room again. Another negative errno: the
    // stream is over, by the peer or because all is said.
    int (*flush)(struct stream *s, instant_ns now);
    // Sets silent_until_ns, and stream_await what the peer owes.
    void (*expects)(struct stream *s, instant_ns now);
    // The socket is closed. What is lent to the stream goes back.
    void (*on_end)(struct stream *s, instant_ns now);
    // Asked each time it is touched after that: false while something is under way; else the
    // connection takes its leave of the agents, and destroy follows.
    bool (*leave)(struct stream *s);
    // Gives all memory back, also of a stream that has not ended, when its server goes.
    void (*destroy)(struct stream *s);
};

/* ---- for protocols --------------------------------------------------------------------------- */

// Something is to be sent, or its state changed.
void stream_touch(struct stream *s);
// How many octets have gone, or a negative errno; -EAGAIN: no room.
ssize_t stream_send(struct stream *s, struct iovec *iov, unsigned count, instant_ns now);
// Does the peer owe octets, or room for ours, for which it holds memory? See progress.h.
void stream_await(struct stream *s, bool is_receiving, bool is_sending, instant_ns now);
// All is sent, and the peer is told so; it may still speak. Harmless a second time.
void stream_say_no_more(struct stream *s);
// Throws away what has come since: closing with it unread would be a reset, and answers on their
// way be lost.
void stream_discard(struct stream *s);

/* ---- for the server -------------------------------------------------------------------------- */

// Takes the socket over; without memory it is closed.
void stream_open(struct stream_server *server, int fd, const char *host, instant_ns now);
// Its socket, of which nothing has been told.
void stream_look(struct stream *s, instant_ns now);
// The end of a batch.
void stream_update(struct stream *s, instant_ns now);
// The deadline has passed: what the kernel has for the peer goes with the stream.
void stream_abort(struct stream *s, instant_ns now);
// The server goes.
void stream_destroy(struct stream *s);
