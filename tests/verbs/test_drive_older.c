// A program of this header on a library of before weft_drive_rise(): the process has the calls of
// that, which are the test's own.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <weft/drive.h>

#include "base/export.h"

static unsigned pass_count;

WEFT_EXPORT int weft_drive_begin(struct ibv_comp_channel *channel)
{
    return -1;
}

WEFT_EXPORT void weft_drive_end(struct ibv_comp_channel *channel)
{
}

WEFT_EXPORT void weft_drive_pass(struct ibv_comp_channel *channel)
{
    pass_count++;
}

WEFT_EXPORT int weft_drive_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq,
                                 void **ret_context)
{
    return -1;
}

WEFT_EXPORT int weft_drive_may_wait(struct ibv_comp_channel *channel)
{
    return 1;
}

static void a_library_without_rise_drives_all_the_same(void **state)
{
    struct weft_drive_calls calls;
    struct ibv_comp_channel channel = {0};
    assert_true(weft_drive_find(&calls));
    assert_ptr_equal(calls.begin, weft_drive_begin);
    assert_ptr_equal(calls.may_wait, weft_drive_may_wait);
    calls.rise(&channel);
    calls.pass(&channel);
    assert_int_equal(pass_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_without_rise_drives_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
