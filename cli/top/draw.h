// The screen of `weft top`: what is known, drawn into cells. A pure function, so that a test reads
// the screen as text.
#pragma once

#include "cli/top/grid.h"
#include "cli/top/model.h"
#include "cli/top/view.h"

// Into a blank grid, of any size: what has no room is left out.
void top_draw(struct grid *grid, const struct top_model *model, const struct top_view *view);

// Rows of a table, or lines of details, that a grid of this height has.
unsigned top_draw_page(unsigned height);
