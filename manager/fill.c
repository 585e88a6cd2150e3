#include "manager/fill.h"

#include <stddef.h>

#include "base/list.h"
#include "manager/format.h"
#include "manager/progress.h"

static bool has_more(const struct progress *progress)
{
    return progress->current.element != NULL || progress->is_trailer_due;
}

uint64_t transfers_left(const struct filler *filler, const struct progress *progress)
{
    return transfers_count(progress->current, progress->limits, filler->scratch) +
           progress->is_trailer_due;
}

// The request behind one that has just ended in the descriptor, if the caller lets the two share it
// and there is room. The descriptor then obeys the limits of both.
static struct progress *request_that_joins(const struct filler *filler, struct slot *slot,
                                           const struct progress *before)
{
    struct descriptor *descriptor = &slot->descriptor;
    struct progress *next = turns_next(filler->turns);
    if (next == NULL || next->formatted_transfer_count > 0 ||
        next->request->opcode != before->request->opcode ||
        (before->request->flags & next->request->flags & WEFT_RDMA_MAY_COALESCE) == 0 ||
        !descriptor_continues_at(descriptor, &next->current)) {
        return NULL;
    }
    uint64_t max_len = next->limits.max_transfer_len;
    if (max_len <= descriptor->len) {
        return NULL;
    }
    if (max_len < descriptor->limits.max_transfer_len) {
        descriptor->limits.max_transfer_len = max_len;
    }
    return next;
}

// Adds what fits of the request's octets. Returns whether all are formatted, and nothing follows
// that needs a descriptor of its own.
static bool fill_with_request(struct slot *slot, struct progress *progress)
{
    uint64_t len = format_descriptor(&progress->current, &slot->descriptor);
    turns_charge(progress, len);
    if (len == 0) {
        return false;
    }
    if (has_more(progress)) {
        slot_add_part(slot, progress, len);
        return false;
    }
    list_remove(&progress->link);
    progress_on_formatted(progress);
    slot_add_end(slot, progress, len);
    return true;
}

static void fill_with_trailer(const struct filler *filler, struct slot *slot,
                              struct progress *progress)
{
    struct ibv_send_wr *wr = &slot->descriptor.wr;
    *wr = *progress->request->trailer;
    wr->wr_id = (uintptr_t)slot;
    list_remove(&progress->link);
    progress->is_trailer_due = false;
    progress_on_formatted(progress);
    slot_add_end(slot, progress, 0);
    filler->counters->trailer_count++;
}

static void fill_with_octets(const struct filler *filler, struct slot *slot,
                             struct progress *progress)
{
    struct descriptor *descriptor = &slot->descriptor;
    struct weft_rdma_counters *counters = filler->counters;
    slot->first = progress;
    slot->first_element = progress->current.element;
    slot->first_element_index = progress->current.element_index;
    descriptor_begin(descriptor, progress->request->opcode, progress->limits, &progress->current);
    bool is_at_end = fill_with_request(slot, progress);
    while (is_at_end && (progress = request_that_joins(filler, slot, progress)) != NULL) {
        is_at_end = fill_with_request(slot, progress);
        if (progress->formatted_transfer_count > 0) {
            counters->coalesced_request_count++;
            // It was counted as if it had begun in a descriptor of its own.
            progress->total_transfer_count = 1 + transfers_left(filler, progress);
        }
    }
    counters->divided_count += slot->goes_on != NULL && slot->goes_on->current.element_offset > 0;
    counters->segment_count += (uint32_t)descriptor->wr.num_sge;
    counters->shared_segment_count += descriptor->shared_segment_count;
    counters->coalesced_element_count += descriptor->element_count - 1;
}

uint32_t fill_slots(const struct filler *filler, uint32_t max)
{
    uint32_t count = 0;
    struct progress *progress;
    struct slot *slot;
    while (count < max && (progress = turns_next(filler->turns)) != NULL &&
           (slot = slots_next_free(filler->slots)) != NULL) {
        if (progress->current.element != NULL) {
            fill_with_octets(filler, slot, progress);
        } else {
            fill_with_trailer(filler, slot, progress);
        }
        slots_commit(filler->slots);
        filler->counters->descriptor_count++;
        count++;
    }
    return count;
}
