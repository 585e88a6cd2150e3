// MPA in full operation: set up as was agreed, and what it finds goes to the queue pair.

#include "wire/mpa.h"

#include <errno.h>
#include <stdlib.h>

#include "base/port_link.h"
#include "base/span.h"
#include "iwarp/qp.h"
#include "rnic/carry.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "wire/ddp.h"

enum {
    // Longer ones gain nothing: so much stays in the processor's nearest cache from the CRC's pass
    // to the copy, and little of a read is the beginning of one that must be carried.
    EP_ULPDU_MAX_LEN = 16 * 1024 + DDP_HEADER_MAX_LEN,
};

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    struct rnic_ep *ep = ctx;
    instant_ns now = ep->in.turn_at_ns;
    TRACE(ep->rnic->trace, TRACE_MPA, "qp %u in FPDU: ULPDU of %zu octets", ep->qp->qp_num,
          ulpdu.len);
    if (ep->is_mirrored) {
        ep_note_settled(ep, now); // what came before this one, which may end the stream
    }
    enum ulpdu_answer answer = qp_on_ulpdu(stream_qp(ep->qp), ulpdu, now);
    if (!ep->in.has_received) { // also when it must wait for a receive: it has come
        ep->in.has_received = true;
        conn_on_first_fpdu(&ep->startup.conn, now);
    }
    return answer;
}

// Between two weft ends the kernel's TCP may cut FPDUs, long ones, wherever it likes.
static bool may_send_long(const struct rnic_ep *ep)
{
    return conn_agreement(&ep->startup.conn)->extensions &&
           (ep->stream->facts & LINK_HAS_SEGMENTS) == 0;
}

// The longest ULPDU to this peer; `emss` of it, if each is to be a segment.
static size_t longest_ulpdu(const struct rnic_ep *ep, uint32_t emss, bool may_mark)
{
    size_t most = ep->out.has_records ? mpa_mulpdu(emss, may_mark) : mpa_tx_mulpdu_max(may_mark);
    bool is_lent = (ep->stream->facts & LINK_LENDS) != 0; // nothing is copied on the way
    return is_lent || most < EP_ULPDU_MAX_LEN ? most : EP_ULPDU_MAX_LEN;
}

void ep_forgo_crc(struct rnic_ep *ep)
{
    if ((ep->stream->facts & LINK_IS_OF_HOST) != 0 && !ep->rnic->config.crc_within_host) {
        conn_forgo_crc(&ep->startup.conn);
    }
}

bool ep_carry_borrow(struct rnic_ep *ep)
{
    if (ep->in.carry != NULL) {
        return true;
    }
    ep->in.carry = shard_carry_borrow(&ep->rnic->shard);
    if (ep->in.carry != NULL) {
        mpa_rx_use_carry(&ep->in.rx, ep->in.carry->octets);
    }
    return ep->in.carry != NULL;
}

void ep_carry_return(struct rnic_ep *ep)
{
    if (ep->in.carry != NULL && mpa_rx_is_between_fpdus(&ep->in.rx)) {
        mpa_rx_use_carry(&ep->in.rx, NULL);
        shard_carry_return(&ep->rnic->shard, ep->in.carry);
        ep->in.carry = NULL;
    }
}

int ep_mpa_open(struct rnic_ep *ep)
{
    const struct mpa_agreement *agreed = conn_agreement(&ep->startup.conn);
    struct ulpdu_port port = {.on_ulpdu = on_ulpdu,
                              .on_early_ulpdu = ep_on_early_ulpdu,
                              .on_advance = ep_on_advance,
                              .ctx = ep};
    enum mpa_rx_markers markers = agreed->rx_markers           ? MPA_RX_MARKERS
                                  : agreed->rx_markers_if_seen ? MPA_RX_MARKERS_IF_SEEN
                                                               : MPA_RX_MARKERS_NONE;
    ep->in.carry = shard_carry_borrow(&ep->rnic->shard);
    if (ep->in.carry == NULL) {
        return -ENOMEM;
    }
    uint32_t emss = link_emss(ep->stream);
    // Whoever only was offered the extensions is not weft before its first FPDU says so.
    ep->out.has_records = agreed->extensions_await_choices || !may_send_long(ep);
    mpa_rx_init(&ep->in.rx, agreed->crc, markers, mspan_of(ep->in.carry->octets, MPA_RX_CARRY_LEN),
                port);
    ep_carry_return(ep);
    // The queue pair is told the length now: it must be right if markers are agreed on later, too.
    bool may_mark = agreed->tx_markers || agreed->peer_marker_wish;
    mpa_tx_init(&ep->out.tx, agreed->crc, agreed->tx_markers, longest_ulpdu(ep, emss, may_mark));
    return 0;
}

void ep_mpa_on_confirmed(struct rnic_ep *ep)
{
    if (conn_agreement(&ep->startup.conn)->tx_markers) {
        mpa_tx_use_markers(&ep->out.tx); // it wished for them
    }
    if (may_send_long(ep)) {
        ep->out.has_records = false;
        mpa_tx_use_mulpdu(&ep->out.tx, longest_ulpdu(ep, 0, ep->out.tx.markers));
        qp_use_mulpdu(stream_qp(ep->qp), (uint32_t)ep->out.tx.mulpdu);
    }
}

// Octets that the link lends are looked at where they lie, if nothing but their lengths is to be
// checked.
bool ep_input_is_lent(const struct rnic_ep *ep)
{
    const struct mpa_rx *rx = &ep->in.rx;
    return (ep->stream->facts & LINK_LENDS) != 0 && ep->state == EP_OPEN && !ep->in.is_stopped &&
           !rx->framing.crc && !rx->framing.markers && !rx->is_framing_open &&
           ep->in.waiting.len == 0;
}
