// Work queues are made, begin, are reset and closed; and what must hold of them.

#include <errno.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/port_journal.h"
#include "base/sge.h"
#include "cq/cq.h"
#include "mem/table.h"
#include "wq/journal.h"
#include "wq/oneshot.h"
#include "wq/read_sched.h"
#include "wq/ring.h"
#include "wq/srq.h"
#include "wq/wq.h"

static bool is_config_valid(const struct wq_config *config)
{
    const struct wq_caps *caps = &config->caps;
    const uint32_t wr_max = 1U << 20, inline_max = 1U << 16;
    return caps->max_send_wr <= wr_max && caps->max_recv_wr <= wr_max &&
           caps->max_send_sge <= SGE_COUNT_MAX && caps->max_recv_sge <= SGE_COUNT_MAX &&
           caps->max_inline_len <= inline_max;
}

static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value > min ? value : min;
}

static size_t align_up(size_t len)
{
    return (len + _Alignof(uint64_t) - 1) / _Alignof(uint64_t) * _Alignof(uint64_t);
}

static int queues_init(struct wq *wq)
{
    struct wq_caps *caps = &wq->config->caps;
    size_t list_len = caps->max_send_sge * sizeof(struct sge);
    size_t payload_len = list_len > caps->max_inline_len ? list_len : caps->max_inline_len;
    wq->address_at = (uint32_t)align_up(sizeof(struct send_wqe) + payload_len);
    int result = wqe_ring_init(&wq->sq, at_least(caps->max_send_wr, 1),
                               wq->address_at + wq->config->address_len);
    if (result < 0) {
        return result;
    }
    caps->max_send_wr = wq->sq.capacity;
    if (wq->config->srq != NULL) {
        return 0;
    }
    result = wqe_ring_init(&wq->rq, at_least(caps->max_recv_wr, 1),
                           sizeof(struct recv_wqe) + caps->max_recv_sge * sizeof(struct sge));
    caps->max_recv_wr = wq->rq.capacity;
    return result;
}

static int reads_init(struct wq *wq)
{
    struct read_sched *sched = wq->config->read_sched;
    if (sched == NULL) {
        uint32_t count = at_least(wq->config->ord_max, 1);
        sched = wq->own_read_sched = read_sched_create(count, 0);
        int result = sched == NULL ? -ENOMEM : mem_sinks_reserve(wq->config->mem, count);
        if (result < 0) {
            return result;
        }
    }
    read_flow_init(&wq->reads, sched, wq->config->on_runnable, wq->config->ctx);
    if (JOURNAL_IS_KEPT(wq->config->journal)) {
        wq->reads.on_moved = wq_journal_context;
    }
    return 0;
}

int wq_init(struct wq *wq, struct wq_config *config, struct wq_counters *counters)
{
    wq->config = config;
    wq->counters = counters;
    list_init(&wq->requests);
    if (!is_config_valid(config)) {
        return -EINVAL;
    }
    int result = queues_init(wq);
    return result < 0 ? result : reads_init(wq);
}

void wq_fini(struct wq *wq)
{
    oneshot_fini(wq);
    read_sched_destroy(wq->own_read_sched);
    wqe_ring_fini(&wq->rq);
    wqe_ring_fini(&wq->sq);
}

void wq_begin(struct wq *wq)
{
    wq->released_mark = 0;
    wq->settled_mark = 0;
    wq->not_before = 0;
    wq->keeps_requests = false;
}

void wq_resume(struct wq *wq)
{
    const uint32_t head = wqe_ring_head(&wq->sq);
    CHECK(head == wq->sq_next);
    wq->is_closed = wq->has_failed_send = false;
}

void wq_reset(struct wq *wq)
{
    CHECK(guard_is_held(&wq->config->guard));
    uint32_t posted = wqe_ring_posted(&wq->sq);
    oneshot_detach_all(wq);
    for (uint32_t i = wqe_ring_head(&wq->sq); i != posted; i++) {
        bool has_begun = (int32_t)(i - wq_begun_end(wq)) < 0;
        oneshot_wqe_ended(wq, wq_send_at(wq, i), has_begun);
    }
    wq->sq_next = posted;
    wq->is_sq_begun = wq->is_sq_blocked = wq->is_closed = false;
    wqe_ring_free_to(&wq->sq, posted);
    cq_detach(wq->config->recv_cq, wq->config->qp_num);
    if (wq->config->srq == NULL) {
        wq->rq_next = wqe_ring_posted(&wq->rq);
        wqe_ring_free_to(&wq->rq, wq->rq_next);
    }
    wq->has_overrun = wq->has_failed_send = wq->has_no_peer = false;
    wq->peer_fault = 0;
}

void wq_close(struct wq *wq)
{
    CHECK(guard_is_held(&wq->config->guard));
    wq->is_closed = true;
    wq->sq_end = wqe_ring_posted(&wq->sq);
}

bool wq_is_drained(const struct wq *wq)
{
    return wq->is_closed && wqe_ring_head(&wq->sq) == wq->sq_end;
}

uint32_t wq_send_count(const struct wq *wq)
{
    return wqe_ring_posted(&wq->sq) - wqe_ring_head(&wq->sq);
}

uint32_t wq_receive_count(const struct wq *wq)
{
    return wq->config->srq != NULL ? srq_posted_count(wq->config->srq)
                                   : wqe_ring_posted(&wq->rq) - wq->rq_next;
}

/* ---- invariants ------------------------------------------------------------------------------ */

static bool check_queues(const struct wq *wq, uint32_t claimed_count)
{
    uint32_t head = wqe_ring_head(&wq->sq), posted = wqe_ring_posted(&wq->sq);
    bool is_sq_ordered = wq->sq_next - head <= posted - head && posted - head <= wq->sq.capacity;
    if (wq->config->srq != NULL) {
        return is_sq_ordered && srq_check(wq->config->srq);
    }
    uint32_t rq_head = wqe_ring_head(&wq->rq), rq_posted = wqe_ring_posted(&wq->rq);
    bool is_rq_ordered =
        wq->rq_next - rq_head <= rq_posted - rq_head && rq_posted - rq_head <= wq->rq.capacity;
    return is_sq_ordered && is_rq_ordered && wq->rq_next - rq_head >= claimed_count;
}

bool wq_check(const struct wq *wq, uint32_t claimed_count)
{
    uint32_t count = 0;
    for (const struct list_link *l = wq->requests.next; l != &wq->requests; l = l->next) {
        const struct read_context *context = LIST_ENTRY(l, struct read_context, link);
        if (context->arrived_len > context->length) {
            return false;
        }
        count++;
    }
    return count == wq->request_count && check_queues(wq, claimed_count) && oneshot_check(wq) &&
           read_flow_check(&wq->reads) && wq->settled_mark <= wq->released_mark &&
           !(wq->is_sq_begun && wq->sq_next == wqe_ring_posted(&wq->sq));
}
