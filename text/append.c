#include "text/append.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_append(char *text, size_t capacity, const char *format, ...)
{
    const size_t len = strnlen(text, capacity);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, capacity - len, format, args);
    va_end(args);
}
