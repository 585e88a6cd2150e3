// Writes past the stream: into the peer's memory, and the peer's into ours. As in struct push_ops.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/local/doorbell.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/slot.h"
#include "link/local/stream.h"
#include "link/local/thread.h"

#define RUN_GAP_NS (20 * NS_PER_US) // Writes of a stream follow each other faster

/* ---- our memory ------------------------------------------------------------------------------ */

static struct key_mirror *own_mirror(struct link *link)
{
    struct local_link *l = local_link_of(link);
    if (l->own_keys.mirror == NULL) {
        int error = local_own_keys_create(&l->own_keys);
        if (error != 0) {
            TRACE(l->config.trace, TRACE_LINK, "no keys are shown: %s", errno_name(-error));
        }
    }
    return l->own_keys.mirror;
}

static void on_long(void *ctx, pid_t process, pid_t thread)
{
    struct local_link *l = ctx;
    l->counters.revocations_long++;
    if (l->config.on_long_revocation != NULL) {
        l->config.on_long_revocation(process, thread);
    }
}

// The peer's slot for our memory.
static void revoke_in(struct local_stream *s, uint64_t generation)
{
    struct local_link *l = local_link_at(s);
    const struct local_patience patience = {
        .clock = l->config.clock, .clock_ctx = l->config.clock_ctx, .on_long = on_long, .ctx = l};
    local_slot_revoke(local_memory_slot(&s->memory, local_other_side(s->side)), generation,
                      s->process, &patience);
}

static void revoke(struct link *link, uint64_t generation)
{
    struct local_link *l = local_link_of(link);
    for (struct list_link *at = l->admitted.next; at != &l->admitted; at = at->next) {
        revoke_in(LIST_ENTRY(at, struct local_stream, admitted_link), generation);
    }
}

// Who cannot be looked at could not be waited for.
static bool admit(struct link_stream *stream, uint32_t pd)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    if (s->path == LOCAL_PATH_OFFERED || s->path == LOCAL_PATH_ASKED) {
        return false;
    }
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || l->own_keys.mirror == NULL ||
        !local_threads_are_visible(s->process)) {
        return true;
    }
    struct local_gate *gate = local_memory_gate(&s->memory, s->side);
    atomic_store(&gate->pd, pd);
    atomic_store(&gate->mirror_fd, (uint64_t)l->own_keys.fd);
    atomic_store(&gate->sill, (uint64_t)(uintptr_t)l->own_keys.sill);
    atomic_store(&gate->nonce, l->own_keys.nonce);
    list_push_tail(&l->admitted, &s->admitted_link);
    atomic_store(&gate->opening, ++s->openings);
    return true;
}

void local_push_expel(struct local_stream *s)
{
    if (list_is_empty(&s->admitted_link)) {
        return;
    }
    list_remove(&s->admitted_link);
    atomic_store(&local_memory_gate(&s->memory, s->side)->opening, 0);
    revoke_in(s, LOCAL_SLOT_ANY);
}

static void expel(struct link_stream *stream)
{
    local_push_expel(local_stream_of(stream));
}

/* ---- the peer's memory ----------------------------------------------------------------------- */

// A process that refused is remembered, too, with no mirror.
static struct local_peer_keys *peer_keys_of(struct local_stream *s, const struct local_gate *gate)
{
    struct local_link *l = local_link_at(s);
    uint64_t nonce = atomic_load(&gate->nonce);
    for (struct list_link *at = l->peers.next; at != &l->peers; at = at->next) {
        struct local_peer_keys *known = LIST_ENTRY(at, struct local_peer_keys, link);
        if (known->process == s->process && known->nonce == nonce) {
            return known;
        }
    }
    struct local_peer_keys *peer = malloc(sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    int error = local_peer_keys_open(peer, gate, s->process);
    if (error != 0) {
        l->counters.pushes_forbidden++;
        TRACE(l->config.trace, TRACE_LINK, "nothing is pushed into process %d: %s", s->process,
              errno_name(-error));
    }
    if (l->peer_count == LOCAL_PEERS_MAX) {
        local_push_forget_peer(l, LIST_ENTRY(l->peers.next, struct local_peer_keys, link));
    }
    list_push_tail(&l->peers, &peer->link);
    l->peer_count++;
    return peer;
}

void local_push_forget_peer(struct local_link *l, struct local_peer_keys *peer)
{
    for (struct list_link *at = l->streams.next; at != &l->streams; at = at->next) {
        struct local_stream *s = LIST_ENTRY(at, struct local_stream, link);
        if (s->peer_keys == peer) {
            s->peer_keys = NULL;
            s->peer_opening = 0;
        }
    }
    list_remove(&peer->link);
    l->peer_count--;
    local_peer_keys_close(peer);
    free(peer);
}

// The gate that the peer has opened for us, with its keys. False: none, or the kernel forbids it.
static bool find_gate(struct local_stream *s, struct local_pusher *ret)
{
    const struct local_gate *gate = local_memory_gate(&s->memory, local_other_side(s->side));
    uint64_t opening = atomic_load_explicit(&gate->opening, memory_order_acquire);
    if (opening == 0) {
        return false;
    }
    if (opening != s->peer_opening) {
        s->peer_opening = opening;
        s->peer_sill = atomic_load(&gate->sill);
        s->peer_pd = (uint32_t)atomic_load(&gate->pd);
        s->peer_keys = s->process > 0 ? peer_keys_of(s, gate) : NULL;
    }
    *ret = (struct local_pusher){
        .slot = local_memory_slot(&s->memory, s->side),
        .gate = gate,
        .opening = opening,
        .sill = s->peer_sill,
        .process = s->process,
    };
    return s->peer_keys != NULL && s->peer_keys->mirror != NULL;
}

static bool push_by(const struct local_pusher *pusher, const struct key *key, uint64_t addr,
                    const struct push *w)
{
    struct iovec pieces[LOCAL_PUSH_PIECES_MAX];
    for (unsigned i = 0; i < w->piece_count; i++) {
        pieces[i] = (struct iovec){(void *)(uintptr_t)w->pieces[i].ptr, w->pieces[i].len};
    }
    if (!local_slot_enter(pusher, key, addr, w->len)) {
        return false;
    }
    int error = local_slot_call(pusher, pieces, w->piece_count, w->len);
    local_slot_leave(pusher);
    return error == 0;
}

// Where the peer's thread is awake anyway the ring is as fast, and both copy at a time. What is on
// the stream comes first.
static bool is_worth_pushing(struct local_stream *s, const struct push *w)
{
    return s->path == LOCAL_PATH_MEMORY && !s->is_broken && !s->is_shut &&
           w->len <= LOCAL_PUSH_LEN_MAX && w->piece_count <= LOCAL_PUSH_PIECES_MAX &&
           doorbell_other_sleeps(s->channel->other_bell) && octet_ring_is_drained(&s->tx);
}

// What the peer has done that can be seen from here, by either way.
static uint64_t heard_of(const struct local_stream *s)
{
    enum local_side other = local_other_side(s->side);
    const _Atomic uint64_t *written = (const void *)(s->rx.ring.control + OCTET_RING_WRITTEN);
    return atomic_load_explicit(&local_memory_slot(&s->memory, other)->turn, memory_order_relaxed) +
           atomic_load_explicit(written, memory_order_relaxed);
}

// Whether this Write is one of many that follow each other, to which nobody answers: to wake the
// peer once for all of them costs less than a system call for each.
static bool is_in_stream(struct local_stream *s)
{
    const struct local_link *l = local_link_at(s);
    instant_ns now = l->config.clock(l->config.clock_ctx);
    uint64_t heard = heard_of(s);
    bool goes_on = heard == s->push_heard && now < instant_after(s->pushed_at_ns, RUN_GAP_NS);
    s->push_run = goes_on ? s->push_run + 1 : 0;
    s->push_heard = heard;
    s->pushed_at_ns = now;
    return s->push_run >= LOCAL_PUSH_RUN_MAX;
}

static bool push(struct link_stream *stream, const struct push *w)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    struct local_pusher pusher;
    struct key key;
    uint64_t addr;
    if (!is_worth_pushing(s, w) || !find_gate(s, &pusher)) {
        return false;
    }
    if (is_in_stream(s)) {
        l->counters.pushes_streamed++;
        return false;
    }
    bool is_known = key_mirror_find(s->peer_keys->mirror, w->stag, &key) &&
                    key_resolve(&key, s->peer_pd, w->to, w->len, &addr);
    bool is_done = is_known && push_by(&pusher, &key, addr, w);
    l->counters.pushes += is_done;
    l->counters.pushed_octets += is_done ? w->len : 0;
    l->counters.pushes_failed += !is_done;
    return is_done;
}

const struct push_ops local_push_ops = {
    .mirror = own_mirror,
    .revoke = revoke,
    .admit = admit,
    .expel = expel,
    .push = push,
};
