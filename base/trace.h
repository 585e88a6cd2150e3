// One trace line per event, in RFC words. A room formats, the port's owner prints: engine rooms
// hold a `struct trace *` and never write to a file. When nobody listens a trace point costs one
// test.
#pragma once

#include <stdint.h>

enum trace_room {
    TRACE_MPA,
    TRACE_DDP,
    TRACE_RDMAP,
    TRACE_QP,
    TRACE_CQ,
    TRACE_MEM,
    TRACE_CONN,
    TRACE_TCP,
    TRACE_LINK,
    TRACE_RNIC,
    TRACE_ROOM_COUNT,

    TRACE_ERROR = 31, // no room: what a user must hear of, whatever is traced
};

struct trace {
    uint32_t rooms;                                                            // bit per trace_room
    void (*emit)(struct trace *trace, enum trace_room room, const char *line); // one line, no '\n'
};

// Formats up to 400 octets and hands them to `emit`. Use TRACE, which tests the mask first.
void trace_line(struct trace *trace, enum trace_room room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define TRACE(trace, room, ...)                                                          \
    do {                                                                                 \
        if (__builtin_expect((trace) != NULL && ((trace)->rooms & (1U << (room))), 0)) { \
            trace_line((trace), (room), __VA_ARGS__);                                    \
        }                                                                                \
    } while (0)
