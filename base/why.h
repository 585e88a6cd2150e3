// Why something was refused, for people: what a function that can fail says to its caller beside
// its error. A type of its own, so that who writes and who reads agree on the room there is.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

enum { WHY_MAX = 512 };

struct why {
    char text[WHY_MAX];
};

// Each replaces the text; what does not fit is cut off.
__attribute__((format(printf, 2, 0))) static inline void why_say_args(struct why *why,
                                                                      const char *format,
                                                                      va_list args)
{
    vsnprintf(why->text, sizeof why->text, format, args);
}

__attribute__((format(printf, 2, 3))) static inline void why_say(struct why *why,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why_say_args(why, format, args);
    va_end(args);
}

static inline bool why_is_said(const struct why *why)
{
    return why->text[0] != '\0';
}
