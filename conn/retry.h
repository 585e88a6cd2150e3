// A connection that TCP refuses is tried again for a short while: programs tell their port to the
// other side before they listen on it (qperf does), and two ends that are quick, on one machine,
// meet in between.
#pragma once

#include <stdbool.h>

#include "base/time.h"

#define CONN_RETRY_PATIENCE_NS (50 * NS_PER_MS) // from the first refusal to the last attempt
#define CONN_RETRY_PAUSE_NS    (2 * NS_PER_MS)

struct conn_retry {
    instant_ns again_at_ns;   // the next attempt; INSTANT_NEVER: none is due
    instant_ns give_up_at_ns; // INSTANT_NEVER: not refused yet
};

void conn_retry_init(struct conn_retry *r);
// Refused. True: the next attempt is at `again_at_ns`. False: it was tried for long enough.
bool conn_retry_on_refused(struct conn_retry *r, instant_ns now);
// Is the next attempt due? It is taken as made.
bool conn_retry_take_due(struct conn_retry *r, instant_ns now);
