// What a listening place admits: a bound on connections that have not sent their Request yet, and a
// bound on Requests that the application has not answered. A peer that opens connections and says
// nothing (RFC 5042 section 6.4.2) costs at most the first bound, which all listeners of a device
// share; the oldest are dropped for newer ones. Where the process has no descriptors for so many
// the bound sinks to what it has, and grows again by one with each Request.
//
// No I/O, no allocation; one thread at a time per gate.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum { CONN_HALF_OPEN_MAX_DEFAULT = 8192, CONN_BACKLOG_MAX = 65535 };

#define CONN_LISTENER_COUNTERS(X)                              \
    X(accepted, "connections accepted from TCP")               \
    X(requests, "Requests put before the application")         \
    X(dropped, "half-open connections dropped for newer ones") \
    X(backlog_full, "Requests refused because the application had not answered others")

struct conn_listener_counters {
#define X(name, text) uint64_t name;
    CONN_LISTENER_COUNTERS(X)
#undef X
};

// The half-open connections of all listeners.
struct conn_gate {
    struct list_link half_open; // oldest first
    uint32_t half_open_count;
    uint32_t half_open_bound; // at most half_open_max
    uint32_t half_open_max;
};

struct conn_listener {
    struct conn_gate *gate;
    struct list_link half_open; // of this one
    struct list_link waiting;   // Requests before the application
    uint32_t waiting_count;
    uint32_t backlog;
    struct conn_listener_counters counters;
};

// Embedded in whatever holds a connection that was accepted from TCP.
struct conn_admission {
    struct list_link link;          // in the listener's lists
    struct list_link gate_link;     // while it is half-open
    struct conn_listener *listener; // NULL: in no list
    bool is_waiting;                // its Request is before the application
};

// `half_open_max`: at least 1.
void conn_gate_init(struct conn_gate *gate, uint32_t half_open_max);

// `backlog`: of listen(); 0 and less mean the largest.
void conn_listener_init(struct conn_listener *l, int backlog, struct conn_gate *gate);

// A connection was accepted from TCP. Returns the oldest half-open one, of whatever listener, if
// there are now too many: it has left the lists, and the caller closes it. NULL otherwise.
struct conn_admission *conn_listener_admit(struct conn_listener *l, struct conn_admission *a);

// There were no means to accept a connection: there are not to be more than there were room for.
// Returns the oldest half-open one, of whatever listener, as conn_listener_admit does.
struct conn_admission *conn_gate_narrow(struct conn_gate *gate);

// Its Request is in. False: the backlog is full; it has left the lists, the caller closes it.
bool conn_listener_request(struct conn_admission *a);

// It was accepted, rejected, or has ended. Harmless when it is in no list.
void conn_listener_leave(struct conn_admission *a);

// The next connection that still hangs on a listener that goes away, or NULL. It has left the list.
struct conn_admission *conn_listener_drain(struct conn_listener *l);
