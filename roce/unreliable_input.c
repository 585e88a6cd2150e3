// What is looked at in any packet, how receives end, and what is counted.
#include "base/time.h"
#include "base/trace.h"
#include "roce/packet.h"
#include "roce/state.h"
#include "roce/unreliable.h"
#include "roce/unreliable_counters.h"
#include "wire/bth.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"
#include "wq/scatter.h"
#include "wq/status.h"
#include "wq/wq.h"

static uint8_t transport_of(enum roce_service service)
{
    return service == ROCE_SERVICE_UD ? ROCE_UD : ROCE_UC;
}

enum unreliable_refusal unreliable_on_packet(struct unreliable *u, struct span octets,
                                             struct roce_packet *ret, instant_ns now)
{
    u->wq.now = now;
    if (!roce_state_facts(u->state)->takes_packets) {
        return UNRELIABLE_REFUSED_STATE;
    }
    if (roce_packet_parse(octets, ret) != ROCE_PARSE_OK) {
        return UNRELIABLE_REFUSED_MALFORMED;
    }
    if ((ret->bth.opcode & ROCE_TRANSPORT_MASK) != transport_of(u->service)) {
        return UNRELIABLE_REFUSED_SERVICE;
    }
    return roce_packet_is_of_partition(&ret->bth) ? UNRELIABLE_ACCEPTED : UNRELIABLE_REFUSED_PKEY;
}

void unreliable_settle_packet(struct unreliable *u, const struct roce_packet *packet,
                              enum unreliable_refusal refusal)
{
    if (refusal == UNRELIABLE_ACCEPTED) {
        u->counters.packets_in++;
        u->counters.octets_in += packet->payload.len;
    } else {
        u->counters.refusals[refusal]++;
        TRACE(u->config.trace, TRACE_QP, "qp %u drops a packet: %s", u->config.qp_num,
              unreliable_refusal_text(refusal));
    }
    unreliable_follow_overrun(u);
}

void unreliable_fail_receive(struct unreliable *u, struct recv_wqe *wqe, enum wc_status status)
{
    u->counters.wq.recv_errors++;
    wq_complete_receive_without(&u->wq, wqe, status);
}

enum unreliable_refusal unreliable_place(struct unreliable *u, struct recv_wqe *wqe,
                                         struct scatter *scatter, uint64_t offset,
                                         struct span payload)
{
    switch (wq_receive_place(&u->wq, scatter, offset, payload)) {
    case SCATTER_OK:
        return UNRELIABLE_ACCEPTED;
    case SCATTER_TOO_LONG:
        unreliable_fail_receive(u, wqe, WC_LOC_LEN_ERR);
        return UNRELIABLE_REFUSED_TOO_LONG;
    case SCATTER_LOCAL:
        break;
    }
    unreliable_fail_receive(u, wqe, WC_LOC_PROT_ERR);
    unreliable_end(u);
    return UNRELIABLE_REFUSED_RECEIVE_MEMORY;
}

void unreliable_complete_receive(struct unreliable *u, struct recv_wqe *wqe, bool is_solicited)
{
    u->counters.wq.recv_completions++;
    wq_complete_receive(&u->wq, wqe, WC_SUCCESS, is_solicited);
}
