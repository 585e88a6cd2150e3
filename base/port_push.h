// The port by which RDMA Writes and Reads go past the stream: octets are put into the memory of the
// peer's process, or copied out of it, and it takes no part in that. Implemented by a link that has
// such peers (link/local/), driven by rnic/; a link without has none (struct link in
// base/port_link.h). The keys of a peer are known from its mirror (base/key_mirror.h).
//
// What cannot go so goes by the stream, where whatever is wrong with it is found out.
//
// Threads: as for struct link_ops, but for `copy`.
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
};

enum {
    PULL_LEN_MAX = 1 << 20, // octets of one: who waits for a copy waits for no more
    PULL_PIECES_MAX = 4,    // ... to so many places
};

enum pull_answer {
    PULL_REFUSED, // it goes by the stream, and what follows will
    PULL_BEHIND,  // it goes by the stream, as what was sent before has not been taken yet
    PULL_LATER,   // ask again in the next turn
    PULL_BEGUN,   // or may begin
};

// Where the octets of a pull lie, and by which key.
struct pull_source {
    int process;
    uint64_t addr;
    size_t len;
    uint64_t nonce_addr, nonce; // what is to be found in that process
    uint32_t stag;
    uint64_t generation; // of the key
    uint64_t opening;    // of what lets this stream's peer in
};

struct push_ops {
    // ---- whose memory it is

    // Where this process shows its keys; NULL: there is no memory for it. As long as the link.
    struct key_mirror *(*mirror)(struct link *link);
    // Behind the withdrawal of a key: returns when no peer writes by it any more. Only a peer that
    // is inside of the call is waited for.
    void (*revoke)(struct link *link, uint64_t generation);
    // The stream's peer may write or read by the keys of this domain from now on, as `rights` say
    // (enum key_right). False: not yet, ask again. True: that is settled, also where it will never
    // come to it.
    bool (*admit)(struct link_stream *stream, uint32_t pd, unsigned rights);
    // It may not any more. When this returns it does not write, and what it reads from now on is
    // worth nothing to it. Closing a stream does the same.
    void (*expel)(struct link_stream *stream);

    // ---- who writes

    // True: all octets are in the peer's memory, the last of them behind all others, and everything
    // that was sent on the stream before has been taken by the peer. False: nothing has happened
    // that the same Write on the stream does not do again.
    bool (*push)(struct link_stream *stream, const struct push *push);

    // ---- who reads

    // BEGUN: all octets may be had from there, and all that was sent on the stream before has
    // been taken by the peer. BEHIND: it has not. REFUSED: they may not, or not so.
    enum pull_answer (*locate)(struct link_stream *stream, const struct pull *pull,
                               struct pull_source *ret);
    // Copies them here. In any thread, without a lock: the peer's memory may be long in coming.
    // False: not all of them.
    bool (*copy)(const struct pull_source *source, const struct mspan *pieces,
                 unsigned piece_count);
    // Behind the copy: whether the key held until it was done, so that the octets are good.
    bool (*confirm)(struct link_stream *stream, const struct pull_source *source);
};
