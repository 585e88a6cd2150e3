// Two queue pairs of one process, connected by rdma_cm, and a manager on one of them: on weft, or
// on whatever device has the address of tests/cm/loopback.h.
#pragma once

#include "tests/cm/loopback.h"
#include "tests/manager/chain.h"

enum {
    PAIR_MEMORY_LEN = 1 << 20,
    PAIR_DEPTH = 32,
    PAIR_SEGMENTS_MAX = 6, // siw has no more
    PAIR_WC_MAX = 16,
    PAIR_LIMIT_S = 50, // for one test; a processor that QEMU emulates is slow
};

struct pair {
    struct loopback ends;
    struct ibv_qp *qp;      // the manager's
    struct ibv_qp *peer_qp; // the other one, with no manager
    struct ibv_mr *local_mr, *remote_mr;
    uint8_t *local, *remote; // PAIR_MEMORY_LEN each
    struct weft_rdma_manager *manager;
};

// A request, its chain, and how often it was called back.
struct job {
    struct weft_rdma_request request;
    struct chain chain;
    struct pair *pair;
    unsigned count;
};

// Connects, fills both memories with octets of their own, and makes the manager (attr.qp is set).
void pair_open(struct pair *pair, struct weft_rdma_manager_attr attr);
void pair_close(struct pair *pair);

void job_init(struct job *job, struct pair *pair, enum ibv_wr_opcode opcode);
// A further element, at this place of the remote memory; buffers of it, at places of the local one.
void job_element(struct job *job, size_t remote_at);
void job_buffer(struct job *job, size_t local_at, size_t len);
void job_submit(struct job *job, unsigned flags);

// Polls until the manager has ended the job. Completions of others are handed to `on_foreign`,
// which may be NULL if there are none.
void job_wait(struct job *job, void (*on_foreign)(struct pair *pair, const struct ibv_wc *wc));

void job_expect_success(const struct job *job);

// Waits until all octets written so far are in the remote memory, which the completion of a write
// does not say: a Send follows them.
void pair_settle(struct pair *pair);

// Its halves: what the peer needs to be sent something, and that it got it. Send completions have
// wr_id PAIR_SEND.
enum { PAIR_SEND = 42 };
void pair_post_receive(struct pair *pair);
void pair_post_send(struct pair *pair);
void pair_await_receive(struct pair *pair);
