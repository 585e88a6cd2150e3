// The whole table, every state with every input, as a file that a reader can look at.
#include "meet/state.h"
#include "tests/golden.h"

static char text[1 << 14];

static void every_state_and_input_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = MEETING_DUE; s < MEETING_STATE_COUNT; s++) {
        for (int i = 0; i < MEETING_INPUT_COUNT; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%-11s %-12s %s\n",
                                   meeting_state_name(s), meeting_input_name(i),
                                   meeting_state_name(meeting_state_next(s, i)));
        }
    }
    golden_compare("meet/golden/states.txt", text);
}

static void nothing_leaves_a_state_that_is_over(void **state)
{
    for (int i = 0; i < MEETING_INPUT_COUNT; i++) {
        assert_int_equal(meeting_state_next(MEETING_MET, i), MEETING_NO_STATE);
        assert_int_equal(meeting_state_next(MEETING_OVER, i), MEETING_NO_STATE);
    }
}

static void every_state_before_can_be_given_up(void **state)
{
    for (int s = MEETING_DUE; s < MEETING_MET; s++) {
        assert_int_equal(meeting_state_next(s, MEETING_IN_GIVE_UP), MEETING_OVER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_input_is_as_written_down),
        cmocka_unit_test(nothing_leaves_a_state_that_is_over),
        cmocka_unit_test(every_state_before_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
