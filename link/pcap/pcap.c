#include "link/pcap/pcap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/span.h"
#include "link/link_forward.h"
#include "link/link_none.h"
#include "link/pcap/file.h"
#include "link/pcap/flow.h"
#include "link/rest.h"
#include "net/addr.h"

enum { FLOW_BUCKETS = 1024 };

struct pcap_link {
    struct link_forward forward;
    struct list_link streams; // open ones
    struct rest rest;
    uint32_t serial;
    struct list_link flows[FLOW_BUCKETS]; // recorded connections, by their ports
    struct pcap_file file;
};

struct pcap_stream {
    struct link_forward_stream forward;
    struct list_link link;  // in `streams`, or at rest
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
    return pcap_stream_of(stream)->forward.inner;
}

/* ---- streams --------------------------------------------------------------------------------- */

static struct pcap_stream *stream_new(struct pcap_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct pcap_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct pcap_stream, link) : malloc(sizeof *s);
    if (s != NULL) {
        *s = (struct pcap_stream){.forward.base = {.link = &l->forward.base,
                                                   .owner = owner,
                                                   .facts = l->forward.base.facts}};
        list_push_tail(&l->streams, &s->link);
    }
    return s;
}

static void stream_rest(struct pcap_stream *s)
{
    s->forward.base.owner = NULL;
    list_remove(&s->link);
    rest_put(&pcap_link_of(s->forward.base.link)->rest, &s->link);
}

/* ---- flows ----------------------------------------------------------------------------------- */

// False: it is not connected, or of another family.
static bool addresses_of(const struct pcap_stream *s, struct net_flow *ret)
{
    struct sockaddr_storage local, peer;
    *ret = (struct net_flow){0};
    return link_local_addr(s->forward.inner, &local) == 0 &&
           link_peer_addr(s->forward.inner, &peer) == 0 &&
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
    struct pcap_link *l = pcap_link_of(s->forward.base.link);
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
        pcap_file_flush(&pcap_link_of(s->forward.base.link)->file);
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
    int error = link_accept(inner_of(listener), &s->forward.inner);
    if (error != 0) {
        stream_rest(s);
        return error;
    }
    s->forward.inner->owner = s;
    flow_begin(s, PCAP_PEER);
    *ret = &s->forward.base;
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
    int error = link_connect_result(s->forward.inner);
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
    ssize_t len = link_recv(s->forward.inner, into);
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
    ssize_t taken = link_send(s->forward.inner, tx);
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

static int pcap_shutdown(struct link_stream *stream)
{
    struct pcap_stream *s = pcap_stream_of(stream);
    if (s->flow != NULL) {
        pcap_flow_fin(s->flow, PCAP_LOCAL);
        pcap_file_flush(&pcap_link_of(stream->link)->file);
    }
    return link_shutdown(s->forward.inner);
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
    link_close(s->forward.inner, abort);
    stream_rest(s);
}

/* ---- streams and links that come and go ------------------------------------------------------ */

static int pcap_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                     struct link_stream **ret)
{
    struct pcap_link *l = pcap_link_of(link);
    struct pcap_stream *s = stream_new(l, owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = link_bind(l->forward.inner, addr, flags, s, &s->forward.inner);
    if (error != 0) {
        stream_rest(s);
        return error;
    }
    *ret = &s->forward.base;
    return 0;
}

static void pcap_abandon(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    pcap_file_abandon(&l->file);
    link_abandon(l->forward.inner);
}

static void pcap_destroy(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    struct list_link *at;
    while (!list_is_empty(&l->streams)) {
        pcap_close(&LIST_ENTRY(l->streams.next, struct pcap_stream, link)->forward.base, true);
    }
    pcap_file_close(&l->file);
    link_destroy(l->forward.inner);
    while ((at = list_pop_head(&l->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct pcap_stream, link));
    }
    free(l);
}

static const struct link_ops pcap_ops = {
    .name = "pcap",
    .bind = pcap_bind,
    .listen = link_forward_listen,
    .accept = pcap_accept,
    .connect = link_forward_connect,
    .connect_result = pcap_connect_result,
    .recv = pcap_recv,
    .borrow = link_none_borrow,
    .give_back = link_none_give_back,
    .set_place = link_none_set_place,
    .resume = link_none_resume,
    .send = pcap_send,
    .unsettled = link_forward_unsettled,
    .want_out = link_forward_want_out,
    .want_in = link_forward_want_in,
    .shutdown = pcap_shutdown,
    .close = pcap_close,
    .local_addr = link_forward_local_addr,
    .peer_addr = link_forward_peer_addr,
    .emss = link_forward_emss,
    .set_tos = link_forward_set_tos,
    .route = link_forward_route,
    .poll = link_forward_poll,
    .next_deadline = link_forward_next_deadline,
    .may_wait = link_forward_may_wait,
    .wait = link_forward_wait,
    .rise = link_forward_rise,
    .wake = link_forward_wake,
    .descriptor = link_forward_descriptor,
    .stream_counters = link_forward_stream_counters,
    .packet_counters = link_forward_packet_counters,
    .is_busy = link_forward_is_busy,
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
    link_forward_init(&l->forward, &pcap_ops, inner);
    l->forward.base.journal = pcap_file_journal(&l->file);
    l->serial = 0;
    list_init(&l->streams);
    rest_init(&l->rest);
    for (unsigned i = 0; i < FLOW_BUCKETS; i++) {
        list_init(&l->flows[i]);
    }
    *ret = &l->forward.base;
    return 0;
}

int link_pcap_flush(struct link *link)
{
    struct pcap_link *l = pcap_link_of(link);
    pcap_file_flush(&l->file);
    return l->file.error;
}
