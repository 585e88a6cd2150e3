#include <string.h>

#include "base/check.h"
#include "base/sge.h"
#include "base/span.h"
#include "roce/packet.h"
#include "roce/rc_internal.h"

unsigned rc_payload_cut(struct rc_payload *payload, size_t len, struct span *ret)
{
    unsigned count = 0;
    while (len > 0) {
        struct span *left = &payload->pieces[payload->at];
        const size_t part = len < left->len ? len : left->len;
        ret[count++] = span_first(*left, part);
        *left = span_skip(*left, part);
        payload->at += left->len == 0;
        len -= part;
    }
    return count;
}

bool rc_packet_put(struct rc *rc, const struct datagram_sink *sink, struct roce_packet *p,
                   const struct span *pieces, unsigned piece_count, size_t len)
{
    const struct span ballast = rc_ballast_of(rc, p->bth.opcode, len);
    struct span all[SGE_COUNT_MAX + 1];
    p->bth.dest_qp = rc->attributes.dest_qp_num;
    p->bth.greeting = rc_greeting_of(rc, &p->bth);
    if (ballast.len > 0) {
        CHECK(piece_count <= SGE_COUNT_MAX);
        memcpy(all, pieces, piece_count * sizeof *pieces);
        all[piece_count++] = ballast;
        pieces = all;
    }
    if (!roce_packet_put(sink, &rc->attributes.path, p, pieces, piece_count, len)) {
        return false;
    }
    rc->counters.packets_out++;
    rc->counters.octets_out += len;
    return true;
}
