#include "link/pcap.h"

#include <errno.h>
#include <stdlib.h>

#include "link/pcap_file.h"
#include "link/pcap_flow.h"
#include "link/rest.h"

enum { FLOW_BUCKETS = 1024 };

struct pcap_link {
    struct link base;
    struct link_ops ops; // less what the inner link has not
    struct link *inner;
    struct list_link streams; // open ones
    struct rest rest;
    uint32_t serial;
    struct list_link flows[FLOW_BUCKETS]; // recorded connections, by their ports
    struct pcap_file file;
};

struct pcap_stream {
    struct link_stream base;
    struct list_link link; // in `streams`, or at rest
    struct link_stream *inner;
    struct pcap_flow *flow; // NULL: not connected, or not recorded
};

static struct pcap_link *pcap_link_of(const struct link *link)
{
    return (struct pcap_link *)link;
}

static struct pcap_stream *pcap_stream_of(const struct link_stream *stream)
{
    return (struct pcap_stream *)stream;
}

static struct link_stream *inner_of(const struct link_stream *stream)
{
    return pcap_stream_of(stream)->inner;
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct pcap_stream *stream_new(struct pcap_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct pcap_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct pcap_stream, link) : malloc(sizeof *s);
    if (s != NULL) {
        *s = (struct pcap_stream){.base = {.link = &l->base, .owner = owner}};
        list_push_tail(&l->streams, &s->link);
    }
    return s;
}

static void stream_rest(struct pcap_stream *s)
{
    s->base.owner = NULL;
    list_remove(&s->link);
    rest_put(&pcap_link_of(s->base.link)->rest, &s->link);
}

/* ---- flows ----------------------------------------------------------------------------------- */

// False: it is not connected, or of another family.
static bool addresses_of(const struct pcap_stream *s, struct net_flow *ret)
{
    const struct link_ops *ops = s->inner->link->ops;
    struct sockaddr_storage local, peer;
    *ret = (struct net_flow){0};
    return ops->local_addr(s->inner, &local) == 0 && ops->peer_addr(s->inner, &peer) == 0 &&
           net_addr_from_sockaddr((struct sockaddr *)&local, &ret->local, &ret->local_port, NULL) &&
           net_addr_from_sockaddr((struct sockaddr *)&peer, &ret->remote, &ret->remote_port, NULL);
}

// Both ends of a connection land in the same bucket.
static struct list_link *bucket_of(struct pcap_link *l, const struct net_flow *addresses)
{
    return &l->flows[(addresses->local_port ^ addresses->remote_port) % FLOW_BUCKETS];
}

static bool is_recorded_by_other_end(const struct list_link *bucket,
                                     const struct net_flow *addresses)
{
    for (const struct list_link *at = bucket->next; at != bucket; at = at->next) {
        if (pcap_flow_is_mirror(LIST_ENTRY(at, struct pcap_flow, link), addresses)) {
            return true;
        }
    }
    return false;
}

static void flow_begin(struct pcap_stream *s, enum pcap_side initiator)
{
    struct pcap_link *l = pcap_link_of(s->base.link);
    struct net_flow addresses;
    if (!addresses_of(s, &addresses)) {
        return;
    }
    struct list_link *bucket = bucket_of(l, &addresses);
    if (is_recorded_by_other_end(bucket, &addresses)) {
        return;
    }
    s->flow = pcap_flow_create(&l->file, &addresses, initiator, ++l->serial);
    if (s->flow != NULL) {
        list_push_tail(bucket, &s->flow->link);
    }
    pcap_file_flush(&l->file);
}

static void flow_end(struct pcap_stream *s)
{
    if (s->flow != NULL) {
        pcap_flow_destroy(s->flow);
        s->flow = NULL;
        pcap_file_flush(&pcap_link_of(s->base.link)->file);
    }
}

static void flow_data(struct pcap_stream *s, enum pcap_side from, struct span octets)
{
    if (s->flow != NULL && !pcap_flow_data(s->flow, from, octets)) {
        flow_end(s);
    }
}

/* ---- operations that record ------------------------------------------------------------------ */

static int pcap_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct pcap_link *l = pcap_link_of(listener->link);
    struct pcap_stream *s = stream_new(l, NULL);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = l->inner->ops->accept(inner_of(listener), &s->inner);
    if (error != 0) {
        stream_rest(s);
        return error;
    }
    s->inner->owner = s;
    flow_begin(s, PCAP_PEER);
    *ret = &s->base;
    return 0;
}

static void flow_break(struct pcap_stream *s)
{
    if (s->flow != NULL) {
        pcap_flow_reset(s->flow, PCAP_PEER);
        flow_end(s);
    }
}

// Also asked later, for the error that broke the stream.
static int pcap_connect_result(struct link_stream *stream)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    int error = s->inner->link->ops->connect_result(s->inner);
    if (error == 0 && s->flow == NULL) {
        flow_begin(s, PCAP_LOCAL);
    } else if (error != 0 && error != -EINPROGRESS) {
        flow_break(s);
    }
    return error;
}

static ssize_t pcap_recv(struct link_stream *stream, struct mspan into)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    ssize_t len = s->inner->link->ops->recv(s->inner, into);
    if (s->flow == NULL || len == -EAGAIN) {
        return len;
    }
    if (len > 0) {
        flow_data(s, PCAP_PEER, span_of(into.ptr, (size_t)len));
    } else if (len == 0) {
        pcap_flow_fin(s->flow, PCAP_PEER);
    } else {
        flow_break(s);
    }
    pcap_file_flush(&pcap_link_of(stream->link)->file);
    return len;
}

static ssize_t pcap_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    ssize_t taken = s->inner->link->ops->send(s->inner, tx);
    if (taken <= 0) {
        return taken;
    }
    size_t left = (size_t)taken;
    for (unsigned i = 0; left > 0; i++) {
        size_t len = tx->iov[i].iov_len < left ? tx->iov[i].iov_len : left;
        flow_data(s, PCAP_LOCAL, span_of(tx->iov[i].iov_base, len));
        left -= len;
    }
    pcap_file_flush(&pcap_link_of(stream->link)->file);
    return taken;
}

static uint64_t pcap_unsettled(struct link_stream *stream)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->unsettled(inner);
}

static int pcap_shutdown(struct link_stream *stream)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    if (s->flow != NULL) {
        pcap_flow_fin(s->flow, PCAP_LOCAL);
        pcap_file_flush(&pcap_link_of(stream->link)->file);
    }
    return s->inner->link->ops->shutdown(s->inner);
}

static void pcap_close(struct link_stream *stream, bool abort)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    if (s->flow != NULL && abort) {
        pcap_flow_reset(s->flow, PCAP_LOCAL);
    } else if (s->flow != NULL) {
        pcap_flow_fin(s->flow, PCAP_LOCAL);
    }
    flow_end(s);
    s->inner->link->ops->close(s->inner, abort);
    stream_rest(s);
}

/* ---- operations that are handed on ----------------------------------------------------------- */

static int pcap_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                     struct link_stream **ret)
{
    struct pcap_link *l = pcap_link_of(link);
    struct pcap_stream *s = stream_new(l, owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = l->inner->ops->bind(l->inner, addr, flags, s, &s->inner);
    if (error != 0) {
        stream_rest(s);
        return error;
    }
    *ret = &s->base;
    return 0;
}

static int pcap_listen(struct link_stream *stream, int backlog)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->listen(inner, backlog);
}

static int pcap_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->connect(inner, peer);
}

static void pcap_want_out(struct link_stream *stream, bool wanted)
{
    struct link_stream *inner = inner_of(stream);
    inner->link->ops->want_out(inner, wanted);
}

static void pcap_want_in(struct link_stream *stream, bool wanted)
{
    struct link_stream *inner = inner_of(stream);
    inner->link->ops->want_in(inner, wanted);
}

static int pcap_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->local_addr(inner, ret);
}

static int pcap_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->peer_addr(inner, ret);
}

static uint32_t pcap_emss(const struct link_stream *stream)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->emss(inner);
}

static int pcap_set_tos(struct link_stream *stream, uint8_t tos)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->set_tos(inner, tos);
}

static int pcap_route(struct link *link, const struct sockaddr *peer,
                      struct sockaddr_storage *ret_src)
{
    struct link *inner = pcap_link_of(link)->inner;
    return inner->ops->route(inner, peer, ret_src);
}

// The inner link's reports name its own streams; those that were closed since have no owner.
static int pcap_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct link *inner = pcap_link_of(link)->inner;
    int count = inner->ops->poll(inner, ret, max);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct pcap_stream *s = ret[i].stream->owner;
        if (s != NULL) {
            ret[kept++] = (struct link_ready){&s->base, ret[i].what};
        }
    }
    return count < 0 ? count : kept;
}

static instant_ns pcap_next_deadline(struct link *link)
{
    struct link *inner = pcap_link_of(link)->inner;
    return inner->ops->next_deadline == NULL ? INSTANT_NEVER : inner->ops->next_deadline(inner);
}

static void pcap_tcp_counters(const struct link *link, const struct link_stream *stream,
                              counter_each each, void *ctx)
{
    const struct link *inner = pcap_link_of(link)->inner;
    inner->ops->tcp_counters(inner, stream == NULL ? NULL : inner_of(stream), each, ctx);
}

static void pcap_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    const struct link *inner = pcap_link_of(link)->inner;
    inner->ops->packet_counters(inner, each, ctx);
}

static bool pcap_is_busy(struct link *link)
{
    struct link *inner = pcap_link_of(link)->inner;
    return inner->ops->is_busy(inner);
}

static void pcap_wait(struct link *link, duration_ns timeout_ns)
{
    struct link *inner = pcap_link_of(link)->inner;
    inner->ops->wait(inner, timeout_ns);
}

static void pcap_wake(struct link *link)
{
    struct link *inner = pcap_link_of(link)->inner;
    inner->ops->wake(inner);
}

static void pcap_abandon(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    l->file.len = 0; // what stands there is the parent's to write
    pcap_file_close(&l->file);
    l->inner->ops->abandon(l->inner);
}

static void pcap_destroy(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    struct list_link *at;
    while (!list_is_empty(&l->streams)) {
        pcap_close(&LIST_ENTRY(l->streams.next, struct pcap_stream, link)->base, true);
    }
    pcap_file_close(&l->file);
    l->inner->ops->destroy(l->inner);
    while ((at = list_pop_head(&l->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct pcap_stream, link));
    }
    free(l);
}

static const struct link_ops pcap_ops = {
    .name = "pcap",
    .bind = pcap_bind,
    .listen = pcap_listen,
    .accept = pcap_accept,
    .connect = pcap_connect,
    .connect_result = pcap_connect_result,
    .recv = pcap_recv,
    .send = pcap_send,
    .want_out = pcap_want_out,
    .want_in = pcap_want_in,
    .shutdown = pcap_shutdown,
    .close = pcap_close,
    .local_addr = pcap_local_addr,
    .peer_addr = pcap_peer_addr,
    .emss = pcap_emss,
    .set_tos = pcap_set_tos,
    .route = pcap_route,
    .poll = pcap_poll,
    .next_deadline = pcap_next_deadline,
    .is_busy = pcap_is_busy,
    .wait = pcap_wait,
    .wake = pcap_wake,
    .abandon = pcap_abandon,
    .destroy = pcap_destroy,
};

int link_pcap_wrap(struct link *inner, const char *path, struct link **ret)
{
    struct pcap_link *l = malloc(sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    int error = pcap_file_open(&l->file, path);
    if (error != 0) {
        pcap_file_close(&l->file);
        free(l);
        return error;
    }
    l->ops = pcap_ops;
    l->ops.has_segments = inner->ops->has_segments;
    l->ops.unsettled = inner->ops->unsettled != NULL ? pcap_unsettled : NULL;
    l->ops.is_busy = inner->ops->is_busy != NULL ? pcap_is_busy : NULL;
    l->ops.tcp_counters = inner->ops->tcp_counters != NULL ? pcap_tcp_counters : NULL;
    l->ops.packet_counters = inner->ops->packet_counters != NULL ? pcap_packet_counters : NULL;
    l->base.ops = &l->ops;
    l->inner = inner;
    l->serial = 0;
    list_init(&l->streams);
    rest_init(&l->rest);
    for (unsigned i = 0; i < FLOW_BUCKETS; i++) {
        list_init(&l->flows[i]);
    }
    *ret = &l->base;
    return 0;
}

int link_pcap_flush(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    pcap_file_flush(&l->file);
    return l->file.error;
}
