// Read contexts on their way out and back. A Read, an atomic, or a Write that is to be flushed
// posts a task with the read scheduler; each context that the scheduler gives becomes one request
// to the peer. A Read has left the send queue then: what is behind does not wait for it, unless it
// is fenced. An atomic leaves it with its request.
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "wq/read_patience.h"
#include "wq/read_sched.h"
#include "wq/scatter.h"
#include "wq/status.h"
#include "wq/wq.h"

bool wq_next_request(struct wq *wq, struct transport_work *ret)
{
    struct read_context *context;
    if (wq->keeps_requests || read_flow_is_idle(&wq->reads)) {
        return false;
    }
    enum read_take answer = read_sched_take(&wq->reads, wq->now, &context);
    wq->counters->ord_waits += answer == READ_TAKE_ORD;
    wq->counters->context_waits += answer == READ_TAKE_WAIT;
    if (answer != READ_TAKE_CONTEXT) {
        return false;
    }
    *ret = (struct transport_work){.context = context};
    return true;
}

void wq_request_put(struct wq *wq, struct read_context *context, uint64_t mark)
{
    context->sent_mark = mark;
    list_push_tail(&wq->requests, &context->link);
    wq->request_count++;
    read_sched_issued(&wq->reads, context, wq->now);
}

void wq_request_put_at_last(struct wq *wq, struct read_context *context, uint64_t mark)
{
    context->sent_mark = mark;
    read_sched_issued_at_last(&wq->reads, context, wq->now);
}

enum scatter_verdict wq_answer_place(const struct wq *wq, const struct read_context *context,
                                     uint64_t offset, struct span payload)
{
    const struct send_wqe *wqe = context->task->cookie;
    struct scatter scatter;
    scatter_init(&scatter, wqe->sge, wqe->sge_count);
    return scatter_place(wq->config->mem, wq->config->pd, &scatter, context->offset + offset,
                         payload);
}

unsigned wq_answer_places(const struct wq *wq, const struct read_context *context, uint64_t len,
                          struct mspan *ret, unsigned max)
{
    const struct send_wqe *wqe = context->task->cookie;
    struct scatter scatter;
    scatter_init(&scatter, wqe->sge, wqe->sge_count);
    return scatter_places(wq->config->mem, wq->config->pd, &scatter, context->offset, len, ret,
                          max);
}

static void withdraw(struct wq *wq, struct read_context *context)
{
    list_remove(&context->link);
    wq->request_count--;
}

void wq_request_fail(struct wq *wq, struct read_context *context, enum wc_status status)
{
    wq_send_fail(context->task->cookie, status);
    if (!list_is_empty(&context->link)) {
        withdraw(wq, context);
    }
    read_sched_abandon(&wq->reads, context, wq->now);
}

void wq_request_answered(struct wq *wq, struct read_context *context)
{
    struct read_task *task = context->task;
    withdraw(wq, context);
    if (read_sched_answer(&wq->reads, context, wq->now) && !task->is_pending) {
        wq->is_sq_blocked = false;
        wq_complete_sends(wq);
    }
}

void wq_requests_forget(struct wq *wq)
{
    read_flow_stop(&wq->reads, wq->now);
    while (wq->request_count > 0) {
        struct read_context *context = wq_request_oldest(wq);
        withdraw(wq, context);
        read_sched_abandon(&wq->reads, context, wq->now);
    }
    read_flow_forget(&wq->reads, wq->now);
}

// Those outstanding already are counted against it.
void wq_set_ord(struct wq *wq, uint32_t ord)
{
    wq->ord = ord;
    wq->reads.context_max = ord;
}

/* ---- a peer that does not answer ------------------------------------------------------------- */

// What is taken counts as long as it stands before the oldest request.
void wq_on_released(struct wq *wq, uint64_t mark, uint64_t len)
{
    const struct read_context *oldest = wq_request_oldest(wq);
    uint64_t sent_mark = oldest != NULL ? oldest->sent_mark : UINT64_MAX;
    bool was_before = wq->released_mark <= sent_mark;
    if (was_before && sent_mark < mark) {
        read_patience_restart(&wq->reads.patience, wq->now);
    } else if (was_before) {
        read_patience_on_progress(&wq->reads.patience, len, wq->now);
    }
    wq->released_mark = mark;
}

instant_ns wq_read_deadline(const struct wq *wq)
{
    bool is_owed = wq->reads.context_count > 0 && wq->config->read_timeout_ns > 0;
    return is_owed ? instant_after(wq->reads.patience.since_ns, wq->config->read_timeout_ns)
                   : INSTANT_NEVER;
}

void wq_read_wait_on(struct wq *wq)
{
    read_patience_restart(&wq->reads.patience, wq->now);
}

bool wq_read_timeout(struct wq *wq)
{
    const struct read_context *oldest = wq_request_oldest(wq);
    struct send_wqe *wqe = oldest != NULL ? oldest->task->cookie : NULL;
    read_patience_restart(&wq->reads.patience, wq->now);
    if (wqe == NULL) {
        return false;
    }
    wq_send_fail(wqe, WC_RETRY_EXC_ERR);
    return true;
}
