// Who may go past the stream: what this process shows of its memory and whom it lets in, and what
// it knows of the peers that let it in. As in struct push_ops.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/local/inside.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/slot.h"
#include "link/local/stream.h"
#include "link/local/thread.h"
#include "link/sys.h"

/* ---- our memory ------------------------------------------------------------------------------ */

struct key_mirror *local_gate_mirror(struct link *link)
{
    struct local_link *l = local_link_of(link);
    struct local_shown *shown = local_own_keys_show(&l->own_keys, l->config.trace);
    return shown != NULL ? &shown->keys : NULL;
}

// He is in by that key, and was when he was looked at before: it is said once if that takes long.
static void note_inside(struct local_stream *s, struct local_slot *slot)
{
    struct local_link *l = local_link_at(s);
    if (local_inside_note(&s->inside, slot, l->config.clock(l->config.clock_ctx))) {
        l->counters.revocations_long++;
        if (l->config.on_long_revocation != NULL) {
            l->config.on_long_revocation(s->process, (pid_t)atomic_load(&slot->thread));
        }
    }
}

// By the peer's slot for our memory.
static bool is_out(struct local_stream *s, uint64_t generation)
{
    struct local_slot *slot = local_memory_slot(&s->memory, local_other_side(s->side));
    const bool it_is = local_slot_revoke(slot, generation, s->process);
    if (!it_is) {
        note_inside(s, slot);
    }
    return it_is;
}

static bool are_out(struct list_link *streams, uint64_t generation)
{
    bool all = true;
    for (struct list_link *at = streams->next; at != streams; at = at->next) {
        all &= is_out(LIST_ENTRY(at, struct local_stream, admitted_link), generation);
    }
    return all;
}

bool local_gate_revoke(struct link *link, uint64_t generation)
{
    struct local_link *l = local_link_of(link);
    const bool are_all = are_out(&l->admitted, generation);
    return are_out(&l->leaving, generation) && are_all;
}

/* ---- leavers --------------------------------------------------------------------------------- */

static void leaver_take_leave(struct local_stream *s)
{
    s->leaver = 0;
    list_remove(&s->admitted_link);
    if (s->is_departed && s->pushing_by == NULL) {
        local_stream_rest(s);
    }
}

static void leavers_look(struct local_link *l)
{
    struct list_link *next;
    for (struct list_link *at = l->leaving.next; at != &l->leaving; at = next) {
        struct local_stream *s = LIST_ENTRY(at, struct local_stream, admitted_link);
        next = at->next;
        if (is_out(s, LOCAL_SLOT_ANY)) {
            leaver_take_leave(s);
        }
    }
}

bool local_gate_has_left(struct link *link, uint64_t leaver)
{
    struct local_link *l = local_link_of(link);
    leavers_look(l);
    for (struct list_link *at = l->leaving.next; at != &l->leaving; at = at->next) {
        if (LIST_ENTRY(at, struct local_stream, admitted_link)->leaver == leaver) {
            return false;
        }
    }
    return true;
}

void local_gate_forget_leavers(struct local_link *l)
{
    while (!list_is_empty(&l->leaving)) {
        leaver_take_leave(LIST_ENTRY(l->leaving.next, struct local_stream, admitted_link));
    }
}

static bool has_leaver(const struct local_link *l, pid_t process)
{
    for (struct list_link *at = l->leaving.next; at != &l->leaving; at = at->next) {
        if (LIST_ENTRY(at, struct local_stream, admitted_link)->process == process) {
            return true;
        }
    }
    return false;
}

// The gate is closed. A copy takes microseconds, and its thread may have lost its processor; but
// who is in for long waits for a page, or lies, and holds up nobody but who wants him out: so does
// not any other stream of his.
static bool await_out(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    const instant_ns begun_ns = l->config.clock(l->config.clock_ctx);
    const duration_ns patience_ns = has_leaver(l, s->process) ? 0 : LOCAL_REVOKE_LONG_NS;
    while (!is_out(s, LOCAL_SLOT_ANY)) {
        if (l->config.clock(l->config.clock_ctx) >= instant_after(begun_ns, patience_ns)) {
            return false;
        }
        sys_nap(LOCAL_REVOKE_NAP_NS);
    }
    return true;
}

/* ---- who may --------------------------------------------------------------------------------- */

// Who cannot be looked at could not be waited for, and so does not write; nor does who is.
static bool may_write(struct local_link *l, pid_t process)
{
    return local_threads_are_visible(process) && !has_leaver(l, process);
}

bool local_gate_admit(struct link_stream *stream, uint32_t pd, unsigned rights)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    leavers_look(l);
    if (s->path == LOCAL_PATH_OFFERED || s->path == LOCAL_PATH_ASKED || s->leaver != 0) {
        return false;
    }
    rights &= l->config.rights;
    if ((rights & KEY_MAY_WRITE) != 0 && !may_write(l, s->process)) {
        rights &= ~(unsigned)KEY_MAY_WRITE;
    }
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || l->own_keys.shown == NULL || rights == 0) {
        return true;
    }
    struct local_gate *gate = local_memory_gate(&s->memory, s->side);
    atomic_store(&gate->pd, pd);
    atomic_store(&gate->rights, rights);
    local_own_keys_name(&l->own_keys, gate);
    s->lets_in = true;
    if ((rights & KEY_MAY_WRITE) != 0) {
        list_push_tail(&l->admitted, &s->admitted_link);
    }
    atomic_store(&gate->opening, ++s->openings);
    return true;
}

void local_gate_close(struct local_stream *s)
{
    if (!s->lets_in) {
        return;
    }
    s->lets_in = false;
    atomic_store(&local_memory_gate(&s->memory, s->side)->opening, 0);
    if (!list_is_empty(&s->admitted_link)) {
        list_remove(&s->admitted_link);
        if (!await_out(s)) {
            struct local_link *l = local_link_at(s);
            s->leaver = ++l->leaver_last;
            list_push_tail(&l->leaving, &s->admitted_link);
        }
    }
}

uint64_t local_gate_expel(struct link_stream *stream)
{
    struct local_stream *s = local_stream_of(stream);
    local_gate_close(s);
    return s->leaver;
}

/* ---- the peer's memory ----------------------------------------------------------------------- */

// The oldest that nobody reads just now.
static void forget_one_peer(struct local_link *l)
{
    for (struct list_link *at = l->peers.next; at != &l->peers; at = at->next) {
        struct local_peer_keys *peer = LIST_ENTRY(at, struct local_peer_keys, link);
        if (peer->out_count == 0) {
            local_gate_forget_peer(l, peer);
            return;
        }
    }
}

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
    if (l->peer_count >= LOCAL_PEERS_MAX) {
        forget_one_peer(l);
    }
    list_push_tail(&l->peers, &peer->link);
    l->peer_count++;
    return peer;
}

void local_gate_forget_peer(struct local_link *l, struct local_peer_keys *peer)
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

bool local_gate_find(struct local_stream *s, enum key_right right, struct local_pusher *ret)
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
        s->peer_rights = (unsigned)atomic_load(&gate->rights);
        s->peer_keys = s->process > 0 ? peer_keys_of(s, gate) : NULL;
    }
    *ret = (struct local_pusher){
        .slot = local_memory_slot(&s->memory, s->side),
        .gate = &gate->opening,
        .opening = opening,
        .sill = s->peer_sill,
        .process = s->process,
    };
    return (s->peer_rights & right) != 0 && s->peer_keys != NULL && s->peer_keys->shown != NULL;
}
