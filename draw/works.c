#include "draw/works.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "draw/works_words.h"
#include "text/quantity.h"

enum { COMPLETION_SUCCESS = 0 };

/* ---- rows ------------------------------------------------------------------------------------ */

// A run of the same from one side is one message, so that it can be folded (draw/layout.h).
static struct story_event *row_add(struct story *s, enum story_kind kind, unsigned side,
                                   const struct journal_record *r)
{
    const struct story_event *before = s->event_count > 0 ? &s->event[s->event_count - 1] : NULL;
    bool goes_on = before != NULL && before->kind == kind && before->side == side &&
                   before->connection == s->connection;
    uint32_t message = goes_on ? before->message : ++s->message_count;
    struct story_event *e = story_add(s, kind, side);
    if (e != NULL) {
        e->message = message;
        e->len = r->len < UINT32_MAX ? (uint32_t)r->len : UINT32_MAX;
    }
    return e;
}

static uint32_t index_of(const struct story *s, const struct story_event *e)
{
    return e != NULL ? (uint32_t)(e - s->event) : STORY_NONE;
}

/* ---- work requests --------------------------------------------------------------------------- */

// The oldest is forgotten where there is no room: its bar stays open.
static void send_push(struct works_side *side, uint64_t wr_id, uint32_t span)
{
    if (side->send_count == WORKS_SEND_MAX) {
        side->send_first++;
        side->send_count--;
    }
    uint32_t at = (side->send_first + side->send_count++) % WORKS_SEND_MAX;
    side->send[at] = (struct works_send){.wr_id = wr_id, .span = span};
}

static void on_send_posted(struct works *w, struct story *s, unsigned side,
                           const struct journal_record *r)
{
    char size[TEXT_SIZE_MAX];
    const char *name = works_request_name(r->opcode);
    struct story_event *e = row_add(s, STORY_POST, side, r);
    uint32_t span = story_span_begin(s, STORY_WORK, side, index_of(s, e));
    struct story_span *it = story_span_at(s, span);
    if (e != NULL) {
        snprintf(e->label, sizeof e->label, "post %s · wr_id 0x%" PRIx64 " · %s bytes", name,
                 r->wr_id, text_size_format_exactly(r->len, size));
        snprintf(e->detail, sizeof e->detail,
                 "posted to QP %" PRIu32 ": %s, wr_id 0x%" PRIx64 ", %" PRIu64
                 " bytes, key 0x%08" PRIx32,
                 r->qp_num, name, r->wr_id, r->len, r->key);
    }
    if (it != NULL) {
        snprintf(it->label, sizeof it->label, "%s 0x%" PRIx64, name, r->wr_id);
        snprintf(it->detail, sizeof it->detail,
                 "%s, wr_id 0x%" PRIx64 ", from its post; no completion was recorded", name,
                 r->wr_id);
    }
    send_push(&w->side[s->connection][side], r->wr_id, span);
}

// The event before, if it is of a receive that this side posted just now.
static struct story_event *run_of(struct story *s, unsigned side)
{
    struct story_event *e = s->event_count > 0 ? &s->event[s->event_count - 1] : NULL;
    bool goes_on =
        e != NULL && e->kind == STORY_RECEIVE && e->side == side && e->connection == s->connection;
    return goes_on ? e : NULL;
}

// Programs post hundreds at a time, and one row says all there is to say.
static void on_receive_posted(struct works *w, struct story *s, unsigned side,
                              const struct journal_record *r)
{
    char size[TEXT_SIZE_MAX];
    struct story_event *e = run_of(s, side);
    uint32_t *count = &w->side[s->connection][side].receive_count;
    *count = e != NULL ? *count + 1 : 1;
    e = e != NULL ? e : row_add(s, STORY_RECEIVE, side, r);
    if (e == NULL) {
        return;
    }
    text_size_format_exactly(r->len, size);
    if (*count == 1) {
        snprintf(e->label, sizeof e->label, "post receive · wr_id 0x%" PRIx64 " · %s bytes",
                 r->wr_id, size);
    } else {
        snprintf(e->label, sizeof e->label,
                 "post %" PRIu32 " receives · to wr_id 0x%" PRIx64 " · %s bytes", *count, r->wr_id,
                 size);
    }
    snprintf(e->detail, sizeof e->detail,
             "receives posted to QP %" PRIu32 ": %" PRIu32 ", the last with wr_id 0x%" PRIx64
             " and room for %" PRIu64 " bytes",
             r->qp_num, *count, r->wr_id, r->len);
}

// Of a shared queue: posted for whoever needs it, and this connection's from here on.
static void on_receive_taken(struct story *s, unsigned side, const struct journal_record *r)
{
    char size[TEXT_SIZE_MAX];
    struct story_event *e = row_add(s, STORY_RECEIVE, side, r);
    if (e != NULL) {
        text_size_format_exactly(r->len, size);
        snprintf(e->label, sizeof e->label,
                 "takes a shared receive · wr_id 0x%" PRIx64 " · %s bytes", r->wr_id, size);
        snprintf(e->detail, sizeof e->detail,
                 "QP %" PRIu32 " takes the oldest receive of its shared queue: wr_id 0x%" PRIx64
                 ", room for %" PRIu64 " bytes",
                 r->qp_num, r->wr_id, r->len);
    }
}

// How many of the ring end with a completion of this work request: those up to it. 0: it is not
// there, since its post was not recorded.
static uint32_t ends_with(const struct works_side *side, uint64_t wr_id)
{
    for (uint32_t i = 0; i < side->send_count; i++) {
        if (side->send[(side->send_first + i) % WORKS_SEND_MAX].wr_id == wr_id) {
            return i + 1;
        }
    }
    return 0;
}

static void sends_end(struct works_side *side, struct story *s, const struct journal_record *r,
                      uint32_t event)
{
    for (uint32_t left = ends_with(side, r->wr_id); left > 0; left--) {
        struct works_send *send = &side->send[side->send_first++ % WORKS_SEND_MAX];
        struct story_span *span = story_span_at(s, send->span);
        side->send_count--;
        story_span_end(s, send->span, event);
        if (span != NULL && left > 1) {
            snprintf(span->detail, sizeof span->detail,
                     "wr_id 0x%" PRIx64 ": without a completion of its own, over with that of "
                     "wr_id 0x%" PRIx64,
                     send->wr_id, r->wr_id);
        } else if (span != NULL) {
            snprintf(span->detail, sizeof span->detail,
                     "wr_id 0x%" PRIx64 ", from its post to its completion: %s", send->wr_id,
                     works_status_name(r->status));
        }
    }
}

static void on_completed(struct works *w, struct story *s, unsigned side,
                         const struct journal_record *r)
{
    char size[TEXT_SIZE_MAX];
    const char *name = works_completion_name(r->opcode), *status = works_status_name(r->status);
    struct story_event *e = row_add(s, STORY_COMPLETION, side, r);
    bool is_good = r->status == COMPLETION_SUCCESS;
    if (e != NULL && is_good) {
        snprintf(e->label, sizeof e->label, "completion %s · wr_id 0x%" PRIx64 " · %s bytes", name,
                 r->wr_id, text_size_format_exactly(r->len, size));
    } else if (e != NULL) {
        e->flags |= STORY_FAILED;
        snprintf(e->label, sizeof e->label, "completion wr_id 0x%" PRIx64 " · %s", r->wr_id,
                 status);
    }
    if (e != NULL) {
        snprintf(e->detail, sizeof e->detail,
                 "completion of QP %" PRIu32 ": %s, wr_id 0x%" PRIx64 ", status %u (%s), %" PRIu64
                 " bytes",
                 r->qp_num, name, r->wr_id, r->status, status, r->len);
    }
    if (r->opcode < WORKS_RECEIVE) {
        sends_end(&w->side[s->connection][side], s, r, index_of(s, e));
    }
}

/* ---- read contexts --------------------------------------------------------------------------- */

// No rows: a context comes with the request that leaves next, and goes with the answer before.
static void on_granted(struct works *w, struct story *s, unsigned side,
                       const struct journal_record *r)
{
    struct works_context *c = &w->context[side][r->key % WORKS_CONTEXT_MAX];
    struct story_span *span = story_span_at(s, c->is_held ? c->span : STORY_NONE);
    bool goes_on =
        c->rest_len > 0 && c->wr_id == r->wr_id && c->connection == s->connection && span != NULL;
    if (goes_on) {
        span->end = STORY_NONE;
    } else {
        *c =
            (struct works_context){.wr_id = r->wr_id, .connection = s->connection, .is_held = true};
        c->span = story_span_begin(s, STORY_CONTEXT, side, story_next(s));
        span = story_span_at(s, c->span);
    }
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "context %" PRIu32 " 0x%" PRIx64, r->key,
                 r->wr_id);
        snprintf(span->detail, sizeof span->detail,
                 "read context %" PRIu32 ", held by %s of wr_id 0x%" PRIx64, r->key,
                 works_request_name(r->opcode), r->wr_id);
    }
}

static void on_gone(struct works *w, struct story *s, unsigned side, const struct journal_record *r)
{
    struct works_context *c = &w->context[side][r->key % WORKS_CONTEXT_MAX];
    struct story_span *span = story_span_at(s, c->is_held ? c->span : STORY_NONE);
    c->rest_len = r->len;
    if (span != NULL) {
        span->end = s->event_count > span->begin ? s->event_count - 1 : span->begin;
    }
    if (span != NULL && r->len > 0) {
        snprintf(span->detail, sizeof span->detail,
                 "read context %" PRIu32 ", held by %s of wr_id 0x%" PRIx64
                 ", and taken from it with %" PRIu64 " bytes still to be asked for",
                 r->key, works_request_name(r->opcode), r->wr_id, r->len);
    }
}

/* ---- one-shot STags -------------------------------------------------------------------------- */

static void on_stag(struct story *s, unsigned side, const struct journal_record *r)
{
    char size[TEXT_SIZE_MAX];
    struct story_event *e = row_add(s, STORY_LENDING, side, r);
    const char *what = r->kind == JOURNAL_STAG_LENT     ? "lends"
                       : r->kind == JOURNAL_STAG_CLOSED ? "has back"
                                                        : "takes back";
    if (e != NULL) {
        snprintf(e->label, sizeof e->label, "%s STag 0x%08" PRIx32 " · %s bytes", what, r->key,
                 text_size_format_exactly(r->len, size));
        snprintf(e->detail, sizeof e->detail,
                 "%s STag 0x%08" PRIx32 ", reference %" PRIu64 ", %" PRIu64 " bytes%s", what,
                 r->key, r->wr_id, r->len,
                 r->kind == JOURNAL_STAG_TAKEN_BACK ? ", which the peer had not closed" : "");
    }
}

/* ---- holes ----------------------------------------------------------------------------------- */

// No rows: the packet before has opened or closed it.
static uint32_t packet_before(const struct story *s)
{
    return story_next(s) != STORY_NONE && s->event_count > 0 ? s->event_count - 1 : STORY_NONE;
}

static void on_hole_opened(struct works *w, struct story *s, unsigned side,
                           const struct journal_record *r)
{
    struct works_hole *hole = &w->side[s->connection][side].hole[r->key % WORKS_HOLE_MAX];
    *hole = (struct works_hole){.is_open = true, .number = r->key, .len = r->len};
    hole->span = story_span_begin(s, STORY_HOLE, side, packet_before(s));
    struct story_span *span = story_span_at(s, hole->span);
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "hole");
        snprintf(span->detail, sizeof span->detail,
                 "A hole of %" PRIu64 " octets of the stream, from octet %" PRIu64
                 ", as this end recorded it; it did not record that it closed",
                 r->len, r->wr_id);
    }
}

static void on_hole_closed(struct works *w, struct story *s, unsigned side,
                           const struct journal_record *r)
{
    struct works_hole *hole = &w->side[s->connection][side].hole[r->key % WORKS_HOLE_MAX];
    if (!hole->is_open || hole->number != r->key) {
        return; // it opened before the records begin, or another has its place
    }
    struct story_span *span = story_span_at(s, hole->span);
    hole->is_open = false;
    story_span_end(s, hole->span, packet_before(s));
    if (span != NULL) {
        snprintf(span->label, sizeof span->label, "hole, held back %" PRIu64, r->wr_id);
        snprintf(span->detail, sizeof span->detail,
                 "A hole of %" PRIu64 " octets of the stream, as this end recorded it; when it "
                 "closed, %" PRIu64 " octets lay behind it, and it had held back %" PRIu64
                 " messages",
                 hole->len, r->len, r->wr_id);
    }
}

/* ---- whose ----------------------------------------------------------------------------------- */

bool works_is_of(const struct works *w, unsigned connection, unsigned side, uint32_t peer_qp_num,
                 const struct journal_record *r)
{
    if (r->kind == JOURNAL_SEND_POSTED) {
        return r->key == peer_qp_num;
    }
    if (r->kind != JOURNAL_COMPLETED) {
        return true;
    }
    return r->opcode >= WORKS_RECEIVE ? r->key == peer_qp_num || r->status != COMPLETION_SUCCESS
                                      : ends_with(&w->side[connection][side], r->wr_id) > 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

void works_on_record(struct works *w, struct story *s, unsigned side,
                     const struct journal_record *record)
{
    switch (record->kind) {
    case JOURNAL_SEND_POSTED:
        on_send_posted(w, s, side, record);
        break;
    case JOURNAL_RECEIVE_POSTED:
        on_receive_posted(w, s, side, record);
        break;
    case JOURNAL_RECEIVE_TAKEN:
        on_receive_taken(s, side, record);
        break;
    case JOURNAL_COMPLETED:
        on_completed(w, s, side, record);
        break;
    case JOURNAL_CONTEXT_GRANTED:
        on_granted(w, s, side, record);
        break;
    case JOURNAL_CONTEXT_GONE:
        on_gone(w, s, side, record);
        break;
    case JOURNAL_STAG_LENT:
    case JOURNAL_STAG_CLOSED:
    case JOURNAL_STAG_TAKEN_BACK:
        on_stag(s, side, record);
        break;
    case JOURNAL_HOLE_OPENED:
        on_hole_opened(w, s, side, record);
        break;
    case JOURNAL_HOLE_CLOSED:
        on_hole_closed(w, s, side, record);
        break;
    case JOURNAL_CARRIED: // seen by draw/owners.h
    case JOURNAL_KIND_COUNT:
        break;
    }
}
