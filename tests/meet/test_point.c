// Numbers that name a port.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "meet/point.h"

enum { PORT = 40000 };

static bool taken[MEETING_POINT_NUMBERS];

static bool is_taken(const void *ctx, uint32_t qp_num)
{
    assert_int_equal(meeting_port_of(qp_num), PORT);
    return taken[qp_num % MEETING_POINT_NUMBERS];
}

static uint32_t take(struct meeting_point *point)
{
    uint32_t num = meeting_point_take(point, is_taken, NULL);
    if (num != 0) {
        taken[num % MEETING_POINT_NUMBERS] = true;
    }
    return num;
}

static int setup(void **state)
{
    memset(taken, 0, sizeof taken);
    return 0;
}

static void each_number_names_the_port_and_is_given_once(void **state)
{
    struct meeting_point point = {.port = PORT};
    for (unsigned i = 0; i < MEETING_POINT_NUMBERS; i++) {
        assert_int_equal(meeting_port_of(take(&point)), PORT);
    }
    assert_int_equal(take(&point), 0);
}

static void number_that_others_have_is_passed_over(void **state)
{
    struct meeting_point point = {.port = PORT};
    taken[0] = taken[1] = true;
    assert_int_equal(take(&point) % MEETING_POINT_NUMBERS, 2);
}

static void number_comes_back_late(void **state)
{
    struct meeting_point point = {.port = PORT};
    uint32_t first = take(&point);
    taken[first % MEETING_POINT_NUMBERS] = false;
    for (unsigned i = 1; i < MEETING_POINT_NUMBERS; i++) {
        assert_int_not_equal(take(&point), first);
    }
    assert_int_equal(take(&point), first);
}

static void last_to_go_is_told_so(void **state)
{
    struct meeting_point point = {.port = PORT};
    take(&point);
    take(&point);
    assert_false(meeting_point_release(&point));
    assert_true(meeting_point_release(&point));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_number_names_the_port_and_is_given_once, setup),
        cmocka_unit_test_setup(number_that_others_have_is_passed_over, setup),
        cmocka_unit_test_setup(number_comes_back_late, setup),
        cmocka_unit_test_setup(last_to_go_is_told_so, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
