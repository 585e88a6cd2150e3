#include "draw/roce.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "draw/roce_words.h"
#include "wire/aeth.h"
#include "wire/bth.h"
#include "wire/ibcm.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"

/* ---- PSNs of requests ------------------------------------------------------------------------ */

// PSNs that a request takes: a Read as many as its answer has packets. 0: not known.
static uint32_t psn_count(const struct roce_connection *c, const struct roce_packet *p)
{
    if (p->bth.opcode != ROCE_READ_REQUEST) {
        return 1;
    }
    if (c->pmtu == 0) {
        return p->reth.dma_len <= 256 ? 1 : 0;
    }
    uint32_t count = (uint32_t)(((uint64_t)p->reth.dma_len + c->pmtu - 1) / c->pmtu);
    return count == 0 ? 1 : count;
}

static void hole_open(struct roce_connection *c, unsigned side, uint32_t begin, uint32_t end)
{
    struct roce_side *s = &c->side[side];
    for (unsigned i = 0; i < ROCE_HOLE_MAX; i++) {
        struct roce_hole *h = &s->hole[i];
        if (h->is_there) {
            continue;
        }
        uint32_t count = (uint32_t)psn_diff(end, begin);
        *h = (struct roce_hole){
            .begin = begin,
            .end = end,
            .is_there = true,
            .count = count,
            .span = story_span_begin(c->story, STORY_HOLE, 1 - side, story_last(c->story))};
        story_hole_before(c->story, h->span, story_last(c->story));
        struct story_span *span = story_span_at(c->story, h->span);
        if (span != NULL) {
            snprintf(span->label, sizeof span->label, "hole");
            snprintf(span->detail, sizeof span->detail,
                     "A hole of %" PRIu32 " PSNs from %" PRIu32 "; it was not seen to close", count,
                     begin);
        }
        return;
    }
}

// Whether the PSN was missing; then it is no longer.
static bool hole_fill(struct roce_connection *c, unsigned side, uint32_t psn, uint32_t count)
{
    struct roce_side *s = &c->side[side];
    for (unsigned i = 0; i < ROCE_HOLE_MAX; i++) {
        struct roce_hole *h = &s->hole[i];
        if (!h->is_there || psn_before(psn, h->begin) || !psn_before(psn, h->end)) {
            continue;
        }
        // Missing packets come in order, whether late or sent again; one that does not closes all
        // before it too.
        h->begin = psn_add(psn, count);
        if (!psn_before(h->begin, h->end)) {
            struct story_span *span = story_span_at(c->story, h->span);
            story_span_end(c->story, h->span, story_last(c->story));
            if (span != NULL) {
                snprintf(span->detail, sizeof span->detail,
                         "A hole of %" PRIu32 " PSNs before %" PRIu32, h->count, h->end);
            }
            h->is_there = false;
        }
        return true;
    }
    return false;
}

// `side` acknowledges: packets up to this PSN that are missing had come, and were not captured.
static void on_ack(struct roce_connection *c, unsigned side, uint32_t psn)
{
    for (unsigned i = 0; i < ROCE_HOLE_MAX; i++) {
        struct roce_hole *h = &c->side[1 - side].hole[i];
        if (!h->is_there || psn_before(psn_add(psn, 1), h->end)) {
            continue;
        }
        char detail[STORY_DETAIL_MAX];
        snprintf(detail, sizeof detail,
                 "%" PRIu32 " packets before PSN %" PRIu32
                 " that the peer acknowledges, but that were not captured",
                 h->count, h->end);
        story_hole_deny(c->story, h->span, detail);
        h->is_there = false;
    }
}

// What the PSN of a request says of it: flags, and holes that open or close.
static unsigned follow(struct roce_connection *c, unsigned side, const struct roce_packet *p)
{
    struct roce_side *s = &c->side[side];
    uint32_t count = psn_count(c, p);
    unsigned flags = 0;
    if (s->has_next && psn_before(p->bth.psn, s->next)) {
        return hole_fill(c, side, p->bth.psn, count == 0 ? 1 : count) ? STORY_LATE : STORY_AGAIN;
    }
    if (s->has_next && psn_after(p->bth.psn, s->next)) {
        hole_open(c, side, s->next, p->bth.psn);
        flags = STORY_EARLY;
    }
    s->next = psn_add(p->bth.psn, count);
    s->has_next = count != 0;
    return flags;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void message_end(struct roce_connection *c, unsigned side, uint32_t first, uint32_t packets,
                        uint64_t len)
{
    if (packets < 2) {
        return;
    }
    uint32_t index = story_span_begin(c->story, STORY_MESSAGE, side, first);
    story_span_end(c->story, index, story_last(c->story));
    struct story_span *span = story_span_at(c->story, index);
    if (span != NULL) {
        snprintf(span->detail, sizeof span->detail,
                 "One message: %" PRIu32 " packets, %" PRIu64 " octets", packets, len);
    }
}

static void message_count(struct roce_connection *c, unsigned side, const struct roce_packet *p,
                          struct story_event *e)
{
    struct roce_side *s = &c->side[side];
    bool is_answer = p->facts->is_response;
    uint32_t *number = is_answer ? &s->answer : &s->message;
    uint32_t *first = is_answer ? &s->answer_first : &s->message_first;
    uint32_t *packets = is_answer ? &s->answer_packets : &s->message_packets;
    uint64_t *len = is_answer ? &s->answer_len : &s->message_len;
    if (p->facts->begins || *number == 0) {
        *number = ++c->story->message_count;
        *first = story_last(c->story);
        *packets = 0;
        *len = 0;
    }
    (*packets)++;
    *len += p->payload.len;
    if (e != NULL) {
        e->message = *number;
    }
    if (p->facts->ends) {
        message_end(c, side, *first, *packets, *len);
        *number = 0;
    }
}

/* ---- what lasts ------------------------------------------------------------------------------ */

static struct lives_part read_begin(struct roce_connection *c, unsigned side,
                                    const struct roce_packet *p)
{
    struct lives_request request = {
        .source_key = p->reth.rkey,
        .source_to = p->reth.va,
        .sink_to = p->reth.va, // where the octets go is not on the wire
        .len = p->reth.dma_len,
        .begin = p->bth.psn,
        .extent = psn_count(c, p),
    };
    lives_on_use(&c->lives, c->story, 1 - side, p->reth.rkey);
    return lives_on_request(&c->lives, c->story, side, &request);
}

static void keep_lives(struct roce_connection *c, unsigned side, const struct roce_packet *p,
                       unsigned flags, struct lives_part *ret_part)
{
    if (p->bth.opcode == ROCE_READ_REQUEST && (flags & STORY_AGAIN) == 0) {
        *ret_part = read_begin(c, side, p);
    } else if (p->facts->kind == ROCE_KIND_READ && p->facts->is_response) {
        lives_on_response(&c->lives, c->story, 1 - side, 0, p->bth.psn, 1, p->facts->ends);
    } else if ((p->facts->headers & ROCE_HAS_RETH) != 0) {
        lives_on_use(&c->lives, c->story, 1 - side, p->reth.rkey);
    } else if ((p->facts->headers & ROCE_HAS_IETH) != 0) {
        lives_on_end(&c->lives, c->story, 1 - side, p->ieth.rkey, "invalidated by a Send");
    }
}

/* ---- packets --------------------------------------------------------------------------------- */

static void on_data(struct roce_connection *c, unsigned side, const struct frame *f,
                    const struct roce_packet *p)
{
    if (c->pmtu == 0 && p->facts->payload == ROCE_PAYLOAD_PMTU) {
        c->pmtu = (uint32_t)p->payload.len;
    }
    struct lives_part part = {0};
    struct story_event *e = story_add(c->story, roce_words_kind(p), side);
    bool is_request = !p->facts->is_response && (p->bth.opcode & ROCE_TRANSPORT_MASK) != ROCE_UD;
    unsigned flags = is_request ? follow(c, side, p) : 0;
    if (p->facts->kind == ROCE_KIND_ACK && aeth_kind(p->aeth.syndrome) == AETH_ACK) {
        on_ack(c, side, p->bth.psn);
    }
    message_count(c, side, p, e);
    keep_lives(c, side, p, flags, &part);
    if (e != NULL) {
        e->fpdus = 1;
        e->len = (uint32_t)p->payload.len;
        e->flags = (uint8_t)(flags | (f->cut_len > 0 ? STORY_CUT : 0));
        roce_words(p, part, e);
        if (f->is_icrc_wrong) {
            e->kind = STORY_TROUBLE;
            snprintf(e->label, sizeof e->label, "%s · ICRC is wrong", p->facts->name);
        }
    }
}

static void on_cm(struct roce_connection *c, unsigned side, const struct roce_packet *p)
{
    struct ibcm_message m;
    if (ibcm_message_parse(p->payload, &m) != IBCM_PARSE_OK) {
        return;
    }
    bool is_end = m.kind == IBCM_DREQ || m.kind == IBCM_DREP || m.kind == IBCM_REJ;
    struct story_event *e = story_add(c->story, is_end ? STORY_END : STORY_START, side);
    if (m.kind == IBCM_REQ) {
        c->pmtu = m.req.path_mtu >= 1 && m.req.path_mtu <= 5 ? 128U << m.req.path_mtu : 0;
        c->side[side ^ 1].has_next = c->side[side].has_next = false;
        snprintf(c->agreed, sizeof c->agreed, "path MTU %" PRIu32, c->pmtu);
    }
    if (e != NULL) {
        e->fpdus = 1;
        roce_words_cm(&m, p, e);
    }
}

void roce_on_packet(struct roce_connection *c, unsigned side, const struct frame *f)
{
    struct roce_packet p;
    enum roce_parse_verdict verdict = roce_packet_parse(f->payload, &p);
    if (verdict != ROCE_PARSE_OK) {
        struct story_event *e = story_add(c->story, STORY_TROUBLE, side);
        if (e != NULL) {
            snprintf(e->label, sizeof e->label, "packet of %zu octets · %s", f->payload.len,
                     roce_parse_verdict_name(verdict));
        }
    } else if (p.bth.opcode == (ROCE_UD | ROCE_SEND_ONLY) && p.bth.dest_qp == BTH_QP_GSI) {
        on_cm(c, side, &p);
    } else {
        on_data(c, side, f, &p);
    }
}
