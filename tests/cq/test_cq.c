// The completion ring, one side at a time: order, fullness, arming, moderation, resizing, purging.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cq/cq.h"

enum { CAPACITY = 8, FAILED = 5 };

struct fixture {
    struct cq *cq;
    unsigned events;
    unsigned overruns;
};

static void count_event(void *ctx)
{
    struct fixture *f = ctx;
    f->events++;
}

static void count_overrun(void *ctx)
{
    struct fixture *f = ctx;
    f->overruns++;
}

static int setup(void **state)
{
    static struct fixture f;
    f.events = 0;
    f.overruns = 0;
    f.cq = cq_create(
        CAPACITY,
        (struct cq_port){.on_event = count_event, .on_overrun = count_overrun, .ctx = &f});
    assert_non_null(f.cq);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_true(cq_check(f->cq));
    assert_int_equal(cq_counters(f->cq).events, f->events);
    cq_destroy(f->cq);
    return 0;
}

static bool push(struct fixture *f, uint64_t wr_id)
{
    struct cqe cqe = {.wr_id = wr_id, .qp_num = (uint32_t)wr_id % 3};
    return cq_push(f->cq, &cqe);
}

static void push_solicited(struct fixture *f)
{
    struct cqe cqe = {.solicited = true};
    assert_true(cq_push(f->cq, &cqe));
}

static void push_at(struct fixture *f, instant_ns now)
{
    struct cqe cqe = {.timestamp_ns = now};
    assert_true(cq_push(f->cq, &cqe));
}

// Polls everything; the entries must be first, first + 1, ...
static void expect_run(struct fixture *f, uint64_t first, unsigned count)
{
    struct cqe got[2 * CAPACITY + 1];
    assert_int_equal(cq_poll(f->cq, got, 2 * CAPACITY + 1), count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(got[i].wr_id, first + i);
    }
}

static void entries_come_out_in_order_and_once(void **state)
{
    struct fixture *f = *state;
    uint64_t next = 0;
    for (unsigned run = 0; run <= CAPACITY; run++) {
        for (unsigned i = 0; i < run; i++) {
            assert_true(push(f, next + i));
        }
        expect_run(f, next, run);
        next += run;
    }
    assert_int_equal(cq_counters(f->cq).pushed, next);
    assert_int_equal(cq_counters(f->cq).polled, next);
}

static void every_field_survives(void **state)
{
    struct fixture *f = *state;
    const struct cqe in = {.wr_id = UINT64_MAX,
                           .timestamp_ns = 2,
                           .status = 3,
                           .opcode = 4,
                           .vendor_err = 5,
                           .byte_len = 6,
                           .imm_data = 7,
                           .qp_num = 8,
                           .wc_flags = 9,
                           .solicited = true};
    struct cqe out;
    assert_true(cq_push(f->cq, &in));
    assert_int_equal(cq_poll(f->cq, &out, 1), 1);
    assert_memory_equal(&in, &out, sizeof in);
}

static void polling_takes_no_more_than_asked(void **state)
{
    struct fixture *f = *state;
    struct cqe got[3];
    for (unsigned i = 0; i < 5; i++) {
        push(f, i);
    }
    assert_int_equal(cq_poll(f->cq, got, 0), 0);
    assert_int_equal(cq_poll(f->cq, got, 3), 3);
    assert_int_equal(got[2].wr_id, 2);
    expect_run(f, 3, 2);
}

static void peeking_leaves_and_popping_takes(void **state)
{
    struct fixture *f = *state;
    assert_null(cq_peek(f->cq, 0));
    push(f, 10);
    push(f, 11);
    assert_int_equal(cq_peek(f->cq, 0)->wr_id, 10);
    assert_int_equal(cq_peek(f->cq, 1)->wr_id, 11);
    assert_null(cq_peek(f->cq, 2));
    cq_pop(f->cq, 1);
    assert_int_equal(cq_peek(f->cq, 0)->wr_id, 11);
    expect_run(f, 11, 1);
}

// A place where the rest of completions waits.
struct place {
    struct cqe_source source;
    unsigned fetches;
    uint32_t byte_len;
};

static void fetch(struct cqe_source *source, struct cqe *cqe)
{
    struct place *place = (struct place *)source;
    place->fetches++;
    cqe->byte_len = place->byte_len;
}

static void push_with_place(struct fixture *f, struct place *place, uint32_t qp_num)
{
    *place = (struct place){.source = {fetch}, .byte_len = 77};
    struct cqe cqe = {.qp_num = qp_num, .source = &place->source};
    assert_true(cq_push(f->cq, &cqe));
    assert_int_equal(place->fetches, 0);
}

static void the_rest_of_an_entry_is_fetched_when_it_is_polled(void **state)
{
    struct fixture *f = *state;
    struct place place;
    struct cqe got;
    push_with_place(f, &place, 1);
    place.byte_len = 78; // nobody has looked yet
    assert_int_equal(cq_poll(f->cq, &got, 1), 1);
    assert_int_equal(got.byte_len, 78);
    assert_null(got.source);
    assert_int_equal(place.fetches, 1);
}

static void peeking_twice_fetches_once(void **state)
{
    struct fixture *f = *state;
    struct place place;
    push_with_place(f, &place, 1);
    assert_int_equal(cq_peek(f->cq, 0)->byte_len, 77);
    assert_int_equal(cq_peek(f->cq, 0)->byte_len, 77);
    cq_pop(f->cq, 1);
    assert_int_equal(place.fetches, 1);
}

static void all_that_are_detached_let_go_whatever_stands_before_them(void **state)
{
    struct fixture *f = *state;
    struct place other, detached[3];
    struct cqe got[4];
    push_with_place(f, &other, 1);
    for (unsigned i = 0; i < 3; i++) {
        push_with_place(f, &detached[i], 2);
    }
    cq_detach(f->cq, 2);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(detached[i].fetches, 1);
    }
    assert_int_equal(other.fetches, 0);
    assert_int_equal(cq_poll(f->cq, got, 4), 4); // they stay
}

static void purged_and_detached_entries_let_go_of_their_places(void **state)
{
    struct fixture *f = *state;
    struct place purged, detached, other;
    struct cqe got[2];
    push_with_place(f, &purged, 1);
    push_with_place(f, &detached, 2);
    push_with_place(f, &other, 3);
    assert_int_equal(cq_purge(f->cq, 1), 1);
    cq_detach(f->cq, 2);
    assert_int_equal(purged.fetches, 1);
    assert_int_equal(detached.fetches, 1);
    assert_int_equal(other.fetches, 0);
    assert_int_equal(cq_poll(f->cq, got, 2), 2);
    assert_int_equal(got[0].byte_len, 77);
    assert_int_equal(detached.fetches, 1);
    assert_int_equal(other.fetches, 1);
}

static void capacity_is_rounded_up(void **state)
{
    const uint32_t wanted[] = {1, 2, 3, 5, 1000}, given[] = {1, 2, 4, 8, 1024};
    for (unsigned i = 0; i < 5; i++) {
        struct cq *cq = cq_create(wanted[i], (struct cq_port){0});
        assert_int_equal(cq_capacity(cq), given[i]);
        cq_destroy(cq);
    }
    cq_destroy(NULL);
}

static void a_full_queue_is_in_error_for_good(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < CAPACITY; i++) {
        assert_true(push(f, i));
    }
    assert_false(cq_has_overflowed(f->cq));
    assert_int_equal(f->overruns, 0);
    assert_false(push(f, 99));
    assert_true(cq_has_overflowed(f->cq));
    assert_int_equal(f->overruns, 1);
    expect_run(f, 0, CAPACITY);
    assert_false(push(f, 100));
    assert_int_equal(f->overruns, 1);
    assert_int_equal(cq_counters(f->cq).overflows, 2);
    assert_int_equal(cq_counters(f->cq).pushed, CAPACITY);
}

// Two threads read the clock and then wait for each other.
static void stamps_do_not_go_backwards(void **state)
{
    struct fixture *f = *state;
    const instant_ns now[] = {100, 90, 120, 110}, stamped[] = {100, 100, 120, 120};
    for (unsigned i = 0; i < 4; i++) {
        assert_true(cq_push(f->cq, &(struct cqe){.timestamp_ns = now[i]}));
        assert_int_equal(cq_peek(f->cq, i)->timestamp_ns, stamped[i]);
    }
    cq_pop(f->cq, 4);
}

static void an_unarmed_queue_is_quiet(void **state)
{
    struct fixture *f = *state;
    push(f, 0);
    push_solicited(f);
    assert_int_equal(f->events, 0);
}

static void one_arming_gives_one_event(void **state)
{
    struct fixture *f = *state;
    cq_arm(f->cq, false);
    assert_int_equal(f->events, 0);
    push(f, 0);
    push(f, 1);
    assert_int_equal(f->events, 1);
    cq_arm(f->cq, false);
    cq_arm(f->cq, false);
    push(f, 2);
    push(f, 3);
    assert_int_equal(f->events, 2);
}

static void entries_present_at_arming_raise_nothing(void **state)
{
    struct fixture *f = *state;
    push(f, 0);
    cq_arm(f->cq, false);
    assert_int_equal(f->events, 0);
}

static void solicited_arming_waits_for_a_solicited_entry(void **state)
{
    struct fixture *f = *state;
    cq_arm(f->cq, true);
    push(f, 0);
    assert_int_equal(f->events, 0);
    push_solicited(f);
    assert_int_equal(f->events, 1);
    push_solicited(f);
    assert_int_equal(f->events, 1);
}

static void an_unsuccessful_entry_counts_as_solicited(void **state)
{
    struct fixture *f = *state;
    struct cqe failed = {.status = FAILED};
    cq_arm(f->cq, true);
    cq_push(f->cq, &failed);
    assert_int_equal(f->events, 1);
}

static void a_wish_for_any_entry_is_not_weakened(void **state)
{
    struct fixture *f = *state;
    cq_arm(f->cq, false);
    cq_arm(f->cq, true);
    push(f, 0);
    assert_int_equal(f->events, 1);
    cq_arm(f->cq, true);
    cq_arm(f->cq, false);
    push(f, 1);
    assert_int_equal(f->events, 2);
}

static void a_refused_push_raises_nothing(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < CAPACITY; i++) {
        push(f, i);
    }
    cq_arm(f->cq, false);
    assert_false(push(f, 99));
    assert_int_equal(f->events, 0);
}

static void moderation_waits_for_the_count(void **state)
{
    struct fixture *f = *state;
    cq_moderate(f->cq, 3, 1000);
    cq_arm(f->cq, false);
    push_at(f, 100);
    push_at(f, 200);
    assert_int_equal(f->events, 0);
    assert_int_equal(cq_next_deadline(f->cq), 1100);
    push_at(f, 300);
    assert_int_equal(f->events, 1);
    assert_int_equal(cq_next_deadline(f->cq), INSTANT_NEVER);
    push_at(f, 400);
    assert_int_equal(cq_next_deadline(f->cq), INSTANT_NEVER);
}

static void moderation_waits_no_longer_than_the_period(void **state)
{
    struct fixture *f = *state;
    cq_moderate(f->cq, 3, 1000);
    cq_arm(f->cq, false);
    push_at(f, 100);
    cq_on_deadline(f->cq, 1099);
    assert_int_equal(f->events, 0);
    cq_on_deadline(f->cq, 1100);
    assert_int_equal(f->events, 1);
    cq_on_deadline(f->cq, 5000);
    assert_int_equal(f->events, 1);
}

static void half_a_moderation_is_none(void **state)
{
    struct fixture *f = *state;
    const struct {
        uint32_t count;
        duration_ns period_ns;
    } none[] = {{0, 1000}, {1, 1000}, {5, 0}, {0, 0}};
    for (unsigned i = 0; i < 4; i++) {
        cq_moderate(f->cq, none[i].count, none[i].period_ns);
        cq_arm(f->cq, false);
        push(f, i);
        assert_int_equal(f->events, i + 1);
    }
}

static void a_held_event_is_raised_when_moderation_ends(void **state)
{
    struct fixture *f = *state;
    cq_moderate(f->cq, 3, 1000);
    cq_arm(f->cq, false);
    push_at(f, 100);
    cq_moderate(f->cq, 5, 1000);
    assert_int_equal(f->events, 0);
    cq_moderate(f->cq, 0, 0);
    assert_int_equal(f->events, 1);
}

static void resizing_keeps_the_entries(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 5; i++) {
        push(f, i);
    }
    expect_run(f, 0, 5);
    for (unsigned i = 5; i < 5 + CAPACITY; i++) {
        push(f, i);
    }
    assert_int_equal(cq_resize(f->cq, 2 * CAPACITY), 0);
    assert_int_equal(cq_capacity(f->cq), 2 * CAPACITY);
    for (unsigned i = 5 + CAPACITY; i < 5 + 2 * CAPACITY; i++) {
        assert_true(push(f, i));
    }
    expect_run(f, 5, 2 * CAPACITY);
    push(f, 21);
    push(f, 22);
    assert_int_equal(cq_resize(f->cq, 2), 0);
    assert_int_equal(cq_capacity(f->cq), 2);
    expect_run(f, 21, 2);
}

static void a_resize_that_does_not_fit_changes_nothing(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 3; i++) {
        push(f, i);
    }
    assert_int_equal(cq_resize(f->cq, 0), -EINVAL);
    assert_int_equal(cq_resize(f->cq, 2), -EINVAL);
    assert_int_equal(cq_resize(f->cq, CQ_CAPACITY_MAX + 1), -EINVAL);
    assert_int_equal(cq_capacity(f->cq), CAPACITY);
    expect_run(f, 0, 3);
}

static void purging_removes_one_queue_pair_and_keeps_order(void **state)
{
    struct fixture *f = *state;
    push(f, 100);
    expect_run(f, 100, 1);
    for (unsigned i = 0; i < CAPACITY; i++) {
        push(f, i); // queue pairs 0 1 2 0 1 2 0 1
    }
    assert_int_equal(cq_purge(f->cq, 0), 3);
    const uint64_t left[] = {1, 2, 4, 5, 7};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(cq_peek(f->cq, i)->wr_id, left[i]);
    }
    assert_null(cq_peek(f->cq, 5));
    assert_int_equal(cq_purge(f->cq, 9), 0);
    struct cq_counters counters = cq_counters(f->cq);
    assert_int_equal(counters.purged, 3);
    assert_int_equal(counters.polled, 1);
    assert_true(push(f, 50));
    assert_true(push(f, 51));
    assert_true(push(f, 52));
    assert_false(push(f, 53));
}

#define CQ_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CQ_TEST(entries_come_out_in_order_and_once),
        CQ_TEST(every_field_survives),
        CQ_TEST(polling_takes_no_more_than_asked),
        CQ_TEST(peeking_leaves_and_popping_takes),
        CQ_TEST(the_rest_of_an_entry_is_fetched_when_it_is_polled),
        CQ_TEST(peeking_twice_fetches_once),
        CQ_TEST(all_that_are_detached_let_go_whatever_stands_before_them),
        CQ_TEST(purged_and_detached_entries_let_go_of_their_places),
        cmocka_unit_test(capacity_is_rounded_up),
        CQ_TEST(a_full_queue_is_in_error_for_good),
        CQ_TEST(stamps_do_not_go_backwards),
        CQ_TEST(an_unarmed_queue_is_quiet),
        CQ_TEST(one_arming_gives_one_event),
        CQ_TEST(entries_present_at_arming_raise_nothing),
        CQ_TEST(solicited_arming_waits_for_a_solicited_entry),
        CQ_TEST(an_unsuccessful_entry_counts_as_solicited),
        CQ_TEST(a_wish_for_any_entry_is_not_weakened),
        CQ_TEST(a_refused_push_raises_nothing),
        CQ_TEST(moderation_waits_for_the_count),
        CQ_TEST(moderation_waits_no_longer_than_the_period),
        CQ_TEST(half_a_moderation_is_none),
        CQ_TEST(a_held_event_is_raised_when_moderation_ends),
        CQ_TEST(resizing_keeps_the_entries),
        CQ_TEST(a_resize_that_does_not_fit_changes_nothing),
        CQ_TEST(purging_removes_one_queue_pair_and_keeps_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
