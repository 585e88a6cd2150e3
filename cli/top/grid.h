// A screen as data: cells of characters with a style each. Drawing fills one; a terminal shows it,
// a test compares it as text.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum grid_style {
    GRID_PLAIN,
    GRID_DIM,
    GRID_STRONG,
    GRID_TITLE,    // the head of a table, the foot of the screen
    GRID_SELECTED, // the row that keys are about
    GRID_TROUBLE,  // what somebody should look at
    GRID_STYLE_COUNT
};

struct grid_cell {
    uint32_t character; // Unicode, one column wide
    enum grid_style style;
};

struct grid {
    unsigned width, height;
    struct grid_cell *cells; // row by row
};

enum { GRID_SIDE_MAX = 512 }; // a wider or higher terminal has the rest left empty

// Blank. 0 or -ENOMEM.
int grid_init(struct grid *grid, unsigned width, unsigned height);
void grid_fini(struct grid *grid);

static inline struct grid_cell *grid_at(const struct grid *grid, unsigned row, unsigned column)
{
    return &grid->cells[(size_t)row * grid->width + column];
}

// Puts `text`, cut or filled up with blanks to `width`, as much of it as the grid has. What is not
// printable ASCII stands there as a question mark: much of it comes from strangers.
void grid_put(struct grid *grid, unsigned row, unsigned column, unsigned width,
              enum grid_style style, const char *text);

// One character; nothing beyond the edge.
void grid_put_character(struct grid *grid, unsigned row, unsigned column, enum grid_style style,
                        uint32_t character);

// A row as UTF-8, without the blanks at its end.
enum { GRID_ROW_MAX = 4 * GRID_SIDE_MAX + 1 };
const char *grid_row(const struct grid *grid, unsigned row, char ret[GRID_ROW_MAX]);
