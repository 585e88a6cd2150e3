#include "rnic/rnic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/create.h"
#include "rnic/ep.h"
#include "rnic/internal.h"

const struct rnic_limits rnic_limits = {
    .max_mr_len = UINT64_MAX >> 1,
    .max_qp = 65536,
    .max_cq = 65536,
    .max_mr = 196608,
    .max_mw = 32768,
    .max_pd = MEM_PD_COUNT_MAX,
    .max_srq = 65536,
    .max_qp_wr = 32768,
    .max_srq_wr = 32768,
    .max_cqe = CQ_CAPACITY_MAX,
    .max_sge = SGE_COUNT_MAX,
    .max_sge_rd = SGE_COUNT_MAX,
    .max_inline_len = 512,
    .max_qp_rd_atom = 128,
    .max_msg_len = 1U << 31,
};

static int tables_create(struct rnic *rnic, const struct rnic_parts *parts)
{
    rnic->mem = mem_table_create(parts->stag_key, MEM_CAPACITY_MAX, parts->probe);
    rnic->qp_slot_count = rnic_limits.max_qp;
    rnic->qps = calloc(rnic->qp_slot_count, sizeof *rnic->qps);
    rnic->read_sched = read_sched_create(parts->config.read_contexts, parts->config.read_depth);
    if (rnic->mem == NULL || rnic->qps == NULL || rnic->read_sched == NULL) {
        return -ENOMEM;
    }
    mem_table_limit(rnic->mem, rnic_limits.max_mr, rnic_limits.max_mw);
    read_sched_set_quantum(rnic->read_sched, parts->config.read_allotment_len);
    allotment_policy_init(&rnic->allotment, parts->config.read_allotment_len);
    return mem_sinks_reserve(rnic->mem, parts->config.read_contexts);
}

int rnic_create(const struct rnic_parts *parts, struct rnic **ret)
{
    struct rnic *rnic = calloc(1, sizeof *rnic);
    if (rnic == NULL) {
        parts->link->ops->destroy(parts->link);
        return -ENOMEM;
    }
    rnic->config = parts->config;
    rnic->clock = parts->clock;
    rnic->clock_ctx = parts->clock_ctx;
    rnic->qp_num_next = parts->qp_num_first % RNIC_QP_NUM_MAX;
    rnic->trace = parts->trace;
    bool is_bounded = parts->half_open_max > 0 && parts->half_open_max < CONN_HALF_OPEN_MAX_DEFAULT;
    conn_gate_init(&rnic->gate, is_bounded ? parts->half_open_max : CONN_HALF_OPEN_MAX_DEFAULT);
    list_init(&rnic->all_qps);
    list_init(&rnic->points);
    int error = shard_init(&rnic->shard, rnic, parts->link);
    if (error != 0) {
        parts->link->ops->destroy(parts->link);
        free(rnic);
        return error;
    }
    error = tables_create(rnic, parts);
    if (error == 0 && !parts->is_simulated) {
        error = shard_thread_start(&rnic->shard);
    }
    if (error != 0) {
        rnic_destroy(rnic);
        return error;
    }
    *ret = rnic;
    return 0;
}

void rnic_destroy(struct rnic *rnic)
{
    shard_thread_stop(&rnic->shard);
    shard_fini(&rnic->shard);
    read_sched_destroy(rnic->read_sched);
    mem_table_destroy(rnic->mem);
    free(rnic->qps);
    free(rnic);
}

bool rnic_is_alive(const struct rnic *rnic)
{
    return !atomic_load_explicit(&rnic->is_orphan, memory_order_relaxed);
}

instant_ns rnic_now(const struct rnic *rnic)
{
    return rnic->clock(rnic->clock_ctx);
}

bool rnic_step(struct rnic *rnic)
{
    rnic_enter(rnic);
    bool moved = shard_run(&rnic->shard, rnic_now(rnic));
    rnic_leave(rnic, 0);
    return moved;
}

instant_ns rnic_next_deadline(struct rnic *rnic)
{
    rnic_enter(rnic);
    bool is_runnable = !list_is_empty(&rnic->shard.runnable);
    instant_ns deadline_ns = is_runnable ? 0 : shard_next_deadline(&rnic->shard);
    rnic_leave(rnic, 0);
    return deadline_ns;
}

struct rnic_live rnic_live(struct rnic *rnic)
{
    rnic_enter(rnic);
    struct mem_live mem = mem_table_live(rnic->mem);
    struct rnic_live live = {
        .pds = mem.pds,
        .regions = mem.regions,
        .windows = mem.windows,
        .oneshots = mem.oneshots,
        .sinks = mem.sinks,
        .qps = rnic->qp_count,
        .cqs = rnic->cq_count,
        .srqs = rnic->srq_count,
    };
    for (struct list_link *l = rnic->shard.endpoints.next; l != &rnic->shard.endpoints;
         l = l->next) {
        live.endpoints++;
    }
    rnic_leave(rnic, 0);
    return live;
}

bool rnic_has_output(struct rnic *rnic)
{
    bool has_output = false;
    rnic_enter(rnic);
    for (struct list_link *l = rnic->shard.endpoints.next; l != &rnic->shard.endpoints;
         l = l->next) {
        struct rnic_ep *ep = LIST_ENTRY(l, struct rnic_ep, all_link);
        has_output |= ep_has_output(ep);
    }
    rnic_leave(rnic, 0);
    return has_output;
}

/* ---- the ends of a process ------------------------------------------------------------------- */

void rnic_hold(struct rnic *rnic)
{
    shard_lock(&rnic->shard);
}

void rnic_resume(struct rnic *rnic)
{
    shard_unlock(&rnic->shard);
}

void rnic_abandon(struct rnic *rnic)
{
    atomic_store(&rnic->is_orphan, true);
    rnic->shard.has_thread = false;
    atomic_store(&rnic->shard.rung, NULL); // what other threads of the parent had rung
    atomic_store(&rnic->shard.waiter_count, 0);
    rnic->shard.link->ops->abandon(rnic->shard.link);
    shard_let_go(&rnic->shard); // this thread holds it; nobody is left to be served
}
