// What may be in a descriptor, and how many there may be: the smallest of what the device, the
// connection, the peer and the caller allow.
#pragma once

#include <weft/manager.h>

#include "manager/format.h"

// Asks the device. 0, -EINVAL, or what a query answered; see weft_rdma_manager_create().
int limits_query(const struct weft_rdma_manager_attr *attr, struct weft_rdma_limits *ret_limits);

// Those of one request.
struct transfer_limits limits_of_request(const struct weft_rdma_limits *limits,
                                         const struct weft_rdma_request *request);
