#include "cli/top/draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/columns.h"
#include "cli/top/detail.h"
#include "text/quantity.h"

enum {
    HEAD_ROWS = 2, // the tables' names; the columns
    FOOT_ROWS = 3, // the last minute; the filter, or what is wrong; keys
    LINE_MAX_LEN = GRID_SIDE_MAX,
};

unsigned top_draw_page(unsigned height)
{
    return height > HEAD_ROWS + FOOT_ROWS ? height - HEAD_ROWS - FOOT_ROWS : 1;
}

/* ---- head and foot --------------------------------------------------------------------------- */

static size_t count_of(const struct top_model *model, enum top_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        count += model->subjects[i]->kind == kind;
    }
    return count;
}

// "1 processes 3   2 connections 12 …": the one that is shown stands out.
static void draw_names(struct grid *grid, const struct top_model *model,
                       const struct top_view *view)
{
    unsigned column = 0;
    for (unsigned i = 0; i < TOP_KIND_COUNT; i++) {
        char text[TOP_TEXT_LEN];
        int len = snprintf(text, sizeof text, "%u %s %zu", i + 1, top_table(i)->title,
                           count_of(model, i));
        grid_put(grid, 0, column, (unsigned)len, i == view->kind ? GRID_TITLE : GRID_PLAIN, text);
        column += (unsigned)len + 2;
    }
    char right[32];
    int len = snprintf(right, sizeof right, view->is_paused ? "paused" : "every %us",
                       view->interval_seconds);
    if (column + (unsigned)len <= grid->width) {
        grid_put(grid, 0, grid->width - (unsigned)len, (unsigned)len,
                 view->is_paused ? GRID_TROUBLE : GRID_DIM, right);
    }
}

static void draw_foot(struct grid *grid, const struct top_model *model, const struct top_view *view)
{
    const unsigned row = grid->height - 2;
    char text[LINE_MAX_LEN];
    if (view->is_typing || view->filter[0] != '\0') {
        snprintf(text, sizeof text, "filter: %s%s", view->filter, view->is_typing ? "_" : "");
        grid_put(grid, row, 0, grid->width, GRID_STRONG, text);
    } else if (model->left_out > 0) {
        snprintf(text, sizeof text, "%zu more are not shown", model->left_out);
        grid_put(grid, row, 0, grid->width, GRID_TROUBLE, text);
    }
    grid_put(grid, grid->height - 1, 0, grid->width, GRID_TITLE,
             view->is_typing   ? "Enter keep it  Esc drop it"
             : view->is_detail ? "Up Down scroll  Esc back  Space pause  h help"
                               : "q quit  1-5 Tab tables  s S sort  r reverse  / filter  "
                                 "Enter details  h help");
}

/* ---- the last minute ------------------------------------------------------------------------- */

// Eight heights, as the blocks of Unicode have them, or as ASCII comes near them.
static uint32_t spark(const struct top_view *view, uint64_t value, uint64_t peak)
{
    static const char ascii[] = "_.:-=+*#";
    const unsigned height = peak > 0 ? (unsigned)((double)value / (double)peak * 7 + 0.5) : 0;
    return view->has_unicode ? 0x2581 + height : (uint32_t)ascii[height];
}

static void draw_minute(struct grid *grid, const struct top_view *view, const struct top_subject *s)
{
    const unsigned row = grid->height - 3;
    char label[TOP_TEXT_LEN], size[TEXT_SIZE_MAX];
    uint64_t peak = 0;
    for (unsigned i = 0; i < TOP_HISTORY_LEN; i++) {
        peak = s->history[i] > peak ? s->history[i] : peak;
    }
    const int len = snprintf(label, sizeof label, "minute, of %s/s ", text_size_format(peak, size));
    grid_put(grid, row, 0, (unsigned)len, GRID_DIM, label);
    const unsigned room = grid->width > (unsigned)len ? grid->width - (unsigned)len : 0;
    const unsigned count = room < TOP_HISTORY_LEN ? room : TOP_HISTORY_LEN;
    for (unsigned i = 0; i < count; i++) {
        const uint64_t value = s->history[TOP_HISTORY_LEN - count + i];
        grid_put_character(grid, row, (unsigned)len + i, GRID_STRONG, spark(view, value, peak));
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void draw_cell(struct grid *grid, unsigned row, unsigned column, unsigned width,
                      const struct top_column *of, enum grid_style style, const char *text)
{
    const unsigned len = (unsigned)strlen(text);
    const unsigned indent = of->is_right && len < width ? width - len : 0;
    grid_put(grid, row, column, indent, style, "");
    grid_put(grid, row, column + indent, width - indent, style, text);
}

// What stands in a row of the table; `s` NULL: the columns' titles.
static void draw_row(struct grid *grid, unsigned row, const struct top_view *view,
                     const struct top_subject *s, enum grid_style style)
{
    const struct top_table *table = top_table(view->kind);
    unsigned column = 0;
    grid_put(grid, row, 0, grid->width, style, "");
    for (unsigned i = 0; i < table->count && column < grid->width; i++) {
        const struct top_column *c = &table->columns[i];
        const unsigned left = grid->width - column;
        const unsigned width = c->width == 0 || c->width > left ? left : c->width;
        char text[TOP_TEXT_LEN] = "";
        if (s != NULL) {
            c->show(s, text);
        } else {
            snprintf(text, sizeof text, "%s", c->title);
        }
        const bool is_order = s == NULL && i == view->orders[view->kind].sorted_by;
        draw_cell(grid, row, column, width, c, is_order ? GRID_SELECTED : style, text);
        column += width + 1;
    }
}

static enum grid_style style_of(const struct top_subject *s, bool is_chosen)
{
    if (is_chosen) {
        return GRID_SELECTED;
    }
    if (s->status != TOP_ANSWERS) {
        return GRID_TROUBLE;
    }
    return s->rates.errors > 0 ? GRID_TROUBLE : GRID_PLAIN;
}

static void draw_nothing(struct grid *grid, const struct top_view *view)
{
    grid_put(grid, HEAD_ROWS, 0, grid->width, GRID_PLAIN,
             view->filter[0] != '\0' ? "Nothing holds the filter."
                                     : top_table(view->kind)->nothing);
}

static void draw_table(struct grid *grid, const struct top_model *model,
                       const struct top_view *view)
{
    const struct top_subject **rows = calloc(model->count + 1, sizeof *rows);
    const unsigned page = top_draw_page(grid->height);
    size_t chosen = 0;
    draw_row(grid, 1, view, NULL, GRID_TITLE);
    const size_t count = rows != NULL ? top_view_rows(view, model, rows, &chosen) : 0;
    const size_t first = chosen >= page ? chosen - page + 1 : 0;
    for (size_t i = first; i < count && i < first + page; i++) {
        draw_row(grid, HEAD_ROWS + (unsigned)(i - first), view, rows[i],
                 style_of(rows[i], i == chosen));
    }
    if (count > 0) {
        draw_minute(grid, view, rows[chosen]);
    } else {
        draw_nothing(grid, view);
    }
    free(rows);
}

/* ---- details, help --------------------------------------------------------------------------- */

// Lines that go by until those that are shown.
struct lines {
    struct grid *grid;
    unsigned skipped, row, end;
};

static void line_put(void *ctx, bool is_head, const char *text)
{
    struct lines *lines = ctx;
    if (lines->skipped > 0) {
        lines->skipped--;
    } else if (lines->row < lines->end) {
        grid_put(lines->grid, lines->row++, 0, lines->grid->width,
                 is_head ? GRID_STRONG : GRID_PLAIN, text);
    }
}

static void line_count(void *ctx, bool is_head, const char *text)
{
    (void)is_head;
    (void)text;
    ++*(unsigned *)ctx;
}

static void draw_detail(struct grid *grid, const struct top_model *model,
                        const struct top_view *view)
{
    const struct top_choice *choice = &view->choices[view->kind];
    const struct top_subject *s =
        top_find(model, view->kind, choice->pid, choice->is_node, choice->id);
    char title[LINE_MAX_LEN];
    snprintf(title, sizeof title, "%s %s of process %d: %s", top_table(view->kind)->one, choice->id,
             (int)choice->pid, s != NULL ? s->name : "");
    grid_put(grid, 1, 0, grid->width, GRID_TITLE, title);
    if (s == NULL) {
        grid_put(grid, HEAD_ROWS, 0, grid->width, GRID_TROUBLE, "It is gone.");
        return;
    }
    const unsigned page = top_draw_page(grid->height);
    unsigned count = 0;
    top_detail(s, grid->width, line_count, &count);
    const unsigned most = count > page ? count - page : 0;
    struct lines lines = {
        .grid = grid,
        .skipped = view->scroll < most ? view->scroll : most,
        .row = HEAD_ROWS,
        .end = HEAD_ROWS + page,
    };
    top_detail(s, grid->width, line_put, &lines);
    draw_minute(grid, view, s);
}

static void draw_help(struct grid *grid)
{
    static const char *const lines[] = {
        "Processes of weft, asked again and again; nothing of them is changed.",
        "",
        "1 2 3 4 5, Tab    processes, connections, volumes, RTAs, clients",
        "Up Down, k j      choose a row; PgUp PgDn Home End",
        "Enter             its details; Esc: back",
        "s S, Right Left   sort by the next column, the one before; r: reverse",
        "/                 only rows that hold what is typed; Esc: all",
        "Space             stop asking, go on",
        "q                 quit",
        "",
        "WR/s   work requests completed; of volumes REQ/s, requests answered",
        "IN/s   octets that came from peers or clients; OUT/s: that went there",
        "P50    half took no longer: work requests from post to completion,",
        "       requests to volumes until their answer; P99: 99 of 100 did not.",
        "       Since the last look, or of all if nothing came since",
        "minute octets in and out in each second of it, of the row that is chosen",
    };
    const unsigned end = grid->height - 1;
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0] && i + 1 < end; i++) {
        grid_put(grid, i + 1, 0, grid->width, GRID_PLAIN, lines[i]);
    }
    grid_put(grid, end, 0, grid->width, GRID_TITLE, "any key: back");
}

void top_draw(struct grid *grid, const struct top_model *model, const struct top_view *view)
{
    if (grid->height < HEAD_ROWS + FOOT_ROWS + 1 || grid->width < 20) {
        grid_put(grid, 0, 0, grid->width, GRID_PLAIN, "too small");
        return;
    }
    if (view->is_help) {
        draw_help(grid);
        return;
    }
    draw_names(grid, model, view);
    if (view->is_detail) {
        draw_detail(grid, model, view);
    } else {
        draw_table(grid, model, view);
    }
    draw_foot(grid, model, view);
}
