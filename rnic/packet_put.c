// One packet to the link, whosever it is; noted for who flushes.

#include <string.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "rnic/packet.h"

static void hold(struct packet_side *p, const struct datagram_tx *tx)
{
    struct packet_held *held = &p->held[p->held_count++];
    CHECK(tx->head.len <= sizeof held->head);
    held->path = *tx->path;
    held->head_len = tx->head.len;
    memcpy(held->head, tx->head.ptr, tx->head.len);
}

bool packet_put_held(struct packet_side *p)
{
    unsigned done = 0;
    for (; done < p->held_count; done++) {
        const struct packet_held *held = &p->held[done];
        const struct datagram_tx tx = {.path = &held->path,
                                       .head = span_of(held->head, held->head_len)};
        if (!datagram_put(p->link, &tx)) {
            break;
        }
    }
    p->held_count -= done;
    memmove(p->held, p->held + done, p->held_count * sizeof p->held[0]);
    return p->held_count == 0;
}

bool packet_put(void *ctx, const struct datagram_tx *tx)
{
    struct packet_side *p = ctx;
    if (tx->is_sent_once && !datagram_has_room(p->link, tx)) {
        p->is_receiver_full = true;
        return false;
    }
    if (tx->may_wait && p->is_holding && p->held_count < PACKET_HELD_MAX) {
        hold(p, tx);
    } else if (datagram_put(p->link, tx)) {
        p->is_urgent = true;
    } else {
        p->is_full = true;
        return false;
    }
    p->put_count++;
    p->has_unsent = true;
    return true;
}
