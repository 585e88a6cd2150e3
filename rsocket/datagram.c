// A socket of datagrams: to whom it sends, which way, and what it has received. It never waits.
//
// A socket of IPv6 may have peers of IPv4, too, which it shows as ::ffff:a.b.c.d to the program and
// the kernel alone: on the wire and in between they are what they are.

#include "rsocket/datagram.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "descriptor/descriptor.h"
#include "rsocket/kernel_epoll.h"
#include "rsocket/rsocket.h"

enum { LOOK_MAX = 16 }; // datagrams over UDP that are taken in one look

// Whoever has heard nothing of a peer for so long tells it, and asks for, queue pairs anew.
static const int64_t silence_ns = 1000 * 1000 * 1000;

struct rs_datagrams {
    int epoll_fd;          // the UDP socket and the completion channels
    struct list_link uds;  // of local addresses
    struct rs_peers peers; // their queue pairs
    bool is_of_6;          // the UDP socket is
    bool is_connected;
    struct sockaddr_storage peer;                   // then
    struct list_link received;                      // the oldest first
    struct list_link idle;                          // messages for what comes over UDP
    struct rs_message messages[RS_UDP_MESSAGE_MAX]; // those
    uint8_t octets[RS_UDP_MESSAGE_MAX][RS_MESSAGE_LEN];
};

/* ---- creation and end ------------------------------------------------------------------------ */

struct rs_datagrams *rs_datagrams_create(int udp_fd)
{
    struct rs_datagrams *dg = calloc(1, sizeof *dg);
    if (dg == NULL) {
        return NULL;
    }
    struct epoll_event event = {.events = EPOLLIN};
    int family = AF_UNSPEC;
    socklen_t family_len = sizeof family;
    getsockopt(udp_fd, SOL_SOCKET, SO_DOMAIN, &family, &family_len);
    dg->is_of_6 = family == AF_INET6;
    dg->epoll_fd = descriptor_above_standard(kernel_epoll_create(EPOLL_CLOEXEC));
    if (dg->epoll_fd < 0 || kernel_epoll_ctl(dg->epoll_fd, EPOLL_CTL_ADD, udp_fd, &event) != 0) {
        int saved = errno;
        if (dg->epoll_fd >= 0) {
            close(dg->epoll_fd);
        }
        free(dg);
        errno = saved;
        return NULL;
    }
    list_init(&dg->uds);
    rs_peers_init(&dg->peers);
    list_init(&dg->received);
    list_init(&dg->idle);
    for (unsigned i = 0; i < RS_UDP_MESSAGE_MAX; i++) {
        list_push_tail(&dg->idle, &dg->messages[i].link);
    }
    return dg;
}

void rs_datagrams_free(struct rs_datagrams *dg)
{
    rs_peers_fini(&dg->peers); // they refer to the queue pairs
    while (!list_is_empty(&dg->uds)) {
        rs_ud_destroy(LIST_ENTRY(dg->uds.next, struct rs_ud, link));
    }
    close(dg->epoll_fd);
    free(dg);
}

/* ---- addresses ------------------------------------------------------------------------------- */

// What the kernel would send from.
static int route_ask(const struct sockaddr *dest, struct sockaddr_storage *ret)
{
    int fd = descriptor_of_socket(dest->sa_family, SOCK_DGRAM, 0);
    socklen_t len = sizeof *ret;
    if (fd < 0) {
        return -1;
    }
    int result = connect(fd, dest, sockaddr_len(dest));
    result = result == 0 ? getsockname(fd, (struct sockaddr *)ret, &len) : result;
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

// As the program and the kernel have it.
static struct sockaddr_storage shown(const struct rs_datagrams *dg,
                                     const struct sockaddr_storage *addr)
{
    return dg->is_of_6 ? sockaddr_mapped((const struct sockaddr *)addr) : *addr;
}

// The socket's own, as the peer sees it: with a port, which it may have to take now.
static int own_address(const struct rs *rs, const struct sockaddr *dest,
                       struct sockaddr_storage *ret)
{
    struct sockaddr_storage named;
    struct sockaddr *own = (struct sockaddr *)&named;
    socklen_t len = sizeof named;
    if (getsockname(rs->fd, own, &len) != 0) {
        return -1;
    }
    if (sockaddr_port(own) == 0) {
        len = sockaddr_len(own);
        if (bind(rs->fd, own, len) != 0 || getsockname(rs->fd, own, &len) != 0) {
            return -1;
        }
    }
    if (!sockaddr_is_any(own)) {
        *ret = sockaddr_unmapped(own);
        return 0;
    }
    int result = route_ask(dest, ret);
    sockaddr_set_port((struct sockaddr *)ret, sockaddr_port(own));
    return result;
}

// A queue pair at that address, made when it is first sent from. Somebody may sleep already.
static struct rs_ud *ud_of(struct rs *rs, const struct sockaddr *own)
{
    struct list_link *uds = &rs->datagrams->uds;
    for (struct list_link *l = uds->next; l != uds; l = l->next) {
        struct rs_ud *ud = LIST_ENTRY(l, struct rs_ud, link);
        if (sockaddr_is_same((const struct sockaddr *)&ud->own, own)) {
            return ud;
        }
    }
    struct rs_ud *ud = rs_ud_create(own, &rs->options, rs->datagrams->epoll_fd);
    if (ud != NULL) {
        list_push_tail(uds, &ud->link);
        rs_ud_arm(ud);
    }
    return ud;
}

static struct rs_peer *peer_of(struct rs *rs, const struct sockaddr *addr)
{
    struct rs_datagrams *dg = rs->datagrams;
    struct rs_peer *peer = rs_peers_find(&dg->peers, addr);
    struct sockaddr_storage own;
    if (peer != NULL) {
        return peer;
    }
    if (own_address(rs, addr, &own) != 0) {
        return NULL;
    }
    struct rs_ud *ud = ud_of(rs, (const struct sockaddr *)&own);
    return ud != NULL ? rs_peers_add(&dg->peers, addr, ud) : NULL;
}

/* ---- over UDP -------------------------------------------------------------------------------- */

static int udp_send(struct rs *rs, struct rs_peer *peer, enum rs_op op, struct rs_source *source,
                    int flags)
{
    const struct sockaddr *own = (const struct sockaddr *)&peer->ud->own;
    const struct rs_udp_header header = {.op = op, .qpn = peer->ud->id->qp->qp_num};
    uint8_t buf[RS_MESSAGE_LEN];
    size_t len = rs_udp_header_emit(&header, own, buf);
    if (source != NULL) {
        size_t left = source->left;
        rs_source_copy(source, buf + len, left);
        len += left;
    }
    const struct sockaddr_storage to = shown(rs->datagrams, &peer->addr);
    const struct sockaddr *addr = (const struct sockaddr *)&to;
    return sendto(rs->fd, buf, len, flags | MSG_NOSIGNAL, addr, sockaddr_len(addr)) < 0 ? -1 : 0;
}

// A queue pair that is known already has its handle.
static void learn(struct rs_peer *peer, uint32_t qpn)
{
    peer->qpn = qpn;
    peer->heard_ns = rs_now_ns();
    if (peer->ah == NULL) {
        peer->ah = rs_ud_ah_create(peer->ud, (const struct sockaddr *)&peer->addr);
    }
}

// Who sends over UDP does not know our queue pair. Where no device serves the peer its datagram is
// as good as any.
static void answer(struct rs *rs, const struct sockaddr *sender, const struct rs_udp_header *header)
{
    struct rs_peer *peer = peer_of(rs, sender);
    if (peer == NULL) {
        return;
    }
    if (header->op == RS_OP_DATA) {
        udp_send(rs, peer, RS_OP_CONTROL, NULL, MSG_DONTWAIT);
    }
    learn(peer, header->qpn);
}

// Connected, a socket hears its peer alone.
static bool is_heard(const struct rs_datagrams *dg, const struct sockaddr *sender)
{
    return !dg->is_connected || sockaddr_is_same((const struct sockaddr *)&dg->peer, sender);
}

// One datagram into `m`; false: there is none.
static bool udp_take(struct rs *rs, struct rs_message *m)
{
    struct rs_datagrams *dg = rs->datagrams;
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    const struct sockaddr *sender = (const struct sockaddr *)&m->sender;
    socklen_t from_len = sizeof from;
    uint8_t *octets = dg->octets[m - dg->messages];
    ssize_t len =
        recvfrom(rs->fd, octets, RS_MESSAGE_LEN, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    struct rs_udp_header header;
    if (len < 0 && errno != ECONNREFUSED) { // that is told to who sends
        return false;
    }
    m->sender = sockaddr_unmapped((const struct sockaddr *)&from);
    size_t header_len = len > 0 ? rs_udp_header_parse(octets, (size_t)len, sender, &header) : 0;
    if (header_len > 0) {
        answer(rs, sender, &header);
    }
    if (header_len > 0 && header.op == RS_OP_DATA && is_heard(dg, sender)) {
        m->octets = octets + header_len;
        m->len = (size_t)len - header_len;
        list_push_tail(&dg->received, &m->link);
    } else {
        list_push_head(&dg->idle, &m->link);
    }
    return true;
}

static bool udp_look(struct rs *rs)
{
    struct list_link *idle = &rs->datagrams->idle;
    bool moved = false;
    for (unsigned i = 0; i < LOOK_MAX && !list_is_empty(idle); i++) {
        struct rs_message *m = LIST_ENTRY(list_pop_head(idle), struct rs_message, link);
        if (!udp_take(rs, m)) {
            list_push_head(idle, &m->link);
            break;
        }
        moved = true;
    }
    return moved;
}

/* ---- moving on, sleeping --------------------------------------------------------------------- */

static void admit(struct rs_datagrams *dg, struct rs_message *m)
{
    const struct sockaddr *sender = (const struct sockaddr *)&m->sender;
    struct rs_peer *peer = rs_peers_find(&dg->peers, sender);
    if (peer != NULL) {
        peer->heard_ns = rs_now_ns();
    }
    if (is_heard(dg, sender)) {
        list_push_tail(&dg->received, &m->link);
    } else {
        rs_ud_give_back(m->ud, m);
    }
}

// A look at the UDP socket is a system call: not while queue pairs have something.
bool rs_datagrams_progress(struct rs *rs)
{
    struct rs_datagrams *dg = rs->datagrams;
    struct list_link fresh;
    bool moved = false, has_more;
    list_init(&fresh);
    for (struct list_link *l = dg->uds.next; l != &dg->uds; l = l->next) {
        moved = rs_ud_progress(LIST_ENTRY(l, struct rs_ud, link), &fresh, &has_more) || moved;
        rs->has_more = rs->has_more || has_more;
    }
    if (list_is_empty(&fresh)) {
        return udp_look(rs) || moved;
    }
    while (!list_is_empty(&fresh)) {
        admit(dg, LIST_ENTRY(list_pop_head(&fresh), struct rs_message, link));
    }
    return true;
}

bool rs_datagrams_arm(struct rs *rs)
{
    struct list_link *uds = &rs->datagrams->uds;
    bool is_new = false;
    for (struct list_link *l = uds->next; l != uds; l = l->next) {
        is_new = rs_ud_arm(LIST_ENTRY(l, struct rs_ud, link)) || is_new;
    }
    return is_new;
}

bool rs_datagrams_take_events(struct rs *rs)
{
    struct list_link *uds = &rs->datagrams->uds;
    bool was_raised = false;
    for (struct list_link *l = uds->next; l != uds; l = l->next) {
        struct rs_ud *ud = LIST_ENTRY(l, struct rs_ud, link);
        bool was_armed = ud->is_armed;
        rs_ud_take_event(ud);
        was_raised = was_raised || (was_armed && !ud->is_armed);
    }
    return was_raised;
}

int rs_datagrams_fd(const struct rs *rs)
{
    return rs->datagrams->epoll_fd;
}

bool rs_datagrams_may_receive(const struct rs *rs)
{
    return !list_is_empty(&rs->datagrams->received) || !rs->may_read;
}

bool rs_datagrams_may_send(const struct rs *rs)
{
    const struct list_link *uds = &rs->datagrams->uds;
    for (const struct list_link *l = uds->next; l != uds; l = l->next) {
        if (!rs_ud_may_send(LIST_ENTRY(l, const struct rs_ud, link))) {
            return false;
        }
    }
    return true;
}

bool rs_datagrams_are_sent(const struct rs *rs)
{
    const struct list_link *uds = &rs->datagrams->uds;
    for (const struct list_link *l = uds->next; l != uds; l = l->next) {
        const struct rs_ud *ud = LIST_ENTRY(l, const struct rs_ud, link);
        if (ud->idle_count < ud->send_count) {
            return false;
        }
    }
    return true;
}

short rs_datagrams_events(const struct rs *rs)
{
    return (short)((rs_datagrams_may_receive(rs) ? POLLIN : 0) |
                   (rs_datagrams_may_send(rs) ? POLLOUT : 0));
}

/* ---- connecting ------------------------------------------------------------------------------ */

bool rs_datagrams_has_path(const struct rs *rs)
{
    return !list_is_empty(&rs->datagrams->uds);
}

// The peer is looked for at once, so that where no device serves it the program hears of it here.
int rs_datagrams_connect(struct rs *rs, const struct sockaddr *addr)
{
    struct rs_datagrams *dg = rs->datagrams;
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    const bool is_end = addr->sa_family == AF_UNSPEC;
    if (connect(rs->fd, is_end ? &none : addr, is_end ? sizeof none : sockaddr_len(addr)) != 0) {
        return -1;
    }
    const struct sockaddr_storage peer = sockaddr_unmapped(addr);
    if (!is_end && peer_of(rs, (const struct sockaddr *)&peer) == NULL) {
        int saved = errno;
        connect(rs->fd, &none, sizeof none);
        dg->is_connected = false;
        return rs_fail(saved);
    }
    dg->is_connected = !is_end;
    dg->peer = peer;
    return 0;
}

int rs_datagrams_shutdown(struct rs *rs, int how)
{
    if (!rs->datagrams->is_connected) {
        return rs_fail(ENOTCONN);
    }
    rs->may_read = rs->may_read && how == SHUT_WR;
    rs->may_write = rs->may_write && how == SHUT_RD;
    return 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

// Once in a while by this way, too, if it is silent: its queue pair may be another one by now.
static bool goes_over_udp(const struct rs_peer *peer, size_t len, int64_t now_ns)
{
    bool is_silent = now_ns - peer->heard_ns > silence_ns && now_ns - peer->asked_ns > silence_ns;
    return peer->ah == NULL || is_silent || peer->ud->header_len + len > peer->ud->message_max;
}

static int send_to(struct rs *rs, const struct sockaddr *to, struct rs_source *source, int flags)
{
    struct rs_peer *peer = peer_of(rs, to);
    const int64_t now_ns = rs_now_ns();
    if (peer == NULL) {
        return -1;
    }
    if (goes_over_udp(peer, source->left, now_ns)) {
        udp_look(rs); // its answer may be there
        peer = peer_of(rs, to);
    }
    if (peer == NULL) {
        return -1;
    }
    if (goes_over_udp(peer, source->left, now_ns)) {
        peer->asked_ns = now_ns;
        return udp_send(rs, peer, RS_OP_DATA, source, flags);
    }
    return rs_ud_send(peer->ud, peer->ah, peer->qpn, source);
}

ssize_t rs_datagrams_send(struct rs *rs, struct rs_source *source, bool is_nonblocking,
                          const struct sockaddr *dest)
{
    const struct rs_datagrams *dg = rs->datagrams;
    const size_t len = source->left;
    if (!rs->may_write) {
        return rs_fail(EPIPE);
    }
    if (dest == NULL && !dg->is_connected) {
        return rs_fail(EDESTADDRREQ);
    }
    const struct sockaddr_storage peer = dest != NULL ? sockaddr_unmapped(dest) : dg->peer;
    const struct sockaddr *to = (const struct sockaddr *)&peer;
    if (len > RS_MESSAGE_LEN - rs_udp_header_len(to)) {
        return rs_fail(EMSGSIZE);
    }
    return send_to(rs, to, source, is_nonblocking ? MSG_DONTWAIT : 0) == 0 ? (ssize_t)len : -1;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static size_t copy_out(const struct rs_message *m, const struct iovec *parts, size_t count)
{
    size_t done = 0;
    for (size_t i = 0; i < count && done < m->len; i++) {
        size_t rest = m->len - done;
        size_t n = parts[i].iov_len < rest ? parts[i].iov_len : rest;
        if (n > 0) {
            memcpy(parts[i].iov_base, m->octets + done, n);
        }
        done += n;
    }
    return done;
}

static void read_done(struct rs_datagrams *dg, struct rs_message *m)
{
    list_remove(&m->link);
    if (m->ud != NULL) {
        rs_ud_give_back(m->ud, m);
    } else {
        list_push_head(&dg->idle, &m->link);
    }
}

ssize_t rs_datagrams_receive(struct rs *rs, const struct iovec *parts, size_t count, int flags,
                             struct sockaddr_storage *ret_sender, int *ret_flags)
{
    struct rs_datagrams *dg = rs->datagrams;
    *ret_flags = 0;
    if (list_is_empty(&dg->received)) {
        ret_sender->ss_family = AF_UNSPEC;
        return 0; // shut down
    }
    struct rs_message *m = LIST_ENTRY(dg->received.next, struct rs_message, link);
    size_t done = copy_out(m, parts, count);
    size_t len = m->len;
    *ret_sender = shown(dg, &m->sender);
    *ret_flags = done < len ? MSG_TRUNC : 0;
    if ((flags & MSG_PEEK) == 0) {
        read_done(dg, m);
    }
    return (ssize_t)((flags & MSG_TRUNC) != 0 ? len : done);
}
