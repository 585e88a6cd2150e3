// Packets become receives: checked, in the order of enum unreliable_refusal, placed, completed.
#include <netinet/in.h>

#include "base/sge.h"
#include "base/span.h"
#include "base/time.h"
#include "cq/cqe.h"
#include "roce/address.h"
#include "roce/ud.h"
#include "roce/ud_internal.h"
#include "roce/unreliable.h"
#include "roce/unreliable_counters.h"
#include "wire/grh.h"
#include "wire/roce.h"
#include "wq/scatter.h"
#include "wq/status.h"
#include "wq/wq.h"

static enum unreliable_refusal check(const struct ud *ud, const struct datagram_rx *rx,
                                     const struct roce_packet *packet)
{
    if (packet->bth.dest_qp == ROCE_QPN_MULTICAST) {
        if (!ud_is_attached(ud, &rx->local)) {
            return UNRELIABLE_REFUSED_NOT_ATTACHED;
        }
    } else if (packet->bth.dest_qp != ud->u.config.qp_num) {
        return UNRELIABLE_REFUSED_QP_NUM;
    }
    return packet->deth.qkey == ud->qkey ? UNRELIABLE_ACCEPTED : UNRELIABLE_REFUSED_QKEY;
}

// Is there a receive for so many octets? A receive of the own ring that is too small stays posted,
// for who fits it; one of an SRQ is seen when it is claimed.
static enum unreliable_refusal claim(struct ud *ud, uint64_t len, struct recv_wqe **ret)
{
    struct wq *wq = &ud->u.wq;
    if (!wq_receive_is_posted(wq)) {
        return UNRELIABLE_REFUSED_NO_RECEIVE;
    }
    if (ud->u.config.srq == NULL) {
        const struct recv_wqe *next = wq_receive_peek(wq, 0);
        if (sge_total_len(next->sge, next->sge_count) < len) {
            return UNRELIABLE_REFUSED_TOO_LONG;
        }
    }
    *ret = wq_receive_claim(wq);
    return UNRELIABLE_ACCEPTED;
}

// All of it or nothing: the GRH alone is not placed where the payload does not fit.
static enum unreliable_refusal place(struct ud *ud, struct recv_wqe *wqe,
                                     const struct datagram_rx *rx, struct span payload)
{
    uint8_t grh[GRH_LEN];
    struct scatter scatter;
    scatter_init(&scatter, wqe->sge, wqe->sge_count);
    if (scatter.length < GRH_LEN + payload.len) {
        unreliable_fail_receive(&ud->u, wqe, WC_LOC_LEN_ERR);
        return UNRELIABLE_REFUSED_TOO_LONG;
    }
    grh_emit(rx, grh);
    enum unreliable_refusal refusal =
        unreliable_place(&ud->u, wqe, &scatter, 0, span_of(grh, sizeof grh));
    return refusal != UNRELIABLE_ACCEPTED
               ? refusal
               : unreliable_place(&ud->u, wqe, &scatter, GRH_LEN, payload);
}

// What cards say of a datagram in its completion's service level, which RoCE has no other use for:
// bit 3, that there is a UDP header, and in the lowest which IP is before it. Annex A17 asks for
// such a flag; UCX takes it to know where the GRH has the destination.
enum { SL_UDP_IPV6 = 0x8 | 0x1, SL_UDP_IPV4 = 0x8 | 0x2 };

static void complete(struct ud *ud, struct recv_wqe *wqe, const struct datagram_rx *rx,
                     const struct roce_packet *packet)
{
    const bool has_imm = (packet->facts->headers & ROCE_HAS_IMMDT) != 0;
    wqe->message = (struct recv_message){
        .opcode = WC_RECV,
        .byte_len = GRH_LEN + (uint32_t)packet->payload.len,
        .wc_flags = WC_GRH | (has_imm ? WC_WITH_IMM : 0),
        .imm_or_inv = has_imm ? packet->immdt.imm_data : 0,
        .src_qp = packet->deth.src_qp,
        .sl = IN6_IS_ADDR_V4MAPPED(&rx->local) ? SL_UDP_IPV4 : SL_UDP_IPV6,
    };
    unreliable_complete_receive(&ud->u, wqe, packet->bth.solicited);
}

static enum unreliable_refusal receive(struct ud *ud, const struct datagram_rx *rx,
                                       const struct roce_packet *packet)
{
    struct recv_wqe *wqe = NULL;
    enum unreliable_refusal refusal = check(ud, rx, packet);
    if (refusal == UNRELIABLE_ACCEPTED) {
        refusal = claim(ud, GRH_LEN + packet->payload.len, &wqe);
    }
    if (refusal == UNRELIABLE_ACCEPTED) {
        refusal = place(ud, wqe, rx, packet->payload);
    }
    if (refusal == UNRELIABLE_ACCEPTED) {
        ud->u.counters.multicast_in += packet->bth.dest_qp == ROCE_QPN_MULTICAST;
        complete(ud, wqe, rx, packet);
    }
    return refusal;
}

void ud_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now)
{
    struct ud *ud = ud_of(t);
    struct roce_packet packet;
    enum unreliable_refusal refusal = unreliable_on_packet(&ud->u, rx->octets, &packet, now);
    if (refusal == UNRELIABLE_ACCEPTED) {
        refusal = receive(ud, rx, &packet);
    }
    unreliable_settle_packet(&ud->u, &packet, refusal);
}
