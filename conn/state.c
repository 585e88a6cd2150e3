#include "conn/state.h"

#include <stddef.h>

#include "base/check.h"

// Whatever ends a start-up that is under way.
#define ENDS [CONN_IN_LLP_FAILED] = CONN_FAILED, [CONN_IN_DEADLINE] = CONN_FAILED

static const unsigned char next_states[CONN_STATE_COUNT][CONN_INPUT_COUNT] = {
    [CONN_IDLE] =
        {
            [CONN_IN_CONNECT] = CONN_CONNECTING,
            [CONN_IN_CONNECT_ITSELF] = CONN_ESTABLISHED,
            [CONN_IN_LLP_FAILED] = CONN_FAILED,
        },
    [CONN_CONNECTING] =
        {
            [CONN_IN_LLP_CONNECTED] = CONN_WAIT_REPLY,
            [CONN_IN_LLP_FAILED] = CONN_FAILED,
        },
    [CONN_WAIT_REPLY] =
        {
            [CONN_IN_WRITTEN] = CONN_WAIT_REPLY,
            [CONN_IN_REPLY] = CONN_ESTABLISHED,
            [CONN_IN_REPLY_HOLD] = CONN_REPLY_HELD,
            [CONN_IN_REPLY_DELIVER] = CONN_REPLY_DELIVERED,
            [CONN_IN_REPLY_REJECTED] = CONN_REJECTED,
            [CONN_IN_FRAME_REFUSED] = CONN_FAILED,
            ENDS,
        },
    [CONN_REPLY_DELIVERED] =
        {
            [CONN_IN_ESTABLISH] = CONN_ESTABLISHED,
            [CONN_IN_ESTABLISH_HELD] = CONN_REPLY_HELD,
            [CONN_IN_LLP_FAILED] = CONN_FAILED,
        },
    [CONN_REPLY_HELD] =
        {
            [CONN_IN_DEADLINE] = CONN_ESTABLISHED,
            [CONN_IN_LLP_FAILED] = CONN_FAILED,
        },
    [CONN_WAIT_REQUEST] =
        {
            [CONN_IN_REQUEST] = CONN_REQUEST_DELIVERED,
            [CONN_IN_FRAME_REFUSED] = CONN_FAILED,
            ENDS,
        },
    [CONN_REQUEST_DELIVERED] =
        {
            [CONN_IN_ACCEPT] = CONN_ACCEPTING,
            [CONN_IN_REJECT] = CONN_REJECTING,
            [CONN_IN_FIRST_FPDU] = CONN_FAILED,
            [CONN_IN_LLP_FAILED] = CONN_FAILED,
        },
    [CONN_ACCEPTING] =
        {
            [CONN_IN_WRITTEN] = CONN_ESTABLISHED,
            [CONN_IN_WRITTEN_AWAIT] = CONN_WAIT_RTR,
            [CONN_IN_FIRST_FPDU] = CONN_FAILED,
            ENDS,
        },
    [CONN_WAIT_RTR] =
        {
            [CONN_IN_FIRST_FPDU] = CONN_ESTABLISHED,
            ENDS,
        },
    [CONN_REJECTING] =
        {
            [CONN_IN_WRITTEN] = CONN_CLOSED,
            ENDS,
        },
    [CONN_ESTABLISHED] =
        {
            [CONN_IN_FIRST_FPDU] = CONN_ESTABLISHED,
            [CONN_IN_LLP_FAILED] = CONN_CLOSED,
        },
    // CONN_REJECTED, CONN_FAILED, CONN_CLOSED: over, nothing moves any more.
};

enum conn_state conn_state_next(enum conn_state state, enum conn_input input)
{
    CHECK(state < CONN_STATE_COUNT);
    CHECK(input < CONN_INPUT_COUNT);
    return next_states[state][input];
}

const char *conn_state_name(enum conn_state state)
{
    static const char *const names[CONN_STATE_COUNT] = {
        [CONN_NO_STATE] = "-",
        [CONN_IDLE] = "idle",
        [CONN_CONNECTING] = "connecting",
        [CONN_WAIT_REPLY] = "wait-reply",
        [CONN_REPLY_DELIVERED] = "reply-delivered",
        [CONN_REPLY_HELD] = "reply-held",
        [CONN_WAIT_REQUEST] = "wait-request",
        [CONN_REQUEST_DELIVERED] = "request-delivered",
        [CONN_ACCEPTING] = "accepting",
        [CONN_WAIT_RTR] = "wait-rtr",
        [CONN_REJECTING] = "rejecting",
        [CONN_ESTABLISHED] = "established",
        [CONN_REJECTED] = "rejected",
        [CONN_FAILED] = "failed",
        [CONN_CLOSED] = "closed",
    };
    return state < CONN_STATE_COUNT ? names[state] : "?";
}

const char *conn_input_name(enum conn_input input)
{
    static const char *const names[CONN_INPUT_COUNT] = {
        [CONN_IN_CONNECT] = "connect",
        [CONN_IN_CONNECT_ITSELF] = "connect to itself",
        [CONN_IN_ACCEPT] = "accept",
        [CONN_IN_REJECT] = "reject",
        [CONN_IN_ESTABLISH] = "establish",
        [CONN_IN_ESTABLISH_HELD] = "establish, held",
        [CONN_IN_LLP_CONNECTED] = "llp connected",
        [CONN_IN_LLP_FAILED] = "llp failed",
        [CONN_IN_REQUEST] = "request",
        [CONN_IN_REPLY] = "reply",
        [CONN_IN_REPLY_DELIVER] = "reply, wanted",
        [CONN_IN_REPLY_HOLD] = "reply, held",
        [CONN_IN_REPLY_REJECTED] = "reply, rejected",
        [CONN_IN_FRAME_REFUSED] = "frame refused",
        [CONN_IN_WRITTEN] = "written",
        [CONN_IN_WRITTEN_AWAIT] = "written, rtr due",
        [CONN_IN_FIRST_FPDU] = "first fpdu",
        [CONN_IN_DEADLINE] = "deadline",
    };
    return input < CONN_INPUT_COUNT ? names[input] : "?";
}
