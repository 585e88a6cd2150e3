// A reliable queue pair is made, and what struct transport asks of it.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "roce/rc.h"
#include "roce/rc_counters.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wire/ip.h"
#include "wq/allotment.h"
#include "wq/ring.h"
#include "wq/wqe.h"

static void parts_fini(struct rc *rc)
{
    free(rc->req.outs);
    free(rc->req.repeat.sent);
    free(rc->resp.answers);
    free(rc->resp.held.packets);
    wq_fini(&rc->wq);
    free(rc);
}

int rc_create(const struct rc_config *config, struct rc **ret)
{
    if (config->remembered_max > RC_REMEMBERED_MAX) {
        return -EINVAL;
    }
    struct rc *rc = aligned_alloc(CACHE_LINE_LEN, sizeof *rc);
    if (rc == NULL) {
        return -ENOMEM;
    }
    memset(rc, 0, sizeof *rc);
    rc->transport.ops = &rc_ops;
    rc->config = *config;
    rc->state = QP_RESET;
    rc->req.allotment_len = config->allotment_len;
    rc_share_init(rc);
    int result = wq_init(&rc->wq, &rc->config.wq, &rc->counters.wq);
    // What grows with what is out or is lost is made when that is.
    result = result < 0 || rc_requester_resize(&rc->req) ? result : -ENOMEM;
    if (result < 0) {
        parts_fini(rc);
        return result;
    }
    struct qp_change change = {.mask = QP_CHANGE_STATE, .state = QP_RESET};
    result = rc_modify(&rc->transport, &change, 0);
    CHECK(result == 0);
    *ret = rc;
    return 0;
}

struct transport *rc_transport(struct rc *rc)
{
    return &rc->transport;
}

struct wq *rc_wq(struct rc *rc)
{
    return &rc->wq;
}

const struct rc_counters *rc_counters(const struct rc *rc)
{
    return &rc->counters;
}

/* ---- the table of calls ---------------------------------------------------------------------- */

static void silence(struct transport *t)
{
    rc_of(t)->wq.is_silent = true;
}

static void destroy(struct transport *t)
{
    struct rc *rc = rc_of(t);
    rc_requester_end(rc);
    rc_held_clear(rc);
    rc_share_fini(rc);
    inbound_forget(&rc->resp.in, &rc->wq);
    parts_fini(rc);
}

static enum qp_state state(const struct transport *t)
{
    return rc_of_const(t)->state;
}

static struct qp_attributes query(const struct transport *t)
{
    const struct rc *rc = rc_of_const(t);
    const bool has_refused = rc->resp.refusal != RC_ACCEPTED;
    return (struct qp_attributes){
        .state = rc->state,
        .is_draining = rc->state == QP_SQD && !wq_is_drained(&rc->wq),
        .ird = (uint16_t)rc->resp.limit,
        .ord = (uint16_t)rc->wq.ord,
        .segment_len = rc_pmtu(rc),
        .sq_count = wq_send_count(&rc->wq),
        .rq_count = wq_receive_count(&rc->wq),
        .reads_outstanding = rc->wq.request_count,
        .reads_due = rc->resp.pending_count,
        .request_len = rc_requester_read_len(rc),
        .refused = has_refused ? rc_refusal_facts(rc->resp.refusal)->text : NULL,
        .has_psns = true,
        .sq_psn = (uint32_t)(rc->req.next_mark & PSN_MASK),
        .rq_psn = (uint32_t)(rc->resp.expected_mark & PSN_MASK),
        .held_count = rc->resp.held.count,
        .in_flight_count = (uint32_t)rc_in_flight(&rc->req),
    };
}

// The packets carry ECT whatever the program says.
static void told(const struct transport *t, struct qp_change *ret)
{
    *ret = rc_of_const(t)->attributes;
    ret->path.traffic_class &= (uint8_t)~IP_ECN_MASK;
}

static int may_post(const struct transport *t, unsigned opcode)
{
    return opcode < WQE_OPCODE_COUNT ? 0 : -EOPNOTSUPP;
}

// What is posted moves nothing by itself, but where it is flushed.
static void on_send_posted(struct transport *t, instant_ns now)
{
    struct rc *rc = rc_of(t);
    rc_at(rc, now);
    if (roce_state_facts(rc->state)->flushes_sends && !rc->push.is_out) {
        wq_flush_sends(&rc->wq);
        rc_settle(rc);
    }
}

static void on_receive_posted(struct transport *t, instant_ns now)
{
    struct rc *rc = rc_of(t);
    rc_at(rc, now);
    if (roce_state_facts(rc->state)->flushes_receives) {
        wq_flush_receives(&rc->wq);
        rc_settle(rc);
    }
}

static bool wants_receive(const struct transport *t)
{
    return roce_state_facts(rc_of_const(t)->state)->flushes_receives;
}

static const void *counters(const struct transport *t)
{
    return &rc_of_const(t)->counters;
}

static void counters_add(void *total, const void *counters)
{
    rc_counters_add(total, counters);
}

static void counters_each(const void *counters, counter_each each, void *ctx)
{
    rc_counters_each(counters, each, ctx);
}

// What is out keeps the one under which it was asked for. A peer need not be told: to it each is a
// Read by itself.
static void wish_allotment(struct transport *t, uint32_t allotment_len, bool may_follow,
                           enum allotment_event event, instant_ns now)
{
    struct rc *rc = rc_of(t);
    uint32_t old_len = rc->req.allotment_len;
    (void)may_follow;
    rc_at(rc, now);
    if (allotment_len != old_len) {
        rc->req.allotment_len = allotment_len;
        rc->counters.allotment_changes++;
        TRACE(rc->config.wq.trace, TRACE_QP, "qp %u allotment %u -> %u: %s", rc->config.wq.qp_num,
              old_len, allotment_len, allotment_event_name(event));
    }
}

/* ---- invariants, format ---------------------------------------------------------------------- */

// What is out lies behind each other, from what is acknowledged to what begins next.
static bool check_requester(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    if (rc->state == QP_ERR) {
        return q->count == 0;
    }
    uint64_t at = q->count > 0 ? rc_out_at(q, 0)->first : q->next_mark;
    bool holds = at <= q->acked_mark && q->count <= q->capacity && q->send_index <= q->count;
    holds = holds && q->heard_mark == q->acked_mark;
    for (uint32_t i = 0; i < q->count; i++) {
        const struct rc_out *o = rc_out_at(q, i);
        holds = holds && o->first == at && o->first < o->end;
        holds = holds && (i > 0 || q->acked_mark < o->end);
        holds =
            holds && (i != q->send_index || (o->first <= q->send_mark && q->send_mark < o->end));
        at = o->end;
    }
    return holds && at == q->next_mark && q->acked_mark <= q->send_mark &&
           q->send_mark <= q->sent_mark && q->sent_mark <= q->next_mark &&
           q->sent_mark - q->acked_mark < UINT64_C(1) << 22;
}

static bool check_repeat(const struct rc *rc)
{
    const struct rc_repeat *r = &rc->req.repeat;
    uint32_t here_count = 0, lost_count = 0, placed_count = 0;
    uint64_t lost_span = 0;
    for (unsigned i = 0; i < r->capacity; i++) {
        const struct rc_sent *s = &r->sent[i];
        here_count += s->is_here;
        lost_count += s->is_lost;
        lost_span += s->is_lost ? s->span : 0;
    }
    for (unsigned i = 0; i < RC_HELD_MAX / 64; i++) {
        placed_count += (uint32_t)__builtin_popcountll(r->placed[i]);
    }
    return here_count == r->here_count && lost_count == r->lost_count &&
           lost_span == r->lost_span && placed_count == r->placed_count;
}

// What is kept is beyond what is due, and what of it is in place already lies where it is said to.
static bool check_held(const struct rc *rc)
{
    const struct rc_held *h = &rc->resp.held;
    uint32_t count = 0, ahead_count = 0;
    for (unsigned i = 0; i < RC_HELD_MAX && h->packets != NULL; i++) {
        const struct rc_held_packet *slot = &h->packets[i];
        const struct span octets = slot->packet.payload;
        const bool is_kept = slot->mark != 0, is_ahead = slot->write_mark != 0;
        if (is_kept && (slot->mark < rc->resp.expected_mark || slot->mark >= h->end)) {
            return false;
        }
        if (is_ahead && (!is_kept || octets.ptr < h->ahead.ptr ||
                         octets.ptr + octets.len > h->ahead.ptr + h->ahead.len)) {
            return false;
        }
        count += is_kept;
        ahead_count += is_ahead;
    }
    return count == h->count && ahead_count == h->ahead_count;
}

static bool check_responder(const struct rc *rc)
{
    const struct rc_responder *r = &rc->resp;
    uint64_t before = 0;
    uint32_t pending_count = 0;
    bool holds = r->count <= r->capacity && r->count <= r->limit;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct rc_answer *a = rc_answer_at(r, i);
        holds = holds && before <= a->first && a->first <= a->begin_mark &&
                a->begin_mark <= a->send_mark && a->send_mark <= a->until_mark &&
                a->until_mark <= a->end && a->end <= r->expected_mark;
        before = a->end;
        pending_count += a->send_mark < a->until_mark;
    }
    return holds && pending_count == r->pending_count && (r->in.receive == NULL || r->in.is_open);
}

static bool check(const struct transport *t)
{
    const struct rc *rc = rc_of_const(t);
    return wq_check(&rc->wq, rc->resp.in.receive != NULL) && check_requester(rc) &&
           check_repeat(rc) && check_responder(rc) && check_held(rc);
}

static const char *format(const struct transport *t, char *buf, size_t len)
{
    const struct rc *rc = rc_of_const(t);
    const struct rc_requester *q = &rc->req;
    snprintf(buf, len,
             "qp %u rc %s: peer %u pmtu %u, out %u psn %u..%u, epsn %u answers %u, sq %u rq %u",
             rc->config.wq.qp_num, qp_state_name(rc->state), rc->attributes.dest_qp_num,
             rc_pmtu(rc), q->count, (unsigned)(q->acked_mark & PSN_MASK),
             (unsigned)(q->send_mark & PSN_MASK), (unsigned)(rc->resp.expected_mark & PSN_MASK),
             rc->resp.pending_count, wq_send_count(&rc->wq), wq_receive_count(&rc->wq));
    return buf;
}

const struct transport_ops rc_ops = {
    .name = "rc",
    .total_name = "rc_total",
    .segment_name = "path_mtu",
    .silence = silence,
    .destroy = destroy,
    .state = state,
    .modify = rc_modify,
    .query = query,
    .told = told,
    .may_post = may_post,
    .oneshot_agreed = rc_oneshot_agreed,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .wants_receive = wants_receive,
    .has_output = rc_has_output,
    .output = rc_output,
    .on_packet = rc_on_packet,
    .on_packets_over = rc_on_packets_over,
    .next_deadline = rc_next_deadline,
    .on_deadline = rc_on_deadline,
    .wish_allotment = wish_allotment,
    .gate = rc_gate,
    .on_pushed = rc_on_pushed,
    .counters_len = sizeof(struct rc_counters),
    .counters = counters,
    .counters_add = counters_add,
    .counters_each = counters_each,
    .check = check,
    .format = format,
};
