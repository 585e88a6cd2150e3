// What is the same in the packets of all services, on their way out and in.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "base/span.h"
#include "wire/bth.h"
#include "wire/roce.h"

// One packet to the sink, with `len` octets of payload. Opcode, destination QP, PSN, and the
// headers behind the BTH are filled in already; the rest is here. False: no room.
bool roce_packet_put(const struct datagram_sink *sink, const struct datagram_path *path,
                     struct roce_packet *packet, const struct span *pieces, unsigned piece_count,
                     size_t len);

// Does it come from where our packets on this path go, and to where they leave from?
bool roce_packet_is_of_path(const struct datagram_rx *rx, const struct datagram_path *path);

// Of RoCE's one partition, which this is a full member of: so its limited members may speak with us
// (InfiniBand Architecture volume 1, section 10.9.3).
bool roce_packet_is_of_partition(const struct bth *bth);

// A path MTU, in octets: 256, 512 … 4096.
bool roce_is_path_mtu(uint32_t len);
