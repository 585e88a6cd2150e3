// Reads past the stream, out of the peer's memory. As in struct push_ops.
//
// The destination copies: so it is the destination that must not take for good what it copied by a
// key that was withdrawn meanwhile. It looks at each key and at the gate before and behind the
// copy. Whoever withdraws waits for nobody: what is read later is thrown away by who has read it,
// and the Read goes by the stream.

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

static bool find_source(const struct local_stream *s, const struct pull *pull,
                        struct pull_source *ret)
{
    struct key key = {0};
    *ret = (struct pull_source){.stag = pull->stag, .len = pull->len};
    bool is_known = key_mirror_find(&s->peer_keys->shown->keys, pull->stag, &key) &&
                    key_allows(&key, KEY_MAY_READ) &&
                    key_resolve(&key, s->peer_pd, pull->to, pull->len, &ret->addr);
    ret->generation = key.generation;
    return is_known;
}

static void join(struct pull_run *run, const struct pull *pull, const struct pull_source *source)
{
    CHECK(pull_run_has_room(run, pull));
    run->sources[run->count++] = *source;
    for (unsigned i = 0; i < pull->piece_count; i++) {
        run->pieces[run->piece_count++] = pull->pieces[i];
    }
    run->len += pull->len;
}

enum past_answer local_pull_locate(struct link_stream *stream, const struct pull *pull,
                                   struct pull_run *run)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_pusher peer;
    struct pull_source source;
    if (s->path != LOCAL_PATH_MEMORY || s->is_broken || s->is_shut) {
        return PAST_REFUSED;
    }
    // What is on the stream comes first: the peer has done it when it has given back its octets.
    if (!octet_ring_is_drained(&s->tx)) {
        return PAST_BEHIND;
    }
    if (!local_gate_find(s, KEY_MAY_READ, &peer)) {
        return PAST_REFUSED;
    }
    if (run->count == 0) {
        run->process = s->process;
        run->nonce_addr = peer.sill + LOCAL_SILL_LEN;
        run->nonce = s->peer_keys->nonce;
        run->opening = peer.opening;
    } else if (run->opening != peer.opening) {
        return PAST_LATER;
    }
    if (!find_source(s, pull, &source)) {
        local_link_at(s)->counters.pulls_failed++;
        return PAST_REFUSED;
    }
    join(run, pull, &source);
    return PAST_BEGUN;
}

/* ---- the copy -------------------------------------------------------------------------------- */

// Behind the nonce. What lies side by side is one place: the kernel looks its pages up together.
static unsigned list_sources(const struct pull_run *run, struct iovec *there)
{
    unsigned count = 0;
    uint64_t end = 0;
    for (const struct pull_source *at = run->sources; at < run->sources + run->count; at++) {
        if (count > 0 && at->addr == end) {
            there[count].iov_len += at->len;
        } else {
            there[++count] = (struct iovec){(void *)(uintptr_t)at->addr, at->len};
        }
        end = at->addr + at->len;
    }
    return count;
}

static unsigned whole_count(const struct pull_run *run, size_t len)
{
    unsigned count = 0;
    while (count < run->count && len >= run->sources[count].len) {
        len -= run->sources[count++].len;
    }
    return count;
}

// A process that has called exec since, or that has the number of one that died, lacks the nonce.
unsigned local_pull_copy(const struct pull_run *run)
{
    uint64_t nonce = ~run->nonce;
    struct iovec here[1 + PULL_RUN_PIECES_MAX], there[1 + PULL_RUN_MAX];
    here[0] = (struct iovec){&nonce, sizeof nonce};
    there[0] = (struct iovec){(void *)(uintptr_t)run->nonce_addr, sizeof nonce};
    for (unsigned i = 0; i < run->piece_count; i++) {
        here[i + 1] = (struct iovec){run->pieces[i].ptr, run->pieces[i].len};
    }
    unsigned there_count = 1 + list_sources(run, there);
    ssize_t got =
        sys_process_vm_readv(run->process, here, 1 + run->piece_count, there, there_count);
    bool is_there = got >= (ssize_t)sizeof nonce && nonce == run->nonce;
    return is_there ? whole_count(run, (size_t)got - sizeof nonce) : 0;
}

/* ---- behind it ------------------------------------------------------------------------------- */

// The gate is looked for anew: its peer may have been forgotten (LOCAL_PEERS_MAX) and found again.
static bool has_stayed_open(struct local_stream *s, const struct pull_run *run)
{
    struct local_pusher peer;
    return s->path == LOCAL_PATH_MEMORY && !s->is_broken &&
           local_gate_find(s, KEY_MAY_READ, &peer) && peer.opening == run->opening &&
           s->peer_keys->nonce == run->nonce;
}

static bool has_held(const struct local_stream *s, const struct pull_source *source)
{
    struct key key;
    return key_mirror_find(&s->peer_keys->shown->keys, source->stag, &key) &&
           key.generation == source->generation;
}

unsigned local_pull_confirm(struct link_stream *stream, const struct pull_run *run, unsigned count)
{
    struct local_stream *s = local_stream_of(stream);
    struct local_counters *counters = &local_link_at(s)->counters;
    unsigned good = 0;
    atomic_thread_fence(memory_order_seq_cst);
    unsigned end = has_stayed_open(s, run) ? count : 0;
    while (good < end && has_held(s, &run->sources[good])) {
        counters->pulled_octets += run->sources[good++].len;
    }
    counters->pull_calls++;
    counters->pulls += good;
    counters->pulls_failed += run->count - good;
    return good;
}
