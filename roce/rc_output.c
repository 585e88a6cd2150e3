// What leaves: that packets came marked, answers in the order of what was asked, the one word that
// acknowledges or refuses, and then what the program wants.
#include "base/span.h"
#include "roce/rc_internal.h"
#include "wire/aeth.h"
#include "wire/sack.h"

// What has come beyond a hole, if the peer understands that.
static size_t arrivals(const struct rc *rc, uint8_t *buf)
{
    struct sack sack;
    rc_held_tell(rc, &sack);
    return sack.bit_count > 0 ? sack_emit(&sack, buf) : 0;
}

// It does not overtake answers to what was asked before.
static void put_word(struct rc *rc, const struct datagram_sink *sink)
{
    struct rc_word *word = &rc->resp.word;
    if (!word->is_due) {
        return;
    }
    bool is_nak = word->syndrome != AETH_SYNDROME_ACK;
    bool is_hole = word->syndrome == aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE);
    uint8_t octets[SACK_LEN_MAX];
    struct roce_packet p = {
        .bth = {.opcode = ROCE_RC | ROCE_ACKNOWLEDGE, .psn = (uint32_t)word->mark & PSN_MASK},
        .aeth = {.syndrome = is_nak ? word->syndrome : rc_credits_told(rc), .msn = rc->resp.msn},
    };
    bool is_held = is_hole && word->mark == rc->resp.expected_mark && rc->resp.held.count > 0;
    size_t len = is_held ? arrivals(rc, octets) : 0;
    struct span piece = span_of(octets, len);
    if (rc_packet_put(rc, sink, &p, &piece, len > 0 ? 1 : 0, len)) {
        word->is_due = false;
        rc->counters.naks_out += is_nak;
        rc->counters.acks_out += !is_nak;
        rc->counters.sacks_out += len > 0;
    }
}

static void put_notification(struct rc *rc, const struct datagram_sink *sink)
{
    if (!rc->resp.is_cnp_due) {
        return;
    }
    struct roce_packet p = {.bth = {.opcode = ROCE_CNP, .becn = true}};
    if (rc_packet_put(rc, sink, &p, NULL, 0, 0)) {
        rc->resp.is_cnp_due = false;
        rc->counters.cnps_out++;
    }
}

bool rc_has_output(const struct transport *t)
{
    const struct rc *rc = rc_of_const(t);
    return rc->resp.pending_count > 0 || rc->resp.word.is_due || rc->resp.is_cnp_due ||
           rc_requester_has_output(rc);
}

void rc_output(struct transport *t, const struct datagram_sink *sink, instant_ns now)
{
    struct rc *rc = rc_of(t);
    unsigned turn = RC_TURN_PACKETS;
    rc_at(rc, now);
    put_notification(rc, sink);
    if (rc_answers_output(rc, sink, &turn)) {
        put_word(rc, sink);
    }
    rc_requester_output(rc, sink);
    rc_settle(rc);
}
