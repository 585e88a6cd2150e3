// A verbs provider that does what a test tells it: the ops that programs reach through
// ibv_context, and the queries that the manager makes. Nothing happens by itself: a test executes
// work requests one by one, by copying in this process's memory, and breaks the connection where it
// likes.
//
// Slots of the send queue come free as on real devices: when a completion is polled, its own and
// those of all work requests before it.
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

enum { FAKE_LOG_MAX = 4096, FAKE_SEGMENTS_MAX = 64, FAKE_CQ_MAX = 2 * FAKE_LOG_MAX };

struct fake_wr {
    struct ibv_send_wr wr; // sg_list is `segments`
    struct ibv_sge segments[FAKE_SEGMENTS_MAX];
    uint64_t len;
};

struct fake {
    struct ibv_context context;
    struct ibv_qp qp;
    struct ibv_cq cq;

    // What the queries answer.
    struct ibv_qp_cap cap;
    bool sq_sig_all;
    int max_sge_rd;
    uint32_t max_msg_sz;
    int query_error;

    // What posting answers.
    unsigned foreign_count; // slots of the send queue that the program's own work requests hold
    int post_error;         // in place of taking work request number `post_error_at`
    unsigned post_error_at;
    unsigned post_error_times; // so many times

    bool moves_no_data; // addresses are none of this process

    struct fake_wr *log; // all that was ever posted, in order
    unsigned posted, executed, freed;
    unsigned chain_count; // calls of ibv_post_send that took something
    bool is_broken;       // the queue pair is in its error state

    struct ibv_wc cqes[FAKE_CQ_MAX]; // cqe n stands for work request cqe_of[n]
    unsigned cqe_of[FAKE_CQ_MAX];
    unsigned cqe_count, polled;
};

// 16 work requests of 4 segments, transfers up to 1 KiB.
void fake_init(struct fake *fake);
void fake_fini(struct fake *fake);

// Carries out the next work request, or `count` of them; all that are posted.
void fake_execute(struct fake *fake, unsigned count);
void fake_execute_all(struct fake *fake);

// The next work request completes with this status, and all behind it are flushed, also those that
// are posted later.
void fake_fail(struct fake *fake, enum ibv_wc_status status);

// A completion that is nobody's here.
void fake_complete_foreign(struct fake *fake, uint64_t wr_id);

const struct fake_wr *fake_wr(const struct fake *fake, unsigned number);
