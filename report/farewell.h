// What a user must hear of when a connection ends badly: the peer, the queue pair, why, and which
// message was at fault. It is noted when the connection ends, and said when no lock is held.
#pragma once

#include <sys/socket.h>

#include "base/list.h"
#include "base/trace.h"
#include "wire/terminate.h"

enum farewell_kind {
    FAREWELL_BY_PEER, // the peer's Terminate
    FAREWELL_BY_US,   // our Terminate
    FAREWELL_LOST,    // neither: the peer is silent
};

struct farewell {
    struct list_link link; // among those that are still to be said
    enum farewell_kind kind;
    uint32_t qp_num;
    struct sockaddr_storage peer;
    struct terminate terminate; // FAREWELL_BY_*
};

// One line through the trace port, TRACE_ERROR; the host prints it.
void farewell_say(const struct farewell *f, struct trace *trace);
