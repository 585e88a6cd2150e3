// A datagram link that stands before another and makes its path bad: packets are lost, made late,
// sent twice. What is drawn depends on the seed and the order of the packets alone. Packets that
// change under way are the inner link's affair, which looks at their ICRC: see
// datagram_udp_config.corrupt.
#pragma once

#include "base/port_datagram.h"
#include "link/fault_model.h"

// Wraps `inner`, which now belongs to *ret and is destroyed with it; on failure (-ENOMEM) it stays
// the caller's.
int datagram_fault_wrap(struct datagram_link *inner, const struct fault_config *config,
                        struct datagram_link **ret);
