// Text that has to fit: nobody here knows the reader's font, so widths are those of a wide one.
#pragma once

#include <stddef.h>

#include "base/time.h"

enum { SVG_TEXT_MAX = 160 };

// Characters that fit into a width, at a size of letters in tenths.
unsigned svg_text_room(int width, int tenths);
// At most `room` characters of the text, the last one "…" if there are more. Returns `ret`.
const char *svg_text_cut(const char *text, unsigned room, char ret[SVG_TEXT_MAX]);
// The first line of a text that is broken between words, at most `room` characters; what is left.
const char *svg_text_line(const char *text, unsigned room, char ret[SVG_TEXT_MAX]);
size_t svg_text_count(const char *text); // characters

enum { SVG_TIME_MAX = 32 };
// "0", "12.5 µs", "3.21 ms", "1.5 s": three digits that tell something. Returns `ret`.
const char *svg_text_time(duration_ns time, char ret[SVG_TIME_MAX]);
// The same with five digits: rows of a picture follow each other closely, late as they may be.
const char *svg_text_time_finely(duration_ns time, char ret[SVG_TIME_MAX]);
