#include "roce/packet.h"

#include <string.h>

#include "wire/aeth.h"

bool roce_packet_put(const struct datagram_sink *sink, const struct datagram_path *path,
                     struct roce_packet *packet, const struct span *pieces, unsigned piece_count,
                     size_t len)
{
    uint8_t head[ROCE_HEAD_MAX_LEN];
    packet->bth.pkey = BTH_PKEY_DEFAULT;
    packet->bth.mig_req = true; // as hardware has it
    packet->bth.pad_len = roce_pad_len(len);
    const bool is_ack = piece_count == 0 && packet->bth.opcode == (ROCE_RC | ROCE_ACKNOWLEDGE) &&
                        aeth_kind(packet->aeth.syndrome) == AETH_ACK;
    struct datagram_tx tx = {
        .path = path,
        .head = span_of(head, roce_head_emit(packet, head)),
        .pieces = pieces,
        .piece_count = piece_count,
        .pad_len = packet->bth.pad_len,
        .may_wait = is_ack,
        .is_sent_once = (packet->bth.opcode & ROCE_TRANSPORT_MASK) != ROCE_RC,
    };
    return sink->put(sink->ctx, &tx);
}

static const struct {
    uint8_t first, middle, last, only;
} operations_of[WQE_OPCODE_COUNT] = {
    [WQE_SEND] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST, ROCE_SEND_ONLY},
    [WQE_SEND_WITH_IMM] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_IMM,
                           ROCE_SEND_ONLY_IMM},
    [WQE_SEND_WITH_INV] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST_INV,
                           ROCE_SEND_ONLY_INV},
    [WQE_RDMA_WRITE] = {ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST, ROCE_WRITE_ONLY},
    [WQE_RDMA_WRITE_WITH_IMM] = {ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST_IMM,
                                 ROCE_WRITE_ONLY_IMM},
};

static uint8_t operation_of(const struct send_wqe *wqe, bool is_first, bool is_last)
{
    return is_first
               ? (is_last ? operations_of[wqe->opcode].only : operations_of[wqe->opcode].first)
               : (is_last ? operations_of[wqe->opcode].last : operations_of[wqe->opcode].middle);
}

uint32_t roce_packet_of_message(const struct send_wqe *wqe, enum roce_transport transport,
                                uint64_t offset, uint32_t path_mtu, struct roce_packet *ret)
{
    const uint64_t left = wqe->length - offset;
    const bool is_last = left <= path_mtu;
    ret->bth =
        (struct bth){.opcode = (uint8_t)(transport | operation_of(wqe, offset == 0, is_last)),
                     .solicited = is_last && (wqe->flags & WQE_SOLICITED) != 0};
    ret->reth =
        (struct reth){.va = wqe->remote_addr, .rkey = wqe->rkey, .dma_len = (uint32_t)wqe->length};
    ret->immdt = (struct immdt){wqe->imm_or_inv};
    ret->ieth = (struct ieth){wqe->imm_or_inv};
    return is_last ? (uint32_t)left : path_mtu;
}

bool roce_packet_is_of_path(const struct datagram_rx *rx, const struct datagram_path *path)
{
    return memcmp(&rx->remote, &path->remote, sizeof rx->remote) == 0 &&
           memcmp(&rx->local, &path->local, sizeof rx->local) == 0;
}

bool roce_packet_is_of_partition(const struct bth *bth)
{
    const uint16_t members = 0x7fff; // the uppermost bit says who is a full one
    return ((bth->pkey ^ BTH_PKEY_DEFAULT) & members) == 0;
}

bool roce_is_path_mtu(uint32_t len)
{
    return len >= 256 && len <= 4096 && (len & (len - 1)) == 0;
}
