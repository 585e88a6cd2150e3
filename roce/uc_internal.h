// What the files of a UC queue pair share.
#pragma once

#include <stdint.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "base/transport.h"
#include "roce/unreliable.h"

struct uc {
    struct unreliable u; // first
    struct datagram_path path;
    uint32_t dest_qp_num;
    uint32_t expected_psn; // of the packet that comes next
    uint32_t denied;       // MEM_ACCESS_REMOTE_*: what it grants nobody
};

static inline struct uc *uc_of(struct transport *t)
{
    return (struct uc *)t;
}

// The packet's way in, as base/transport.h has it.
void uc_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now);
