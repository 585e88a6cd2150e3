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

struct iscsi_rdma_counters {
    struct iscsi_counters of_sessions; // sessions, refused, malformed and rejects
    struct fabric_counters of_connections;
    uint64_t pdus;          // that have come
    uint64_t oneshots;      // of these, whose header advertised memory
    uint64_t closes;        // responses that closed the memory of their command
    uint64_t unlent;        // connections ended because a command with data lent no memory
    uint64_t fetched_len;   // octets of data by RDMA Read
    uint64_t delivered_len; // octets of data by RDMA Write
};

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
struct iscsi_rdma_counters iscsi_rdma_counters(const struct iscsi_rdma *rdma);
