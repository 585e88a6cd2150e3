#include "ibcm/state.h"

#include <stddef.h>

#include "base/check.h"

#define TO(state, what, event)                             \
    {                                                      \
        IBCM_##state, IBCM_SEND_##what, IBCM_EVENT_##event \
    }

// What REQ_SENT, MRA_REQ_RCVD and REQ_UNSERVED have in common.
#define AWAITS_REP                                                                                 \
    [IBCM_IN_REP] = TO(REP_RCVD, NOTHING, CONNECT_RESPONSE),                                       \
    [IBCM_IN_REJ] = TO(OVER, NOTHING, REJECTED), [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, REJECTED),    \
    [IBCM_IN_DEADLINE] = TO(REQ_SENT, AGAIN, NONE), [IBCM_IN_DISCONNECT] = TO(REFUSED, REJ, NONE), \
    [IBCM_IN_DROP] = TO(REFUSED, REJ, NONE)

// … REP_RCVD and MRA_REP_SENT …
#define AWAITS_OWNER                                                                            \
    [IBCM_IN_ESTABLISH] = TO(ESTABLISHED, RTU, ESTABLISHED),                                    \
    [IBCM_IN_REJECT] = TO(REFUSED, REJ, NONE), [IBCM_IN_REJ] = TO(TIMEWAIT, NOTHING, REJECTED), \
    [IBCM_IN_STALE] = TO(TIMEWAIT, NOTHING, REJECTED),                                          \
    [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, DISCONNECTED),                                          \
    [IBCM_IN_DISCONNECT] = TO(REFUSED, REJ, NONE), [IBCM_IN_DROP] = TO(REFUSED, REJ, NONE)

// … REQ_RCVD and MRA_REQ_SENT …
#define AWAITS_ANSWER                                                                           \
    [IBCM_IN_ACCEPT] = TO(REP_SENT, REP, NONE), [IBCM_IN_REJECT] = TO(REFUSED, REJ, NONE),      \
    [IBCM_IN_REJ] = TO(OVER, NOTHING, REJECTED), [IBCM_IN_STALE] = TO(OVER, NOTHING, REJECTED), \
    [IBCM_IN_EVICTED] = TO(OVER, REJ, REJECTED), [IBCM_IN_DISCONNECT] = TO(REFUSED, REJ, NONE), \
    [IBCM_IN_DROP] = TO(REFUSED, REJ, NONE)

// … REP_SENT and MRA_REP_RCVD.
#define AWAITS_RTU                                                   \
    [IBCM_IN_RTU] = TO(ESTABLISHED, NOTHING, ESTABLISHED),           \
    [IBCM_IN_COMMUNICATION] = TO(ESTABLISHED, NOTHING, ESTABLISHED), \
    [IBCM_IN_REJ] = TO(TIMEWAIT, NOTHING, REJECTED),                 \
    [IBCM_IN_STALE] = TO(TIMEWAIT, NOTHING, DISCONNECTED),           \
    [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, DISCONNECTED),               \
    [IBCM_IN_DEADLINE] = TO(REP_SENT, AGAIN, NONE),                  \
    [IBCM_IN_EXHAUSTED] = TO(REFUSED, REJ, UNREACHABLE),             \
    [IBCM_IN_DISCONNECT] = TO(DREQ_SENT, DREQ, NONE), [IBCM_IN_DROP] = TO(DREQ_SENT, DREQ, NONE)

// What SIDR_REQ_SENT and SIDR_REQ_UNSERVED have in common.
#define AWAITS_SIDR_REP                                        \
    [IBCM_IN_SIDR_REP] = TO(OVER, NOTHING, ESTABLISHED),       \
    [IBCM_IN_SIDR_REFUSED] = TO(OVER, NOTHING, REJECTED),      \
    [IBCM_IN_UNSERVED] = TO(SIDR_REQ_UNSERVED, NOTHING, NONE), \
    [IBCM_IN_DEADLINE] = TO(SIDR_REQ_SENT, AGAIN, NONE),       \
    [IBCM_IN_DISCONNECT] = TO(OVER, NOTHING, NONE), [IBCM_IN_DROP] = TO(OVER, NOTHING, NONE)

static const struct ibcm_edge edges[IBCM_STATE_COUNT][IBCM_INPUT_COUNT] = {
    [IBCM_IDLE] =
        {
            [IBCM_IN_CONNECT] = TO(REQ_SENT, REQ, NONE),
            [IBCM_IN_RESOLVE] = TO(SIDR_REQ_SENT, SIDR_REQ, NONE),
            [IBCM_IN_REQ] = TO(REQ_RCVD, NOTHING, CONNECT_REQUEST),
            [IBCM_IN_SIDR_REQ] = TO(SIDR_REQ_RCVD, NOTHING, CONNECT_REQUEST),
        },
    [IBCM_REQ_SENT] =
        {
            AWAITS_REP,
            [IBCM_IN_MRA] = TO(MRA_REQ_RCVD, NOTHING, NONE),
            [IBCM_IN_UNSERVED] = TO(REQ_UNSERVED, NOTHING, NONE),
            [IBCM_IN_EXHAUSTED] = TO(REFUSED, REJ, UNREACHABLE),
        },
    [IBCM_MRA_REQ_RCVD] =
        {
            AWAITS_REP, // another MRA asks in vain
            [IBCM_IN_EXHAUSTED] = TO(REFUSED, REJ, UNREACHABLE),
        },
    [IBCM_REQ_UNSERVED] =
        {
            AWAITS_REP, [IBCM_IN_UNSERVED] = TO(REQ_UNSERVED, NOTHING, NONE), // the REJ came twice
        },
    [IBCM_REP_RCVD] =
        {
            AWAITS_OWNER,
            [IBCM_IN_REP] = TO(MRA_REP_SENT, MRA, NONE),
            [IBCM_IN_DELAY] = TO(MRA_REP_SENT, MRA, NONE),
        },
    [IBCM_MRA_REP_SENT] =
        {
            AWAITS_OWNER,
            [IBCM_IN_REP] = TO(MRA_REP_SENT, AGAIN, NONE),
        },
    [IBCM_REQ_RCVD] =
        {
            AWAITS_ANSWER,
            [IBCM_IN_REQ_AGAIN] = TO(MRA_REQ_SENT, MRA, NONE),
            [IBCM_IN_DELAY] = TO(MRA_REQ_SENT, MRA, NONE),
        },
    [IBCM_MRA_REQ_SENT] =
        {
            AWAITS_ANSWER,
            [IBCM_IN_REQ_AGAIN] = TO(MRA_REQ_SENT, AGAIN, NONE),
        },
    [IBCM_REP_SENT] =
        {
            AWAITS_RTU,
            [IBCM_IN_REQ_AGAIN] = TO(REP_SENT, AGAIN, NONE),
            [IBCM_IN_MRA] = TO(MRA_REP_RCVD, NOTHING, NONE),
        },
    [IBCM_MRA_REP_RCVD] =
        {
            AWAITS_RTU, // another MRA asks in vain
        },
    [IBCM_ESTABLISHED] =
        {
            [IBCM_IN_COMMUNICATION] = TO(ESTABLISHED, NOTHING, NONE),
            [IBCM_IN_REP] = TO(ESTABLISHED, AGAIN, NONE), // the RTU was lost
            [IBCM_IN_RTU] = TO(ESTABLISHED, NOTHING, NONE),
            [IBCM_IN_REJ] = TO(TIMEWAIT, NOTHING, REJECTED),
            [IBCM_IN_STALE] = TO(TIMEWAIT, NOTHING, DISCONNECTED),
            [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, DISCONNECTED),
            [IBCM_IN_DISCONNECT] = TO(DREQ_SENT, DREQ, NONE),
            [IBCM_IN_DROP] = TO(DREQ_SENT, DREQ, NONE),
        },
    [IBCM_DREQ_SENT] =
        {
            [IBCM_IN_COMMUNICATION] = TO(DREQ_SENT, NOTHING, NONE),
            [IBCM_IN_RTU] = TO(DREQ_SENT, NOTHING, NONE),
            [IBCM_IN_REJ] = TO(TIMEWAIT, NOTHING, REJECTED),
            [IBCM_IN_STALE] = TO(TIMEWAIT, NOTHING, DISCONNECTED),
            [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, DISCONNECTED),
            [IBCM_IN_DREP] = TO(TIMEWAIT, NOTHING, DISCONNECTED),
            [IBCM_IN_DEADLINE] = TO(DREQ_SENT, AGAIN, NONE),
            [IBCM_IN_EXHAUSTED] = TO(TIMEWAIT, NOTHING, DISCONNECTED),
            [IBCM_IN_DISCONNECT] = TO(DREQ_SENT, NOTHING, NONE),
            [IBCM_IN_DROP] = TO(DREQ_SENT, NOTHING, NONE),
        },
    [IBCM_TIMEWAIT] =
        {
            [IBCM_IN_COMMUNICATION] = TO(TIMEWAIT, NOTHING, NONE),
            [IBCM_IN_REQ_AGAIN] = TO(TIMEWAIT, REJ, NONE),
            [IBCM_IN_DREQ] = TO(TIMEWAIT, DREP, NONE), // the DREP was lost
            [IBCM_IN_DREP] = TO(TIMEWAIT, NOTHING, NONE),
            [IBCM_IN_DEADLINE] = TO(OVER, NOTHING, TIMEWAIT_EXIT),
            [IBCM_IN_DISCONNECT] = TO(TIMEWAIT, NOTHING, NONE),
            [IBCM_IN_DROP] = TO(TIMEWAIT, NOTHING, NONE),
        },
    [IBCM_REFUSED] =
        {
            [IBCM_IN_REQ_AGAIN] = TO(REFUSED, AGAIN, NONE),
            [IBCM_IN_MRA] = TO(REFUSED, AGAIN, NONE),
            [IBCM_IN_REP] = TO(REFUSED, AGAIN, NONE),
            [IBCM_IN_RTU] = TO(REFUSED, AGAIN, NONE),
            [IBCM_IN_DREQ] = TO(REFUSED, DREP, NONE),
            [IBCM_IN_DEADLINE] = TO(OVER, NOTHING, NONE),
            [IBCM_IN_EVICTED] = TO(OVER, NOTHING, NONE),
            [IBCM_IN_DISCONNECT] = TO(REFUSED, NOTHING, NONE),
            [IBCM_IN_DROP] = TO(REFUSED, NOTHING, NONE),
        },
    [IBCM_SIDR_REQ_SENT] =
        {
            AWAITS_SIDR_REP,
            [IBCM_IN_EXHAUSTED] = TO(OVER, NOTHING, UNREACHABLE),
        },
    [IBCM_SIDR_REQ_UNSERVED] =
        {
            AWAITS_SIDR_REP,
        },
    [IBCM_SIDR_REQ_RCVD] =
        {
            [IBCM_IN_ACCEPT] = TO(SIDR_ANSWERED, SIDR_REP, NONE),
            [IBCM_IN_REJECT] = TO(SIDR_ANSWERED, SIDR_REP, NONE),
            [IBCM_IN_SIDR_REQ_AGAIN] = TO(SIDR_REQ_RCVD, NOTHING, NONE),
            [IBCM_IN_EVICTED] = TO(OVER, SIDR_REP, REJECTED),
            [IBCM_IN_DISCONNECT] = TO(SIDR_ANSWERED, SIDR_REP, NONE),
            [IBCM_IN_DROP] = TO(SIDR_ANSWERED, SIDR_REP, NONE),
        },
    [IBCM_SIDR_ANSWERED] =
        {
            [IBCM_IN_SIDR_REQ_AGAIN] = TO(SIDR_ANSWERED, AGAIN, NONE),
            [IBCM_IN_DEADLINE] = TO(OVER, NOTHING, NONE),
            [IBCM_IN_EVICTED] = TO(OVER, NOTHING, NONE),
            [IBCM_IN_DISCONNECT] = TO(SIDR_ANSWERED, NOTHING, NONE),
            [IBCM_IN_DROP] = TO(SIDR_ANSWERED, NOTHING, NONE),
        },
    [IBCM_OVER] =
        {
            [IBCM_IN_DISCONNECT] = TO(OVER, NOTHING, NONE),
            [IBCM_IN_DROP] = TO(OVER, NOTHING, NONE),
        },
};

const struct ibcm_edge *ibcm_state_edge(enum ibcm_state state, enum ibcm_input input)
{
    CHECK(state < IBCM_STATE_COUNT);
    CHECK(input < IBCM_INPUT_COUNT);
    return &edges[state][input];
}

const struct ibcm_state_facts *ibcm_state_facts(enum ibcm_state state)
{
    static const struct ibcm_state_facts facts[IBCM_STATE_COUNT] = {
        [IBCM_NO_STATE] = {"-", IBCM_TIMER_NONE, false, false},
        [IBCM_IDLE] = {"idle", IBCM_TIMER_NONE, false, false},
        [IBCM_REQ_SENT] = {"req-sent", IBCM_TIMER_RESPONSE, false, false},
        [IBCM_MRA_REQ_RCVD] = {"mra-req-rcvd", IBCM_TIMER_SERVICE, false, false},
        [IBCM_REQ_UNSERVED] = {"req-unserved", IBCM_TIMER_PAUSE, false, false},
        [IBCM_REP_RCVD] = {"rep-rcvd", IBCM_TIMER_NONE, false, true},
        [IBCM_MRA_REP_SENT] = {"mra-rep-sent", IBCM_TIMER_NONE, false, true},
        [IBCM_REQ_RCVD] = {"req-rcvd", IBCM_TIMER_NONE, true, true},
        [IBCM_MRA_REQ_SENT] = {"mra-req-sent", IBCM_TIMER_NONE, true, true},
        [IBCM_REP_SENT] = {"rep-sent", IBCM_TIMER_RESPONSE, false, true},
        [IBCM_MRA_REP_RCVD] = {"mra-rep-rcvd", IBCM_TIMER_SERVICE, false, true},
        [IBCM_ESTABLISHED] = {"established", IBCM_TIMER_NONE, false, true},
        [IBCM_DREQ_SENT] = {"dreq-sent", IBCM_TIMER_RESPONSE, false, true},
        [IBCM_TIMEWAIT] = {"timewait", IBCM_TIMER_TIMEWAIT, false, false},
        [IBCM_REFUSED] = {"refused", IBCM_TIMER_REPEATS, true, false},
        [IBCM_SIDR_REQ_SENT] = {"sidr-req-sent", IBCM_TIMER_RESPONSE, false, false},
        [IBCM_SIDR_REQ_UNSERVED] = {"sidr-req-unserved", IBCM_TIMER_PAUSE, false, false},
        [IBCM_SIDR_REQ_RCVD] = {"sidr-req-rcvd", IBCM_TIMER_NONE, true, false},
        [IBCM_SIDR_ANSWERED] = {"sidr-answered", IBCM_TIMER_REPEATS, true, false},
        [IBCM_OVER] = {"over", IBCM_TIMER_NONE, false, false},
    };
    CHECK(state < IBCM_STATE_COUNT);
    return &facts[state];
}

const char *ibcm_input_name(enum ibcm_input input)
{
    static const char *const names[IBCM_INPUT_COUNT] = {
        [IBCM_IN_CONNECT] = "connect",
        [IBCM_IN_RESOLVE] = "resolve",
        [IBCM_IN_ACCEPT] = "accept",
        [IBCM_IN_REJECT] = "reject",
        [IBCM_IN_ESTABLISH] = "establish",
        [IBCM_IN_DELAY] = "delay",
        [IBCM_IN_COMMUNICATION] = "communication",
        [IBCM_IN_DISCONNECT] = "disconnect",
        [IBCM_IN_DROP] = "drop",
        [IBCM_IN_REQ] = "REQ",
        [IBCM_IN_REQ_AGAIN] = "REQ again",
        [IBCM_IN_STALE] = "stale",
        [IBCM_IN_MRA] = "MRA",
        [IBCM_IN_REP] = "REP",
        [IBCM_IN_REJ] = "REJ",
        [IBCM_IN_UNSERVED] = "unserved",
        [IBCM_IN_RTU] = "RTU",
        [IBCM_IN_DREQ] = "DREQ",
        [IBCM_IN_DREP] = "DREP",
        [IBCM_IN_SIDR_REQ] = "SIDR_REQ",
        [IBCM_IN_SIDR_REQ_AGAIN] = "SIDR_REQ again",
        [IBCM_IN_SIDR_REP] = "SIDR_REP",
        [IBCM_IN_SIDR_REFUSED] = "SIDR_REP, refused",
        [IBCM_IN_DEADLINE] = "deadline",
        [IBCM_IN_EXHAUSTED] = "exhausted",
        [IBCM_IN_EVICTED] = "evicted",
    };
    return input < IBCM_INPUT_COUNT ? names[input] : "?";
}

const char *ibcm_send_name(enum ibcm_send send)
{
    static const char *const names[IBCM_SEND_COUNT] = {
        [IBCM_SEND_NOTHING] = "-",         [IBCM_SEND_REQ] = "REQ",
        [IBCM_SEND_MRA] = "MRA",           [IBCM_SEND_REJ] = "REJ",
        [IBCM_SEND_REP] = "REP",           [IBCM_SEND_RTU] = "RTU",
        [IBCM_SEND_DREQ] = "DREQ",         [IBCM_SEND_DREP] = "DREP",
        [IBCM_SEND_SIDR_REQ] = "SIDR_REQ", [IBCM_SEND_SIDR_REP] = "SIDR_REP",
        [IBCM_SEND_AGAIN] = "again",
    };
    return send < IBCM_SEND_COUNT ? names[send] : "?";
}

const char *ibcm_event_name(enum ibcm_event_type event)
{
    static const char *const names[IBCM_EVENT_COUNT] = {
        [IBCM_EVENT_NONE] = "-",
        [IBCM_EVENT_CONNECT_REQUEST] = "connect request",
        [IBCM_EVENT_CONNECT_RESPONSE] = "connect response",
        [IBCM_EVENT_ESTABLISHED] = "established",
        [IBCM_EVENT_REJECTED] = "rejected",
        [IBCM_EVENT_UNREACHABLE] = "unreachable",
        [IBCM_EVENT_DISCONNECTED] = "disconnected",
        [IBCM_EVENT_TIMEWAIT_EXIT] = "timewait exit",
    };
    return event < IBCM_EVENT_COUNT ? names[event] : "?";
}
