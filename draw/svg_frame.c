#include "draw/svg_frame.h"

#include <stdio.h>

#include "draw/story.h"
#include "draw/svg_style.h"
#include "draw/svg_text.h"

enum {
    TITLE_BASE = 34,
    LINE_HEIGHT = 15,
    LETTERS = 105, // tenths
    HEAD_LETTERS = 105,
    NARROWEST = LAYOUT_ARROW_WIDTH + 190, // no picture is narrower
    TEXT_ROOM = NARROWEST - 2 * LAYOUT_MARGIN,
    LEGEND_ITEM_WIDTH = 150,
    LEGEND_SWATCH = 30,
};

/* ---- text in lines --------------------------------------------------------------------------- */

static int lines_of(const char *text)
{
    char line[SVG_TEXT_MAX];
    int count = 0;
    for (; *text != '\0'; count++) {
        text = svg_text_line(text, svg_text_room(TEXT_ROOM, LETTERS), line);
    }
    return count;
}

// Puts a text in lines from `y` on; gives back the place of the next line.
static int put_lines(const struct xml_out *out, const char *text, int y)
{
    char line[SVG_TEXT_MAX];
    while (*text != '\0') {
        text = svg_text_line(text, svg_text_room(TEXT_ROOM, LETTERS), line);
        xml_put(out, "<text class=\"muted\" x=\"%d\" y=\"%d\">", LAYOUT_MARGIN, y);
        xml_text(out, line);
        xml_raw(out, "</text>\n");
        y += LINE_HEIGHT;
    }
    return y;
}

int svg_frame_top(const struct picture *picture)
{
    return TITLE_BASE + LINE_HEIGHT * lines_of(picture->subtitle) + 16;
}

/* ---- legend ---------------------------------------------------------------------------------- */

enum legend_shape { LEGEND_ARROW, LEGEND_BAR, LEGEND_BRACKET, LEGEND_TRIANGLE, LEGEND_RING };

struct legend_item {
    const char *classes, *words;
    enum legend_shape shape;
};

// Those of the picture; at most `max`.
static unsigned legend_items(const struct layout *l, struct legend_item *item, unsigned max)
{
    static const struct legend_item kinds[STORY_KIND_COUNT] = {
        [STORY_START] = {"start", "start-up, end"},
        [STORY_SEND] = {"send", "Send"},
        [STORY_WRITE] = {"write", "Write"},
        [STORY_READ_REQUEST] = {"request", "Read Request"},
        [STORY_READ_RESPONSE] = {"response", "Read Response"},
        [STORY_ATOMIC] = {"atomic", "atomic"},
        [STORY_CONTROL] = {"control", "control"},
        [STORY_TROUBLE] = {"trouble", "trouble"},
        [STORY_SEGMENT] = {"segment", "octets out of turn"},
        [STORY_POST] = {"post", "post", LEGEND_TRIANGLE},
        [STORY_RECEIVE] = {"receive", "post of a receive", LEGEND_TRIANGLE},
        [STORY_COMPLETION] = {"completion", "completion", LEGEND_RING},
        [STORY_LENDING] = {"lending", "STag lent, back", LEGEND_TRIANGLE},
    };
    static const struct legend_item spans[STORY_SPAN_KIND_COUNT] = {
        [STORY_MESSAGE] = {"message", "one message", LEGEND_BRACKET},
        [STORY_WORK] = {"work", "work request", LEGEND_BAR},
        [STORY_HOLE] = {"hole", "hole until it closes", LEGEND_BAR},
        [STORY_READ] = {"read", "Read under way", LEGEND_BAR},
        [STORY_CONTEXT] = {"context", "read context held", LEGEND_BAR},
        [STORY_STAG] = {"stag", "life of an STag", LEGEND_BAR},
    };
    unsigned count = 0;
    for (unsigned i = 0; i < STORY_KIND_COUNT && count < max; i++) {
        if (l->has_kind[i] && kinds[i].words != NULL) {
            item[count++] = kinds[i];
        }
    }
    if ((l->flags & STORY_EARLY) != 0) {
        item[count++] = (struct legend_item){"send early", "placed early"};
    }
    if ((l->flags & STORY_AGAIN) != 0) {
        item[count++] = (struct legend_item){"send again", "seen again"};
    }
    if (l->has_fold) {
        item[count++] = (struct legend_item){"send fold", "several, folded"};
    }
    for (unsigned i = 0; i < STORY_SPAN_KIND_COUNT && count < max; i++) {
        if (l->has_span[i]) {
            item[count++] = spans[i];
        }
    }
    if (l->has_open) {
        item[count++] = (struct legend_item){"work open", "its end not seen", LEGEND_BAR};
    }
    return count;
}

// As they stand in the picture, at the left side's time line.
static void put_shape(const struct xml_out *out, const struct legend_item *item, int x, int y)
{
    switch (item->shape) {
    case LEGEND_ARROW:
        xml_put(out, "<path class=\"a\" d=\"M%d %dh%d\"/><path class=\"h\" d=\"M%d %dl-7 -3v6z\"/>",
                x, y - 4, LEGEND_SWATCH - 6, x + LEGEND_SWATCH - 4, y - 4);
        break;
    case LEGEND_BAR:
        xml_put(out, "<rect class=\"bar\" x=\"%d\" y=\"%d\" width=\"20\" height=\"10\" rx=\"2\"/>",
                x + 4, y - 9);
        break;
    case LEGEND_BRACKET:
        xml_put(out, "<path class=\"bar\" d=\"M%d %dh-6v10h6\"/>", x + 17, y - 9);
        break;
    case LEGEND_TRIANGLE:
        xml_put(out, "<path class=\"m\" d=\"M%d %dl8 -4v8z\"/>", x + 10, y - 4);
        break;
    case LEGEND_RING:
        xml_put(out, "<circle class=\"m\" cx=\"%d\" cy=\"%d\" r=\"4\"/>", x + 14, y - 4);
        break;
    }
}

static void put_swatch(const struct xml_out *out, const struct legend_item *item, int x, int y)
{
    xml_put(out, "<g class=\"%s\">", item->classes);
    put_shape(out, item, x, y);
    xml_put(out, "</g><text class=\"muted\" x=\"%d\" y=\"%d\">%s</text>\n", x + LEGEND_SWATCH + 4,
            y, item->words);
}

enum { LEGEND_MAX = STORY_KIND_COUNT + STORY_SPAN_KIND_COUNT + 4 };

static int put_legend(const struct xml_out *out, const struct layout *l, int y)
{
    struct legend_item item[LEGEND_MAX];
    unsigned count = legend_items(l, item, LEGEND_MAX);
    unsigned columns = (unsigned)((l->width - 2 * LAYOUT_MARGIN) / LEGEND_ITEM_WIDTH);
    xml_raw(out, "<g id=\"legend\" aria-hidden=\"true\">\n");
    for (unsigned i = 0; i < count; i++) {
        put_swatch(out, &item[i], LAYOUT_MARGIN + (int)(i % columns) * LEGEND_ITEM_WIDTH,
                   y + (int)(i / columns) * LINE_HEIGHT);
    }
    xml_raw(out, "</g>\n");
    return y + (int)((count + columns - 1) / columns) * LINE_HEIGHT;
}

/* ---- lines and heads ------------------------------------------------------------------------- */

static void put_head(const struct xml_out *out, const struct picture *picture,
                     const struct layout *l, unsigned side)
{
    char cut[SVG_TEXT_MAX];
    unsigned room = svg_text_room(LAYOUT_HEAD_WIDTH - 8, HEAD_LETTERS);
    int x = l->line_x[side];
    xml_put(out, "<path class=\"line\" d=\"M%d %dV%d\"/>", x, l->head_y + LAYOUT_HEAD_HEIGHT,
            l->last_y);
    xml_put(out, "<g class=\"head\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>",
            x - LAYOUT_HEAD_WIDTH / 2, l->head_y, LAYOUT_HEAD_WIDTH, LAYOUT_HEAD_HEIGHT);
    xml_put(out, "<text class=\"role\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x,
            l->head_y + 16);
    xml_text(out, svg_text_cut(picture->side[side].role, room, cut));
    xml_put(out, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x, l->head_y + 31);
    xml_text(out, svg_text_cut(picture->side[side].address, room, cut));
    xml_raw(out, "</text></g>\n");
}

// Where the picture ends: below the legend and the notes.
static int height_of(const struct picture *picture, const struct layout *l)
{
    struct legend_item item[LEGEND_MAX];
    unsigned count = legend_items(l, item, LEGEND_MAX);
    unsigned columns = (unsigned)((l->width - 2 * LAYOUT_MARGIN) / LEGEND_ITEM_WIDTH);
    int lines = (int)((count + columns - 1) / columns);
    for (unsigned i = 0; i < picture->note_count; i++) {
        lines += lines_of(picture->note[i]);
    }
    return l->last_y + 32 + lines * LINE_HEIGHT + 8;
}

void svg_frame_open(const struct xml_out *out, const struct picture *picture,
                    const struct layout *l, bool is_page)
{
    int height = height_of(picture, l);
    if (!is_page) {
        xml_raw(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    }
    xml_put(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"picture\" viewBox=\"0 0 %d %d\" "
            "width=\"%d\" height=\"%d\" role=\"graphics-document document\" "
            "aria-labelledby=\"picture-title picture-desc\">\n<title id=\"picture-title\">",
            l->width, height, l->width, height);
    xml_text(out, picture->title);
    xml_raw(out, "</title>\n<desc id=\"picture-desc\">");
    xml_text(out, picture->subtitle);
    xml_raw(out, "</desc>\n<style>");
    xml_raw(out, svg_style);
    xml_raw(out, "</style>\n<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" "
                 "patternUnits=\"userSpaceOnUse\"><path class=\"hatch\" "
                 "d=\"M-1 1l2-2M0 5l5-5M4 6l2-2\"/></pattern></defs>\n");
    char cut[SVG_TEXT_MAX];
    xml_put(out, "<text class=\"title\" x=\"%d\" y=\"26\">", LAYOUT_MARGIN);
    xml_text(out, svg_text_cut(picture->title, svg_text_room(TEXT_ROOM, 160), cut));
    xml_raw(out, "</text>\n");
    put_lines(out, picture->subtitle, TITLE_BASE + 10);
    put_head(out, picture, l, 0);
    put_head(out, picture, l, 1);
}

void svg_frame_close(const struct xml_out *out, const struct picture *picture,
                     const struct layout *l)
{
    int y = put_legend(out, l, l->last_y + 26);
    for (unsigned i = 0; i < picture->note_count; i++) {
        y = put_lines(out, picture->note[i], y + 4);
    }
    xml_raw(out, "</svg>\n");
}
