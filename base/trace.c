#include "base/trace.h"

#include <stdarg.h>
#include <stdio.h>

void trace_line(struct trace *trace, enum trace_room room, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    trace->emit(trace, room, line);
}
