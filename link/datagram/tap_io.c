// The tap link's packets, out and in.

#include "base/bytes.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/alone.h"
#include "link/datagram/octets.h"
#include "link/datagram/slot.h"
#include "link/datagram/tap_link.h"
#include "link/device/tap_interface.h"
#include "link/fault_model.h"
#include "net/addr.h"
#include "net/iface.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum {
    READS_MAX = 64, // frames at a look, whatever they bring
};

/* ---- out ------------------------------------------------------------------------------------- */

static size_t ip_header_put(const struct datagram_tap *t, const struct datagram_path *path,
                            const struct net_flow *flow, size_t body_len, uint8_t *at)
{
    const struct net_packet header = {
        .tos = path->traffic_class,
        .protocol = IP_PROTOCOL_UDP,
        .hops = datagram_hop_limit(&t->alone.base, path),
        .flow_label = path->flow_label,
        .body_len = body_len,
    };
    return net_flow_ip_emit(flow, &header, at);
}

// Over IPv6 there has to be one (RFC 8200 section 8.1). The ICRC is under it, and does not see it.
static void checksum_put(const struct net_flow *flow, uint8_t *udp, size_t len)
{
    const uint64_t sum = net_flow_pseudo_sum(flow, IP_PROTOCOL_UDP, (uint32_t)len);
    const uint16_t checksum = inet_sum_fold(inet_sum_add(sum, span_of(udp, len)));
    put_be16(udp + UDP_OFF_CHECKSUM, checksum != 0 ? checksum : 0xffff);
}

static void packet_fill(const struct datagram_tap *t, const struct datagram_tx *tx,
                        struct tap_packet *p)
{
    const struct net_flow flow = {.local = datagram_tap_addr(&tx->path->local),
                                  .remote = datagram_tap_addr(&tx->path->remote)};
    const size_t udp_len = UDP_HEADER_LEN + datagram_tx_len(tx) + ICRC_LEN;
    const size_t ip_len = ip_header_put(t, tx->path, &flow, udp_len, p->octets);
    uint8_t *const udp = p->octets + ip_len;
    put_be16(udp + UDP_OFF_SRC_PORT, tx->path->source_port);
    put_be16(udp + UDP_OFF_DST_PORT, t->config.port);
    put_be16(udp + UDP_OFF_LEN, (uint16_t)udp_len);
    put_be16(udp + UDP_OFF_CHECKSUM, 0);
    uint8_t *const at = datagram_tx_copy(tx, udp + UDP_HEADER_LEN);
    uint32_t icrc = 0;
    icrc_of_packet(span_of(p->octets, (size_t)(at - p->octets)), &icrc);
    icrc_put(at, icrc);
    if (!net_addr_is_ipv4(&flow.remote)) {
        checksum_put(&flow, udp, udp_len);
    }
    p->path = *tx->path;
    p->len = ip_len + udp_len;
    p->head_len = ip_len + UDP_HEADER_LEN;
}

bool datagram_tap_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_tap *t = datagram_tap_of(link);
    struct list_link *l = list_pop_head(&t->unused);
    if (l == NULL) {
        t->was_full = true;
        return false;
    }
    struct tap_packet *p = LIST_ENTRY(l, struct tap_packet, link);
    packet_fill(t, tx, p);
    list_push_tail(&t->staged, &p->link);
    t->counters.packets_out++;
    return true;
}

// What we send to ourselves is on no wire. Where there is no room for a copy it is lost.
static void loop_copy(struct datagram_tap *t, const struct tap_packet *p)
{
    struct list_link *l = list_pop_head(&t->unused);
    if (l != NULL) {
        struct tap_packet *copy = LIST_ENTRY(l, struct tap_packet, link);
        copy->path = p->path;
        copy->len = p->len;
        copy->head_len = p->head_len;
        memcpy(copy->octets, p->octets, p->len);
        list_push_tail(&t->looped, &copy->link);
        t->counters.looped++;
    }
}

// The oldest go, as with Linux: who does not answer holds up nobody who is asked for later.
static void wait_for_neighbour(struct datagram_tap *t, struct tap_packet *p)
{
    if (t->waiting_count == TAP_WAITING_MAX) {
        list_push_tail(&t->unused, list_pop_head(&t->waiting));
        t->waiting_count--;
        t->counters.not_resolved++;
    }
    list_push_tail(&t->waiting, &p->link);
    t->waiting_count++;
}

// The packet is in no list. False: it has not left, and is the caller's still.
static bool send_one(struct datagram_tap *t, struct tap_packet *p, instant_ns now)
{
    const struct net_addr remote = datagram_tap_addr(&p->path.remote);
    if (net_iface_has_addr(&t->iface, &remote)) {
        list_push_tail(&t->looped, &p->link);
        t->counters.looped++;
        return true;
    }
    if (p->len > t->iface.config.mtu) {
        t->counters.too_long++;
        list_push_tail(&t->unused, &p->link);
        return true;
    }
    switch (net_iface_send_packet(&t->iface, mspan_of(p->octets, p->len), &remote, now)) {
    case NET_SENT_NO_ROOM:
        t->is_blocked = true;
        t->counters.waits++;
        return false;
    case NET_SENT_ASKED:
        wait_for_neighbour(t, p);
        return true;
    case NET_SENT:
        if (net_addr_is_multicast(&remote) && datagram_alone_is_open(&t->alone, &p->path.remote)) {
            loop_copy(t, p);
        }
        break;
    case NET_SENT_UNREACHABLE:
        break;
    }
    list_push_tail(&t->unused, &p->link);
    return true;
}

// Somebody has been found, or does not answer: what waited is tried again, in its order.
static void waiting_retry(struct datagram_tap *t, instant_ns now)
{
    struct list_link todo, *l;
    list_move_all(&todo, &t->waiting);
    t->waiting_count = 0;
    while ((l = list_pop_head(&todo)) != NULL) {
        struct tap_packet *p = LIST_ENTRY(l, struct tap_packet, link);
        if (t->is_blocked || !send_one(t, p, now)) {
            wait_for_neighbour(t, p);
        }
    }
}

bool datagram_tap_flush(struct datagram_link *link)
{
    struct datagram_tap *t = datagram_tap_of(link);
    const instant_ns now = list_is_empty(&t->staged) ? 0 : datagram_tap_now(t);
    struct list_link *l;
    while (!t->is_blocked && (l = list_pop_head(&t->staged)) != NULL) {
        if (!send_one(t, LIST_ENTRY(l, struct tap_packet, link), now)) {
            list_push_head(&t->staged, l);
        }
    }
    t->was_full |= !list_is_empty(&t->staged);
    return list_is_empty(&t->staged);
}

/* ---- in -------------------------------------------------------------------------------------- */

unsigned datagram_tap_poll(struct datagram_link *link, instant_ns now)
{
    struct datagram_tap *t = datagram_tap_of(link);
    if (now >= net_iface_next_deadline(&t->iface) && net_iface_on_deadline(&t->iface, now)) {
        waiting_retry(t, now);
    }
    const unsigned ready = tap_interface_look(&t->interface);
    t->has_frames = (ready & TAP_READY_FRAMES) != 0;
    if ((ready & TAP_READY_ROOM) != 0) {
        t->is_blocked = false;
        waiting_retry(t, now);
    }
    const bool is_room = datagram_tap_has_room_again(t);
    t->was_full = t->was_full && !is_room;
    return (t->has_frames || !list_is_empty(&t->looped) ? DATAGRAM_READY_IN : 0) |
           (is_room ? DATAGRAM_READY_ROOM : 0);
}

static bool is_of_a_slot(const struct datagram_tap *t, struct span octets)
{
    const uint32_t qp_num = datagram_dest_qp(octets);
    return qp_num == BTH_QP_GSI || qp_num == BTH_QP_MULTICAST ||
           datagram_slot_has(&t->alone.base, qp_num);
}

static bool is_icrc_good(struct datagram_tap *t, struct span packet)
{
    const size_t covered_len = packet.len - ICRC_LEN;
    uint32_t icrc;
    return t->config.is_unchecked || (icrc_of_packet(span_of(packet.ptr, covered_len), &icrc) &&
                                      icrc_get(packet.ptr + covered_len) == icrc);
}

static struct in6_addr in6_of(const struct net_addr *a)
{
    struct in6_addr ret;
    memcpy(ret.s6_addr, a->octets, sizeof ret.s6_addr);
    return ret;
}

// A datagram that has come by the interface. False: it is dropped.
static bool datagram_take(struct datagram_tap *t, const struct net_arrival *a,
                          struct datagram_rx *ret)
{
    const size_t len = a->segment.len - UDP_HEADER_LEN;
    if (get_be16(a->segment.ptr + UDP_OFF_DST_PORT) != t->config.port) {
        t->counters.other_ports++;
        return false;
    }
    *ret = (struct datagram_rx){
        .local = in6_of(&a->flow.local),
        .remote = in6_of(&a->flow.remote),
        .flow_label = a->flow_label,
        .source_port = get_be16(a->segment.ptr + UDP_OFF_SRC_PORT),
        .traffic_class = a->tos,
        .hop_limit = a->hops,
        .is_checked = !t->config.is_unchecked,
    };
    if (!datagram_alone_is_open(&t->alone, &ret->local)) {
        t->counters.not_open++;
        return false;
    }
    if (!datagram_len_is_good(len)) {
        t->counters.bad_lengths++;
        return false;
    }
    if (!is_icrc_good(t, a->packet)) {
        t->counters.icrc_wrong++;
        return false;
    }
    ret->octets = span_of(a->segment.ptr + UDP_HEADER_LEN, len - ICRC_LEN);
    if (!is_of_a_slot(t, ret->octets)) {
        t->counters.not_ours++;
        return false;
    }
    return true;
}

// The next frame into this buffer. Returns -1: there is none; 0: it brought no packet; 1.
static int frame_take(struct datagram_tap *t, uint8_t *buffer, struct datagram_rx *ret,
                      instant_ns now)
{
    struct net_arrival a;
    bool is_checked;
    ssize_t len =
        tap_interface_read(&t->interface, mspan_of(buffer, TAP_FRAME_LEN_MAX), &is_checked);
    if (len < 0) {
        return -1;
    }
    // A checksum of UDP that the kernel has left to us is none; the ICRC sees what this changes.
    fault_model_corrupt(&t->faults, mspan_of(buffer, (size_t)len));
    net_iface_on_frame(&t->iface, span_of(buffer, (size_t)len), is_checked, now, &a);
    if (a.kind == NET_ARRIVAL_ROOM) {
        waiting_retry(t, now);
    }
    return a.kind == NET_ARRIVAL_DATAGRAM && datagram_take(t, &a, ret);
}

// One that we have sent to ourselves. False: it is dropped.
static bool looped_take(struct datagram_tap *t, struct tap_packet *p, struct datagram_rx *ret)
{
    *ret = (struct datagram_rx){
        .local = p->path.remote,
        .remote = p->path.local,
        .scope_id = p->path.scope_id,
        .flow_label = p->path.flow_label,
        .source_port = p->path.source_port,
        .traffic_class = p->path.traffic_class,
        .hop_limit = datagram_hop_limit(&t->alone.base, &p->path),
        .is_checked = true,
        .octets = span_of(p->octets + p->head_len, p->len - p->head_len - ICRC_LEN),
    };
    if (!datagram_alone_is_open(&t->alone, &ret->local)) {
        t->counters.not_open++;
        return false;
    }
    if (!is_of_a_slot(t, ret->octets)) {
        t->counters.not_ours++;
        return false;
    }
    return true;
}

static void taken_recycle(struct datagram_tap *t)
{
    struct list_link *l;
    while ((l = list_pop_head(&t->taken)) != NULL) {
        list_push_tail(&t->unused, l);
    }
}

unsigned datagram_tap_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                              instant_ns now)
{
    struct datagram_tap *t = datagram_tap_of(link);
    unsigned count = 0, frame_count = 0, read_count = 0;
    struct list_link *l;
    taken_recycle(t);
    while (count < max && (l = list_pop_head(&t->looped)) != NULL) {
        list_push_tail(&t->taken, l);
        count += looped_take(t, LIST_ENTRY(l, struct tap_packet, link), &ret[count]);
    }
    while (t->has_frames && count < max && frame_count < TAP_FRAMES_MAX &&
           read_count++ < READS_MAX) {
        int taken = frame_take(t, t->frames[frame_count], &ret[count], now);
        t->has_frames = taken >= 0;
        frame_count += taken > 0;
        count += taken > 0;
    }
    t->counters.packets_in += count;
    return count;
}
