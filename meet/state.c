#include "meet/state.h"

#include "base/check.h"

// Whatever ends a meeting for good.
#define ENDS [MEETING_IN_BROKEN] = MEETING_OVER, [MEETING_IN_GIVE_UP] = MEETING_OVER

static const unsigned char next_states[MEETING_STATE_COUNT][MEETING_INPUT_COUNT] = {
    [MEETING_DUE] =
        {
            [MEETING_IN_CONNECT] = MEETING_CONNECTING,
            [MEETING_IN_LISTEN] = MEETING_LISTENING,
            ENDS,
        },
    [MEETING_CONNECTING] =
        {
            [MEETING_IN_NOT_NOW] = MEETING_DUE,
            [MEETING_IN_ESTABLISHED] = MEETING_MET,
            [MEETING_IN_FAILED] = MEETING_DUE,
            ENDS,
        },
    [MEETING_LISTENING] =
        {
            [MEETING_IN_NOT_NOW] = MEETING_DUE,
            [MEETING_IN_ACCEPT] = MEETING_ANSWERING,
            ENDS,
        },
    [MEETING_ANSWERING] =
        {
            [MEETING_IN_ESTABLISHED] = MEETING_MET,
            [MEETING_IN_FAILED] = MEETING_LISTENING,
            ENDS,
        },
    // MEETING_MET, MEETING_OVER: nothing moves any more.
};

enum meeting_state meeting_state_next(enum meeting_state state, enum meeting_input input)
{
    CHECK(state < MEETING_STATE_COUNT);
    CHECK(input < MEETING_INPUT_COUNT);
    return next_states[state][input];
}

const char *meeting_state_name(enum meeting_state state)
{
    static const char *const names[MEETING_STATE_COUNT] = {
        [MEETING_NO_STATE] = "-",
        [MEETING_DUE] = "due",
        [MEETING_CONNECTING] = "connecting",
        [MEETING_LISTENING] = "listening",
        [MEETING_ANSWERING] = "answering",
        [MEETING_MET] = "met",
        [MEETING_OVER] = "over",
    };
    return state < MEETING_STATE_COUNT ? names[state] : "?";
}

const char *meeting_input_name(enum meeting_input input)
{
    static const char *const names[MEETING_INPUT_COUNT] = {
        [MEETING_IN_CONNECT] = "connect",         [MEETING_IN_LISTEN] = "listen",
        [MEETING_IN_NOT_NOW] = "not now",         [MEETING_IN_ACCEPT] = "accept",
        [MEETING_IN_ESTABLISHED] = "established", [MEETING_IN_FAILED] = "failed",
        [MEETING_IN_BROKEN] = "broken",           [MEETING_IN_GIVE_UP] = "give up",
    };
    return input < MEETING_INPUT_COUNT ? names[input] : "?";
}
