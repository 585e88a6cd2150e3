// Forming descriptors: the coalescing and the dividing.
//
// What is to be moved is one sequence of octets: those of the buffers, in the order of the chain. A
// descriptor takes the longest stretch from the current position on that is contiguous on the
// remote side, no longer than the longest transfer, and needs no more than the segments there are.
// Every part of a stretch that fits one descriptor fits one too, so no division of the sequence
// into stretches has fewer of them than this one, which always takes the longest.
//
//     remote      |  element 0  |  element 1   |            |  element 2  |     one rkey
//     local       [ b0 ] [  b1  ] [    b2      ]            [     b3      ]
//     descriptor  <------ 0 -----><---- 1 ----->            <----- 2 ----->
//                  longest transfer             not contiguous
//
// Pure: no request, no queue pair. The words in capitals are the source's.
#pragma once

#include <weft/manager.h>

struct transfer_limits {
    uint64_t max_transfer_len;  // MAX RDMA TRANSFER; at most 2^32 - 1
    uint32_t max_segment_count; // at least 1
};

// A work request in the making. Its segments are in wr.sg_list, which the caller provides.
struct descriptor {
    struct ibv_send_wr wr;
    struct transfer_limits limits;
    uint64_t len;                  // CURRENT TRANSFER SIZE
    uint32_t shared_segment_count; // buffers that joined the segment of the one before
    uint32_t element_count;        // elements that have octets in it
};

// CURRENT ELEMENT = first of the chain (NULL: nothing to be moved), OFFSET = 0.
struct weft_rdma_position position_at_start(const struct weft_rdma_element *first);

// Whether the octets from `position` on lie behind those of the descriptor, on the remote side.
// `position` has an element.
bool descriptor_continues_at(const struct descriptor *descriptor,
                             const struct weft_rdma_position *position);

// Initializes the descriptor for octets from `position` on; wr.sg_list and wr.wr_id are kept.
void descriptor_begin(struct descriptor *descriptor, enum ibv_wr_opcode opcode,
                      struct transfer_limits limits, const struct weft_rdma_position *position);

// Walks the buffers of the current element, as far as the descriptor takes them, and saves the
// offsets. Returns whether the transfer of that element is complete.
bool format_rdma_request(struct weft_rdma_position *position, struct descriptor *descriptor);

// Walks the chain of elements, as far as they can be coalesced into the descriptor. The current
// element is NULL afterwards if all octets have descriptors. Returns the octets added.
uint64_t format_descriptor(struct weft_rdma_position *position, struct descriptor *descriptor);

// How many descriptors the octets from `position` on need, by forming them in `scratch`.
uint64_t transfers_count(struct weft_rdma_position position, struct transfer_limits limits,
                         struct descriptor *scratch);
