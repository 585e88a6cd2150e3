// The UDP datagram link's way out.

#include <errno.h>
#include <netinet/udp.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/errno_name.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/trace.h"
#include "link/control_message.h"
#include "link/datagram/door.h"
#include "link/datagram/octets.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/icrc_known.h"
#include "wire/udp_header.h"

enum {
    CONTROL_LEN = 128,
    BATCH = 16,
    USUAL_AFTER = 16,   // messages in a row
    AS_SYSTEM_HAS = -1, // hops, to a socket
};
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/* ---- the ICRC -------------------------------------------------------------------------------- */

// In front of the BTH of a packet of `len` octets, of identification 0.
static uint32_t icrc_state_of(struct datagram_udp *d, const struct datagram_train *t, size_t len)
{
    const struct icrc_outer outer = {.src = &t->place->local,
                                     .dst = &t->path.remote,
                                     .fragment = ICRC_DF,
                                     .src_port = t->place->tx_port,
                                     .dst_port = d->config.port,
                                     .udp_len = (uint16_t)(UDP_HEADER_LEN + len)};
    return icrc_known_begin(&d->known_out, &outer);
}

// Of a packet that stands in the stage; `len` with the ICRC. The kernel numbers the IPv4 packets of
// a message 0, 1, 2 …
static void seal(struct datagram_udp *d, const struct datagram_train *t, uint16_t id,
                 uint8_t *packet, size_t len)
{
    uint32_t state = len == t->segment_len ? t->icrc_state : icrc_state_of(d, t, len);
    if (IN6_IS_ADDR_V4MAPPED(&t->path.remote)) {
        state ^= icrc_ids_part(&d->ids, id);
    }
    icrc_put(packet + len - ICRC_LEN, icrc_finish(state, packet, len - ICRC_LEN));
}

// Copies the packet to the stage, where the nearest cache has it, and its ICRC is that of the copy:
// one piece is quicker than several.
static void packet_write(struct datagram_udp *d, const struct datagram_train *t,
                         const struct datagram_tx *tx, size_t len, uint8_t *to)
{
    datagram_tx_copy(tx, to);
    seal(d, t, t->count, to, len);
}

/* ---- staging --------------------------------------------------------------------------------- */

static bool is_path_of(const struct datagram_train *t, const struct datagram_path *path,
                       uint32_t dest_qp)
{
    return t->dest_qp == dest_qp && datagram_addr_is(&t->path.remote, &path->remote) &&
           datagram_addr_is(&t->path.local, &path->local) && t->path.scope_id == path->scope_id &&
           t->path.hop_limit == path->hop_limit && t->path.traffic_class == path->traffic_class;
}

// A train of one queue pair alone: what comes together goes to one process.
static bool may_join(const struct datagram_udp *d, const struct datagram_train *t, size_t len)
{
    bool has_ended = t->len != (uint32_t)t->count * t->segment_len;
    return d->has_gso && !has_ended && len <= t->segment_len && t->count < DATAGRAM_TRAIN_PACKETS &&
           t->len + len <= DATAGRAM_TRAIN_LEN_MAX;
}

// The train that takes the packet, or NULL: there is no room.
static struct datagram_train *train_for(struct datagram_udp *d, struct datagram_place *place,
                                        const struct datagram_tx *tx, size_t len)
{
    struct datagram_stage *s = &d->stage;
    uint32_t dest_qp = datagram_dest_qp(tx->head);
    struct datagram_train *last = s->count > s->first ? &s->trains[s->count - 1] : NULL;
    if (s->len + len > DATAGRAM_STAGE_LEN) {
        return NULL;
    }
    if (last != NULL && last->sent == 0 && is_path_of(last, tx->path, dest_qp) &&
        may_join(d, last, len)) {
        return last;
    }
    if (s->len >= DATAGRAM_BURST_LEN) { // the receiver takes it while the next one is made
        datagram_udp_flush(&d->base);
    }
    if (s->count == DATAGRAM_TRAINS_MAX) {
        return NULL;
    }
    last = &s->trains[s->count++];
    *last = (struct datagram_train){.place = place,
                                    .path = *tx->path,
                                    .dest_qp = dest_qp,
                                    .at = s->len,
                                    .segment_len = (uint16_t)len};
    last->icrc_state = icrc_state_of(d, last, len);
    return last;
}

// By the memory of a process of this host. False: not by that.
static bool put_by_lane(struct datagram_udp *d, const struct datagram_place *place,
                        const struct datagram_tx *tx)
{
    struct datagram_lane_out *lane = datagram_lane_of(d, tx);
    if (lane == NULL && datagram_lane_note(d, tx) && datagram_udp_flush(&d->base)) {
        lane = datagram_lane_open(d, tx);
    }
    return lane != NULL && datagram_lane_put(d, lane, place, tx);
}

bool datagram_udp_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_place *place = datagram_place_find(d, &tx->path->local);
    size_t len = datagram_tx_len(tx) + ICRC_LEN;
    if (place == NULL) {
        d->counters.not_sent++;
        d->counters.not_open++;
        return true; // as a network does
    }
    if (d->config.is_local && put_by_lane(d, place, tx)) {
        return true;
    }
    struct datagram_train *t = train_for(d, place, tx, len);
    CHECK(tx->head.len >= BTH_LEN && len <= DATAGRAM_LEN_MAX + ICRC_LEN);
    if (t == NULL && datagram_udp_flush(link)) {
        t = train_for(d, place, tx, len);
    }
    if (t == NULL) {
        d->stage.was_full = true;
        return false;
    }
    packet_write(d, t, tx, len, d->stage.octets + d->stage.len);
    t->len += (uint32_t)len;
    t->count++;
    d->stage.len += (uint32_t)len;
    return true;
}

void datagram_stage_forget(struct datagram_udp *d, const struct datagram_place *place)
{
    struct datagram_stage *s = &d->stage;
    unsigned kept = s->first;
    for (unsigned i = s->first; i < s->count; i++) {
        if (s->trains[i].place != place) {
            s->trains[kept++] = s->trains[i];
        } else {
            d->counters.not_sent += s->trains[i].count;
        }
    }
    s->count = kept;
    s->is_blocked = s->is_blocked && !place->wants_room;
}

/* ---- messages -------------------------------------------------------------------------------- */

struct message {
    _Alignas(struct cmsghdr) uint8_t control[CONTROL_LEN];
    struct sockaddr_storage to;
    struct iovec iov;
};

// The hops of the socket are not those of what goes to a group.
static bool has_usual_hops(const struct datagram_train *t)
{
    return t->path.hop_limit ==
           (datagram_addr_is_group(&t->path.remote) ? 0 : t->place->usual.hop_limit);
}

static void control_fill(struct msghdr *msg, const struct datagram_train *t)
{
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&t->path.remote);
    int class = t->path.traffic_class, hops = t->path.hop_limit;
    if (!t->is_single && t->count > 1) {
        control_message_add(msg, IPPROTO_UDP, UDP_SEGMENT, &t->segment_len, sizeof t->segment_len);
    }
    if (class != t->place->usual.traffic_class) {
        control_message_add(msg, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                            is_ipv4 ? IP_TOS : IPV6_TCLASS, &class, sizeof class);
    }
    if (hops != 0 && !has_usual_hops(t)) {
        control_message_add(msg, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                            is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hops, sizeof hops);
    }
    msg->msg_control = msg->msg_controllen > 0 ? msg->msg_control : NULL;
}

static void usual_set(struct datagram_place *place, const struct datagram_path *path)
{
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(&path->remote);
    int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, fd = place->room.fd;
    int class = path->traffic_class, hops = path->hop_limit != 0 ? path->hop_limit : AS_SYSTEM_HAS;
    if (sys_setsockopt_int(fd, level, is_ipv4 ? IP_TOS : IPV6_TCLASS, class) == 0) {
        place->usual.traffic_class = path->traffic_class;
    }
    if (sys_setsockopt_int(fd, level, is_ipv4 ? IP_TTL : IPV6_UNICAST_HOPS, hops) == 0) {
        place->usual.hop_limit = path->hop_limit;
    }
    place->usual.else_count = 0;
}

// Most packets of an address agree in class and hops, and what the socket says takes no time: with
// each message it is a tenth of the system call. That the hops are the system's a message cannot
// say.
static void usual_follow(const struct datagram_train *t)
{
    struct datagram_usual *usual = &t->place->usual;
    if (t->path.traffic_class == usual->traffic_class && has_usual_hops(t)) {
        usual->else_count = 0;
    } else if (!datagram_addr_is_group(&t->path.remote) &&
               (++usual->else_count >= USUAL_AFTER || t->path.hop_limit == 0)) {
        usual_set(t->place, &t->path);
    }
}

// A whole train, or its next packet.
static void message_make(const struct datagram_udp *d, const struct datagram_train *t,
                         unsigned packet, struct message *m, struct msghdr *ret)
{
    uint32_t at = t->is_single ? packet * t->segment_len : 0;
    uint32_t rest = t->len - at;
    uint32_t len = t->is_single && rest > t->segment_len ? t->segment_len : rest;
    m->iov = (struct iovec){d->stage.octets + t->at + at, len};
    *ret = (struct msghdr){
        .msg_name = &m->to,
        .msg_namelen = datagram_sockaddr(&t->path.remote, t->path.scope_id, d->config.port, &m->to),
        .msg_iov = &m->iov,
        .msg_iovlen = 1,
        .msg_control = m->control};
    control_fill(ret, t);
}

/* ---- out ------------------------------------------------------------------------------------- */

// The system has no bursts: each packet leaves alone, and has identification 0.
static void trains_part(struct datagram_udp *d)
{
    struct datagram_stage *s = &d->stage;
    d->has_gso = false;
    for (unsigned i = s->first; i < s->count; i++) {
        struct datagram_train *t = &s->trains[i];
        t->is_single = true;
        for (uint32_t at = 0; at < t->len; at += t->segment_len) {
            uint32_t rest = t->len - at;
            seal(d, t, 0, s->octets + t->at + at, rest < t->segment_len ? rest : t->segment_len);
        }
    }
}

static void message_is_over(struct datagram_udp *d, bool is_sent)
{
    struct datagram_train *t = &d->stage.trains[d->stage.first];
    unsigned count = t->is_single ? 1 : t->count;
    t->sent += count;
    d->stage.first += t->sent == t->count;
    if (is_sent) {
        d->counters.trains_out++;
        d->counters.packets_out += count;
    } else {
        d->counters.not_sent += count;
    }
}

static void wait_for_room(struct datagram_udp *d)
{
    struct datagram_place *place = d->stage.trains[d->stage.first].place;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = &place->room};
    d->stage.is_blocked = true;
    d->counters.waits++;
    if (!place->wants_room) {
        place->wants_room = sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, place->room.fd, &event) == 0;
    }
}

void datagram_udp_on_room(struct datagram_udp *d, struct datagram_inlet *room)
{
    sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, room->fd, NULL);
    LIST_ENTRY(room, struct datagram_place, room)->wants_room = false;
    d->stage.is_blocked = false;
}

// What an error of the first message means. False: it has to wait.
static bool on_error(struct datagram_udp *d, int error)
{
    struct datagram_train *t = &d->stage.trains[d->stage.first];
    bool is_train = t->count > 1 && !t->is_single;
    if (error == -EAGAIN) {
        wait_for_room(d);
        return false;
    }
    if (is_train && (error == -EINVAL || error == -EIO)) {
        TRACE(d->config.trace, TRACE_LINK, "no UDP_SEGMENT here: %s", errno_name(-error));
        trains_part(d);
    } else if (error != -EINTR) {
        d->counters.too_long += error == -EMSGSIZE ? t->count : 0;
        message_is_over(d, false);
    }
    return true;
}

// One alone takes the call that does least.
static int messages_send(int fd, struct mmsghdr *headers, unsigned count)
{
    enum { FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL };
    const struct msghdr *first = &headers[0].msg_hdr;
    if (count > 1) {
        return sys_sendmmsg(fd, headers, count, FLAGS);
    }
    ssize_t sent = first->msg_control != NULL
                       ? sys_sendmsg(fd, first, FLAGS)
                       : sys_sendto(fd, first->msg_iov->iov_base, first->msg_iov->iov_len, FLAGS,
                                    first->msg_name, first->msg_namelen);
    return sent < 0 ? (int)sent : 1;
}

// One system call, of packets that leave from one socket.
static bool send_some(struct datagram_udp *d)
{
    const struct datagram_stage *s = &d->stage;
    struct message messages[BATCH];
    struct mmsghdr headers[BATCH];
    const struct datagram_place *place = s->trains[s->first].place;
    unsigned count = 0, packet = s->trains[s->first].sent;
    for (unsigned i = s->first; i < s->count && count < BATCH && s->trains[i].place == place;) {
        usual_follow(&s->trains[i]);
        message_make(d, &s->trains[i], packet, &messages[count], &headers[count].msg_hdr);
        count++;
        packet++;
        if (!s->trains[i].is_single || packet == s->trains[i].count) {
            i++;
            packet = 0;
        }
    }
    int sent = messages_send(place->room.fd, headers, count);
    for (int i = 0; i < sent; i++) {
        message_is_over(d, true);
    }
    return sent > 0 || on_error(d, sent);
}

bool datagram_udp_flush(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_stage *s = &d->stage;
    while (s->first < s->count && !s->is_blocked && send_some(d)) {
    }
    if (s->first < s->count) {
        return false;
    }
    s->len = s->count = s->first = 0;
    return true;
}
