// One input to one connection, as the table has it.
#include <string.h>

#include "base/check.h"
#include "base/trace.h"
#include "ibcm/internal.h"

void ibcm_conn_keep(struct ibcm_conn *conn, struct span private_data)
{
    CHECK(private_data.len <= sizeof conn->peer_data);
    conn->peer_data_len = (uint8_t)private_data.len;
    if (private_data.len > 0) {
        memcpy(conn->peer_data, private_data.ptr, private_data.len);
    }
}

static void count_event(struct ibcm_counters *c, enum ibcm_event_type event)
{
    c->requests += event == IBCM_EVENT_CONNECT_REQUEST;
    c->established += event == IBCM_EVENT_ESTABLISHED;
    c->rejected += event == IBCM_EVENT_REJECTED;
    c->unreachable += event == IBCM_EVENT_UNREACHABLE;
    c->disconnected += event == IBCM_EVENT_DISCONNECTED;
}

static void tell(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_event_type event)
{
    if (event == IBCM_EVENT_NONE) {
        return;
    }
    count_event(&ibcm->counters, event);
    if (!conn->is_owned) {
        return;
    }
    conn->event_mask |= 1U << event;
    if (list_is_empty(&conn->event_link)) {
        list_push_tail(&ibcm->events, &conn->event_link);
    }
}

// While the process goes on there is time for the peer to take its own. When it ends, nobody is
// there to repeat a DREQ by the time that it would be due: then it is 8 ms, 16, 32 …
static duration_ns answer_time(const struct ibcm *ibcm, const struct ibcm_conn *conn)
{
    const bool is_last = ibcm->is_ending && conn->state == IBCM_DREQ_SENT;
    const duration_ns soon = 8 * NS_PER_MS << conn->tries;
    return is_last && soon < conn->response_ns ? soon : conn->response_ns;
}

static instant_ns state_ends(const struct ibcm *ibcm, const struct ibcm_conn *conn, instant_ns now)
{
    duration_ns lifetime = ib_time_ns(ibcm->config.packet_lifetime);
    switch (ibcm_state_facts(conn->state)->timer) {
    case IBCM_TIMER_NONE:
        return INSTANT_NEVER;
    case IBCM_TIMER_RESPONSE:
        return instant_after(now, answer_time(ibcm, conn));
    case IBCM_TIMER_SERVICE:
        return instant_after(now, conn->service_ns + 2 * lifetime);
    case IBCM_TIMER_PAUSE: // 2 ms, then 4, 8 …
        return instant_after(now, NS_PER_MS << conn->unserved);
    case IBCM_TIMER_TIMEWAIT:
        return instant_after(now, 2 * lifetime + ib_time_ns(ibcm->config.ack_delay));
    case IBCM_TIMER_REPEATS:
        return instant_after(now, 3 * conn->response_ns + conn->asked_ns);
    }
    return INSTANT_NEVER;
}

// What a REJ or SIDR_REP of ours will say, or why the owner is told REJECTED.
static void note_reason(struct ibcm_conn *conn, enum ibcm_input input, unsigned said)
{
    bool is_asking = conn->state == IBCM_REQ_SENT || conn->state == IBCM_MRA_REQ_RCVD ||
                     conn->state == IBCM_REQ_UNSERVED;
    switch (input) {
    case IBCM_IN_REJECT:
    case IBCM_IN_REJ:
    case IBCM_IN_SIDR_REFUSED:
        conn->reason = said;
        break;
    case IBCM_IN_EXHAUSTED:
        conn->is_silent = true;
        conn->reason = IBCM_REASON_TIMEOUT;
        break;
    case IBCM_IN_STALE:
    case IBCM_IN_REQ_AGAIN: // if it is answered by a new REJ, the connection has been and gone
        conn->reason = IBCM_REASON_STALE;
        break;
    case IBCM_IN_DREQ: // if no REP came before it, it was accepted and ended without our hearing
        conn->reason = IBCM_REASON_CONSUMER;
        break;
    case IBCM_IN_EVICTED:
        conn->reason =
            conn->is_datagram ? (unsigned)IBCM_SIDR_REJECTED : (unsigned)IBCM_REASON_NO_RESOURCES;
        break;
    case IBCM_IN_DISCONNECT:
    case IBCM_IN_DROP:
        conn->reason = conn->is_datagram ? (unsigned)IBCM_SIDR_REJECTED
                       : is_asking       ? (unsigned)IBCM_REASON_TIMEOUT
                                         : (unsigned)IBCM_REASON_CONSUMER;
        break;
    default:
        break;
    }
}

// The listener's backlog counts whom the owner has not answered, whatever became of them.
static void leave_listener(struct ibcm_conn *conn, enum ibcm_input input)
{
    bool is_answer = input == IBCM_IN_ACCEPT || input == IBCM_IN_REJECT ||
                     input == IBCM_IN_DISCONNECT || input == IBCM_IN_DROP;
    if (conn->listener != NULL && is_answer) {
        list_remove(&conn->waiting_link);
        conn->listener->waiting_count--;
        conn->listener = NULL;
    }
}

static void say(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_send what, bool is_due,
                struct span private_data)
{
    if (what == IBCM_SEND_NOTHING) {
        return;
    }
    if (what != IBCM_SEND_AGAIN) {
        conn->tries = 0; // of a message that is new
    } else if (!is_due) {
        ibcm->counters.answered_again++;
    }
    if (what == IBCM_SEND_MRA) {
        conn->asked_ns = ib_time_ns(ibcm->config.service_timeout);
    }
    ibcm_conn_send(ibcm, conn, what, private_data);
}

void ibcm_conn_hurry(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now)
{
    conn->tries = 0;
    deadline_arm(&ibcm->deadlines, &conn->deadline, state_ends(ibcm, conn, now));
}

// While the peer would have to be told if the owner let go, and until it has answered.
static void follow_will(struct ibcm *ibcm, struct ibcm_conn *conn)
{
    const struct ibcm_will *will = &ibcm->config.will;
    const bool is_due = conn->state == IBCM_DREQ_SENT ||
                        ibcm_state_edge(conn->state, IBCM_IN_DROP)->send == IBCM_SEND_DREQ;
    if (will->bequeath == NULL || is_due == conn->has_will) {
        return;
    }
    conn->has_will = is_due;
    if (is_due) {
        ibcm_conn_bequeath(ibcm, conn);
    } else {
        will->revoke(will->ctx, (uint32_t)(conn - ibcm->conns));
    }
}

bool ibcm_step(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_input input,
               const struct ibcm_said *said, instant_ns now)
{
    static const struct ibcm_said nothing;
    const struct ibcm_edge *edge = ibcm_state_edge(conn->state, input);
    if (edge->next == IBCM_NO_STATE) {
        return false;
    }
    bool has_moved = edge->next != conn->state;
    bool is_due = input == IBCM_IN_DEADLINE;
    TRACE(ibcm->config.trace, TRACE_CONN, "0x%08x %s: %s -> %s", conn->local_id,
          ibcm_input_name(input), ibcm_state_facts(conn->state)->name,
          ibcm_state_facts((enum ibcm_state)edge->next)->name);
    said = said != NULL ? said : &nothing;
    note_reason(conn, input, said->reason);
    conn->state = (enum ibcm_state)edge->next;
    say(ibcm, conn, (enum ibcm_send)edge->send, is_due, said->private_data);
    tell(ibcm, conn, (enum ibcm_event_type)edge->event);
    if (has_moved || is_due) {
        deadline_arm(&ibcm->deadlines, &conn->deadline, state_ends(ibcm, conn, now));
    }
    leave_listener(conn, input);
    follow_will(ibcm, conn);
    ibcm_conn_file(ibcm, conn);
    ibcm_conn_give_back(ibcm, conn);
    return true;
}
