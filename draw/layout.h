// Where everything of a picture stands, in units of SVG (a ninety-sixth of an inch on paper).
//
//   time │ lanes of the left side │ arrows │ lanes of the right side │ packets
//
// Time goes down in rows, one for each event, further apart where more time passes; a long silence
// is a break. Runs of segments of one message, of which there is nothing more to say, fold into one
// row. Lanes are, from the time line outwards: messages, work requests, holes, Reads, read
// contexts, STags; spans that overlap in time stand in lanes side by side, so that Reads under way
// stand in as many as there are contexts.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "draw/story.h"

enum {
    LAYOUT_MARGIN = 14,
    LAYOUT_TIME_WIDTH = 66,
    LAYOUT_PACKET_WIDTH = 52,
    LAYOUT_ARROW_WIDTH = 460,
    LAYOUT_SLANT = 9,          // an arrow's end is so much lower than its beginning
    LAYOUT_ROW_HEIGHT = 21,    // at least, from one arrow's beginning to the next one's
    LAYOUT_NOTE_HEIGHT = 16,   // ... of what is no arrow, to the next such
    LAYOUT_NOTE_TO_ARROW = 20, // ... to an arrow, whose words stand above it
    LAYOUT_HEAD_HEIGHT = 40,   // the box on top of a time line
    LAYOUT_HEAD_WIDTH = 206,
    LAYOUT_LANE_MAX = 12, // of a kind and side; spans that need more are left out
    LAYOUT_FOLD_MIN = 5,  // segments that are not folded
};

struct layout_row {
    uint32_t event;      // the first that it stands for
    uint32_t count;      // 1, or how many were folded
    uint64_t len;        // octets of all of them
    int y;               // where the arrow begins
    duration_ns silence; // before it, if there is a break; 0: none
    int break_y;
};

struct layout_lane {
    bool is_drawn;
    int x, width; // the left edge
    int top, bottom;
};

struct layout {
    struct layout_row *row;
    uint32_t *row_of_event;
    struct layout_lane *lane; // by span
    uint32_t row_count;
    uint32_t lanes_left_out;
    int line_x[2]; // of the time lines
    int lanes_width[2];
    int width, head_y, first_y, last_y; // without what stands above and below
    bool has_kind[STORY_KIND_COUNT], has_span[STORY_SPAN_KIND_COUNT];
    uint8_t flags; // of all events
    bool has_fold, has_break, has_open;
};

// `top`: where the heads begin. False: no memory.
bool layout_create(struct layout *l, const struct story *s, bool folds, int top);
void layout_destroy(struct layout *l);
