// What is out, in the order of its PSNs, and when it leaves, and leaves again.
#include <stdlib.h>
#include <string.h>

#include "base/port_transport.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wire/ib_time.h"
#include "wq/read_task.h"
#include "wq/status.h"
#include "wq/wqe.h"

enum { OUTS_MIN = 16 }; // of which a ring has room at first

bool rc_requester_resize(struct rc_requester *q)
{
    const uint32_t capacity = q->capacity > 0 ? 2 * q->capacity : OUTS_MIN;
    struct rc_out *outs = malloc(capacity * sizeof *outs);
    if (outs == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < q->count; i++) {
        outs[i] = *rc_out_at(q, i);
    }
    free(q->outs);
    q->outs = outs;
    q->capacity = capacity;
    q->head = 0;
    return true;
}

void rc_requester_begin(struct rc *rc, uint32_t psn)
{
    struct rc_requester *q = &rc->req;
    const struct datagram_path *path = &rc->attributes.path;
    uint64_t mark = RC_MARK_FIRST | psn;
    // Who has our address is on our host.
    bool has_no_line = memcmp(&path->local, &path->remote, sizeof path->local) == 0;
    *q = (struct rc_requester){
        .outs = q->outs,
        .capacity = q->capacity,
        .acked_mark = mark,
        .heard_mark = mark,
        .send_mark = mark,
        .sent_mark = mark,
        .next_mark = mark,
        .asked_mark = mark,
        .told_mark = RC_MARK_NONE,
        .refused_mark = RC_MARK_NONE,
        .retry_at = INSTANT_NEVER,
        .probe = {.end = RC_MARK_NONE},
        .tail = {.at = INSTANT_NEVER, .mark = RC_MARK_NONE},
        .repeat = {.sent = q->repeat.sent, .capacity = q->repeat.capacity},
        .allotment_len = q->allotment_len,
    };
    rc_repeat_clear(&q->repeat);
    congestion_init(&q->congestion, &(struct congestion_config){.has_no_line = has_no_line});
    wq_begin(&rc->wq);
}

void rc_requester_end(struct rc *rc)
{
    rc->req.count = rc->req.send_index = 0;
    rc->req.retry_at = INSTANT_NEVER;
    rc->req.hold_until = 0;
    rc_tail_stop(&rc->req.tail);
    wq_requests_forget(&rc->wq);
}

/* ---- sending again --------------------------------------------------------------------------- */

// What the program asks for, or what the device needs: who is to answer may be a process that
// waits for a processor.
static duration_ns ack_timeout_ns(const struct rc *rc)
{
    const duration_ns asked_ns = ib_time_ns(rc->attributes.timeout);
    const duration_ns min_ns = rc->config.ack_timeout_min_ns;
    return asked_ns > min_ns ? asked_ns : min_ns;
}

// InfiniBand lets a device wait for up to four times the time-out: so far it is doubled while
// nothing comes.
void rc_requester_arm(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    bool waits = q->acked_mark < q->sent_mark && rc->attributes.timeout > 0;
    duration_ns timeout_ns = ack_timeout_ns(rc);
    duration_ns patience_ns = congestion_timeout(&q->congestion, timeout_ns);
    patience_ns = patience_ns < 4 * timeout_ns ? patience_ns : 4 * timeout_ns;
    q->retry_at = waits ? instant_after(rc->wq.now, patience_ns) : INSTANT_NEVER;
    rc_tail_arm(rc);
}

// The entry that send_mark is in.
static void seek(struct rc_requester *q)
{
    while (q->send_index < q->count && rc_out_at(q, q->send_index)->end <= q->send_mark) {
        q->send_index++;
    }
}

void rc_requester_go_back(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    q->send_mark = q->asked_mark = q->acked_mark;
    q->send_index = 0;
    q->retry_at = INSTANT_NEVER;
    q->probe.end = RC_MARK_NONE;
    rc_tail_stop(&q->tail);
    rc_repeat_clear(&q->repeat);
    rc->counters.resumed_inside += q->count > 0 && rc_out_at(q, 0)->first < q->acked_mark;
}

static void learn(struct rc *rc, uint64_t packet_count)
{
    struct rc_requester *q = &rc->req;
    if (q->probe.end <= q->acked_mark) {
        if (q->probe.sent_at < rc->wq.now) { // or the clock was looked at too early: see rc_at
            congestion_on_rtt(&q->congestion, rc->wq.now - q->probe.sent_at, rc->wq.now);
        }
        q->probe.end = RC_MARK_NONE;
    }
    congestion_on_ack(&q->congestion, (uint32_t)packet_count, q->is_held_back);
}

void rc_requester_advanced(struct rc *rc, uint64_t packet_count)
{
    struct rc_requester *q = &rc->req;
    learn(rc, packet_count);
    rc_repeat_passed(rc, q->acked_mark - packet_count);
    q->send_mark = q->send_mark < q->acked_mark ? q->acked_mark : q->send_mark;
    q->asked_mark = q->asked_mark < q->acked_mark ? q->acked_mark : q->asked_mark;
    seek(q);
}

/* ---- packets --------------------------------------------------------------------------------- */

// One packet has left; what it is about has PSNs up to `end`.
static void note_left(struct rc *rc, uint64_t end, bool is_asking)
{
    struct rc_requester *q = &rc->req;
    // A round trip is measured of what leaves for the first time, and behind no hole, which has to
    // close first.
    if (is_asking && q->probe.end == RC_MARK_NONE && q->send_mark >= q->sent_mark &&
        !rc_has_hole(q)) {
        q->probe = (struct rc_probe){q->send_mark + 1, rc->wq.now};
    }
    rc->counters.requests_again += q->send_mark < q->sent_mark;
    rc_repeat_has_left(rc, q->send_mark, end);
    q->asked_mark = is_asking ? end : q->asked_mark;
    q->send_mark = end;
    q->sent_mark = q->sent_mark < end ? end : q->sent_mark;
}

// So many packets have left, one after the other: that is told once.
static void follow_left(struct rc *rc, uint32_t packet_count)
{
    struct rc_requester *q = &rc->req;
    congestion_on_sent(&q->congestion, packet_count, rc->wq.now);
    seek(q);
    rc_share_follow(rc);
    if (q->retry_at == INSTANT_NEVER) {
        rc_requester_arm(rc);
    }
}

// Packets for which window and device have room: until they have left nothing but their number
// changes what either says.
static uint64_t room_of(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    uint64_t out = rc_in_flight(q), window = congestion_window(&q->congestion);
    uint64_t left = window > out ? window - out : 0, room = rc_share_room(rc);
    return left < room ? left : room;
}

// How many of the message leave in one run. Where they are paced, or something is missing, each is
// looked at for itself; and so is the one that leaves without room (has_window).
static uint64_t run_len(const struct rc *rc, const struct rc_out *o, uint64_t room)
{
    const struct rc_requester *q = &rc->req;
    uint64_t left = o->end - q->send_mark;
    if (room <= 1 || rc_has_hole(q) || congestion_is_paced(&q->congestion) ||
        !rc_credits_cover(&q->credits, o->claim)) {
        return 1;
    }
    return left < room ? left : room;
}

// Is there a message behind the one that leaves now and ends at `end`, which will ask? One for
// which the peer is not known to have a receive waits for an acknowledgement before.
static bool has_message_behind(const struct rc *rc, uint64_t end)
{
    const struct rc_requester *q = &rc->req;
    if (end == q->next_mark) {
        const struct send_wqe *wqe = wq_next_message(&rc->wq);
        return wqe != NULL && rc_credits_cover(&q->credits, rc_credits_claim(&q->credits, wqe));
    }
    const struct rc_out *behind = rc_out_at(q, q->send_index + 1);
    return behind->context == NULL && rc_credits_cover(&q->credits, behind->claim);
}

// An acknowledgement is asked for by the last packet of what is posted, by the one that fills the
// window or the device's room, and by so many between that the window moves on evenly. A message
// that others follow at once has its acknowledgement from them.
static enum rc_put put_run(struct rc *rc, const struct datagram_sink *sink, const struct rc_out *o)
{
    struct rc_requester *q = &rc->req;
    const uint64_t room = room_of(rc), count = run_len(rc, o, room);
    const uint32_t ack_interval = congestion_ack_interval(&q->congestion);
    const bool is_covered = rc_credits_cover(&q->credits, o->claim);
    struct rc_run run;
    uint32_t done = 0;
    if (!rc_run_begin(rc, o, q->send_mark, count, &run)) {
        return RC_PUT_FAILED;
    }
    for (; done < count; done++) {
        uint64_t end = q->send_mark + 1;
        bool is_last = end == o->end && !has_message_behind(rc, end);
        bool fills = done + 1 >= room;
        bool asks = is_last || fills || !is_covered || end - q->asked_mark >= ack_interval;
        if (!rc_run_put(rc, sink, &run, asks)) {
            break;
        }
        note_left(rc, end, asks);
    }
    if (done > 0) {
        follow_left(rc, done);
    }
    return done == count ? RC_PUT_DONE : RC_PUT_NO_ROOM;
}

static enum rc_put put_asking(struct rc *rc, const struct datagram_sink *sink,
                              const struct rc_out *o)
{
    enum rc_put put = rc_request_put(rc, sink, o, rc->req.send_mark, o->end, true);
    if (put == RC_PUT_DONE) {
        note_left(rc, o->end, true);
        follow_left(rc, 1);
    }
    return put;
}

// What send_mark stands at: a request as a whole, or of a message as much as may leave.
static enum rc_put put_next(struct rc *rc, const struct datagram_sink *sink)
{
    const struct rc_requester *q = &rc->req;
    const struct rc_out o = *rc_out_at(q, q->send_index);
    CHECK(o.first <= q->send_mark && q->send_mark < o.end);
    return o.context != NULL ? put_asking(rc, sink, &o) : put_run(rc, sink, &o);
}

// What was sent twice does not tell how long a round trip takes.
static void has_left_again(struct rc *rc, uint64_t mark, uint64_t end)
{
    struct rc_requester *q = &rc->req;
    congestion_on_sent(&q->congestion, 1, rc->wq.now);
    rc_repeat_has_left(rc, mark, end);
    q->probe.end = RC_MARK_NONE;
    rc->counters.requests_again++;
    rc_share_follow(rc);
}

// That of what is out.
static struct rc_out out_of(const struct rc_requester *q, uint64_t mark)
{
    uint32_t i = 0;
    while (rc_out_at(q, i)->end <= mark) {
        i++;
    }
    return *rc_out_at(q, i);
}

// One that is lost, alone.
static enum rc_put put_lost(struct rc *rc, const struct datagram_sink *sink, struct rc_sent lost)
{
    const struct rc_out o = out_of(&rc->req, lost.mark);
    uint64_t end = lost.mark + lost.span;
    enum rc_put put = rc_request_put(rc, sink, &o, lost.mark, end, true);
    if (put == RC_PUT_DONE) {
        has_left_again(rc, lost.mark, end);
        rc->counters.repeated_alone++;
    }
    return put;
}

// The oldest that is not acknowledged. The answer to a Read that comes twice takes from the window
// twice, and counts as a loss.
static void put_tail(struct rc *rc, const struct datagram_sink *sink)
{
    struct rc_requester *q = &rc->req;
    const struct rc_out o = *rc_out_at(q, 0);
    uint64_t mark = q->acked_mark;
    uint64_t end = o.context != NULL ? rc_early_next(q, mark, o.end) : mark + 1;
    if (rc_request_put(rc, sink, &o, mark, end, true) != RC_PUT_DONE) {
        return;
    }
    if (o.context != NULL) {
        congestion_on_loss(&q->congestion, rc->wq.now);
    }
    has_left_again(rc, mark, end);
    rc->counters.tail_probes++;
    rc_tail_has_left(rc);
}

/* ---- what begins ----------------------------------------------------------------------------- */

static void push(struct rc_requester *q, struct rc_out o, uint64_t packet_count)
{
    CHECK(q->count < q->capacity);
    o.first = q->next_mark;
    o.end = q->next_mark += packet_count;
    o.claim = q->credits.begun_count;
    *rc_out_at(q, q->count++) = o;
}

// A Read's answer takes from the window too: so each asks for half of it, or for a few packets as
// far as others leave as much.
uint32_t rc_requester_read_len(const struct rc *rc)
{
    uint32_t half = congestion_window(&rc->req.congestion) / 2, limit = rc->req.congestion.limit;
    uint32_t few = limit < RC_READ_PACKETS_MIN ? limit : RC_READ_PACKETS_MIN;
    uint32_t most = (half > few ? half : few) * rc_pmtu(rc);
    uint32_t allotment_len = rc->req.allotment_len;
    return allotment_len == 0 || allotment_len > most ? most : allotment_len;
}

void rc_requester_follow_read_len(struct rc *rc)
{
    rc->wq.reads.allotment_len = rc_requester_read_len(rc);
    rc->wq.reads.keeps_contexts = rc->req.allotment_len == 0;
}

static bool begin_next(struct rc *rc, const struct datagram_sink *sink)
{
    struct rc_requester *q = &rc->req;
    struct transport_work work;
    if (q->count == q->capacity && !rc_requester_resize(q)) {
        return false; // what is out makes room when it is acknowledged
    }
    rc_requester_follow_read_len(rc);
    switch (wq_next(&rc->wq, &work)) {
    case TRANSPORT_MESSAGE:
        if (rc_push_start(rc, sink, &work)) {
            return false;
        }
        rc_oneshot_begin(rc, work.wqe);
        q->credits.begun_count = rc_credits_claim(&q->credits, work.wqe);
        push(q, (struct rc_out){.handle = work.handle}, rc_packet_count(rc, work.wqe->length));
        wq_message_put(&rc->wq, q->next_mark);
        return true;
    case TRANSPORT_REQUEST: {
        rc->push.is_writer = false;
        bool is_atomic = work.context->task->kind == READ_KIND_ATOMIC;
        wq_request_put(&rc->wq, work.context, q->next_mark);
        push(q, (struct rc_out){.context = work.context},
             is_atomic ? 1 : rc_packet_count(rc, work.context->length));
        if (is_atomic) {
            wq_message_put(&rc->wq, q->next_mark);
        }
        return true;
    }
    case TRANSPORT_FAILED:
        rc_fail(rc);
        break;
    case TRANSPORT_NOTHING:
        break;
    }
    return false;
}

/* ---- doors ----------------------------------------------------------------------------------- */

static bool has_more(const struct rc *rc)
{
    return rc->req.send_mark < rc->req.next_mark || rc->req.repeat.lost_count > 0 ||
           wq_has_work(&rc->wq);
}

// May it, whatever the network bears?
static bool is_permitted(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    return roce_state_facts(rc->state)->takes_answers && rc->wq.now >= q->hold_until &&
           q->send_mark < q->refused_mark;
}

// Behind a hole no more than what the peer can say of it. The limit may have shrunk below what is
// out: if nothing of that asks for an acknowledgement, one more does.
static bool has_window(const struct rc_requester *q)
{
    bool is_told = q->repeat.here_count + q->repeat.placed_count == 0 ||
                   q->send_mark - q->acked_mark < RC_HELD_MAX;
    return is_told &&
           (rc_in_flight(q) < congestion_window(&q->congestion) || q->asked_mark == q->acked_mark);
}

// A packet for which the peer is not known to have a receive leaves alone, and asks: only the
// answer tells of receives that were posted since. So does what stands behind it, of which the peer
// would take nothing. What is lost had leave before.
static bool has_credit(const struct rc_requester *q)
{
    return q->send_mark == q->next_mark || q->asked_mark == q->acked_mark ||
           rc_credits_cover(&q->credits, rc_out_at(q, q->send_index)->claim) ||
           rc_repeat_next(q) != NULL;
}

// Is there something that may leave, whatever others of the device have out? Mostly there is
// nothing, and that is seen first: each message asks several times.
static bool wants_to_send(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    return !rc->push.is_out && has_more(rc) && is_permitted(rc) && has_credit(q) && has_window(q) &&
           rc->wq.now >= congestion_not_before(&q->congestion);
}

// Packets that leave next, or come as an answer.
static uint64_t next_count(const struct rc_requester *q)
{
    const struct rc_sent *lost = rc_repeat_next(q);
    if (lost != NULL) {
        return lost->span;
    }
    if (q->send_mark == q->next_mark) {
        return 1; // it has not begun
    }
    const struct rc_out *o = rc_out_at(q, q->send_index);
    return o->context != NULL ? o->end - q->send_mark : 1;
}

static bool may_send(const struct rc *rc)
{
    return wants_to_send(rc) && rc_share_may(rc, next_count(&rc->req));
}

// What is sent twice takes twice of the device's room.
static bool is_tail_due(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    const struct rc_out *o = q->tail.is_due ? rc_out_at(q, 0) : NULL;
    return o != NULL && is_permitted(rc) &&
           rc_share_may(rc, o->context != NULL ? o->end - q->acked_mark : 1);
}

// Who does not stand in line and should, or does and should not, has to be called too.
bool rc_requester_has_output(const struct rc *rc)
{
    bool wants = wants_to_send(rc), waits = congestion_member_waits(&rc->member);
    return is_tail_due(rc) || wants != waits || (wants && rc_share_may(rc, next_count(&rc->req)));
}

instant_ns rc_requester_paced_until(const struct rc *rc)
{
    const struct rc_requester *q = &rc->req;
    instant_ns until = congestion_not_before(&q->congestion);
    bool waits = rc->wq.now < until && !rc->push.is_out && is_permitted(rc) && has_credit(q) &&
                 has_window(q) && has_more(rc);
    return waits ? until : INSTANT_NEVER;
}

// What is left is held back by window or pace, or by the others: who could send but for them waits
// for its turn.
static void follow_held_back(struct rc *rc)
{
    struct rc_requester *q = &rc->req;
    const bool wants = wants_to_send(rc);
    const uint64_t count = wants ? next_count(q) : 0;
    const bool may = wants && rc_share_may(rc, count);
    if (wants && !may) {
        rc_share_wait(rc, count);
    } else {
        rc_share_leave(rc);
    }
    q->is_held_back = !may && !rc->push.is_out && has_more(rc) && is_permitted(rc) && has_credit(q);
}

// False: nothing more.
static bool send_one(struct rc *rc, const struct datagram_sink *sink)
{
    struct rc_requester *q = &rc->req;
    const struct rc_sent *lost = rc_repeat_next(q);
    if (lost != NULL) {
        return put_lost(rc, sink, *lost) == RC_PUT_DONE;
    }
    return q->send_mark == q->next_mark ? begin_next(rc, sink) : put_next(rc, sink) == RC_PUT_DONE;
}

void rc_requester_output(struct rc *rc, const struct datagram_sink *sink)
{
    struct rc_requester *q = &rc->req;
    if (is_tail_due(rc)) {
        put_tail(rc, sink);
    }
    rc_share_limit(rc);
    rc_requester_follow_read_len(rc);
    const uint64_t waits = rc_company_from(rc);
    while (may_send(rc) && (q->send_mark < waits || q->send_mark < q->next_mark) &&
           send_one(rc, sink)) {
    }
    follow_held_back(rc);
    wq_complete_sends(&rc->wq);
}
