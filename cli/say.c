#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>

void say_error(const char *what, const char *object, const char *remedy, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    fprintf(stderr, "weft: %s: %s\n  why: ", what, object);
    vfprintf(stderr, why, args);
    fprintf(stderr, "\n  do:  %s\n", remedy);
    va_end(args);
}

void say_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("weft: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

int say_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *space = *command != '\0' ? " " : "";
    fprintf(stderr, "weft%s%s: ", space, command);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n  do:  weft help%s%s\n", space, command);
    va_end(args);
    return EXIT_USAGE;
}
