// The target transport service for NVMe/TCP: connections carry the queues of the NVMe controllers
// (node/nvme/controller.h). Header and data digests as the host wishes; data of writes in the
// capsule, or asked for by R2T and received straight into the pool; data of reads sent from it.
#pragma once

#include "base/time.h"
#include "node/interface/uma_tts.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "text/addresses.h"

struct nvme_tcp;

#define NVME_TCP_COUNTERS(X)                                                        \
    X(accepted, "connections")                                                      \
    X(refused, "connections beyond what there is room for")                         \
    X(malformed, "connections ended because the host did not keep to the protocol") \
    X(stalled, "connections ended because nothing moved for too long")              \
    X(digest_errors, "of headers and of data")                                      \
    X(octets_in_capsules, "data that came with their commands")                     \
    X(octets_asked, "data by R2T")                                                  \
    X(octets_sent, "data of reads")

struct nvme_tcp_counters {
#define X(name, text) uint64_t name;
    NVME_TCP_COUNTERS(X)
#undef X
};

struct nvme_tcp_parts {
    struct loop *loop;
    struct addresses listen; // "HOST:PORT", "[HOST]:PORT"; PORT 0: one that is free
    struct nvme_target *target;
    duration_ns patience_ns; // with hosts that hold memory (node/stream/progress.h)
    // One line for the operator about a stranger from this host; as in struct nvme_target_parts.
    void (*say)(void *ctx, const char *host, const char *line);
    void *ctx;
};

// NULL without memory. It joins the loop as a member.
struct nvme_tcp *nvme_tcp_create(const struct nvme_tcp_parts *parts);
void nvme_tcp_destroy(struct nvme_tcp *tcp);

extern const struct tts_for_uma nvme_tcp_for_uma;

// The port of the first address at which it listens; 0: it does not yet.
uint16_t nvme_tcp_port(const struct nvme_tcp *tcp);

struct nvme_tcp_counters nvme_tcp_counters(const struct nvme_tcp *tcp);
