#include "rnic/rnic.h"

#include "base/sge.h"
#include "rnic/carrier.h"
#include "rnic/create.h"
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
    rnic_enter(rnic);
    bool has_output = rnic->shard.carrier->has_unsent(&rnic->shard);
    rnic_leave(rnic, 0);
    return has_output;
}
