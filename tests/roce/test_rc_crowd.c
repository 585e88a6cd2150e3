// Sixty-four reliable connections between two processes. Each process has one receive buffer of
// 212,992 octets for all of them, and looks at it now and then: together their windows are to fit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/roce/line.h"

enum { BUFFER_LEN = 212992 / 3 };

static const struct line_config crowd = {
    .flows = 64,
    .is_one_process = true,
    .rtt_ns = 20 * NS_PER_US,
    .receive_buffer_len = BUFFER_LEN,
    .room_len = BUFFER_LEN,
    .nap_ns = 100 * NS_PER_US,
};

static struct outcome play(const struct line_config *config, bool is_reading)
{
    open_line(config);
    struct outcome o =
        measure(is_reading ? line.far : line.near, is_reading ? WQE_RDMA_READ : WQE_RDMA_WRITE);
    close_line();
    return o;
}

static void assert_fits_but_for_windows_that_know_of_no_other(bool is_reading)
{
    struct line_config apart = crowd;
    apart.room_len = 0;
    struct outcome together = play(&crowd, is_reading), alone = play(&apart, is_reading);
    assert_int_equal(together.overflows, 0);
    assert_int_equal(together.failed, 0);
    assert_true(together.goodput > 0.2);
    assert_true(together.jain > 0.9);
    assert_true(alone.overflows > 1000);
}

static void windows_fit_the_receive_buffer_together(void **state)
{
    assert_fits_but_for_windows_that_know_of_no_other(false);
}

static void answers_that_are_asked_for_fit_it_together(void **state)
{
    assert_fits_but_for_windows_that_know_of_no_other(true);
}

// Not even a packet of each fits: they wait in line, and all have their turn.
static void who_finds_no_room_has_a_turn_later(void **state)
{
    struct line_config narrow = crowd;
    narrow.room_len = narrow.receive_buffer_len = BUFFER_LEN / 4;
    for (unsigned is_reading = 0; is_reading < 2; is_reading++) {
        struct outcome o = play(&narrow, is_reading != 0);
        assert_int_equal(o.overflows, 0);
        assert_true(o.jain > 0.9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_fit_the_receive_buffer_together),
        cmocka_unit_test(answers_that_are_asked_for_fit_it_together),
        cmocka_unit_test(who_finds_no_room_has_a_turn_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
