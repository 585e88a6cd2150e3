#include "manager/refuse.h"

#include <stddef.h>

static const char *const refusal_names[WEFT_RDMA_REFUSAL_COUNT] = {
    [WEFT_RDMA_ACCEPTED] = "accepted",
    [WEFT_RDMA_BUSY] = "submitted before and not complete yet",
    [WEFT_RDMA_BROKEN] = "the queue pair has failed",
    [WEFT_RDMA_BAD_OPCODE] = "neither an RDMA Write nor an RDMA Read",
    [WEFT_RDMA_BAD_FLAGS] = "unknown flag",
    [WEFT_RDMA_BAD_TRAILER] = "a trailer of more segments than a descriptor may have",
    [WEFT_RDMA_NO_ELEMENTS] = "no elements",
    [WEFT_RDMA_NO_BUFFERS] = "an element without buffers",
    [WEFT_RDMA_ZERO_LENGTH] = "a buffer of no octets",
    [WEFT_RDMA_LOCAL_WRAPS] = "a buffer reaches the end of the address space",
    [WEFT_RDMA_REMOTE_WRAPS] = "a remote range reaches the end of the address space",
    [WEFT_RDMA_TOTAL_TOO_LONG] = "2^64 octets or more",
    [WEFT_RDMA_OVERLAP] = "octets that would be written twice",
    [WEFT_RDMA_NO_MEMORY] = "no memory to look for overlaps",
};

const char *weft_rdma_refusal_str(enum weft_rdma_refusal refusal)
{
    return (unsigned)refusal < WEFT_RDMA_REFUSAL_COUNT ? refusal_names[refusal] : "unknown";
}

// Where the octets of a request are placed, range by range: the remote ranges of a write, the
// buffers of a read.
struct placement {
    size_t range_count;
    struct range last;
    bool is_ascending; // each range so far lies behind the one before
};

static void placement_add(struct placement *placement, struct range range)
{
    if (placement->range_count++ > 0 && !range_is_behind(&range, &placement->last)) {
        placement->is_ascending = false;
    }
    placement->last = range;
}

static struct range range_of_buffer(const struct weft_rdma_element *element, uint32_t index)
{
    const struct weft_rdma_buffer *buffer = &element->buffers[index];
    return (struct range){
        .start = buffer->addr, .len = buffer->len, .key = buffer->lkey, .whose = element};
}

static struct range range_of_element(const struct weft_rdma_element *element, uint64_t len)
{
    return (struct range){
        .start = element->remote_addr, .len = len, .key = element->rkey, .whose = element};
}

/* ---- one by one ------------------------------------------------------------------------------ */

static enum weft_rdma_refusal buffer_check(const struct weft_rdma_buffer *buffer)
{
    if (buffer->len == 0) {
        return WEFT_RDMA_ZERO_LENGTH;
    }
    return buffer->len > UINT64_MAX - buffer->addr ? WEFT_RDMA_LOCAL_WRAPS : WEFT_RDMA_ACCEPTED;
}

static enum weft_rdma_refusal element_check(const struct weft_rdma_element *element, bool is_read,
                                            struct placement *placement, uint64_t *ret_len)
{
    uint64_t room_len = UINT64_MAX - element->remote_addr;
    uint64_t len = 0;
    for (uint32_t i = 0; i < element->buffer_count; i++) {
        enum weft_rdma_refusal refusal = buffer_check(&element->buffers[i]);
        if (refusal != WEFT_RDMA_ACCEPTED) {
            return refusal;
        }
        if (element->buffers[i].len > room_len - len) {
            return WEFT_RDMA_REMOTE_WRAPS;
        }
        len += element->buffers[i].len;
        if (is_read) {
            placement_add(placement, range_of_buffer(element, i));
        }
    }
    if (!is_read) {
        placement_add(placement, range_of_element(element, len));
    }
    *ret_len = len;
    return element->buffer_count == 0 ? WEFT_RDMA_NO_BUFFERS : WEFT_RDMA_ACCEPTED;
}

static enum weft_rdma_refusal elements_check(const struct weft_rdma_request *request,
                                             struct placement *placement,
                                             struct refusal_check *check)
{
    bool is_read = request->opcode == IBV_WR_RDMA_READ;
    for (const struct weft_rdma_element *element = request->elements; element != NULL;
         element = element->next, check->where_index++) {
        uint64_t len;
        enum weft_rdma_refusal refusal = element_check(element, is_read, placement, &len);
        check->where = element;
        if (refusal != WEFT_RDMA_ACCEPTED) {
            return refusal;
        }
        if (len > UINT64_MAX - check->total_len) {
            return WEFT_RDMA_TOTAL_TOO_LONG;
        }
        check->total_len += len;
    }
    check->element_count = check->where_index;
    check->where = NULL;
    check->where_index = 0;
    return WEFT_RDMA_ACCEPTED;
}

/* ---- out of order ---------------------------------------------------------------------------- */

static void ranges_gather(struct ranges *ranges, const struct weft_rdma_request *request)
{
    for (const struct weft_rdma_element *element = request->elements; element != NULL;
         element = element->next) {
        uint64_t len = 0;
        for (uint32_t i = 0; i < element->buffer_count; i++) {
            len += element->buffers[i].len;
            if (request->opcode == IBV_WR_RDMA_READ) {
                ranges_add(ranges, range_of_buffer(element, i));
            }
        }
        if (request->opcode == IBV_WR_RDMA_WRITE) {
            ranges_add(ranges, range_of_element(element, len));
        }
    }
}

static uint32_t index_of(const struct weft_rdma_request *request,
                         const struct weft_rdma_element *wanted)
{
    uint32_t index = 0;
    for (const struct weft_rdma_element *element = request->elements; element != wanted;
         element = element->next) {
        index++;
    }
    return index;
}

static enum weft_rdma_refusal overlap_check(const struct weft_rdma_request *request,
                                            const struct placement *placement,
                                            struct ranges *scratch, struct refusal_check *check)
{
    if (placement->is_ascending) {
        return WEFT_RDMA_ACCEPTED;
    }
    if (!ranges_resize(scratch, placement->range_count)) {
        return WEFT_RDMA_NO_MEMORY;
    }
    ranges_gather(scratch, request);
    const struct range *overlap = ranges_find_overlap(scratch);
    if (overlap == NULL) {
        return WEFT_RDMA_ACCEPTED;
    }
    check->where = overlap->whose;
    check->where_index = index_of(request, check->where);
    return WEFT_RDMA_OVERLAP;
}

/* ---- the request ----------------------------------------------------------------------------- */

enum weft_rdma_refusal request_check(const struct weft_rdma_request *request,
                                     struct ranges *scratch, struct refusal_check *ret_check)
{
    struct placement placement = {.is_ascending = true};
    *ret_check = (struct refusal_check){0};
    if (request->opcode != IBV_WR_RDMA_WRITE && request->opcode != IBV_WR_RDMA_READ) {
        return WEFT_RDMA_BAD_OPCODE;
    }
    if ((request->flags & ~(unsigned)WEFT_RDMA_MAY_COALESCE) != 0) {
        return WEFT_RDMA_BAD_FLAGS;
    }
    if (request->elements == NULL) {
        return WEFT_RDMA_NO_ELEMENTS;
    }
    enum weft_rdma_refusal refusal = elements_check(request, &placement, ret_check);
    if (refusal != WEFT_RDMA_ACCEPTED) {
        return refusal;
    }
    return overlap_check(request, &placement, scratch, ret_check);
}
