// What the peer asks for. A packet that is due passes the checks, in this order, then is done; what
// was here before is answered as before; what comes behind a hole is not taken, and of each hole
// the peer is told once.
#include "mem/table.h"
#include "roce/inbound.h"
#include "roce/rc_internal.h"
#include "wire/aeth.h"

void rc_responder_begin(struct rc *rc, uint32_t psn)
{
    struct rc_responder *r = &rc->resp;
    rc_held_clear(rc);
    *r = (struct rc_responder){
        .answers = r->answers,
        .capacity = r->capacity,
        .held = {.packets = r->held.packets},
        .limit = rc->attributes.max_dest_rd_atomic,
        .expected_mark = RC_MARK_FIRST | psn,
    };
}

/* ---- checks ---------------------------------------------------------------------------------- */

static enum rc_refusal check_opcode(struct rc *rc, const struct roce_packet *p)
{
    return p->facts->is_known ? RC_ACCEPTED : RC_REFUSED_OPCODE;
}

// A message's packets follow each other, and nothing comes between.
static enum rc_refusal check_order(struct rc *rc, const struct roce_packet *p)
{
    return inbound_is_in_order(&rc->resp.in, p) ? RC_ACCEPTED : RC_REFUSED_ORDER;
}

static enum rc_refusal check_rights(struct rc *rc, const struct roce_packet *p)
{
    static const uint32_t needed[] = {
        [ROCE_KIND_SEND] = 0,
        [ROCE_KIND_WRITE] = MEM_ACCESS_REMOTE_WRITE,
        [ROCE_KIND_READ] = MEM_ACCESS_REMOTE_READ,
        [ROCE_KIND_ATOMIC] = MEM_ACCESS_REMOTE_ATOMIC,
    };
    return (needed[p->facts->kind] & rc->denied) == 0 ? RC_ACCEPTED : RC_REFUSED_RIGHTS;
}

static enum rc_refusal check_room(struct rc *rc, const struct roce_packet *p)
{
    bool is_request = p->facts->kind == ROCE_KIND_READ || p->facts->kind == ROCE_KIND_ATOMIC;
    return is_request && !rc_answer_has_room(rc) ? RC_REFUSED_TOO_MANY : RC_ACCEPTED;
}

static enum rc_refusal check_length(struct rc *rc, const struct roce_packet *p)
{
    bool fits = inbound_fits(&rc->resp.in, p, rc_pmtu(rc));
    return fits ? RC_ACCEPTED : RC_REFUSED_LENGTH;
}

static enum rc_refusal check_receive(struct rc *rc, const struct roce_packet *p)
{
    return p->facts->claims_receive && !inbound_claim(&rc->resp.in, &rc->wq) ? RC_REFUSED_NOT_READY
                                                                             : RC_ACCEPTED;
}

static enum rc_refusal (*const checks[])(struct rc *rc, const struct roce_packet *p) = {
    check_opcode, check_order,   check_rights,     check_room,
    check_length, check_receive, rc_receive_check,
};

static enum rc_refusal check(struct rc *rc, const struct roce_packet *p)
{
    enum rc_refusal refusal = RC_ACCEPTED;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && refusal == RC_ACCEPTED; i++) {
        refusal = checks[i](rc, p);
    }
    return refusal;
}

/* ---- what is done ---------------------------------------------------------------------------- */

static enum rc_refusal take_message(struct rc *rc, const struct roce_packet *p)
{
    enum rc_refusal refusal = rc_receive_place(rc, p);
    return refusal == RC_ACCEPTED && p->facts->ends ? rc_receive_end(rc, p) : refusal;
}

static enum rc_refusal execute(struct rc *rc, const struct roce_packet *p)
{
    return p->facts->kind == ROCE_KIND_READ     ? rc_answer_read(rc, p)
           : p->facts->kind == ROCE_KIND_ATOMIC ? rc_answer_atomic(rc, p)
                                                : take_message(rc, p);
}

// What the peer was refused for want of something says as much as an acknowledgement of all before
// it, and must not be lost.
static void acknowledge(struct rc_responder *r)
{
    bool says_more =
        r->word.is_due && r->word.syndrome != AETH_SYNDROME_ACK && r->word.mark == r->expected_mark;
    if (!says_more) {
        r->word = (struct rc_word){true, AETH_SYNDROME_ACK, r->expected_mark - 1};
    }
}

// A weft end is told again whenever something comes, since it is told what; but first of all that
// there is no receive, if that is so.
static void tell_hole(struct rc *rc)
{
    struct rc_responder *r = &rc->resp;
    if (!r->has_told_hole) {
        rc_refuse(rc, RC_REFUSED_SEQUENCE, r->expected_mark);
    } else if (!r->is_unready) {
        r->word =
            (struct rc_word){true, aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE), r->expected_mark};
    }
}

static void tell_hole_again(struct rc *rc)
{
    if (rc->resp.held.count > 0) {
        tell_hole(rc);
    }
}

// Of a packet that has been taken before that has left: it would have the peer go back, or wait.
static bool is_refusing_what_is_taken(const struct rc_responder *r)
{
    return r->word.is_due && r->word.syndrome != AETH_SYNDROME_ACK &&
           r->word.mark < r->expected_mark;
}

static void take_due(struct rc *rc, const struct roce_packet *p)
{
    struct rc_responder *r = &rc->resp;
    enum rc_refusal refusal = check(rc, p);
    refusal = refusal == RC_ACCEPTED ? execute(rc, p) : refusal;
    if (refusal != RC_ACCEPTED) {
        rc_refuse(rc, refusal, r->expected_mark);
        return;
    }
    bool is_read = p->facts->kind == ROCE_KIND_READ;
    r->expected_mark += is_read ? rc_packet_count(rc, p->reth.dma_len) : 1;
    r->msn = (r->msn + (p->facts->ends ? 1 : 0)) & PSN_MASK;
    r->has_told_hole = r->is_unready = false;
    bool is_asked = p->bth.ack_req && !is_read && p->facts->kind != ROCE_KIND_ATOMIC;
    if (is_asked || is_refusing_what_is_taken(r)) {
        acknowledge(r);
    }
}

// With what was kept behind it, up to the next hole, of which the peer is told at once.
static void take_due_and_held(struct rc *rc, const struct roce_packet *p)
{
    struct rc_responder *r = &rc->resp;
    uint64_t before;
    do {
        before = r->expected_mark;
        take_due(rc, p);
        rc_held_pass(rc, before);
        p = rc_held_at(rc, r->expected_mark);
    } while (p != NULL && r->expected_mark != before);
    tell_hole_again(rc);
}

static void take_duplicate(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    if (p->facts->kind == ROCE_KIND_READ || p->facts->kind == ROCE_KIND_ATOMIC) {
        rc_answer_again(rc, p, mark);
    } else {
        rc->counters.duplicates++;
        acknowledge(&rc->resp);
        tell_hole_again(rc);
    }
}

static void take_behind_hole(struct rc *rc, const struct roce_packet *p, uint64_t mark)
{
    if (rc->greeting.is_known && rc_held_put(rc, p, mark)) {
        tell_hole(rc);
    } else if (rc->resp.has_told_hole) {
        rc->counters.dropped_hole++;
    } else {
        rc_refuse(rc, RC_REFUSED_SEQUENCE, rc->resp.expected_mark);
    }
}

// Refused for good: the peer is told so whatever it asks for, until it has heard it.
static void take_refused(struct rc *rc)
{
    rc->resp.word.is_due = true;
}

void rc_take_request(struct rc *rc, const struct roce_packet *p)
{
    struct rc_responder *r = &rc->resp;
    uint64_t mark = psn_extend(r->expected_mark, p->bth.psn);
    bool is_repeated_request = mark < r->expected_mark && (p->facts->kind == ROCE_KIND_READ ||
                                                           p->facts->kind == ROCE_KIND_ATOMIC);
    if (r->refusal != RC_ACCEPTED && !is_repeated_request) {
        take_refused(rc);
    } else if (mark < r->expected_mark) {
        take_duplicate(rc, p, mark);
    } else if (mark > r->expected_mark) {
        take_behind_hole(rc, p, mark);
    } else {
        take_due_and_held(rc, p);
    }
}
