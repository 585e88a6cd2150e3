// Lanes to other processes: made, opened, filled (lanes.h).

#include <errno.h>
#include <sys/socket.h>

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

enum {
    PUT_BEFORE = 8,       // packets by UDP before a lane is made: pairs that are idle have none
    SHOWN_LEN = 16 << 10, // octets that are shown before more is put
};

static const duration_ns retry_ns = NS_PER_S; // to a process that takes none, or is gone

/* ---- making ---------------------------------------------------------------------------------- */

void datagram_lane_leave(struct datagram_udp *d, struct datagram_lane_out *lane)
{
    const unsigned slot = (unsigned)(lane - d->lanes.out);
    if (lane->inlet.fd >= 0) {
        datagram_inlet_forget(d, &lane->inlet);
    }
    if (!datagram_way_keep(d, lane)) {
        sys_close_fd(&lane->inlet.fd);
        local_sealed_release(lane->memory, LANE_MEMORY_LEN);
    }
    lane->inlet.fd = -1;
    lane->memory = NULL;
    lane->is_open = false;
    lane->process = 0;
    lane->put_count = 0;
    d->lanes.unpublished &= ~(UINT64_C(1) << slot);
}

// The memory, and the end of its socket that the other process gets.
static int means_make(struct datagram_lane_out *lane, int ret_fds[DATAGRAM_SHARE_LANE_FDS])
{
    int ends[2];
    int error = sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, ends);
    if (error != 0) {
        return error;
    }
    lane->inlet.fd = ends[0];
    ret_fds[1] = ends[1];
    error = local_sealed_create("weft-lane", LANE_MEMORY_LEN, LOCAL_SEALED_LEN, &lane->memory,
                                &ret_fds[0]);
    return error;
}

static void offer(struct datagram_udp *d, struct datagram_lane_out *lane)
{
    const unsigned slot = (unsigned)(lane - d->lanes.out);
    int fds[DATAGRAM_SHARE_LANE_FDS] = {-1, -1};
    lane->put_count = 0;
    lane->offer = ++d->lanes.offers;
    lane->retry_ns = instant_after(d->polled_ns, retry_ns);
    int error = means_make(lane, fds);
    error = error == 0 ? datagram_inlet_watch(d, &lane->inlet) : error;
    d->lanes.counters.local_lanes_failed += error != 0;
    if (error == 0) {
        lane_writer_init(&lane->writer, lane->memory);
        error = datagram_share_lane(&d->share, slot, LANE_LAYOUT, lane->offer, fds);
    }
    sys_close_fd(&fds[0]);
    sys_close_fd(&fds[1]);
    d->lanes.counters.local_lanes_made += error == 0;
    if (error != 0) {
        datagram_lane_leave(d, lane);
    }
}

// The kernel says who has sent that, and by which slot; the offer, that it is about this lane and
// not about one to who had the slot before.
void datagram_lane_note_taken(struct datagram_udp *d, const struct datagram_share_message *m)
{
    struct datagram_lane_out *lane = &d->lanes.out[m->from];
    if (lane->memory != NULL && lane->process == 0 && m->first == lane->offer) {
        lane->process = m->process;
    }
}

/* ---- which ----------------------------------------------------------------------------------- */

// That leads to the process whose queue pair it is for; NULL: it is this one's, or nobody's.
static struct datagram_lane_out *lane_to(struct datagram_udp *d, const struct datagram_tx *tx)
{
    const uint32_t qp_num = datagram_dest_qp(tx->head), slot = qp_num >> DATAGRAM_SLOT_SHIFT;
    const bool is_ones = d->config.is_local && qp_num > BTH_QP_GSI && slot != d->share.slot &&
                         slot < DATAGRAM_SHARE_SLOTS;
    return is_ones ? &d->lanes.out[slot] : NULL;
}

// Processes of other hosts have slots too.
static bool is_of_host(const struct datagram_udp *d, const struct datagram_tx *tx)
{
    return datagram_place_find(d, &tx->path->remote) != NULL;
}

struct datagram_lane_out *datagram_lane_of(struct datagram_udp *d, const struct datagram_tx *tx)
{
    struct datagram_lane_out *lane = lane_to(d, tx);
    return lane != NULL && lane->is_open && is_of_host(d, tx) ? lane : NULL;
}

bool datagram_lane_note(struct datagram_udp *d, const struct datagram_tx *tx)
{
    struct datagram_lane_out *lane = lane_to(d, tx);
    if (lane == NULL || lane->is_open || !is_of_host(d, tx)) {
        return false;
    }
    if (lane->memory != NULL) {
        return lane_is_read(&lane->writer);
    }
    if (++lane->put_count >= PUT_BEFORE && d->polled_ns >= lane->retry_ns) {
        offer(d, lane);
    }
    return false;
}

struct datagram_lane_out *datagram_lane_open(struct datagram_udp *d, const struct datagram_tx *tx)
{
    struct datagram_lane_out *lane = lane_to(d, tx);
    lane->is_open = true;
    lane->room = (struct datagram_room){.taken_ns = d->polled_ns};
    return lane;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void publish(struct datagram_udp *d, struct datagram_lane_out *lane)
{
    static const uint8_t octet;
    if (lane_publish(&lane->writer)) {
        d->lanes.counters.local_bells++;
        sys_sendto(lane->inlet.fd, &octet, sizeof octet, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
    }
}

bool datagram_lane_put(struct datagram_udp *d, struct datagram_lane_out *lane,
                       const struct datagram_place *place, const struct datagram_tx *tx)
{
    struct datagram_path path = *tx->path;
    path.source_port = place->tx_port;
    path.hop_limit = datagram_hop_limit(&d->base, &path);
    if (lane_put(&lane->writer, tx, &path)) {
        d->lanes.counters.local_packets_out++;
        d->lanes.unpublished |= UINT64_C(1) << (lane - d->lanes.out);
        if (lane->writer.unshown_len >= SHOWN_LEN) {
            publish(d, lane);
        }
        return true;
    }
    if (lane_writer_is_broken(&lane->writer)) {
        d->lanes.counters.local_lanes_broken++;
        datagram_lane_leave(d, lane);
        return false;
    }
    d->lanes.counters.local_full++;
    return true; // as a buffer does that is full
}

void datagram_lanes_publish(struct datagram_udp *d)
{
    while (d->lanes.unpublished != 0) {
        const int slot = __builtin_ctzll(d->lanes.unpublished);
        d->lanes.unpublished &= d->lanes.unpublished - 1;
        publish(d, &d->lanes.out[slot]);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void datagram_lane_out_hear(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    uint8_t stray;
    const ssize_t len = sys_recv(inlet->fd, &stray, sizeof stray, MSG_DONTWAIT);
    if (len <= 0 && len != -EAGAIN && len != -EINTR) {
        datagram_lane_leave(d, LIST_ENTRY(inlet, struct datagram_lane_out, inlet));
    }
}
