#include "tests/tcp/script.h"

#include <stdlib.h>

uint8_t script_octet(uint64_t position)
{
    return (uint8_t)(position * 131 + (position >> 8) * 17 + 5);
}

/* ---- the place port -------------------------------------------------------------------------- */

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    struct script *s = ctx;
    enum place_verdict verdict = offer->order == PLACE_IN_ORDER      ? s->in_order
                                 : offer->order == PLACE_BEYOND_HOLE ? s->beyond
                                                                     : s->from_buffer;
    if (answer->len > s->answer_len_max) {
        answer->len = s->answer_len_max;
    }
    if (offer->order != PLACE_BEYOND_HOLE) {
        assert_int_equal(offer->position, s->handed);
    }
    if (verdict != PLACE_PLACED) {
        s->seen.stalls += verdict == PLACE_BUFFER && offer->order != PLACE_BEYOND_HOLE;
        return verdict;
    }
    for (size_t i = 0; i < answer->len; i++) {
        uint64_t position = offer->position + i;
        assert_true(position < SCRIPT_STREAM_MAX);
        assert_int_equal(s->is_placed[position], 0); // never twice
        assert_int_equal(offer->octets.ptr[i], script_octet(position));
        s->is_placed[position] = 1;
    }
    s->placed_octets += answer->len;
    s->placed_calls++;
    if (offer->order == PLACE_BEYOND_HOLE) {
        answer->counts.n[0] = 1;
        answer->counts.n[1] = (uint32_t)answer->len;
        s->seen.octets_placed_early += answer->len;
    } else {
        s->handed += answer->len;
        s->placed_in_order += offer->order == PLACE_IN_ORDER ? answer->len : 0;
        s->placed_from_buffer += offer->order == PLACE_FROM_BUFFER ? answer->len : 0;
    }
    return verdict;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct script *s = ctx;
    assert_int_equal(position, s->handed);
    if (!s->advance) {
        s->seen.stalls++;
        return false;
    }
    for (uint64_t p = position; p < end; p++) {
        assert_int_equal(s->is_placed[p], 1);
    }
    assert_int_equal(counts->n[1], end - position);
    place_counts_add(&s->released, counts);
    s->advances++;
    s->handed = end;
    return true;
}

/* ---- the link -------------------------------------------------------------------------------- */

static void check_payload(const struct script *s, const struct tcp_batch *batch)
{
    uint64_t position = batch->header.seq - (s->iss + 1), total = 0;
    for (unsigned i = 0; i < batch->iov_count; i++) {
        const uint8_t *octets = batch->iov[i].iov_base;
        for (size_t k = 0; k < batch->iov[i].iov_len; k++) {
            assert_int_equal(octets[k], script_octet(position + total));
            total++;
        }
    }
    assert_int_equal(total, batch->payload_len);
}

static void count_sent(struct script *s, const struct script_segment *out)
{
    struct tcp_counters *c = &s->seen;
    tcp_seq end = out->position + out->len;
    bool is_again = out->reason == TCP_REASON_RETRANSMIT ||
                    (out->reason == TCP_REASON_LOSS_PROBE && end <= s->sent_end);
    c->segments_out++;
    c->retransmits += is_again;
    c->octets_retransmitted += is_again ? out->len : 0;
    c->loss_probes += out->reason == TCP_REASON_LOSS_PROBE;
    c->window_probes += out->reason == TCP_REASON_WINDOW_PROBE;
    c->keepalives += out->reason == TCP_REASON_KEEPALIVE;
    c->challenge_acks += out->reason == TCP_REASON_CHALLENGE_ACK;
    if (out->len > 0 && end > s->sent_end) {
        c->octets_out += end - s->sent_end;
        s->sent_end = end;
    }
}

static unsigned on_send(void *ctx, const struct tcp_batch *batch)
{
    struct script *s = ctx;
    uint32_t left = batch->payload_len;
    unsigned taken = batch->segment_count < s->out_room ? batch->segment_count : s->out_room;
    assert_true(batch->segment_count >= 1);
    check_payload(s, batch);
    for (unsigned i = 0; i < taken; i++) {
        struct script_segment *out = &s->out[s->out_count++];
        assert_true(s->out_count <= SCRIPT_OUT_MAX);
        *out = (struct script_segment){.header = batch->header, .reason = batch->reason};
        out->header.seq += i * batch->segment_len;
        out->position = out->header.seq - (s->iss + 1);
        out->len = left < batch->segment_len ? left : batch->segment_len;
        left -= out->len;
        if (i + 1 < batch->segment_count) {
            out->header.flags &= (uint8_t) ~(TCP_FIN | TCP_PSH);
        }
        count_sent(s, out);
    }
    s->out_room -= taken;
    return taken;
}

/* ---- life ------------------------------------------------------------------------------------ */

void script_prepare(struct script *s)
{
    memset(s, 0, sizeof *s);
    s->config = tcp_config_default;
    s->config.local_port = 1111;
    s->config.remote_port = 2222;
    s->config.mss = SCRIPT_MSS;
    s->config.wishes = TCP_WISH_SACK;
    s->config.window_len = s->config.buffer_len = 60000;
    s->config.place = (struct place_port){.place = on_place, .on_advance = on_advance, .ctx = s};
    s->peer = (struct tcp_options){.mss = SCRIPT_MSS, .sack_permitted = true};
    s->peer_window = UINT16_MAX;
    s->iss = SCRIPT_ISS;
    s->irs = SCRIPT_IRS;
    s->in_order = s->beyond = s->from_buffer = PLACE_PLACED;
    s->answer_len_max = SIZE_MAX;
    s->advance = true;
    s->out_room = UINT32_MAX;
    s->now = 5 * NS_PER_S;
    s->peer_ack = 1;
}

void script_begin(struct script *s)
{
    s->tcb = tcp_create(&s->config);
    assert_non_null(s->tcb);
}

void script_open(struct script *s, void (*change)(struct script *s))
{
    script_prepare(s);
    if (change != NULL) {
        change(s);
    }
    script_begin(s);
    tcp_connect(s->tcb, s->iss, s->now);
    script_run(s);
    expect_flags(s, TCP_SYN, 0);
    script_wait(s, SCRIPT_RTT_NS);
    assert_int_equal(peer_segment(s, TCP_SYN | TCP_ACK, 0, 1, 0, &s->peer), TCP_TAKEN);
    expect_flags(s, TCP_ACK, 1);
    assert_int_equal(tcp_get_state(s->tcb), TCP_STATE_ESTABLISHED);
}

void script_close(struct script *s)
{
    expect_nothing(s);
    script_check_counters(s);
    tcp_destroy(s->tcb);
}

void script_check_counters(const struct script *s)
{
    const struct tcp_counters *is = &s->tcb->counters, *seen = &s->seen;
    assert_int_equal(is->segments_in, seen->segments_in);
    assert_int_equal(is->segments_out, seen->segments_out);
    assert_int_equal(is->octets_out, seen->octets_out);
    assert_int_equal(is->octets_placed_early, seen->octets_placed_early);
    assert_int_equal(is->octets_in,
                     s->placed_in_order + is->octets_placed_early + is->octets_buffered);
    assert_int_equal(is->octets_buffered, s->placed_from_buffer + s->tcb->rcv.buffered_len);
    assert_int_equal(is->stalls, seen->stalls);
    assert_int_equal(is->retransmits, seen->retransmits);
    assert_int_equal(is->octets_retransmitted, seen->octets_retransmitted);
    assert_int_equal(is->loss_probes, seen->loss_probes);
    assert_int_equal(is->window_probes, seen->window_probes);
    assert_int_equal(is->keepalives, seen->keepalives);
    assert_int_equal(is->challenge_acks, seen->challenge_acks);
    assert_int_equal(is->buffered_peak, seen->buffered_peak);
    assert_int_equal(is->ranges_peak, seen->ranges_peak);
    for (unsigned i = TCP_TAKEN + 1; i < TCP_REFUSAL_COUNT; i++) {
        // A segment with a bad SACK block is taken all the same.
        assert_true(i == TCP_REFUSED_BAD_SACK || is->refusals[i] == seen->refusals[i]);
    }
}

void script_run(struct script *s)
{
    const struct tcp_port port = {.send = on_send, .ctx = s};
    bool is_all = !tcp_wants_output(s->tcb, s->now) || tcp_output(s->tcb, &port, s->now);
    tcp_check(s->tcb);
    assert_true(is_all || s->out_room == 0);
    assert_true(!is_all || !tcp_wants_output(s->tcb, s->now));
    s->events |= tcp_take_events(s->tcb);
    const struct tcp_receive *r = &s->tcb->rcv;
    s->seen.ranges_peak =
        s->seen.ranges_peak > r->ranges.count ? s->seen.ranges_peak : r->ranges.count;
    s->seen.buffered_peak =
        s->seen.buffered_peak > r->buffered_len ? s->seen.buffered_peak : r->buffered_len;
}

void script_wait(struct script *s, duration_ns duration)
{
    instant_ns end = s->now + duration;
    while (tcp_next_deadline(s->tcb) <= end) {
        instant_ns at = tcp_next_deadline(s->tcb);
        s->now = at > s->now ? at : s->now;
        tcp_on_deadline(s->tcb, s->now);
        script_run(s);
        assert_true(tcp_next_deadline(s->tcb) > s->now); // time goes on
    }
    s->now = end;
}

/* ---- both sides send ------------------------------------------------------------------------- */

void user_send(struct script *s, uint32_t len, unsigned records)
{
    uint8_t *octets = malloc(len);
    uint64_t position = tcp_sent_position(s->tcb);
    uint32_t piece = records > 0 ? len / records : len;
    for (uint32_t i = 0; i < len; i++) {
        octets[i] = script_octet(position + i);
    }
    for (uint32_t at = 0; at < len; at += piece) {
        struct iovec iov = {octets + at, piece};
        assert_int_equal(tcp_send(s->tcb, &iov, 1, records > 0 ? TCP_SEND_RECORD : 0), piece);
    }
    free(octets);
    script_run(s);
}

enum tcp_refusal peer_segment_as_is(struct script *s, const struct tcp_segment *segment)
{
    enum tcp_refusal refusal = tcp_on_segment(s->tcb, segment, s->now);
    s->seen.segments_in++;
    s->seen.refusals[refusal]++;
    script_run(s);
    return refusal;
}

enum tcp_refusal peer_segment(struct script *s, uint8_t flags, uint32_t seq, uint32_t ack,
                              uint32_t len, const struct tcp_options *options)
{
    uint8_t *octets = malloc(len + 1);
    struct tcp_segment segment = {
        .header = {.src_port = s->config.remote_port,
                   .dst_port = s->config.local_port,
                   .seq = s->irs + seq,
                   .ack = s->iss + ack,
                   .flags = flags,
                   .window = s->peer_window},
        .payload = span_of(octets, len),
    };
    if (options != NULL) {
        segment.header.options = *options;
    }
    for (uint32_t i = 0; i < len; i++) {
        octets[i] = script_octet((uint64_t)seq - 1 + i);
    }
    enum tcp_refusal refusal = peer_segment_as_is(s, &segment);
    free(octets);
    return refusal;
}

void peer_data(struct script *s, uint32_t seq, uint32_t len)
{
    peer_segment(s, TCP_ACK, seq, s->peer_ack, len, NULL);
}

void peer_ack(struct script *s, uint32_t ack)
{
    s->peer_ack = ack;
    peer_segment(s, TCP_ACK, (uint32_t)s->handed + 1, ack, 0, NULL);
}

void peer_sack(struct script *s, uint32_t ack, uint32_t left, uint32_t right, uint32_t left2,
               uint32_t right2)
{
    struct tcp_options o = {
        .sack_count = right2 != 0 ? 2 : 1,
        .sack = {{s->iss + left, s->iss + right}, {s->iss + left2, s->iss + right2}}};
    s->peer_ack = ack;
    peer_segment(s, TCP_ACK, (uint32_t)s->handed + 1, ack, 0, &o);
}

/* ---- expectations ---------------------------------------------------------------------------- */

struct script_segment *next_segment(struct script *s)
{
    assert_true(s->out_read < s->out_count);
    return &s->out[s->out_read++];
}

void expect_nothing(struct script *s)
{
    if (s->out_read < s->out_count) {
        char line[200];
        print_error("left and not expected: %s len %u (%s)\n",
                    tcp_header_format(&s->out[s->out_read].header, line, sizeof line),
                    s->out[s->out_read].len, tcp_reason_name(s->out[s->out_read].reason));
    }
    assert_int_equal(s->out_read, s->out_count);
}

void expect_ack(struct script *s, uint32_t ack)
{
    struct script_segment *out = next_segment(s);
    assert_int_equal(out->header.flags, TCP_ACK);
    assert_int_equal(out->len, 0);
    assert_int_equal(out->header.ack - s->irs, ack);
    assert_int_equal(out->header.options.sack_count, 0);
}

void expect_sack(struct script *s, uint32_t ack, unsigned count, ...)
{
    struct script_segment *out = next_segment(s);
    va_list blocks;
    assert_int_equal(out->header.ack - s->irs, ack);
    assert_int_equal(out->header.options.sack_count, count);
    va_start(blocks, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(out->header.options.sack[i].left - s->irs, va_arg(blocks, uint32_t));
        assert_int_equal(out->header.options.sack[i].right - s->irs, va_arg(blocks, uint32_t));
    }
    va_end(blocks);
}

void expect_data(struct script *s, uint32_t seq, uint32_t len)
{
    struct script_segment *out = next_segment(s);
    assert_int_equal(out->header.seq - s->iss, seq);
    assert_int_equal(out->len, len);
}

void expect_flags(struct script *s, uint8_t flags, uint32_t seq)
{
    struct script_segment *out = next_segment(s);
    assert_int_equal(out->header.flags & ~TCP_PSH, flags);
    assert_int_equal(out->header.seq - s->iss, seq);
}
