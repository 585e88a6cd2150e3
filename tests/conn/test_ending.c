// What the end of the peer's stream comes to.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conn/ending.h"

static void expect(struct conn_ending e, enum conn_end end)
{
    assert_int_equal(conn_end_of(&e), end);
}

static void fin_between_fpdus_is_an_orderly_end(void **state)
{
    expect((struct conn_ending){.is_cut = false}, CONN_END_ORDERLY);
}

static void fin_amid_an_fpdu_is_none(void **state)
{
    expect((struct conn_ending){.is_cut = true}, CONN_END_BROKEN);
    expect((struct conn_ending){.is_cut = true, .owes_output = true}, CONN_END_BROKEN);
}

static void error_is_the_end_whatever_is_under_way(void **state)
{
    expect((struct conn_ending){.is_error = true}, CONN_END_BROKEN);
    expect((struct conn_ending){.is_error = true, .waits_for_receives = true}, CONN_END_BROKEN);
    expect((struct conn_ending){.is_error = true, .owes_output = true}, CONN_END_BROKEN);
    expect((struct conn_ending){.is_error = true, .is_meeting = true, .asks_for_nothing = true},
           CONN_END_BROKEN);
}

static void fin_stands_behind_sends_that_wait(void **state)
{
    expect((struct conn_ending){.waits_for_receives = true}, CONN_END_NOT_SEEN);
    expect((struct conn_ending){.waits_for_receives = true, .is_cut = true}, CONN_END_NOT_SEEN);
}

static void what_is_owed_goes_out_first(void **state)
{
    expect((struct conn_ending){.owes_output = true}, CONN_END_AFTER_OUTPUT);
}

static void meeting_outlives_its_peer_while_it_asks_nothing(void **state)
{
    struct conn_ending idle = {.is_meeting = true, .asks_for_nothing = true};
    expect(idle, CONN_END_NOT_SEEN);
    idle.asks_for_nothing = false;
    expect(idle, CONN_END_ORDERLY);
    idle = (struct conn_ending){.is_meeting = true, .asks_for_nothing = true, .is_closing = true};
    expect(idle, CONN_END_ORDERLY);
    idle = (struct conn_ending){.is_meeting = true, .asks_for_nothing = true, .is_cut = true};
    expect(idle, CONN_END_BROKEN);
    expect((struct conn_ending){.asks_for_nothing = true}, CONN_END_ORDERLY); // rdma_cm tells of it
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fin_between_fpdus_is_an_orderly_end),
        cmocka_unit_test(fin_amid_an_fpdu_is_none),
        cmocka_unit_test(error_is_the_end_whatever_is_under_way),
        cmocka_unit_test(fin_stands_behind_sends_that_wait),
        cmocka_unit_test(what_is_owed_goes_out_first),
        cmocka_unit_test(meeting_outlives_its_peer_while_it_asks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
