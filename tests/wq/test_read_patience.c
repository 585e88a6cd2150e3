// What starts the wait for an answer anew, and what does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wq/read_patience.h"

static void so_many_octets_of_progress_start_it_anew(void **state)
{
    struct read_patience p;
    read_patience_restart(&p, 1);
    read_patience_on_progress(&p, READ_PROGRESS_LEN - 1, 2);
    assert_int_equal(p.since_ns, 1);
    read_patience_on_progress(&p, 1, 3);
    assert_int_equal(p.since_ns, 3);
    read_patience_on_progress(&p, READ_PROGRESS_LEN - 1, 4); // they are counted anew
    assert_int_equal(p.since_ns, 3);
}

// However long it is: it is sent to its end before an answer can come.
static void a_message_that_goes_on_starts_it_anew_each_time(void **state)
{
    struct read_patience p;
    read_patience_restart(&p, 1);
    for (unsigned i = 2; i < 100; i++) {
        read_patience_on_other(&p, READ_PROGRESS_LEN, false, i);
        assert_int_equal(p.since_ns, i);
    }
}

static void two_messages_may_overtake_an_answer_and_no_more(void **state)
{
    struct read_patience p;
    read_patience_restart(&p, 1);
    read_patience_on_other(&p, READ_PROGRESS_LEN, true, 2);
    read_patience_on_other(&p, READ_PROGRESS_LEN, true, 3);
    assert_int_equal(p.since_ns, 3);
    read_patience_on_other(&p, READ_PROGRESS_LEN, true, 4);
    assert_int_equal(p.since_ns, 3);
    read_patience_restart(&p, 5); // the oldest request came on
    read_patience_on_other(&p, READ_PROGRESS_LEN, true, 6);
    assert_int_equal(p.since_ns, 6);
}

// A peer that sends many of them would hold it up for ever.
static void short_messages_are_not_added_up(void **state)
{
    struct read_patience p;
    read_patience_restart(&p, 1);
    for (unsigned i = 2; i < 100; i++) {
        read_patience_on_other(&p, READ_PROGRESS_LEN - 1, true, i);
    }
    assert_int_equal(p.since_ns, 1);
    read_patience_on_other(&p, READ_PROGRESS_LEN, true, 100); // nor do they count as two
    assert_int_equal(p.since_ns, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_octets_of_progress_start_it_anew),
        cmocka_unit_test(a_message_that_goes_on_starts_it_anew_each_time),
        cmocka_unit_test(two_messages_may_overtake_an_answer_and_no_more),
        cmocka_unit_test(short_messages_are_not_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
