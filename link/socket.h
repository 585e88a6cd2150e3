// The kernel's TCP as a link: IPv4 and IPv6, one epoll set, level-triggered.
//
//   socket.c        the link, streams: addresses, connecting, listening, accepting, closing
//   socket_io.c     octets, interest, waiting
//
// What a user of the link can rely on beyond base/port_link.h:
//   - A report may be stale or spurious: the stream was closed since (its owner is NULL), or has
//     nothing any more. Reports of LINK_READY_ERR go on until recv or connect_result has named the
//     error, or the stream is closed.
//   - `wake` is kept for the next `wait`.
//   - Where descriptors have run out, `accept` resets the waiting connection and returns -EMFILE
//     and the like, so that the next look finds another one or none.
//   - Without LINK_BIND_REUSE a port can be taken of which only ended connections are left, as the
//     kernel's RDMA connection manager allows; two streams never share one.
#pragma once

#include <stdint.h>

#include "base/port_link.h"
#include "base/time.h"
#include "base/trace.h"

struct link_socket_config {
    // A peer that acknowledges nothing, or takes nothing, for so long is taken as gone: its stream
    // fails with -ETIMEDOUT. 0: never.
    duration_ns peer_timeout_ns;
    uint32_t sndbuf_len, rcvbuf_len; // octets; 0: the kernel sizes them
    struct trace *trace;             // may be NULL
};

// Returns 0 or a negative errno (-EMFILE, -ENOMEM …).
int link_socket_create(const struct link_socket_config *config, struct link **ret);

// A connected socket of another kind, not TCP's, is watched by the link and closed with it: what it
// is ready for is reported of a stream with the fact LINK_IS_OF_HOST and this owner. 0, and the
// descriptor is the link's, or a negative errno.
int link_socket_adopt(struct link *link, int fd, void *owner, struct link_stream **ret);
// A mere close(2), whoever else has the same socket.
void link_socket_release(struct link_stream *stream);
