// Placement: the payload of a segment goes to its final place, once. Its last octets are written
// after all others (a release store), the aligned word that ends there in one store: programs spin
// on the last octet or the last word of what the peer writes.
#pragma once

#include <stdint.h>

#include "base/sge.h"
#include "base/span.h"
#include "ddp/verdict.h"
#include "mem/table.h"

// Copies `payload` to `place`, which is as long.
void ddp_place_octets(uint8_t *place, struct span payload);

// A tagged segment: `payload` to [to, to + len) of `stag`, which must grant `access_needed`. An
// empty payload is placed nowhere and nothing is checked (RFC 5041 section 5.2).
enum ddp_verdict ddp_place_tagged(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                  uint64_t to, struct span payload, uint32_t access_needed);

// The same for the answer to an RDMA Read: only sinks are admitted.
enum ddp_verdict ddp_place_sink(struct mem_table *mem, struct mem_asker asker, uint32_t stag,
                                uint64_t to, struct span payload);

// The buffer of an untagged message: a scatter list, and where in it the last placement ended, so
// that segments in order never walk it from the start.
struct ddp_buffer {
    const struct sge *list; // lives in the work request
    uint32_t count;
    uint32_t index;       // cursor: element
    uint64_t element_len; // cursor: octets of that element that are behind it
    uint64_t mo;          // cursor: octets of the message that are behind it
    uint64_t length;      // of the whole list
};

void ddp_buffer_init(struct ddp_buffer *buffer, const struct sge *list, uint32_t count);

// `payload` to offset `mo` of the message. TOO_LONG: it does not fit, nothing was placed; LOCAL: a
// local key of the list, looked up in `pd`, is not usable.
enum ddp_verdict ddp_place_untagged(struct mem_table *mem, uint32_t pd, struct ddp_buffer *buffer,
                                    uint64_t mo, struct span payload);
