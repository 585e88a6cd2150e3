#include "rnic/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/key_mirror.h"
#include "base/port_link.h"
#include "link/sys.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"

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

static void begin_revocation(void *ctx, uint64_t generation)
{
    struct rnic *rnic = ctx;
    struct shard *shard = &rnic->shard;
    rnic->revoking = shard->carrier->link->is_key_free(shard, generation) ? 0 : generation;
}

// Peers of this host may write into regions by themselves, if the link has such.
static void show_keys(struct rnic *rnic)
{
    struct key_mirror *mirror = rnic->shard.carrier->link->keys_shown(&rnic->shard);
    if (mirror != NULL) {
        mem_table_show(rnic->mem, mirror,
                       (struct mem_revocation){.begin = begin_revocation, .ctx = rnic});
    }
}

static void give_up_link(const struct rnic_parts *parts)
{
    if (parts->link != NULL) {
        parts->link->ops->destroy(parts->link);
    } else {
        datagram_destroy(parts->datagrams);
    }
}

// With streams a number is only the device's; where packets name it, the link says which are ours.
static void numbers_init(struct qp_numbers *numbers, const struct rnic_parts *parts)
{
    *numbers = (struct qp_numbers){.count = RNIC_QP_NUM_MAX,
                                   .next = parts->qp_num_first % RNIC_QP_NUM_MAX};
    if (parts->datagrams != NULL) {
        numbers->is_shuffled = true;
        numbers->first = parts->datagrams->qp_num_first;
        numbers->count = parts->datagrams->qp_num_count;
        numbers->next %= numbers->count;
        memcpy(numbers->key, parts->stag_key, sizeof numbers->key);
    }
}

int rnic_create(const struct rnic_parts *parts, struct rnic **ret)
{
    struct rnic *rnic = calloc(1, sizeof *rnic);
    if (rnic == NULL) {
        give_up_link(parts);
        return -ENOMEM;
    }
    rnic->config = parts->config;
    rnic->name = parts->name != NULL ? parts->name : "weft0";
    rnic->clock = parts->clock;
    rnic->clock_ctx = parts->clock_ctx;
    numbers_init(&rnic->numbers, parts);
    rnic->trace = parts->trace;
    rnic->journal = parts->link != NULL ? parts->link->journal : parts->datagrams->journal;
    bool is_bounded = parts->half_open_max > 0 && parts->half_open_max < CONN_HALF_OPEN_MAX_DEFAULT;
    conn_gate_init(&rnic->gate, is_bounded ? parts->half_open_max : CONN_HALF_OPEN_MAX_DEFAULT);
    list_init(&rnic->all_qps);
    list_init(&rnic->points);
    list_init(&rnic->port_watches);
    int error = shard_init(&rnic->shard, rnic, parts->link, parts->datagrams);
    if (error != 0) {
        give_up_link(parts);
        free(rnic);
        return error;
    }
    error = tables_create(rnic, parts);
    if (error == 0) {
        show_keys(rnic);
    }
    if (error == 0 && parts->datagrams != NULL) {
        error = packet_port_open(&rnic->shard, &parts->port);
    }
    if (error == 0 && parts->datagrams != NULL) {
        error = packet_begin(&rnic->shard, parts->stag_key);
    }
    if (error == 0 && parts->datagrams != NULL) {
        error = packet_store_init(&rnic->shard.packets);
    }
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
    for (unsigned i = 0; i < rnic->total_count; i++) {
        free(rnic->totals[i].counters);
    }
    free(rnic->qps);
    free(rnic);
}

/* ---- around a fork --------------------------------------------------------------------------- */

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
    gathering_on_served(&rnic->shard.gathering);
    atomic_store(&rnic->shard.waiter_count, 0);
    mem_table_hide(rnic->mem); // the parent's peers look at it
    rnic->shard.carrier->link->leave(&rnic->shard);
    sys_close_fd(&rnic->shard.rouse_fd);
    shard_let_go(&rnic->shard); // this thread holds it; nobody is left to be served
}
