#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "verbs/event.h"

struct fixture {
    struct event_queue queue;
    struct event_source a, b;
    int taken; // by the callback
};

static int setup(void **state)
{
    static struct fixture f;
    f = (struct fixture){0};
    assert_int_equal(event_queue_init(&f.queue), 0);
    event_source_init(&f.a, &f, 1);
    event_source_init(&f.b, &f, 2);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    event_queue_fini(&f->queue);
    return 0;
}

static void note_taken(struct event_source *source, void *ctx)
{
    struct fixture *f = ctx;
    f->taken = source->kind;
}

static struct event_source *take(struct fixture *f)
{
    return event_wait(&f->queue, note_taken, f);
}

static bool is_readable(const struct fixture *f)
{
    struct pollfd p = {.fd = f->queue.fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void do_not_block(const struct fixture *f)
{
    assert_int_equal(fcntl(f->queue.fd, F_SETFL, O_NONBLOCK), 0);
}

static void raised_event_is_taken_once(void **state)
{
    struct fixture *f = *state;
    assert_false(is_readable(f));
    event_queue_raise(&f->queue, &f->a);
    assert_true(is_readable(f));
    assert_ptr_equal(take(f), &f->a);
    assert_int_equal(f->taken, 1);
    assert_false(is_readable(f));
    assert_int_equal(f->a.taken_count, 1);
}

static void nonblocking_descriptor_answers_eagain(void **state)
{
    struct fixture *f = *state;
    do_not_block(f);
    errno = 0;
    assert_null(take(f));
    assert_int_equal(errno, EAGAIN);
}

static void every_raise_counts(void **state)
{
    struct fixture *f = *state;
    do_not_block(f);
    event_queue_raise(&f->queue, &f->a);
    event_queue_raise(&f->queue, &f->a);
    assert_non_null(take(f));
    assert_non_null(take(f));
    assert_null(take(f));
}

static void raise_once_stands_for_both(void **state)
{
    struct fixture *f = *state;
    do_not_block(f);
    event_raise_once(&f->queue, &f->a);
    event_raise_once(&f->queue, &f->a);
    assert_non_null(take(f));
    assert_null(take(f));
    event_raise_once(&f->queue, &f->a);
    assert_non_null(take(f));
}

static void sources_take_turns(void **state)
{
    struct fixture *f = *state;
    event_queue_raise(&f->queue, &f->a);
    event_queue_raise(&f->queue, &f->a);
    event_queue_raise(&f->queue, &f->b);
    assert_ptr_equal(take(f), &f->a);
    assert_ptr_equal(take(f), &f->b);
    assert_ptr_equal(take(f), &f->a);
}

static void withdrawn_event_leaves_nothing_to_read(void **state)
{
    struct fixture *f = *state;
    event_queue_raise(&f->queue, &f->a);
    event_queue_raise(&f->queue, &f->b);
    event_queue_raise(&f->queue, &f->a);
    assert_ptr_equal(take(f), &f->a);
    assert_int_equal(event_withdraw(&f->queue, &f->a), 1);
    assert_ptr_equal(take(f), &f->b);
    assert_false(is_readable(f));
}

static void what_is_told_does_not_ring(void **state)
{
    struct fixture *f = *state;
    event_tell(&f->queue, &f->a);
    event_tell(&f->queue, &f->b);
    event_tell(&f->queue, &f->a);
    assert_false(is_readable(f));
    assert_ptr_equal(event_take(&f->queue, note_taken, f), &f->a);
    assert_ptr_equal(event_take(&f->queue, note_taken, f), &f->b);
    assert_ptr_equal(event_take(&f->queue, note_taken, f), &f->a);
    assert_int_equal(f->taken, 1);
    assert_null(event_take(&f->queue, note_taken, f));
}

static void what_was_told_can_be_withdrawn(void **state)
{
    struct fixture *f = *state;
    event_tell(&f->queue, &f->a);
    event_tell(&f->queue, &f->b);
    event_tell(&f->queue, &f->a);
    assert_ptr_equal(event_take(&f->queue, note_taken, f), &f->a);
    assert_int_equal(event_withdraw(&f->queue, &f->a), 1);
    assert_ptr_equal(event_take(&f->queue, note_taken, f), &f->b);
    assert_false(event_is_told(&f->queue));
}

static void what_was_told_can_be_raised(void **state)
{
    struct fixture *f = *state;
    event_tell(&f->queue, &f->a);
    event_tell(&f->queue, &f->a);
    event_raise_told(&f->queue);
    assert_null(event_take(&f->queue, note_taken, f));
    assert_ptr_equal(take(f), &f->a);
    assert_ptr_equal(take(f), &f->a);
    assert_false(is_readable(f));
}

static void withdrawing_nothing_does_not_block(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(event_withdraw(&f->queue, &f->a), 0);
    event_queue_raise(&f->queue, &f->b);
    assert_int_equal(event_withdraw(&f->queue, &f->a), 0);
    assert_true(is_readable(f));
}

// A reader that took the count of an event that was withdrawn before it looked at the list.
static void reader_of_a_withdrawn_event_waits_again(void **state)
{
    struct fixture *f = *state;
    uint64_t one;
    do_not_block(f);
    event_queue_raise(&f->queue, &f->a);
    assert_int_equal(read(f->queue.fd, &one, sizeof one), sizeof one);
    assert_int_equal(event_withdraw(&f->queue, &f->a), 0);
    assert_null(take(f));
    assert_int_equal(errno, EAGAIN);
    event_queue_raise(&f->queue, &f->b);
    assert_ptr_equal(take(f), &f->b);
}

static void *raise_one(void *ctx)
{
    struct fixture *f = ctx;
    event_queue_raise(&f->queue, &f->a);
    return NULL;
}

static unsigned count_in_list(struct fixture *f)
{
    if (pthread_mutex_trylock(&f->queue.lock) != 0) {
        return 0;
    }
    unsigned count = f->a.waiting_count;
    pthread_mutex_unlock(&f->queue.lock);
    return count;
}

// The descriptor is full, so who raises is held up where it wakes the reader.
static void who_is_woken_finds_the_lock_free(void **state)
{
    enum { PATIENCE_MS = 10000 };
    struct fixture *f = *state;
    const uint64_t full = UINT64_MAX - 1;
    uint64_t one;
    pthread_t thread;
    assert_int_equal(write(f->queue.fd, &full, sizeof full), sizeof full);
    assert_int_equal(pthread_create(&thread, NULL, raise_one, f), 0);
    unsigned listed = 0;
    for (unsigned ms = 0; ms < PATIENCE_MS && (listed = count_in_list(f)) == 0; ms++) {
        usleep(1000);
    }
    assert_int_equal(read(f->queue.fd, &one, sizeof one), sizeof one);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(listed, 1);
}

static void *wait_for_ever(void *ctx)
{
    return take(ctx);
}

static void waiting_is_a_cancellation_point_without_a_lock(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, f), 0);
    pthread_cancel(thread);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    event_queue_raise(&f->queue, &f->a);
    assert_ptr_equal(take(f), &f->a);
}

static void descriptor_does_not_survive_exec(void **state)
{
    struct fixture *f = *state;
    assert_true(fcntl(f->queue.fd, F_GETFD) & FD_CLOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raised_event_is_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(nonblocking_descriptor_answers_eagain, setup, teardown),
        cmocka_unit_test_setup_teardown(every_raise_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(raise_once_stands_for_both, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(withdrawn_event_leaves_nothing_to_read, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_told_does_not_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_told_can_be_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_told_can_be_raised, setup, teardown),
        cmocka_unit_test_setup_teardown(withdrawing_nothing_does_not_block, setup, teardown),
        cmocka_unit_test_setup_teardown(reader_of_a_withdrawn_event_waits_again, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_woken_finds_the_lock_free, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_is_a_cancellation_point_without_a_lock, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(descriptor_does_not_survive_exec, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
