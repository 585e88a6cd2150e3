// Which allotment a device wishes, event by event.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wq/allotment_policy.h"

enum { BASE = 256 * 1024 };

static struct allotment_policy policy(uint32_t base_len)
{
    struct allotment_policy p;
    allotment_policy_init(&p, base_len);
    return p;
}

static bool sample(struct allotment_policy *p, uint32_t waiting, uint64_t pipe_len,
                   enum allotment_event *ret)
{
    const struct allotment_sample s = {
        .waiting_count = waiting, .context_count = 4, .pipe_len = pipe_len};
    return allotment_policy_on_sample(p, &s, ret);
}

static void an_operators_command_holds(void **state)
{
    struct allotment_policy p = policy(BASE);
    assert_true(allotment_policy_on_operator(&p, 1000));
    assert_int_equal(p.len, 1000);
    assert_false(allotment_policy_on_operator(&p, 1000));
    assert_true(allotment_policy_on_operator(&p, 0));
    assert_int_equal(p.len, 0);
    assert_int_equal(p.changes[ALLOTMENT_OPERATOR], 2);
}

static void short_memory_lowers_it_until_there_is_enough(void **state)
{
    struct allotment_policy p = policy(BASE);
    assert_true(allotment_policy_on_memory(&p, true));
    assert_int_equal(p.len, BASE / 4);
    assert_true(allotment_policy_on_memory(&p, false));
    assert_int_equal(p.len, BASE);
    assert_int_equal(p.changes[ALLOTMENT_MEMORY], 2);
}

static void waiting_readers_lower_it_at_once(void **state)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    assert_false(sample(&p, 15, 0, &why));
    assert_true(sample(&p, 16, 0, &why));
    assert_int_equal(why, ALLOTMENT_WAITING);
    assert_int_equal(p.len, BASE / 2);
    assert_true(sample(&p, 64, 0, &why));
    assert_int_equal(p.len, BASE / 4);
    assert_false(allotment_policy_is_at_rest(&p));
}

static void it_rises_when_nobody_has_waited_for_a_while(void **state)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    sample(&p, 16, 0, &why);
    for (unsigned i = 1; i < ALLOTMENT_CALM_COUNT; i++) {
        assert_false(sample(&p, 0, 0, &why));
    }
    assert_false(sample(&p, 16, 0, &why)); // not calm yet: it begins anew
    for (unsigned i = 1; i < ALLOTMENT_CALM_COUNT; i++) {
        assert_false(sample(&p, 0, 0, &why));
    }
    assert_true(sample(&p, 0, 0, &why));
    assert_int_equal(p.len, BASE);
    assert_true(allotment_policy_is_at_rest(&p));
}

// Ten minutes of samples, ten a second, whose reason comes and goes every three seconds.
static unsigned changes_in_ten_minutes(uint32_t waiting_count, uint64_t pipe_len)
{
    struct allotment_policy p;
    enum allotment_event why;
    unsigned changes = 0;
    allotment_policy_init(&p, BASE);
    for (unsigned i = 0; i < 6000; i++) {
        bool is_there = i / 30 % 2 == 0;
        changes += sample(&p, is_there ? waiting_count : 0, is_there ? pipe_len : 0, &why);
    }
    return changes;
}

static void a_reason_that_comes_and_goes_does_not_make_it_swing(void **state)
{
    assert_in_range(changes_in_ten_minutes(16, 0), 1, 8);
    assert_in_range(changes_in_ten_minutes(0, 64 * BASE), 1, 8);
}

// The patience that it has learnt it forgets again.
static void after_a_quiet_time_calm_is_short_again(void **state)
{
    struct allotment_policy p;
    enum allotment_event why;
    allotment_policy_init(&p, BASE);
    for (unsigned round = 0; round < 3; round++) {
        sample(&p, 16, 0, &why);
        for (unsigned i = 0; p.len != BASE; i++) {
            assert_true(i < 100);
            sample(&p, 0, 0, &why);
        }
    }
    for (unsigned i = 0; i < ALLOTMENT_QUIET_COUNT; i++) {
        assert_false(sample(&p, 0, 0, &why));
    }
    sample(&p, 16, 0, &why);
    for (unsigned i = 1; i < ALLOTMENT_CALM_COUNT; i++) {
        assert_false(sample(&p, 0, 0, &why));
    }
    assert_true(sample(&p, 0, 0, &why));
}

static void a_long_pipe_raises_it(void **state)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    assert_false(sample(&p, 0, BASE, &why));
    assert_false(sample(&p, 0, 3 * BASE, &why)); // one sample alone says little
    assert_true(sample(&p, 0, 3 * BASE, &why));
    assert_int_equal(why, ALLOTMENT_PIPE);
    assert_int_equal(p.len, 4 * BASE);
    assert_false(sample(&p, 0, UINT64_MAX, &why));
    assert_true(sample(&p, 0, UINT64_MAX, &why));
    assert_int_equal(p.len, ALLOTMENT_PIPE_MAX_LEN);
}

static void short_memory_counts_more_than_a_long_pipe(void **state)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    sample(&p, 0, 3 * BASE, &why);
    sample(&p, 0, 3 * BASE, &why);
    assert_true(allotment_policy_on_memory(&p, true));
    assert_int_equal(p.len, BASE / 4);
}

static void no_pipe_raises_what_an_operator_commanded(void **state)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    assert_true(allotment_policy_may_follow(&p));
    allotment_policy_on_operator(&p, 1000);
    assert_false(sample(&p, 0, 3 * BASE, &why));
    assert_false(sample(&p, 0, 3 * BASE, &why));
    assert_int_equal(p.len, 1000);
    assert_false(allotment_policy_may_follow(&p));
}

static void it_is_not_bent_below_the_floor(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy(2 * ALLOTMENT_FLOOR_LEN);
    sample(&p, 64, 0, &why);
    allotment_policy_on_memory(&p, true);
    assert_int_equal(p.len, ALLOTMENT_FLOOR_LEN);
    p = policy(100);
    assert_false(sample(&p, 64, 0, &why));
    assert_int_equal(p.len, 100);
}

static void undivided_stays_undivided(void **state)
{
    struct allotment_policy p = policy(0);
    enum allotment_event why;
    assert_false(sample(&p, 64, 3 * BASE, &why));
    assert_false(allotment_policy_on_memory(&p, true));
    assert_int_equal(p.len, 0);
}

static bool sample_readers(struct allotment_policy *p, uint32_t reader_count, uint64_t lasting_len,
                           enum allotment_event *ret)
{
    const struct allotment_sample s = {
        .context_count = 4, .reader_count = reader_count, .lasting_len = lasting_len};
    return allotment_policy_on_sample(p, &s, ret);
}

static struct allotment_policy policy_of_one(void)
{
    struct allotment_policy p = policy(BASE);
    enum allotment_event why;
    assert_false(sample_readers(&p, 1, 3 * BASE, &why)); // one sample alone says little
    assert_true(sample_readers(&p, 1, 3 * BASE, &why));
    assert_int_equal(why, ALLOTMENT_ALONE);
    assert_int_equal(p.len, 4 * BASE);
    assert_true(allotment_policy_is_of_one(&p));
    return p;
}

static void one_that_reads_alone_raises_it(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy_of_one();
    assert_false(sample_readers(&p, 1, UINT64_MAX, &why));
    assert_false(sample_readers(&p, 1, UINT64_MAX, &why));
    assert_int_equal(p.len, ALLOTMENT_ALONE_MAX_LEN);
    p = policy(BASE);
    assert_false(sample_readers(&p, 1, BASE, &why)); // such requests last
    assert_false(sample_readers(&p, 1, BASE, &why));
    assert_false(allotment_policy_is_of_one(&p));
}

static void another_reader_lowers_it_at_once(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy_of_one();
    assert_true(sample_readers(&p, 2, 3 * BASE, &why));
    assert_int_equal(why, ALLOTMENT_ALONE);
    assert_int_equal(p.len, BASE);
    for (unsigned i = 1; i < ALLOTMENT_CALM_COUNT; i++) {
        assert_false(sample_readers(&p, 1, 3 * BASE, &why));
    }
    assert_true(sample_readers(&p, 1, 3 * BASE, &why)); // alone for a while
    assert_int_equal(p.len, 4 * BASE);
}

static void nothing_changes_where_nobody_reads(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy_of_one();
    assert_true(allotment_policy_is_at_rest(&p)); // and nobody needs to look
    for (unsigned i = 0; i < 2 * ALLOTMENT_CALM_COUNT; i++) {
        assert_false(sample_readers(&p, 0, 0, &why));
    }
    assert_int_equal(p.len, 4 * BASE);
}

static void one_that_reads_alone_counts_less_than_what_presses(void **state)
{
    struct allotment_policy p = policy_of_one();
    assert_true(allotment_policy_on_memory(&p, true));
    assert_int_equal(p.len, BASE / 4);
    p = policy_of_one();
    assert_true(allotment_policy_on_operator(&p, BASE));
    assert_int_equal(p.len, BASE);
}

// Ten minutes in which a second reader comes and goes every three seconds.
static void company_that_comes_and_goes_does_not_make_it_swing(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy(BASE);
    unsigned changes = 0;
    for (unsigned i = 0; i < 6000; i++) {
        uint32_t reader_count = i / 30 % 2 == 0 ? 1 : 2;
        changes += sample_readers(&p, reader_count, 3 * BASE, &why);
    }
    assert_in_range(changes, 1, 8);
}

// So many samples without the reason until it no longer counts.
static unsigned calm_after(struct allotment_policy *p, uint32_t waiting_count, uint64_t pipe_len)
{
    enum allotment_event why;
    unsigned samples = 0;
    sample(p, waiting_count, pipe_len, &why);
    sample(p, waiting_count, pipe_len, &why);
    assert_int_not_equal(p->len, BASE);
    while (p->len != BASE) {
        sample(p, 0, 0, &why);
        assert_true(++samples <= ALLOTMENT_CALM_MOST_COUNT);
    }
    return samples;
}

// Each time it has to last twice as long, up to a most, until nothing has come for long.
static void calm_lasts_longer_each_time(void **state)
{
    enum allotment_event why;
    for (unsigned is_pipe = 0; is_pipe < 2; is_pipe++) {
        const uint32_t waiting_count = is_pipe ? 0 : 16;
        const uint64_t pipe_len = is_pipe ? 3 * BASE : 0;
        for (unsigned is_quiet = 0; is_quiet < 2; is_quiet++) {
            struct allotment_policy p = policy(BASE);
            unsigned wanted = ALLOTMENT_CALM_COUNT;
            for (unsigned round = 0; round < 8; round++) {
                assert_int_equal(calm_after(&p, waiting_count, pipe_len), wanted);
                wanted =
                    2 * wanted < ALLOTMENT_CALM_MOST_COUNT ? 2 * wanted : ALLOTMENT_CALM_MOST_COUNT;
            }
            // The first sample of a pipe that is longer says little, and is a quiet one.
            for (unsigned i = 0; i < ALLOTMENT_QUIET_COUNT - 1 - is_pipe + is_quiet; i++) {
                sample(&p, 0, 0, &why);
            }
            assert_int_equal(calm_after(&p, waiting_count, pipe_len),
                             is_quiet ? ALLOTMENT_CALM_COUNT : ALLOTMENT_CALM_MOST_COUNT);
        }
    }
}

// Of four contexts, whose readers wait; and in powers of two what is on the way at a time.
static void it_is_bent_and_raised_in_steps(void **state)
{
    static const struct {
        uint32_t waiting_count;
        uint64_t pipe_len;
        uint32_t len;
    } rows[] = {
        {0, 0, BASE},
        {15, 0, BASE},
        {16, 0, BASE / 2},
        {63, 0, BASE / 2},
        {64, 0, BASE / 4},
        {1000, 0, BASE / 4},
        {0, BASE, BASE},
        {0, BASE + 1, 2 * BASE},
        {0, 2 * BASE, 2 * BASE},
        {0, 2 * BASE + 1, 4 * BASE},
        {16, 4 * BASE, BASE / 2},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct allotment_policy p = policy(BASE);
        enum allotment_event why;
        sample(&p, rows[i].waiting_count, rows[i].pipe_len, &why);
        sample(&p, rows[i].waiting_count, rows[i].pipe_len, &why);
        assert_int_equal(p.len, rows[i].len);
        assert_int_equal(allotment_policy_is_at_rest(&p),
                         rows[i].waiting_count < 16 && rows[i].pipe_len <= BASE);
        assert_int_equal(allotment_policy_may_follow(&p), rows[i].waiting_count < 16);
        assert_int_equal(p.changes[ALLOTMENT_WAITING], rows[i].len < BASE);
        assert_int_equal(p.changes[ALLOTMENT_PIPE], rows[i].len > BASE);
    }
}

static void company_ends_the_allotment_of_one(void **state)
{
    enum allotment_event why;
    struct allotment_policy p = policy_of_one();
    sample_readers(&p, 2, 3 * BASE, &why);
    assert_false(allotment_policy_is_of_one(&p));
    assert_int_equal(p.changes[ALLOTMENT_ALONE], 2);
    p = policy_of_one();
    sample(&p, 0, 8 * (uint64_t)BASE, &why); // the larger of both
    assert_true(sample(&p, 0, 8 * (uint64_t)BASE, &why));
    assert_int_equal(p.len, 8 * BASE);
}

static void a_command_taken_back_leaves_the_setting_to_the_pipe(void **state)
{
    struct allotment_policy p;
    enum allotment_event event;
    const struct allotment_sample far = {.context_count = 1, .pipe_len = 1 << 20};
    allotment_policy_init(&p, 65536);
    allotment_policy_on_operator(&p, 4096);
    assert_true(allotment_policy_on_release(&p, 65536));
    assert_int_equal(p.len, 65536);
    allotment_policy_on_sample(&p, &far, &event);
    assert_true(allotment_policy_on_sample(&p, &far, &event));
    assert_int_equal(event, ALLOTMENT_PIPE);
    assert_int_equal(p.len, 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operators_command_holds),
        cmocka_unit_test(short_memory_lowers_it_until_there_is_enough),
        cmocka_unit_test(waiting_readers_lower_it_at_once),
        cmocka_unit_test(it_rises_when_nobody_has_waited_for_a_while),
        cmocka_unit_test(a_reason_that_comes_and_goes_does_not_make_it_swing),
        cmocka_unit_test(after_a_quiet_time_calm_is_short_again),
        cmocka_unit_test(a_long_pipe_raises_it),
        cmocka_unit_test(short_memory_counts_more_than_a_long_pipe),
        cmocka_unit_test(calm_lasts_longer_each_time),
        cmocka_unit_test(it_is_bent_and_raised_in_steps),
        cmocka_unit_test(company_ends_the_allotment_of_one),
        cmocka_unit_test(a_command_taken_back_leaves_the_setting_to_the_pipe),
        cmocka_unit_test(one_that_reads_alone_raises_it),
        cmocka_unit_test(another_reader_lowers_it_at_once),
        cmocka_unit_test(nothing_changes_where_nobody_reads),
        cmocka_unit_test(one_that_reads_alone_counts_less_than_what_presses),
        cmocka_unit_test(company_that_comes_and_goes_does_not_make_it_swing),
        cmocka_unit_test(no_pipe_raises_what_an_operator_commanded),
        cmocka_unit_test(it_is_not_bent_below_the_floor),
        cmocka_unit_test(undivided_stays_undivided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
