// Chains of elements for the tests of this folder, written as one would draw them.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include <weft/manager.h>

#include "manager/format.h"

enum { LKEY = 0x11, RKEY = 0x22, CHAIN_MAX = 64, SEGMENTS_MAX = 64 };

struct chain {
    struct weft_rdma_element elements[CHAIN_MAX];
    struct weft_rdma_buffer buffers[CHAIN_MAX];
    uint32_t element_count, buffer_count;
};

// Begins a further element; its buffers follow.
static inline struct weft_rdma_element *chain_element(struct chain *chain, uint64_t remote_addr)
{
    struct weft_rdma_element *element = &chain->elements[chain->element_count];
    *element = (struct weft_rdma_element){
        .buffers = &chain->buffers[chain->buffer_count], .remote_addr = remote_addr, .rkey = RKEY};
    if (chain->element_count++ > 0) {
        element[-1].next = element;
    }
    return element;
}

// A further buffer of the last element.
static inline struct weft_rdma_buffer *chain_buffer(struct chain *chain, uint64_t addr,
                                                    uint64_t len)
{
    struct weft_rdma_buffer *buffer = &chain->buffers[chain->buffer_count++];
    *buffer = (struct weft_rdma_buffer){.addr = addr, .len = len, .lkey = LKEY};
    chain->elements[chain->element_count - 1].buffer_count++;
    return buffer;
}

// An element of one buffer.
static inline struct weft_rdma_element *chain_add(struct chain *chain, uint64_t remote_addr,
                                                  uint64_t addr, uint64_t len)
{
    struct weft_rdma_element *element = chain_element(chain, remote_addr);
    chain_buffer(chain, addr, len);
    return element;
}

// A descriptor with room for its segments.
struct sheet {
    struct descriptor descriptor;
    struct ibv_sge segments[SEGMENTS_MAX];
};

// Forms the next descriptor of the chain on an empty sheet.
static inline const struct descriptor *sheet_format(struct sheet *sheet,
                                                    struct weft_rdma_position *position,
                                                    struct transfer_limits limits)
{
    memset(sheet, 0, sizeof *sheet);
    sheet->descriptor.wr.sg_list = sheet->segments;
    descriptor_begin(&sheet->descriptor, IBV_WR_RDMA_WRITE, limits, position);
    uint64_t added_len = format_descriptor(position, &sheet->descriptor);
    assert_int_equal(sheet->descriptor.len, added_len);
    return &sheet->descriptor;
}

static inline void expect_remote(const struct descriptor *descriptor, uint64_t remote_addr,
                                 uint64_t len)
{
    assert_int_equal(descriptor->wr.wr.rdma.remote_addr, remote_addr);
    assert_int_equal(descriptor->wr.wr.rdma.rkey, RKEY);
    assert_int_equal(descriptor->len, len);
}

static inline void expect_segment(const struct descriptor *descriptor, int index, uint64_t addr,
                                  uint32_t length)
{
    assert_in_range(index, 0, descriptor->wr.num_sge - 1);
    assert_int_equal(descriptor->wr.sg_list[index].addr, addr);
    assert_int_equal(descriptor->wr.sg_list[index].length, length);
    assert_int_equal(descriptor->wr.sg_list[index].lkey, LKEY);
}
