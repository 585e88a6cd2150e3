// The whole table, every state with every input, as a file that a reader can look at.
#include "conn/state.h"
#include "tests/golden.h"

static char text[1 << 16];

static void every_state_and_input_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = CONN_IDLE; s < CONN_STATE_COUNT; s++) {
        for (int i = 0; i < CONN_INPUT_COUNT; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%-18s %-17s %s\n",
                                   conn_state_name(s), conn_input_name(i),
                                   conn_state_name(conn_state_next(s, i)));
        }
    }
    golden_compare("conn/golden/states.txt", text);
}

static void nothing_leaves_a_state_that_is_over(void **state)
{
    for (int s = CONN_REJECTED; s < CONN_STATE_COUNT; s++) {
        for (int i = 0; i < CONN_INPUT_COUNT; i++) {
            assert_int_equal(conn_state_next(s, i), CONN_NO_STATE);
        }
    }
}

static void every_other_state_can_fail_with_tcp(void **state)
{
    for (int s = CONN_IDLE; s < CONN_REJECTED; s++) {
        enum conn_state next = conn_state_next(s, CONN_IN_LLP_FAILED);
        assert_int_equal(next, s == CONN_ESTABLISHED ? CONN_CLOSED : CONN_FAILED);
    }
}

static void every_state_is_reached_from_a_beginning(void **state)
{
    bool seen[CONN_STATE_COUNT] = {[CONN_IDLE] = true, [CONN_WAIT_REQUEST] = true};
    for (int round = 0; round < CONN_STATE_COUNT; round++) {
        for (int s = CONN_IDLE; s < CONN_STATE_COUNT; s++) {
            for (int i = 0; seen[s] && i < CONN_INPUT_COUNT; i++) {
                seen[conn_state_next(s, i)] = true;
            }
        }
    }
    for (int s = CONN_IDLE; s < CONN_STATE_COUNT; s++) {
        assert_true(seen[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_input_is_as_written_down),
        cmocka_unit_test(nothing_leaves_a_state_that_is_over),
        cmocka_unit_test(every_other_state_can_fail_with_tcp),
        cmocka_unit_test(every_state_is_reached_from_a_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
