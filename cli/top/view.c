#include "cli/top/view.h"

#include <stdlib.h>
#include <string.h>

void top_view_init(struct top_view *view, unsigned interval_seconds, bool has_unicode)
{
    *view = (struct top_view){.interval_seconds = interval_seconds, .has_unicode = has_unicode};
    for (unsigned i = 0; i < TOP_KIND_COUNT; i++) {
        view->orders[i].sorted_by = top_table(i)->sorted_by;
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static bool is_choice(const struct top_choice *choice, const struct top_subject *s)
{
    return choice->is_made && choice->pid == s->pid && choice->is_node == s->is_node &&
           strcmp(choice->id, s->id) == 0;
}

size_t top_view_rows(const struct top_view *view, const struct top_model *model,
                     const struct top_subject **ret, size_t *ret_chosen)
{
    const struct top_order *order = &view->orders[view->kind];
    const size_t count =
        top_rows(model, view->kind, order->sorted_by, order->is_reversed, view->filter, ret);
    *ret_chosen = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_choice(&view->choices[view->kind], ret[i])) {
            *ret_chosen = i;
        }
    }
    return count;
}

static void choose(struct top_view *view, const struct top_subject *s)
{
    struct top_choice *choice = &view->choices[view->kind];
    *choice = (struct top_choice){.is_made = true, .pid = s->pid, .is_node = s->is_node};
    memcpy(choice->id, s->id, sizeof choice->id);
}

// `by` rows down, negative up, as far as there are.
static void move(struct top_view *view, const struct top_model *model, long by)
{
    const struct top_subject **rows = calloc(model->count + 1, sizeof *rows);
    size_t chosen = 0;
    size_t count = rows != NULL ? top_view_rows(view, model, rows, &chosen) : 0;
    if (count > 0) {
        long at = (long)chosen + by;
        at = at < 0 ? 0 : at >= (long)count ? (long)count - 1 : at;
        choose(view, rows[at]);
    }
    free(rows);
}

const struct top_subject *top_view_chosen(const struct top_view *view,
                                          const struct top_model *model)
{
    const struct top_subject **rows = calloc(model->count + 1, sizeof *rows);
    size_t chosen = 0;
    size_t count = rows != NULL ? top_view_rows(view, model, rows, &chosen) : 0;
    const struct top_subject *found = count > 0 ? rows[chosen] : NULL;
    free(rows);
    return found;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void filter_type(struct top_view *view, int key)
{
    const size_t len = strlen(view->filter);
    if (key == TOP_KEY_ENTER) {
        view->is_typing = false;
    } else if (key == TOP_KEY_ESCAPE) {
        view->is_typing = false;
        view->filter[0] = '\0';
    } else if (key == TOP_KEY_BACKSPACE && len > 0) {
        view->filter[len - 1] = '\0';
    } else if (key >= ' ' && key < 0x7f && len + 1 < sizeof view->filter) {
        view->filter[len] = (char)key;
        view->filter[len + 1] = '\0';
    }
}

// A connection's details stay those of that one, wherever it goes in the table.
static void detail_open(struct top_view *view, const struct top_model *model)
{
    const struct top_subject *s = top_view_chosen(view, model);
    if (s != NULL) {
        choose(view, s);
        view->is_detail = true;
        view->scroll = 0;
    }
}

static void detail_key(struct top_view *view, unsigned page, int key)
{
    const unsigned step = key == TOP_KEY_PAGE_UP || key == TOP_KEY_PAGE_DOWN ? page : 1;
    switch (key) {
    case TOP_KEY_UP:
    case TOP_KEY_PAGE_UP:
    case 'k':
        view->scroll -= step < view->scroll ? step : view->scroll;
        break;
    case TOP_KEY_DOWN:
    case TOP_KEY_PAGE_DOWN:
    case 'j':
        view->scroll += step; // drawing knows where the end is
        break;
    case TOP_KEY_HOME:
        view->scroll = 0;
        break;
    case TOP_KEY_ENTER:
    case TOP_KEY_ESCAPE:
    case TOP_KEY_BACKSPACE:
    case 'q':
        view->is_detail = false;
        break;
    default:
        break;
    }
}

static void sort_by_next(struct top_view *view, unsigned step)
{
    struct top_order *order = &view->orders[view->kind];
    order->sorted_by = (order->sorted_by + step) % top_table(view->kind)->count;
}

static void table_show(struct top_view *view, unsigned kind)
{
    view->kind = (enum top_kind)(kind % TOP_KIND_COUNT);
}

// By how many rows the key moves the choice, down; 0: by none.
static long rows_of(int key, unsigned page)
{
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        return -1;
    case TOP_KEY_DOWN:
    case 'j':
        return 1;
    case TOP_KEY_PAGE_UP:
        return -(long)page;
    case TOP_KEY_PAGE_DOWN:
        return (long)page;
    case TOP_KEY_HOME:
        return -TOP_SUBJECT_MAX;
    case TOP_KEY_END:
        return TOP_SUBJECT_MAX;
    default:
        return 0;
    }
}

static void table_key(struct top_view *view, const struct top_model *model, unsigned page, int key)
{
    struct top_order *order = &view->orders[view->kind];
    const long rows = rows_of(key, page);
    if (rows != 0) {
        move(view, model, rows);
        return;
    }
    if (key >= '1' && key < '1' + TOP_KIND_COUNT) {
        table_show(view, (unsigned)(key - '1'));
        return;
    }
    switch (key) {
    case TOP_KEY_TAB:
        table_show(view, view->kind + 1);
        break;
    case TOP_KEY_RIGHT:
    case 's':
        sort_by_next(view, 1);
        break;
    case TOP_KEY_LEFT:
    case 'S':
        sort_by_next(view, top_table(view->kind)->count - 1);
        break;
    case 'r':
        order->is_reversed = !order->is_reversed;
        break;
    case '/':
        view->is_typing = true;
        break;
    case TOP_KEY_ESCAPE:
        view->filter[0] = '\0';
        break;
    case TOP_KEY_ENTER:
        detail_open(view, model);
        break;
    default:
        break;
    }
}

bool top_view_key(struct top_view *view, const struct top_model *model, unsigned page, int key)
{
    if (view->is_typing) {
        filter_type(view, key);
        return true;
    }
    if (view->is_help) {
        view->is_help = false; // by any key
        return true;
    }
    if (key == 'h' || key == '?') {
        view->is_help = true;
        return true;
    }
    if (key == ' ') {
        view->is_paused = !view->is_paused;
        return true;
    }
    if (view->is_detail) {
        detail_key(view, page, key);
        return true;
    }
    table_key(view, model, page, key);
    return key != 'q';
}
