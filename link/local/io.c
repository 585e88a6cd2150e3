// Octets of a stream of the local link.

#include <errno.h>

#include "base/check.h"
#include "base/faster.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/trace.h"
#include "link/local/channel.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/stream.h"

enum {
    SHOW_LEN = 16 * 1024, // octets copied in before the reader, which may be at it, sees them
};

static size_t min_len(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static ssize_t broken(struct local_stream *s, int error)
{
    s->is_broken = true;
    local_unlist(s);
    return error;
}

// How the stream ends, as TCP would say: 0 (FIN), a negative errno, or -EAGAIN (it has not).
static int end_of(const struct local_stream *s)
{
    switch (local_peer_end(s)) {
    case LOCAL_END_ABORTED:
        return -ECONNRESET;
    case LOCAL_END_SHUT:
        return s->is_tcp_over && s->tcp_error != 0 && s->has_fin ? s->tcp_error : 0;
    default:
        break;
    }
    return s->is_tcp_over ? s->tcp_error : -EAGAIN;
}

// The peer's process went without a word. TCP resets for octets that nobody has read; bells that
// nobody has read are none.
static int end_of_silent_peer(struct local_stream *s, int end)
{
    bool is_reset = end == -ECONNRESET || end == -EPIPE;
    bool is_silent = local_peer_end(s) == LOCAL_END_NONE;
    return is_reset && is_silent && !s->has_fin && octet_ring_is_drained(&s->tx) ? 0 : end;
}

static ssize_t recv_end(struct local_stream *s, int end)
{
    end = end_of_silent_peer(s, end);
    if (end < 0) {
        return broken(s, end);
    }
    s->has_fin = true;
    return 0;
}

static ssize_t refuse_ring(struct local_stream *s, enum octet_ring_verdict verdict)
{
    struct local_link *l = local_link_at(s);
    l->counters.broken++;
    TRACE(l->config.trace, TRACE_LINK, "stream through memory is broken: %s",
          octet_ring_verdict_name(verdict));
    return broken(s, -EPROTO);
}

static void give_back(struct local_stream *s, size_t len)
{
    if (octet_ring_release(&s->rx, len)) {
        local_ring_bell(s);
    }
    local_note_moved(s);
}

// What is readable: its length, as recv answers.
static ssize_t borrow_memory(struct local_stream *s, struct span *ret)
{
    int end = end_of(s); // before the last look at the ring: what was sent came before
    *ret = octet_ring_readable(&s->rx);
    if (s->rx.verdict != OCTET_RING_OK) {
        return refuse_ring(s, s->rx.verdict);
    }
    if (ret->len == 0) {
        return end == -EAGAIN ? -EAGAIN : recv_end(s, end);
    }
    return (ssize_t)ret->len;
}

static ssize_t recv_memory(struct local_stream *s, struct mspan into)
{
    struct span octets;
    ssize_t len = borrow_memory(s, &octets);
    if (len > 0) {
        len = (ssize_t)octet_ring_copy(&s->rx, 0, into);
        give_back(s, (size_t)len);
    }
    return len;
}

// Where both have said that they send no more, who closes last resets (local_close).
void local_note_tcp_over(struct local_stream *s, int error)
{
    bool is_close = s->is_shut && local_peer_end(s) == LOCAL_END_SHUT;
    s->is_tcp_over = true;
    s->tcp_error = is_close ? 0 : error;
}

// What recv of TCP has said.
static void note_tcp_end(struct local_stream *s, ssize_t len)
{
    if (len <= 0 && len != -EAGAIN) {
        local_note_tcp_over(s, (int)len);
    }
}

// The passive side: octets by TCP, until as many have come as the peer says it sent that way. What
// comes behind are bells.
static ssize_t recv_before_switch(struct local_stream *s, struct mspan into)
{
    ssize_t len = link_recv(s->forward.inner, into);
    uint64_t switched = atomic_load_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_SWITCHED),
                                             memory_order_acquire);
    if (switched == 0) {
        s->tcp_in += len > 0 ? (uint64_t)len : 0;
        return len;
    }
    uint64_t left = switched - 1 - s->tcp_in;
    if (switched - 1 < s->tcp_in) {
        return refuse_ring(s, OCTET_RING_WRITTEN_WRONG);
    }
    if (len > 0 && (uint64_t)len < left) {
        s->tcp_in += (uint64_t)len;
        return len;
    }
    if (len > 0 || left == 0) {
        s->tcp_in += left;
        s->is_switched = true;
        s->forward.base.facts |= LINK_LENDS;
        note_tcp_end(s, len);
        return left > 0 ? (ssize_t)left : recv_memory(s, into);
    }
    return len;
}

static ssize_t recv_asked(struct local_stream *s, struct mspan into)
{
    ssize_t len = link_recv(s->forward.inner, into);
    if (len > 0) {
        s->tcp_in += (uint64_t)len;
        local_path_accept(s);
    }
    return len;
}

// The peer says that it uses the memory before it sends anything; what it sends by TCP otherwise
// says that it does not.
static ssize_t recv_offered(struct local_stream *s, struct mspan into)
{
    if (local_path_follow(s)) {
        return recv_memory(s, into);
    }
    ssize_t len = link_recv(s->forward.inner, into);
    if (len == -EAGAIN) {
        return len;
    }
    if (local_path_follow(s)) { // between the two: it was a bell, or the end behind what was sent
        note_tcp_end(s, len);
        return recv_memory(s, into);
    }
    local_path_settle_for_tcp(s);
    return len;
}

ssize_t local_recv(struct link_stream *stream, struct mspan into)
{
    struct local_stream *s = local_stream_of(stream);
    switch (s->path) {
    case LOCAL_PATH_TCP:
        return link_recv(s->forward.inner, into);
    case LOCAL_PATH_ASKED:
        return recv_asked(s, into);
    case LOCAL_PATH_OFFERED:
        return recv_offered(s, into);
    case LOCAL_PATH_MEMORY:
        break;
    }
    bool is_by_tcp = s->side == LOCAL_PASSIVE && !s->is_switched;
    return s->is_broken ? -EPIPE : is_by_tcp ? recv_before_switch(s, into) : recv_memory(s, into);
}

// Until TCP's octets have come there is no borrowing (path.c has the fact).
ssize_t local_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut)
{
    struct local_stream *s = local_stream_of(stream);
    CHECK((stream->facts & LINK_LENDS) != 0);
    if (s->is_broken) {
        return -EPIPE;
    }
    ssize_t len = borrow_memory(s, ret);
    *ret_is_cut = len > 0 && ret->ptr + ret->len == s->rx.ring.octets + s->rx.ring.len;
    return len;
}

void local_give_back(struct link_stream *stream, size_t len)
{
    give_back(local_stream_of(stream), len);
}

/* ---- sending --------------------------------------------------------------------------------- */

// Copied in pieces, so that the reader copies out beside us.
static size_t put(struct local_stream *s, struct span octets, size_t *unshown_len)
{
    size_t done = 0;
    while (done < octets.len) {
        size_t len = min_len(octets.len - done, SHOW_LEN);
        size_t taken = octet_ring_put(&s->tx, span_of(octets.ptr + done, len));
        done += taken;
        *unshown_len += taken;
        if (*unshown_len >= SHOW_LEN) {
            octet_ring_show(&s->tx);
            *unshown_len = 0;
        }
        if (taken < len) {
            break;
        }
    }
    return done;
}

// Which stores are faster is measured where octets follow each other: the clock is looked at twice
// in some MiB (base/faster.h). What is short goes one way in any case, and says nothing of it.
static void note_stored(struct local_stream *s, size_t len)
{
    struct local_link *l = local_link_at(s);
    if (len < OCTET_RING_FAR_LEN_MIN) {
        return;
    }
    struct faster *stores = &s->channel->stores;
    *(s->tx.is_near ? &l->counters.near_octets : &l->counters.far_octets) += len;
    if (faster_note(stores, len)) {
        const uint64_t change_count = stores->change_count;
        faster_on_phase_end(stores, l->config.clock(l->config.clock_ctx));
        l->counters.stores_changed += stores->change_count - change_count;
    }
}

// Asks TCP whether the peer is there: if not, that will be reported.
static void try_peer(struct local_stream *s)
{
    static uint8_t octet;
    struct iovec iov = {&octet, 1};
    const struct link_tx tx = {.iov = &iov, .iov_count = 1};
    link_send(s->forward.inner, &tx);
}

static ssize_t send_memory(struct local_stream *s, const struct link_tx *tx)
{
    size_t taken = 0, unshown_len = 0;
    bool is_full = false;
    if (s->is_broken || s->is_shut) {
        return -EPIPE;
    }
    s->tx.is_near = s->channel->stores.way == LOCAL_STORES_NEAR;
    for (unsigned i = 0; i < tx->iov_count; i++) {
        const struct iovec *piece = &tx->iov[i];
        size_t len = put(s, span_of(piece->iov_base, piece->iov_len), &unshown_len);
        taken += len;
        if (len < piece->iov_len) {
            is_full = true;
            break;
        }
    }
    if (s->tx.verdict != OCTET_RING_OK) {
        return refuse_ring(s, s->tx.verdict);
    }
    if (is_full) {
        local_attend(s);
    }
    if (taken == 0) {
        return -EAGAIN;
    }
    note_stored(s, taken);
    if (octet_ring_publish(&s->tx)) {
        local_ring_bell(s);
    }
    if (s->is_tcp_over) {
        try_peer(s); // who has closed his end of TCP may be gone
    }
    local_link_at(s)->moved_count++;
    return (ssize_t)taken;
}

static ssize_t send_tcp(struct local_stream *s, const struct link_tx *tx)
{
    ssize_t taken = link_send(s->forward.inner, tx);
    s->tcp_out += taken > 0 ? (uint64_t)taken : 0;
    return taken;
}

ssize_t local_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct local_stream *s = local_stream_of(stream);
    if (s->path == LOCAL_PATH_ASKED) {
        s->path = LOCAL_PATH_TCP; // who speaks first was not asked
    }
    if (s->path == LOCAL_PATH_OFFERED) {
        local_path_follow(s);
    }
    return s->path == LOCAL_PATH_MEMORY ? send_memory(s, tx) : send_tcp(s, tx);
}

/* ---- ends ------------------------------------------------------------------------------------ */

int local_shutdown(struct link_stream *stream)
{
    struct local_stream *s = local_stream_of(stream);
    if (s->path == LOCAL_PATH_OFFERED) {
        local_path_follow(s);
    }
    if (s->path != LOCAL_PATH_MEMORY) {
        if (s->path == LOCAL_PATH_ASKED) {
            s->path = LOCAL_PATH_TCP;
        }
        return link_shutdown(s->forward.inner);
    }
    if (s->is_broken) {
        return -ENOTCONN;
    }
    s->is_shut = true;
    atomic_store_explicit(local_memory_end(&s->memory, s->side), LOCAL_END_SHUT,
                          memory_order_seq_cst);
    if (octet_ring_publish(&s->tx)) {
        local_ring_bell(s);
    }
    return 0;
}

int local_connect_result(struct link_stream *stream)
{
    struct local_stream *s = local_stream_of(stream);
    if (s->is_tcp_over && s->tcp_error != 0) {
        return (int)broken(s, s->tcp_error);
    }
    int error = link_connect_result(s->forward.inner);
    if (error == 0 && s->is_connecting) {
        s->is_connecting = false;
        local_path_offer(s);
    }
    return error;
}
