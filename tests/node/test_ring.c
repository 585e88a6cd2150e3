// The bus in shared memory, and what a hostile other side can do to it: nothing.

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/bus/ring.h"

struct ends {
    struct bus_memory memory;
    struct bus_end cta, rta;
};

static void ends_init(struct ends *ends)
{
    memset(ends, 0, sizeof *ends);
    bus_end_init(&ends->cta, &ends->memory, true);
    bus_end_init(&ends->rta, &ends->memory, false);
}

static bool send_number(struct bus_end *end, uint64_t number)
{
    return bus_send(end, &(struct frame){.transaction = number});
}

static uint64_t receive_number(struct bus_end *end)
{
    struct frame frame;
    return bus_receive(end, &frame) ? frame.transaction : UINT64_MAX;
}

static void frames_arrive_in_order_both_ways(void **state)
{
    static struct ends e;
    ends_init(&e);
    for (uint64_t i = 0; i < 3 * BUS_RING_COUNT; i++) {
        assert_true(send_number(&e.cta, i));
        assert_true(send_number(&e.rta, ~i));
        assert_int_equal(receive_number(&e.rta), i);
        assert_int_equal(receive_number(&e.cta), ~i);
    }
    assert_int_equal(receive_number(&e.rta), UINT64_MAX);
}

static void a_full_ring_takes_no_more(void **state)
{
    static struct ends e;
    ends_init(&e);
    for (uint64_t i = 0; i < BUS_RING_COUNT; i++) {
        assert_true(send_number(&e.cta, i));
    }
    assert_false(send_number(&e.cta, 0));
    assert_int_equal(receive_number(&e.rta), 0);
    assert_true(send_number(&e.cta, 0));
    assert_false(bus_is_broken(&e.cta));
}

static void a_head_beyond_the_ring_breaks_it(void **state)
{
    static struct ends e;
    ends_init(&e);
    atomic_store(&e.memory.to_cta.head, BUS_RING_COUNT + 1);
    assert_int_equal(receive_number(&e.cta), UINT64_MAX);
    assert_true(bus_is_broken(&e.cta));
    assert_false(send_number(&e.cta, 1));
}

static void a_head_that_goes_back_breaks_it(void **state)
{
    static struct ends e;
    ends_init(&e);
    assert_true(send_number(&e.rta, 1));
    assert_int_equal(receive_number(&e.cta), 1);
    atomic_store(&e.memory.to_cta.head, 0);
    assert_int_equal(receive_number(&e.cta), UINT64_MAX);
    assert_true(bus_is_broken(&e.cta));
}

static void a_tail_that_is_ahead_breaks_it(void **state)
{
    static struct ends e;
    ends_init(&e);
    atomic_store(&e.memory.to_rta.tail, 5);
    assert_false(send_number(&e.cta, 1));
    assert_true(bus_is_broken(&e.cta));
}

static void own_indexes_in_the_memory_are_not_believed(void **state)
{
    static struct ends e;
    ends_init(&e);
    assert_true(send_number(&e.cta, 7));
    atomic_store(&e.memory.to_cta.tail, 99); // the CTA's own; the RTA can write it
    assert_true(send_number(&e.cta, 8));
    atomic_store(&e.memory.to_cta.tail, 0);
    assert_true(send_number(&e.rta, 9));
    assert_int_equal(receive_number(&e.cta), 9);
}

static void who_sleeps_is_rung_once(void **state)
{
    static struct ends e;
    ends_init(&e);
    assert_true(send_number(&e.cta, 1));
    assert_false(bus_should_ring(&e.cta));
    assert_int_equal(receive_number(&e.rta), 1);
    assert_true(bus_sleep(&e.rta));
    assert_true(send_number(&e.cta, 2));
    assert_true(bus_should_ring(&e.cta));
    assert_false(bus_should_ring(&e.cta));
}

static void who_has_frames_does_not_sleep(void **state)
{
    static struct ends e;
    ends_init(&e);
    assert_true(send_number(&e.cta, 1));
    assert_false(bus_sleep(&e.rta));
    assert_false(bus_should_ring(&e.cta));
}

/* ---- two threads ----------------------------------------------------------------------------- */

struct reader {
    struct bus_end end;
    int bell;
    uint64_t total, next;
};

static void *read_all(void *ctx)
{
    struct reader *r = ctx;
    struct pollfd bell = {.fd = r->bell, .events = POLLIN};
    while (r->next < r->total) {
        struct frame frame;
        while (bus_receive(&r->end, &frame)) {
            if (frame.transaction != r->next++) {
                return NULL; // seen by the count
            }
        }
        if (r->next < r->total && bus_sleep(&r->end)) {
            eventfd_t rung;
            poll(&bell, 1, -1);
            eventfd_read(r->bell, &rung);
        }
        bus_wake(&r->end);
    }
    return NULL;
}

// A frame that is slept through hangs the test: the bell is the only thing that wakes the reader.
static void no_frame_is_slept_through(void **state)
{
    static struct bus_memory memory;
    struct bus_end writer;
    struct reader reader = {.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                            .total = getenv("WEFT_SOAK") != NULL ? 1000000 : 20000};
    pthread_t thread;
    bus_end_init(&writer, &memory, true);
    bus_end_init(&reader.end, &memory, false);
    assert_int_equal(pthread_create(&thread, NULL, read_all, &reader), 0);
    for (uint64_t i = 0; i < reader.total; i++) {
        while (!send_number(&writer, i)) {
            sched_yield();
        }
        if (bus_should_ring(&writer)) {
            eventfd_write(reader.bell, 1);
        }
        if (i % 7 == 0) {
            sched_yield(); // so that the reader finds nothing now and then
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(reader.next, reader.total);
    close(reader.bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_in_order_both_ways),
        cmocka_unit_test(a_full_ring_takes_no_more),
        cmocka_unit_test(a_head_beyond_the_ring_breaks_it),
        cmocka_unit_test(a_head_that_goes_back_breaks_it),
        cmocka_unit_test(a_tail_that_is_ahead_breaks_it),
        cmocka_unit_test(own_indexes_in_the_memory_are_not_believed),
        cmocka_unit_test(who_sleeps_is_rung_once),
        cmocka_unit_test(who_has_frames_does_not_sleep),
        cmocka_unit_test(no_frame_is_slept_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
