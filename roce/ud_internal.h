// What the files of a UD queue pair share.
#pragma once

#include "base/time.h"
#include "roce/ud.h"
#include "roce/unreliable.h"

struct ud {
    struct unreliable u; // first
    uint32_t qkey;
    unsigned group_count;
    struct {
        struct in6_addr address;
        uint32_t count; // times that it was attached
    } groups[UD_GROUP_MAX];
};

static inline struct ud *ud_of(struct transport *t)
{
    return (struct ud *)t;
}

// The packet's way in, as base/transport.h has it.
void ud_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now);
