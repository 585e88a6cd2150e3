// The table of a socket's life, every state with every event, as a file that a reader can look at.

#include "rsocket/rsocket.h"
#include "tests/golden.h"

static const char *const state_names[RS_STATE_COUNT + 1] = {
    [RS_NEW] = "new",
    [RS_BOUND] = "bound",
    [RS_LISTENING] = "listening",
    [RS_CONNECTING] = "connecting",
    [RS_ACCEPTING] = "accepting",
    [RS_CONNECTED] = "connected",
    [RS_FAILED] = "failed",
    [RS_DISCONNECTED] = "disconnected",
    [RS_BROKEN] = "broken",
    [RS_STATE_COUNT] = "-",
};

static const char *const event_names[RS_EVENT_COUNT] = {
    [RS_ON_BIND] = "bind",
    [RS_ON_LISTEN] = "listen",
    [RS_ON_CONNECT] = "connect",
    [RS_ON_ANSWER] = "answer",
    [RS_ON_ESTABLISHED] = "established",
    [RS_ON_FAILURE] = "failure",
    [RS_ON_GOODBYE] = "goodbye",
    [RS_ON_BREAK] = "break",
};

static char text[1 << 14];

static void every_state_and_event_is_as_written_down(void **state)
{
    size_t at = 0;
    for (int s = 0; s < RS_STATE_COUNT; s++) {
        for (int e = 0; e < RS_EVENT_COUNT; e++) {
            enum rs_state next = rs_state_after((enum rs_state)s, (enum rs_event)e);
            at += (size_t)snprintf(text + at, sizeof text - at, "%-12s %-11s %s\n", state_names[s],
                                   event_names[e], state_names[next]);
        }
    }
    golden_compare("rsocket/golden/states.txt", text);
}

static void an_event_that_means_nothing_here_moves_nothing(void **state)
{
    struct rs rs = {.state = RS_BROKEN};
    assert_false(rs_move(&rs, RS_ON_GOODBYE));
    assert_int_equal(rs.state, RS_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_event_is_as_written_down),
        cmocka_unit_test(an_event_that_means_nothing_here_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
