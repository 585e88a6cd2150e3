// Who may go past the stream: what this process shows of its memory and whom it lets in, and what
// it knows of the peers that let it in. As in struct push_ops.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_push.h"
#include "base/trace.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/slot.h"
#include "link/local/stream.h"
#include "link/local/thread.h"

/* ---- our memory ------------------------------------------------------------------------------ */

struct key_mirror *local_gate_mirror(struct link *link)
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

void local_gate_revoke(struct link *link, uint64_t generation)
{
    struct local_link *l = local_link_of(link);
    for (struct list_link *at = l->admitted.next; at != &l->admitted; at = at->next) {
        revoke_in(LIST_ENTRY(at, struct local_stream, admitted_link), generation);
    }
}

// Who cannot be looked at could not be waited for, and so does not write.
bool local_gate_admit(struct link_stream *stream, uint32_t pd, unsigned rights)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    if (s->path == LOCAL_PATH_OFFERED || s->path == LOCAL_PATH_ASKED) {
        return false;
    }
    rights &= l->config.rights;
    if ((rights & KEY_MAY_WRITE) != 0 && !local_threads_are_visible(s->process)) {
        rights &= ~(unsigned)KEY_MAY_WRITE;
    }
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || l->own_keys.mirror == NULL || rights == 0) {
        return true;
    }
    struct local_gate *gate = local_memory_gate(&s->memory, s->side);
    atomic_store(&gate->pd, pd);
    atomic_store(&gate->rights, rights);
    atomic_store(&gate->mirror_fd, (uint64_t)l->own_keys.fd);
    atomic_store(&gate->sill, (uint64_t)(uintptr_t)l->own_keys.sill);
    atomic_store(&gate->nonce, l->own_keys.nonce);
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
        revoke_in(s, LOCAL_SLOT_ANY);
    }
}

void local_gate_expel(struct link_stream *stream)
{
    local_gate_close(local_stream_of(stream));
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
        .gate = gate,
        .opening = opening,
        .sill = s->peer_sill,
        .process = s->process,
    };
    return (s->peer_rights & right) != 0 && s->peer_keys != NULL && s->peer_keys->mirror != NULL;
}
