// When a receiver tells that a packet came marked (CE): at most once per queue pair in
// CNP_INTERVAL_NS, as hardware has it, whatever comes.
#pragma once

#include <stdbool.h>

#include "base/time.h"

#define CNP_INTERVAL_NS (50 * NS_PER_US)

struct cnp_pace {
    bool has_sent;
    instant_ns sent_at;
};

// A marked packet has come: whether a notification is to leave now.
static inline bool cnp_pace_take(struct cnp_pace *pace, instant_ns now)
{
    if (pace->has_sent && now - pace->sent_at < CNP_INTERVAL_NS) {
        return false;
    }
    *pace = (struct cnp_pace){.has_sent = true, .sent_at = now};
    return true;
}
