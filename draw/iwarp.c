#include "draw/iwarp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/port_ulpdu.h"
#include "base/serial.h"
#include "base/span.h"
#include "draw/iwarp_startup.h"
#include "mpa/fpdu.h"
#include "wire/ddp.h"
#include "wire/tcp.h"

/* ---- FPDUs in order -------------------------------------------------------------------------- */

// Whether the FPDU that ends here was told early; then it is forgotten.
static bool take_early(struct iwarp_side *s, uint64_t end)
{
    for (unsigned i = 0; i < s->early_count; i++) {
        if (s->early[i] == end) {
            s->early[i] = s->early[--s->early_count];
            return true;
        }
    }
    return false;
}

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    struct iwarp_side *s = ctx;
    if (!take_early(s, s->full_begin + s->rx.position)) {
        ulpdu_tell(&s->connection->teller, s->number, ulpdu, s->flags);
    }
    return ULPDU_TAKEN;
}

static bool has_crc(const struct iwarp_connection *c)
{
    return !c->has_request || !c->has_reply || c->request.crc || c->reply.crc;
}

static void full_begin(struct iwarp_side *s, uint64_t position)
{
    s->phase = IWARP_FULL;
    s->full_begin = position;
    for (unsigned i = 0; i < s->early_count;) {
        if (s->early[i] <= position) {
            s->early[i] = s->early[--s->early_count];
        } else {
            i++;
        }
    }
    mpa_rx_init(&s->rx, has_crc(s->connection), MPA_RX_MARKERS_IF_SEEN,
                mspan_of(s->carry, MPA_RX_CARRY_LEN),
                (struct ulpdu_port){.on_ulpdu = on_ulpdu, .ctx = s});
}

static void tell_lost(struct iwarp_side *s, const char *why)
{
    struct story *story = s->connection->teller.story;
    struct story_event *e = story_add(story, STORY_TROUBLE, s->number);
    if (e != NULL) {
        snprintf(e->label, sizeof e->label, "%s", why);
        snprintf(e->detail, sizeof e->detail,
                 "From here this direction is not followed until a segment begins with an FPDU.");
    }
    s->phase = IWARP_LOST;
}

static void feed_full(struct iwarp_side *s, struct span octets)
{
    size_t consumed;
    enum mpa_rx_verdict verdict = mpa_rx_on_input(&s->rx, octets, &consumed);
    if (verdict != MPA_RX_OK) {
        char why[STORY_LABEL_MAX];
        snprintf(why, sizeof why, "FPDU · %s", mpa_rx_verdict_name(verdict));
        tell_lost(s, why);
    }
}

// Octets in order; those of a segment begin it.
static void feed(struct iwarp_side *s, struct span octets, uint64_t position)
{
    if (s->phase == IWARP_START_UP) {
        size_t used = iwarp_startup_feed(s, octets);
        octets = span_skip(octets, used);
        if (s->phase == IWARP_FULL) {
            full_begin(s, position + used);
            // The initiator's start-up ended before the Reply said whether there are CRCs.
            s->connection->side[1 - s->number].rx.framing.crc = has_crc(s->connection);
        }
    }
    if (s->phase == IWARP_FULL && octets.len > 0) {
        feed_full(s, octets);
    }
}

/* ---- FPDUs of a segment alone ---------------------------------------------------------------- */

// The FPDU that these octets, at `position` of full operation, begin with; 0: none that is whole
// and right.
static size_t unwrap_here(struct iwarp_side *s, struct mpa_framing framing, uint64_t position,
                          struct span octets, struct span *ret_ulpdu)
{
    size_t len = mpa_fpdu_measure(framing, position, octets);
    if (len == 0 || len > octets.len || !framing.crc) {
        return 0;
    }
    uint8_t *into = s->carry + MPA_RX_CARRY_LEN;
    enum mpa_fpdu_verdict verdict =
        mpa_fpdu_unwrap(framing, position, span_first(octets, len), into, ret_ulpdu);
    return verdict == MPA_FPDU_OK && ulpdu_is_likely(*ret_ulpdu) ? len : 0;
}

// Tells the FPDUs that lie whole beyond a hole; how many.
static uint32_t feed_early(struct iwarp_side *s, struct span octets, uint64_t position)
{
    uint32_t count = 0;
    size_t at = 0, len;
    struct span ulpdu;
    if (s->phase != IWARP_FULL || s->rx.is_framing_open || position < s->full_begin) {
        return 0;
    }
    uint64_t in_full = position - s->full_begin;
    if (s->rx.framing.markers && !mpa_fpdu_find(in_full, octets, &at)) {
        return 0;
    }
    while (s->early_count < IWARP_EARLY_MAX &&
           (len = unwrap_here(s, s->rx.framing, in_full + at, span_skip(octets, at), &ulpdu)) > 0) {
        ulpdu_tell(&s->connection->teller, s->number, ulpdu, s->flags | STORY_EARLY);
        at += len;
        s->early[s->early_count++] = position + at;
        count++;
    }
    return count;
}

// Whether the octets are FPDUs without CRC: lengths that lead to their end, with headers in use.
static bool are_fpdus(struct span octets)
{
    struct mpa_framing framing = {0};
    struct span ulpdu;
    while (octets.len > 0) {
        size_t len = mpa_fpdu_measure(framing, 0, octets);
        if (len == 0 || len > octets.len ||
            mpa_fpdu_unwrap(framing, 0, span_first(octets, len), NULL, &ulpdu) != MPA_FPDU_OK ||
            !ulpdu_is_likely(ulpdu)) {
            return false;
        }
        octets = span_skip(octets, len);
    }
    return true;
}

// A direction that was lost is found again where a segment begins with a whole FPDU.
static bool find_again(struct iwarp_side *s, struct span octets, uint64_t position)
{
    struct span ulpdu;
    bool is_found = has_crc(s->connection)
                        ? unwrap_here(s, (struct mpa_framing){.crc = true}, 0, octets, &ulpdu) > 0
                        : are_fpdus(octets);
    if (!is_found) {
        return false;
    }
    full_begin(s, position);
    return true;
}

// A segment whose end was not captured: the headers of FPDUs that begin in what was. Afterwards the
// stream is followed segment by segment.
static void tell_cut(struct iwarp_side *s, const struct frame *f)
{
    size_t there = f->payload.len - f->cut_len, at = 0;
    struct mpa_framing framing = {0};
    if (s->phase == IWARP_START_UP && there >= MPA_KEY_LEN &&
        memcmp(f->payload.ptr, "MPA ID Re", 9) == 0) {
        s->phase = IWARP_LOST;
        return;
    }
    s->phase = IWARP_LOST;
    while (at + MPA_LENGTH_LEN + DDP_HEADER_MAX_LEN <= there) {
        struct span rest = span_skip(f->payload, at), ulpdu;
        size_t len = mpa_fpdu_measure(framing, 0, rest);
        if (len == 0 || len > rest.len ||
            mpa_fpdu_unwrap(framing, 0, span_first(rest, len), NULL, &ulpdu) != MPA_FPDU_OK ||
            !ulpdu_is_likely(ulpdu)) {
            return;
        }
        bool is_cut = at + len > there;
        ulpdu_tell(&s->connection->teller, s->number, ulpdu, is_cut ? STORY_CUT : 0);
        at += len;
    }
}

/* ---- holes ----------------------------------------------------------------------------------- */

// A segment in which no FPDU ends, where it is out of turn.
static void tell_octets(struct iwarp_side *s, const struct frame *f, const struct direction_news *n)
{
    static const char *const texts[] = {
        [DIRECTION_IN_ORDER] = " · no FPDU ends here",
        [DIRECTION_BEYOND] = " · beyond a hole, wait",
        [DIRECTION_OLD] = "",
        [DIRECTION_UNREACHED] = " · far beyond what was captured",
    };
    struct story_event *e = story_add(s->connection->teller.story, STORY_SEGMENT, s->number);
    if (e != NULL) {
        bool is_again = n->arrival == DIRECTION_OLD;
        e->flags = (uint8_t)(s->flags | (is_again ? STORY_AGAIN : 0));
        e->len = (uint32_t)f->payload.len;
        snprintf(e->label, sizeof e->label, "%zu octets%s", f->payload.len, texts[n->arrival]);
        snprintf(e->detail, sizeof e->detail, "TCP segment, sequence number %" PRIu32, f->tcp.seq);
    }
}

static void hole_open(struct iwarp_side *s, const struct direction_news *n, uint32_t event)
{
    struct story *story = s->connection->teller.story;
    bool is_told = s->connection->side[1 - s->number].tells_holes;
    uint32_t index =
        story_span_begin(story, STORY_HOLE, 1 - s->number, is_told ? STORY_NONE : event);
    s->direction.range[n->range].span = index;
    struct story_span *span = story_span_at(story, index);
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "hole");
        snprintf(span->detail, sizeof span->detail,
                 "A hole of %" PRIu64 " octets of the stream; it was not seen to close",
                 n->opened_len);
        span->group = n->opened_len < UINT32_MAX ? (uint32_t)n->opened_len : UINT32_MAX;
    }
}

static void holes_close(struct iwarp_side *s, const struct direction_news *n, uint32_t event)
{
    struct story *story = s->connection->teller.story;
    for (unsigned i = 0; i < n->closed_count; i++) {
        struct story_span *span = story_span_at(story, n->closed[i].span);
        if (span == NULL) {
            continue;
        }
        story_span_end(story, n->closed[i].span, event);
        snprintf(span->label, sizeof span->label, "hole, %" PRIu32 " early", n->closed[i].early);
        snprintf(span->detail, sizeof span->detail,
                 "A hole of %" PRIu32 " octets of the stream; %" PRIu32
                 " FPDUs behind it were placed early, and delivered when it closed",
                 span->group, n->closed[i].early);
    }
}

/* ---- segments -------------------------------------------------------------------------------- */

static void feed_in_order(struct iwarp_side *s, const struct direction_news *n)
{
    struct span buffered;
    s->flags = n->closed_count > 0 ? STORY_LATE : 0;
    if (s->phase == IWARP_LOST && !find_again(s, n->octets, n->position)) {
        while (direction_take(&s->direction, &buffered)) {
        }
        return;
    }
    feed(s, n->octets, n->position);
    for (uint64_t position = s->direction.next; direction_take(&s->direction, &buffered);
         position = s->direction.next) {
        feed(s, buffered, position);
    }
}

// The octets that lie in the window next, behind what was not captured: FPDUs begin there if some
// were told early, or where they show it themselves.
static void resume(struct iwarp_side *s, bool is_known)
{
    uint64_t position = s->direction.next;
    struct span buffered;
    s->phase = IWARP_LOST;
    for (bool is_first = true; direction_take(&s->direction, &buffered); is_first = false) {
        if (is_first && is_known) {
            full_begin(s, position);
        } else if (is_first) {
            find_again(s, buffered, position);
        }
        feed(s, buffered, position);
        position = s->direction.next;
    }
}

// The peer acknowledges what `s` sent: holes before that had come, and were not captured.
static void on_ack(struct iwarp_side *s, uint32_t ack)
{
    struct direction *d = &s->direction;
    struct story *story = s->connection->teller.story;
    while (d->is_begun && d->range_count > 0 &&
           !serial_before(ack, d->base + (uint32_t)d->range[0].left)) {
        struct direction_range first = d->range[0];
        char detail[STORY_DETAIL_MAX];
        snprintf(detail, sizeof detail,
                 "%" PRIu64 " octets that the peer acknowledges, but that were not captured",
                 first.left - d->next);
        story_hole_deny(story, first.span, detail);
        s->flags = 0;
        direction_skip(d);
        resume(s, first.early > 0);
        if (d->range_count == 0) {
            ulpdu_settle(&s->connection->teller, s->number);
        }
    }
}

static void on_payload(struct iwarp_side *s, const struct frame *f)
{
    struct story *story = s->connection->teller.story;
    struct direction_news n;
    uint32_t before = story->event_count;
    uint64_t left_out = story->left_out_before + story->left_out_behind;
    s->flags = 0;
    direction_arrive(&s->direction, f->tcp.seq, f->payload, &n);
    if (f->cut_len > 0 && n.arrival != DIRECTION_OLD) {
        direction_jump(&s->direction, n.position + n.octets.len);
        tell_cut(s, f);
        n.arrival = DIRECTION_IN_ORDER;
        n.opened_len = n.closed_count = 0;
    } else if (n.arrival == DIRECTION_IN_ORDER) {
        feed_in_order(s, &n);
    } else if (n.arrival == DIRECTION_BEYOND && !n.has_old) {
        s->direction.range[n.range].early += feed_early(s, n.octets, n.position);
    } else if (n.arrival == DIRECTION_UNREACHED) {
        direction_jump(&s->direction, n.position + n.octets.len);
        tell_lost(s, "octets are missing in the capture");
    }
    bool is_usual = n.arrival == DIRECTION_IN_ORDER && n.closed_count == 0 && f->cut_len == 0;
    if (story->event_count == before && !is_usual &&
        story->left_out_before + story->left_out_behind == left_out) {
        tell_octets(s, f, &n);
    }
    uint32_t event = before < story->event_count ? before : STORY_NONE;
    if (n.opened_len > 0 && n.arrival == DIRECTION_BEYOND) {
        hole_open(s, &n, event);
    }
    if (n.arrival == DIRECTION_BEYOND) {
        story_hole_before(story, s->direction.range[n.range].span, event);
    }
    holes_close(s, &n, event);
    if (s->direction.range_count == 0) {
        ulpdu_settle(&s->connection->teller, s->number);
    }
}

static void tell_plain(struct iwarp_side *s, enum story_kind kind, const char *what)
{
    struct story_event *e = story_add(s->connection->teller.story, kind, s->number);
    if (e != NULL) {
        snprintf(e->label, sizeof e->label, "%s", what);
    }
}

void iwarp_on_segment(struct iwarp_connection *c, unsigned side, const struct frame *f)
{
    struct iwarp_side *s = &c->side[side];
    if ((f->tcp.flags & TCP_SYN) != 0) {
        tell_plain(s, STORY_START, (f->tcp.flags & TCP_ACK) != 0 ? "SYN ACK" : "SYN");
        if (!s->direction.is_begun) {
            direction_begin(&s->direction, f->tcp.seq + 1);
        }
    }
    if ((f->tcp.flags & TCP_ACK) != 0) {
        on_ack(&c->side[1 - side], f->tcp.ack);
    }
    if (f->payload.len > 0) {
        if (!s->direction.is_begun) {
            direction_begin(&s->direction, f->tcp.seq);
            bool is_startup = f->payload.len >= 9 && memcmp(f->payload.ptr, "MPA ID Re", 9) == 0;
            s->phase = is_startup ? IWARP_START_UP : IWARP_LOST;
        }
        on_payload(s, f);
    }
    if ((f->tcp.flags & TCP_FIN) != 0 && !s->has_fin) {
        s->has_fin = true;
        tell_plain(s, STORY_END, "FIN");
    }
    if ((f->tcp.flags & TCP_RST) != 0) {
        tell_plain(s, STORY_END, "RST");
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

bool iwarp_create(struct iwarp_connection *c, struct story *story)
{
    bool is_made = true;
    *c = (struct iwarp_connection){.teller = {.story = story}};
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_side *s = &c->side[i];
        s->connection = c;
        s->number = i;
        s->carry = malloc(2 * (size_t)MPA_RX_CARRY_LEN);
        is_made &= direction_create(&s->direction) && s->carry != NULL;
    }
    if (!is_made) {
        iwarp_destroy(c);
    }
    return is_made;
}

void iwarp_destroy(struct iwarp_connection *c)
{
    for (unsigned i = 0; i < 2; i++) {
        direction_destroy(&c->side[i].direction);
        free(c->side[i].carry);
        c->side[i].carry = NULL;
    }
}
