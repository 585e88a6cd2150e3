// The whole table, every state with every input, as a file that a reader can look at.
#include "tcp/state.h"
#include "tests/golden.h"

static char text[1 << 14];

static void every_state_and_input_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = 0; s < TCP_STATE_COUNT; s++) {
        for (int i = 0; i < TCP_INPUT_COUNT; i++) {
            at +=
                (size_t)snprintf(text + at, sizeof text - at, "%-13s %-13s %s\n", tcp_state_name(s),
                                 tcp_input_name(i), tcp_state_name(tcp_state_next(s, i)));
        }
    }
    golden_compare("tcp/golden/states.txt", text);
}

static void every_connection_ends_by_reset_abort_and_timeout(void **state)
{
    for (int s = 0; s < TCP_STATE_COUNT; s++) {
        enum tcp_state ended = s == TCP_STATE_LISTEN ? TCP_STATE_LISTEN : TCP_STATE_CLOSED;
        assert_int_equal(tcp_state_next(s, TCP_ON_RESET), ended);
        assert_int_equal(tcp_state_next(s, TCP_ON_TIMEOUT), ended);
        assert_int_equal(tcp_state_next(s, TCP_ON_ABORT), TCP_STATE_CLOSED);
    }
}

static void every_state_is_reached_from_closed(void **state)
{
    bool seen[TCP_STATE_COUNT] = {[TCP_STATE_CLOSED] = true};
    for (int round = 0; round < TCP_STATE_COUNT; round++) {
        for (int s = 0; s < TCP_STATE_COUNT; s++) {
            for (int i = 0; seen[s] && i < TCP_INPUT_COUNT; i++) {
                seen[tcp_state_next(s, i)] = true;
            }
        }
    }
    for (int s = 0; s < TCP_STATE_COUNT; s++) {
        assert_true(seen[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_input_is_as_written_down),
        cmocka_unit_test(every_connection_ends_by_reset_abort_and_timeout),
        cmocka_unit_test(every_state_is_reached_from_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
