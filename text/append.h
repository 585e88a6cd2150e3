// Texts that are put together piece by piece.
#pragma once

#include <stddef.h>

// Writes behind what stands in `text`, as much as there is room for: `text` is of `capacity` octets
// and ends within them, before and after.
__attribute__((format(printf, 3, 4))) void text_append(char *text, size_t capacity,
                                                       const char *format, ...);
