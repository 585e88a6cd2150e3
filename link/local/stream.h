// What the files of the local link share.
#pragma once

#include <stdbool.h>

#include "base/key_mirror.h"
#include "base/lingering.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/time.h"
#include "link/link_forward.h"
#include "link/local/channel.h"
#include "link/local/door.h"
#include "link/local/inside.h"
#include "link/local/keys.h"
#include "link/local/local.h"
#include "link/local/memory.h"
#include "link/local/push_run.h"
#include "link/local/slot.h"
#include "link/rest.h"

enum {
    LOCAL_OFFERS_MAX = 256, // handed over, and their connections' octets have not come
    LOCAL_PEERS_MAX = 256,  // processes whose keys are mapped
};

// By which way a stream's octets go.
enum local_path {
    LOCAL_PATH_TCP,     // TCP, as far as is known for good
    LOCAL_PATH_ASKED,   // accepted: the first octets decide, when the door is looked behind
    LOCAL_PATH_OFFERED, // connected: memory was handed over; TCP until the peer says it uses it
    LOCAL_PATH_MEMORY,
};

struct local_counters {
#define X(name, text) uint64_t name;
    LINK_LOCAL_COUNTERS(X)
#undef X
};

struct local_waiting_offer {
    struct list_link link;
    struct local_offer offer;
    struct local_channel *channel; // of which it is a user
};

struct local_link {
    struct link_forward forward;
    struct link_local_config config;
    struct list_link streams; // open ones
    struct rest rest;
    struct list_link listeners; // those with a door
    struct list_link offers;    // struct local_waiting_offer, the oldest first
    unsigned offer_count;
    struct list_link channels;
    unsigned in_memory_count; // streams whose octets go through memory
    struct list_link awake;   // streams whose memory is looked at
    unsigned awake_count;
    struct list_link stuck;    // streams that wait for room
    instant_ns stuck_until_ns; // not later than when the first of them has waited for too long
    unsigned turn_count;       // looks at the memory
    instant_ns tcp_asked_ns;   // when TCP was looked at last
    atomic_bool is_waiting;    // `may_wait` has said yes, and `wait` has not returned
    atomic_bool has_waited;    // channels rise in the next look
    uint64_t moved_count, moved_seen;
    instant_ns moved_at_ns; // as far as was looked
    bool is_lingering;      // looks on, though nothing is there
    struct lingering lingering;
    struct local_counters counters;
    struct local_own_keys own_keys;
    struct list_link peers; // struct local_peer_keys, the oldest first
    unsigned peer_count;
    struct list_link admitted; // streams whose peers may write into our memory
    struct list_link leaving;  // ... might, and have not come out of the call for long
    uint64_t leaver_last;
};

struct local_stream {
    struct link_forward_stream forward;
    struct list_link link;          // in `streams`, or at rest
    struct list_link listener_link; // in `listeners`, or in none
    struct list_link awake_link;    // in `awake`, or in none
    struct list_link stuck_link;    // in `stuck`, or in none
    enum local_path path;
    enum local_side side;
    bool is_connecting; // connect_result has not said how it went
    bool wants_in, wants_out;
    struct local_door door; // a listener's, and its port
    uint16_t door_port;

    pid_t process; // the peer's; 0: it is not to be seen from here

    struct local_channel *channel; // NULL: none
    uint32_t number, peer_number;  // in it: ours, and the peer's

    // Writes and Reads past the stream
    bool lets_in;                   // our gate is open
    struct list_link admitted_link; // in `admitted` or `leaving`, or in none
    uint64_t leaver;                // in `leaving`: its number there; else 0. The memory stays
    struct local_inside inside;     // the peer, in our memory
    uint64_t openings;              // of our gate, of all times
    uint64_t peer_opening;          // of the peer's gate: what is below is from there; 0: nothing
    uint64_t peer_sill;
    uint32_t peer_pd;
    unsigned peer_rights;               // enum key_right, or-ed
    struct local_peer_keys *peer_keys;  // NULL: none
    struct push_run push_run;           // Writes that have gone so
    struct local_pusher pusher;         // of the Write that is being put there
    struct local_peer_keys *pushing_by; // ... by these; NULL: there is none. Else the memory stays
    bool is_departed;                   // ... though the stream is closed

    // TCP's part
    uint64_t tcp_in, tcp_out; // octets of the stream that went by it
    bool is_tcp_over;         // it has ended: nothing comes by it any more
    int tcp_error;            // ... so; 0: the peer's FIN

    // Memory
    struct local_memory memory;
    struct octet_ring_writer tx;
    struct octet_ring_reader rx;
    bool is_switched;          // passive: where TCP's octets end is known and reached
    bool is_shut;              // we send nothing more
    bool has_fin;              // the peer's end was told
    bool is_broken;            // an error was told: nothing more happens
    unsigned idle_count;       // looks that found nothing
    unsigned turn;             // the look in which it was reported last
    instant_ns stuck_until_ns; // it waits for room; the peer had taken so much then
    uint64_t stuck_taken;
};

static inline struct local_link *local_link_of(const struct link *link)
{
    return (struct local_link *)link;
}

static inline struct local_stream *local_stream_of(const struct link_stream *stream)
{
    return (struct local_stream *)stream;
}

static inline struct local_link *local_link_at(const struct local_stream *s)
{
    return local_link_of(s->forward.base.link);
}

static inline enum local_side local_other_side(enum local_side side)
{
    return side == LOCAL_ACTIVE ? LOCAL_PASSIVE : LOCAL_ACTIVE;
}

// What the peer says in memory about its end.
static inline enum local_end local_peer_end(const struct local_stream *s)
{
    return (enum local_end)atomic_load_explicit(
        local_memory_end(&s->memory, local_other_side(s->side)), memory_order_seq_cst);
}

// The end of a stream that was closed: nobody needs its memory any more.
static inline void local_stream_rest(struct local_stream *s)
{
    local_memory_release(&s->memory);
    rest_put(&local_link_at(s)->rest, &s->link);
}

// Calls go down this list.

/* ---- wait.c: who is ready, and how long nobody is. As in struct link_ops. -------------------- */
int local_poll(struct link *link, struct link_ready *ret, unsigned max);
bool local_may_wait(struct link *link);
void local_wait(struct link *link, duration_ns timeout_ns);
void local_rise(struct link *link);
instant_ns local_next_deadline(struct link *link);
void local_want_in(struct link_stream *stream, bool wanted);
void local_want_out(struct link_stream *stream, bool wanted);

/* ---- io.c: octets. As in struct link_ops. ---------------------------------------------------- */
ssize_t local_recv(struct link_stream *stream, struct mspan into);
ssize_t local_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut);
void local_give_back(struct link_stream *stream, size_t len);
ssize_t local_send(struct link_stream *stream, const struct link_tx *tx);
int local_shutdown(struct link_stream *stream);
int local_connect_result(struct link_stream *stream);
// TCP has ended: 0 by the peer's FIN, or a negative errno.
void local_note_tcp_over(struct local_stream *s, int error);

/* ---- push.c, pull.c: as in struct push_ops --------------------------------------------------- */
enum past_answer local_push_aim(struct link_stream *stream, const struct push *push,
                                struct push_aimed *ret);
bool local_push_put(const struct push_aimed *push);
void local_push_conclude(const struct push_aimed *push, bool is_done);
enum past_answer local_pull_locate(struct link_stream *stream, const struct pull *pull,
                                   struct pull_run *run);
unsigned local_pull_copy(const struct pull_run *run);
unsigned local_pull_confirm(struct link_stream *stream, const struct pull_run *run, unsigned count);

/* ---- gate.c: likewise, and ------------------------------------------------------------------- */

struct key_mirror *local_gate_mirror(struct link *link);
bool local_gate_revoke(struct link *link, uint64_t generation);
bool local_gate_admit(struct link_stream *stream, uint32_t pd, unsigned rights);
uint64_t local_gate_expel(struct link_stream *stream);
bool local_gate_has_left(struct link *link, uint64_t leaver);
// The peer writes nothing into our memory any more when this returns, or it is a leaver.
void local_gate_close(struct local_stream *s);
// None is waited for any more: no region is left, or the memory is another process's.
void local_gate_forget_leavers(struct local_link *l);
void local_gate_forget_peer(struct local_link *l, struct local_peer_keys *peer);
// The gate that the peer has opened for us, with its keys in s->peer_keys. False: it lets us do
// nothing of the kind, or the kernel does not.
bool local_gate_find(struct local_stream *s, enum key_right right, struct local_pusher *ret);

/* ---- path.c ---------------------------------------------------------------------------------- */

// Connected: hands memory over, if there is somebody to take it.
void local_path_offer(struct local_stream *s);
// Accepted, and the first octets have come: takes what was handed over for them, if anything was.
void local_path_accept(struct local_stream *s);
// Whether the peer uses what was handed over: if so, so does this side from now on.
bool local_path_follow(struct local_stream *s);
// TCP for good.
void local_path_settle_for_tcp(struct local_stream *s);
// Offers that nobody has asked for.
void local_path_forget_offers(struct local_link *l);

/* ---- awake.c: who is looked at, who sleeps, who is woken. ------------------------------------ */

// Behind whatever has used the stream's memory: it is looked at from now on until it has been idle
// for long; or, where somebody waits, what comes wakes him.
void local_attend(struct local_stream *s);
// Octets have moved.
void local_note_moved(struct local_stream *s);
// It is not looked at any more.
void local_unlist(struct local_stream *s);
// What there is to be told of it: a set of LINK_READY_...
unsigned local_what_of(struct local_stream *s);
// It is not looked at any more, and its peer rings. False: there is something to be done for it.
bool local_fall_asleep(struct local_stream *s);
// Somebody may wait, and is woken by this channel too from now on.
void local_arm(struct local_link *l, struct local_channel *c);

/* ---- bells.c: who is told, and who tells. ---------------------------------------------------- */

// There is news for the peer, which wakes up if it sleeps.
void local_ring_bell(struct local_stream *s);
// The streams that were marked in any channel, at most so many; false: others may have been, too.
unsigned local_take_marks(struct local_link *l, struct local_stream **ret, unsigned max,
                          bool *ret_is_whole);
// From now on who marks in any of them wakes us. False: there is something already.
bool local_channels_sleep(struct local_link *l);
// Awake again. True: one of them has woken us.
bool local_channels_rise(struct local_link *l);
// Takes the wake-ups that have come by its socket. False: there were none.
bool local_channel_hear(struct local_link *l, struct local_channel *c);

/* ---- channels.c ------------------------------------------------------------------------------ */

// The channel to who listens for `flow` (as its active side sees it), made if need be, with one
// user more. 0 or a negative errno.
int local_channel_open(struct local_link *l, const struct net_flow *flow, pid_t process,
                       struct local_channel **ret);
// The channel of an offer, likewise. The offer's descriptors are closed.
int local_channel_take(struct local_link *l, const struct local_offer *offer,
                       struct local_channel **ret);
// Nobody rings by it any more, in either direction.
void local_channel_unwatch(struct local_channel *c);
// One user fewer.
void local_channel_leave(struct local_channel *c);
// The stream is a user's, and has a number from now on; 0, -ENOMEM or -ENOSPC, and it is not.
int local_stream_join(struct local_stream *s, struct local_channel *c);
void local_stream_part(struct local_stream *s); // harmless when it has none
