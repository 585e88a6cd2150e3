// Packets become parts of messages: checked, in the order of enum unreliable_refusal, placed, and
// the last completes.
#include "base/time.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/inbound.h"
#include "roce/packet.h"
#include "roce/uc_internal.h"
#include "roce/unreliable.h"
#include "roce/unreliable_counters.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wq/status.h"

static struct mem_asker asker_of(const struct uc *uc)
{
    return (struct mem_asker){
        .pd = uc->u.config.pd,
        .qp_num = uc->u.config.qp_num,
        .denied = uc->denied,
    };
}

// What follows of it is dropped. The receive is kept.
static void drop_message(struct uc *uc)
{
    uc->u.counters.cut_messages += uc->u.in.is_open;
    uc->u.in.is_open = false;
}

// A gap is behind us where a message begins.
static enum unreliable_refusal check_psn(struct uc *uc, const struct roce_packet *p)
{
    const bool is_expected = p->bth.psn == uc->expected_psn;
    uc->u.counters.gaps += !is_expected && p->facts->begins;
    if (!is_expected || p->facts->begins) {
        drop_message(uc); // whose end was lost, or never sent
    }
    if (!is_expected && !p->facts->begins) {
        return UNRELIABLE_REFUSED_PSN;
    }
    uc->expected_psn = psn_add(p->bth.psn, 1);
    return UNRELIABLE_ACCEPTED;
}

static enum unreliable_refusal check(struct uc *uc, const struct roce_packet *p)
{
    struct unreliable *u = &uc->u;
    if (!inbound_is_in_order(&u->in, p)) {
        return UNRELIABLE_REFUSED_SEQUENCE;
    }
    if (!inbound_fits(&u->in, p, u->mtu)) {
        return UNRELIABLE_REFUSED_LENGTH;
    }
    if (p->facts->claims_receive && !inbound_claim(&u->in, &u->wq)) {
        return UNRELIABLE_REFUSED_NO_RECEIVE;
    }
    return inbound_check_memory(&u->in, &u->wq, asker_of(uc), p) == MEM_OK
               ? UNRELIABLE_ACCEPTED
               : UNRELIABLE_REFUSED_ACCESS;
}

// A receive of the own queue is kept where the next message may fit it.
static enum unreliable_refusal place(struct uc *uc, const struct roce_packet *p)
{
    struct unreliable *u = &uc->u;
    enum mem_verdict memory;
    switch (inbound_place(&u->in, &u->wq, asker_of(uc), p, NULL, &memory)) {
    case INBOUND_OK:
        return UNRELIABLE_ACCEPTED;
    case INBOUND_MEMORY:
        return UNRELIABLE_REFUSED_ACCESS;
    case INBOUND_TOO_LONG:
        if (u->config.srq != NULL) {
            inbound_fail(&u->in, &u->wq, WC_LOC_LEN_ERR);
        }
        return UNRELIABLE_REFUSED_TOO_LONG;
    case INBOUND_LOCAL:
        break;
    }
    inbound_fail(&u->in, &u->wq, WC_LOC_PROT_ERR);
    unreliable_end(u);
    return UNRELIABLE_REFUSED_RECEIVE_MEMORY;
}

static enum unreliable_refusal take(struct uc *uc, const struct roce_packet *p)
{
    enum unreliable_refusal refusal = check(uc, p);
    if (refusal == UNRELIABLE_ACCEPTED) {
        refusal = place(uc, p);
    }
    if (refusal != UNRELIABLE_ACCEPTED) {
        drop_message(uc);
    } else if (p->facts->ends) {
        inbound_end(&uc->u.in, &uc->u.wq, p);
    }
    return refusal;
}

static enum unreliable_refusal receive(struct uc *uc, const struct datagram_rx *rx,
                                       const struct roce_packet *p)
{
    if (p->bth.dest_qp != uc->u.config.qp_num) {
        return UNRELIABLE_REFUSED_QP_NUM;
    }
    if (!roce_packet_is_of_path(rx, &uc->path)) {
        return UNRELIABLE_REFUSED_ADDRESS;
    }
    enum unreliable_refusal refusal = check_psn(uc, p);
    return refusal == UNRELIABLE_ACCEPTED ? take(uc, p) : refusal;
}

void uc_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now)
{
    struct uc *uc = uc_of(t);
    struct roce_packet packet;
    enum unreliable_refusal refusal = unreliable_on_packet(&uc->u, rx->octets, &packet, now);
    if (refusal == UNRELIABLE_ACCEPTED) {
        refusal = receive(uc, rx, &packet);
    }
    unreliable_settle_packet(&uc->u, &packet, refusal);
}
