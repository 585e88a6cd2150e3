// The table of an endpoint's states, every state with every input, as a file that a reader can look
// at.
#include "rnic/ep/state.h"
#include "tests/golden.h"

static char text[1 << 12];

static void every_state_and_input_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = 0; s < EP_STATE_COUNT; s++) {
        for (int i = 0; i < EP_INPUT_COUNT; i++) {
            at +=
                (size_t)snprintf(text + at, sizeof text - at, "%-10s %-10s %s\n", ep_state_name(s),
                                 ep_input_name(i), ep_state_name(ep_state_next(s, i)));
        }
    }
    golden_compare("rnic/golden/states.txt", text);
}

static void whatever_it_does_it_is_closed_once(void **state)
{
    for (int s = 0; s < EP_STATE_COUNT; s++) {
        assert_int_equal(ep_state_next(s, EP_IN_CLOSE), s == EP_CLOSED ? EP_NO_STATE : EP_CLOSED);
    }
    for (int i = 0; i < EP_INPUT_COUNT; i++) {
        assert_int_equal(ep_state_next(EP_CLOSED, i), EP_NO_STATE);
    }
}

static void every_state_is_reached_from_the_first(void **state)
{
    bool seen[EP_STATE_COUNT + 1] = {[EP_BOUND] = true};
    for (int round = 0; round < EP_STATE_COUNT; round++) {
        for (int s = 0; s < EP_STATE_COUNT; s++) {
            for (int i = 0; seen[s] && i < EP_INPUT_COUNT; i++) {
                seen[ep_state_next(s, i)] = true;
            }
        }
    }
    for (int s = 0; s < EP_STATE_COUNT; s++) {
        assert_true(seen[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_input_is_as_written_down),
        cmocka_unit_test(whatever_it_does_it_is_closed_once),
        cmocka_unit_test(every_state_is_reached_from_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
