#include "link/datagram/udp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/datagram/lanes.h"
#include "link/datagram/onward.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/fault_model.h"
#include "link/sys.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum {
    DISCARD_PORT = 9,
    MTU_DEFAULT = 1500,
    HOPS_UNKNOWN = 64,
    HOPS_TO_GROUP = 1,   // by default no router hands it on
    POLLS_MAX = 16,      // without a look at what else there is
    POLLS_NEIGHBOUR = 4, // ... where a lane may have been handed over
};

static const duration_ns look_gap_ns = 10 * NS_PER_US;

/* ---- paths ----------------------------------------------------------------------------------- */

// A socket of its own asks the routing table: connecting it sends nothing.
static int path_ask(const struct in6_addr *remote, uint32_t scope_id, struct in6_addr *ret_local,
                    int *ret_mtu)
{
    struct sockaddr_storage name;
    uint32_t scope;
    uint16_t port;
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(remote);
    int fd = datagram_socket(remote);
    if (fd < 0) {
        return fd;
    }
    socklen_t len = datagram_sockaddr(remote, scope_id, DISCARD_PORT, &name);
    int error = sys_connect(fd, (const struct sockaddr *)&name, len);
    if (error == 0) {
        error = sys_getsockname(fd, &name);
    }
    if (error == 0) {
        datagram_addr(&name, ret_local, &scope, &port);
        error = sys_getsockopt_int(fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
                                   is_ipv4 ? IP_MTU : IPV6_MTU, ret_mtu);
    }
    sys_close(fd);
    return error;
}

static int udp_route(struct datagram_link *link, const struct in6_addr *remote, uint32_t scope_id,
                     struct in6_addr *ret_local)
{
    int mtu;
    return path_ask(remote, scope_id, ret_local, &mtu);
}

static uint32_t udp_len_max(struct datagram_link *link, const struct datagram_path *path)
{
    struct in6_addr local;
    int mtu;
    uint32_t headers =
        UDP_HEADER_LEN + (IN6_IS_ADDR_V4MAPPED(&path->remote) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
    if (path_ask(&path->remote, path->scope_id, &local, &mtu) != 0) {
        mtu = MTU_DEFAULT;
    }
    uint32_t len = (uint32_t)mtu > headers ? (uint32_t)mtu - headers : 0;
    return len < DATAGRAM_LEN_MAX + ICRC_LEN ? len : DATAGRAM_LEN_MAX + ICRC_LEN;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void wake_take(struct datagram_udp *d)
{
    uint64_t times;
    sys_read(d->wake_fd, &times, sizeof times);
}

static bool wakes(const struct datagram_inlet *inlet)
{
    return inlet->kind == DATAGRAM_INLET_WAKE || inlet->kind == DATAGRAM_INLET_LANE_IN;
}

// What wakes is left to who waits: taken before he is awake, it would let him sleep on.
static void on_report(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    if (wakes(inlet) && datagram_is_waited_for(d)) {
        return;
    }
    if (inlet->kind == DATAGRAM_INLET_WAKE) {
        wake_take(d);
    } else if (inlet->kind == DATAGRAM_INLET_ROOM) {
        datagram_udp_on_room(d, inlet);
    } else if (inlet->kind == DATAGRAM_INLET_ESTATE) {
        datagram_estate_settle(d, inlet);
    } else if (inlet->kind == DATAGRAM_INLET_HOST) {
        datagram_host_take(d);
    } else if (inlet->kind == DATAGRAM_INLET_LANE_OUT) {
        datagram_lane_out_hear(d, inlet);
    } else if (inlet->kind == DATAGRAM_INLET_LANE_IN) {
        datagram_lane_in_hear(d, inlet);
    } else if (list_is_empty(&inlet->ready)) {
        list_push_tail(&d->in.ready, &inlet->ready);
    }
}

static bool has_input(struct datagram_udp *d)
{
    return datagram_sockets_have(d) || datagram_lanes_have_news(d);
}

// A look at everything, which must not be long ago.
static void look_around(struct datagram_udp *d)
{
    struct epoll_event events[DATAGRAM_REPORTS_MAX];
    atomic_store_explicit(&d->has_waited, false, memory_order_relaxed);
    int count = sys_epoll_wait(d->epoll_fd, events, DATAGRAM_REPORTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        on_report(d, events[i].data.ptr);
    }
    d->polls = 0;
    d->is_to_look_around = false;
    d->has_neighbour = false;
}

// Who spins finds the next packet where the last one was, in one system call; who has waited finds
// what ended that.
static void look_at_sockets(struct datagram_udp *d)
{
    if (!has_input(d)) {
        datagram_udp_look(d);
    }
    bool has_waited = atomic_load_explicit(&d->has_waited, memory_order_relaxed);
    bool is_explained = !has_waited || has_input(d); // what ended the waiting was found
    if (has_waited && is_explained) {
        atomic_store_explicit(&d->has_waited, false, memory_order_relaxed);
    }
    const unsigned polls_max = d->has_neighbour ? POLLS_NEIGHBOUR : POLLS_MAX;
    if (d->in.last == NULL || d->stage.is_blocked || !is_explained || d->is_to_look_around ||
        d->polls++ >= polls_max) {
        look_around(d);
    }
}

// Where there are lanes it is in them that the next packet is expected, and to look there is no
// system call: at sockets who spins looks now and then. What was sent by them before the first
// packet of a lane is to be found before that.
static void look_at_lanes(struct datagram_udp *d, instant_ns now)
{
    const bool has_waited = atomic_load_explicit(&d->has_waited, memory_order_relaxed);
    if (has_waited && !datagram_is_waited_for(d)) {
        datagram_lanes_rise(d);
    }
    if (d->lanes.fresh_count > 0 || d->is_to_look_around || (has_waited && !has_input(d)) ||
        now >= instant_after(d->looked_ns, look_gap_ns)) {
        d->looked_ns = now;
        look_around(d);
    }
    atomic_store_explicit(&d->has_waited, false, memory_order_relaxed);
}

static void udp_look_around(struct datagram_link *link)
{
    datagram_udp_of(link)->is_to_look_around = true;
}

static unsigned udp_poll(struct datagram_link *link, instant_ns now)
{
    struct datagram_udp *d = datagram_udp_of(link);
    d->polled_ns = now;
    if (now >= d->onward.retry_at) {
        datagram_onward_retry(&d->onward, &d->share, now);
    }
    if (list_is_empty(&d->lanes.turns)) {
        look_at_sockets(d);
    } else {
        look_at_lanes(d, now);
    }
    bool is_room = d->stage.was_full && !d->stage.is_blocked;
    const bool has_changed = d->has_host_changed;
    d->stage.was_full = d->stage.was_full && !is_room;
    d->has_host_changed = false;
    return (has_input(d) ? DATAGRAM_READY_IN : 0) | (is_room ? DATAGRAM_READY_ROOM : 0) |
           (has_changed ? DATAGRAM_READY_HOST : 0);
}

static instant_ns udp_next_deadline(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    return has_input(d) ? 0 : d->onward.retry_at;
}

static bool udp_may_wait(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    const bool may = datagram_lanes_sleep(d);
    atomic_store_explicit(&d->is_waiting, may, memory_order_release);
    return may;
}

static void udp_wait(struct datagram_link *link, duration_ns timeout_ns)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct epoll_event events[2]; // one more: behind a socket that is ready, a wake may stand
    const bool has_lingered = atomic_load_explicit(&d->lanes.have_lingered, memory_order_relaxed);
    int count = has_lingered ? 0 : datagram_linger(d, events, 2, timeout_ns);
    count = count != 0 ? count : sys_epoll_wait(d->epoll_fd, events, 2, timeout_ns);
    atomic_store_explicit(&d->is_waiting, false, memory_order_release);
    atomic_store_explicit(&d->has_waited, true, memory_order_relaxed);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &d->wake_inlet) {
            wake_take(d);
        }
    }
}

static void udp_wake(struct datagram_link *link)
{
    datagram_inlet_wake(datagram_udp_of(link));
}

/* ---- the link -------------------------------------------------------------------------------- */

static bool udp_flush(struct datagram_link *link)
{
    datagram_lanes_publish(datagram_udp_of(link));
    return datagram_udp_flush(link);
}

// The kernel counts what it takes to keep a packet: little more than its length in a burst, 2,304
// octets for one of 1 KiB that came alone, 8,448 for one of 4 KiB, 832 for the shortest; and up to
// a quarter of the buffer counts when it has been read already. This is right for packets of 1 KiB
// and more; a shorter one is to be counted as that.
static uint64_t udp_receive_buffer_len(const struct datagram_link *link)
{
    return datagram_udp_of(link)->rcvbuf_len / 3;
}

static void udp_counters_each(const struct datagram_link *link, counter_each each, void *ctx)
{
    const struct datagram_udp *d = datagram_udp_of(link);
    uint64_t sunk = 0;
#define X(name, text) each(ctx, #name, d->counters.name);
    DATAGRAM_UDP_COUNTERS(X)
#undef X
    for (struct list_link *l = d->places.next; l != &d->places; l = l->next) {
        const struct datagram_place *place = LIST_ENTRY(l, struct datagram_place, link);
        sunk += datagram_door_sunk(place->door.fds[DATAGRAM_DOOR_SINK]);
    }
#define X(name, text) each(ctx, #name, d->lanes.counters.name);
    DATAGRAM_LANE_COUNTERS(X)
#undef X
    each(ctx, "no_slot", sunk);
    each(ctx, "corrupted", d->faults.counters.corrupted);
    each(ctx, "strangers", d->share.strangers);
}

static void udp_abandon(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    for (struct list_link *l = d->places.next; l != &d->places; l = l->next) {
        struct datagram_place *place = LIST_ENTRY(l, struct datagram_place, link);
        datagram_door_close(&place->door);
        place->slot.fd = place->management.fd = -1;
        sys_close_fd(&place->room.fd);
    }
    for (struct list_link *l = d->groups.next; l != &d->groups; l = l->next) {
        sys_close_fd(&LIST_ENTRY(l, struct datagram_group, link)->inlet.fd);
    }
    for (struct list_link *l = d->services.next; l != &d->services; l = l->next) {
        sys_close_fd(&LIST_ENTRY(l, struct datagram_service, link)->fd);
    }
    datagram_wills_abandon(d);
    datagram_lanes_abandon(d);
    datagram_share_fini(&d->share);
    sys_close_fd(&d->host_inlet.fd);
    sys_close_fd(&d->epoll_fd);
    sys_close_fd(&d->wake_fd);
}

static void udp_destroy(struct datagram_link *link)
{
    struct datagram_udp *d = datagram_udp_of(link);
    datagram_wills_fini(d);
    datagram_lanes_fini(d);
    while (!list_is_empty(&d->groups)) {
        datagram_group_free(d, LIST_ENTRY(d->groups.next, struct datagram_group, link));
    }
    while (!list_is_empty(&d->services)) {
        datagram_service_free(LIST_ENTRY(d->services.next, struct datagram_service, link));
    }
    while (!list_is_empty(&d->places)) {
        datagram_place_free(d, LIST_ENTRY(d->places.next, struct datagram_place, link));
    }
    datagram_share_fini(&d->share);
    datagram_onward_fini(&d->onward);
    sys_close_fd(&d->host_inlet.fd);
    sys_close_fd(&d->epoll_fd);
    sys_close_fd(&d->wake_fd);
    free(d->stage.octets);
    free(d->in.buffers);
    free(d);
}

static const struct datagram_link_ops datagram_udp_ops = {
    .name = "udp",
    .open = datagram_udp_open,
    .close = datagram_udp_close,
    .route = udp_route,
    .len_max = udp_len_max,
    .join = datagram_udp_join,
    .leave = datagram_udp_leave,
    .serve = datagram_udp_serve,
    .unserve = datagram_udp_unserve,
    .is_served = datagram_udp_is_served,
    .bequeath = datagram_udp_bequeath,
    .revoke = datagram_udp_revoke,
    .has_room = datagram_udp_has_room,
    .put = datagram_udp_put,
    .flush = udp_flush,
    .look_around = udp_look_around,
    .poll = udp_poll,
    .receive = datagram_udp_receive,
    .hand_on = datagram_udp_hand_on,
    .receive_buffer_len = udp_receive_buffer_len,
    .next_deadline = udp_next_deadline,
    .may_wait = udp_may_wait,
    .wait = udp_wait,
    .wake = udp_wake,
    .counters = udp_counters_each,
    .abandon = udp_abandon,
    .destroy = udp_destroy,
};

// As a new socket of the family has it.
static uint8_t system_hops(int family, int level, int option)
{
    int hops = 0;
    int fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        sys_getsockopt_int(fd, level, option, &hops);
        sys_close(fd);
    }
    return hops > 0 ? (uint8_t)hops : HOPS_UNKNOWN;
}

static int udp_begin(struct datagram_udp *d)
{
    static const struct in6_addr nowhere;
    d->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
    d->wake_fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->stage.octets = malloc(DATAGRAM_STAGE_LEN);
    d->in.buffers = malloc((size_t)2 * DATAGRAM_MESSAGES_MAX * DATAGRAM_MESSAGE_LEN);
    if (d->epoll_fd < 0 || d->wake_fd < 0) {
        return d->epoll_fd < 0 ? d->epoll_fd : d->wake_fd;
    }
    if (d->stage.octets == NULL || d->in.buffers == NULL) {
        return -ENOMEM;
    }
    int error = datagram_onward_init(&d->onward);
    error = error != 0 ? error : datagram_share_init(&d->share, d->config.port);
    if (error != 0) {
        return error;
    }
    datagram_inlet_init(&d->share_inlet, DATAGRAM_INLET_SHARE, d->share.fd, &nowhere);
    datagram_inlet_init(&d->wake_inlet, DATAGRAM_INLET_WAKE, d->wake_fd, &nowhere);
    error = datagram_inlet_watch(d, &d->share_inlet);
    error = error == 0 ? datagram_inlet_watch(d, &d->wake_inlet) : error;
    if (error == 0) {
        datagram_host_watch(d);
        datagram_wills_ask(d);
    }
    return error;
}

int datagram_udp_create(const struct datagram_udp_config *config, struct datagram_link **ret)
{
    struct datagram_udp *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return -ENOMEM;
    }
    d->base.ops = &datagram_udp_ops;
    d->base.hops = (struct datagram_hops){
        .ipv4 = system_hops(AF_INET, IPPROTO_IP, IP_TTL),
        .ipv6 = system_hops(AF_INET6, IPPROTO_IPV6, IPV6_UNICAST_HOPS),
        .group = HOPS_TO_GROUP,
    };
    d->base.pushes = config->rights != 0 && config->is_local ? &datagram_push_ops : NULL;
    d->config = *config;
    d->config.port = config->port != 0 ? config->port : DATAGRAM_UDP_PORT;
    d->has_gso = !config->is_single;
    d->in.wanted = DATAGRAM_MESSAGES_MAX;
    d->share.fd = d->host_inlet.fd = -1;
    list_init(&d->places);
    list_init(&d->groups);
    list_init(&d->services);
    list_init(&d->in.ready);
    datagram_wills_init(d);
    datagram_lanes_init(d);
    icrc_ids_init(&d->ids);
    fault_model_init(&d->faults, &config->corrupt);
    int error = udp_begin(d);
    if (error != 0) {
        udp_destroy(&d->base);
        return error;
    }
    datagram_slot_take(&d->base, d->share.slot);
    *ret = &d->base;
    return 0;
}
