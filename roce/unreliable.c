// Creation, states, and what the tables of both services have in common.
#include "roce/unreliable.h"

#include <errno.h>
#include <stdio.h>

#include "base/qp_state.h"
#include "base/time.h"
#include "wire/psn.h"

/* ---- creation -------------------------------------------------------------------------------- */

int unreliable_init(struct unreliable *u, enum roce_service service, uint32_t carries,
                    const struct wq_config *config, struct qp_event_port events)
{
    u->service = service;
    u->config = *config;
    u->events = events;
    u->state = QP_RESET;
    int result = wq_init(&u->wq, &u->config, &u->counters.wq);
    u->wq.facts.refused = ~carries;
    u->wq.facts.copies = true;
    return result;
}

void unreliable_fini(struct unreliable *u)
{
    inbound_forget(&u->in, &u->wq);
    wq_fini(&u->wq);
}

/* ---- states ---------------------------------------------------------------------------------- */

static const struct roce_state_facts *facts_of(const struct unreliable *u)
{
    return roce_state_facts(u->state);
}

static void raise_event(const struct unreliable *u, enum qp_event event)
{
    if (!u->wq.is_silent && u->events.on_event != NULL) {
        u->events.on_event(u->events.ctx, event);
    }
}

static void enter_err(struct unreliable *u)
{
    u->is_message_open = false;
    wq_close(&u->wq);
    wq_flush_sends(&u->wq);
    inbound_flush(&u->in, &u->wq);
    wq_flush_receives(&u->wq);
    if (u->config.srq != NULL) {
        raise_event(u, QP_EVENT_LAST_WQE_REACHED);
    }
}

static void enter_reset(struct unreliable *u)
{
    u->is_message_open = false;
    inbound_forget(&u->in, &u->wq);
    wq_reset(&u->wq);
    wq_begin(&u->wq);
    u->packet_count = 0;
}

// What has left of a message is followed by the rest of it; what has not begun stays where it is.
void unreliable_follow_drained(struct unreliable *u)
{
    if (u->state == QP_SQD && u->tells_drained && !u->is_message_open) {
        u->tells_drained = false;
        raise_event(u, QP_EVENT_SQ_DRAINED);
    }
}

// The receives go on.
static void enter_sqe(struct unreliable *u)
{
    u->is_message_open = false;
    wq_close(&u->wq);
    wq_flush_sends(&u->wq);
}

static void enter(struct unreliable *u, enum qp_state to)
{
    const enum qp_state from = u->state;
    u->state = to;
    if (to == QP_RESET) {
        enter_reset(u);
    } else if (to == QP_ERR && from != QP_ERR) {
        enter_err(u);
    } else if (to == QP_SQE) {
        enter_sqe(u);
    } else if (from == QP_SQE && to == QP_RTS) {
        wq_resume(&u->wq);
    }
    unreliable_follow_drained(u);
}

int unreliable_modify(struct unreliable *u, const struct qp_change *change, instant_ns now)
{
    const bool moves = (change->mask & QP_CHANGE_STATE) != 0;
    u->wq.now = now;
    if ((change->mask & QP_CHANGE_CURRENT) != 0 && change->current != u->state) {
        return -EINVAL;
    }
    if (moves && !roce_state_may_modify(u->service, u->state, change->state)) {
        return -EINVAL;
    }
    if ((change->mask & QP_CHANGE_SQ_PSN) != 0) {
        u->psn = change->sq_psn & PSN_MASK;
    }
    if ((change->mask & QP_CHANGE_TELLS_DRAINED) != 0) {
        u->tells_drained = change->tells_drained;
    }
    if (moves) {
        enter(u, change->state);
    }
    return 0;
}

void unreliable_stop_sends(struct unreliable *u)
{
    u->counters.sq_errors++;
    enter(u, roce_state_after_failed_send(u->service, u->state));
}

void unreliable_end(struct unreliable *u)
{
    if (u->state != QP_ERR) {
        enter(u, QP_ERR);
        raise_event(u, QP_EVENT_FATAL);
    }
}

// A completion was lost: the program cannot know any more what has become of what.
void unreliable_follow_overrun(struct unreliable *u)
{
    if (u->wq.has_overrun) {
        unreliable_end(u);
    }
}

/* ---- what stands in the tables as it is ------------------------------------------------------ */

void unreliable_silence(struct transport *t)
{
    unreliable_of(t)->wq.is_silent = true;
}

enum qp_state unreliable_state(const struct transport *t)
{
    return unreliable_look(t)->state;
}

struct qp_attributes unreliable_query(const struct transport *t)
{
    const struct unreliable *u = unreliable_look(t);
    return (struct qp_attributes){
        .state = u->state,
        .is_draining = u->state == QP_SQD && u->is_message_open,
        .segment_len = u->mtu,
        .sq_count = wq_send_count(&u->wq),
        .rq_count = wq_receive_count(&u->wq),
    };
}

int unreliable_may_post(const struct transport *t, unsigned opcode)
{
    bool may = (unreliable_look(t)->wq.facts.refused & 1U << opcode) == 0;
    return may ? 0 : -EOPNOTSUPP;
}

void unreliable_on_send_posted(struct transport *t, instant_ns now)
{
    struct unreliable *u = unreliable_of(t);
    u->wq.now = now;
    if (facts_of(u)->flushes_sends) {
        wq_flush_sends(&u->wq);
        unreliable_follow_overrun(u);
    }
}

void unreliable_on_receive_posted(struct transport *t, instant_ns now)
{
    struct unreliable *u = unreliable_of(t);
    u->wq.now = now;
    if (facts_of(u)->flushes_receives) {
        wq_flush_receives(&u->wq);
    }
}

bool unreliable_wants_receive(const struct transport *t)
{
    return facts_of(unreliable_look(t))->flushes_receives;
}

bool unreliable_has_output(const struct transport *t)
{
    const struct unreliable *u = unreliable_look(t);
    return unreliable_may_send(u) && wq_has_work(&u->wq);
}

instant_ns unreliable_next_deadline(const struct transport *t)
{
    return INSTANT_NEVER;
}

void unreliable_on_deadline(struct transport *t, instant_ns now)
{
    unreliable_of(t)->wq.now = now;
}

const void *unreliable_counters(const struct transport *t)
{
    return &unreliable_look(t)->counters;
}

void unreliable_counters_add(void *total, const void *counters)
{
    unreliable_counters_sum(total, counters);
}

void unreliable_counters_each(const void *counters, counter_each each, void *ctx)
{
    unreliable_counters_tell(counters, each, ctx);
}

bool unreliable_check(const struct unreliable *u)
{
    bool may_be_open = u->state == QP_RTS || u->state == QP_SQD;
    return wq_check(&u->wq, u->in.receive != NULL ? 1 : 0) && u->unsettled_len == 0 &&
           u->wq.settled_mark == u->packet_count && u->psn <= PSN_MASK &&
           !(u->is_message_open && !may_be_open);
}

const char *unreliable_format(const struct unreliable *u, char *buf, size_t len)
{
    snprintf(buf, len, "%s qp %u %s sq %u rq %u psn %u", roce_service_name(u->service),
             u->config.qp_num, qp_state_name(u->state), wq_send_count(&u->wq),
             wq_receive_count(&u->wq), u->psn);
    return buf;
}
