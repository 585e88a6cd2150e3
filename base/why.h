// Why something was refused, for people: what a function that can fail says to its caller beside
// its error. A type of its own, so that who writes and who reads agree on the room there is.
#pragma once

#include <stdarg.h>
#include <stdio.h>

enum { WHY_MAX = 512 };

struct why {
    char text[WHY_MAX];
};

// Replaces the text; what does not fit is cut off.
__attribute__((format(printf, 2, 3))) static inline void why_say(struct why *why,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
}
