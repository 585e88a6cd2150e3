// How much a requester may have on its way, and when it may send: what stands between it and
// whoever watches the network. Packets are counted by PSNs: those of a Read's answer too.
#pragma once

#include <stdint.h>

#include "base/time.h"

enum { RC_WINDOW_PACKETS = 128 };

struct rc_window {
    uint32_t packets;      // PSNs that may be unacknowledged, at least 1
    instant_ns not_before; // nothing leaves before
};

static inline void rc_window_init(struct rc_window *window)
{
    *window = (struct rc_window){.packets = RC_WINDOW_PACKETS};
}

// Every so many packets one asks for an acknowledgement, so that a window never runs dry unasked.
static inline uint32_t rc_window_ack_interval(const struct rc_window *window)
{
    uint32_t quarter = window->packets / 4;
    return quarter < 1 ? 1 : quarter > 64 ? 64 : quarter;
}
