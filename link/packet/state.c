#include "link/packet/state.h"

#include <stdint.h>

#define NOW(name) PACKET_STREAM_##name
#define ON(name)  [PACKET_STREAM_ON_##name]

// Zero is BOUND, to which nothing leads: it stands for no move.
static const uint8_t after[PACKET_STREAM_STATE_COUNT][PACKET_STREAM_EVENT_COUNT] = {
    [NOW(BOUND)] = {ON(LISTEN) = NOW(LISTENING), ON(CONNECT) = NOW(CONNECTING),
                    ON(INCOMING) = NOW(WAITING), ON(CLOSE) = NOW(RESTING)},
    [NOW(LISTENING)] = {ON(CLOSE) = NOW(RESTING)},
    [NOW(CONNECTING)] = {ON(ESTABLISHED) = NOW(CONNECTED), ON(OVER) = NOW(BROKEN),
                         ON(CLOSE) = NOW(LINGERING)},
    [NOW(WAITING)] = {ON(ACCEPT) = NOW(CONNECTED), ON(OVER) = NOW(BROKEN),
                      ON(CLOSE) = NOW(LINGERING)},
    [NOW(CONNECTED)] = {ON(OVER) = NOW(BROKEN), ON(CLOSE) = NOW(LINGERING)},
    [NOW(LINGERING)] = {ON(OVER) = NOW(RESTING)},
    // What broke while it waited is accepted as what it is.
    [NOW(BROKEN)] = {ON(ACCEPT) = NOW(BROKEN), ON(CLOSE) = NOW(RESTING)},
};

enum packet_stream_state packet_stream_after(enum packet_stream_state state,
                                             enum packet_stream_event event)
{
    enum packet_stream_state next = (enum packet_stream_state)after[state][event];
    return next != PACKET_STREAM_BOUND ? next : PACKET_STREAM_STATE_COUNT;
}

const char *packet_stream_state_name(enum packet_stream_state state)
{
    static const char *const names[] = {
#define X(name, text) text,
        PACKET_STREAM_STATES(X)
#undef X
    };
    return state < PACKET_STREAM_STATE_COUNT ? names[state] : "-";
}

const char *packet_stream_event_name(enum packet_stream_event event)
{
    static const char *const names[] = {
#define X(name, text) text,
        PACKET_STREAM_EVENTS(X)
#undef X
    };
    return event < PACKET_STREAM_EVENT_COUNT ? names[event] : "-";
}
