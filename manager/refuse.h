// Whether a request can be carried out at all: everything that is refused is found here, before
// anything of it is posted.
#pragma once

#include <weft/manager.h>

#include "manager/ranges.h"

struct refusal_check {
    uint64_t total_len;                    // of all elements; set if there is no refusal
    uint64_t element_count;                // likewise
    const struct weft_rdma_element *where; // the element that is the reason; NULL: none is
    uint32_t where_index;
};

// `scratch` is for ranges out of order. The request's state (busy, broken) is not looked at.
enum weft_rdma_refusal request_check(const struct weft_rdma_request *request,
                                     struct ranges *scratch, struct refusal_check *ret_check);
