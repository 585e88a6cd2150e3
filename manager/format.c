#include "manager/format.h"

#include <stddef.h>

struct weft_rdma_position position_at_start(const struct weft_rdma_element *first)
{
    return (struct weft_rdma_position){.element = first};
}

static void position_advance_element(struct weft_rdma_position *position)
{
    uint32_t index = position->element_index + 1;
    *position = position_at_start(position->element->next);
    position->element_index = index;
}

bool descriptor_continues_at(const struct descriptor *descriptor,
                             const struct weft_rdma_position *position)
{
    const struct weft_rdma_element *element = position->element;
    return descriptor->wr.wr.rdma.rkey == element->rkey &&
           descriptor->wr.wr.rdma.remote_addr + descriptor->len ==
               element->remote_addr + position->element_offset;
}

void descriptor_begin(struct descriptor *descriptor, enum ibv_wr_opcode opcode,
                      struct transfer_limits limits, const struct weft_rdma_position *position)
{
    const struct weft_rdma_element *element = position->element;
    descriptor->wr.opcode = opcode;
    descriptor->wr.send_flags = 0;
    descriptor->wr.num_sge = 0;
    descriptor->wr.wr.rdma.remote_addr = element->remote_addr + position->element_offset;
    descriptor->wr.wr.rdma.rkey = element->rkey;
    descriptor->limits = limits;
    descriptor->len = 0;
    descriptor->shared_segment_count = 0;
    descriptor->element_count = 0;
}

// The segment that octets at `addr` can join, because it ends there.
static struct ibv_sge *segment_that_touches(const struct descriptor *descriptor, uint64_t addr,
                                            uint32_t lkey)
{
    if (descriptor->wr.num_sge == 0) {
        return NULL;
    }
    struct ibv_sge *last = &descriptor->wr.sg_list[descriptor->wr.num_sge - 1];
    return last->lkey == lkey && last->addr + last->length == addr ? last : NULL;
}

// Adds the first octets of these, as many as it takes; returns their number. No segment is empty.
static uint64_t descriptor_add(struct descriptor *descriptor, uint64_t addr, uint64_t len,
                               uint32_t lkey)
{
    uint64_t room_len = descriptor->limits.max_transfer_len - descriptor->len;
    uint64_t taken_len = len < room_len ? len : room_len;
    if (taken_len == 0) {
        return 0;
    }
    struct ibv_sge *segment = segment_that_touches(descriptor, addr, lkey);
    if (segment != NULL) {
        segment->length += (uint32_t)taken_len;
        descriptor->shared_segment_count++;
    } else if ((uint32_t)descriptor->wr.num_sge < descriptor->limits.max_segment_count) {
        descriptor->wr.sg_list[descriptor->wr.num_sge++] =
            (struct ibv_sge){.addr = addr, .length = (uint32_t)taken_len, .lkey = lkey};
    } else {
        return 0;
    }
    descriptor->len += taken_len;
    return taken_len;
}

bool format_rdma_request(struct weft_rdma_position *position, struct descriptor *descriptor)
{
    const struct weft_rdma_element *element = position->element;
    while (position->buffer_index < element->buffer_count) {
        const struct weft_rdma_buffer *buffer = &element->buffers[position->buffer_index];
        uint64_t remaining_len = buffer->len - position->offset;
        uint64_t taken_len = descriptor_add(descriptor, buffer->addr + position->offset,
                                            remaining_len, buffer->lkey);
        position->element_offset += taken_len;
        if (taken_len < remaining_len) {
            position->offset += taken_len;
            return false;
        }
        position->buffer_index++;
        position->offset = 0;
    }
    return true;
}

uint64_t format_descriptor(struct weft_rdma_position *position, struct descriptor *descriptor)
{
    uint64_t before_len = descriptor->len;
    bool is_coalesced = true;
    while (position->element != NULL && is_coalesced) {
        uint64_t element_before_len = descriptor->len;
        bool is_complete = format_rdma_request(position, descriptor);
        descriptor->element_count += descriptor->len > element_before_len;
        if (!is_complete) {
            break;
        }
        position_advance_element(position);
        is_coalesced = position->element != NULL && descriptor_continues_at(descriptor, position);
    }
    return descriptor->len - before_len;
}

uint64_t transfers_count(struct weft_rdma_position position, struct transfer_limits limits,
                         struct descriptor *scratch)
{
    uint64_t count = 0;
    while (position.element != NULL) {
        descriptor_begin(scratch, IBV_WR_RDMA_WRITE, limits, &position);
        format_descriptor(&position, scratch);
        count++;
    }
    return count;
}
