// Which streams are looked at.
//
// A stream in memory is *awake* while its rings are looked at, and asleep when its peer was told to
// mark it in the channel (bells.c), where all marks are seen in one look: those that were used last
// are awake, and before the link waits, all fall asleep, and the channels with them. So what is
// looked at does not grow with the number of streams.
//
// While somebody waits nobody is awake: who uses a stream beside that leaves it asleep, or awake
// and wakes whoever waits. Otherwise the next octets would ring for nobody.

#include "base/list.h"
#include "base/port_link.h"
#include "link/local/channel.h"
#include "link/local/doorbell.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/stream.h"

enum { AWAKE_MAX = 16 }; // more than so many are not looked at, unless they have something

static void leave_awake(struct local_stream *s)
{
    if (!list_is_empty(&s->awake_link)) {
        local_link_at(s)->awake_count--;
        list_remove(&s->awake_link);
    }
}

void local_unlist(struct local_stream *s)
{
    leave_awake(s);
    list_remove(&s->stuck_link);
}

// Room that is worth going on for.
static size_t room_wanted(const struct local_stream *s)
{
    return s->tx.ring.len / 4;
}

// The peer has ended, or TCP has, and the user has not heard it.
static bool has_untold_end(const struct local_stream *s)
{
    enum local_end end = local_peer_end(s);
    bool is_reset = end == LOCAL_END_ABORTED || (s->is_tcp_over && s->tcp_error != 0);
    return is_reset || (!s->has_fin && (end != LOCAL_END_NONE || s->is_tcp_over));
}

unsigned local_what_of(struct local_stream *s)
{
    unsigned what = 0;
    if (s->is_broken) {
        return 0;
    }
    if (s->wants_in &&
        (octet_ring_available(&s->rx) > 0 || s->rx.verdict != OCTET_RING_OK || has_untold_end(s))) {
        what |= LINK_READY_IN;
    }
    if (s->wants_out && !s->is_shut &&
        (octet_ring_room(&s->tx) >= room_wanted(s) || s->tx.verdict != OCTET_RING_OK)) {
        what |= LINK_READY_OUT;
    }
    if (s->is_tcp_over && s->tcp_error != 0) {
        what |= LINK_READY_ERR;
    }
    return what;
}

// From now on the peer rings. False: there is something to be done for it.
static bool may_sleep(struct local_stream *s)
{
    bool may = (!s->wants_in || octet_ring_reader_sleep(&s->rx)) &&
               (!s->wants_out || octet_ring_writer_sleep(&s->tx, room_wanted(s))) &&
               local_what_of(s) == 0;
    if (!may) {
        octet_ring_reader_rise(&s->rx);
        octet_ring_writer_rise(&s->tx);
    }
    return may;
}

bool local_fall_asleep(struct local_stream *s)
{
    bool may = may_sleep(s);
    if (may) {
        leave_awake(s);
    }
    return may;
}

static void rise(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    octet_ring_reader_rise(&s->rx);
    octet_ring_writer_rise(&s->tx);
    list_push_tail(&l->awake, &s->awake_link);
    if (++l->awake_count > AWAKE_MAX) {
        local_fall_asleep(LIST_ENTRY(l->awake.next, struct local_stream, awake_link));
    }
}

void local_attend(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    s->idle_count = 0;
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || !list_is_empty(&s->awake_link)) {
        return;
    }
    bool is_waiting = atomic_load_explicit(&l->is_waiting, memory_order_acquire);
    if (is_waiting && may_sleep(s)) {
        return;
    }
    rise(s);
    if (is_waiting) {
        link_wake(l->forward.inner);
    }
}

void local_note_moved(struct local_stream *s)
{
    local_link_at(s)->moved_count++;
    local_attend(s);
}

void local_arm(struct local_link *l, struct local_channel *c)
{
    bool is_waiting = atomic_load_explicit(&l->is_waiting, memory_order_acquire);
    if (is_waiting && !doorbell_sleep(&c->taker)) {
        link_wake(l->forward.inner);
    }
}
