// The link port: how octets reach a peer. A back end (link/) implements all of `link_ops`, and what
// it has not is a fact of the link; rnic/ drives it and knows no file descriptor. A stream is one
// TCP connection, or the bound and listening place of one. Nothing here blocks, except `wait` up to
// its time-out.
//
// Threads: all calls on one link are serialised by the shard that owns it; `wait` and `wake` alone
// may run beside the others. Failures are negative errno values.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "base/port_journal.h"
#include "base/port_place.h"
#include "base/span.h"
#include "base/time.h"

struct link_ops;
struct push_ops;

enum link_facts {
    // A record is a segment, whoever the peer is: FPDUs are worth cutting to fit.
    LINK_HAS_SEGMENTS = 1,
    // Octets beyond a hole are known: `set_place` and `resume` are for it alone.
    LINK_HAS_PLACES = 2,
    // Connections are of this process, and end with it: `unsettled` and `is_busy` say what the peer
    // may still lack. Elsewhere they answer that it is nothing.
    LINK_IS_OF_PROCESS = 4,
    // Octets never leave the host, and nothing can happen to them on the way: a CRC is for those
    // who insist. Of a stream that connects before it is known whether the peer agrees.
    LINK_IS_OF_HOST = 8,
    // Octets can be looked at where they lie: `borrow` and `give_back` are for it alone.
    LINK_LENDS = 16,
};

// A back end embeds this first in a struct of its own.
struct link {
    const struct link_ops *ops;
    unsigned facts; // enum link_facts: what streams of it may have
    // Of streams whose peer's memory can be written past them (base/port_push.h); NULL: none can.
    const struct push_ops *pushes;
    struct journal *journal; // for records beside its octets; NULL: nobody has asked for them
};

// A back end embeds this first; `owner` is whatever the user of the stream wants to find again.
struct link_stream {
    struct link *link;
    void *owner;
    unsigned facts; // enum link_facts: what this one has, once it is connected
};

enum link_ready_what {
    LINK_READY_IN = 1,      // octets, a peer's FIN, or (listener) a connection to accept
    LINK_READY_OUT = 2,     // room to send, or a connect that came to its end
    LINK_READY_ERR = 4,     // the stream is broken: recv or connect_result names the error
    LINK_READY_SETTLED = 8, // see `unsettled`
};

struct link_ready {
    struct link_stream *stream;
    unsigned what; // enum link_ready_what
};

enum link_bind_flags {
    LINK_BIND_REUSE = 1,   // SO_REUSEADDR
    LINK_BIND_V6_ONLY = 2, // an IPv6 wildcard does not take IPv4 (rdma option AFONLY)
};

// What one send call hands over. `record_ends[i]` is the index into `iov` behind the last element
// of record i; records matter to peers that want one FPDU per TCP segment (RFC 5044 section 4.2)
// and `record_count` is 0 where the stream may be cut anywhere.
struct link_tx {
    const struct iovec *iov;
    unsigned iov_count;
    const uint16_t *record_ends;
    unsigned record_count;
};

struct link_ops {
    const char *name;

    // Takes a local address (port 0: any free one) without listening yet. NULL address: none.
    int (*bind)(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                struct link_stream **ret);
    int (*listen)(struct link_stream *stream, int backlog);
    // One waiting connection, or -EAGAIN. The new stream's owner is NULL until the caller sets it.
    int (*accept)(struct link_stream *listener, struct link_stream **ret);
    // Starts connecting: -EINPROGRESS, then LINK_READY_OUT or _ERR, then connect_result.
    int (*connect)(struct link_stream *stream, const struct sockaddr *peer);
    int (*connect_result)(struct link_stream *stream);

    // Octets read (at least 1), 0 at the peer's FIN, -EAGAIN, or another negative errno.
    ssize_t (*recv)(struct link_stream *stream, struct mspan into);
    // As `recv`, without a copy: the next octets, as far as they lie side by side, until they are
    // given back or the stream is closed. `ret_is_cut`: those that follow will lie elsewhere. The
    // peer's process can write to them meanwhile: what decides about anything is copied out first.
    ssize_t (*borrow)(struct link_stream *stream, struct span *ret, bool *ret_is_cut);
    // The first `len` octets of what was borrowed are done with; all others come again.
    void (*give_back)(struct link_stream *stream, size_t len);
    // From now on octets go to `port` when they arrive, in order or beyond a hole: `recv` lets the
    // link read what has come, writes nothing and returns how many octets the port was offered.
    // Their positions count from the beginning of the stream, what recv gave before included. The
    // port may call nothing of this stream but `unsettled`.
    void (*set_place)(struct link_stream *stream, const struct place_port *port);
    // The port may go on after it said PLACE_BUFFER in order, or not now to on_advance.
    void (*resume)(struct link_stream *stream);
    // Octets taken (possibly fewer than given), -EAGAIN, or another negative errno.
    ssize_t (*send)(struct link_stream *stream, const struct link_tx *tx);
    // Of the octets taken, how many nobody but this process sends again: they are not acknowledged.
    // What changes about that is reported, LINK_READY_SETTLED, until it is asked for.
    uint64_t (*unsettled)(struct link_stream *stream);
    // Asks for LINK_READY_OUT when there is room again; false withdraws the wish.
    void (*want_out)(struct link_stream *stream, bool wanted);
    // Withdraws or renews the interest in LINK_READY_IN (a receiver that must not read on).
    void (*want_in)(struct link_stream *stream, bool wanted);
    // Sends FIN behind what was sent; receiving goes on.
    int (*shutdown)(struct link_stream *stream);
    // Frees the stream. `abort`: reset the connection instead of an orderly end.
    void (*close)(struct link_stream *stream, bool abort);

    int (*local_addr)(const struct link_stream *stream, struct sockaddr_storage *ret);
    int (*peer_addr)(const struct link_stream *stream, struct sockaddr_storage *ret);
    // The effective maximum segment size in octets (RFC 5044 section 2.2: EMSS).
    uint32_t (*emss)(const struct link_stream *stream);
    int (*set_tos)(struct link_stream *stream, uint8_t tos);
    // Which local address a packet to `peer` would leave from. -ENETUNREACH and the like.
    int (*route)(struct link *link, const struct sockaddr *peer, struct sockaddr_storage *ret_src);

    // Looks, fills `ret` and returns how many are ready. What is due in the link happens first.
    int (*poll)(struct link *link, struct link_ready *ret, unsigned max);
    // When `poll` is due even if nothing arrives.
    instant_ns (*next_deadline)(struct link *link);
    // Who is about to `wait` asks first, in a call like any other: false if there is something to
    // be found, or will be at once. What comes after a yes ends the next `wait`.
    bool (*may_wait)(struct link *link);
    // Sleeps until `poll` may find something, or for `timeout_ns` (INSTANT_NEVER: no limit). Beside
    // other calls: see Threads above.
    void (*wait)(struct link *link, duration_ns timeout_ns);
    // In place of a `wait` for no time, by who waited at `descriptor` and saw that it was not
    // readable: the next `poll` need not ask the system for what makes it so. Who has nothing to
    // spare has link_rise_by_wait.
    void (*rise)(struct link *link);
    // Makes a `wait` under way, or the next one, return at once. From any thread or signal handler.
    void (*wake)(struct link *link);
    // A descriptor of the link's that is readable while `wait` would not sleep, for who waits for
    // several links. -EOPNOTSUPP: time is not real there.
    int (*descriptor)(const struct link *link);
    // What our own TCP has counted: for the connection (or listener) of `stream`, which is the
    // link's, or NULL: for all connections that were closed. Nothing of the kernel's TCP.
    void (*stream_counters)(const struct link *link, const struct link_stream *stream,
                            counter_each each, void *ctx);
    // Likewise what became of packets.
    void (*packet_counters)(const struct link *link, counter_each each, void *ctx);
    // Octets or a FIN that were taken are not acknowledged yet, and nobody but this process sends
    // them again: it had better not exit now.
    bool (*is_busy)(struct link *link);
    // Closes descriptors only, touching no connection: the child of a fork lets go of its parent's.
    void (*abandon)(struct link *link);
    void (*destroy)(struct link *link);
};

/* ---- calls, as above ------------------------------------------------------------------------- */

static inline int link_bind(struct link *link, const struct sockaddr *addr, unsigned flags,
                            void *owner, struct link_stream **ret)
{
    return link->ops->bind(link, addr, flags, owner, ret);
}

static inline int link_listen(struct link_stream *stream, int backlog)
{
    return stream->link->ops->listen(stream, backlog);
}

static inline int link_accept(struct link_stream *listener, struct link_stream **ret)
{
    return listener->link->ops->accept(listener, ret);
}

static inline int link_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    return stream->link->ops->connect(stream, peer);
}

static inline int link_connect_result(struct link_stream *stream)
{
    return stream->link->ops->connect_result(stream);
}

static inline ssize_t link_recv(struct link_stream *stream, struct mspan into)
{
    return stream->link->ops->recv(stream, into);
}

static inline ssize_t link_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut)
{
    return stream->link->ops->borrow(stream, ret, ret_is_cut);
}

static inline void link_give_back(struct link_stream *stream, size_t len)
{
    stream->link->ops->give_back(stream, len);
}

static inline void link_set_place(struct link_stream *stream, const struct place_port *port)
{
    stream->link->ops->set_place(stream, port);
}

static inline void link_resume(struct link_stream *stream)
{
    stream->link->ops->resume(stream);
}

static inline ssize_t link_send(struct link_stream *stream, const struct link_tx *tx)
{
    return stream->link->ops->send(stream, tx);
}

static inline uint64_t link_unsettled(struct link_stream *stream)
{
    return stream->link->ops->unsettled(stream);
}

static inline void link_want_out(struct link_stream *stream, bool wanted)
{
    stream->link->ops->want_out(stream, wanted);
}

static inline void link_want_in(struct link_stream *stream, bool wanted)
{
    stream->link->ops->want_in(stream, wanted);
}

static inline int link_shutdown(struct link_stream *stream)
{
    return stream->link->ops->shutdown(stream);
}

static inline void link_close(struct link_stream *stream, bool abort)
{
    stream->link->ops->close(stream, abort);
}

static inline int link_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    return stream->link->ops->local_addr(stream, ret);
}

static inline int link_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    return stream->link->ops->peer_addr(stream, ret);
}

static inline uint32_t link_emss(const struct link_stream *stream)
{
    return stream->link->ops->emss(stream);
}

static inline int link_set_tos(struct link_stream *stream, uint8_t tos)
{
    return stream->link->ops->set_tos(stream, tos);
}

static inline int link_route(struct link *link, const struct sockaddr *peer,
                             struct sockaddr_storage *ret_src)
{
    return link->ops->route(link, peer, ret_src);
}

static inline int link_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    return link->ops->poll(link, ret, max);
}

static inline instant_ns link_next_deadline(struct link *link)
{
    return link->ops->next_deadline(link);
}

static inline bool link_may_wait(struct link *link)
{
    return link->ops->may_wait(link);
}

static inline void link_wait(struct link *link, duration_ns timeout_ns)
{
    link->ops->wait(link, timeout_ns);
}

static inline void link_rise(struct link *link)
{
    link->ops->rise(link);
}

static inline void link_rise_by_wait(struct link *link)
{
    link_wait(link, 0);
}

static inline void link_wake(struct link *link)
{
    link->ops->wake(link);
}

static inline int link_descriptor(const struct link *link)
{
    return link->ops->descriptor(link);
}

static inline void link_stream_counters(const struct link *link, const struct link_stream *stream,
                                        counter_each each, void *ctx)
{
    link->ops->stream_counters(link, stream, each, ctx);
}

static inline void link_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    link->ops->packet_counters(link, each, ctx);
}

static inline bool link_is_busy(struct link *link)
{
    return link->ops->is_busy(link);
}

static inline void link_abandon(struct link *link)
{
    link->ops->abandon(link);
}

static inline void link_destroy(struct link *link)
{
    link->ops->destroy(link);
}
