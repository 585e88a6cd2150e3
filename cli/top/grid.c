#include "cli/top/grid.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "text/show.h"

int grid_init(struct grid *grid, unsigned width, unsigned height)
{
    grid->width = width < GRID_SIDE_MAX ? width : GRID_SIDE_MAX;
    grid->height = height < GRID_SIDE_MAX ? height : GRID_SIDE_MAX;
    const size_t count = (size_t)grid->width * grid->height;
    grid->cells = calloc(count + 1, sizeof *grid->cells);
    for (size_t i = 0; grid->cells != NULL && i < count; i++) {
        grid->cells[i].character = ' ';
    }
    return grid->cells != NULL ? 0 : -ENOMEM;
}

void grid_fini(struct grid *grid)
{
    free(grid->cells);
    grid->cells = NULL;
}

void grid_put_character(struct grid *grid, unsigned row, unsigned column, enum grid_style style,
                        uint32_t character)
{
    if (row < grid->height && column < grid->width) {
        *grid_at(grid, row, column) = (struct grid_cell){character, style};
    }
}

void grid_put(struct grid *grid, unsigned row, unsigned column, unsigned width,
              enum grid_style style, const char *text)
{
    for (unsigned i = 0; i < width; i++) {
        const uint32_t character = *text != '\0' ? (unsigned char)text_ascii_char(*text++) : ' ';
        grid_put_character(grid, row, column + i, style, character);
    }
}

static char *utf8_put(char *at, uint32_t c)
{
    if (c < 0x80) {
        *at++ = (char)c;
    } else if (c < 0x800) {
        *at++ = (char)(0xc0 | c >> 6);
        *at++ = (char)(0x80 | (c & 0x3f));
    } else {
        *at++ = (char)(0xe0 | c >> 12);
        *at++ = (char)(0x80 | (c >> 6 & 0x3f));
        *at++ = (char)(0x80 | (c & 0x3f));
    }
    return at;
}

const char *grid_row(const struct grid *grid, unsigned row, char ret[GRID_ROW_MAX])
{
    char *at = ret, *end = ret;
    for (unsigned i = 0; i < grid->width; i++) {
        const uint32_t character = grid_at(grid, row, i)->character;
        at = utf8_put(at, character);
        end = character != ' ' ? at : end;
    }
    *end = '\0';
    return ret;
}
