#include "draw/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "draw/layout.h"
#include "draw/story.h"
#include "draw/svg_frame.h"
#include "draw/svg_text.h"
#include "text/quantity.h"

enum {
    HEAD_LEN = 8, // of an arrow's head
    HEAD_HALF = 3,
    MARK_HALF = 4,  // of the mark of a record
    LABEL_LIFT = 3, // of a label above its arrow
    LABEL_ROOM = LAYOUT_ARROW_WIDTH - 20,
    LETTERS = 105, // tenths
    SMALL_LETTERS = 90,
};

struct drawing {
    const struct xml_out *out;
    const struct picture *picture;
    const struct story *story;
    const struct layout *layout;
};

/* ---- arrows ---------------------------------------------------------------------------------- */

static void put_classes(const struct drawing *d, const struct story_event *e, bool is_fold)
{
    xml_put(d->out, "e %s%s%s%s%s%s%s", story_kind_name((enum story_kind)e->kind),
            (e->flags & STORY_FAILED) != 0 ? " failed" : "",
            (e->flags & STORY_EARLY) != 0 ? " early" : "",
            (e->flags & STORY_AGAIN) != 0 ? " again" : "",
            (e->flags & STORY_LATE) != 0 ? " late" : "", (e->flags & STORY_CUT) != 0 ? " cut" : "",
            is_fold ? " fold" : "");
}

static const char *remark(unsigned flags)
{
    if ((flags & STORY_AGAIN) != 0) {
        return " (again)";
    }
    if ((flags & STORY_EARLY) != 0) {
        return " (early)";
    }
    return (flags & STORY_LATE) != 0 ? " (closes a hole)" : "";
}

// The words of an arrow, as they stand in its title, with room for less above it.
static void words_of(const struct drawing *d, const struct layout_row *row, char *ret, size_t size)
{
    const struct story_event *e = &d->story->event[row->event];
    char octets[TEXT_SIZE_MAX], number[16] = "";
    if (d->picture->connection_count > 1) {
        snprintf(number, sizeof number, "[%" PRIu32 "] ",
                 d->picture->connection_number[e->connection]);
    }
    if (row->count > 1 && e->record != 0) {
        snprintf(ret, size, "%s%" PRIu32 " more · %s bytes", number, row->count,
                 text_size_format(row->len, octets));
    } else if (row->count > 1) {
        snprintf(ret, size, "%s%" PRIu32 " more of this message · %s octets", number, row->count,
                 text_size_format(row->len, octets));
    } else {
        snprintf(ret, size, "%s%s%s", number, e->label, remark(e->flags));
    }
}

static void put_shape(const struct drawing *d, const struct story_event *e, int y)
{
    int from = d->layout->line_x[e->side], to = d->layout->line_x[1 - e->side];
    int way = from < to ? 1 : -1, end_y = y + LAYOUT_SLANT;
    xml_put(d->out, "<path class=\"a\" d=\"M%d %dL%d %d\"/>", from, y, to - way * HEAD_LEN / 2,
            end_y);
    xml_put(d->out, "<path class=\"h\" d=\"M%d %dl%d %dv%dz\"/>", to, end_y, -way * HEAD_LEN,
            -HEAD_HALF, 2 * HEAD_HALF);
}

// A record: a mark on the time line, and the words beside it.
static void put_note(const struct drawing *d, const struct story_event *e, const char *words, int y)
{
    char cut[SVG_TEXT_MAX];
    int way = e->side == 0 ? 1 : -1, x = d->layout->line_x[e->side];
    bool is_end = e->kind == STORY_COMPLETION;
    if (is_end) {
        xml_put(d->out, "<circle class=\"m\" cx=\"%d\" cy=\"%d\" r=\"%d\"/>", x, y, MARK_HALF);
    } else {
        xml_put(d->out, "<path class=\"m\" d=\"M%d %dl%d %dv%dz\"/>", x, y, way * HEAD_LEN,
                -MARK_HALF, 2 * MARK_HALF);
    }
    xml_put(d->out, "<text class=\"note\" x=\"%d\" y=\"%d\" text-anchor=\"%s\">",
            x + way * (HEAD_LEN + 4), y + 3, e->side == 0 ? "start" : "end");
    xml_text(d->out, svg_text_cut(words, svg_text_room(LABEL_ROOM, SMALL_LETTERS), cut));
    xml_raw(d->out, "</text>");
}

static void put_label(const struct drawing *d, const struct story_event *e, const char *words,
                      int y)
{
    char cut[SVG_TEXT_MAX];
    int x = (d->layout->line_x[0] + d->layout->line_x[1]) / 2, mid_y = y + LAYOUT_SLANT / 2;
    // Degrees, in hundredths: the slope of the arrow.
    int slope = LAYOUT_SLANT * 5730 / LAYOUT_ARROW_WIDTH * (e->side == 0 ? 1 : -1);
    xml_put(d->out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(%s%d.%02d %d %d)\">",
            x, mid_y - LABEL_LIFT, slope < 0 ? "-" : "", (slope < 0 ? -slope : slope) / 100,
            (slope < 0 ? -slope : slope) % 100, x, mid_y);
    xml_text(d->out, svg_text_cut(words, svg_text_room(LABEL_ROOM, LETTERS), cut));
    xml_raw(d->out, "</text>");
}

// What all of an event's own text begins with; `time` becomes when it was.
static void put_title(const struct drawing *d, const struct story_event *e, const char *words,
                      char time[SVG_TIME_MAX])
{
    duration_ns since = e->at > d->story->begin ? e->at - d->story->begin : 0;
    svg_text_time_finely(since, time);
    xml_raw(d->out, "<title>");
    xml_text(d->out, words);
    xml_put(d->out, "</title><desc>%s %" PRIu64 ", at %s. ", e->record != 0 ? "record" : "packet",
            e->record != 0 ? e->record : e->packet, time);
    xml_text(d->out, e->detail);
    xml_raw(d->out, "</desc>");
}

static void put_data(const struct drawing *d, const struct layout_row *row)
{
    const struct story_event *e = &d->story->event[row->event];
    uint32_t fpdus = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        fpdus += d->story->event[row->event + i].fpdus;
    }
    if (e->record != 0) {
        xml_put(d->out, " data-record=\"%" PRIu64 "\" data-side=\"%u\" data-count=\"%" PRIu32 "\">",
                e->record, e->side, row->count);
    } else {
        xml_put(d->out,
                " data-packet=\"%" PRIu64 "\" data-side=\"%u\" data-fpdus=\"%" PRIu32
                "\" data-len=\"%" PRIu64 "\">",
                e->packet, e->side, fpdus, row->len);
    }
}

static void put_row(const struct drawing *d, const struct layout_row *row)
{
    const struct story_event *e = &d->story->event[row->event];
    char words[STORY_LABEL_MAX + 48], time[SVG_TIME_MAX];
    words_of(d, row, words, sizeof words);
    xml_raw(d->out, "<g class=\"");
    put_classes(d, e, row->count > 1);
    xml_raw(d->out, "\"");
    put_data(d, row);
    put_title(d, e, words, time);
    if (e->record != 0) {
        put_note(d, e, words, row->y);
    } else {
        put_shape(d, e, row->y);
        put_label(d, e, words, row->y);
    }
    xml_put(d->out, "<text class=\"muted small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>",
            LAYOUT_MARGIN + LAYOUT_TIME_WIDTH - 14, row->y + 3, time);
    if (e->record == 0) {
        xml_put(d->out,
                "<text class=\"muted small\" x=\"%d\" y=\"%d\" text-anchor=\"end\">#%" PRIu64
                "</text>",
                d->layout->width - LAYOUT_MARGIN, row->y + 3, e->packet);
    }
    xml_raw(d->out, "</g>\n");
}

static void put_break(const struct drawing *d, const struct layout_row *row)
{
    char time[SVG_TIME_MAX];
    int y = row->break_y;
    if (row->silence == 0) {
        return;
    }
    xml_put(d->out, "<g class=\"silence\"><title>nothing for %s</title>",
            svg_text_time(row->silence, time));
    for (unsigned side = 0; side < 2; side++) {
        xml_put(d->out, "<path class=\"zig\" d=\"M%d %dl-5 3l10 4l-10 4l5 3\"/>",
                d->layout->line_x[side], y - 7);
    }
    xml_put(d->out,
            "<text class=\"muted\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s of silence"
            "</text></g>\n",
            (d->layout->line_x[0] + d->layout->line_x[1]) / 2, y + 4, time);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static void put_bar(const struct drawing *d, const struct story_span *span,
                    const struct layout_lane *lane)
{
    int height = lane->bottom - lane->top;
    if (span->kind == STORY_MESSAGE) {
        int inner = span->side == 0 ? lane->x + lane->width : lane->x;
        int way = span->side == 0 ? -lane->width : lane->width;
        xml_put(d->out, "<path class=\"bar\" d=\"M%d %dh%dv%dh%d\"/>", inner, lane->top - 2, way,
                height + 4, -way);
        return;
    }
    xml_put(d->out, "<rect class=\"bar%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"2\"/>",
            span->is_open ? " open" : "", lane->x, lane->top, lane->width, height);
}

// Along the bar, if there is room for all of the words, or for the part behind the first.
static void put_bar_text(const struct drawing *d, const struct story_span *span,
                         const struct layout_lane *lane)
{
    unsigned room = svg_text_room(lane->bottom - lane->top - 4, SMALL_LETTERS);
    const char *words = span->label, *space = strrchr(words, ' ');
    if (svg_text_count(words) > room && space != NULL && span->kind == STORY_READ) {
        words = space + 1;
    }
    if (words[0] == '\0' || svg_text_count(words) > room) {
        return;
    }
    int x = lane->x + lane->width / 2, y = (lane->top + lane->bottom) / 2;
    xml_put(d->out,
            "<text class=\"bar-text\" x=\"%d\" y=\"%d\" text-anchor=\"middle\" "
            "transform=\"rotate(-90 %d %d)\">",
            x, y + 3, x, y);
    xml_text(d->out, words);
    xml_raw(d->out, "</text>");
}

// Reads in turn, or where several connections are drawn, those of every other one.
static bool is_odd(const struct drawing *d, const struct story_span *span)
{
    bool is_alone = d->picture->connection_count == 1;
    if (span->kind == STORY_CONTEXT) {
        return !is_alone && span->connection % 2 != 0;
    }
    return span->kind == STORY_READ && (is_alone ? span->group - 1 : span->connection) % 2 != 0;
}

static void put_span(const struct drawing *d, uint32_t i)
{
    const struct story_span *span = &d->story->span[i];
    const struct layout_lane *lane = &d->layout->lane[i];
    if (!lane->is_drawn) {
        return;
    }
    xml_put(d->out, "<g class=\"s %s%s\" data-side=\"%u\" data-group=\"%" PRIu32 "\"><title>",
            story_span_kind_name((enum story_span_kind)span->kind), is_odd(d, span) ? " odd" : "",
            span->side, span->group);
    xml_text(d->out, span->label[0] != '\0' ? span->label : "message");
    xml_raw(d->out, "</title><desc>");
    xml_text(d->out, span->detail);
    xml_raw(d->out, "</desc>");
    put_bar(d, span, lane);
    put_bar_text(d, span, lane);
    xml_raw(d->out, "</g>\n");
}

/* ---- all ------------------------------------------------------------------------------------- */

bool svg_put(const struct xml_out *out, const struct picture *picture, bool is_page)
{
    struct layout layout;
    if (!layout_create(&layout, picture->story, picture->folds, svg_frame_top(picture))) {
        return false;
    }
    struct drawing d = {out, picture, picture->story, &layout};
    svg_frame_open(out, picture, &layout, is_page);
    xml_raw(out, "<g id=\"lanes\">\n");
    for (uint32_t i = 0; i < picture->story->span_count; i++) {
        put_span(&d, i);
    }
    xml_raw(out, "</g>\n<g id=\"events\">\n");
    for (uint32_t i = 0; i < layout.row_count; i++) {
        put_break(&d, &layout.row[i]);
        put_row(&d, &layout.row[i]);
    }
    xml_raw(out, "</g>\n");
    svg_frame_close(out, picture, &layout);
    layout_destroy(&layout);
    return true;
}
