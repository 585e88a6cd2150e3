#include "draw/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum {
    BREAK_HEIGHT = 34,
    STRETCH_MAX = 14,  // how much further apart rows may be for the time between
    BREAK_FACTOR = 40, // a break is longer than so many usual pauses …
    FOLD_SHOWN = 2,    // segments at the beginning of a fold, and one at its end
    LANE_GAP = 4,
    BAR_MIN = 9,
};
#define BREAK_MIN_NS (500 * NS_PER_US) // … and than this

static const uint8_t lane_width[STORY_SPAN_KIND_COUNT] = {
    [STORY_MESSAGE] = 6, [STORY_WORK] = 13,    [STORY_HOLE] = 16,
    [STORY_READ] = 17,   [STORY_CONTEXT] = 15, [STORY_STAG] = 15};

/* ---- rows ------------------------------------------------------------------------------------ */

// How many events from `at` on are segments of one message, with nothing else to say.
static uint32_t run_len(const struct story *s, uint32_t at)
{
    const struct story_event *first = &s->event[at];
    uint32_t len = 1;
    if (first->message == 0 || first->flags != 0) {
        return 1;
    }
    while (at + len < s->event_count) {
        const struct story_event *e = &s->event[at + len];
        if (e->message != first->message || e->flags != 0 || e->kind != first->kind) {
            break;
        }
        len++;
    }
    return len;
}

static void row_add(struct layout *l, const struct story *s, uint32_t event, uint32_t count)
{
    struct layout_row *row = &l->row[l->row_count];
    *row = (struct layout_row){.event = event, .count = count};
    for (uint32_t i = event; i < event + count; i++) {
        l->row_of_event[i] = l->row_count;
        row->len += s->event[i].len;
    }
    l->has_fold |= count > 1;
    l->row_count++;
}

static void rows_make(struct layout *l, const struct story *s, bool folds)
{
    for (uint32_t at = 0; at < s->event_count;) {
        uint32_t len = run_len(s, at);
        bool is_folded = folds && len >= LAYOUT_FOLD_MIN;
        for (uint32_t i = 0; i < len; i++) {
            uint32_t count = is_folded && i == FOLD_SHOWN ? len - FOLD_SHOWN - 1 : 1;
            row_add(l, s, at + i, count);
            i += count - 1;
        }
        at += len;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static duration_ns pause_before(const struct story *s, const struct layout_row *row)
{
    uint32_t e = row->event;
    return e > 0 && s->event[e].at > s->event[e - 1].at ? s->event[e].at - s->event[e - 1].at : 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// The median of the pauses that are any; at least 1. `pause` has room for a duration per row.
static duration_ns usual_pause(const struct layout *l, const struct story *s, duration_ns *pause)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->row_count; i++) {
        duration_ns it = pause_before(s, &l->row[i]);
        if (it > 0) {
            pause[count++] = it;
        }
    }
    qsort(pause, count, sizeof *pause, compare);
    return count > 0 ? pause[count / 2] : 1;
}

// A logarithm is enough to be seen.
static int stretch(duration_ns pause, duration_ns usual)
{
    int bits = 0;
    for (duration_ns ratio = pause / usual; ratio > 1 && bits * 4 < STRETCH_MAX; ratio /= 2) {
        bits++;
    }
    return bits * 4 < STRETCH_MAX ? bits * 4 : STRETCH_MAX;
}

static int height_of(const struct layout *l, const struct story *s, uint32_t row)
{
    bool is_note = s->event[l->row[row].event].record != 0;
    bool is_before_arrow = row + 1 < l->row_count && s->event[l->row[row + 1].event].record == 0;
    return !is_note          ? LAYOUT_ROW_HEIGHT
           : is_before_arrow ? LAYOUT_NOTE_TO_ARROW
                             : LAYOUT_NOTE_HEIGHT;
}

static void rows_place(struct layout *l, const struct story *s, duration_ns *scratch)
{
    duration_ns usual = usual_pause(l, s, scratch);
    int y = l->first_y;
    for (uint32_t i = 0; i < l->row_count; i++) {
        struct layout_row *row = &l->row[i];
        duration_ns pause = pause_before(s, row);
        if (i > 0 && pause > BREAK_MIN_NS && pause / BREAK_FACTOR > usual) {
            row->silence = pause;
            row->break_y = y + LAYOUT_SLANT / 2 + 4;
            y += BREAK_HEIGHT;
            l->has_break = true;
        } else if (i > 0) {
            y += stretch(pause, usual);
        }
        row->y = y;
        y += height_of(l, s, i);
    }
    l->last_y = y;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

// Where an event touches a side's time line.
static int touch(const struct layout *l, const struct story *s, uint32_t event, unsigned side)
{
    int y = l->row[l->row_of_event[event]].y;
    return s->event[event].side == side || s->event[event].record != 0 ? y : y + LAYOUT_SLANT;
}

static void span_place(struct layout *l, const struct story *s, uint32_t i)
{
    const struct story_span *span = &s->span[i];
    struct layout_lane *lane = &l->lane[i];
    lane->top = touch(l, s, span->begin, span->side);
    lane->bottom = touch(l, s, span->end, span->side) + (span->is_open ? LAYOUT_ROW_HEIGHT / 2 : 0);
    if (lane->bottom < lane->top + BAR_MIN) {
        lane->bottom = lane->top + BAR_MIN;
    }
}

// Gives each span of a kind and side the first lane that is free; returns how many lanes there are.
// `order`: the spans by their beginning.
static unsigned lanes_pack(struct layout *l, const struct story *s, const uint64_t *order,
                           unsigned side, unsigned kind)
{
    int free_at[LAYOUT_LANE_MAX] = {0};
    unsigned used = 0;
    for (uint32_t n = 0; n < s->span_count; n++) {
        uint32_t i = (uint32_t)order[n];
        struct layout_lane *lane = &l->lane[i];
        if (s->span[i].side != side || s->span[i].kind != kind) {
            continue;
        }
        unsigned at = 0;
        while (at < LAYOUT_LANE_MAX && free_at[at] > lane->top) {
            at++;
        }
        if (at == LAYOUT_LANE_MAX) {
            l->lanes_left_out++;
            continue;
        }
        lane->is_drawn = true;
        lane->x = (int)at; // for now
        lane->width = lane_width[kind];
        free_at[at] = lane->bottom + 2;
        used = at + 1 > used ? at + 1 : used;
        l->has_span[kind] = true;
        l->has_open |= s->span[i].is_open && kind != STORY_MESSAGE;
    }
    return used;
}

// From lane numbers to places, outwards from the time line.
static void lanes_move(struct layout *l, const struct story *s, unsigned side, unsigned kind,
                       int from_line)
{
    int width = lane_width[kind], step = width + LANE_GAP;
    for (uint32_t i = 0; i < s->span_count; i++) {
        struct layout_lane *lane = &l->lane[i];
        if (lane->is_drawn && s->span[i].side == side && s->span[i].kind == kind) {
            int away = from_line + lane->x * step;
            lane->x = side == 0 ? -away - width : away;
        }
    }
}

// `order` has room for a number per span.
static void lanes_make(struct layout *l, const struct story *s, uint64_t *order)
{
    for (uint32_t i = 0; i < s->span_count; i++) {
        span_place(l, s, i);
        order[i] = (uint64_t)s->span[i].begin << 32 | i;
    }
    qsort(order, s->span_count, sizeof *order, compare);
    for (unsigned side = 0; side < 2; side++) {
        int from_line = 7;
        for (unsigned kind = 0; kind < STORY_SPAN_KIND_COUNT; kind++) {
            unsigned used = lanes_pack(l, s, order, side, kind);
            lanes_move(l, s, side, kind, from_line);
            from_line += (int)used * (lane_width[kind] + LANE_GAP);
        }
        int half_head = LAYOUT_HEAD_WIDTH / 2 + 4;
        int least = half_head - (side == 0 ? LAYOUT_TIME_WIDTH : LAYOUT_PACKET_WIDTH);
        l->lanes_width[side] = from_line > least ? from_line : least;
    }
}

static void columns_place(struct layout *l, const struct story *s)
{
    l->line_x[0] = LAYOUT_MARGIN + LAYOUT_TIME_WIDTH + l->lanes_width[0];
    l->line_x[1] = l->line_x[0] + LAYOUT_ARROW_WIDTH;
    l->width = l->line_x[1] + l->lanes_width[1] + LAYOUT_PACKET_WIDTH + LAYOUT_MARGIN;
    for (uint32_t i = 0; i < s->span_count; i++) {
        l->lane[i].x += l->line_x[s->span[i].side];
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

bool layout_create(struct layout *l, const struct story *s, bool folds, int top)
{
    size_t events = (size_t)s->event_count + 1;
    *l = (struct layout){
        .row = calloc(events, sizeof *l->row),
        .row_of_event = calloc(events, sizeof *l->row_of_event),
        .lane = calloc((size_t)s->span_count + 1, sizeof *l->lane),
        .head_y = top,
        .first_y = top + LAYOUT_HEAD_HEIGHT + 18,
    };
    // Pauses by row, then spans in order.
    uint64_t *scratch = calloc(events + s->span_count, sizeof *scratch);
    bool is_made = l->row != NULL && l->row_of_event != NULL && l->lane != NULL && scratch != NULL;
    if (is_made) {
        rows_make(l, s, folds);
        rows_place(l, s, scratch);
        lanes_make(l, s, scratch);
        columns_place(l, s);
        for (uint32_t i = 0; i < s->event_count; i++) {
            l->has_kind[s->event[i].kind] = true;
            l->flags |= s->event[i].flags;
        }
    } else {
        layout_destroy(l);
    }
    free(scratch);
    return is_made;
}

void layout_destroy(struct layout *l)
{
    free(l->row);
    free(l->row_of_event);
    free(l->lane);
    *l = (struct layout){0};
}
