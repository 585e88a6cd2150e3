// The port by which RDMA Writes and Reads go past the stream: octets are put into the memory of the
// peer's process, or copied out of it, and it takes no part in that. Implemented by a link that has
// such peers (link/local/), driven by rnic/; a link without has none (struct link in
// base/port_link.h). The keys of a peer are known from its mirror (base/key_mirror.h).
//
// What cannot go so goes by the stream, where whatever is wrong with it is found out.
//
// Threads: as for struct link_ops, but for `put` and `copy`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key_mirror.h"
#include "base/span.h"

struct link;
struct link_stream;

// An RDMA Write, whole.
struct push {
    uint32_t stag; // the peer's
    uint64_t to;   // tagged offset of its first octet
    size_t len;    // octets, at least 1
    const struct span *pieces;
    unsigned piece_count;
};

// What an RDMA Read asks for at a time.
struct pull {
    uint32_t stag; // the peer's
    uint64_t to;   // tagged offset of its first octet
    size_t len;    // octets, at least 1
    const struct mspan *pieces;
    unsigned piece_count;
};

enum {
    PULL_LEN_MAX = 1 << 20, // octets of one: who waits for a copy waits for no more
    PULL_PIECES_MAX = 4,    // ... to so many places
    PULL_RUN_MAX = 16,      // those that follow each other, in one call
    PULL_RUN_LEN = 1 << 18, // ... up to so many octets: beyond, the call is what costs least
    PULL_RUN_PIECES_MAX = 32,
};

enum {
    PUSH_LEN_MAX = 4096, // octets of one: of longer ones each end copies a part, at a time
    PUSH_PIECES_MAX = 16,
};

static inline bool push_is_short(const struct push *push)
{
    return push->len <= PUSH_LEN_MAX && push->piece_count <= PUSH_PIECES_MAX;
}

// What becomes of a Write or Read that would go past the stream.
enum past_answer {
    PAST_REFUSED, // it goes by the stream, and what follows will
    PAST_BEHIND,  // it goes by the stream, as what was sent before has not been taken yet
    PAST_LATER,   // ask again in the next turn, or behind those that have begun
    PAST_BEGUN,   // or may begin
};

// Where the octets of a pull lie, and by which key.
struct pull_source {
    uint64_t addr;
    size_t len;
    uint32_t stag;
    uint64_t generation; // of the key
};

// Pulls by one stream that one system call copies, in their order. What it costs to look at the
// other process is mostly the same for one of 4 KiB and for all of these.
struct pull_run {
    int process;
    uint64_t nonce_addr, nonce; // what is to be found in that process
    uint64_t opening;           // of what lets this stream's peer in
    unsigned count, piece_count;
    size_t len; // octets of all
    struct pull_source sources[PULL_RUN_MAX];
    struct mspan pieces[PULL_RUN_PIECES_MAX];
};

static inline void pull_run_begin(struct pull_run *run)
{
    run->count = run->piece_count = 0;
    run->len = 0;
}

// The first always has.
static inline bool pull_run_has_room(const struct pull_run *run, const struct pull *pull)
{
    return run->count == 0 || (run->count < PULL_RUN_MAX && run->len + pull->len <= PULL_RUN_LEN &&
                               run->piece_count + pull->piece_count <= PULL_RUN_PIECES_MAX);
}

// A push that has begun.
struct push_aimed {
    void *by;    // the link's: its memory stays until `conclude`, whatever becomes of a stream
    int process; // into whose memory
    struct key key;
    uint64_t addr; // there
    size_t len;
    unsigned piece_count;
    struct span pieces[PUSH_PIECES_MAX];
};

struct push_ops {
    // ---- whose memory it is

    // Where this process shows its keys; NULL: there is no memory for it. As long as the link.
    struct key_mirror *(*mirror)(struct link *link);
    // Behind the withdrawal of a key, and again until it says true: no peer writes by it any more.
    // Only a peer that is inside of the call is to be waited for, without a lock: it may be long in
    // coming out, and it may lie.
    bool (*revoke)(struct link *link, uint64_t generation);
    // The stream's peer may write or read by the keys of this domain from now on, as `rights` say
    // (enum key_right). False: not yet, ask again. True: that is settled, also where it will never
    // come to it.
    bool (*admit)(struct link_stream *stream, uint32_t pd, unsigned rights);
    // It may not any more, and what it reads from now on is worth nothing to it. 0: it does not
    // write either. Else it has not come out of the call for long, and is a leaver of that number.
    // Closing a stream does the same.
    uint64_t (*expel)(struct link_stream *stream);
    // As `revoke`: the leaver of that number has come out. 0 is none.
    bool (*has_left)(struct link *link, uint64_t leaver);

    // ---- who writes

    // BEGUN: it may go there, and all that was sent on the stream before has been taken by the
    // peer.
    // `put` and `conclude` follow. NULL in the place of what has begun: nothing does, it could.
    enum past_answer (*aim)(struct link_stream *stream, const struct push *push,
                            struct push_aimed *ret);
    // Puts the octets there, the last ones behind all others. In any thread, without a lock: the
    // peer's memory may be long in coming. False: nothing has happened that the same Write on the
    // stream does not do again.
    bool (*put)(const struct push_aimed *push);
    // Behind it, also where the stream has been closed meanwhile.
    void (*conclude)(const struct push_aimed *push, bool is_done);

    // ---- who reads

    // BEGUN: all octets may be had, it is in the run, which has room for it; and all that was sent
    // on the stream before has been taken by the peer. BEHIND: it has not. REFUSED: they may not,
    // or not so.
    enum past_answer (*locate)(struct link_stream *stream, const struct pull *pull,
                               struct pull_run *run);
    // Copies them here. In any thread, without a lock: the peer's memory may be long in coming.
    // So many from the first on are whole.
    unsigned (*copy)(const struct pull_run *run);
    // Behind the copy: of the first `count`, so many from the first on are good, since their keys
    // held until it was done.
    unsigned (*confirm)(struct link_stream *stream, const struct pull_run *run, unsigned count);
};
