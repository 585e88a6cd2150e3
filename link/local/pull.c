// Reads past the stream, out of the peer's memory. As in struct push_ops.
//
// The destination copies: so it is the destination that must not take for good what it copied by a
// key that was withdrawn meanwhile. It looks at the key and at the gate before and behind the copy.
// Whoever withdraws waits for nobody: what is read later is thrown away by who has read it, and the
// Read goes by the stream.

#include <sys/uio.h>

#include "base/check.h"
#include "base/key_mirror.h"
#include "base/port_push.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/slot.h"
#include "link/local/stream.h"
#include "link/sys.h"

enum pull_answer local_pull_locate(struct link_stream *stream, const struct pull *pull,
                                   struct pull_source *ret)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_pusher peer;
    struct key key = {0};
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || s->is_shut) {
        return PULL_REFUSED;
    }
    // What is on the stream comes first: the peer has done it when it has given back its octets.
    if (!octet_ring_is_drained(&s->tx)) {
        return PULL_BEHIND;
    }
    if (!local_gate_find(s, KEY_MAY_READ, &peer)) {
        return PULL_REFUSED;
    }
    *ret = (struct pull_source){
        .process = s->process,
        .len = pull->len,
        .stag = pull->stag,
        .nonce_addr = peer.sill + LOCAL_SILL_LEN,
        .nonce = s->peer_keys->nonce,
        .opening = peer.opening,
    };
    bool is_known = key_mirror_find(s->peer_keys->mirror, pull->stag, &key) &&
                    key_allows(&key, KEY_MAY_READ) &&
                    key_resolve(&key, s->peer_pd, pull->to, pull->len, &ret->addr);
    ret->generation = key.generation;
    local_link_at(s)->counters.pulls_failed += !is_known;
    return is_known ? PULL_BEGUN : PULL_REFUSED;
}

// A process that has called exec since, or that has the number of one that died, lacks the nonce.
bool local_pull_copy(const struct pull_source *source, const struct mspan *pieces,
                     unsigned piece_count)
{
    uint64_t nonce = ~source->nonce;
    struct iovec here[1 + PULL_PIECES_MAX] = {{&nonce, sizeof nonce}};
    const struct iovec there[] = {
        {(void *)(uintptr_t)source->nonce_addr, sizeof nonce},
        {(void *)(uintptr_t)source->addr, source->len},
    };
    CHECK(piece_count <= PULL_PIECES_MAX);
    for (unsigned i = 0; i < piece_count; i++) {
        here[i + 1] = (struct iovec){pieces[i].ptr, pieces[i].len};
    }
    ssize_t got = sys_process_vm_readv(source->process, here, piece_count + 1, there, 2);
    return got == (ssize_t)(sizeof nonce + source->len) && nonce == source->nonce;
}

// The key is looked for anew: its peer may have been forgotten (LOCAL_PEERS_MAX) and found again.
static bool has_held(struct local_stream *s, const struct pull_source *source)
{
    struct local_pusher peer;
    struct key key;
    atomic_thread_fence(memory_order_seq_cst);
    return s->path == LOCAL_PATH_MEMORY && !s->is_broken &&
           local_gate_find(s, KEY_MAY_READ, &peer) && peer.opening == source->opening &&
           s->peer_keys->nonce == source->nonce &&
           key_mirror_find(s->peer_keys->mirror, source->stag, &key) &&
           key.generation == source->generation;
}

bool local_pull_confirm(struct link_stream *stream, const struct pull_source *source)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_link *l = local_link_at(s);
    bool is_good = has_held(s, source);
    l->counters.pulls += is_good;
    l->counters.pulled_octets += is_good ? source->len : 0;
    l->counters.pulls_failed += !is_good;
    return is_good;
}
