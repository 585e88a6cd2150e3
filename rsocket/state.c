// The life of a socket as a table.
//
//   active   NEW -connect-> CONNECTING -established-> CONNECTED
//   passive  NEW -bind-> BOUND -listen-> LISTENING
//   its own  NEW -answer-> ACCEPTING -established-> CONNECTED
//   the end  CONNECTED -goodbye-> DISCONNECTED, CONNECTED -break-> BROKEN
//
// A socket that could not connect may try again, or be bound, or listen.

#include "rsocket/rsocket.h"

// Zero is RS_NEW, to which nothing leads: it stands for no move.
static const uint8_t after[RS_EVENT_COUNT][RS_STATE_COUNT] = {
    [RS_ON_BIND] = {[RS_NEW] = RS_BOUND, [RS_FAILED] = RS_BOUND},
    [RS_ON_LISTEN] =
        {[RS_NEW] = RS_LISTENING, [RS_BOUND] = RS_LISTENING, [RS_FAILED] = RS_LISTENING},
    [RS_ON_CONNECT] =
        {[RS_NEW] = RS_CONNECTING, [RS_BOUND] = RS_CONNECTING, [RS_FAILED] = RS_CONNECTING},
    [RS_ON_ANSWER] = {[RS_NEW] = RS_ACCEPTING},
    [RS_ON_ESTABLISHED] = {[RS_CONNECTING] = RS_CONNECTED, [RS_ACCEPTING] = RS_CONNECTED},
    [RS_ON_FAILURE] = {[RS_NEW] = RS_FAILED,
                       [RS_BOUND] = RS_FAILED,
                       [RS_CONNECTING] = RS_FAILED,
                       [RS_ACCEPTING] = RS_FAILED},
    [RS_ON_GOODBYE] = {[RS_CONNECTED] = RS_DISCONNECTED},
    [RS_ON_BREAK] = {[RS_CONNECTED] = RS_BROKEN},
};

enum rs_state rs_state_after(enum rs_state state, enum rs_event event)
{
    enum rs_state next = (enum rs_state)after[event][state];
    return next != RS_NEW ? next : RS_STATE_COUNT;
}

bool rs_move(struct rs *rs, enum rs_event event)
{
    enum rs_state next = rs_state_after(rs->state, event);
    if (next == RS_STATE_COUNT) {
        return false;
    }
    rs->state = next;
    return true;
}
