// Who is ready, and how long the link may wait.

#include <errno.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fetch.h"
#include "base/lingering.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/time.h"
#include "link/local/channel.h"
#include "link/local/doorbell.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/stream.h"

enum {
    ASK_TCP_TURNS = 8,     // with streams in memory TCP is asked in every 8th look, at most ...
    IDLE_LOOKS_MAX = 4096, // ... and who was idle for so many falls asleep
    MARKED_MAX = 64,       // taken down in one look
    STRAY_LEN = 64,
};

#define ASK_TCP_GAP_NS (50 * NS_PER_US) // ... so often: it is a system call

/* ---- waiting --------------------------------------------------------------------------------- */

static void linger_end(struct local_link *l, bool has_paid)
{
    if (l->is_lingering) {
        l->is_lingering = false;
        lingering_note(&l->lingering, has_paid);
    }
}

// To look on for a while saves a bell and a wake-up if something comes.
static bool all_may_sleep(struct local_link *l)
{
    if (list_is_empty(&l->channels)) {
        return true;
    }
    instant_ns now = l->config.clock(l->config.clock_ctx);
    if (l->moved_seen != l->moved_count) {
        l->moved_seen = l->moved_count;
        l->moved_at_ns = now;
        linger_end(l, true);
        l->is_lingering = lingering_is_worth_it(&l->lingering);
    }
    if (l->is_lingering && now < instant_after(l->moved_at_ns, l->config.linger_ns)) {
        return false;
    }
    linger_end(l, false);
    while (!list_is_empty(&l->awake)) {
        if (!local_fall_asleep(LIST_ENTRY(l->awake.next, struct local_stream, awake_link))) {
            return false;
        }
    }
    return local_channels_sleep(l);
}

bool local_may_wait(struct link *link)
{
    struct local_link *l = local_link_of(link);
    bool may = all_may_sleep(l);
    atomic_store_explicit(&l->is_waiting, may, memory_order_release);
    return may;
}

void local_wait(struct link *link, duration_ns timeout_ns)
{
    struct local_link *l = local_link_of(link);
    link_wait(l->forward.inner, timeout_ns);
    atomic_store_explicit(&l->has_waited, true, memory_order_relaxed);
    atomic_store_explicit(&l->is_waiting, false, memory_order_release);
}

/* ---- readiness ------------------------------------------------------------------------------- */

// All that are awake, within `max`, those that were not looked at longest first.
static unsigned look_at_memory(struct local_link *l, struct link_ready *ret, unsigned max)
{
    struct list_link todo, *at;
    unsigned count = 0;
    l->turn_count++;
    list_move_all(&todo, &l->awake);
    while ((at = list_pop_head(&todo)) != NULL) {
        struct local_stream *s = LIST_ENTRY(at, struct local_stream, awake_link);
        unsigned what = count < max ? local_what_of(s) : 0;
        list_push_tail(&l->awake, at);
        if (what != 0) {
            s->idle_count = 0;
            s->turn = l->turn_count;
            ret[count++] = (struct link_ready){&s->forward.base, what};
        } else if (++s->idle_count > IDLE_LOOKS_MAX && count < max) {
            local_fall_asleep(s);
        }
        if (count == max) {
            break;
        }
    }
    while ((at = list_pop_head(&todo)) != NULL) { // looked at first in the next turn
        list_push_head(&l->awake, at);
    }
    return count;
}

// Who is marked was asleep: what will be looked at of its memory is asked for in advance.
static void fetch_memory(const struct local_stream *s)
{
    if (s->path == LOCAL_PATH_MEMORY) {
        octet_ring_reader_fetch(&s->rx);
        fetch_ahead(s->tx.ring.control, OCTET_RING_CONTROL_LEN);
    }
}

// A stream that the peer has marked, unless this turn has reported it.
static unsigned what_of_mark(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    if (s->path == LOCAL_PATH_OFFERED) {
        local_path_follow(s);
    }
    if (s->path != LOCAL_PATH_MEMORY) {
        return 0;
    }
    local_attend(s);
    unsigned what = s->turn != l->turn_count ? local_what_of(s) : 0;
    s->turn = what != 0 ? l->turn_count : s->turn;
    return what;
}

static unsigned look_at_marks(struct local_link *l, struct link_ready *ret, unsigned max)
{
    struct local_stream *marked[MARKED_MAX];
    bool is_whole;
    unsigned count = 0;
    unsigned marked_count =
        local_take_marks(l, marked, max < MARKED_MAX ? max : MARKED_MAX, &is_whole);
    for (unsigned i = 0; i < marked_count; i++) {
        fetch_memory(marked[i]);
    }
    for (unsigned i = 0; i < marked_count; i++) {
        unsigned what = what_of_mark(marked[i]);
        if (what != 0) {
            ret[count++] = (struct link_ready){&marked[i]->forward.base, what};
        }
    }
    if (!is_whole && atomic_load_explicit(&l->is_waiting, memory_order_acquire)) {
        link_wake(l->forward.inner);
    }
    return count;
}

// Nothing more comes by TCP but its end. What it says is not asked for twice.
static void hear_end(struct local_stream *s)
{
    uint8_t stray[STRAY_LEN];
    ssize_t len = link_recv(s->forward.inner, mspan_of(stray, sizeof stray));
    if (len <= 0 && len != -EAGAIN) {
        local_note_tcp_over(s, (int)len);
    }
}

static bool has_octets_by_tcp(const struct local_stream *s)
{
    return s->side == LOCAL_PASSIVE && !s->is_switched;
}

// What TCP reports of a stream in memory: that it has ended, or octets that came before.
static unsigned what_of_tcp(struct local_stream *s, unsigned what)
{
    if (has_octets_by_tcp(s) && (what & LINK_READY_IN) != 0) {
        return what & ~(unsigned)LINK_READY_OUT;
    }
    if ((what & LINK_READY_IN) != 0 || s->is_broken) {
        hear_end(s);
    } else if ((what & LINK_READY_ERR) != 0) {
        local_note_tcp_over(s, link_connect_result(s->forward.inner));
    }
    local_attend(s);
    return s->turn != local_link_at(s)->turn_count ? local_what_of(s) : 0;
}

static unsigned look_at_tcp(struct local_link *l, struct link_ready *reports, int count)
{
    unsigned kept = 0;
    for (int i = 0; i < count; i++) {
        void *owner = reports[i].stream->owner;
        if (owner == NULL) {
            continue;
        }
        if ((reports[i].stream->facts & LINK_IS_OF_HOST) != 0) { // a channel's
            local_channel_hear(l, owner);
            local_arm(l, owner);
            continue;
        }
        struct local_stream *s = owner;
        unsigned what = reports[i].what;
        if (s->path == LOCAL_PATH_MEMORY) {
            what = what_of_tcp(s, what);
        }
        if (what != 0) {
            reports[kept++] = (struct link_ready){&s->forward.base, what};
        }
    }
    return kept;
}

// Who looks all the time asks TCP now and then.
static bool is_tcp_due(struct local_link *l)
{
    if (l->in_memory_count == 0) {
        return true;
    }
    if (l->turn_count % ASK_TCP_TURNS != 0) {
        return false;
    }
    instant_ns now = l->config.clock(l->config.clock_ctx);
    bool is_due = now >= instant_after(l->tcp_asked_ns, ASK_TCP_GAP_NS);
    l->tcp_asked_ns = is_due ? now : l->tcp_asked_ns;
    return is_due;
}

// Somebody has waited since the last look: channels rise, unless somebody waits again. Whether TCP
// may have ended that. If a bell has, what else there is keeps the link ready, or is found when TCP
// is due.
static bool tcp_may_have_woken(struct local_link *l)
{
    bool has_waited = atomic_load_explicit(&l->has_waited, memory_order_relaxed) &&
                      atomic_exchange_explicit(&l->has_waited, false, memory_order_relaxed);
    if (has_waited && !atomic_load_explicit(&l->is_waiting, memory_order_acquire)) {
        return !local_channels_rise(l);
    }
    return has_waited;
}

// TCP has been asked by who waited: it is when it is due.
void local_rise(struct link *link)
{
    struct local_link *l = local_link_of(link);
    atomic_store_explicit(&l->has_waited, false, memory_order_relaxed);
    atomic_store_explicit(&l->is_waiting, false, memory_order_release);
    local_channels_rise(l);
}

/* ---- patience -------------------------------------------------------------------------------- */

instant_ns local_next_deadline(struct link *link)
{
    struct local_link *l = local_link_of(link);
    return instant_min(l->stuck_until_ns, link_next_deadline(l->forward.inner));
}

static bool has_taken_since(struct local_stream *s)
{
    octet_ring_room(&s->tx); // looks
    return s->tx.taken != s->stuck_taken;
}

// Who waits for room, and has had none for too long, is told that the peer is gone.
static void give_up_stuck(struct local_link *l, instant_ns now)
{
    l->stuck_until_ns = INSTANT_NEVER;
    for (struct list_link *at = l->stuck.next, *next; at != &l->stuck; at = next) {
        struct local_stream *s = LIST_ENTRY(at, struct local_stream, stuck_link);
        next = at->next;
        if (now >= s->stuck_until_ns && !has_taken_since(s)) {
            list_remove(at);
            s->is_tcp_over = true;
            s->tcp_error = -ETIMEDOUT;
            local_attend(s);
            continue;
        }
        if (now >= s->stuck_until_ns) {
            s->stuck_taken = s->tx.taken;
            s->stuck_until_ns = instant_after(now, l->config.peer_timeout_ns);
        }
        l->stuck_until_ns = instant_min(l->stuck_until_ns, s->stuck_until_ns);
    }
}

static void note_stuck(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    if (l->config.peer_timeout_ns == 0 || !list_is_empty(&s->stuck_link)) {
        return;
    }
    instant_ns now = l->config.clock(l->config.clock_ctx);
    s->stuck_taken = s->tx.taken;
    s->stuck_until_ns = instant_after(now, l->config.peer_timeout_ns);
    l->stuck_until_ns = instant_min(l->stuck_until_ns, s->stuck_until_ns);
    list_push_tail(&l->stuck, &s->stuck_link);
}

/* ---- as in struct link_ops ------------------------------------------------------------------- */

int local_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct local_link *l = local_link_of(link);
    if (l->stuck_until_ns != INSTANT_NEVER) {
        instant_ns now = l->config.clock(l->config.clock_ctx);
        if (now >= l->stuck_until_ns) {
            give_up_stuck(l, now);
        }
    }
    bool is_tcp_asked = tcp_may_have_woken(l);
    unsigned count = look_at_memory(l, ret, max);
    count += look_at_marks(l, ret + count, max - count);
    if (count == max || (!is_tcp_asked && !is_tcp_due(l))) {
        return (int)count;
    }
    int more = link_poll(l->forward.inner, ret + count, max - count);
    if (more < 0) {
        return count > 0 ? (int)count : more;
    }
    return (int)(count + look_at_tcp(l, ret + count, more));
}

// Of TCP's octets none are left, mostly: its end is looked for in any case, and to say so to the
// kernel each time would be a system call for every message that waits for a receive.
void local_want_in(struct link_stream *stream, bool wanted)
{
    struct local_stream *s = local_stream_of(stream);
    s->wants_in = wanted;
    if (wanted || s->path != LOCAL_PATH_MEMORY || has_octets_by_tcp(s)) {
        link_want_in(s->forward.inner, wanted);
    }
    local_attend(s);
}

void local_want_out(struct link_stream *stream, bool wanted)
{
    struct local_stream *s = local_stream_of(stream);
    s->wants_out = wanted;
    if (s->path != LOCAL_PATH_MEMORY) {
        link_want_out(s->forward.inner, wanted);
        return;
    }
    if (wanted) {
        note_stuck(s);
    } else {
        list_remove(&s->stuck_link);
    }
    local_attend(s);
}
