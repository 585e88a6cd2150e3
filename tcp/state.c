#include "tcp/state.h"

#include "base/check.h"

#define CLOSED       TCP_STATE_CLOSED
#define LISTEN       TCP_STATE_LISTEN
#define SYN_SENT     TCP_STATE_SYN_SENT
#define SYN_RECEIVED TCP_STATE_SYN_RECEIVED
#define ESTABLISHED  TCP_STATE_ESTABLISHED
#define FIN_WAIT_1   TCP_STATE_FIN_WAIT_1
#define FIN_WAIT_2   TCP_STATE_FIN_WAIT_2
#define CLOSE_WAIT   TCP_STATE_CLOSE_WAIT
#define CLOSING      TCP_STATE_CLOSING
#define LAST_ACK     TCP_STATE_LAST_ACK
#define TIME_WAIT    TCP_STATE_TIME_WAIT

struct transition {
    enum tcp_state from;
    enum tcp_input input;
    enum tcp_state to;
};

// All there are, but for the inputs that end a connection from any state. They are few in a
// connection's life, so that a search is good enough.
static const struct transition transitions[] = {
    {CLOSED, TCP_ON_ACTIVE_OPEN, SYN_SENT},
    {CLOSED, TCP_ON_PASSIVE_OPEN, LISTEN},
    {LISTEN, TCP_ON_SYN, SYN_RECEIVED},
    {LISTEN, TCP_ON_CLOSE, CLOSED},
    {SYN_SENT, TCP_ON_SYN, SYN_RECEIVED},
    {SYN_SENT, TCP_ON_SYN_ACK, ESTABLISHED},
    {SYN_SENT, TCP_ON_CLOSE, CLOSED},
    {SYN_RECEIVED, TCP_ON_ACK_OF_SYN, ESTABLISHED},
    {ESTABLISHED, TCP_ON_CLOSE, FIN_WAIT_1},
    {ESTABLISHED, TCP_ON_FIN, CLOSE_WAIT},
    {FIN_WAIT_1, TCP_ON_ACK_OF_FIN, FIN_WAIT_2},
    {FIN_WAIT_1, TCP_ON_FIN, CLOSING},
    {FIN_WAIT_2, TCP_ON_FIN, TIME_WAIT},
    {CLOSE_WAIT, TCP_ON_CLOSE, LAST_ACK},
    {CLOSING, TCP_ON_ACK_OF_FIN, TIME_WAIT},
    {LAST_ACK, TCP_ON_ACK_OF_FIN, CLOSED},
    {TIME_WAIT, TCP_ON_2MSL, CLOSED},
};

static enum tcp_state ended(enum tcp_state state)
{
    return state == LISTEN ? LISTEN : CLOSED; // no segment and no time ends a listener
}

enum tcp_state tcp_state_next(enum tcp_state state, enum tcp_input input)
{
    CHECK(state < TCP_STATE_COUNT);
    CHECK(input < TCP_INPUT_COUNT);
    if (input == TCP_ON_RESET || input == TCP_ON_TIMEOUT) {
        return ended(state);
    }
    if (input == TCP_ON_ABORT) {
        return CLOSED;
    }
    for (unsigned i = 0; i < sizeof transitions / sizeof transitions[0]; i++) {
        if (transitions[i].from == state && transitions[i].input == input) {
            return transitions[i].to;
        }
    }
    return state;
}

const char *tcp_state_name(enum tcp_state state)
{
    static const char *const names[TCP_STATE_COUNT] = {
        [CLOSED] = "CLOSED",           [LISTEN] = "LISTEN",
        [SYN_SENT] = "SYN-SENT",       [SYN_RECEIVED] = "SYN-RECEIVED",
        [ESTABLISHED] = "ESTABLISHED", [FIN_WAIT_1] = "FIN-WAIT-1",
        [FIN_WAIT_2] = "FIN-WAIT-2",   [CLOSE_WAIT] = "CLOSE-WAIT",
        [CLOSING] = "CLOSING",         [LAST_ACK] = "LAST-ACK",
        [TIME_WAIT] = "TIME-WAIT",
    };
    return state < TCP_STATE_COUNT ? names[state] : "?";
}

const char *tcp_input_name(enum tcp_input input)
{
    static const char *const names[TCP_INPUT_COUNT] = {
        [TCP_ON_ACTIVE_OPEN] = "active open",
        [TCP_ON_PASSIVE_OPEN] = "passive open",
        [TCP_ON_SYN] = "SYN",
        [TCP_ON_SYN_ACK] = "SYN,ACK",
        [TCP_ON_ACK_OF_SYN] = "ACK of SYN",
        [TCP_ON_CLOSE] = "close",
        [TCP_ON_FIN] = "FIN",
        [TCP_ON_ACK_OF_FIN] = "ACK of FIN",
        [TCP_ON_RESET] = "reset",
        [TCP_ON_ABORT] = "abort",
        [TCP_ON_TIMEOUT] = "time-out",
        [TCP_ON_2MSL] = "2 MSL",
    };
    return input < TCP_INPUT_COUNT ? names[input] : "?";
}
