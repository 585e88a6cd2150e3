// The target transport service for iSCSI over one-shot RDMA (docs/iscsi.md).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/fabric/fabric.h"
#include "node/interface/cta_tts.h"
#include "node/interface/uma_tts.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "text/addresses.h"

struct iscsi_rdma;

struct iscsi_rdma_parts {
    struct iscsi *iscsi;
    struct loop *loop;
    struct addresses listen; // "HOST[:PORT]", "[HOST][:PORT]"; PORT 3260 if none, 0: a free one
    struct node_pool pool;
    bool *pool_is_pinned; // set once a device has taken pages of it for its own
    duration_ns patience_ns;
    unsigned connection_max; // of which one address has half; 0: ISCSI_PAIR_MAX
};

// NULL without memory. It joins the loop as a member.
struct iscsi_rdma *iscsi_rdma_create(const struct iscsi_rdma_parts *parts);
void iscsi_rdma_destroy(struct iscsi_rdma *rdma);
// "iscsi+rdma://127.0.0.1:3260/TARGET/0".
extern const struct tts_for_uma iscsi_rdma_for_uma;
