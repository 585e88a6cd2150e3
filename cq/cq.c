#include "cq/cq.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

// What the consumer wants to hear of; only ever moves from and to CQ_QUIET, or up.
enum cq_wish {
    CQ_QUIET,
    CQ_WANTS_SOLICITED,
    CQ_WANTS_ANY,
};

// Indexes count entries since creation; an entry stands at index % capacity. Three groups, each on
// cache lines of its own: what the producer writes, what the consumer writes, what nobody writes
// while both run.
//
// Why no completion is lost. The producer stores `tail` and then reads `wish`; the consumer stores
// `wish` (cq_arm) and then reads `tail` (cq_poll, cq_peek). All four are sequentially consistent,
// so they stand in one order, and either the store of `tail` is before the consumer's read of it
// (the poll finds the entry) or the store of `wish` is before the producer's read of it (the
// producer raises the event). This needs a fence on both sides, since each side's load follows its
// own store to another place: the store in cq_push and the exchange in cq_arm are that fence.
// (Operations and not atomic_thread_fence, because ThreadSanitizer understands the former.)
struct cq {
    // Producer's.
    _Alignas(CQE_LEN) _Atomic uint64_t tail; // entries pushed
    uint64_t head_seen;                      // head, as last read: reread only when full by this
    uint32_t held;         // completions that have asked for an event not raised yet
    instant_ns deadline;   // when it is raised at the latest
    instant_ns stamped_at; // the newest entry
    _Atomic uint64_t events;
    _Atomic uint64_t overflows;
    // Consumer's.
    _Alignas(CQE_LEN) _Atomic uint64_t head; // entries polled or purged
    _Atomic uint64_t purged;
    // Both write this one, rarely.
    _Alignas(CQE_LEN) _Atomic uint32_t wish;
    // Constant while both sides run.
    _Alignas(CQE_LEN) struct cqe *ring;
    uint32_t capacity; // a power of two
    uint32_t moderation_count;
    duration_ns moderation_ns;
    struct cq_port port;
};

static uint32_t round_up(uint32_t capacity)
{
    uint32_t rounded = 1;
    while (rounded < capacity) {
        rounded *= 2;
    }
    return rounded;
}

static struct cqe *ring_create(uint32_t capacity)
{
    return aligned_alloc(CQE_LEN, (size_t)capacity * CQE_LEN);
}

static struct cqe *ring_at(const struct cq *cq, uint64_t index)
{
    return &cq->ring[index & (cq->capacity - 1)];
}

struct cq *cq_create(uint32_t capacity, struct cq_port port)
{
    CHECK(capacity > 0);
    CHECK(capacity <= CQ_CAPACITY_MAX);
    struct cq *cq = aligned_alloc(CQE_LEN, sizeof *cq);
    if (cq == NULL) {
        return NULL;
    }
    memset(cq, 0, sizeof *cq);
    cq->capacity = round_up(capacity);
    cq->deadline = INSTANT_NEVER;
    cq->port = port;
    cq->ring = ring_create(cq->capacity);
    if (cq->ring == NULL) {
        free(cq);
        return NULL;
    }
    return cq;
}

void cq_destroy(struct cq *cq)
{
    if (cq == NULL) {
        return;
    }
    free(cq->ring);
    free(cq);
}

uint32_t cq_capacity(const struct cq *cq)
{
    return cq->capacity;
}

// A counter with one writer, read from anywhere.
static void count_one(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

bool cq_has_overflowed(const struct cq *cq)
{
    return atomic_load_explicit(&cq->overflows, memory_order_relaxed) > 0;
}

// Raises the event and disarms. The wish may have grown since it was read: then this event is the
// answer to the newer arming too, whose poll has seen the completion.
static void event_raise(struct cq *cq)
{
    cq->held = 0;
    cq->deadline = INSTANT_NEVER;
    uint32_t wish = atomic_exchange(&cq->wish, CQ_QUIET);
    CHECK(wish != CQ_QUIET);
    count_one(&cq->events);
    cq_port_tell(&cq->port);
}

static bool is_moderated(const struct cq *cq)
{
    return cq->moderation_count > 1 && cq->moderation_ns > 0;
}

// A completion asks for an event: now, or with others later.
static void event_ask(struct cq *cq, instant_ns now)
{
    cq->held++;
    if (!is_moderated(cq) || cq->held >= cq->moderation_count) {
        event_raise(cq);
        return;
    }
    if (cq->held == 1) {
        cq->deadline = instant_after(now, cq->moderation_ns);
    }
}

static bool is_wanted(const struct cqe *cqe, uint32_t wish)
{
    if (wish == CQ_WANTS_SOLICITED) {
        return cqe->solicited || cqe->status != CQE_STATUS_SUCCESS;
    }
    return wish == CQ_WANTS_ANY;
}

static bool has_room(struct cq *cq, uint64_t tail)
{
    if (tail - cq->head_seen < cq->capacity) {
        return true;
    }
    cq->head_seen = atomic_load_explicit(&cq->head, memory_order_acquire);
    return tail - cq->head_seen < cq->capacity;
}

static void refuse(struct cq *cq)
{
    bool is_first = !cq_has_overflowed(cq);
    count_one(&cq->overflows);
    if (is_first && cq->port.on_overrun != NULL) {
        cq->port.on_overrun(cq->port.ctx);
    }
}

bool cq_push(struct cq *cq, const struct cqe *cqe)
{
    CHECK(guard_is_held(&cq->port.guard));
    uint64_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    if (cq_has_overflowed(cq) || !has_room(cq, tail)) {
        refuse(cq);
        return false;
    }
    // A producer reads the clock before it takes its lock: the one that comes second may have the
    // earlier time.
    cq->stamped_at = cqe->timestamp_ns > cq->stamped_at ? cqe->timestamp_ns : cq->stamped_at;
    struct cqe *entry = ring_at(cq, tail);
    *entry = *cqe;
    entry->timestamp_ns = cq->stamped_at;
    atomic_store(&cq->tail, tail + 1);
    if (is_wanted(cqe, atomic_load(&cq->wish))) {
        event_ask(cq, cqe->timestamp_ns);
    }
    return true;
}

static void complete_from_source(struct cqe *cqe)
{
    struct cqe_source *source = cqe->source;
    if (source != NULL) {
        cqe->source = NULL;
        source->fetch(source, cqe);
    }
}

const struct cqe *cq_peek(struct cq *cq, uint32_t i)
{
    uint64_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    if (i >= atomic_load(&cq->tail) - head) {
        return NULL;
    }
    complete_from_source(ring_at(cq, head + i));
    return ring_at(cq, head + i);
}

void cq_pop(struct cq *cq, uint32_t count)
{
    uint64_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    CHECK(count <= atomic_load(&cq->tail) - head);
    atomic_store_explicit(&cq->head, head + count, memory_order_release);
}

unsigned cq_poll(struct cq *cq, struct cqe *ret, unsigned max)
{
    uint64_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint64_t there = atomic_load(&cq->tail) - head;
    unsigned count = there < max ? (unsigned)there : max;
    if (count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        ret[i] = *ring_at(cq, head + i);
        complete_from_source(&ret[i]);
    }
    atomic_store_explicit(&cq->head, head + count, memory_order_release);
    return count;
}

void cq_arm(struct cq *cq, bool solicited_only)
{
    if (!solicited_only) {
        atomic_exchange(&cq->wish, CQ_WANTS_ANY);
        return;
    }
    uint32_t quiet = CQ_QUIET;
    atomic_compare_exchange_strong(&cq->wish, &quiet, CQ_WANTS_SOLICITED);
}

void cq_moderate(struct cq *cq, uint32_t count, duration_ns period_ns)
{
    CHECK(guard_is_held(&cq->port.guard));
    cq->moderation_count = count;
    cq->moderation_ns = period_ns;
    if (cq->held > 0 && (!is_moderated(cq) || cq->held >= count)) {
        event_raise(cq);
    }
}

instant_ns cq_next_deadline(const struct cq *cq)
{
    CHECK(guard_is_held(&cq->port.guard));
    return cq->deadline;
}

void cq_on_deadline(struct cq *cq, instant_ns now)
{
    CHECK(guard_is_held(&cq->port.guard));
    if (cq->held > 0 && now >= cq->deadline) {
        event_raise(cq);
    }
}

int cq_resize(struct cq *cq, uint32_t capacity)
{
    CHECK(guard_is_held(&cq->port.guard));
    uint64_t head = atomic_load(&cq->head);
    uint64_t tail = atomic_load(&cq->tail);
    if (capacity == 0 || capacity > CQ_CAPACITY_MAX || capacity < tail - head) {
        return -EINVAL;
    }
    uint32_t rounded = round_up(capacity);
    struct cqe *ring = ring_create(rounded);
    if (ring == NULL) {
        return -ENOMEM;
    }
    for (uint64_t index = head; index < tail; index++) {
        ring[index & (rounded - 1)] = *ring_at(cq, index);
    }
    free(cq->ring);
    cq->ring = ring;
    cq->capacity = rounded;
    return 0;
}

uint32_t cq_purge(struct cq *cq, uint32_t qp_num)
{
    CHECK(guard_is_held(&cq->port.guard));
    uint64_t head = atomic_load(&cq->head);
    uint64_t keep = atomic_load(&cq->tail);
    // From the newest to the oldest: what stays moves up over what goes.
    for (uint64_t index = keep; index-- > head;) {
        if (ring_at(cq, index)->qp_num != qp_num) {
            *ring_at(cq, --keep) = *ring_at(cq, index);
        } else {
            complete_from_source(ring_at(cq, index)); // which gives its receive back
        }
    }
    uint32_t removed = (uint32_t)(keep - head);
    cq->purged += removed;
    atomic_store(&cq->head, keep);
    return removed;
}

void cq_detach(struct cq *cq, uint32_t qp_num)
{
    CHECK(guard_is_held(&cq->port.guard));
    uint64_t tail = atomic_load(&cq->tail);
    for (uint64_t index = atomic_load(&cq->head); index < tail; index++) {
        if (ring_at(cq, index)->qp_num == qp_num) {
            complete_from_source(ring_at(cq, index));
        }
    }
}

struct cq_counters cq_counters(const struct cq *cq)
{
    uint64_t purged = atomic_load(&cq->purged);
    return (struct cq_counters){
        .pushed = atomic_load(&cq->tail),
        .polled = atomic_load(&cq->head) - purged,
        .purged = purged,
        .events = atomic_load(&cq->events),
        .overflows = atomic_load(&cq->overflows),
    };
}

bool cq_check(const struct cq *cq)
{
    uint64_t head = atomic_load(&cq->head);
    uint64_t tail = atomic_load(&cq->tail);
    if (cq->head_seen > head || head > tail || tail - head > cq->capacity) {
        return false;
    }
    if (cq->capacity & (cq->capacity - 1)) {
        return false;
    }
    if ((cq->held > 0) != (cq->deadline != INSTANT_NEVER)) {
        return false;
    }
    return cq->purged <= head;
}
