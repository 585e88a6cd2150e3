// Writes past lanes, into the memory of the process that a lane leads to (way.h). As in struct
// packet_push_ops.

#include <stdlib.h>

#include "base/check.h"
#include "base/errno_name.h"
#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_packet_push.h"
#include "base/port_push.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/datagram/lane.h"
#include "link/datagram/lanes.h"
#include "link/datagram/share.h"
#include "link/datagram/slot.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/local/keys.h"
#include "link/local/octet_ring.h"
#include "link/local/push_run.h"
#include "link/local/sealed.h"
#include "link/local/slot.h"
#include "link/sys.h"

/* ---- ways ------------------------------------------------------------------------------------ */

static void way_free(struct datagram_way *way)
{
    local_peer_keys_close(&way->keys);
    free(way);
}

bool datagram_way_keep(struct datagram_udp *d, struct datagram_lane_out *lane)
{
    struct datagram_way *way = lane->way;
    lane->way = NULL;
    if (way == NULL) {
        return false;
    }
    if (way->used == 0) {
        way_free(way);
        return false;
    }
    way->memory = lane->memory;
    way->fd = lane->inlet.fd;
    list_push_tail(&d->lanes.ways, &way->link);
    return true;
}

// Of a lane that has ended, and nobody is in.
static void way_rest(struct datagram_way *way)
{
    list_remove(&way->link);
    local_sealed_release(way->memory, LANE_MEMORY_LEN);
    sys_close_fd(&way->fd);
    way_free(way);
}

// What is mapped the child does not have; what was allocated is the threads' that it does not have.
void datagram_ways_abandon(struct datagram_udp *d)
{
    struct list_link *l;
    while ((l = list_pop_head(&d->lanes.ways)) != NULL) {
        sys_close_fd(&LIST_ENTRY(l, struct datagram_way, link)->fd);
    }
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        struct datagram_way *way = d->lanes.out[slot].way;
        if (way != NULL) {
            way->keys.shown = NULL;
        }
    }
}

static void keys_open(struct datagram_udp *d, struct datagram_way *way,
                      const struct local_gate *gate, pid_t process)
{
    const int error = local_peer_keys_open(&way->keys, gate, process);
    if (error != 0) {
        d->lanes.counters.local_pushes_forbidden++;
        TRACE(d->config.trace, TRACE_LINK, "nothing is pushed into process %d: %s", process,
              errno_name(-error));
    }
}

// The process is asked with the first Write. Which it is the kernel has said: its memory could name
// one that lets us write and not it. NULL: nothing is written so.
static struct datagram_way *way_of(struct datagram_udp *d, struct datagram_lane_out *lane)
{
    const struct local_gate *gate = lane_gate(lane->memory);
    if (lane->process <= 0 || atomic_load_explicit(&gate->opening, memory_order_acquire) == 0) {
        return NULL;
    }
    if (lane->way == NULL) {
        lane->way = calloc(1, sizeof *lane->way);
        if (lane->way == NULL) {
            return NULL;
        }
        lane->way->d = d;
        lane->way->fd = -1;
        list_init(&lane->way->link);
        keys_open(d, lane->way, gate, lane->process);
    }
    return lane->way->keys.shown != NULL ? lane->way : NULL;
}

/* ---- whether it may -------------------------------------------------------------------------- */

// The lane by which its packet would leave; NULL: it would leave otherwise.
static struct datagram_lane_out *lane_of(struct datagram_udp *d, const struct gate *from)
{
    const uint32_t slot = from->peer_qp_num >> DATAGRAM_SLOT_SHIFT;
    const bool is_ones = d->config.is_local && (d->config.rights & KEY_MAY_WRITE) != 0 &&
                         slot != d->share.slot && slot < DATAGRAM_SHARE_SLOTS;
    struct datagram_lane_out *lane = is_ones ? &d->lanes.out[slot] : NULL;
    const bool may = lane != NULL && lane->is_open &&
                     datagram_place_find(d, &from->remote) != NULL &&
                     datagram_place_find(d, &from->local) != NULL;
    return may ? lane : NULL;
}

// Where the peer's thread is awake anyway packets are as fast, and cost no system call. But who
// does nothing but write has a peer that waits for no thread.
static bool is_worth_pushing(const struct datagram_lane_out *lane, const struct packet_push *push)
{
    return push_is_short(&push->write) && (push->is_writer || lane_reader_sleeps(&lane->writer));
}

// What the other process has done that can be seen from here, by either way.
static uint64_t heard_of(struct datagram_udp *d, const struct datagram_lane_out *lane)
{
    uint8_t *memory = d->lanes.in[lane - d->lanes.out].memory;
    if (memory == NULL) {
        return 0;
    }
    const _Atomic uint64_t *written =
        (const void *)(memory + LANE_MEMORY_RING + OCTET_RING_WRITTEN);
    uint64_t heard = atomic_load_explicit(written, memory_order_relaxed);
    for (unsigned i = 0; i < LANE_SLOTS; i++) {
        heard += atomic_load_explicit(&lane_slot(memory, i)->turn, memory_order_relaxed);
    }
    return heard;
}

static bool is_in_stream(struct datagram_udp *d, struct datagram_lane_out *lane, instant_ns now)
{
    struct push_run *run = &lane->way->run;
    if (push_run_note(run, now)) {
        push_run_hear(run, heard_of(d, lane));
    }
    return push_run_is_stream(run);
}

// The peer's queue pair is open for ours, and our packet is the one that it takes next.
static const struct gate_entry *gate_of(const struct datagram_way *way, const struct gate *from,
                                        uint32_t *ret_pd, uint64_t *ret_opening)
{
    struct gate found;
    const struct gate_entry *entry =
        gate_mirror_find(&way->keys.shown->gates, from->peer_qp_num, &found, ret_opening);
    if (entry == NULL) {
        return NULL;
    }
    const struct gate wanted = {.qp_num = from->peer_qp_num,
                                .peer_qp_num = from->qp_num,
                                .local = from->remote,
                                .remote = from->local,
                                .pd = found.pd};
    *ret_pd = found.pd;
    return gate_is_alike(&found, &wanted) && found.psn == from->psn ? entry : NULL;
}

static bool find_place(const struct datagram_way *way, uint32_t pd, const struct push *write,
                       struct push_aimed *ret)
{
    return key_mirror_find(&way->keys.shown->keys, write->stag, &ret->key) &&
           key_allows(&ret->key, KEY_MAY_WRITE) &&
           key_resolve(&ret->key, pd, write->to, write->len, &ret->addr);
}

/* ---- one ------------------------------------------------------------------------------------- */

// NULL: as many are under way as there are slots.
static struct datagram_way_user *user_of(struct datagram_way *way, uint8_t *memory)
{
    const int i = __builtin_ctz(~way->used);
    if (i >= LANE_SLOTS) {
        return NULL;
    }
    struct datagram_way_user *user = &way->users[i];
    way->used |= 1U << i;
    user->way = way;
    user->pusher.slot = lane_slot(memory, (unsigned)i);
    return user;
}

static void begin(struct datagram_way_user *user, const struct push *write, struct push_aimed *ret)
{
    ret->by = user;
    ret->process = user->pusher.process;
    ret->len = write->len;
    ret->piece_count = write->piece_count;
    for (unsigned i = 0; i < write->piece_count; i++) {
        ret->pieces[i] = write->pieces[i];
    }
}

enum past_answer datagram_push_aim(struct datagram_link *link, const struct packet_push *push,
                                   struct push_aimed *ret)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_lane_out *lane = lane_of(d, &push->from);
    struct datagram_way *way =
        lane != NULL && is_worth_pushing(lane, push) ? way_of(d, lane) : NULL;
    uint64_t opening;
    uint32_t pd;
    const struct gate_entry *gate = way != NULL ? gate_of(way, &push->from, &pd, &opening) : NULL;
    if (gate == NULL) {
        return PAST_REFUSED;
    }
    if (is_in_stream(d, lane, push->now)) {
        d->lanes.counters.local_pushes_streamed++;
        return PAST_REFUSED;
    }
    struct datagram_way_user *user = NULL;
    if (find_place(way, pd, &push->write, ret)) {
        user = user_of(way, lane->memory);
    }
    if (user == NULL) {
        d->lanes.counters.local_pushes_failed++;
        return PAST_REFUSED;
    }
    user->pusher.gate = &gate->opening;
    user->pusher.opening = opening;
    user->pusher.sill = atomic_load(&lane_gate(lane->memory)->sill);
    user->pusher.process = way->keys.process;
    begin(user, &push->write, ret);
    return PAST_BEGUN;
}

bool datagram_push_put(const struct push_aimed *push)
{
    const struct datagram_way_user *user = push->by;
    return local_slot_push(&user->pusher, &push->key, push->addr, push->pieces, push->piece_count,
                           push->len);
}

void datagram_push_conclude(const struct push_aimed *push, bool is_done)
{
    struct datagram_way_user *user = push->by;
    struct datagram_way *way = user->way;
    struct datagram_lane_counters *counters = &way->d->lanes.counters;
    counters->local_pushes += is_done;
    counters->local_pushed_octets += is_done ? push->len : 0;
    counters->local_pushes_failed += !is_done;
    way->used &= ~(1U << (user - way->users));
    if (way->used == 0 && way->memory != NULL) {
        way_rest(way);
    }
}
