#include "qp/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qp/internal.h"

static bool is_config_valid(const struct qp_config *config)
{
    const struct qp_caps *caps = &config->caps;
    const uint32_t wr_max = 1U << 20, inline_max = 1U << 16;
    return caps->max_send_wr <= wr_max && caps->max_recv_wr <= wr_max &&
           caps->max_send_sge <= SGE_COUNT_MAX && caps->max_recv_sge <= SGE_COUNT_MAX &&
           caps->max_inline_len <= inline_max;
}

static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value > min ? value : min;
}

static int init_queues(struct qp *qp)
{
    struct qp_caps *caps = &qp->config.caps;
    size_t list_len = caps->max_send_sge * sizeof(struct sge);
    size_t payload_len = list_len > caps->max_inline_len ? list_len : caps->max_inline_len;
    int result = wqe_ring_init(&qp->sq, at_least(caps->max_send_wr, 1),
                               sizeof(struct send_wqe) + payload_len);
    if (result < 0) {
        return result;
    }
    caps->max_send_wr = qp->sq.capacity;
    if (qp->config.srq != NULL) {
        return 0;
    }
    result = wqe_ring_init(&qp->rq, at_least(caps->max_recv_wr, 1),
                           sizeof(struct recv_wqe) + caps->max_recv_sge * sizeof(struct sge));
    caps->max_recv_wr = qp->rq.capacity;
    return result;
}

static void on_context_granted(void *ctx)
{
    struct qp *qp = ctx;
    if (qp->config.port.on_runnable != NULL) {
        qp->config.port.on_runnable(qp->config.port.ctx);
    }
}

static int init_reads(struct qp *qp)
{
    struct read_sched *sched = qp->config.read_sched;
    if (sched == NULL) {
        uint32_t count = at_least(qp->config.ord_max, 1);
        sched = qp->own_read_sched = read_sched_create(count, 0);
        int result = sched == NULL ? -ENOMEM : mem_sinks_reserve(qp->config.mem, count);
        if (result < 0) {
            return result;
        }
    }
    read_flow_init(&qp->reads, sched, on_context_granted, qp);
    allotment_init(&qp->allotment, qp->config.allotment_len, qp->config.may_follow);
    qp->reads.allotment_len = qp->config.allotment_len;
    return 0;
}

static void parts_fini(struct qp *qp)
{
    rnr_store_fini(&qp->store);
    early_fini(qp);
    free(qp->peer_requests);
    read_sched_destroy(qp->own_read_sched);
    wqe_ring_fini(&qp->rq);
    wqe_ring_fini(&qp->sq);
    free(qp);
}

int qp_create(const struct qp_config *config, struct qp **ret)
{
    if (!is_config_valid(config)) {
        return -EINVAL;
    }
    struct qp *qp = aligned_alloc(CACHE_LINE_LEN, sizeof *qp);
    if (qp == NULL) {
        return -ENOMEM;
    }
    memset(qp, 0, sizeof *qp);
    qp->config = *config;
    qp->state = QP_RESET;
    qp->ord_max = config->ord_max;
    qp->rnr_deadline = INSTANT_NEVER;
    qp->terminate_deadline = qp->silence_deadline = INSTANT_NEVER;
    list_init(&qp->requests);
    qp->peer_request_capacity = at_least(config->ird_max, 1);
    qp->peer_requests = calloc(qp->peer_request_capacity, sizeof *qp->peer_requests);
    int result = qp->peer_requests == NULL ? -ENOMEM : init_queues(qp);
    if (result == 0) {
        result = init_reads(qp);
    }
    if (result == 0) {
        result = rnr_store_init(&qp->store, config->rnr_store_len);
    }
    if (result == 0 && config->places_early) {
        result = early_init(qp);
    }
    if (result < 0) {
        parts_fini(qp);
        return result;
    }
    *ret = qp;
    return 0;
}

void qp_destroy(struct qp *qp)
{
    if (qp == NULL) {
        return;
    }
    response_forget_all(qp);
    receive_forget(qp);
    oneshot_fini(qp);
    parts_fini(qp);
}

uint32_t qp_num(const struct qp *qp)
{
    return qp->config.qp_num;
}

struct qp_caps qp_caps(const struct qp *qp)
{
    return qp->config.caps;
}

const struct qp_config *qp_config_of(const struct qp *qp)
{
    return &qp->config;
}

enum qp_state qp_state(const struct qp *qp)
{
    return qp->state;
}

enum qp_stream_state qp_stream_state(const struct qp *qp)
{
    return qp->stream_state;
}

const struct qp_counters *qp_counters(const struct qp *qp)
{
    return &qp->counters;
}

static uint32_t rq_count(const struct qp *qp)
{
    return qp->config.srq != NULL ? srq_posted_count(qp->config.srq)
                                  : wqe_ring_posted(&qp->rq) - qp->rq_next;
}

struct qp_attributes qp_query(const struct qp *qp)
{
    return (struct qp_attributes){
        .state = qp->state,
        .ird = (uint16_t)qp->ird,
        .ord = (uint16_t)qp->ord,
        .mulpdu = qp->rdmap.mulpdu,
        .sq_count = wqe_ring_posted(&qp->sq) - wqe_ring_head(&qp->sq),
        .rq_count = rq_count(qp),
        .reads_outstanding = qp->request_count,
        .reads_due = qp->peer_request_count + qp->peer_request_held_count,
        .request_len = allotment_request_len(&qp->allotment),
        .answer_len = allotment_answer_len(&qp->allotment),
    };
}

static bool check_queues(const struct qp *qp)
{
    uint32_t head = wqe_ring_head(&qp->sq), posted = wqe_ring_posted(&qp->sq);
    bool is_sq_ordered = qp->sq_next - head <= posted - head && posted - head <= qp->sq.capacity;
    if (qp->config.srq != NULL) {
        return is_sq_ordered && srq_check(qp->config.srq);
    }
    uint32_t rq_head = wqe_ring_head(&qp->rq), rq_posted = wqe_ring_posted(&qp->rq);
    bool is_rq_ordered =
        qp->rq_next - rq_head <= rq_posted - rq_head && rq_posted - rq_head <= qp->rq.capacity;
    return is_sq_ordered && is_rq_ordered && qp->rq_next - rq_head >= (qp->receive != NULL);
}

bool qp_check(const struct qp *qp)
{
    uint32_t count = 0;
    for (const struct list_link *l = qp->requests.next; l != &qp->requests; l = l->next) {
        const struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        if (context->arrived_len > context->length ||
            context->is_open != (context->length > 0 && context->task->kind == READ_KIND_READ)) {
            return false;
        }
        count++;
    }
    bool is_over = qp->stream_state == QP_STREAM_ERROR || qp->stream_state == QP_STREAM_IDLE;
    return check_queues(qp) && oneshot_check(qp) && count == qp->request_count &&
           read_flow_check(&qp->reads) &&
           qp->peer_request_count + qp->peer_request_held_count <= qp->peer_request_capacity &&
           qp->handed_position <= qp->put_position && qp->settled_position <= qp->handed_position &&
           !(is_over && qp->tx_source != TX_NONE) &&
           !(qp->tx_source == TX_RESPONSE && qp->peer_request_count == 0) &&
           !(qp->is_sq_begun && qp->sq_next == wqe_ring_posted(&qp->sq));
}

const char *qp_format(const struct qp *qp, char *buf, size_t len)
{
    struct qp_attributes a = qp_query(qp);
    snprintf(buf, len,
             "qp %u %s stream %s sq %u rq %u reads %u/%u due %u/%u put %llu handed %llu%s%s",
             qp->config.qp_num, qp_state_name(a.state), qp_stream_state_name(qp->stream_state),
             a.sq_count, a.rq_count, a.reads_outstanding, a.ord, a.reads_due, a.ird,
             (unsigned long long)qp->put_position, (unsigned long long)qp->handed_position,
             qp->is_sq_blocked ? " blocked" : "", qp->is_stalled ? " stalled" : "");
    return buf;
}

const char *qp_event_name(enum qp_event event)
{
    static const char *const names[QP_EVENT_COUNT] = {
        [QP_EVENT_FATAL] = "fatal",
        [QP_EVENT_REQ_ERR] = "request error",
        [QP_EVENT_ACCESS_ERR] = "access error",
        [QP_EVENT_SQ_DRAINED] = "send queue drained",
        [QP_EVENT_LAST_WQE_REACHED] = "last work queue entry reached",
        [QP_EVENT_COMM_EST] = "communication established",
    };
    return names[event];
}
