// The packet link's octets and interest.

#include <errno.h>
#include <string.h>

#include "base/port_place.h"
#include "base/span.h"
#include "base/time.h"
#include "link/device/device.h"
#include "link/packet/internal.h"
#include "net/host.h"
#include "tcp/state.h"
#include "tcp/tcp.h"

/* ---- receiving ------------------------------------------------------------------------------- */

// To who calls recv: in order only, as much as there is room for.
static enum place_verdict place_for_recv(struct packet_stream *s, const struct place_offer *offer,
                                         struct place_answer *answer)
{
    if (offer->order == PLACE_BEYOND_HOLE) {
        return PLACE_BUFFER;
    }
    if (s->into.len == 0) {
        s->is_stalled = true;
        packet_note_ready(s);
        return PLACE_BUFFER;
    }
    if (answer->len > s->into.len) {
        answer->len = s->into.len;
    }
    memcpy(s->into.ptr, offer->octets.ptr, answer->len);
    s->into = mspan_of(s->into.ptr + answer->len, s->into.len - answer->len);
    return PLACE_PLACED;
}

static enum place_verdict place(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer)
{
    struct packet_stream *s = ctx;
    if (s->state == PACKET_STREAM_LINGERING) {
        return PLACE_PLACED; // nobody reads it: gone
    }
    if (s->port.place == NULL) {
        return place_for_recv(s, offer, answer);
    }
    enum place_verdict verdict = s->port.place(s->port.ctx, offer, answer);
    s->offered_len += answer->len;
    s->is_stalled |= verdict == PLACE_BUFFER && offer->order != PLACE_BEYOND_HOLE;
    return verdict;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct packet_stream *s = ctx;
    if (s->port.place == NULL || s->state == PACKET_STREAM_LINGERING) {
        return true;
    }
    bool goes_on = s->port.on_advance(s->port.ctx, position, end, counts);
    s->offered_len += goes_on;
    s->is_stalled |= !goes_on;
    return goes_on;
}

static void on_hole_opened(void *ctx, uint32_t number, uint64_t position, uint64_t len)
{
    struct packet_stream *s = ctx;
    if (s->port.on_hole_opened != NULL && s->state != PACKET_STREAM_LINGERING) {
        s->port.on_hole_opened(s->port.ctx, number, position, len);
    }
}

static void on_hole_closed(void *ctx, uint32_t number, uint64_t len,
                           const struct place_counts *counts)
{
    struct packet_stream *s = ctx;
    if (s->port.on_hole_closed != NULL && s->state != PACKET_STREAM_LINGERING) {
        s->port.on_hole_closed(s->port.ctx, number, len, counts);
    }
}

struct place_port packet_place_port(struct packet_stream *s)
{
    return (struct place_port){.place = place,
                               .on_advance = on_advance,
                               .on_hole_opened = on_hole_opened,
                               .on_hole_closed = on_hole_closed,
                               .ctx = s};
}

// Why there is nothing to read. The peer's FIN comes first: what broke later broke behind it.
static ssize_t end_of_input(struct packet_stream *s)
{
    if (s->has_fin && !s->is_fin_told) {
        s->is_fin_told = true;
        return 0;
    }
    if (s->error != 0) {
        s->is_error_named = true;
        return s->error;
    }
    return s->has_fin ? 0 : -EAGAIN;
}

// TCP offers again what was in order and found no taker.
static void resume(struct packet_stream *s, instant_ns now)
{
    if (s->is_stalled) {
        s->is_stalled = false;
        tcp_resume(s->connection.tcb, now);
        net_touch(packet_link_of(s->base.link)->host, &s->connection); // the window opens
    }
}

ssize_t packet_recv(struct link_stream *stream, struct mspan into)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (!packet_has_connection(s)) {
        return s->state == PACKET_STREAM_BROKEN ? end_of_input(s) : -ENOTCONN;
    }
    instant_ns now = packet_now(l);
    net_on_deadline(l->host, now); // a stream that is read again and again is a look as well
    s->into = into;
    s->offered_len = 0;
    if (s->port.place == NULL || !s->is_port_told) {
        resume(s, now);
        s->is_port_told = s->port.place != NULL;
    }
    if (s->into.len > 0) {
        s->is_readable = false;
        device_receive(l->device, s->channel, s->into.len);
        packet_take_events(l, now);
    }
    size_t got = s->port.place != NULL ? s->offered_len : into.len - s->into.len;
    s->into = mspan_of(NULL, 0);
    net_output(l->host, now);
    packet_note_ready(s);
    return got > 0 ? (ssize_t)got : end_of_input(s);
}

void packet_set_place(struct link_stream *stream, const struct place_port *port)
{
    packet_stream_of(stream)->port = *port;
    packet_note_ready(packet_stream_of(stream));
}

void packet_resume(struct link_stream *stream)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (packet_has_connection(s)) {
        instant_ns now = packet_now(l);
        resume(s, now);
        net_output(l->host, now);
        packet_note_ready(s);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

static size_t len_of(const struct iovec *iov, unsigned count)
{
    size_t len = 0;
    for (unsigned i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    return len;
}

// Each record whole or not at all.
static size_t put_records(struct tcb *tcb, const struct link_tx *tx)
{
    size_t taken = 0;
    unsigned at = 0;
    for (unsigned i = 0; i < tx->record_count; i++) {
        unsigned count = tx->record_ends[i] - at;
        size_t len = len_of(tx->iov + at, count);
        if (len > 0 && tcp_send(tcb, tx->iov + at, count, TCP_SEND_RECORD) == 0) {
            break;
        }
        taken += len;
        at += count;
    }
    return taken;
}

ssize_t packet_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (s->state != PACKET_STREAM_CONNECTED) {
        return s->state == PACKET_STREAM_CONNECTING ? -EAGAIN
               : s->error != 0                      ? s->error
                                                    : -ENOTCONN;
    }
    struct tcb *tcb = s->connection.tcb;
    size_t taken =
        tx->record_count > 0 ? put_records(tcb, tx) : tcp_send(tcb, tx->iov, tx->iov_count, 0);
    if (taken == 0) {
        return -EAGAIN;
    }
    net_touch(l->host, &s->connection);
    net_output(l->host, packet_now(l));
    return (ssize_t)taken;
}

uint64_t packet_unsettled(struct link_stream *stream)
{
    struct packet_stream *s = packet_stream_of(stream);
    s->has_settled = false;
    if (!packet_link_of(stream->link)->config.settles_when_acknowledged) {
        return 0;
    }
    if (!packet_has_connection(s)) {
        return s->error == 0 ? 0 : UINT64_MAX; // nobody knows any more
    }
    const struct tcb *tcb = s->connection.tcb;
    return tcp_sent_position(tcb) - tcp_acked_position(tcb);
}

int packet_shutdown(struct link_stream *stream)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (s->state != PACKET_STREAM_CONNECTED) {
        return -ENOTCONN;
    }
    instant_ns now = packet_now(l);
    tcp_close(s->connection.tcb, now);
    net_touch(l->host, &s->connection);
    net_output(l->host, now);
    return 0;
}

uint32_t packet_emss(const struct link_stream *stream)
{
    const struct packet_stream *s = packet_stream_of(stream);
    return packet_has_connection(s) ? tcp_emss(s->connection.tcb) : TCP_MSS_MIN;
}

bool packet_is_unacknowledged(const struct packet_stream *s)
{
    if (!packet_has_connection(s)) {
        return false;
    }
    switch (tcp_get_state(s->connection.tcb)) {
    case TCP_STATE_FIN_WAIT_1:
    case TCP_STATE_CLOSING:
    case TCP_STATE_LAST_ACK:
        return true;
    default:
        return tcp_acked_position(s->connection.tcb) < tcp_sent_position(s->connection.tcb);
    }
}

/* ---- interest -------------------------------------------------------------------------------- */

void packet_want_out(struct link_stream *stream, bool wanted)
{
    packet_stream_of(stream)->wants_out = wanted;
    packet_note_ready(packet_stream_of(stream));
}

void packet_want_in(struct link_stream *stream, bool wanted)
{
    packet_stream_of(stream)->wants_in = wanted;
    packet_note_ready(packet_stream_of(stream));
}
