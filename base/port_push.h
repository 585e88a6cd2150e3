// The port by which RDMA Writes go past the stream: their octets are put into the memory of the
// peer's process, which takes no part in it. Implemented by a link that has such peers
// (link/local/), driven by rnic/; a link without has none (struct link in base/port_link.h). The
// keys of a peer are known from its mirror (base/key_mirror.h).
//
// A Write that cannot go so goes by the stream, where whatever is wrong with it is found out.
//
// Threads: as for struct link_ops.
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

struct push_ops {
    // ---- whose memory it is

    // Where this process shows its keys; NULL: there is no memory for it. As long as the link.
    struct key_mirror *(*mirror)(struct link *link);
    // Behind the withdrawal of a key: returns when no peer writes by it any more. Only a peer that
    // is inside of the call is waited for.
    void (*revoke)(struct link *link, uint64_t generation);
    // The stream's peer may write by the keys of this domain from now on. False: not yet, ask
    // again. True: that is settled, also where it will never come to it.
    bool (*admit)(struct link_stream *stream, uint32_t pd);
    // It may not any more, and when this returns it does not. Closing a stream does the same.
    void (*expel)(struct link_stream *stream);

    // ---- who writes

    // True: all octets are in the peer's memory, the last of them behind all others, and everything
    // that was sent on the stream before has been taken by the peer. False: nothing has happened
    // that the same Write on the stream does not do again.
    bool (*push)(struct link_stream *stream, const struct push *push);
};
