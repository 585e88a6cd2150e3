// The columns of the tables of `weft top`: how each is called, shown and sorted. One table per kind
// of subject; the same on the screen, in --batch and in --json.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/top/model.h"

struct top_column {
    const char *title;
    const char *name; // in --json, with its unit; NULL: it is not there
    unsigned width;   // 0: what is left of the row
    bool is_right;    // numbers
    // What stands in the cell; left as it is: nothing.
    void (*show)(const struct top_subject *s, char ret[TOP_TEXT_LEN]);
    // What to sort by, the greatest first; NULL: by the text of the cell.
    uint64_t (*value)(const struct top_subject *s);
};

struct top_table {
    const char *title, *one; // "processes", "process"
    const char *nothing;     // a sentence: there is none
    const struct top_column *columns;
    unsigned count;
    unsigned sorted_by; // at first
};

enum { TOP_COLUMN_MAX = 12 };

const struct top_table *top_table(enum top_kind kind);

// Those of a kind that hold `filter` in a cell (NULL or "": all), in order; gives back how many are
// in `ret`, which has room for model->count.
size_t top_rows(const struct top_model *model, enum top_kind kind, unsigned sorted_by,
                bool is_reversed, const char *filter, const struct top_subject **ret);
