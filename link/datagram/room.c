// Whether a receiver on this host has room. All who have an address open have the sockets of all
// its slots (link/datagram/door.h), and the kernel tells of each how full it is. Nothing else holds
// back a sender over loopback: there a datagram counts to its socket only until the call returns.
// Who has just come is waited for until we have its socket.
//
// The kernel is asked again when a part of what it said was free has been put: there may be other
// senders, and it says late that something was read.

#include <errno.h>

#include "base/port_datagram.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/datagram/lane.h"
#include "link/datagram/octets.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "wire/bth.h"

// Who has read nothing for so long, and at so many looks, is stopped, or gone: what is sent to it
// is lost, as in a network. On a busy machine neither end may run for a tenth of a second.
static const duration_ns patience_ns = 500 * NS_PER_MS;
enum {
    LOOKS_IN_VAIN = 256,
    SENDERS = 4,             // each may take such a part of what is free
    PACKET_EXTRA_LEN = 1024, // and twice the length: what the kernel counts for one that came alone
};

static uint32_t cost_of(const struct datagram_tx *tx)
{
    return (uint32_t)(2 * datagram_tx_len(tx) + PACKET_EXTRA_LEN);
}

static void note_taken(struct datagram_room *room, uint32_t taken, instant_ns now)
{
    room->looks++;
    if (taken != room->taken) {
        room->taken = taken;
        room->taken_ns = now;
        room->looks = 0;
    }
}

static bool is_given_up(const struct datagram_room *room, instant_ns now)
{
    return room->looks > LOOKS_IN_VAIN && now >= instant_after(room->taken_ns, patience_ns);
}

// False: nobody reads there any more.
static bool look(struct datagram_udp *d, int fd, struct datagram_room *room, uint32_t cost)
{
    uint32_t taken = 0, most = 0;
    datagram_udp_flush(&d->base); // what is staged counts
    if (!datagram_door_fill(fd, &taken, &most)) {
        return false;
    }
    note_taken(room, taken, d->polled_ns);
    uint32_t free_len = taken < most ? most - taken : 0, part = free_len / SENDERS;
    room->left = part > cost ? part : free_len;
    return room->left >= cost || !is_given_up(room, d->polled_ns);
}

// Of a lane both know how full it is.
static bool lane_has(struct datagram_udp *d, struct datagram_lane_out *lane,
                     const struct datagram_tx *tx)
{
    if (lane_has_room(&lane->writer, tx)) {
        return true;
    }
    note_taken(&lane->room, (uint32_t)lane->writer.ring.taken, d->polled_ns);
    return is_given_up(&lane->room, d->polled_ns);
}

// Who has come to the address says so, and that may not have been read yet. It is asked, in case
// its word was lost.
static bool is_word_due(struct datagram_udp *d, struct datagram_place *place, unsigned slot)
{
    struct datagram_room *room = &place->rooms[slot];
    if (room->looks == 0) {
        room->taken_ns = d->polled_ns;
        if (datagram_share_ask(&d->share, slot, &place->local, place->scope_id,
                               place->door.count) == -ECONNREFUSED) {
            return false; // nobody is there
        }
    }
    room->looks++;
    return !is_given_up(room, d->polled_ns);
}

bool datagram_udp_has_room(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_lane_out *lane = datagram_lane_of(d, tx);
    if (lane != NULL) {
        return lane_has(d, lane, tx);
    }
    if (!tx->is_sent_once) {
        return true;
    }
    struct datagram_place *place = datagram_place_find(d, &tx->path->remote);
    uint32_t qp_num = datagram_dest_qp(tx->head), slot = qp_num >> DATAGRAM_SLOT_SHIFT;
    if (place == NULL || qp_num <= BTH_QP_GSI || slot >= DATAGRAM_SHARE_SLOTS) {
        return true; // nobody knows
    }
    if (!datagram_door_has_slot(&place->door, slot)) {
        return !is_word_due(d, place, slot);
    }
    struct datagram_room *room = &place->rooms[slot];
    uint32_t cost = cost_of(tx);
    if (room->left < cost && !look(d, datagram_door_slot_fd(&place->door, slot), room, cost)) {
        return true; // it is lost
    }
    if (room->left < cost) {
        return false;
    }
    room->left -= cost;
    return true;
}
