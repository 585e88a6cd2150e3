#include "iwarp/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/carve.h"
#include "base/check.h"
#include "base/fetch.h"
#include "iwarp/internal.h"
#include "wq/read_task.h"
#include "wq/ring.h"

static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value > min ? value : min;
}

// What goes into one block with the queue pair: most of it is used by few, and untouched till then.
static void parts_init(struct qp *qp, const struct qp_config *config, struct carve *memory)
{
    qp->peer_request_capacity = at_least(config->ird_max, 1);
    qp->peer_request_is_posted = carve(memory, qp->peer_request_capacity, sizeof(bool));
    qp->peer_requests = carve(memory, qp->peer_request_capacity, sizeof *qp->peer_requests);
    rnr_store_init(&qp->store, config->rnr_store_len, memory);
}

static size_t whole_lines(size_t len)
{
    return (len + CACHE_LINE_LEN - 1) / CACHE_LINE_LEN * CACHE_LINE_LEN;
}

// NULL: no memory.
static struct qp *parts_create(const struct qp_config *config)
{
    struct qp measured;
    struct carve memory = {.block = NULL};
    carve(&memory, 1, sizeof measured);
    parts_init(&measured, config, &memory);
    memory = (struct carve){.block = aligned_alloc(CACHE_LINE_LEN, whole_lines(memory.len))};
    if (memory.block == NULL) {
        return NULL;
    }
    struct qp *qp = carve(&memory, 1, sizeof *qp);
    memset(qp, 0, sizeof *qp);
    parts_init(qp, config, &memory);
    responder_forget(qp);
    return qp;
}

static void parts_destroy(struct qp *qp)
{
    early_fini(qp);
    wq_fini(&qp->wq);
    free(qp);
}

int qp_create(const struct qp_config *config, struct qp **ret)
{
    struct qp *qp = parts_create(config);
    if (qp == NULL) {
        return -ENOMEM;
    }
    qp->transport.ops = &iwarp_transport_ops;
    qp->config = *config;
    qp->state = QP_RESET;
    qp->ord_max = config->wq.ord_max;
    qp->rnr_deadline = INSTANT_NEVER;
    qp->terminate_deadline = qp->silence_deadline = INSTANT_NEVER;
    int result = wq_init(&qp->wq, &qp->config.wq, &qp->counters.wq);
    allotment_init(&qp->allotment, qp->config.allotment_len, qp->config.may_follow);
    qp->wq.reads.allotment_len = qp->config.allotment_len;
    if (result == 0 && config->places_early) {
        result = early_init(qp);
    }
    if (result < 0) {
        parts_destroy(qp);
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
    parts_destroy(qp);
}

uint32_t qp_num(const struct qp *qp)
{
    return qp->config.wq.qp_num;
}

struct wq *qp_wq(struct qp *qp)
{
    return &qp->wq;
}

enum qp_state qp_state_of(const struct qp *qp)
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

struct qp_attributes qp_query(const struct qp *qp)
{
    return (struct qp_attributes){
        .state = qp->state,
        .is_draining = qp->state == QP_SQD, // for good: what ends it ends in ERR
        .phase = qp_stream_state_name(qp->stream_state),
        .ird = (uint16_t)qp->ird,
        .ord = (uint16_t)qp->wq.ord,
        .segment_len = qp->rdmap.mulpdu,
        .sq_count = wq_send_count(&qp->wq),
        .rq_count = wq_receive_count(&qp->wq),
        .reads_outstanding = qp->wq.request_count,
        .reads_due = qp->peer_request_count + qp->peer_request_held_count,
        .request_len = allotment_request_len(&qp->allotment),
        .answer_len = allotment_answer_len(&qp->allotment),
        .refused = qp->refused,
        .refused_by_peer = qp->refused_by_peer,
    };
}

static bool check_requests(const struct qp *qp)
{
    uint32_t put_count = qp->wq.request_count - qp->pull.taken_count;
    for (const struct list_link *l = qp->wq.requests.next; l != &qp->wq.requests; l = l->next) {
        const struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        bool is_put = put_count > 0;
        bool has_sink = is_put && context->length > 0 && context->task->kind == READ_KIND_READ;
        put_count -= is_put;
        if (read_answer_of(context)->is_open != has_sink) {
            return false;
        }
    }
    return true;
}

bool qp_check(const struct qp *qp)
{
    bool is_over = qp->stream_state == QP_STREAM_ERROR || qp->stream_state == QP_STREAM_IDLE;
    return wq_check(&qp->wq, qp->receive != NULL ? 1 : 0) && check_requests(qp) &&
           qp->pull.out_count <= qp->pull.taken_count &&
           qp->pull.taken_count <= qp->wq.request_count &&
           qp->peer_request_count + qp->peer_request_held_count <= qp->peer_request_capacity &&
           qp->wq.released_mark <= qp->put_position && !(is_over && qp->tx_source != TX_NONE) &&
           !(qp->tx_source == TX_RESPONSE && qp->peer_request_count == 0);
}

const char *qp_format(const struct qp *qp, char *buf, size_t len)
{
    struct qp_attributes a = qp_query(qp);
    snprintf(buf, len,
             "qp %u %s stream %s sq %u rq %u reads %u/%u due %u/%u put %llu handed %llu%s%s",
             qp->config.wq.qp_num, qp_state_name(a.state), qp_stream_state_name(qp->stream_state),
             a.sq_count, a.rq_count, a.reads_outstanding, a.ord, a.reads_due, a.ird,
             (unsigned long long)qp->put_position, (unsigned long long)qp->wq.released_mark,
             qp->wq.is_sq_blocked ? " blocked" : "", qp->is_stalled ? " stalled" : "");
    return buf;
}

STATIC_CHECK(offsetof(struct qp, state) < offsetof(struct qp, early));

// With the allocator's word before it and the line behind it on one page: an idle connection is not
// to touch a second.
STATIC_CHECK(sizeof(struct qp) <= 4096 - 3 * CACHE_LINE_LEN);

void qp_fetch(const struct qp *qp)
{
    fetch_ahead(&qp->wq, sizeof qp->wq);
    fetch_ahead(&qp->state, offsetof(struct qp, early) - offsetof(struct qp, state));
}
