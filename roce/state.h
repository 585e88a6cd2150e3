// The states of a queue pair on RoCE, for every service, as tables.
//
//     RESET ─▶ INIT ─▶ RTR ─▶ RTS ◀─▶ SQD        any ─▶ ERR, any ─▶ RESET
//                              ▲
//                              └─ SQE  (a send of UC or UD failed: receives go on)
//
// The program asks for each change (ibv_modify_qp). By themselves queue pairs go to ERR, or to SQE
// where a failed send says nothing of the peer.
#pragma once

#include <stdbool.h>

#include "base/qp_state.h"

enum roce_service {
    ROCE_SERVICE_RC,
    ROCE_SERVICE_UC,
    ROCE_SERVICE_UD,
    ROCE_SERVICE_COUNT,
};
const char *roce_service_name(enum roce_service service); // "RC"

// May the program ask for this change? (from, from) is allowed where attributes may change in it.
bool roce_state_may_modify(enum roce_service service, enum qp_state from, enum qp_state to);

// What happens in a state.
struct roce_state_facts {
    bool takes_packets;    // of the peer's requests; otherwise they are dropped
    bool takes_answers;    // acknowledgements and responses to ours
    bool begins_sends;     // work requests posted behind what has begun already
    bool flushes_sends;    // what is posted completes as flushed at once
    bool flushes_receives; // likewise
};
const struct roce_state_facts *roce_state_facts(enum qp_state state);

// The state after a work request of the send queue has failed in `state`.
enum qp_state roce_state_after_failed_send(enum roce_service service, enum qp_state state);
