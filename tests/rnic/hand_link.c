#include "tests/rnic/hand_link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

static struct hand_link *link_of(const struct link *link)
{
    return (struct hand_link *)(uintptr_t)link;
}

struct hand_stream *hand_stream_of(struct link_stream *stream)
{
    return (struct hand_stream *)stream;
}

static struct hand_stream *stream_make(struct hand_link *l, void *owner)
{
    if (l->count == HAND_STREAM_MAX) {
        abort(); // a test has few
    }
    struct hand_stream *s = &l->streams[l->count++];
    s->base = (struct link_stream){.link = &l->base, .owner = owner, .facts = l->facts};
    s->is_open = s->wants_in = true;
    s->end = HAND_NO_END;
    s->room = SIZE_MAX;
    const struct sockaddr_in peer = {
        .sin_family = AF_INET, .sin_port = htons(7), .sin_addr = {htonl(0x0a000002)}};
    memcpy(&s->peer, &peer, sizeof peer);
    return s;
}

void hand_come(struct hand_stream *s, const void *octets, size_t len)
{
    if (len > HAND_OCTETS_MAX - s->in_len) {
        abort();
    }
    memcpy(s->in + s->in_len, octets, len);
    s->in_len += len;
}

/* ---- streams --------------------------------------------------------------------------------- */

static int hand_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                     struct link_stream **ret)
{
    struct hand_link *l = link_of(link);
    l->bound_to = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    l->bind_flags = flags;
    if (addr != NULL) {
        memcpy(&l->bound_to, addr, sizeof(struct sockaddr_in));
    }
    if (l->bind_error != 0) {
        return l->bind_error;
    }
    *ret = &stream_make(l, owner)->base;
    return 0;
}

static int hand_listen(struct link_stream *stream, int backlog)
{
    hand_stream_of(stream)->is_listening = true;
    return 0;
}

static int hand_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct hand_link *l = link_of(listener->link);
    if (l->waiting == 0) {
        return -EAGAIN;
    }
    l->waiting--;
    if (l->accept_error != 0) {
        return l->accept_error;
    }
    *ret = &stream_make(l, NULL)->base;
    return 0;
}

static int hand_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    memcpy(&hand_stream_of(stream)->peer, peer,
           peer->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return link_of(stream->link)->connect_error;
}

static int hand_connect_result(struct link_stream *stream)
{
    return link_of(stream->link)->result;
}

size_t hand_place(struct hand_stream *s)
{
    size_t offered = 0;
    while (s->in_done < s->in_len && !s->is_place_stalled) {
        const struct place_offer offer = {.position = s->in_done,
                                          .octets =
                                              span_of(s->in + s->in_done, s->in_len - s->in_done),
                                          .order = PLACE_IN_ORDER,
                                          .is_segment_start = true,
                                          .is_segment_end = true};
        struct place_answer answer = {.len = offer.octets.len};
        const enum place_verdict verdict = s->place.place(s->place.ctx, &offer, &answer);
        if (verdict == PLACE_DROP || (verdict == PLACE_PLACED && answer.len == 0)) {
            abort(); // not in order, and not of nothing
        }
        s->is_place_stalled = verdict == PLACE_BUFFER;
        offered += answer.len;
        s->in_done += verdict == PLACE_PLACED ? answer.len : 0;
    }
    return offered;
}

static void hand_set_place(struct link_stream *stream, const struct place_port *port)
{
    hand_stream_of(stream)->place = *port;
}

static void hand_resume(struct link_stream *stream)
{
    hand_stream_of(stream)->is_place_stalled = false;
    hand_stream_of(stream)->resume_count++;
    hand_place(hand_stream_of(stream));
}

static ssize_t hand_recv(struct link_stream *stream, struct mspan into)
{
    struct hand_stream *s = hand_stream_of(stream);
    size_t len = s->in_len - s->in_done;
    s->recv_count++;
    if (s->place.place != NULL && len > 0) {
        len = hand_place(s);
        return len > 0 ? (ssize_t)len : -EAGAIN;
    }
    if (len == 0) {
        return s->end == HAND_NO_END ? -EAGAIN : s->end;
    }
    len = len < into.len ? len : into.len;
    memcpy(into.ptr, s->in + s->in_done, len);
    s->in_done += len;
    return (ssize_t)len;
}

static ssize_t hand_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut)
{
    struct hand_stream *s = hand_stream_of(stream);
    s->recv_count++;
    if (s->in_len == s->in_done) {
        return s->end == HAND_NO_END ? -EAGAIN : s->end;
    }
    *ret = span_of(s->in + s->in_done, s->in_len - s->in_done);
    *ret_is_cut = s->is_cut;
    return (ssize_t)ret->len;
}

static void hand_give_back(struct link_stream *stream, size_t len)
{
    hand_stream_of(stream)->in_done += len;
}

static ssize_t hand_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct hand_stream *s = hand_stream_of(stream);
    size_t taken = 0;
    if (s->send_error != 0) {
        return s->send_error;
    }
    s->record_count = tx->record_count;
    for (unsigned i = 0; i < tx->record_count; i++) {
        const unsigned before = i > 0 ? tx->record_ends[i - 1] : 0;
        const bool is_last = i + 1 == tx->record_count;
        if (tx->record_ends[i] <= before || tx->record_ends[i] > tx->iov_count ||
            (is_last && tx->record_ends[i] != tx->iov_count)) {
            abort(); // the records are all of it, one behind the other
        }
    }
    for (unsigned i = 0; i < tx->iov_count && s->room > 0; i++) {
        size_t len = tx->iov[i].iov_len < s->room ? tx->iov[i].iov_len : s->room;
        if (len > HAND_OCTETS_MAX - s->out_len) {
            abort();
        }
        memcpy(s->out + s->out_len, tx->iov[i].iov_base, len);
        s->out_len += len;
        s->room -= len;
        taken += len;
    }
    return taken > 0 ? (ssize_t)taken : -EAGAIN;
}

static uint64_t hand_unsettled(struct link_stream *stream)
{
    return hand_stream_of(stream)->unsettled;
}

static void hand_want_out(struct link_stream *stream, bool wanted)
{
    hand_stream_of(stream)->wants_out = wanted;
}

static void hand_want_in(struct link_stream *stream, bool wanted)
{
    hand_stream_of(stream)->wants_in = wanted;
}

static int hand_shutdown(struct link_stream *stream)
{
    hand_stream_of(stream)->is_shut = true;
    return 0;
}

static void hand_close(struct link_stream *stream, bool abort)
{
    struct hand_stream *s = hand_stream_of(stream);
    s->is_open = false;
    s->is_aborted = abort;
}

static int hand_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(4711), .sin_addr = {htonl(0x0a000001)}};
    if (link_of(stream->link)->local_error != 0) {
        return link_of(stream->link)->local_error;
    }
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &addr, sizeof addr);
    return 0;
}

static int hand_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    *ret = ((const struct hand_stream *)stream)->peer;
    return 0;
}

static uint32_t hand_emss(const struct link_stream *stream)
{
    return link_of(stream->link)->emss;
}

static int hand_set_tos(struct link_stream *stream, uint8_t tos)
{
    hand_stream_of(stream)->tos = tos;
    return 0;
}

/* ---- the link -------------------------------------------------------------------------------- */

static int hand_route(struct link *link, const struct sockaddr *peer, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    memcpy(ret, peer, sizeof(struct sockaddr_in));
    return link_of(link)->route_error;
}

static unsigned ready_of(const struct hand_link *l, struct hand_stream *s)
{
    unsigned what = s->said;
    if (s->is_listening) {
        return what | (l->waiting > 0 ? LINK_READY_IN : 0);
    }
    if (s->wants_in && s->in_len > s->in_done) {
        what |= LINK_READY_IN;
    } else if (s->end != HAND_NO_END && !s->is_end_told) {
        what |= LINK_READY_IN;
        s->is_end_told = true;
    }
    return what | (s->wants_out && s->room > 0 ? LINK_READY_OUT : 0);
}

static int hand_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct hand_link *l = link_of(link);
    unsigned count = 0;
    l->poll_count++;
    for (unsigned i = 0; i < l->count && count < max; i++) {
        struct hand_stream *s = &l->streams[i];
        unsigned what = s->is_open ? ready_of(l, s) : 0;
        s->said = 0;
        if (what != 0) {
            ret[count++] = (struct link_ready){&s->base, what};
        }
    }
    return (int)count;
}

static instant_ns hand_next_deadline(struct link *link)
{
    return INSTANT_NEVER;
}

static bool hand_may_wait(struct link *link)
{
    return true;
}

static void hand_wait(struct link *link, duration_ns timeout_ns)
{
}

static void hand_wake(struct link *link)
{
}

static int hand_descriptor(const struct link *link)
{
    return -EOPNOTSUPP;
}

static void hand_stream_counters(const struct link *link, const struct link_stream *stream,
                                 counter_each each, void *ctx)
{
    each(ctx, stream != NULL ? "hand_stream" : "hand_streams", 7);
}

static void hand_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    each(ctx, "hand_packets", 9);
}

static bool hand_is_busy(struct link *link)
{
    return link_of(link)->is_busy;
}

static void hand_abandon(struct link *link)
{
    link_of(link)->is_abandoned = true;
}

static void hand_destroy(struct link *link)
{
    link_of(link)->is_destroyed = true;
}

static const struct link_ops ops = {
    .name = "hand",
    .bind = hand_bind,
    .listen = hand_listen,
    .accept = hand_accept,
    .connect = hand_connect,
    .connect_result = hand_connect_result,
    .recv = hand_recv,
    .borrow = hand_borrow,
    .give_back = hand_give_back,
    .set_place = hand_set_place,
    .resume = hand_resume,
    .send = hand_send,
    .unsettled = hand_unsettled,
    .want_out = hand_want_out,
    .want_in = hand_want_in,
    .shutdown = hand_shutdown,
    .close = hand_close,
    .local_addr = hand_local_addr,
    .peer_addr = hand_peer_addr,
    .emss = hand_emss,
    .set_tos = hand_set_tos,
    .route = hand_route,
    .poll = hand_poll,
    .next_deadline = hand_next_deadline,
    .may_wait = hand_may_wait,
    .wait = hand_wait,
    .rise = link_rise_by_wait,
    .wake = hand_wake,
    .descriptor = hand_descriptor,
    .stream_counters = hand_stream_counters,
    .packet_counters = hand_packet_counters,
    .is_busy = hand_is_busy,
    .abandon = hand_abandon,
    .destroy = hand_destroy,
};

static struct hand_link hand;

struct hand_link *hand_link_begin(void)
{
    for (unsigned i = 0; i < hand.count; i++) {
        memset(&hand.streams[i], 0, offsetof(struct hand_stream, in));
    }
    hand.base = (struct link){.ops = &ops};
    hand.count = hand.facts = hand.waiting = hand.poll_count = 0;
    hand.emss = 1460;
    hand.accept_error = hand.bind_error = hand.connect_error = hand.result = 0;
    hand.local_error = hand.route_error = 0;
    hand.is_abandoned = hand.is_destroyed = hand.is_busy = false;
    return &hand;
}
