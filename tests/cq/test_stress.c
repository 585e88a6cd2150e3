// Two threads on one queue: the producer pushes, the consumer arms, polls until empty and waits. An
// event that is lost leaves both waiting for each other, which the watchdog turns into a failure.
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "base/prng.h"
#include "cq/cq.h"

enum {
    CAPACITY = 64,
    BURST_MAX = 4,
    ROUNDS = 20000,
    ROUNDS_SOAK = 1000000,
    LOST_AFTER_S = 20, // without one event, while the producer only waits for the consumer
};

struct stress {
    struct cq *cq;
    sem_t events;            // the channel
    _Atomic uint64_t polled; // the consumer's progress
    _Atomic bool is_over;    // the consumer has slept often enough
    bool solicited_only;
};

static void post_event(void *ctx)
{
    struct stress *s = ctx;
    sem_post(&s->events);
}

// In solicited mode only the last entry of a burst is solicited.
static bool push_burst(struct stress *s, uint64_t first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct cqe cqe = {.wr_id = first + i, .solicited = i + 1 == count};
        if (!cq_push(s->cq, &cqe)) {
            return false;
        }
    }
    return true;
}

static void wait_until_polled(struct stress *s, uint64_t count)
{
    while (atomic_load(&s->polled) < count && !atomic_load(&s->is_over)) {
        sched_yield();
    }
}

// Mostly waits until the consumer has taken all and is about to sleep; at times runs ahead.
static void *produce(void *arg)
{
    struct stress *s = arg;
    uint64_t pushed = 0;
    struct prng prng;
    prng_init(&prng, 1);
    while (!atomic_load(&s->is_over)) {
        unsigned burst = 1 + prng_below(&prng, BURST_MAX);
        if (!push_burst(s, pushed, burst)) {
            break;
        }
        pushed += burst;
        bool runs_ahead = prng_below(&prng, 8) == 0 && pushed >= CAPACITY;
        wait_until_polled(s, runs_ahead ? pushed - (CAPACITY - BURST_MAX) : pushed);
    }
    return NULL;
}

static bool wait_event(struct stress *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOST_AFTER_S;
    return sem_timedwait(&s->events, &until) == 0;
}

// Polls until empty; counts on from `next` and checks the order.
static uint64_t drain(struct stress *s, uint64_t next)
{
    struct cqe got[16];
    unsigned count;
    while ((count = cq_poll(s->cq, got, 16)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(got[i].wr_id, next);
            next++;
        }
        atomic_store(&s->polled, next);
    }
    return next;
}

static void run(struct stress *s)
{
    const uint64_t wanted = getenv("WEFT_SOAK") != NULL ? ROUNDS_SOAK : ROUNDS;
    pthread_t producer;
    uint64_t next = 0;
    s->cq = cq_create(CAPACITY, (struct cq_port){.on_event = post_event, .ctx = s});
    assert_int_equal(sem_init(&s->events, 0, 0), 0);
    assert_int_equal(pthread_create(&producer, NULL, produce, s), 0);
    for (uint64_t rounds = 0; rounds < wanted; rounds++) {
        cq_arm(s->cq, s->solicited_only);
        next = drain(s, next);
        assert_true(wait_event(s));
    }
    atomic_store(&s->is_over, true);
    pthread_join(producer, NULL);
    next = drain(s, next);
    struct cq_counters counters = cq_counters(s->cq);
    assert_int_equal(counters.pushed, next);
    assert_int_equal(counters.polled, next);
    assert_int_equal(counters.overflows, 0);
    assert_int_equal(counters.events, wanted);
    assert_true(cq_check(s->cq));
    cq_destroy(s->cq);
    sem_destroy(&s->events);
}

static void no_event_is_lost(void **state)
{
    static struct stress s;
    run(&s);
}

static void no_solicited_event_is_lost(void **state)
{
    static struct stress s = {.solicited_only = true};
    run(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_event_is_lost),
        cmocka_unit_test(no_solicited_event_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
