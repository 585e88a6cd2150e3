// One packet to the link, whosever it is; noted for who flushes.

#include "base/port_datagram.h"
#include "rnic/packet.h"

bool packet_put(void *ctx, const struct datagram_tx *tx)
{
    struct packet_side *p = ctx;
    if (tx->is_sent_once && !datagram_has_room(p->link, tx)) {
        p->is_receiver_full = true;
        return false;
    }
    if (!datagram_put(p->link, tx)) {
        p->is_full = true;
        return false;
    }
    p->put_count++;
    p->has_unsent = true;
    return true;
}
