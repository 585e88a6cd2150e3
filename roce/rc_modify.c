// Attributes and states, as the program asks for them. A change is looked at as a whole before
// anything of it is done.
#include <errno.h>

#include "base/retries.h"
#include "base/trace.h"
#include "mem/table.h"
#include "roce/address.h"
#include "roce/inbound.h"
#include "roce/packet.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wire/ib_time.h"
#include "wire/ip.h"

enum {
    RNR_TIMER_MAX = 31,
    PMTU_MIN = 256,
    RIGHTS = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC,
};

static bool is_changed(const struct qp_change *change, uint32_t what)
{
    return (change->mask & what) != 0;
}

static bool at_most(const struct qp_change *change, uint32_t what, uint32_t value, uint32_t max)
{
    return !is_changed(change, what) || value <= max;
}

static bool are_values_possible(const struct rc *rc, const struct qp_change *c)
{
    return at_most(c, QP_CHANGE_TIMEOUT, c->timeout, IB_TIME_MAX) &&
           at_most(c, QP_CHANGE_RETRY_COUNT, c->retry_count, RETRIES_MAX) &&
           at_most(c, QP_CHANGE_RNR_RETRY_COUNT, c->rnr_retry_count, RETRIES_MAX) &&
           at_most(c, QP_CHANGE_MIN_RNR_TIMER, c->min_rnr_timer, RNR_TIMER_MAX) &&
           at_most(c, QP_CHANGE_RQ_PSN, c->rq_psn, PSN_MASK) &&
           at_most(c, QP_CHANGE_SQ_PSN, c->sq_psn, PSN_MASK) &&
           at_most(c, QP_CHANGE_DEST_QP_NUM, c->dest_qp_num, PSN_MASK) &&
           at_most(c, QP_CHANGE_MAX_RD_ATOMIC, c->max_rd_atomic, rc->config.wq.ord_max) &&
           at_most(c, QP_CHANGE_MAX_DEST_RD_ATOMIC, c->max_dest_rd_atomic,
                   rc->config.remembered_max) &&
           (!is_changed(c, QP_CHANGE_PATH_MTU) || roce_is_path_mtu(c->path_mtu));
}

// A send queue goes on from SQD once what was posted before has completed.
static bool is_change_possible(const struct rc *rc, const struct qp_change *c)
{
    bool has_state = is_changed(c, QP_CHANGE_STATE);
    bool is_as_said = !is_changed(c, QP_CHANGE_CURRENT) || c->current == rc->state;
    bool is_early =
        has_state && rc->state == QP_SQD && c->state == QP_RTS && !wq_is_drained(&rc->wq);
    return is_as_said && !is_early && are_values_possible(rc, c) &&
           (!has_state || roce_state_may_modify(ROCE_SERVICE_RC, rc->state, c->state));
}

// Of Reads and atomics as many are remembered as the peer may have out.
static bool has_room_for(struct rc *rc, const struct qp_change *c)
{
    const bool begins =
        is_changed(c, QP_CHANGE_STATE) && rc->state == QP_INIT && c->state == QP_RTR;
    const uint32_t limit = is_changed(c, QP_CHANGE_MAX_DEST_RD_ATOMIC)
                               ? c->max_dest_rd_atomic
                               : rc->attributes.max_dest_rd_atomic;
    return !begins || rc_answer_resize(&rc->resp, limit);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void take_path(struct rc *rc, const struct qp_change *c)
{
    struct qp_change *a = &rc->attributes;
    if (is_changed(c, QP_CHANGE_PATH)) {
        a->path = c->path;
        a->path.traffic_class = (uint8_t)((c->path.traffic_class & ~IP_ECN_MASK) | IP_ECN_ECT_0);
    }
    a->dest_qp_num = is_changed(c, QP_CHANGE_DEST_QP_NUM) ? c->dest_qp_num : a->dest_qp_num;
    if (a->path.source_port == 0) {
        a->path.source_port =
            roce_source_port(a->path.flow_label, rc->config.wq.qp_num, a->dest_qp_num);
    }
}

static void take_attributes(struct rc *rc, const struct qp_change *c)
{
    struct qp_change *a = &rc->attributes;
#define TAKE(what, field) a->field = is_changed(c, QP_CHANGE_##what) ? c->field : a->field
    TAKE(PATH_MTU, path_mtu);
    TAKE(RQ_PSN, rq_psn);
    TAKE(SQ_PSN, sq_psn);
    TAKE(MAX_RD_ATOMIC, max_rd_atomic);
    TAKE(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(TIMEOUT, timeout);
    TAKE(RETRY_COUNT, retry_count);
    TAKE(RNR_RETRY_COUNT, rnr_retry_count);
    TAKE(MIN_RNR_TIMER, min_rnr_timer);
    TAKE(TELLS_DRAINED, tells_drained);
    TAKE(RIGHTS, rights);
#undef TAKE
    if (is_changed(c, QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM)) {
        take_path(rc, c);
    }
    a->mask |= c->mask;
    rc->denied = RIGHTS & ~a->rights;
    wq_set_ord(&rc->wq, a->max_rd_atomic);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void reset(struct rc *rc)
{
    rc_requester_end(rc);
    inbound_forget(&rc->resp.in, &rc->wq);
    wq_reset(&rc->wq);
    rc->attributes = (struct qp_change){.path_mtu = PMTU_MIN};
    rc->denied = RIGHTS;
    rc->is_established_told = rc->is_drained_told = rc->is_overrun_told = false;
    atomic_store_explicit(&rc->has_peer, false, memory_order_relaxed);
    rc->push = (struct rc_push){.is_out = false};
    rc_responder_begin(rc, 0);
    rc_requester_begin(rc, 0);
    wq_set_ord(&rc->wq, 0);
}

static void begin_receiving(struct rc *rc)
{
    rc_responder_begin(rc, rc->attributes.rq_psn);
    rc_greeting_begin(rc);
    rc->wq.facts.whole_len = rc_pmtu(rc);
    atomic_store_explicit(&rc->has_peer, true, memory_order_relaxed);
}

static void begin_sending(struct rc *rc)
{
    rc_requester_begin(rc, rc->attributes.sq_psn);
    rc_greeting_widen(rc);
}

static void go_on_sending(struct rc *rc)
{
    rc->is_drained_told = false;
    wq_resume(&rc->wq);
}

static void drain(struct rc *rc)
{
    wq_close(&rc->wq);
}

// What entering a state from another does; NULL: nothing.
static void (*const on_change[QP_STATE_COUNT][QP_STATE_COUNT])(struct rc *rc) = {
    [QP_INIT] = {[QP_RTR] = begin_receiving},
    [QP_RTR] = {[QP_RTS] = begin_sending},
    [QP_RTS] = {[QP_SQD] = drain},
    [QP_SQD] = {[QP_RTS] = go_on_sending},
};

static void change_state(struct rc *rc, enum qp_state to)
{
    enum qp_state from = rc->state;
    TRACE(rc->config.wq.trace, TRACE_QP, "qp %u: %s -> %s", rc->config.wq.qp_num,
          qp_state_name(from), qp_state_name(to));
    if (to == QP_ERR) {
        rc_fail(rc);
        rc_stop_answering(rc); // whoever was refused, too
    } else if (to == QP_RESET) {
        reset(rc);
    } else if (on_change[from][to] != NULL) {
        on_change[from][to](rc);
    }
    rc->state = to;
}

int rc_modify(struct transport *t, const struct qp_change *change, instant_ns now)
{
    struct rc *rc = rc_of(t);
    rc_at(rc, now);
    if (!is_change_possible(rc, change)) {
        return -EINVAL;
    }
    if (!has_room_for(rc, change)) {
        return -ENOMEM;
    }
    take_attributes(rc, change);
    if (is_changed(change, QP_CHANGE_STATE)) {
        change_state(rc, change->state);
    }
    rc_settle(rc);
    return 0;
}
