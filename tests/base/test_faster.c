// Which of two ways is settled for, by what each is made to take.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/faster.h"

enum { STEP_LEN = 64 * 1024 };

static instant_ns now_ns;
static unsigned look_count; // at the clock

static int begin(void **state)
{
    now_ns = 1;
    look_count = 0;
    return 0;
}

// By way 0 and 1 so many ns for a step. How many of the octets went by way 1, in percent.
static unsigned move(struct faster *f, uint64_t len, duration_ns way_0_ns, duration_ns way_1_ns)
{
    uint64_t by_1 = 0;
    for (uint64_t moved = 0; moved < len; moved += STEP_LEN) {
        by_1 += f->way == 1 ? STEP_LEN : 0;
        now_ns += f->way == 1 ? way_1_ns : way_0_ns;
        if (faster_note(f, STEP_LEN)) {
            look_count++;
            faster_on_phase_end(f, now_ns);
        }
    }
    return (unsigned)(100 * by_1 / len);
}

static const uint64_t gib = 1024 << 20;

static void the_faster_way_is_settled_for(void **state)
{
    struct faster of_0 = {0}, of_1 = {0};
    assert_in_range(move(&of_0, gib, 10000, 20000), 0, 5);
    assert_in_range(move(&of_1, gib, 20000, 10000), 95, 100);
    assert_int_equal(of_0.change_count, 0);
    assert_int_equal(of_1.change_count, 1);
}

static void what_is_faster_by_a_little_changes_nothing(void **state)
{
    struct faster f = {0};
    move(&f, 4 * gib, 10000, 9000);
    assert_int_equal(f.change_count, 0);
}

static void it_is_seen_when_the_other_way_has_become_faster(void **state)
{
    struct faster f = {0};
    move(&f, 8 * gib, 10000, 20000);
    assert_int_equal(f.settled_way, 0);
    move(&f, 2 * gib, 20000, 10000);
    assert_int_equal(f.settled_way, 1);
}

// A pause of a second in every other stretch, by either way.
static void pauses_are_no_matter(void **state)
{
    struct faster f = {0};
    for (unsigned i = 0; i < 200 && f.settled_way == 0; i++) {
        move(&f, 7 << 20, 20000, 10000);
        now_ns += NS_PER_S;
    }
    assert_int_equal(f.settled_way, 1);
    for (unsigned i = 0; i < 200; i++) {
        move(&f, 7 << 20, 20000, 10000);
        now_ns += NS_PER_S;
    }
    assert_int_equal(f.change_count, 1);
}

static void trials_become_seldom(void **state)
{
    struct faster f = {0};
    move(&f, 8 * gib, 10000, 20000);
    look_count = 0;
    assert_int_equal(move(&f, 16 * gib, 10000, 20000), 0);
    assert_in_range(look_count, 1, 16 * (1 + 2 * FASTER_STRETCHES));
}

static void a_way_that_costs_more_has_a_toll_to_make_good(void **state)
{
    struct faster tolled = {.toll = 4}, free_of_it = {0};
    move(&tolled, gib, 10000, 7500);
    assert_int_equal(tolled.settled_way, 0);
    move(&free_of_it, gib, 10000, 7500);
    assert_int_equal(free_of_it.settled_way, 1);
    move(&tolled, 2 * gib, 10000, 6500);
    assert_int_equal(tolled.settled_way, 1);
}

static void a_stretch_with_a_pause_is_measured_anew(void **state)
{
    struct faster f = {0};
    for (unsigned i = 0; i < 64; i++) {
        move(&f, FASTER_LEAD_LEN + FASTER_MEASURED_LEN / 2, 20000, 10000);
        now_ns += NS_PER_S;
        faster_on_pause(&f);
    }
    assert_int_equal(f.settled_len, 0); // the first trial has not ended
    move(&f, gib, 20000, 10000);
    assert_int_equal(f.settled_way, 1);
}

// A stretch: what leads, and then what is measured, in so many ns for 4 KiB.
static void stretch(struct faster *f, duration_ns way_ns)
{
    assert_int_equal(f->phase, FASTER_LEADS);
    assert_true(faster_note(f, FASTER_LEAD_LEN));
    faster_on_phase_end(f, now_ns);
    assert_int_equal(f->phase, FASTER_MEASURES);
    assert_false(faster_note(f, FASTER_MEASURED_LEN - 1));
    assert_true(faster_note(f, 1));
    now_ns += (way_ns - 1) * (FASTER_MEASURED_LEN >> 12);
    faster_on_phase_end(f, now_ns);
}

// By the way that is settled for, and by the other one.
static void trial(struct faster *f, duration_ns own_ns, duration_ns others_ns)
{
    const unsigned settled_way = f->settled_way;
    assert_int_equal(f->phase, FASTER_SETTLED);
    assert_true(faster_note(f, f->phase_len));
    faster_on_phase_end(f, now_ns);
    for (unsigned i = 0; i < FASTER_STRETCHES; i++) {
        assert_int_equal(f->stretch, i);
        assert_int_equal(f->way, settled_way ^ (i % 2));
        stretch(f, (i % 2 == 0 ? own_ns : others_ns) + i); // the fastest counts
    }
    assert_int_equal(f->phase, FASTER_SETTLED);
    assert_int_equal(f->way, f->settled_way);
    assert_int_equal(f->moved_len, 0);
    assert_int_equal(f->best_ns[settled_way],
                     own_ns + (settled_way == 1 ? own_ns * f->toll / 16 : 0));
}

static void the_other_way_is_taken_if_it_is_faster_by_an_eighth(void **state)
{
    static const struct {
        uint32_t toll;
        duration_ns own_ns, others_ns; // the other's first stretch is a nanosecond longer
        bool is_changed;
    } rows[] = {
        {0, 800, 698, true},  {0, 800, 699, false},  {0, 800, 900, false},
        {4, 1000, 698, true}, {4, 1000, 699, false}, {0, 2, 1, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct faster f = {.toll = rows[i].toll};
        trial(&f, rows[i].own_ns, rows[i].others_ns);
        assert_int_equal(f.settled_way, rows[i].is_changed);
        assert_int_equal(f.change_count, rows[i].is_changed);
        const duration_ns others_ns = rows[i].others_ns + 1;
        assert_int_equal(f.best_ns[1], others_ns + others_ns * rows[i].toll / 16);
        if (rows[i].is_changed) { // and back
            trial(&f, 1000, 500);
            assert_int_equal(f.settled_way, 0);
            assert_int_equal(f.change_count, 2);
        }
    }
}

static void each_trial_in_vain_is_twice_as_far_away(void **state)
{
    struct faster f = {0};
    uint32_t expected = FASTER_SETTLED_MIN;
    for (unsigned i = 0; i < 7; i++) {
        trial(&f, 800, 800);
        assert_int_equal(f.settled_len, expected);
        assert_int_equal(f.phase_len, expected);
        expected = 2 * expected < FASTER_SETTLED_MAX ? 2 * expected : FASTER_SETTLED_MAX;
    }
    trial(&f, 800, 100);
    assert_int_equal(f.settled_len, FASTER_SETTLED_MIN);
}

static void a_pause_matters_to_a_stretch_alone(void **state)
{
    struct faster f = {0};
    trial(&f, 800, 800);
    faster_note(&f, 4096);
    faster_on_pause(&f);
    assert_int_equal(f.phase, FASTER_SETTLED);
    assert_int_equal(f.moved_len, 4096);
    faster_note(&f, f.phase_len);
    faster_on_phase_end(&f, now_ns);
    stretch(&f, 500);
    faster_note(&f, FASTER_LEAD_LEN);
    faster_on_phase_end(&f, now_ns);
    faster_note(&f, 4096);
    faster_on_pause(&f);
    assert_int_equal(f.phase, FASTER_LEADS);
    assert_int_equal(f.moved_len, 0);
    assert_int_equal(f.stretch, 1);
    assert_int_equal(f.way, 1);
}

#define FASTER_TEST(test) cmocka_unit_test_setup(test, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FASTER_TEST(the_faster_way_is_settled_for),
        FASTER_TEST(what_is_faster_by_a_little_changes_nothing),
        FASTER_TEST(it_is_seen_when_the_other_way_has_become_faster),
        FASTER_TEST(pauses_are_no_matter),
        FASTER_TEST(trials_become_seldom),
        FASTER_TEST(a_way_that_costs_more_has_a_toll_to_make_good),
        FASTER_TEST(a_stretch_with_a_pause_is_measured_anew),
        FASTER_TEST(the_other_way_is_taken_if_it_is_faster_by_an_eighth),
        FASTER_TEST(each_trial_in_vain_is_twice_as_far_away),
        FASTER_TEST(a_pause_matters_to_a_stretch_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
