#include "link/link_forward.h"

#include "base/time.h"

/* ---- streams --------------------------------------------------------------------------------- */

static struct link_stream *inner_of(const struct link_stream *stream)
{
    return ((const struct link_forward_stream *)stream)->inner;
}

int link_forward_listen(struct link_stream *stream, int backlog)
{
    return link_listen(inner_of(stream), backlog);
}

int link_forward_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    return link_connect(inner_of(stream), peer);
}

uint64_t link_forward_unsettled(struct link_stream *stream)
{
    return link_unsettled(inner_of(stream));
}

void link_forward_want_out(struct link_stream *stream, bool wanted)
{
    link_want_out(inner_of(stream), wanted);
}

void link_forward_want_in(struct link_stream *stream, bool wanted)
{
    link_want_in(inner_of(stream), wanted);
}

int link_forward_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    return link_local_addr(inner_of(stream), ret);
}

int link_forward_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    return link_peer_addr(inner_of(stream), ret);
}

uint32_t link_forward_emss(const struct link_stream *stream)
{
    return link_emss(inner_of(stream));
}

int link_forward_set_tos(struct link_stream *stream, uint8_t tos)
{
    return link_set_tos(inner_of(stream), tos);
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct link *inner_link_of(const struct link *link)
{
    return ((const struct link_forward *)link)->inner;
}

int link_forward_route(struct link *link, const struct sockaddr *peer,
                       struct sockaddr_storage *ret_src)
{
    return link_route(inner_link_of(link), peer, ret_src);
}

// A stream that was closed has no owner.
int link_forward_reports(struct link_ready *reports, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct link_forward_stream *s = reports[i].stream->owner;
        if (s != NULL) {
            reports[kept++] = (struct link_ready){&s->base, reports[i].what};
        }
    }
    return kept;
}

int link_forward_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    int count = link_poll(inner_link_of(link), ret, max);
    return count < 0 ? count : link_forward_reports(ret, count);
}

instant_ns link_forward_next_deadline(struct link *link)
{
    return link_next_deadline(inner_link_of(link));
}

bool link_forward_may_wait(struct link *link)
{
    return link_may_wait(inner_link_of(link));
}

void link_forward_wait(struct link *link, duration_ns timeout_ns)
{
    link_wait(inner_link_of(link), timeout_ns);
}

void link_forward_rise(struct link *link)
{
    link_rise(inner_link_of(link));
}

void link_forward_wake(struct link *link)
{
    link_wake(inner_link_of(link));
}

int link_forward_descriptor(const struct link *link)
{
    return link_descriptor(inner_link_of(link));
}

void link_forward_stream_counters(const struct link *link, const struct link_stream *stream,
                                  counter_each each, void *ctx)
{
    link_stream_counters(inner_link_of(link), stream == NULL ? NULL : inner_of(stream), each, ctx);
}

void link_forward_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    link_packet_counters(inner_link_of(link), each, ctx);
}

bool link_forward_is_busy(struct link *link)
{
    return link_is_busy(inner_link_of(link));
}

void link_forward_init(struct link_forward *f, const struct link_ops *own, struct link *inner)
{
    f->base = (struct link){.ops = own,
                            .facts = inner->facts & ~(unsigned)(LINK_HAS_PLACES | LINK_LENDS)};
    f->inner = inner;
}
