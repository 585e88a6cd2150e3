// Lanes from other processes: taken over, looked at, emptied in turn (lanes.h).

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lingering.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/time.h"
#include "link/datagram/lane.h"
#include "link/datagram/lanes.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/local/sealed.h"
#include "link/sys.h"
#include "wire/bth.h"

enum { BELLS_AT_A_LOOK = 64 };

static const duration_ns fresh_ns = 10 * NS_PER_MS; // so long sockets go first

static struct datagram_lane_in *at_turn(struct list_link *l)
{
    return LIST_ENTRY(l, struct datagram_lane_in, turn);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void lane_end(struct datagram_udp *d, struct datagram_lane_in *lane)
{
    if (lane->inlet.fd >= 0) {
        datagram_inlet_forget(d, &lane->inlet);
    }
    sys_close_fd(&lane->inlet.fd);
    if (d->lanes.lent == lane) {
        d->lanes.lent = NULL;
    }
    d->lanes.fresh_count -= lane->memory != NULL && lane->fresh_until_ns != 0;
    list_remove(&lane->turn);
    local_sealed_release(lane->memory, LANE_MEMORY_LEN);
    lane->memory = NULL;
}

// Nothing comes any more, and nothing of it is handed up.
static bool has_ended(struct datagram_lane_in *lane)
{
    return lane->reader.is_broken || (lane->is_over && !lane_has_news(&lane->reader));
}

// Who has hung up is out of our memory too (way.h). Of one that is broken we hang up; its memory,
// where he says that he is in, stays until the other process does.
static void end_if_over(struct datagram_udp *d, struct datagram_lane_in *lane)
{
    if (d->lanes.lent == lane || !has_ended(lane)) {
        return;
    }
    d->lanes.counters.local_lanes_broken += lane->reader.is_broken && !lane->is_shut;
    if (lane->is_over) {
        lane_end(d, lane);
    } else if (!lane->is_shut) {
        datagram_lane_shut(lane);
    }
}

static int copies_make(struct datagram_lanes *lanes)
{
    lanes->copies = lanes->copies != NULL ? lanes->copies : malloc(LANE_COPIES_LEN);
    return lanes->copies != NULL ? 0 : -ENOMEM;
}

// Who had the slot before may have ended without our having noticed yet.
static int lane_begin(struct datagram_udp *d, struct datagram_lane_in *lane,
                      const struct datagram_share_message *m)
{
    if (!d->config.is_local || m->count != LANE_LAYOUT || m->from == d->share.slot ||
        m->fd_count != DATAGRAM_SHARE_LANE_FDS || !sys_is_socket_of_host(m->fds[1])) {
        return -EINVAL;
    }
    if (lane->memory != NULL && !sys_has_hung_up(lane->inlet.fd)) {
        return -EBUSY;
    }
    if (lane->memory != NULL) {
        lane_end(d, lane);
    }
    int error = copies_make(&d->lanes);
    error = error == 0 ? local_sealed_adopt(m->fds[0], LANE_MEMORY_LEN, &lane->memory) : error;
    if (error != 0) {
        return error;
    }
    lane->inlet.fd = m->fds[1];
    lane->fresh_until_ns = INSTANT_NEVER;
    lane->is_over = lane->is_shut = false;
    lane->tells_left = 0;
    lane->leaver = 0;
    memset(lane->inside, 0, sizeof lane->inside);
    d->lanes.fresh_count++;
    lane_reader_init(&lane->reader, lane->memory, d->lanes.copies);
    list_push_tail(&d->lanes.turns, &lane->turn);
    error = datagram_inlet_watch(d, &lane->inlet);
    if (error != 0) {
        lane->inlet.fd = -1; // the message's
        lane_end(d, lane);
    }
    return error;
}

void datagram_lane_take_over(struct datagram_udp *d, const struct datagram_share_message *m)
{
    struct datagram_lane_in *lane = &d->lanes.in[m->from];
    if (lane_begin(d, lane, m) != 0) {
        d->lanes.counters.local_lanes_refused++;
        sys_close_fds(m->fds, m->fd_count);
        return;
    }
    sys_close(m->fds[0]);
    d->lanes.counters.local_lanes_taken++;
    datagram_lane_let_in(d, lane, m);
    lane_take_up(&lane->reader);
    if (datagram_is_waited_for(d)) { // and would not be woken by what comes by it
        datagram_inlet_wake(d);
    }
}

void datagram_lane_in_hear(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    struct datagram_lane_in *lane = LIST_ENTRY(inlet, struct datagram_lane_in, inlet);
    uint8_t octets[BELLS_AT_A_LOOK];
    const ssize_t len = sys_recv(inlet->fd, octets, sizeof octets, MSG_DONTWAIT);
    if (len <= 0 && len != -EAGAIN && len != -EINTR) {
        lane->is_over = true;
        datagram_inlet_forget(d, inlet);
        sys_close_fd(&inlet->fd);
        end_if_over(d, lane);
    }
}

/* ---- packets --------------------------------------------------------------------------------- */

bool datagram_lanes_have_news(struct datagram_udp *d)
{
    for (struct list_link *l = d->lanes.turns.next; l != &d->lanes.turns; l = l->next) {
        if (lane_has_news(&at_turn(l)->reader)) {
            return true;
        }
    }
    return false;
}

// Sockets have been emptied of what was sent before, or would be for too long.
static bool may_take(struct datagram_udp *d, struct datagram_lane_in *lane, bool is_dry)
{
    if (lane->fresh_until_ns == INSTANT_NEVER) {
        lane->fresh_until_ns = instant_after(d->in.now_ns, fresh_ns);
    }
    if (lane->fresh_until_ns != 0 && (is_dry || d->in.now_ns >= lane->fresh_until_ns)) {
        lane->fresh_until_ns = 0;
        d->lanes.fresh_count--;
    }
    return lane->fresh_until_ns == 0;
}

// Another's, by mistake, or by intent.
static bool is_ours(struct datagram_udp *d, const struct datagram_rx *rx)
{
    const uint32_t qp_num = datagram_dest_qp(rx->octets);
    const bool is = qp_num > BTH_QP_GSI && datagram_slot_has(&d->base, qp_num) &&
                    datagram_place_find(d, &rx->local) != NULL;
    d->lanes.counters.local_strays += !is;
    d->lanes.counters.local_packets_in += is;
    return is;
}

static unsigned packets_take(struct datagram_udp *d, struct datagram_lane_in *lane,
                             struct datagram_rx *ret, unsigned max)
{
    const unsigned most = max < LANE_BATCH_MAX ? max : LANE_BATCH_MAX;
    unsigned count = 0;
    datagram_lane_tell(d, lane);
    for (unsigned i = 0; i < most && lane_next(&lane->reader, &ret[count]); i++) {
        count += is_ours(d, &ret[count]);
    }
    d->lanes.lent = lane;
    d->lanes.moved_ns = d->in.now_ns;
    return count;
}

unsigned datagram_lanes_take(struct datagram_udp *d, struct datagram_rx *ret, unsigned max,
                             bool is_dry)
{
    datagram_lanes_give_back(d);
    for (struct list_link *l = d->lanes.turns.next; l != &d->lanes.turns; l = l->next) {
        struct datagram_lane_in *lane = at_turn(l);
        if (lane_has_news(&lane->reader) && may_take(d, lane, is_dry)) {
            list_remove(l);
            list_push_tail(&d->lanes.turns, l);
            return packets_take(d, lane, ret, max);
        }
    }
    return 0;
}

void datagram_lanes_give_back(struct datagram_udp *d)
{
    struct datagram_lane_in *lane = d->lanes.lent;
    if (lane != NULL) {
        d->lanes.lent = NULL;
        lane_give_back(&lane->reader);
        end_if_over(d, lane);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

void datagram_lanes_rise(struct datagram_udp *d)
{
    for (struct list_link *l = d->lanes.turns.next; l != &d->lanes.turns; l = l->next) {
        lane_rise(&at_turn(l)->reader);
    }
}

// To look on for a while saves a wake-up if something comes.
static bool lingers(struct datagram_udp *d)
{
    struct datagram_lanes *s = &d->lanes;
    if (s->moved_seen_ns != s->moved_ns) {
        s->moved_seen_ns = s->moved_ns;
        if (s->is_lingering) {
            lingering_note(&s->lingering, true);
        }
        s->is_lingering = lingering_is_worth_it(&s->lingering);
    }
    if (s->is_lingering && d->polled_ns >= instant_after(s->moved_ns, d->config.linger_ns)) {
        s->is_lingering = false;
        lingering_note(&s->lingering, false);
    }
    return s->is_lingering;
}

bool datagram_lanes_sleep(struct datagram_udp *d)
{
    datagram_lanes_give_back(d);
    const bool has_lanes = !list_is_empty(&d->lanes.turns);
    bool may = !has_lanes || !lingers(d);
    for (struct list_link *l = d->lanes.turns.next; may && l != &d->lanes.turns; l = l->next) {
        may = lane_sleep(&at_turn(l)->reader);
    }
    if (!may) {
        datagram_lanes_rise(d);
    }
    atomic_store_explicit(&d->lanes.have_lingered, has_lanes, memory_order_relaxed);
    return may;
}

/* ---- the end --------------------------------------------------------------------------------- */

void datagram_lanes_in_fini(struct datagram_udp *d)
{
    while (!list_is_empty(&d->lanes.turns)) {
        lane_end(d, at_turn(d->lanes.turns.next));
    }
    free(d->lanes.copies);
    d->lanes.copies = NULL;
}
