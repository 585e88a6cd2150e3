// Where trace lines of this process go: WEFT_TRACE names the rooms, WEFT_TRACE_FILE the file.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/trace.h"
#include "host/settings.h"

// The names of enum trace_room in its order.
#define HOST_TRACE_ROOMS "mpa, ddp, rdmap, qp, cq, mem, conn, tcp, link, rnic"

struct host_trace {
    struct trace trace;
    FILE *file;
};

// "all", or names with commas between, as a bit per enum trace_room. False: there is no such room,
// and nothing has changed.
bool host_trace_rooms_parse(const char *text, uint32_t *ret_rooms);

// A file that cannot be opened is named on stderr.
void host_trace_init(struct host_trace *t, const struct host_settings *settings);
