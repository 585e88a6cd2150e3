#include "link/local/octet_ring.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/fetch.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef _Atomic uint64_t word;

// Who sets a word and then looks at another, while the other side does it the other way round, must
// not miss it both times: such stores and loads are in one order for all (memory_order_seq_cst).

static word *word_at(const struct octet_ring *ring, enum octet_ring_offset offset)
{
    return (word *)(void *)(ring->control + offset);
}

static void check_shape(const struct octet_ring *ring)
{
    CHECK(octet_ring_len_is_good(ring->len));
    CHECK(ring->first < ring->len);
    CHECK(((uintptr_t)ring->control & 63) == 0);
}

static size_t min_len(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t place_of(const struct octet_ring *ring, uint64_t position)
{
    return (size_t)((position + ring->first) & (ring->len - 1));
}

// How much of [position, position + len) lies side by side.
static size_t run_len(const struct octet_ring *ring, uint64_t position, size_t len)
{
    return min_len(len, ring->len - place_of(ring, position));
}

static uint8_t *octets_at(const struct octet_ring *ring, uint64_t position)
{
    return ring->octets + place_of(ring, position);
}

// A look at the other side's word, once: whether it sleeps is taken back.
static bool wakes(word *sleeps)
{
    return atomic_load_explicit(sleeps, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(sleeps, 0, memory_order_seq_cst) != 0;
}

const char *octet_ring_verdict_name(enum octet_ring_verdict verdict)
{
    static const char *const names[OCTET_RING_VERDICT_COUNT] = {
#define X(name, text) [OCTET_RING_##name] = text,
        OCTET_RING_VERDICTS(X)
#undef X
    };
    return names[verdict];
}

/* ---- writing --------------------------------------------------------------------------------- */

void octet_ring_writer_init(struct octet_ring_writer *w, const struct octet_ring *ring)
{
    check_shape(ring);
    *w = (struct octet_ring_writer){.ring = *ring};
}

static size_t room_known(const struct octet_ring_writer *w)
{
    return w->verdict == OCTET_RING_OK ? w->ring.len - (size_t)(w->put - w->taken) : 0;
}

static size_t room_seen(struct octet_ring_writer *w, memory_order order)
{
    uint64_t taken = atomic_load_explicit(word_at(&w->ring, OCTET_RING_TAKEN), order);
    if (taken - w->taken > w->put - w->taken) {
        w->verdict = OCTET_RING_TAKEN_WRONG;
    } else {
        w->taken = taken;
    }
    return room_known(w);
}

size_t octet_ring_room(struct octet_ring_writer *w)
{
    return room_seen(w, memory_order_acquire);
}

bool octet_ring_has_room(struct octet_ring_writer *w, size_t len)
{
    return room_known(w) >= len || octet_ring_room(w) >= len;
}

// The reader is another processor, mostly. What it reads lies in the writer's cache otherwise, and
// is fetched from there line by line: where the two processors share no cache that takes six to
// nine times as long as to fetch it from memory, ahead of use. Where they do, it is quicker.
#if defined(__SSE2__)
static void copy_line_far(uint8_t *to, const uint8_t *from)
{
    const __m128i *octets = (const __m128i *)(const void *)from;
    __m128i *line = (__m128i *)(void *)to;
    const __m128i a = _mm_loadu_si128(octets), b = _mm_loadu_si128(octets + 1);
    const __m128i c = _mm_loadu_si128(octets + 2), d = _mm_loadu_si128(octets + 3);
    _mm_stream_si128(line, a);
    _mm_stream_si128(line + 1, b);
    _mm_stream_si128(line + 2, c);
    _mm_stream_si128(line + 3, d);
}

static void copy_far(uint8_t *to, const uint8_t *from, size_t len)
{
    const size_t head_len = (size_t)(-(uintptr_t)to & 63);
    memcpy(to, from, head_len);
    size_t at = head_len;
    for (; len - at >= 64; at += 64) {
        copy_line_far(to + at, from + at);
    }
    memcpy(to + at, from + at, len - at);
}

// Such stores are in no order with the index that shows them.
static void far_comes_first(void)
{
    _mm_sfence();
}
#else
static void copy_far(uint8_t *to, const uint8_t *from, size_t len)
{
    memcpy(to, from, len);
}

static void far_comes_first(void)
{
}
#endif

static void copy_in(const struct octet_ring_writer *w, uint8_t *to, const uint8_t *from, size_t len)
{
    if (len >= OCTET_RING_FAR_LEN_MIN && !w->is_near) {
        copy_far(to, from, len);
    } else {
        memcpy(to, from, len);
    }
}

size_t octet_ring_put(struct octet_ring_writer *w, struct span octets)
{
    size_t len = octet_ring_has_room(w, octets.len) ? octets.len : room_known(w);
    size_t first = run_len(&w->ring, w->put, len);
    if (len > 0) {
        copy_in(w, octets_at(&w->ring, w->put), octets.ptr, first);
        copy_in(w, w->ring.octets, octets.ptr + first, len - first);
    }
    w->put += len;
    return len;
}

void octet_ring_show(struct octet_ring_writer *w)
{
    far_comes_first();
    atomic_store_explicit(word_at(&w->ring, OCTET_RING_WRITTEN), w->put, memory_order_release);
}

bool octet_ring_publish(struct octet_ring_writer *w)
{
    far_comes_first();
    atomic_store_explicit(word_at(&w->ring, OCTET_RING_WRITTEN), w->put, memory_order_seq_cst);
    return wakes(word_at(&w->ring, OCTET_RING_READER_SLEEPS));
}

bool octet_ring_reader_sleeps(const struct octet_ring_writer *w)
{
    return atomic_load_explicit(word_at(&w->ring, OCTET_RING_READER_SLEEPS),
                                memory_order_relaxed) != 0;
}

bool octet_ring_is_drained(struct octet_ring_writer *w)
{
    return octet_ring_room(w) == w->ring.len;
}

bool octet_ring_writer_sleep(struct octet_ring_writer *w, size_t wanted)
{
    word *sleeps = word_at(&w->ring, OCTET_RING_WRITER_SLEEPS);
    atomic_store_explicit(sleeps, wanted, memory_order_seq_cst);
    if (room_seen(w, memory_order_seq_cst) < wanted) {
        return true;
    }
    octet_ring_writer_rise(w);
    return false;
}

void octet_ring_writer_rise(struct octet_ring_writer *w)
{
    atomic_store_explicit(word_at(&w->ring, OCTET_RING_WRITER_SLEEPS), 0, memory_order_relaxed);
}

/* ---- reading --------------------------------------------------------------------------------- */

void octet_ring_reader_init(struct octet_ring_reader *r, const struct octet_ring *ring)
{
    check_shape(ring);
    *r = (struct octet_ring_reader){.ring = *ring};
}

void octet_ring_reader_fetch(const struct octet_ring_reader *r)
{
    fetch_ahead(r->ring.control, OCTET_RING_CONTROL_LEN);
    fetch_ahead(octets_at(&r->ring, r->taken), 2 * FETCH_LINE_LEN);
}

static size_t available_known(const struct octet_ring_reader *r)
{
    return r->verdict == OCTET_RING_OK ? (size_t)(r->written - r->taken) : 0;
}

static size_t available_seen(struct octet_ring_reader *r, memory_order order)
{
    uint64_t written = atomic_load_explicit(word_at(&r->ring, OCTET_RING_WRITTEN), order);
    uint64_t known = r->written - r->taken;
    if (written - r->taken > r->ring.len || written - r->taken < known) {
        r->verdict = OCTET_RING_WRITTEN_WRONG;
    } else {
        r->written = written;
    }
    return available_known(r);
}

size_t octet_ring_available(struct octet_ring_reader *r)
{
    return available_seen(r, memory_order_acquire);
}

struct span octet_ring_readable(struct octet_ring_reader *r)
{
    size_t len = octet_ring_available(r);
    return span_of(octets_at(&r->ring, r->taken), run_len(&r->ring, r->taken, len));
}

// So many octets behind the first `offset`, of `wanted` at most.
static size_t behind(struct octet_ring_reader *r, size_t offset, size_t wanted)
{
    size_t available = available_known(r);
    if (available < offset || available - offset < wanted) {
        available = octet_ring_available(r);
    }
    return available <= offset ? 0 : min_len(wanted, available - offset);
}

bool octet_ring_has(struct octet_ring_reader *r, size_t offset, size_t len)
{
    return behind(r, offset, len) == len;
}

struct span octet_ring_at(struct octet_ring_reader *r, size_t offset, size_t len)
{
    const uint64_t position = r->taken + offset;
    const bool is_there = octet_ring_has(r, offset, len) && run_len(&r->ring, position, len) == len;
    return span_of(is_there ? octets_at(&r->ring, position) : NULL, is_there ? len : 0);
}

size_t octet_ring_copy(struct octet_ring_reader *r, size_t offset, struct mspan into)
{
    size_t len = behind(r, offset, into.len);
    size_t first = run_len(&r->ring, r->taken + offset, len);
    if (len > 0) {
        memcpy(into.ptr, octets_at(&r->ring, r->taken + offset), first);
        memcpy(into.ptr + first, r->ring.octets, len - first);
    }
    return len;
}

// The writer wakes at so much room as it asked for: to be woken for less would be a system call for
// every bit of a stream that is full.
bool octet_ring_release(struct octet_ring_reader *r, size_t len)
{
    word *sleeps = word_at(&r->ring, OCTET_RING_WRITER_SLEEPS);
    CHECK(len <= r->written - r->taken);
    r->taken += len;
    atomic_store_explicit(word_at(&r->ring, OCTET_RING_TAKEN), r->taken, memory_order_seq_cst);
    uint64_t wanted = atomic_load_explicit(sleeps, memory_order_seq_cst);
    if (wanted == 0 || r->ring.len - (r->written - r->taken) < wanted) {
        return false;
    }
    return wakes(sleeps);
}

bool octet_ring_reader_sleep(struct octet_ring_reader *r)
{
    word *sleeps = word_at(&r->ring, OCTET_RING_READER_SLEEPS);
    atomic_store_explicit(sleeps, 1, memory_order_seq_cst);
    if (available_seen(r, memory_order_seq_cst) == 0 && r->verdict == OCTET_RING_OK) {
        return true;
    }
    octet_ring_reader_rise(r);
    return false;
}

void octet_ring_reader_rise(struct octet_ring_reader *r)
{
    atomic_store_explicit(word_at(&r->ring, OCTET_RING_READER_SLEEPS), 0, memory_order_relaxed);
}
