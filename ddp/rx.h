// DDP receive side: from a ULPDU to a segment whose header is known to be in order. Placement has a
// file of its own, ddp/place.h.
#pragma once

#include <stdint.h>

#include "base/span.h"
#include "ddp/verdict.h"
#include "wire/ddp.h"

struct ddp_segment {
    struct ddp_header header;
    struct span payload; // what is behind the header
};

// Reads the header (RFC 5041 section 4): DDP_OK, TOO_SHORT or one of the two versions.
enum ddp_verdict ddp_segment_parse(struct span ulpdu, struct ddp_segment *ret);

// What is due next on one untagged queue.
struct ddp_untagged_queue {
    uint32_t msn; // message sequence number
    uint64_t mo;  // offset in that message
};

void ddp_untagged_queue_init(struct ddp_untagged_queue *queue);

// Is this untagged segment the one that is due (RFC 5041 section 7.1)? QN, MSN_RANGE, MO, or
// DDP_OK. `queue_count` queues exist.
enum ddp_verdict ddp_untagged_check(const struct ddp_untagged_queue *queues, uint32_t queue_count,
                                    const struct ddp_segment *segment);

// The same for a segment beyond a hole: it belongs to the message that is due, behind what has come
// of it, or to a later one. How much later is for others to judge.
enum ddp_verdict ddp_untagged_check_early(const struct ddp_untagged_queue *queues,
                                          uint32_t queue_count, const struct ddp_segment *segment);

// The segment was taken: moves its queue on.
void ddp_untagged_accept(struct ddp_untagged_queue *queues, const struct ddp_segment *segment);
