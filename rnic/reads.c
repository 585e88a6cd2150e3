#include "rnic/reads.h"

#include "base/check.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "wq/allotment.h"

static const duration_ns sample_period_ns = 100 * NS_PER_MS;

void reads_spread(struct rnic *rnic, uint32_t old_len, enum allotment_event event, instant_ns now)
{
    CHECK(shard_is_held(&rnic->shard));
    uint32_t len = rnic->allotment.len;
    TRACE(rnic->trace, TRACE_RNIC, "read allotment %u -> %u: %s", old_len, len,
          allotment_event_name(event));
    read_sched_set_quantum(rnic->read_sched, len);
    for (struct list_link *l = rnic->all_qps.next; l != &rnic->all_qps; l = l->next) {
        struct rnic_qp *qp = LIST_ENTRY(l, struct rnic_qp, all_link);
        const struct transport_ops *ops = qp->transport->ops;
        if (ops->wish_allotment != NULL) {
            ops->wish_allotment(qp->transport, len, allotment_policy_may_follow(&rnic->allotment),
                                event, now);
        }
        if (qp->ep != NULL && ops->has_output(qp->transport)) {
            shard_run_again(&rnic->shard, qp->ep);
        }
    }
}

// A connection without a bound has the largest.
static void in_force_note(struct report_reads *reads, uint32_t request_len)
{
    bool is_first = reads->connection_count++ == 0;
    if (is_first || request_len - 1 < reads->in_force_min_len - 1) {
        reads->in_force_min_len = request_len;
    }
    if (is_first || request_len - 1 > reads->in_force_max_len - 1) {
        reads->in_force_max_len = request_len;
    }
}

// Of streams the connection is the endpoint's, of packets the queue pair's own.
bool reads_are_of(const struct rnic_qp *qp, enum qp_state state)
{
    bool is_connected = qp->ep != NULL
                            ? qp->ep->state == EP_OPEN
                            : qp->rnic->shard.link == NULL && (state == QP_RTS || state == QP_SQD);
    return qp->transport->ops->wish_allotment != NULL && is_connected;
}

static void in_force_collect(const struct rnic *rnic, struct report_reads *reads)
{
    const struct list_link *all = &rnic->all_qps;
    for (const struct list_link *l = all->next; l != all; l = l->next) {
        const struct rnic_qp *qp = LIST_ENTRY(l, const struct rnic_qp, all_link);
        const struct transport_ops *ops = qp->transport->ops;
        const struct qp_attributes attributes = ops->query(qp->transport);
        if (reads_are_of(qp, attributes.state)) {
            in_force_note(reads, attributes.request_len);
        }
    }
}

struct report_reads reads_query(const struct rnic *rnic)
{
    CHECK(shard_is_held(&rnic->shard));
    struct report_reads reads = {
        .allotment_len = rnic->allotment.len,
        .allotment_base_len = rnic->allotment.base_len,
        .is_memory_short = rnic->allotment.is_memory_short,
        .context_count = read_sched_context_count(rnic->read_sched),
        .contexts_in_use = read_sched_in_use(rnic->read_sched),
        .waiting_count = read_sched_waiting_count(rnic->read_sched),
        .counters = *read_sched_counters(rnic->read_sched),
    };
    for (unsigned i = 0; i < ALLOTMENT_EVENT_COUNT; i++) {
        reads.changes[i] = rnic->allotment.changes[i];
    }
    in_force_collect(rnic, &reads);
    return reads;
}

static struct allotment_sample sample_of(struct read_sched *sched)
{
    const struct read_sched_seen seen = read_sched_take_seen(sched);
    return (struct allotment_sample){
        .waiting_count = read_sched_waiting_count(sched),
        .context_count = read_sched_context_count(sched),
        .pipe_len = seen.pipe_len,
        .lasting_len = seen.lasting_len,
        .reader_count = seen.reader_count,
    };
}

// Who comes to one that reads alone does not wait for the next sample behind its long requests.
static bool has_company_come(const struct rnic *rnic)
{
    return allotment_policy_is_of_one(&rnic->allotment) &&
           read_sched_reader_count(rnic->read_sched) > 1;
}

void reads_on_pass(struct rnic *rnic, instant_ns now)
{
    instant_ns due_ns = instant_after(rnic->reads_sampled_ns, sample_period_ns);
    if (now >= due_ns || has_company_come(rnic)) {
        const struct allotment_sample sample = sample_of(rnic->read_sched);
        enum allotment_event event;
        uint32_t old_len = rnic->allotment.len;
        rnic->reads_sampled_ns = now;
        due_ns = instant_after(now, sample_period_ns);
        if (allotment_policy_on_sample(&rnic->allotment, &sample, &event)) {
            reads_spread(rnic, old_len, event, now);
        }
    }
    if (!allotment_policy_is_at_rest(&rnic->allotment)) { // what bends it may be over by then
        shard_note_deadline(&rnic->shard, due_ns);
    }
}
