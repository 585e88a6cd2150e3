// Placement: octets of a peer go to their final place, once. The last ones are written after all
// others (a release store), the aligned word that ends there in one store: programs spin on the
// last octet or the last word of what the peer writes.
#pragma once

#include "base/span.h"

// Copies `payload` to `place`, which is as long.
void place_octets(uint8_t *place, struct span payload);
