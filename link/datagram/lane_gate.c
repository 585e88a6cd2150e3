// Who may write past a lane into this process's memory, and whether he is out (way.h). As in struct
// packet_push_ops.

#include <errno.h>
#include <sys/socket.h>

#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_packet_push.h"
#include "base/time.h"
#include "link/datagram/lane.h"
#include "link/datagram/lanes.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/local/inside.h"
#include "link/local/keys.h"
#include "link/local/slot.h"
#include "link/local/thread.h"
#include "link/sys.h"

enum { TELLS_MAX = 64 };

static struct datagram_lane_in *at_turn(struct list_link *l)
{
    return LIST_ENTRY(l, struct datagram_lane_in, turn);
}

static struct key_mirror *mirror(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    if (!d->config.is_local || (d->config.rights & KEY_MAY_WRITE) == 0) {
        return NULL;
    }
    struct local_shown *shown = local_own_keys_show(&d->lanes.own_keys, d->config.trace);
    return shown != NULL ? &shown->keys : NULL;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

// He hears from the kernel whose memory it is. Where his socket is full that is said later, while
// packets come; and if he never reads it he writes none but packets.
void datagram_lane_tell(struct datagram_udp *d, struct datagram_lane_in *lane)
{
    if (lane->tells_left > 0) {
        const unsigned slot = (unsigned)(lane - d->lanes.in);
        const int error = datagram_share_taken(&d->share, slot, lane->offer);
        lane->tells_left = error == -EAGAIN ? lane->tells_left - 1 : 0;
    }
}

// Who cannot be looked at could not be waited for, and so does not write.
void datagram_lane_let_in(struct datagram_udp *d, struct datagram_lane_in *lane,
                          const struct datagram_share_message *m)
{
    const struct local_own_keys *own = &d->lanes.own_keys;
    struct local_gate *gate = lane_gate(lane->memory);
    lane->process = m->process;
    if (own->shown == NULL || !local_threads_are_visible(m->process)) {
        return;
    }
    local_own_keys_name(own, gate);
    atomic_store(&gate->opening, 1);
    lane->offer = m->first;
    lane->tells_left = TELLS_MAX;
    datagram_lane_tell(d, lane);
}

void datagram_lane_shut(struct datagram_lane_in *lane)
{
    lane->is_shut = true;
    lane->tells_left = 0;
    atomic_store(&lane_gate(lane->memory)->opening, 0);
    sys_shutdown(lane->inlet.fd, SHUT_WR);
}

/* ---- who is in ------------------------------------------------------------------------------- */

static void note_inside(struct datagram_udp *d, struct datagram_lane_in *lane, unsigned i)
{
    struct local_slot *slot = lane_slot(lane->memory, i);
    if (local_inside_note(&lane->inside[i], slot, d->config.clock(d->config.clock_ctx))) {
        d->lanes.counters.local_revocations_long++;
        if (d->config.on_long_revocation != NULL) {
            d->config.on_long_revocation(lane->process, (pid_t)atomic_load(&slot->thread));
        }
    }
}

// Nobody is in by this lane, with this key or this opening.
static bool is_out(struct datagram_udp *d, struct datagram_lane_in *lane,
                   bool (*slot_is)(struct local_slot *, uint64_t, pid_t), uint64_t what)
{
    bool all = true;
    for (unsigned i = 0; i < LANE_SLOTS; i++) {
        if (!slot_is(lane_slot(lane->memory, i), what, lane->process)) {
            note_inside(d, lane, i);
            all = false;
        }
    }
    return all;
}

static bool revoke_key(struct datagram_link *link, uint64_t generation)
{
    struct datagram_udp *d = datagram_udp_of(link);
    bool all = true;
    for (struct list_link *l = d->lanes.turns.next; l != &d->lanes.turns; l = l->next) {
        all &= is_out(d, at_turn(l), local_slot_revoke, generation);
    }
    return all;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

// An opening says in which slot the peer's process is: it writes by the lane from there, and by no
// other one is anybody to hold it up.
enum { OPENING_SLOT_BITS = 8, OPENING_SLOT_MASK = (1 << OPENING_SLOT_BITS) - 1 };

static uint64_t opening_of(uint64_t number, uint32_t peer_qp_num)
{
    const uint32_t slot = peer_qp_num >> DATAGRAM_SLOT_SHIFT;
    return number << OPENING_SLOT_BITS | (slot & OPENING_SLOT_MASK);
}

// NULL: there is none, and nobody who could be in.
static struct datagram_lane_in *lane_of(struct datagram_udp *d, uint64_t opening)
{
    const unsigned slot = opening & OPENING_SLOT_MASK;
    struct datagram_lane_in *lane = slot < DATAGRAM_SHARE_SLOTS ? &d->lanes.in[slot] : NULL;
    return lane != NULL && lane->memory != NULL ? lane : NULL;
}

static struct gate_entry *open_gate(struct datagram_link *link, const struct gate *gate,
                                    uint64_t *ret)
{
    struct datagram_udp *d = datagram_udp_of(link);
    if (d->lanes.own_keys.shown == NULL) {
        return NULL;
    }
    *ret = opening_of(++d->lanes.openings, gate->peer_qp_num);
    return gate_mirror_open(&d->lanes.own_keys.shown->gates, gate, *ret);
}

static bool has_left(struct datagram_link *link, uint64_t opening)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_lane_in *lane = lane_of(d, opening);
    return lane == NULL || is_out(d, lane, local_slot_expel, opening);
}

// Who was in for long when another queue pair was done with, and is yet.
static bool has_leaver(struct datagram_link *link, struct datagram_lane_in *lane)
{
    if (lane->leaver != 0 && has_left(link, lane->leaver)) {
        lane->leaver = 0;
    }
    return lane->leaver != 0;
}

// A copy takes microseconds, and its thread may have lost its processor; but who is in for long
// waits for a page, or lies, and holds up nobody but who wants him out; so does not any other queue
// pair whose peer is in his process.
static bool close_gate(struct datagram_link *link, struct gate_entry *entry, uint64_t opening)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_lane_in *lane = lane_of(d, opening);
    gate_mirror_close(entry);
    if (lane == NULL) {
        return true;
    }
    const instant_ns begun_ns = d->config.clock(d->config.clock_ctx);
    const duration_ns patience_ns = has_leaver(link, lane) ? 0 : LOCAL_REVOKE_LONG_NS;
    while (!has_left(link, opening)) {
        if (d->config.clock(d->config.clock_ctx) >= instant_after(begun_ns, patience_ns)) {
            lane->leaver = opening;
            return false;
        }
        sys_nap(LOCAL_REVOKE_NAP_NS);
    }
    return true;
}

const struct packet_push_ops datagram_push_ops = {
    .mirror = mirror,
    .revoke = revoke_key,
    .open = open_gate,
    .close = close_gate,
    .has_left = has_left,
    .aim = datagram_push_aim,
    .put = datagram_push_put,
    .conclude = datagram_push_conclude,
};
