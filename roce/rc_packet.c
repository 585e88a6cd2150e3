#include "base/span.h"
#include "roce/rc_internal.h"
#include "wire/bth.h"

bool rc_packet_put(struct rc *rc, const struct datagram_sink *sink, struct roce_packet *p,
                   const struct span *pieces, unsigned piece_count, size_t len)
{
    uint8_t head[ROCE_HEAD_MAX_LEN];
    p->bth.pkey = BTH_PKEY_DEFAULT;
    p->bth.mig_req = true; // as hardware has it
    p->bth.dest_qp = rc->attributes.dest_qp_num;
    p->bth.pad_len = roce_pad_len(len);
    struct datagram_tx tx = {
        .path = &rc->attributes.path,
        .head = span_of(head, roce_head_emit(p, head)),
        .pieces = pieces,
        .piece_count = piece_count,
        .pad_len = p->bth.pad_len,
    };
    if (!sink->put(sink->ctx, &tx)) {
        return false;
    }
    rc->counters.packets_out++;
    rc->counters.octets_out += len;
    return true;
}
