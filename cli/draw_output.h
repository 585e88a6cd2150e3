// Where a picture of `weft draw` goes.
#pragma once

#include <stdbool.h>

#include "draw/picture.h"

// A page where the name ends in .html, else an SVG; NULL: an SVG on standard output. `is_replaced`:
// who opens the file has a whole picture at any time. False: it was said why.
bool draw_output_write(const char *path, const struct picture *picture, bool is_replaced);
