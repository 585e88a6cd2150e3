// A picture as one HTML page that needs nothing from outside: the SVG, to be zoomed and moved, by
// mouse, fingers or keys, and a place that says what the pointer, or the focus, is on.
#pragma once

#include <stdbool.h>

#include "draw/picture.h"
#include "draw/xml.h"

// False: no memory; then nothing was put out.
bool page_put(const struct xml_out *out, const struct picture *picture);
