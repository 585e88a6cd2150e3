#include "draw/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { SPANS_PER_EVENT = 2 };

const char *story_kind_name(enum story_kind kind)
{
    static const char *const names[STORY_KIND_COUNT] = {
        [STORY_START] = "start",
        [STORY_END] = "end",
        [STORY_SEND] = "send",
        [STORY_WRITE] = "write",
        [STORY_READ_REQUEST] = "request",
        [STORY_READ_RESPONSE] = "response",
        [STORY_ATOMIC] = "atomic",
        [STORY_CONTROL] = "control",
        [STORY_TROUBLE] = "trouble",
        [STORY_SEGMENT] = "segment",
        [STORY_POST] = "post",
        [STORY_RECEIVE] = "receive",
        [STORY_COMPLETION] = "completion",
        [STORY_LENDING] = "lending",
    };
    return names[kind];
}

const char *story_span_kind_name(enum story_span_kind kind)
{
    static const char *const names[STORY_SPAN_KIND_COUNT] = {
        [STORY_MESSAGE] = "message", [STORY_WORK] = "work",       [STORY_HOLE] = "hole",
        [STORY_READ] = "read",       [STORY_CONTEXT] = "context", [STORY_STAG] = "stag",
    };
    return names[kind];
}

bool story_create(struct story *s, const struct story_bounds *bounds, instant_ns begin)
{
    CHECK(bounds->event_max > 0 && bounds->event_max <= STORY_EVENT_MAX);
    *s = (struct story){
        .bounds = *bounds,
        .begin = begin,
        .event = calloc(bounds->event_max, sizeof *s->event),
        .span = calloc((size_t)bounds->event_max * SPANS_PER_EVENT, sizeof *s->span),
        .span_max = bounds->event_max * SPANS_PER_EVENT,
    };
    if (s->event == NULL || s->span == NULL) {
        story_destroy(s);
        return false;
    }
    return true;
}

void story_destroy(struct story *s)
{
    free(s->event);
    free(s->span);
    *s = (struct story){0};
}

void story_on_packet(struct story *s, uint64_t number, instant_ns at, unsigned connection)
{
    s->packet = number;
    s->record = 0;
    s->at = at;
    s->connection = (uint8_t)connection;
}

void story_on_record(struct story *s, uint64_t number, instant_ns at, unsigned connection)
{
    s->record = number;
    s->at = at;
    s->connection = (uint8_t)connection;
}

static bool is_before(const struct story *s)
{
    duration_ns since = s->at > s->begin ? s->at - s->begin : 0;
    return s->packet < s->bounds.from_packet || since < s->bounds.from;
}

static bool is_behind(const struct story *s)
{
    duration_ns since = s->at > s->begin ? s->at - s->begin : 0;
    return s->packet > s->bounds.to_packet || since > s->bounds.to;
}

static bool is_skipped(const struct story *s)
{
    return s->within_count < s->bounds.first_event;
}

static bool is_full(const struct story *s)
{
    return s->event_count == s->bounds.event_max;
}

struct story_event *story_add(struct story *s, enum story_kind kind, unsigned side)
{
    bool is_within = !is_before(s) && !is_behind(s);
    bool is_early = is_before(s) || (is_within && is_skipped(s));
    s->within_count += is_within;
    if (is_early) {
        s->left_out_before++;
        return NULL;
    }
    if (!is_within || is_full(s)) {
        s->left_out_behind++;
        return NULL;
    }
    struct story_event *e = &s->event[s->event_count++];
    *e = (struct story_event){.packet = s->packet,
                              .record = s->record,
                              .at = s->at,
                              .kind = (uint8_t)kind,
                              .side = (uint8_t)side,
                              .connection = s->connection,
                              .hole = STORY_NONE};
    return e;
}

uint32_t story_last(const struct story *s)
{
    const struct story_event *e = s->event_count > 0 ? &s->event[s->event_count - 1] : NULL;
    bool is_it = e != NULL && e->packet == s->packet && e->record == s->record;
    return is_it ? s->event_count - 1 : STORY_NONE;
}

uint32_t story_next(const struct story *s)
{
    bool is_told = !is_before(s) && !is_behind(s) && !is_skipped(s) && !is_full(s);
    return is_told ? s->event_count : STORY_NONE;
}

uint32_t story_span_begin(struct story *s, enum story_span_kind kind, unsigned side, uint32_t event)
{
    if (event == STORY_NONE || s->span_count == s->span_max) {
        return STORY_NONE;
    }
    s->span[s->span_count] = (struct story_span){.kind = (uint8_t)kind,
                                                 .side = (uint8_t)side,
                                                 .connection = s->connection,
                                                 .begin = event,
                                                 .end = STORY_NONE};
    return s->span_count++;
}

void story_span_end(struct story *s, uint32_t span, uint32_t event)
{
    struct story_span *it = story_span_at(s, span);
    if (it != NULL && event != STORY_NONE) {
        it->end = event;
    }
}

struct story_span *story_span_at(struct story *s, uint32_t span)
{
    return span == STORY_NONE ? NULL : &s->span[span];
}

void story_hole_before(struct story *s, uint32_t span, uint32_t first)
{
    for (uint32_t i = first; i < s->event_count; i++) {
        s->event[i].hole = span;
    }
}

void story_hole_deny(struct story *s, uint32_t span, const char *detail)
{
    struct story_span *it = story_span_at(s, span);
    if (it == NULL) {
        return;
    }
    it->end = s->event_count - 1;
    snprintf(it->label, sizeof it->label, "not captured");
    snprintf(it->detail, sizeof it->detail, "%s", detail);
    for (uint32_t i = it->begin; i < s->event_count; i++) {
        if (s->event[i].hole == span) {
            s->event[i].flags &= (uint8_t)~STORY_EARLY;
        }
    }
}

// Those that wait for an event that did not come begin nowhere.
static void spans_trim(struct story *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->span_count; i++) {
        if (s->span[i].begin < s->event_count) {
            s->span[kept++] = s->span[i];
        }
    }
    s->span_count = kept;
}

void story_finish(struct story *s)
{
    spans_trim(s);
    for (uint32_t i = 0; i < s->span_count; i++) {
        if (s->span[i].end == STORY_NONE) {
            s->span[i].end = s->event_count - 1;
            s->span[i].is_open = true;
        }
    }
}
