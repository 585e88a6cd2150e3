#include "rnic/ep/state.h"

#include "base/check.h"

#define NO EP_NO_STATE

static const unsigned char next_states[EP_STATE_COUNT][EP_INPUT_COUNT] = {
    // clang-format off
    //                listen        start        open     shut down   close
    [EP_BOUND]     = {EP_LISTENING, EP_STARTING, NO,      NO,         EP_CLOSED},
    [EP_LISTENING] = {NO,           NO,          NO,      NO,         EP_CLOSED},
    [EP_STARTING]  = {NO,           NO,          EP_OPEN, NO,         EP_CLOSED},
    [EP_OPEN]      = {NO,           NO,          NO,      EP_CLOSING, EP_CLOSED},
    [EP_CLOSING]   = {NO,           NO,          NO,      NO,         EP_CLOSED},
    [EP_CLOSED]    = {NO,           NO,          NO,      NO,         NO},
    // clang-format on
};

enum ep_state ep_state_next(enum ep_state state, enum ep_input input)
{
    CHECK(state < EP_STATE_COUNT);
    CHECK(input < EP_INPUT_COUNT);
    return (enum ep_state)next_states[state][input];
}

const char *ep_state_name(enum ep_state state)
{
    static const char *const names[EP_STATE_COUNT + 1] = {
        [EP_BOUND] = "bound", [EP_LISTENING] = "listening", [EP_STARTING] = "starting",
        [EP_OPEN] = "open",   [EP_CLOSING] = "closing",     [EP_CLOSED] = "closed",
        [EP_NO_STATE] = "-",
    };
    return state <= EP_NO_STATE ? names[state] : "?";
}

const char *ep_input_name(enum ep_input input)
{
    static const char *const names[EP_INPUT_COUNT] = {
        [EP_IN_LISTEN] = "listen",      [EP_IN_START] = "start", [EP_IN_OPEN] = "open",
        [EP_IN_SHUTDOWN] = "shut down", [EP_IN_CLOSE] = "close",
    };
    return input < EP_INPUT_COUNT ? names[input] : "?";
}
