// The local addresses of the UDP datagram link.

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/datagram/holder.h"
#include "link/datagram/share.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

enum {
    SNDBUF_DEFAULT = 4 << 20,
    SOURCE_PORT_FIRST = 0xc000,
    SOURCE_PORT_COUNT = 0x4000,
};

// How long other processes are waited for: each, and all; and what another message counts as.
static const duration_ns answer_ns = 250 * NS_PER_MS, turn_ns = 5 * NS_PER_MS;
static const duration_ns aside_ns = 200 * NS_PER_US;
enum { TURNS_MAX = 2000, STRANGER_TURNS = 100, SILENT_MAX = 8 };

/* ---- the sockets of an address --------------------------------------------------------------- */

// What another process has made behind those that we have.
static void more_take(struct datagram_udp *d, const struct datagram_share_message *m)
{
    struct datagram_place *place = datagram_place_find(d, &m->addr);
    if (place != NULL) {
        datagram_door_take(&place->door, m->first, m->fds, m->fd_count);
    } else {
        sys_close_fds(m->fds, m->fd_count);
    }
}

static void question_answer(struct datagram_udp *d, const struct datagram_share_message *m)
{
    const struct datagram_place *place = datagram_place_find(d, &m->addr);
    const unsigned has = place != NULL ? place->door.count : 0;
    const unsigned first = m->first < has ? m->first : has;
    datagram_share_give(&d->share, m->from, &m->addr, m->scope_id, first,
                        first < has ? place->door.fds + first : NULL, has - first);
}

// What comes while something else is waited for: packets are lost.
void datagram_message_answer(struct datagram_udp *d, const struct datagram_share_message *m)
{
    if (m->kind == DATAGRAM_SHARE_ASK) {
        question_answer(d, m);
    } else if (m->kind == DATAGRAM_SHARE_GIVE) {
        more_take(d, m);
    } else if (m->kind == DATAGRAM_SHARE_HERE) {
        datagram_will_show(d, m->from);
    } else if (m->kind == DATAGRAM_SHARE_WILL) {
        datagram_estate_take(d, m);
    } else if (m->kind == DATAGRAM_SHARE_LANE) {
        datagram_lane_take_over(d, m);
    } else if (m->kind == DATAGRAM_SHARE_TAKEN) {
        datagram_lane_note_taken(d, m);
    }
    d->counters.not_ours += m->kind == DATAGRAM_SHARE_PACKET;
}

// What comes of a question to `slot`: 0 and the sockets, -ENOENT: it has none, -ETIMEDOUT: it is
// silent, or -EMFILE. Who was silent before may have found the time by now; what it says to an
// earlier question, which began further on, is not its answer. However much others say meanwhile,
// and strangers, it is not waited for longer.
static int answer_wait(struct datagram_udp *d, unsigned slot, struct datagram_place *place)
{
    struct datagram_share_message m;
    duration_ns left_ns = answer_ns;
    int fds[DATAGRAM_SHARE_FDS];
    const unsigned asked_from = place->door.count;
    do {
        m.fds = fds;
        datagram_share_await(&d->share, &left_ns, &m);
        left_ns -= left_ns < aside_ns ? left_ns : aside_ns;
        bool is_about_it =
            m.kind != DATAGRAM_SHARE_NOTHING && datagram_addr_is(&m.addr, &place->local);
        const bool is_answer = is_about_it && m.from == slot && m.first <= asked_from;
        if (m.kind == DATAGRAM_SHARE_GIVE && is_about_it) {
            datagram_door_take(&place->door, m.first, m.fds, m.fd_count);
            if (m.fd_count < m.count) {
                return -EMFILE; // the system gave us as many as there is room for
            }
            if (is_answer) {
                return 0;
            }
            continue;
        }
        datagram_message_answer(d, &m);
        if (m.kind == DATAGRAM_SHARE_NONE && is_answer) {
            return -ENOENT;
        }
    } while (m.kind != DATAGRAM_SHARE_NOTHING && left_ns > 0);
    return -ETIMEDOUT;
}

// Do we have all that there are, as the system lists them? Where it does not, so it is believed.
static bool is_whole(const struct datagram_udp *d, const struct datagram_place *place)
{
    const unsigned listed = datagram_port_sockets(&place->local, d->config.port);
    return place->door.count > 0 && (listed == 0 || listed == place->door.count);
}

// The other processes are asked, who made the last socket first, until we have all; of those that
// are silent, or have no room for a question now, `ret_silent` are more. -ENOENT: not all came.
static int all_ask(struct datagram_udp *d, struct datagram_place *place, unsigned *ret_silent)
{
    for (unsigned slot = DATAGRAM_SHARE_SLOTS; slot-- > 0 && *ret_silent < SILENT_MAX;) {
        if (slot == d->share.slot) {
            continue;
        }
        int error =
            datagram_share_ask(&d->share, slot, &place->local, place->scope_id, place->door.count);
        if (error != 0 && error != -EAGAIN) {
            continue;
        }
        error = answer_wait(d, slot, place);
        if (error == -EMFILE || (error == 0 && is_whole(d, place))) {
            return error;
        }
        *ret_silent += error == -ETIMEDOUT;
    }
    return is_whole(d, place) ? 0 : -ENOENT;
}

// Of other processes of this user; who is silent is asked again.
static int sockets_ask_for(struct datagram_udp *d, struct datagram_place *place)
{
    unsigned silent = 0, before;
    int error;
    do {
        before = silent;
        error = all_ask(d, place, &silent);
    } while (error == -ENOENT && silent > before && silent < SILENT_MAX);
    return error == -ENOENT ? -EADDRINUSE : error;
}

// Only one process at a time makes sockets, or asks for them: so they are made once. A descriptor
// that says so, or a negative errno; -EADDRINUSE: it is somebody's all the time.
static int lock_wait(struct datagram_udp *d)
{
    struct datagram_share_message m;
    int fds[DATAGRAM_SHARE_FDS], fd = -EAGAIN;
    for (unsigned turn = 0; turn < TURNS_MAX && fd == -EAGAIN; turn++) {
        fd = datagram_share_lock(&d->share);
        if (fd == -EAGAIN && turn % STRANGER_TURNS == 0 &&
            datagram_share_is_locked_out(&d->share)) {
            return -EADDRINUSE;
        }
        if (fd == -EAGAIN) {
            m.fds = fds;
            datagram_share_receive(&d->share, turn_ns, &m);
            datagram_message_answer(d, &m);
        }
    }
    return fd == -EAGAIN ? -EADDRINUSE : fd;
}

// Who has no room for a message now, or is stopped, has fewer sockets than there are: that is seen
// before it would matter (is_whole).
static void all_give(struct datagram_udp *d, const struct datagram_place *place, unsigned first)
{
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if (slot != d->share.slot) {
            datagram_share_give(&d->share, slot, &place->local, place->scope_id, first,
                                place->door.fds + first, place->door.count - first);
        }
    }
}

static int sockets_make(struct datagram_udp *d, struct datagram_place *place)
{
    int error = datagram_door_make(&place->door, &place->local, place->scope_id, d->config.port,
                                   d->share.slot);
    if (error == 0) {
        datagram_door_enter(place->door.fds[DATAGRAM_DOOR_MANAGEMENT], d->config.rcvbuf_len);
    }
    return error;
}

// As far as our own slot.
static int sockets_extend(struct datagram_udp *d, struct datagram_place *place)
{
    const unsigned before = place->door.count;
    int error = datagram_door_extend(&place->door, &place->local, place->scope_id, d->config.port,
                                     d->share.slot);
    if (error == 0 && place->door.count > before) {
        all_give(d, place, before);
    }
    return error;
}

static int sockets_find(struct datagram_udp *d, struct datagram_place *place)
{
    int lock = lock_wait(d);
    if (lock < 0) {
        return lock;
    }
    int error = sockets_make(d, place);
    if (error == -EADDRINUSE) {
        error = sockets_ask_for(d, place);
        if (error == 0) {
            error = sockets_extend(d, place);
        } else if (error == -EADDRINUSE && place->door.count == 0) {
            error = sockets_make(d, place); // who had it may have closed it meanwhile
        }
    }
    sys_close(lock);
    return error;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void rcvbuf_note(struct datagram_udp *d, int fd)
{
    int len = 0;
    if (sys_getsockopt_int(fd, SOL_SOCKET, SO_RCVBUF, &len) == 0 && len > 0 &&
        (d->rcvbuf_len == 0 || (uint64_t)len < d->rcvbuf_len)) {
        d->rcvbuf_len = (uint64_t)len;
    }
}

// The socket that sends has a port of its own, so that the kernel joins nothing of two processes.
static int sender_open(struct datagram_udp *d, struct datagram_place *place)
{
    struct sockaddr_storage name;
    uint32_t len = d->config.sndbuf_len != 0 ? d->config.sndbuf_len : SNDBUF_DEFAULT;
    unsigned first = (unsigned)getpid() * DATAGRAM_SHARE_SLOTS + d->share.slot;
    int fd = datagram_socket(&place->local), error = -EADDRINUSE;
    if (fd < 0) {
        return fd;
    }
    for (unsigned i = 0; i < SOURCE_PORT_COUNT && error == -EADDRINUSE; i++) {
        place->tx_port = (uint16_t)(SOURCE_PORT_FIRST + (first + i) % SOURCE_PORT_COUNT);
        socklen_t name_len =
            datagram_sockaddr(&place->local, place->scope_id, place->tx_port, &name);
        error = sys_bind(fd, (const struct sockaddr *)&name, name_len);
    }
    if (sys_setsockopt_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, (int)len) != 0) {
        sys_setsockopt_int(fd, SOL_SOCKET, SO_SNDBUF, (int)len);
    }
    datagram_inlet_init(&place->room, DATAGRAM_INLET_ROOM, fd, &place->local);
    return error;
}

void datagram_place_free(struct datagram_udp *d, struct datagram_place *place)
{
    datagram_stage_forget(d, place);
    datagram_inlet_forget(d, &place->slot);
    datagram_inlet_forget(d, &place->management);
    datagram_inlet_forget(d, &place->room);
    if (place->slot.fd >= 0) {
        datagram_door_leave(place->slot.fd);
    }
    datagram_door_close(&place->door);
    if (place->room.fd >= 0) {
        sys_close(place->room.fd);
    }
    list_remove(&place->link);
    free(place);
}

static int place_new(struct datagram_udp *d, const struct in6_addr *local, uint32_t scope_id,
                     struct datagram_place **ret)
{
    struct datagram_place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -ENOMEM;
    }
    place->local = *local;
    place->scope_id = scope_id;
    datagram_inlet_init(&place->slot, DATAGRAM_INLET_SLOT, -1, local);
    datagram_inlet_init(&place->management, DATAGRAM_INLET_MANAGEMENT, -1, local);
    datagram_inlet_init(&place->room, DATAGRAM_INLET_ROOM, -1, local);
    list_init(&place->link);
    *ret = place;
    return 0;
}

static int place_enter(struct datagram_udp *d, struct datagram_place *place)
{
    int error = sockets_find(d, place);
    if (error != 0) {
        return error;
    }
    place->slot.fd = datagram_door_slot_fd(&place->door, d->share.slot);
    place->management.fd = place->door.fds[DATAGRAM_DOOR_MANAGEMENT];
    datagram_door_enter(place->slot.fd, d->config.rcvbuf_len);
    rcvbuf_note(d, place->slot.fd);
    error = sender_open(d, place);
    if (error == 0) {
        error = datagram_inlet_watch(d, &place->slot);
    }
    return error == 0 ? datagram_inlet_watch(d, &place->management) : error;
}

int datagram_udp_open(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_place *place = datagram_place_find(d, local);
    int error = place != NULL ? 0 : place_new(d, local, scope_id, &place);
    if (error != 0) {
        return error;
    }
    if (place->opened == 0) {
        error = place_enter(d, place);
        if (error != 0) {
            datagram_place_free(d, place);
            return error;
        }
        list_push_tail(&d->places, &place->link);
    }
    place->opened++;
    return 0;
}

void datagram_udp_close(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_place *place = datagram_place_find(d, local);
    if (place != NULL && --place->opened == 0) {
        datagram_place_free(d, place);
    }
}
