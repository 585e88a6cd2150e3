// One task cut into requests: what the next one fetches follows from what is still missing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wq/read_task.h"

static struct read_task read_of(uint64_t len)
{
    return (struct read_task){.kind = READ_KIND_READ, .initial_len = len};
}

static void expect_next(const struct read_task *task, uint64_t offset, uint32_t length)
{
    struct read_part part = read_task_next(task, 100);
    assert_int_equal(part.offset, offset);
    assert_int_equal(part.length, length);
}

static void a_read_is_cut_to_the_allotment(void **state)
{
    struct read_task task = read_of(250);
    for (uint64_t offset = 0; offset < 250; offset += 100) {
        uint32_t length = offset < 200 ? 100 : 50;
        assert_true(read_task_has_rest(&task));
        expect_next(&task, offset, length);
        read_task_request(&task, length);
        read_task_answer(&task, length, length);
        assert_int_equal(read_task_remaining_len(&task), 250 - offset - length);
    }
    assert_false(read_task_has_rest(&task));
    assert_int_equal(task.request_count, 3);
}

static void the_next_request_starts_after_what_is_completed_and_outstanding(void **state)
{
    struct read_task task = read_of(1000);
    read_task_request(&task, 100);
    expect_next(&task, 100, 100);
    read_task_request(&task, 100);
    expect_next(&task, 200, 100);
    read_task_answer(&task, 100, 100);
    expect_next(&task, 200, 100);
    assert_int_equal(task.completed_len, 100);
    assert_int_equal(task.outstanding_len, 100);
}

static void a_short_answer_leaves_its_rest_outstanding(void **state)
{
    struct read_task task = read_of(300);
    read_task_request(&task, 100);
    read_task_answer(&task, 100, 30);
    assert_int_equal(read_task_remaining_len(&task), 270);
    assert_int_equal(task.outstanding_len, 70);
    assert_int_equal(task.outstanding_count, 1);
    expect_next(&task, 100, 100);
    read_task_answer(&task, 70, 70);
    assert_int_equal(task.outstanding_count, 0);
}

static void without_an_allotment_nothing_is_cut(void **state)
{
    struct read_task task = read_of(1ULL << 31);
    assert_int_equal(read_task_next(&task, 0).length, 1U << 31);
}

static void only_reads_are_cut(void **state)
{
    struct read_task task = {.kind = READ_KIND_ATOMIC, .initial_len = 8};
    assert_int_equal(read_task_next(&task, 1).length, 8);
}

static void no_octets_are_one_request(void **state)
{
    struct read_task task = read_of(0);
    assert_true(read_task_has_rest(&task));
    expect_next(&task, 0, 0);
    read_task_request(&task, 0);
    assert_false(read_task_has_rest(&task));
    read_task_answer(&task, 0, 0);
    assert_int_equal(task.outstanding_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_cut_to_the_allotment),
        cmocka_unit_test(the_next_request_starts_after_what_is_completed_and_outstanding),
        cmocka_unit_test(a_short_answer_leaves_its_rest_outstanding),
        cmocka_unit_test(without_an_allotment_nothing_is_cut),
        cmocka_unit_test(only_reads_are_cut),
        cmocka_unit_test(no_octets_are_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
