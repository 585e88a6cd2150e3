// A packet's way: from whom it is, what it is, and whose. What it is not for is dropped, and
// counted by the reason why.
#include "roce/packet.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wire/ip.h"
#include "wire/roce_verdict.h"

// A reserved opcode is refused by the responder, in the order of its PSN.
static bool is_well_formed(enum roce_parse_verdict verdict)
{
    return verdict == ROCE_PARSE_OK || verdict == ROCE_PARSE_OPCODE;
}

static void tell_established(struct rc *rc)
{
    if (rc->state == QP_RTR && !rc->is_established_told) {
        rc->is_established_told = true;
        rc_raise(rc, QP_EVENT_COMM_EST);
    }
}

static void take_request(struct rc *rc, const struct roce_packet *p)
{
    if (!roce_state_facts(rc->state)->takes_packets && rc->resp.refusal == RC_ACCEPTED) {
        rc->counters.dropped_state++;
        return;
    }
    rc_complete_progress(rc); // it may end the queue pair
    rc_take_request(rc, p);
    tell_established(rc);
}

static void take_answer(struct rc *rc, const struct roce_packet *p)
{
    if (!roce_state_facts(rc->state)->takes_answers) {
        rc->counters.dropped_state++;
        return;
    }
    rc_take_answer(rc, p);
}

// The peer is told that its packets meet congestion, now and then.
static void note_mark(struct rc *rc, const struct datagram_rx *rx)
{
    if ((rx->traffic_class & IP_ECN_MASK) == IP_ECN_CE) {
        rc->counters.marked_in++;
        rc->resp.is_cnp_due |= cnp_pace_take(&rc->resp.cnp_pace, rc->wq.now);
    }
}

static void take(struct rc *rc, const struct roce_packet *p)
{
    rc->counters.packets_in++;
    rc->counters.octets_in += p->payload.len;
    if (p->bth.opcode == ROCE_CNP) {
        rc->counters.cnps_in++;
        congestion_on_cnp(&rc->req.congestion, rc->wq.now);
    } else if ((p->bth.opcode & ROCE_TRANSPORT_MASK) != ROCE_RC) {
        rc->counters.dropped_service++;
    } else if (!roce_packet_is_of_partition(&p->bth)) {
        rc->counters.dropped_partition++;
    } else {
        rc_greeting_take(rc, p);
        (p->facts->is_response ? take_answer : take_request)(rc, p);
    }
}

void rc_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now)
{
    struct rc *rc = rc_of(t);
    struct roce_packet p; // what its opcode has of it
    rc_at(rc, now);
    if (!roce_packet_is_of_path(rx, &rc->attributes.path)) {
        rc->counters.dropped_address++;
    } else if (!is_well_formed(roce_packet_parse(rx->octets, &p))) {
        rc->counters.dropped_malformed++;
    } else {
        note_mark(rc, rx);
        rc_ballast_drop(rc, &p);
        take(rc, &p);
    }
}

void rc_on_packets_over(struct transport *t, instant_ns now)
{
    struct rc *rc = rc_of(t);
    rc_at(rc, now);
    rc_complete_progress(rc);
    rc_settle(rc);
}
