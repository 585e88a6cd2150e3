// Writes past the stream, into the peer's memory. As in struct push_ops.
//
// The source copies: whose memory it is waits for it when he takes a key back (slot.h).

#include "base/check.h"
#include "base/key_mirror.h"
#include "base/port_push.h"
#include "link/local/doorbell.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/push_run.h"
#include "link/local/slot.h"
#include "link/local/stream.h"

// Where the peer's thread is awake anyway the ring is as fast, and both copy at a time. What is on
// the stream comes first.
static bool is_worth_pushing(struct local_stream *s, const struct push *w)
{
    return s->path == LOCAL_PATH_MEMORY && !s->is_broken && !s->is_shut && push_is_short(w) &&
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

static bool is_in_stream(struct local_stream *s)
{
    const struct local_link *l = local_link_at(s);
    if (push_run_note(&s->push_run, l->config.clock(l->config.clock_ctx))) {
        push_run_hear(&s->push_run, heard_of(s));
    }
    return push_run_is_stream(&s->push_run);
}

static void begin(struct local_stream *s, const struct local_pusher *pusher, const struct push *w,
                  struct push_aimed *ret)
{
    CHECK(s->pushing_by == NULL);
    s->pusher = *pusher;
    s->pushing_by = s->peer_keys;
    s->pushing_by->out_count++;
    ret->by = s;
    ret->process = s->process;
    ret->len = w->len;
    ret->piece_count = w->piece_count;
    for (unsigned i = 0; i < w->piece_count; i++) {
        ret->pieces[i] = w->pieces[i];
    }
}

static bool find_place(const struct local_stream *s, const struct push *w, struct key *ret,
                       uint64_t *ret_addr)
{
    return key_mirror_find(&s->peer_keys->shown->keys, w->stag, ret) &&
           key_allows(ret, KEY_MAY_WRITE) && key_resolve(ret, s->peer_pd, w->to, w->len, ret_addr);
}

enum past_answer local_push_aim(struct link_stream *stream, const struct push *w,
                                struct push_aimed *ret)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    struct local_pusher pusher;
    if (!is_worth_pushing(s, w) || !local_gate_find(s, KEY_MAY_WRITE, &pusher)) {
        return PAST_REFUSED;
    }
    if (ret == NULL) {
        return push_run_is_stream(&s->push_run) ? PAST_REFUSED : PAST_BEGUN;
    }
    if (is_in_stream(s)) {
        l->counters.pushes_streamed++;
        return PAST_REFUSED;
    }
    if (!find_place(s, w, &ret->key, &ret->addr)) {
        l->counters.pushes_failed++;
        return PAST_REFUSED;
    }
    begin(s, &pusher, w, ret);
    return PAST_BEGUN;
}

// The stream may be closed meanwhile: what is looked at stays until local_push_conclude.
bool local_push_put(const struct push_aimed *push)
{
    const struct local_stream *s = push->by;
    return local_slot_push(&s->pusher, &push->key, push->addr, push->pieces, push->piece_count,
                           push->len);
}

void local_push_conclude(const struct push_aimed *push, bool is_done)
{
    struct local_stream *s = push->by;
    struct local_counters *counters = &local_link_at(s)->counters;
    counters->pushes += is_done;
    counters->pushed_octets += is_done ? push->len : 0;
    counters->pushes_failed += !is_done;
    s->pushing_by->out_count--;
    s->pushing_by = NULL;
    if (s->is_departed && s->leaver == 0) {
        local_stream_rest(s);
    }
}
