#include "link/link_forward.h"

// The wrapper's own operation, else the one that hands on.
#define FILL(ops, name, forward) ((ops).name = (ops).name != NULL ? (ops).name : (forward))

/* ---- streams --------------------------------------------------------------------------------- */

static struct link_stream *inner_of(const struct link_stream *stream)
{
    return ((const struct link_forward_stream *)stream)->inner;
}

static int stream_listen(struct link_stream *stream, int backlog)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->listen(inner, backlog);
}

static int stream_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->connect(inner, peer);
}

static uint64_t stream_unsettled(struct link_stream *stream)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->unsettled(inner);
}

static void stream_want_out(struct link_stream *stream, bool wanted)
{
    struct link_stream *inner = inner_of(stream);
    inner->link->ops->want_out(inner, wanted);
}

static void stream_want_in(struct link_stream *stream, bool wanted)
{
    struct link_stream *inner = inner_of(stream);
    inner->link->ops->want_in(inner, wanted);
}

static int stream_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct link_stream *inner = inner_of(stream);
    return inner->link->ops->local_addr(inner, ret);
}

static int stream_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct link_stream *inner = inner_of(stream);
    return inner->link->ops->peer_addr(inner, ret);
}

static uint32_t stream_emss(const struct link_stream *stream)
{
    const struct link_stream *inner = inner_of(stream);
    return inner->link->ops->emss(inner);
}

static int stream_set_tos(struct link_stream *stream, uint8_t tos)
{
    struct link_stream *inner = inner_of(stream);
    return inner->link->ops->set_tos(inner, tos);
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct link *inner_link_of(const struct link *link)
{
    return ((const struct link_forward *)link)->inner;
}

static int link_route(struct link *link, const struct sockaddr *peer,
                      struct sockaddr_storage *ret_src)
{
    struct link *inner = inner_link_of(link);
    return inner->ops->route(inner, peer, ret_src);
}

// The inner link's reports name its own streams; those that were closed since have no owner.
static int link_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct link *inner = inner_link_of(link);
    int count = inner->ops->poll(inner, ret, max);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct link_forward_stream *s = ret[i].stream->owner;
        if (s != NULL) {
            ret[kept++] = (struct link_ready){&s->base, ret[i].what};
        }
    }
    return count < 0 ? count : kept;
}

static instant_ns link_next_deadline(struct link *link)
{
    struct link *inner = inner_link_of(link);
    return inner->ops->next_deadline(inner);
}

static void link_wait(struct link *link, duration_ns timeout_ns)
{
    struct link *inner = inner_link_of(link);
    inner->ops->wait(inner, timeout_ns);
}

static void link_wake(struct link *link)
{
    struct link *inner = inner_link_of(link);
    inner->ops->wake(inner);
}

static void link_tcp_counters(const struct link *link, const struct link_stream *stream,
                              counter_each each, void *ctx)
{
    const struct link *inner = inner_link_of(link);
    inner->ops->tcp_counters(inner, stream == NULL ? NULL : inner_of(stream), each, ctx);
}

static void link_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    const struct link *inner = inner_link_of(link);
    inner->ops->packet_counters(inner, each, ctx);
}

static bool link_is_busy(struct link *link)
{
    struct link *inner = inner_link_of(link);
    return inner->ops->is_busy(inner);
}

void link_forward_init(struct link_forward *f, const struct link_ops *own, struct link *inner)
{
    const struct link_ops *has = inner->ops;
    f->ops = *own;
    f->ops.has_segments = has->has_segments;
    FILL(f->ops, listen, stream_listen);
    FILL(f->ops, connect, stream_connect);
    FILL(f->ops, unsettled, has->unsettled != NULL ? stream_unsettled : NULL);
    FILL(f->ops, want_out, stream_want_out);
    FILL(f->ops, want_in, stream_want_in);
    FILL(f->ops, local_addr, stream_local_addr);
    FILL(f->ops, peer_addr, stream_peer_addr);
    FILL(f->ops, emss, stream_emss);
    FILL(f->ops, set_tos, stream_set_tos);
    FILL(f->ops, route, link_route);
    FILL(f->ops, poll, link_poll);
    FILL(f->ops, next_deadline, has->next_deadline != NULL ? link_next_deadline : NULL);
    FILL(f->ops, wait, link_wait);
    FILL(f->ops, wake, link_wake);
    FILL(f->ops, tcp_counters, has->tcp_counters != NULL ? link_tcp_counters : NULL);
    FILL(f->ops, packet_counters, has->packet_counters != NULL ? link_packet_counters : NULL);
    FILL(f->ops, is_busy, has->is_busy != NULL ? link_is_busy : NULL);
    f->base.ops = &f->ops;
    f->inner = inner;
}
