// One packet to the link, whosever it is; noted for who flushes.

#include <string.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "link/datagram/slot.h"
#include "rnic/packet/packet.h"
#include "wire/bth.h"

// What waits for the same queue pair: an acknowledgement, of which a later one says all, and which
// behind that would be the older of two.
static struct packet_held *older_than(struct packet_side *p, const struct datagram_tx *tx)
{
    for (unsigned i = 0; i < p->held_count; i++) {
        struct packet_held *held = &p->held[i];
        if (memcmp(held->head + BTH_OFF_DEST_QP, tx->head.ptr + BTH_OFF_DEST_QP, 3) == 0 &&
            IN6_ARE_ADDR_EQUAL(&held->path.remote, &tx->path->remote) &&
            IN6_ARE_ADDR_EQUAL(&held->path.local, &tx->path->local)) {
            return held;
        }
    }
    return NULL;
}

static void hold(struct packet_held *held, const struct datagram_tx *tx)
{
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

// A connection's end would overtake the acknowledgement of its last message, and the peer would
// flush a Send that has arrived.
static bool is_of_manager(const struct datagram_tx *tx)
{
    return datagram_dest_qp(tx->head) == BTH_QP_GSI;
}

bool packet_put(void *ctx, const struct datagram_tx *tx)
{
    struct packet_side *p = ctx;
    if (p->held_count > 0 && is_of_manager(tx)) {
        packet_put_held(p);
    }
    struct packet_held *older = tx->may_wait ? older_than(p, tx) : NULL;
    if (!datagram_has_room(p->link, tx)) {
        p->is_receiver_full = true;
        return false;
    }
    if (older != NULL) {
        hold(older, tx);
    } else if (tx->may_wait && p->is_holding && p->held_count < PACKET_HELD_MAX) {
        hold(&p->held[p->held_count++], tx);
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
