// What is the same in the packets of all services, on their way out and in.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "base/span.h"
#include "wire/bth.h"
#include "wire/roce.h"
#include "wq/wqe.h"

// One packet to the sink, with `len` octets of payload. Opcode, destination QP, PSN, and the
// headers behind the BTH are filled in already; the rest is here. False: no room.
bool roce_packet_put(const struct datagram_sink *sink, const struct datagram_path *path,
                     struct roce_packet *packet, const struct span *pieces, unsigned piece_count,
                     size_t len);

// The packet of a work request's message to a connected peer that begins at this octet of it:
// opcode, solicited, and the headers behind the BTH. Returns the octets of payload. `transport`:
// ROCE_RC or ROCE_UC; the work request is one that such packets carry.
uint32_t roce_packet_of_message(const struct send_wqe *wqe, enum roce_transport transport,
                                uint64_t offset, uint32_t path_mtu, struct roce_packet *ret);

// Does it come from where our packets on this path go, and to where they leave from?
bool roce_packet_is_of_path(const struct datagram_rx *rx, const struct datagram_path *path);

// Of RoCE's one partition, which this is a full member of: so its limited members may speak with us
// (InfiniBand Architecture volume 1, section 10.9.3).
bool roce_packet_is_of_partition(const struct bth *bth);

// A path MTU, in octets: 256, 512 … 4096.
bool roce_is_path_mtu(uint32_t len);
