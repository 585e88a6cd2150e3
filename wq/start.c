// What the send queue starts next: fences, order, and what is done at once, without the peer.
#include "base/check.h"
#include "base/guard.h"
#include "base/port_transport.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "wq/read_sched.h"
#include "wq/read_task.h"
#include "wq/ring.h"
#include "wq/status.h"
#include "wq/wq.h"
#include "wq/wqe.h"

enum { ATOMIC_LEN = 8 };

enum start_answer {
    START_MESSAGE, // a message of it may leave
    START_DONE,    // nothing of the send queue leaves: look at the next work request
    START_WAITING, // nothing, until a read context makes its request
    START_FAILED,
};

static bool is_signalled(const struct wq *wq, const struct send_wqe *wqe)
{
    return wq->config->sq_sig_all || (wqe->flags & WQE_SIGNALED) != 0;
}

static void next_wqe(struct wq *wq)
{
    wq->sq_next++;
    wq->is_sq_begun = false;
}

void wq_fail(struct wq *wq, enum wc_status status)
{
    wq_send_fail(wq_send_at(wq, wq->sq_next), status);
    next_wqe(wq);
}

static enum start_answer fail(struct wq *wq, enum wc_status status)
{
    wq_fail(wq, status);
    return START_FAILED;
}

// What is asked of the peer already ends by its answer.
static bool is_refused(const struct wq *wq, const struct send_wqe *wqe)
{
    return (wq->facts.refused & 1U << wqe->opcode) != 0 && !wqe->progress.task.is_pending;
}

static bool is_list_usable(const struct wq *wq, const struct send_wqe *wqe, bool write)
{
    struct mspan place;
    for (uint32_t i = 0; i < wqe->sge_count; i++) {
        if (mem_resolve_sge(wq->config->mem, wq->config->pd, &wqe->sge[i], write, &place) !=
            MEM_OK) {
            return false;
        }
    }
    return true;
}

// Before anything of the message leaves. A message of one segment is checked when it is asked for.
static bool is_payload_usable(const struct wq *wq, const struct send_wqe *wqe)
{
    return (wqe->flags & WQE_INLINE) != 0 || wqe->length <= wq->facts.whole_len ||
           is_list_usable(wq, wqe, false);
}

// A Send or a Write, of which a transport may have put a part already.
static enum start_answer start_message(struct wq *wq, struct send_wqe *wqe)
{
    if (wqe->progress.message_count == 0 && !is_payload_usable(wq, wqe)) {
        return fail(wq, WC_LOC_PROT_ERR);
    }
    return START_MESSAGE;
}

static void post_task(struct wq *wq, struct send_wqe *wqe, enum read_kind kind, uint64_t length)
{
    struct read_task *task = &wqe->progress.task;
    *task = (struct read_task){
        .kind = kind,
        .remote_key = wqe->rkey,
        .remote_addr = wqe->remote_addr,
        .initial_len = length,
        .may_pass = kind == READ_KIND_READ && (wqe->flags & WQE_MAY_PASS) != 0,
        .cookie = wqe,
    };
    read_flow_post(&wq->reads, task);
}

// A Read goes on by itself from here: what is behind it does not wait.
static enum start_answer start_read(struct wq *wq, struct send_wqe *wqe)
{
    if (wq->ord == 0) {
        return fail(wq, WC_LOC_QP_OP_ERR); // it would wait for ever
    }
    if (wqe->length > 0 && !is_list_usable(wq, wqe, true)) {
        return fail(wq, WC_LOC_PROT_ERR);
    }
    wqe->progress.phase = SEND_SENT;
    post_task(wq, wqe, READ_KIND_READ, wqe->length);
    next_wqe(wq);
    return START_DONE;
}

// An atomic changes the peer's memory: what is behind it leaves behind it.
static enum start_answer start_atomic(struct wq *wq, struct send_wqe *wqe)
{
    if (wqe->progress.task.is_pending) {
        return START_WAITING;
    }
    if (wq->ord == 0) {
        return fail(wq, WC_LOC_QP_OP_ERR);
    }
    if (wqe->length < ATOMIC_LEN) {
        return fail(wq, WC_LOC_LEN_ERR);
    }
    if (!is_list_usable(wq, wqe, true)) {
        return fail(wq, WC_LOC_PROT_ERR);
    }
    post_task(wq, wqe, READ_KIND_ATOMIC, ATOMIC_LEN);
    return START_WAITING;
}

static enum start_answer do_bind(struct wq *wq, struct send_wqe *wqe)
{
    struct mem_asker asker = {.pd = wq->config->pd, .qp_num = wq->config->qp_num};
    struct mem_binding binding = {
        .stag = wqe->bind.mw_rkey,
        .lkey = wqe->bind.lkey,
        .addr = wqe->bind.addr,
        .length = wqe->bind.length,
        .access = wqe->bind.access,
    };
    if (mem_window_bind(wq->config->mem, asker, &binding) != MEM_OK) {
        return fail(wq, WC_MW_BIND_ERR);
    }
    wq->counters->binds++;
    wqe->progress.phase = SEND_DONE;
    next_wqe(wq);
    return START_DONE;
}

static enum start_answer do_local_invalidate(struct wq *wq, struct send_wqe *wqe)
{
    struct mem_asker asker = {.pd = wq->config->pd, .qp_num = wq->config->qp_num};
    if (mem_invalidate(wq->config->mem, asker, wqe->imm_or_inv, false) != MEM_OK) {
        return fail(wq, WC_LOC_QP_OP_ERR);
    }
    wq->counters->local_invalidations++;
    wqe->progress.phase = SEND_DONE;
    next_wqe(wq);
    return START_DONE;
}

static const struct {
    enum start_answer (*start)(struct wq *wq, struct send_wqe *wqe);
} facts_of_opcode[WQE_OPCODE_COUNT] = {
    [WQE_RDMA_WRITE] = {start_message},
    [WQE_RDMA_WRITE_WITH_IMM] = {start_message},
    [WQE_SEND] = {start_message},
    [WQE_SEND_WITH_IMM] = {start_message},
    [WQE_RDMA_READ] = {start_read},
    [WQE_ATOMIC_CMP_AND_SWP] = {start_atomic},
    [WQE_ATOMIC_FETCH_AND_ADD] = {start_atomic},
    [WQE_LOCAL_INV] = {do_local_invalidate},
    [WQE_BIND_MW] = {do_bind},
    [WQE_SEND_WITH_INV] = {start_message},
};

// Looks at a work request for the first time. False: it has to wait for those before it.
static bool begin(struct wq *wq, struct send_wqe *wqe)
{
    if ((wqe->flags & WQE_FENCE) != 0 && wq->reads.pending_count > 0) {
        wq->counters->fence_waits++;
        return false;
    }
    wqe->progress = (struct send_progress){.phase = SEND_QUEUED};
    wq->is_sq_begun = true;
    return true;
}

static enum start_answer start(struct wq *wq, struct send_wqe *wqe)
{
    if (wqe->length > WQ_MESSAGE_MAX_LEN) {
        return fail(wq, WC_LOC_LEN_ERR);
    }
    if (is_refused(wq, wqe)) {
        return fail(wq, WC_LOC_QP_OP_ERR);
    }
    return facts_of_opcode[wqe->opcode].start(wq, wqe);
}

static uint32_t send_end(const struct wq *wq)
{
    return wq->is_closed ? wq->sq_end : wqe_ring_posted(&wq->sq);
}

uint32_t wq_unbegun_count(const struct wq *wq)
{
    return send_end(wq) - wq->sq_next;
}

bool wq_has_entry(const struct wq *wq)
{
    return wq->sq_next != send_end(wq) && !wq->is_sq_blocked;
}

bool wq_has_work(const struct wq *wq)
{
    return !wq_is_held(wq) && (wq_has_entry(wq) || read_flow_wants_take(&wq->reads));
}

static bool may_start(const struct wq *wq)
{
    return !wq_is_held(wq) && !read_flow_wants_take(&wq->reads) && wq_has_entry(wq);
}

static bool is_message(const struct send_wqe *wqe)
{
    return facts_of_opcode[wqe->opcode].start == start_message;
}

static bool is_transfer(const struct send_wqe *wqe)
{
    return is_message(wqe) || facts_of_opcode[wqe->opcode].start == start_read;
}

struct wq_transfers wq_transfers_begin(const struct wq *wq)
{
    return (struct wq_transfers){wq, wq->sq_next, may_start(wq) ? send_end(wq) : wq->sq_next};
}

const struct send_wqe *wq_transfers_next(struct wq_transfers *walk)
{
    const struct send_wqe *wqe =
        walk->next != walk->end ? wq_send_at(walk->wq, walk->next++) : NULL;
    return wqe != NULL && (wqe->flags & WQE_FENCE) == 0 && is_transfer(wqe) ? wqe : NULL;
}

const struct send_wqe *wq_next_message(const struct wq *wq)
{
    struct wq_transfers walk = wq_transfers_begin(wq);
    const struct send_wqe *wqe = wq_transfers_next(&walk);
    return wqe != NULL && is_message(wqe) ? wqe : NULL;
}

// Requests go before the send queue: they are short, and what they ask for keeps the pipe full.
enum transport_next wq_next(struct wq *wq, struct transport_work *ret)
{
    CHECK(guard_is_held(&wq->config->guard));
    if (wq_is_held(wq)) {
        return TRANSPORT_NOTHING;
    }
    if (wq_next_request(wq, ret)) {
        return TRANSPORT_REQUEST;
    }
    while (wq->sq_next != send_end(wq)) {
        struct send_wqe *wqe = wq_send_at(wq, wq->sq_next);
        if (wq->is_sq_blocked || (!wq->is_sq_begun && !begin(wq, wqe))) {
            wq->is_sq_blocked = true;
            return TRANSPORT_NOTHING;
        }
        enum start_answer answer = start(wq, wqe);
        if (answer == START_MESSAGE) {
            *ret = (struct transport_work){.handle = wq->sq_next, .wqe = wqe};
            return TRANSPORT_MESSAGE;
        }
        if (answer == START_FAILED) {
            return TRANSPORT_FAILED;
        }
        // A request goes before what was posted behind it, if it can go now.
        if (wq_next_request(wq, ret)) {
            return TRANSPORT_REQUEST;
        }
        wq->is_sq_blocked = answer == START_WAITING;
    }
    return TRANSPORT_NOTHING;
}

void wq_part_put(struct wq *wq)
{
    struct send_wqe *wqe = wq_send_at(wq, wq->sq_next);
    wqe->progress.message_count++;
}

static bool wants_flush(const struct wq *wq, const struct send_wqe *wqe)
{
    bool is_write = wqe->opcode == WQE_RDMA_WRITE || wqe->opcode == WQE_RDMA_WRITE_WITH_IMM;
    return is_write && wq->config->write_flush && wq->ord > 0 && is_signalled(wq, wqe);
}

static bool is_atomic(const struct send_wqe *wqe)
{
    return wqe->opcode == WQE_ATOMIC_CMP_AND_SWP || wqe->opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

void wq_message_put(struct wq *wq, uint64_t end_mark)
{
    struct send_wqe *wqe = wq_send_at(wq, wq->sq_next);
    wqe->progress.phase = SEND_SENT;
    wqe->progress.message_count++;
    wqe->progress.end_mark = is_atomic(wqe) ? 0 : end_mark; // the answer says more
    wq->is_sq_blocked = false;
    if (wants_flush(wq, wqe)) {
        wq->counters->write_flushes++;
        post_task(wq, wqe, READ_KIND_FLUSH, 0);
    }
    next_wqe(wq);
}
