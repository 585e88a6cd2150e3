// Changes of state that a program may ask a queue pair for, and the attributes that come with them:
// InfiniBand's tables (InfiniBand Architecture volume 1, section 11.2.5.2), as the kernel has them.
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

// 0, or EINVAL: there is no such change, an attribute is missing, or one too many. `is_stream`: the
// device connects the queue pair (struct identity). `mask` without IBV_QP_STATE counts as a change
// to the state that it is in.
int transition_check(bool is_stream, enum ibv_qp_type type, enum ibv_qp_state from,
                     enum ibv_qp_state to, int mask);
