// What processes leave to be sent when they have ended without a word: killed, or by _exit. A
// card's kernel tells their peers then; here the others do who have the port too.
//
// Its packets lie in a file in memory of the process's own, one for each place, and change without
// a word to anybody. The others have the file, and the end to read of a pipe to which only that
// process can write: when nobody can any more it has ended, however it did. In the pipe is one
// octet, and whoever gets that sends the packets; who ends in order takes it out before.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/list.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "link/datagram/share.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"
#include "wire/bth.h"

enum {
    PACKET_LEN_MAX = 320, // a MAD and its headers
    AT_A_LOOK = 16,
    PLACES_MAX = 1 << 16, // that are looked at
};

// One place. All zero: nothing is to be sent.
struct will_packet {
    uint32_t len;
    uint32_t scope_id;
    struct in6_addr local, remote;
    uint8_t traffic_class, hop_limit;
    uint8_t octets[PACKET_LEN_MAX];
};

void datagram_wills_init(struct datagram_udp *d)
{
    static const struct in6_addr nowhere;
    d->will = (struct datagram_will){.memory_fd = -1, .alive_fd = -1, .token_fd = -1};
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        datagram_inlet_init(&d->estates[slot].inlet, DATAGRAM_INLET_ESTATE, -1, &nowhere);
        d->estates[slot].memory_fd = -1;
    }
}

void datagram_wills_ask(struct datagram_udp *d)
{
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if (slot != d->share.slot) {
            datagram_share_come(&d->share, slot);
        }
    }
}

/* ---- ours ------------------------------------------------------------------------------------ */

static void will_close(struct datagram_will *w)
{
    sys_close_fd(&w->memory_fd);
    sys_close_fd(&w->alive_fd);
    sys_close_fd(&w->token_fd);
}

static bool will_make(struct datagram_will *w)
{
    static const uint8_t token = 1;
    int ends[2];
    if (sys_pipe(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    w->token_fd = ends[0];
    w->alive_fd = ends[1];
    w->memory_fd = sys_memfd_create("weft-roce-will", MFD_CLOEXEC);
    if (w->memory_fd < 0 || sys_write(w->alive_fd, &token, sizeof token) != sizeof token) {
        will_close(w);
        return false;
    }
    return true;
}

void datagram_will_show(struct datagram_udp *d, unsigned slot)
{
    const int fds[DATAGRAM_SHARE_WILL_FDS] = {d->will.memory_fd, d->will.token_fd};
    if (d->will.memory_fd < 0 || slot == d->share.slot) {
        return;
    }
    const uint64_t bit = UINT64_C(1) << slot;
    const int error = datagram_share_show(&d->share, slot, fds);
    d->will.unshown = error == -EAGAIN ? d->will.unshown | bit : d->will.unshown & ~bit;
}

// Made with the first packet. Who has no room to be told is told with the next.
static bool will_begin(struct datagram_udp *d)
{
    if (d->will.memory_fd < 0) {
        if (!will_make(&d->will)) {
            return false;
        }
        d->will.unshown = UINT64_MAX;
    }
    for (unsigned slot = 0; d->will.unshown != 0 && slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if ((d->will.unshown >> slot & 1) != 0) {
            datagram_will_show(d, slot);
        }
    }
    d->will.unshown &= ~(UINT64_C(1) << d->share.slot);
    return true;
}

static uint64_t offset_of(uint32_t place)
{
    return (uint64_t)place * sizeof(struct will_packet);
}

// False: it is longer than a place.
static bool packet_fill(const struct datagram_tx *tx, struct will_packet *ret)
{
    *ret = (struct will_packet){.scope_id = tx->path->scope_id,
                                .local = tx->path->local,
                                .remote = tx->path->remote,
                                .traffic_class = tx->path->traffic_class,
                                .hop_limit = tx->path->hop_limit};
    struct span piece = tx->head;
    for (unsigned i = 0; i <= tx->piece_count; i++) {
        if (piece.len > sizeof ret->octets - ret->len) {
            return false;
        }
        memcpy(ret->octets + ret->len, piece.ptr, piece.len);
        ret->len += (uint32_t)piece.len;
        piece = i < tx->piece_count ? tx->pieces[i] : piece;
    }
    ret->len += tx->pad_len;
    return ret->len <= sizeof ret->octets;
}

void datagram_udp_bequeath(struct datagram_link *link, uint32_t place, const struct datagram_tx *tx)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct will_packet packet;
    if (packet_fill(tx, &packet) && will_begin(d)) {
        sys_pwrite(d->will.memory_fd, &packet, sizeof packet, offset_of(place));
    }
}

void datagram_udp_revoke(struct datagram_link *link, uint32_t place)
{
    const struct datagram_udp *d = datagram_udp_of(link);
    static const uint32_t none;
    if (d->will.memory_fd >= 0) {
        sys_pwrite(d->will.memory_fd, &none, sizeof none, offset_of(place));
    }
}

/* ---- those of others ------------------------------------------------------------------------- */

static void estate_close(struct datagram_udp *d, struct datagram_estate *e)
{
    datagram_inlet_forget(d, &e->inlet);
    sys_close_fd(&e->inlet.fd);
    sys_close_fd(&e->memory_fd);
}

// What a process has written that may have ended in the middle of it.
static void packet_send(struct datagram_udp *d, const struct will_packet *packet)
{
    const struct datagram_path path = {.local = packet->local,
                                       .remote = packet->remote,
                                       .scope_id = packet->scope_id,
                                       .traffic_class = packet->traffic_class,
                                       .hop_limit = packet->hop_limit};
    const struct datagram_tx tx = {.path = &path, .head = span_of(packet->octets, packet->len)};
    if (packet->len >= BTH_LEN && packet->len <= sizeof packet->octets && packet->len % 4 == 0) {
        datagram_udp_put(&d->base, &tx);
    }
}

static void estate_send(struct datagram_udp *d, const struct datagram_estate *e)
{
    struct will_packet packets[AT_A_LOOK];
    uint64_t at = 0;
    ssize_t len;
    while (at < offset_of(PLACES_MAX) &&
           (len = sys_pread(e->memory_fd, packets, sizeof packets, at)) > 0) {
        const unsigned count = (unsigned)len / sizeof packets[0] + 1;
        memset((uint8_t *)packets + len, 0, sizeof packets - (size_t)len);
        for (unsigned i = 0; i < count && i < AT_A_LOOK; i++) {
            packet_send(d, &packets[i]);
        }
        at += sizeof packets;
    }
    datagram_udp_flush(&d->base);
    d->counters.estates++;
}

void datagram_estate_settle(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    struct datagram_estate *e = LIST_ENTRY(inlet, struct datagram_estate, inlet);
    uint8_t token;
    if (sys_read(e->inlet.fd, &token, sizeof token) == sizeof token) {
        estate_send(d, e);
    }
    estate_close(d, e);
}

// Whoever reads it does so under his device's lock: from memory, where nobody can keep him waiting,
// as a file of FUSE could.
static bool is_memory(int fd)
{
    return sys_fcntl(fd, F_GET_SEALS, 0) >= 0;
}

// And only from a pipe: a socket may report an error, and have nothing to read for ever.
static bool is_pipe(int fd)
{
    return sys_fcntl(fd, F_GETPIPE_SZ, 0) >= 0;
}

// Who had the slot before may have ended without our having noticed yet. Otherwise it is the same
// one: it has shown its will when it made it, and again since we have come.
void datagram_estate_take(struct datagram_udp *d, const struct datagram_share_message *m)
{
    struct datagram_estate *e = &d->estates[m->from];
    const bool is_known = e->inlet.fd >= 0 && !sys_has_hung_up(e->inlet.fd);
    const bool is_will =
        m->fd_count == DATAGRAM_SHARE_WILL_FDS && is_memory(m->fds[0]) && is_pipe(m->fds[1]);
    d->share.strangers += !is_will;
    if (!is_will || is_known) {
        sys_close_fds(m->fds, m->fd_count);
        return;
    }
    if (e->inlet.fd >= 0) {
        datagram_estate_settle(d, &e->inlet);
    }
    e->memory_fd = m->fds[0];
    e->inlet.fd = m->fds[1];
    struct epoll_event end = {.events = 0, .data.ptr = &e->inlet}; // EPOLLHUP comes unasked
    if (sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, e->inlet.fd, &end) != 0) {
        estate_close(d, e);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

void datagram_wills_abandon(struct datagram_udp *d)
{
    will_close(&d->will);
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        sys_close_fd(&d->estates[slot].inlet.fd);
        sys_close_fd(&d->estates[slot].memory_fd);
    }
}

void datagram_wills_fini(struct datagram_udp *d)
{
    uint8_t token;
    if (d->will.token_fd >= 0) {
        sys_read(d->will.token_fd, &token, sizeof token);
    }
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if (d->estates[slot].inlet.fd >= 0) {
            datagram_inlet_forget(d, &d->estates[slot].inlet);
        }
    }
    datagram_wills_abandon(d);
}
