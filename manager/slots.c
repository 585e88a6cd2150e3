#include "manager/slots.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"

int slots_init(struct slots *slots, uint32_t count, uint32_t segment_count,
               uint32_t signal_interval)
{
    *slots = (struct slots){
        .count = count, .segment_count = segment_count, .signal_interval = signal_interval};
    slots->items = calloc(count, sizeof *slots->items);
    slots->segments = calloc((size_t)count * segment_count, sizeof *slots->segments);
    if (slots->items == NULL || slots->segments == NULL) {
        slots_fini(slots);
        return -ENOMEM;
    }
    return 0;
}

void slots_fini(struct slots *slots)
{
    free(slots->items);
    free(slots->segments);
    *slots = (struct slots){0};
}

static struct slot *slot_at(const struct slots *slots, uint64_t number)
{
    return &slots->items[number % slots->count];
}

/* ---- filling --------------------------------------------------------------------------------- */

struct slot *slots_next_free(struct slots *slots)
{
    if (slots->formatted - slots->retired == slots->count) {
        return NULL;
    }
    struct slot *slot = slot_at(slots, slots->formatted);
    size_t index = (size_t)(slot - slots->items);
    slot->descriptor.wr = (struct ibv_send_wr){
        .wr_id = (uintptr_t)slot, .sg_list = &slots->segments[index * slots->segment_count]};
    list_init(&slot->ends);
    slot->goes_on = NULL;
    slot->first = NULL;
    slot->post_error = 0;
    return slot;
}

void slots_commit(struct slots *slots)
{
    slots->formatted++;
}

void slot_add_part(struct slot *slot, struct progress *progress, uint64_t len)
{
    CHECK(slot->goes_on == NULL);
    slot->goes_on = progress;
    slot->goes_on_len = len;
    progress->formatted_transfer_count++;
}

void slot_add_end(struct slot *slot, struct progress *progress, uint64_t len)
{
    list_push_tail(&slot->ends, &progress->link);
    progress->end_len = len;
    progress->formatted_transfer_count++;
}

/* ---- posting --------------------------------------------------------------------------------- */

bool slots_has_posted(const struct slots *slots)
{
    return slots->retired != slots->posted;
}

bool slots_has_unposted(const struct slots *slots)
{
    return slots->posted != slots->formatted;
}

static bool is_signalled(const struct slot *slot)
{
    return (slot->descriptor.wr.send_flags & IBV_SEND_SIGNALED) != 0;
}

static void slots_link(const struct slots *slots)
{
    uint32_t unsignalled_count = slots->unsignalled_count;
    for (uint64_t number = slots->posted; number < slots->formatted; number++) {
        struct ibv_send_wr *wr = &slot_at(slots, number)->descriptor.wr;
        bool is_last = number + 1 == slots->formatted;
        wr->next = is_last ? NULL : &slot_at(slots, number + 1)->descriptor.wr;
        wr->send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
        if (is_last || ++unsignalled_count >= slots->signal_interval) {
            wr->send_flags |= IBV_SEND_SIGNALED;
            unsignalled_count = 0;
        }
    }
}

static void slots_on_posted(struct slots *slots, uint64_t end, struct weft_rdma_counters *counters)
{
    for (; slots->posted < end; slots->posted++) {
        bool is_signal = is_signalled(slot_at(slots, slots->posted));
        slots->unsignalled_count = is_signal ? 0 : slots->unsignalled_count + 1;
        counters->signalled_count += is_signal;
    }
}

// How far behind slot number `from` the one with this wr_id is, around the ring. False: it is none.
static bool slots_distance(const struct slots *slots, uint64_t from, uint64_t wr_id,
                           uint64_t *ret_distance)
{
    uint64_t offset = wr_id - (uintptr_t)slots->items;
    uint64_t index = offset / sizeof *slots->items;
    if (offset % sizeof *slots->items != 0 || index >= slots->count) {
        return false;
    }
    *ret_distance = (index + slots->count - from % slots->count) % slots->count;
    return true;
}

int slots_post(struct slots *slots, struct ibv_qp *qp, struct weft_rdma_counters *counters)
{
    struct ibv_send_wr *bad = NULL;
    uint64_t posted_count = 0;
    slots_link(slots);
    int error = ibv_post_send(qp, &slot_at(slots, slots->posted)->descriptor.wr, &bad);
    counters->post_count++;
    if (error == 0) {
        posted_count = slots->formatted - slots->posted;
    } else if (bad != NULL) {
        slots_distance(slots, slots->posted, bad->wr_id, &posted_count);
    }
    slots_on_posted(slots, slots->posted + posted_count, counters);
    // Some providers answer with a negative errno.
    return abs(error);
}

bool slots_replace_refused(struct slots *slots, int error)
{
    struct slot *slot = slot_at(slots, slots->posted);
    struct ibv_send_wr *wr = &slot->descriptor.wr;
    if (slot->post_error != 0) {
        return false;
    }
    slot->post_error = error;
    *wr = (struct ibv_send_wr){.wr_id = wr->wr_id, .opcode = IBV_WR_RDMA_WRITE};
    return true;
}

/* ---- ending ---------------------------------------------------------------------------------- */

bool slots_find(const struct slots *slots, uint64_t wr_id, uint32_t *ret_index)
{
    uint64_t index;
    if (!slots_distance(slots, slots->retired, wr_id, &index)) {
        return false;
    }
    *ret_index = index < slots->posted - slots->retired ? (uint32_t)index : SLOTS_NOT_POSTED;
    return true;
}

static void slot_fail_request(const struct slot *slot, struct progress *progress,
                              const struct failure *failure)
{
    if (failure->status == IBV_WC_WR_FLUSH_ERR || slot->first == NULL) {
        progress_fail(progress, failure, NULL, 0);
    } else if (progress == slot->first) {
        progress_fail(progress, failure, slot->first_element, slot->first_element_index);
    } else {
        progress_fail(progress, failure, progress->request->elements, 0);
    }
}

static void slot_end_request(const struct slot *slot, struct progress *progress, uint64_t len,
                             const struct failure *failure, struct list_link *ended)
{
    progress_on_transfer(progress, len, failure == NULL);
    if (failure != NULL) {
        slot_fail_request(slot, progress, failure);
    }
    progress_end_if_idle(progress, ended);
}

static void slot_end(struct slot *slot, const struct failure *failure, struct list_link *ended)
{
    const struct failure refused = {.status = IBV_WC_GENERAL_ERR, .post_error = slot->post_error};
    if (failure == NULL && slot->post_error != 0) {
        failure = &refused;
    }
    for (struct list_link *link; (link = list_pop_head(&slot->ends)) != NULL;) {
        struct progress *progress = LIST_ENTRY(link, struct progress, link);
        slot_end_request(slot, progress, progress->end_len, failure, ended);
    }
    if (slot->goes_on != NULL) {
        slot_end_request(slot, slot->goes_on, slot->goes_on_len, failure, ended);
    }
}

void slots_retire(struct slots *slots, const struct failure *failure, struct list_link *ended)
{
    CHECK(slots->retired < slots->posted);
    slot_end(slot_at(slots, slots->retired++), failure, ended);
}

void slots_drop_unposted(struct slots *slots, struct list_link *ended)
{
    for (uint64_t number = slots->posted; number < slots->formatted; number++) {
        slot_end(slot_at(slots, number), &failure_flushed, ended);
    }
    slots->formatted = slots->posted;
}
