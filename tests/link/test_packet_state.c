// The life of a stream with our own TCP: the whole table, as a file that a reader can look at.
#include "link/packet/state.h"
#include "tests/golden.h"

static char text[1 << 14];

static void every_state_and_event_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = 0; s < PACKET_STREAM_STATE_COUNT; s++) {
        for (int e = 0; e < PACKET_STREAM_EVENT_COUNT; e++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "%-10s %-11s %s\n",
                                   packet_stream_state_name(s), packet_stream_event_name(e),
                                   packet_stream_state_name(packet_stream_after(s, e)));
        }
    }
    golden_compare("link/golden/packet_states.txt", text);
}

static void what_is_known_to_its_user_can_be_closed(void **state)
{
    for (int s = 0; s < PACKET_STREAM_STATE_COUNT; s++) {
        bool is_known = s != PACKET_STREAM_LINGERING && s != PACKET_STREAM_RESTING;
        assert_int_equal(packet_stream_may(s, PACKET_STREAM_ON_CLOSE), is_known);
    }
}

static void what_has_a_connection_hears_of_its_end(void **state)
{
    for (int s = 0; s < PACKET_STREAM_STATE_COUNT; s++) {
        bool has_connection = s >= PACKET_STREAM_CONNECTING && s <= PACKET_STREAM_LINGERING;
        assert_int_equal(packet_stream_may(s, PACKET_STREAM_ON_OVER), has_connection);
    }
}

static void every_stream_comes_to_rest(void **state)
{
    bool ends[PACKET_STREAM_STATE_COUNT] = {[PACKET_STREAM_RESTING] = true};
    for (int round = 0; round < PACKET_STREAM_STATE_COUNT; round++) {
        for (int s = 0; s < PACKET_STREAM_STATE_COUNT; s++) {
            for (int e = 0; e < PACKET_STREAM_EVENT_COUNT; e++) {
                ends[s] |= packet_stream_may(s, e) && ends[packet_stream_after(s, e)];
            }
        }
    }
    for (int s = 0; s < PACKET_STREAM_STATE_COUNT; s++) {
        assert_true(ends[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_event_is_as_written_down),
        cmocka_unit_test(what_is_known_to_its_user_can_be_closed),
        cmocka_unit_test(what_has_a_connection_hears_of_its_end),
        cmocka_unit_test(every_stream_comes_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
