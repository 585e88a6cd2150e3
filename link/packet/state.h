// The life of a packet link's stream as a table.
//
//   active     BOUND -connect-> CONNECTING -established-> CONNECTED
//   passive    BOUND -listen-> LISTENING; a stream of its own: BOUND -incoming-> WAITING
//              -accept-> CONNECTED
//   the end    -over-> BROKEN: its user still has it; -close-> LINGERING: nobody has it, and TCP
//              goes on until the peer has answered; RESTING: there is nothing of it
#pragma once

#include <stdbool.h>

// From CONNECTING to LINGERING a stream has a connection.
#define PACKET_STREAM_STATES(X) \
    X(BOUND, "bound")           \
    X(LISTENING, "listening")   \
    X(CONNECTING, "connecting") \
    X(WAITING, "waiting")       \
    X(CONNECTED, "connected")   \
    X(LINGERING, "lingering")   \
    X(BROKEN, "broken")         \
    X(RESTING, "resting")

#define PACKET_STREAM_EVENTS(X)   \
    X(LISTEN, "listen")           \
    X(CONNECT, "connect")         \
    X(INCOMING, "incoming")       \
    X(ACCEPT, "accept")           \
    X(ESTABLISHED, "established") \
    X(OVER, "over")               \
    X(CLOSE, "close")

enum packet_stream_state {
#define X(name, text) PACKET_STREAM_##name,
    PACKET_STREAM_STATES(X)
#undef X
        PACKET_STREAM_STATE_COUNT,
};

enum packet_stream_event {
#define X(name, text) PACKET_STREAM_ON_##name,
    PACKET_STREAM_EVENTS(X)
#undef X
        PACKET_STREAM_EVENT_COUNT,
};

// PACKET_STREAM_STATE_COUNT: the state knows no such event.
enum packet_stream_state packet_stream_after(enum packet_stream_state state,
                                             enum packet_stream_event event);
static inline bool packet_stream_may(enum packet_stream_state state, enum packet_stream_event event)
{
    return packet_stream_after(state, event) != PACKET_STREAM_STATE_COUNT;
}

const char *packet_stream_state_name(enum packet_stream_state state);
const char *packet_stream_event_name(enum packet_stream_event event);
