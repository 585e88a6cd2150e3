#include "wire/oneshot.h"

#include "base/check.h"
#include "wire/extension.h"

const char *oneshot_mark_name(enum oneshot_mark mark)
{
    static const char *const names[] = {
        [ONESHOT_NONE] = "",
        [ONESHOT_ADVERTISE] = "advertise",
        [ONESHOT_CLOSE] = "close",
    };
    return names[mark];
}

static enum oneshot_verdict check_part(uint8_t agreed, const struct oneshot_send *send)
{
    static const uint8_t parts[] = {
        [ONESHOT_NONE] = 0,
        [ONESHOT_ADVERTISE] = EXTENSION_ONESHOT_ADVERTISE,
        [ONESHOT_CLOSE] = EXTENSION_ONESHOT_CLOSE,
    };
    uint8_t part = parts[send->mark];
    return (agreed & part) == part ? ONESHOT_OK : ONESHOT_UNAGREED;
}

static enum oneshot_verdict read_flags(uint8_t agreed, const struct ddp_header *h,
                                       struct oneshot_send *ret)
{
    const uint8_t both = EXTENSION_RSVD_ADVERTISE | EXTENSION_RSVD_CLOSE;
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(ret->opcode);
    bool is_send = facts->qn == DDP_QN_SEND && facts->carries_payload && !facts->is_tagged;
    if ((h->rsvd & both) == 0 || !is_send) {
        return ONESHOT_OK;
    }
    if ((h->rsvd & both) == both) {
        return ONESHOT_BOTH;
    }
    if (facts->invalidates || (h->rsvd & EXTENSION_RSVD_IMMEDIATE) != 0) {
        return ONESHOT_STAG_TAKEN;
    }
    ret->mark = h->rsvd & EXTENSION_RSVD_CLOSE ? ONESHOT_CLOSE : ONESHOT_ADVERTISE;
    return check_part(agreed, ret);
}

static enum oneshot_verdict read_opcode(uint8_t agreed, const struct ddp_header *h,
                                        struct oneshot_send *ret)
{
    switch ((uint8_t)ret->opcode) {
    case ONESHOT_OPCODE_ADVERTISE:
        ret->mark = ONESHOT_ADVERTISE;
        break;
    case ONESHOT_OPCODE_CLOSE:
        ret->mark = ONESHOT_CLOSE;
        break;
    case RDMAP_IMMEDIATE_SE:
    case RDMAP_ATOMIC_REQUEST:
    case RDMAP_ATOMIC_RESPONSE:
        return ONESHOT_RFC7306;
    default:
        return ONESHOT_OK;
    }
    ret->opcode = RDMAP_SEND_SE;
    return (h->rsvd & EXTENSION_RSVD_IMMEDIATE) != 0 ? ONESHOT_STAG_TAKEN : check_part(agreed, ret);
}

enum oneshot_verdict oneshot_read(uint8_t agreed, const struct ddp_header *h,
                                  struct oneshot_send *ret)
{
    ret->mark = ONESHOT_NONE;
    ret->opcode = (enum rdmap_opcode)rdmap_control_opcode(h->rsvdulp);
    if (h->tagged) {
        return ONESHOT_OK; // there is no such field
    }
    if (agreed & EXTENSION_ONESHOT_FLAGS) {
        return read_flags(agreed, h, ret);
    }
    return agreed & EXTENSION_ONESHOT_OPCODE ? read_opcode(agreed, h, ret) : ONESHOT_OK;
}

void oneshot_write(uint8_t agreed, enum oneshot_mark mark, uint32_t stag, struct ddp_header *h)
{
    CHECK(mark != ONESHOT_NONE);
    h->rsvdulp_stag = stag;
    if (agreed & EXTENSION_ONESHOT_FLAGS) {
        h->rsvd |= mark == ONESHOT_CLOSE ? EXTENSION_RSVD_CLOSE : EXTENSION_RSVD_ADVERTISE;
        return;
    }
    CHECK(agreed & EXTENSION_ONESHOT_OPCODE);
    uint8_t opcode = mark == ONESHOT_CLOSE ? ONESHOT_OPCODE_CLOSE : ONESHOT_OPCODE_ADVERTISE;
    h->rsvdulp = rdmap_control_emit((enum rdmap_opcode)opcode);
}
