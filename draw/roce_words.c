#include "draw/roce_words.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/time.h"
#include "text/quantity.h"
#include "wire/aeth.h"

enum story_kind roce_words_kind(const struct roce_packet *p)
{
    switch (p->facts->kind) {
    case ROCE_KIND_SEND:
        return STORY_SEND;
    case ROCE_KIND_WRITE:
        return STORY_WRITE;
    case ROCE_KIND_READ:
        return p->facts->is_response ? STORY_READ_RESPONSE : STORY_READ_REQUEST;
    case ROCE_KIND_ATOMIC:
        return STORY_ATOMIC;
    case ROCE_KIND_ACK:
        return aeth_kind(p->aeth.syndrome) == AETH_ACK ? STORY_CONTROL : STORY_TROUBLE;
    case ROCE_KIND_CNP:
        break;
    }
    return STORY_CONTROL;
}

// The NAK's own word, as the receiver of it would print it.
static void words_ack(const struct roce_packet *p, struct story_event *e)
{
    uint8_t value = aeth_value(p->aeth.syndrome);
    switch (aeth_kind(p->aeth.syndrome)) {
    case AETH_ACK:
        snprintf(e->label, sizeof e->label, "ACK · PSN %" PRIu32, p->bth.psn);
        break;
    case AETH_RNR_NAK:
        snprintf(e->label, sizeof e->label, "RNR NAK · PSN %" PRIu32 ", again in %" PRIu64 " µs",
                 p->bth.psn, aeth_rnr_timer_ns(value) / NS_PER_US);
        break;
    case AETH_NAK:
        snprintf(e->label, sizeof e->label, "NAK · PSN %" PRIu32 ", %s", p->bth.psn,
                 aeth_nak_name(value));
        break;
    default:
        snprintf(e->label, sizeof e->label, "acknowledgement of a reserved kind");
    }
}

// "Send", "Write", with what tells the packet's place in its message.
static void words_payload(const struct roce_packet *p, struct story_event *e)
{
    const char *transport = (p->bth.opcode & ROCE_TRANSPORT_MASK) == ROCE_UD ? "Datagram"
                            : p->facts->kind == ROCE_KIND_SEND               ? "Send"
                            : p->facts->kind == ROCE_KIND_WRITE              ? "Write"
                                                                             : "Read Response";
    const char *goes_on = p->facts->ends ? "" : " …";
    char key[64] = "";
    if ((p->facts->headers & ROCE_HAS_RETH) != 0) {
        snprintf(key, sizeof key, " · R_Key 0x%08" PRIx32 " +0x%" PRIx64, p->reth.rkey, p->reth.va);
    } else if ((p->facts->headers & ROCE_HAS_IETH) != 0) {
        snprintf(key, sizeof key, " · invalidates 0x%08" PRIx32, p->ieth.rkey);
    }
    snprintf(e->label, sizeof e->label, "%s%s · PSN %" PRIu32 "%s · %zu%s", transport,
             (p->facts->headers & ROCE_HAS_IMMDT) != 0 ? " with immediate" : "", p->bth.psn, key,
             p->payload.len, goes_on);
}

static void words_atomic(const struct roce_packet *p, struct story_event *e)
{
    if (p->facts->is_response) {
        snprintf(e->label, sizeof e->label, "Atomic Acknowledge · PSN %" PRIu32 ", was 0x%" PRIx64,
                 p->bth.psn, p->atomicacketh.original);
        return;
    }
    const char *name = p->bth.opcode == ROCE_CMP_SWAP ? "Compare and Swap" : "Fetch and Add";
    snprintf(e->label, sizeof e->label, "%s · PSN %" PRIu32 " · R_Key 0x%08" PRIx32 " +0x%" PRIx64,
             name, p->bth.psn, p->atomiceth.rkey, p->atomiceth.va);
}

void roce_words(const struct roce_packet *p, struct lives_part part, struct story_event *e)
{
    char size[TEXT_SIZE_MAX], name[32] = "Read Request";
    roce_packet_format(p, e->detail, sizeof e->detail);
    switch (p->facts->kind) {
    case ROCE_KIND_ACK:
        words_ack(p, e);
        return;
    case ROCE_KIND_CNP:
        snprintf(e->label, sizeof e->label, "CNP · congestion on the way");
        return;
    case ROCE_KIND_ATOMIC:
        words_atomic(p, e);
        return;
    default:
        break;
    }
    if (p->bth.opcode != ROCE_READ_REQUEST) {
        words_payload(p, e);
        return;
    }
    if (part.read != 0) {
        snprintf(name, sizeof name, "Read Request %" PRIu32 ".%" PRIu32, part.read, part.part);
    }
    snprintf(e->label, sizeof e->label, "%s · PSN %" PRIu32 " · %s of 0x%08" PRIx32 " +0x%" PRIx64,
             name, p->bth.psn, text_size_format_exactly(p->reth.dma_len, size), p->reth.rkey,
             p->reth.va);
}

/* ---- the connection manager ------------------------------------------------------------------ */

void roce_words_cm(const struct ibcm_message *m, const struct roce_packet *p, struct story_event *e)
{
    roce_packet_format(p, e->detail, sizeof e->detail);
    switch (m->kind) {
    case IBCM_REQ:
        snprintf(e->label, sizeof e->label, "REQ · QP 0x%06" PRIx32 ", PSN %" PRIu32 ", MTU %u",
                 m->req.qp_num, m->req.starting_psn, 128U << (m->req.path_mtu & 7));
        ibcm_req_format(&m->req, e->detail, sizeof e->detail);
        return;
    case IBCM_REP:
        snprintf(e->label, sizeof e->label, "REP · QP 0x%06" PRIx32 ", PSN %" PRIu32, m->rep.qp_num,
                 m->rep.starting_psn);
        ibcm_rep_format(&m->rep, e->detail, sizeof e->detail);
        return;
    case IBCM_REJ:
        snprintf(e->label, sizeof e->label, "REJ · %s", ibcm_reason_name(m->rej.reason));
        ibcm_rej_format(&m->rej, e->detail, sizeof e->detail);
        return;
    case IBCM_MRA:
        snprintf(e->label, sizeof e->label, "MRA · asks for time");
        return;
    case IBCM_RTU:
        snprintf(e->label, sizeof e->label, "RTU · ready to use");
        return;
    case IBCM_DREQ:
        snprintf(e->label, sizeof e->label, "DREQ · ends the connection");
        return;
    case IBCM_DREP:
        snprintf(e->label, sizeof e->label, "DREP");
        return;
    default:
        snprintf(e->label, sizeof e->label, "message of the connection manager");
    }
}
