#include "roce/packet.h"

#include <string.h>

bool roce_packet_put(const struct datagram_sink *sink, const struct datagram_path *path,
                     struct roce_packet *packet, const struct span *pieces, unsigned piece_count,
                     size_t len)
{
    uint8_t head[ROCE_HEAD_MAX_LEN];
    packet->bth.pkey = BTH_PKEY_DEFAULT;
    packet->bth.mig_req = true; // as hardware has it
    packet->bth.pad_len = roce_pad_len(len);
    struct datagram_tx tx = {
        .path = path,
        .head = span_of(head, roce_head_emit(packet, head)),
        .pieces = pieces,
        .piece_count = piece_count,
        .pad_len = packet->bth.pad_len,
    };
    return sink->put(sink->ctx, &tx);
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
