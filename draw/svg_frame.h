// What stands around the arrows: title, time lines with their heads, legend and notes.
#pragma once

#include <stdbool.h>

#include "draw/layout.h"
#include "draw/picture.h"
#include "draw/xml.h"

// How high title and subtitle are: where the heads begin.
int svg_frame_top(const struct picture *picture);
void svg_frame_open(const struct xml_out *out, const struct picture *picture,
                    const struct layout *layout, bool is_page);
void svg_frame_close(const struct xml_out *out, const struct picture *picture,
                     const struct layout *layout);
