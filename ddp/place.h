// Placement of tagged segments (base/place.h). The buffer of an untagged message is a receive's:
// wq/scatter.h.
#pragma once

#include <stdint.h>

#include "base/span.h"
#include "ddp/verdict.h"
#include "mem/table.h"

// A tagged segment: `payload` to [to, to + len) of `stag`, which must grant `access_needed`. An
// empty payload is placed nowhere and nothing is checked (RFC 5041 section 5.2).
enum ddp_verdict ddp_place_tagged(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                  uint64_t to, struct span payload, uint32_t access_needed);

// The same for the answer to an RDMA Read: only sinks are admitted.
enum ddp_verdict ddp_place_sink(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                uint64_t to, struct span payload);
