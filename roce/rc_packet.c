#include "base/span.h"
#include "roce/packet.h"
#include "roce/rc_internal.h"

bool rc_packet_put(struct rc *rc, const struct datagram_sink *sink, struct roce_packet *p,
                   const struct span *pieces, unsigned piece_count, size_t len)
{
    p->bth.dest_qp = rc->attributes.dest_qp_num;
    p->bth.greeting = rc_greeting_of(rc, &p->bth);
    if (!roce_packet_put(sink, &rc->attributes.path, p, pieces, piece_count, len)) {
        return false;
    }
    rc->counters.packets_out++;
    rc->counters.octets_out += len;
    return true;
}
