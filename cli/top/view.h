// Which part of what is known the screen shows, and what keys change of it. Knows no terminal.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/top/columns.h"
#include "cli/top/model.h"

// Beyond characters, which are themselves.
enum top_key {
    TOP_KEY_BACKSPACE = 8,
    TOP_KEY_TAB = 9,
    TOP_KEY_ENTER = 10,
    TOP_KEY_ESCAPE = 27,
    TOP_KEY_UP = 0x110000,
    TOP_KEY_DOWN,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
};

struct top_order {
    unsigned sorted_by; // a column
    bool is_reversed;
};

// Names a subject beyond the round that it was seen in.
struct top_choice {
    bool is_made;
    pid_t pid;
    bool is_node;
    char id[TOP_TEXT_LEN];
};

struct top_view {
    enum top_kind kind;
    struct top_order orders[TOP_KIND_COUNT];
    struct top_choice choices[TOP_KIND_COUNT];
    char filter[TOP_TEXT_LEN];
    bool is_typing;  // the filter
    bool is_detail;  // of what is chosen
    unsigned scroll; // lines of it that have gone by
    bool is_help;
    bool is_paused; // the caller asks nobody
    bool has_unicode;
    unsigned interval_seconds;
};

void top_view_init(struct top_view *view, unsigned interval_seconds, bool has_unicode);

// False: the user has seen enough. `page`: rows that are shown at a time.
bool top_view_key(struct top_view *view, const struct top_model *model, unsigned page, int key);

// The rows of the table that is shown, in order, and which of them is chosen: the first, where
// that is gone. Room for model->count.
size_t top_view_rows(const struct top_view *view, const struct top_model *model,
                     const struct top_subject **ret, size_t *ret_chosen);

// What is chosen; NULL: there is nothing.
const struct top_subject *top_view_chosen(const struct top_view *view,
                                          const struct top_model *model);
