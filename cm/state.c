// The life of an id as two tables.
//
//   active    IDLE -resolve_addr-> ADDR_RESOLVED -resolve_route-> ROUTE_RESOLVED
//             -connect-> CONNECTING -ESTABLISHED-> ESTABLISHED
//   likewise, with a QP of the program's own
//             -connect-> CONNECTING -CONNECT_RESPONSE-> REPLIED -establish-> ESTABLISHED
//   passive   IDLE -bind-> BOUND -listen-> LISTENING
//   new id    REQUESTED -accept-> ACCEPTING -ESTABLISHED-> ESTABLISHED
//   the end   -DISCONNECTED-> DISCONNECTED -TIMEWAIT_EXIT-> CLOSED
//             -reject, REJECTED, UNREACHABLE, CONNECT_ERROR-> CLOSED
//
// What ends a connection, and the options, have rules of their own.

#include "cm/cm.h"

// Zero is CM_IDLE, to which nothing leads: it stands for a refusal.
static const uint8_t after_call[CM_CALL_COUNT][CM_STATE_COUNT] = {
    [CM_CALL_BIND] = {[CM_IDLE] = CM_BOUND},
    [CM_CALL_RESOLVE_ADDR] = {[CM_IDLE] = CM_ADDR_RESOLVED, [CM_BOUND] = CM_ADDR_RESOLVED},
    [CM_CALL_RESOLVE_ROUTE] = {[CM_ADDR_RESOLVED] = CM_ROUTE_RESOLVED},
    [CM_CALL_LISTEN] = {[CM_IDLE] = CM_LISTENING, [CM_BOUND] = CM_LISTENING},
    [CM_CALL_CONNECT] = {[CM_ROUTE_RESOLVED] = CM_CONNECTING},
    [CM_CALL_ESTABLISH] = {[CM_REPLIED] = CM_ESTABLISHED},
    [CM_CALL_ACCEPT] = {[CM_REQUESTED] = CM_ACCEPTING},
    [CM_CALL_REJECT] = {[CM_REQUESTED] = CM_CLOSED},
};

enum { EVENT_COUNT = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1 };

// Zero: the program is not told. It has given up the id, or has not been told of it yet (an accept
// will then fail), or brought the event about itself with rdma_establish.
static const uint8_t after_event[EVENT_COUNT][CM_STATE_COUNT] = {
    [RDMA_CM_EVENT_CONNECT_REQUEST] = {[CM_LISTENING] = CM_LISTENING},
    [RDMA_CM_EVENT_CONNECT_RESPONSE] = {[CM_CONNECTING] = CM_REPLIED},
    [RDMA_CM_EVENT_ESTABLISHED] =
        {[CM_CONNECTING] = CM_ESTABLISHED, [CM_ACCEPTING] = CM_ESTABLISHED},
    // On RoCE also by the peer that has been accepted, or is silent then.
    [RDMA_CM_EVENT_REJECTED] = {[CM_CONNECTING] = CM_CLOSED,
                                [CM_REPLIED] = CM_CLOSED,
                                [CM_ACCEPTING] = CM_CLOSED,
                                [CM_ESTABLISHED] = CM_CLOSED},
    [RDMA_CM_EVENT_UNREACHABLE] = {[CM_CONNECTING] = CM_CLOSED, [CM_ACCEPTING] = CM_CLOSED},
    [RDMA_CM_EVENT_CONNECT_ERROR] = {[CM_CONNECTING] = CM_CLOSED,
                                     [CM_REPLIED] = CM_CLOSED,
                                     [CM_ACCEPTING] = CM_CLOSED,
                                     [CM_ESTABLISHED] = CM_CLOSED},
    [RDMA_CM_EVENT_DISCONNECTED] = {[CM_REPLIED] = CM_DISCONNECTED,
                                    [CM_ACCEPTING] = CM_DISCONNECTED,
                                    [CM_ESTABLISHED] = CM_DISCONNECTED},
    [RDMA_CM_EVENT_TIMEWAIT_EXIT] = {[CM_DISCONNECTED] = CM_CLOSED},
};

enum cm_state cm_state_after_call(enum cm_state state, enum cm_call call)
{
    enum cm_state next = (enum cm_state)after_call[call][state];
    return next != CM_IDLE ? next : CM_STATE_COUNT;
}

enum cm_state cm_state_after_event(enum cm_state state, enum rdma_cm_event_type event)
{
    enum cm_state next = (enum cm_state)after_event[event][state];
    return next != CM_IDLE ? next : CM_STATE_COUNT;
}

bool cm_id_is_alive(const struct cm_id *c)
{
    return c->generation == cm_generation();
}

int cm_id_claim(struct cm_id *c, enum cm_call call, enum cm_state *ret_before)
{
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    cm_lock();
    enum cm_state next = cm_state_after_call(c->state, call);
    *ret_before = c->state;
    if (next != CM_STATE_COUNT) {
        c->state = next;
    }
    cm_unlock();
    return next != CM_STATE_COUNT ? 0 : cm_fail(EINVAL);
}

void cm_id_unclaim(struct cm_id *c, enum cm_call call, enum cm_state before)
{
    cm_lock();
    if (c->state == cm_state_after_call(before, call)) {
        c->state = before;
    }
    cm_unlock();
}
