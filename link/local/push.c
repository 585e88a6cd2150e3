// Writes past the stream, into the peer's memory. As in struct push_ops.

#include "base/key_mirror.h"
#include "base/port_push.h"
#include "base/time.h"
#include "link/local/doorbell.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/slot.h"
#include "link/local/stream.h"

#define RUN_GAP_NS (20 * NS_PER_US) // Writes of a stream follow each other faster

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

bool local_push(struct link_stream *stream, const struct push *w)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    struct local_pusher pusher;
    struct key key;
    uint64_t addr;
    if (!is_worth_pushing(s, w) || !local_gate_find(s, KEY_MAY_WRITE, &pusher)) {
        return false;
    }
    if (is_in_stream(s)) {
        l->counters.pushes_streamed++;
        return false;
    }
    bool is_known = key_mirror_find(s->peer_keys->mirror, w->stag, &key) &&
                    key_allows(&key, KEY_MAY_WRITE) &&
                    key_resolve(&key, s->peer_pd, w->to, w->len, &addr);
    bool is_done = is_known && push_by(&pusher, &key, addr, w);
    l->counters.pushes += is_done;
    l->counters.pushed_octets += is_done ? w->len : 0;
    l->counters.pushes_failed += !is_done;
    return is_done;
}
