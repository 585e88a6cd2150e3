#include "roce/rc_refusal.h"

#include "wire/aeth.h"

static const struct rc_refusal_facts facts[RC_REFUSAL_COUNT] = {
    [RC_ACCEPTED] = {"accepted", "accepted", AETH_SYNDROME_ACK, false, QP_EVENT_COUNT},
#define X(name_, syndrome_, event_, text_)  \
    [RC_REFUSED_##name_] = {                \
        .name = #name_,                     \
        .text = text_,                      \
        .syndrome = syndrome_,              \
        .is_fatal = (syndrome_) > AETH_NAK, \
        .event = event_,                    \
    },
    RC_REFUSALS(X)
#undef X
};

const struct rc_refusal_facts *rc_refusal_facts(enum rc_refusal refusal)
{
    return &facts[refusal];
}

enum rc_refusal rc_refusal_of_memory(enum mem_verdict verdict)
{
    static const enum rc_refusal refusals[MEM_VERDICT_COUNT] = {
        [MEM_OK] = RC_ACCEPTED,
        [MEM_INVALID_STAG] = RC_REFUSED_ACCESS,
        [MEM_WRONG_PD] = RC_REFUSED_ACCESS,
        [MEM_WRONG_QP] = RC_REFUSED_ACCESS,
        [MEM_BOUNDS] = RC_REFUSED_ACCESS,
        [MEM_WRAP] = RC_REFUSED_ACCESS,
        [MEM_ACCESS] = RC_REFUSED_ACCESS,
        [MEM_CANNOT_INVALIDATE] = RC_REFUSED_INVALIDATE,
        [MEM_WINDOW_STATE] = RC_REFUSED_ACCESS,
        [MEM_UNMAPPED] = RC_REFUSED_UNMAPPED,
        [MEM_LOCAL_ELEMENT] = RC_REFUSED_LOCAL,
    };
    return refusals[verdict];
}

enum wc_status rc_status_of_nak(uint8_t code)
{
    static const enum wc_status statuses[AETH_NAK_COUNT] = {
        [AETH_NAK_PSN_SEQUENCE] = WC_SUCCESS,
        [AETH_NAK_INVALID_REQUEST] = WC_REM_INV_REQ_ERR,
        [AETH_NAK_REMOTE_ACCESS] = WC_REM_ACCESS_ERR,
        [AETH_NAK_REMOTE_OPERATIONAL] = WC_REM_OP_ERR,
        [AETH_NAK_INVALID_RD_REQUEST] = WC_REM_INV_REQ_ERR,
    };
    return code < AETH_NAK_COUNT ? statuses[code] : WC_SUCCESS;
}
