// How a weft end tells its peer that it is one, within InfiniBand's packets: by the 7 bits of the
// BTH behind AckReq, which whoever does not know of this sends as 0 and passes over (InfiniBand
// Architecture volume 1, section 9.2). They are a function of the packet and of both queue pairs:
// never 0, another one in each packet, and another one in the answer than in what it answers. So
// a stranger who sends zeroes greets nobody, and one who sends anything else, or sends back what it
// got, is right by chance, one time in 127.
#pragma once

#include <stdint.h>

#include "wire/bth.h"

// The greeting, 1..127, that a packet with this BTH from the queue pair `source_qp` has.
uint8_t greeting_of(const struct bth *bth, uint32_t source_qp);
