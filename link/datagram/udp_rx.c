// The UDP datagram link's way in.

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/datagram/octets.h"
#include "link/datagram/onward.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/fault_model.h"
#include "link/sys.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/icrc_known.h"
#include "wire/udp_header.h"

enum {
    CONTROL_LEN = 256,
    ASKS_MAX = 16,
    READS_MAX = 16,       // in vain, a call: who floods us does not keep it from what else is due
    GIVEN_FIRST_MAX = 64, // messages: who says more than that does not hold up what was read
    INPUT_HALF_LEN = DATAGRAM_MESSAGES_MAX * DATAGRAM_MESSAGE_LEN,
};
static const duration_ns others_ns = 10 * NS_PER_MS; // how long other processes are known
STATIC_CHECK(DATAGRAM_SHARE_SLOTS == 64);
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* ---- messages -------------------------------------------------------------------------------- */

struct control {
    _Alignas(struct cmsghdr) uint8_t octets[CONTROL_LEN];
};

static int control_int(const struct cmsghdr *at)
{
    int value = 0;
    size_t len = at->cmsg_len - CMSG_LEN(0);
    memcpy(&value, CMSG_DATA(at), len < sizeof value ? len : sizeof value);
    return value;
}

// One of what the socket was asked to tell.
static void control_apply(struct datagram_udp *d, struct datagram_inlet *inlet,
                          const struct cmsghdr *at, struct datagram_arrival *ret)
{
    int level = at->cmsg_level, type = at->cmsg_type, value = control_int(at);
    if (level == IPPROTO_UDP && type == UDP_GRO) {
        ret->segment_len = value > 0 ? (size_t)value : ret->segment_len;
    } else if ((level == IPPROTO_IP && type == IP_TTL) ||
               (level == IPPROTO_IPV6 && type == IPV6_HOPLIMIT)) {
        ret->rx.hop_limit = (uint8_t)value;
    } else if ((level == IPPROTO_IP && type == IP_TOS) ||
               (level == IPPROTO_IPV6 && type == IPV6_TCLASS)) {
        ret->rx.traffic_class = (uint8_t)value;
    } else if (level == SOL_SOCKET && type == SO_RXQ_OVFL) {
        d->counters.buffer_overflows += (uint32_t)value - inlet->dropped;
        inlet->dropped = (uint32_t)value;
    }
}

static void arrival_read(struct datagram_udp *d, struct datagram_inlet *inlet, struct msghdr *msg,
                         size_t len, struct datagram_arrival *ret)
{
    *ret = (struct datagram_arrival){.kind = inlet->kind,
                                     .rx = {.local = inlet->local},
                                     .left = mspan_of(msg->msg_iov->iov_base, len),
                                     .segment_len = len};
    datagram_addr(msg->msg_name, &ret->rx.remote, &ret->rx.scope_id, &ret->rx.source_port);
    d->has_neighbour = d->config.is_local && datagram_place_find(d, &ret->rx.remote) != NULL;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at != NULL; at = CMSG_NXTHDR(msg, at)) {
        control_apply(d, inlet, at, ret);
    }
}

// One alone takes the call that does least.
static int messages_receive(int fd, struct mmsghdr *msgs, unsigned count)
{
    if (count > 1) {
        return sys_recvmmsg(fd, msgs, count, MSG_DONTWAIT);
    }
    ssize_t len = sys_recvmsg(fd, &msgs[0].msg_hdr, MSG_DONTWAIT);
    msgs[0].msg_len = len < 0 ? 0 : (unsigned)len;
    return len < 0 ? (int)len : 1;
}

// How many messages with the next call: one, which is quick, where there was none. What has come
// together is done before more is read: so much stays in the nearest cache, and its sender hears of
// it.
static void want_next(struct datagram_input *in, bool is_long)
{
    in->wanted = in->count > 0 && !is_long ? DATAGRAM_MESSAGES_MAX : 1;
}

// One system call, into the half that nothing was handed up from. False: less was there than was
// asked for.
static bool read_some(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    struct datagram_input *in = &d->in;
    struct mmsghdr msgs[DATAGRAM_MESSAGES_MAX];
    struct iovec iov[DATAGRAM_MESSAGES_MAX];
    struct control control[DATAGRAM_MESSAGES_MAX];
    struct sockaddr_storage from[DATAGRAM_MESSAGES_MAX];
    uint8_t *buffer = in->buffers + (in->half == 0 ? INPUT_HALF_LEN : 0);
    for (unsigned i = 0; i < in->wanted; i++) {
        iov[i] = (struct iovec){buffer + (size_t)i * DATAGRAM_MESSAGE_LEN, DATAGRAM_MESSAGE_LEN};
        msgs[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                          .msg_namelen = sizeof from[i],
                                          .msg_iov = &iov[i],
                                          .msg_iovlen = 1,
                                          .msg_control = control[i].octets,
                                          .msg_controllen = sizeof control[i]};
    }
    int got = messages_receive(inlet->fd, msgs, in->wanted);
    in->at = 0;
    in->count = got > 0 ? (unsigned)got : 0;
    const bool is_long = in->count > 0 && msgs[0].msg_len >= DATAGRAM_BURST_LEN;
    want_next(in, is_long);
    if (got <= 0) {
        return false;
    }
    in->half = 1 - in->half;
    in->last = inlet;
    in->given_first = inlet->kind == DATAGRAM_INLET_MANAGEMENT ? GIVEN_FIRST_MAX : 0;
    for (unsigned i = 0; i < in->count; i++) {
        d->counters.trains_in++;
        arrival_read(d, inlet, &msgs[i].msg_hdr, msgs[i].msg_len, &in->arrivals[i]);
    }
    return is_long || in->count == DATAGRAM_MESSAGES_MAX;
}

/* ---- the ICRC -------------------------------------------------------------------------------- */

// In front of the BTH of a packet of `len` octets, ICRC included; most of what comes together is
// equally long.
static uint32_t icrc_state_of(struct datagram_udp *d, struct datagram_arrival *a, size_t len)
{
    if (a->icrc_len != len) {
        const struct icrc_outer outer = {.src = &a->rx.remote,
                                         .dst = &a->rx.local,
                                         .fragment = ICRC_DF,
                                         .src_port = a->rx.source_port,
                                         .dst_port = d->config.port,
                                         .udp_len = (uint16_t)(UDP_HEADER_LEN + len)};
        a->icrc_state = icrc_known_begin(&d->known_in, &outer);
        a->icrc_len = len;
    }
    return a->icrc_state;
}

// The socket does not show the identification of an IPv4 packet. Weft's counts up from 0 within
// what left together, whatever of that came together. A stranger's may be any, and is found, so
// that what no identification explains is known to be wrong.
static bool is_icrc_good(struct datagram_udp *d, struct datagram_arrival *a, unsigned index,
                         struct mspan packet, bool *ret_is_checked)
{
    const size_t covered_len = packet.len - ICRC_LEN;
    const bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&a->rx.remote);
    const uint32_t part = is_ipv4 ? icrc_ids_part(&d->ids, (uint16_t)index) : 0;
    const uint32_t state = icrc_state_of(d, a, packet.len) ^ part;
    const uint32_t difference =
        icrc_finish(state, packet.ptr, covered_len) ^ icrc_get(packet.ptr + covered_len);
    uint16_t id_difference;
    *ret_is_checked = difference == 0;
    if (difference == 0 || !is_ipv4) {
        return difference == 0;
    }
    if (!icrc_ids_find(&d->ids, UDP_HEADER_LEN + packet.len, difference, &id_difference)) {
        return false;
    }
    *ret_is_checked = (index ^ id_difference) < DATAGRAM_TRAIN_PACKETS_MAX;
    d->counters.icrc_unchecked += !*ret_is_checked;
    return true;
}

/* ---- packets --------------------------------------------------------------------------------- */

static void count_handed_on(struct datagram_udp *d, int error)
{
    d->counters.handed_on += error == 0;
    d->counters.handed_on_lost += error != 0 && error != -ECONNREFUSED;
}

// All slots are tried now and then, and meanwhile those that were found: a flood costs no more than
// that.
static void hand_to_all(struct datagram_udp *d, const struct datagram_rx *rx)
{
    struct datagram_input *in = &d->in;
    bool is_search = in->now_ns >= in->others_until_ns;
    uint64_t tried = is_search ? UINT64_MAX : in->others;
    in->others = 0;
    in->others_until_ns = is_search ? instant_after(in->now_ns, others_ns) : in->others_until_ns;
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if (slot != d->share.slot && (tried >> slot & 1) != 0) {
            int error = datagram_onward_put(&d->onward, &d->share, slot, rx, in->now_ns);
            in->others |= (uint64_t)(error != -ECONNREFUSED) << slot;
            count_handed_on(d, error);
        }
    }
}

static bool hand_on(struct datagram_udp *d, unsigned slot, const struct datagram_rx *rx)
{
    int error = slot < DATAGRAM_SHARE_SLOTS
                    ? datagram_onward_put(&d->onward, &d->share, slot, rx, d->in.now_ns)
                    : -ECONNREFUSED;
    d->counters.not_ours += error == -ECONNREFUSED;
    count_handed_on(d, error);
    return error != -ECONNREFUSED;
}

bool datagram_udp_hand_on(struct datagram_link *link, const struct datagram_rx *rx, unsigned slot)
{
    struct datagram_udp *d = datagram_udp_of(link);
    if (slot == DATAGRAM_SLOT_ALL) {
        hand_to_all(d, rx);
        return true;
    }
    return hand_on(d, slot, rx);
}

// False: the packet is nothing for this process. What came together was steered by its first
// packet, and those behind it may be another's.
static bool is_ours(struct datagram_udp *d, enum datagram_inlet_kind kind, struct datagram_rx *rx)
{
    uint32_t qp_num = datagram_dest_qp(rx->octets);
    bool is_for_all =
        kind == DATAGRAM_INLET_GROUP ? qp_num == BTH_QP_MULTICAST : qp_num == BTH_QP_GSI;
    rx->is_shared = is_for_all && kind != DATAGRAM_INLET_GROUP;
    if (is_for_all) {
        return true;
    }
    if (kind == DATAGRAM_INLET_GROUP || qp_num <= BTH_QP_GSI) {
        d->counters.not_ours++;
        return false;
    }
    if (!datagram_slot_has(&d->base, qp_num)) {
        hand_on(d, qp_num >> DATAGRAM_SLOT_SHIFT, rx);
        return false;
    }
    return true;
}

// The next packet of what came together. False: it is dropped, or another's.
static bool packet_take(struct datagram_udp *d, struct datagram_arrival *a, struct datagram_rx *ret)
{
    size_t len = a->left.len < a->segment_len ? a->left.len : a->segment_len;
    struct mspan packet = mspan_of(a->left.ptr, len);
    unsigned index = a->index++;
    fault_model_corrupt(&d->faults, packet);
    a->left = mspan_of(a->left.ptr + len, a->left.len - len);
    if (!datagram_len_is_good(len)) {
        d->counters.bad_lengths++;
        return false;
    }
    *ret = a->rx;
    ret->octets = span_of(packet.ptr, len - ICRC_LEN);
    if (!d->config.is_unchecked && !is_icrc_good(d, a, index, packet, &ret->is_checked)) {
        d->counters.icrc_wrong++;
        return false;
    }
    if (!is_ours(d, a->kind, ret)) {
        return false;
    }
    d->counters.packets_in++;
    return true;
}

// Up to `max` packets of what was read.
static unsigned packets_take(struct datagram_udp *d, struct datagram_rx *ret, unsigned max)
{
    struct datagram_input *in = &d->in;
    unsigned count = 0;
    while (count < max && in->at < in->count) {
        struct datagram_arrival *a = &in->arrivals[in->at];
        if (a->left.len == 0) {
            in->at++;
        } else {
            count += packet_take(d, a, &ret[count]);
        }
    }
    while (in->at < in->count && in->arrivals[in->at].left.len == 0) {
        in->at++;
    }
    return count;
}

/* ---- what other processes say ---------------------------------------------------------------- */

// Given once, it is not given on.
static bool message_take(struct datagram_udp *d, struct datagram_rx *ret)
{
    const struct datagram_rx *rx = &d->in.message.rx;
    if (rx->octets.len < BTH_LEN || (datagram_dest_qp(rx->octets) != BTH_QP_GSI &&
                                     !datagram_slot_has(&d->base, datagram_dest_qp(rx->octets)))) {
        d->counters.not_ours++;
        return false;
    }
    *ret = *rx;
    d->counters.handed_in++;
    d->counters.packets_in++;
    return true;
}

// Questions are answered until a packet is there. False: nothing is left to read.
static bool messages_read(struct datagram_udp *d)
{
    struct datagram_share_message *m = &d->in.message;
    int fds[DATAGRAM_SHARE_FDS];
    m->kind = DATAGRAM_SHARE_DROPPED;
    d->in.has_message = false;
    for (unsigned i = 0; i < ASKS_MAX && !d->in.has_message; i++) {
        m->fds = fds;
        datagram_share_receive(&d->share, 0, m);
        if (m->kind == DATAGRAM_SHARE_NOTHING) {
            return false;
        }
        d->in.has_message = m->kind == DATAGRAM_SHARE_PACKET;
        if (!d->in.has_message) {
            datagram_message_answer(d, m);
        }
    }
    return true;
}

/* ---- in -------------------------------------------------------------------------------------- */

// What was read. All processes read at the socket of queue pair 1: what another one has given was
// read there before this, but for what comes while both read. So it is first, or a REQ would
// overtake the RTU of the same peer.
static unsigned arrivals_take(struct datagram_udp *d, struct datagram_rx *ret, unsigned max)
{
    struct datagram_input *in = &d->in;
    while (max > 0 && in->given_first > 0) {
        in->given_first--;
        if (!messages_read(d)) {
            in->given_first = 0;
            break;
        }
        const bool has_message = in->has_message;
        in->has_message = false;
        if (has_message && message_take(d, ret)) {
            return 1;
        }
    }
    return packets_take(d, ret, max);
}

// Reads at one inlet that has something; in turn, so that none waits for another.
static void inlet_read(struct datagram_udp *d)
{
    struct datagram_inlet *inlet =
        LIST_ENTRY(list_pop_head(&d->in.ready), struct datagram_inlet, ready);
    bool has_more = inlet->kind == DATAGRAM_INLET_SHARE ? messages_read(d) : read_some(d, inlet);
    if (has_more) {
        list_push_tail(&d->in.ready, &inlet->ready);
    }
}

bool datagram_sockets_have(const struct datagram_udp *d)
{
    return d->in.at < d->in.count || !list_is_empty(&d->in.ready);
}

void datagram_udp_look(struct datagram_udp *d)
{
    struct datagram_inlet *inlet = d->in.last;
    if (inlet != NULL && read_some(d, inlet)) {
        list_push_tail(&d->in.ready, &inlet->ready);
    }
}

static unsigned sockets_take(struct datagram_udp *d, struct datagram_rx *ret, unsigned max)
{
    unsigned count = arrivals_take(d, ret, max);
    // Reading puts others in the place of what is given out: once a call.
    for (unsigned i = 0; i < READS_MAX && count == 0 && max > 0 && !list_is_empty(&d->in.ready);
         i++) {
        inlet_read(d);
        if (d->in.has_message) {
            d->in.has_message = false;
            count = message_take(d, ret);
        } else {
            count = arrivals_take(d, ret, max);
        }
    }
    return count;
}

// Lanes and sockets in turn, where both have something.
unsigned datagram_udp_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                              instant_ns now)
{
    struct datagram_udp *d = datagram_udp_of(link);
    d->in.now_ns = now;
    datagram_lanes_give_back(d);
    const bool is_dry = !datagram_sockets_have(d);
    unsigned count = 0;
    if (is_dry || !d->lanes.had_turn) {
        count = datagram_lanes_take(d, ret, max, is_dry);
        d->lanes.had_turn = count > 0;
    }
    if (count == 0) {
        count = sockets_take(d, ret, max);
        d->lanes.had_turn = false;
    }
    return count;
}
