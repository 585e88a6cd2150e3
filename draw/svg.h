// A picture as SVG: what stands where is layout.h's. It needs no script and nothing from outside,
// says by title and description what each arrow and bar is, and is light or dark as its reader is.
#pragma once

#include <stdbool.h>

#include "draw/picture.h"
#include "draw/xml.h"

// `is_page`: it stands within an HTML page, which has the XML declaration's work done. False: no
// memory; nothing was put out.
bool svg_put(const struct xml_out *out, const struct picture *picture, bool is_page);
