// iSCSI: which PDUs of the initiator there are, in which phase, and in which order.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"

/* ---- NOP-Out, Logout, what there is not ------------------------------------------------------ */

static enum iscsi_verdict take_nop(struct iscsi_connection *c, const struct iscsi_header *h,
                                   const uint8_t *data, instant_ns now)
{
    if (h->itt == ISCSI_NO_TAG) { // it answers one of ours, of which there are none
        return ISCSI_GOES_ON;
    }
    uint32_t most = iscsi_control_data_max(c);
    uint8_t *head = iscsi_control_put(c, ISCSI_NOP_IN, ISCSI_FINAL, h->itt, data,
                                      h->data_len < most ? h->data_len : most);
    if (head == NULL) {
        return ISCSI_LEAVES;
    }
    memcpy(head + ISCSI_OFF_LUN, h->at + ISCSI_OFF_LUN, 8);
    return ISCSI_GOES_ON;
}

// Closing the session and closing its only connection are the same.
static enum iscsi_verdict take_logout(struct iscsi_connection *c, const struct iscsi_header *h,
                                      const uint8_t *data, instant_ns now)
{
    unsigned reason = h->flags & ISCSI_LOGOUT_REASON_MASK;
    bool is_other =
        reason == ISCSI_CLOSE_CONNECTION && get_be16(h->at + ISCSI_LOGOUT_OFF_CID) != c->login.cid;
    uint8_t *head = iscsi_control_put(c, ISCSI_LOGOUT_RESPONSE, ISCSI_FINAL, h->itt, NULL, 0);
    if (head == NULL) {
        return ISCSI_LEAVES;
    }
    put_be32(head + ISCSI_OFF_TTT, 0); // reserved here
    if (reason > ISCSI_CLOSE_CONNECTION || is_other) {
        head[ISCSI_LOGOUT_OFF_RESPONSE] = is_other ? ISCSI_LOGOUT_NO_CID : ISCSI_LOGOUT_NO_RECOVERY;
        return ISCSI_GOES_ON;
    }
    iscsi_leave(c);
    return ISCSI_STOPS;
}

static enum iscsi_verdict take_snack(struct iscsi_connection *c, const struct iscsi_header *h,
                                     const uint8_t *data, instant_ns now)
{
    iscsi_reject(c, h, ISCSI_REJECT_SNACK);
    return ISCSI_GOES_ON;
}

/* ---- which there are ------------------------------------------------------------------------- */

enum { IN_DISCOVERY = 1 << 0, NUMBERED = 1 << 1, OF_STREAM = 1 << 2 };

static const struct opcode_facts {
    enum iscsi_pdu_kind kind;
    enum iscsi_verdict (*on_pdu)(struct iscsi_connection *c, const struct iscsi_header *h,
                                 const uint8_t *data, instant_ns now); // NULL: the carrier's
    unsigned how;
} opcodes[] = {
    [ISCSI_NOP_OUT] = {ISCSI_PDU_COLLECTED, take_nop, IN_DISCOVERY | NUMBERED},
    [ISCSI_SCSI_COMMAND] = {ISCSI_PDU_COMMAND, iscsi_take_command, NUMBERED},
    [ISCSI_TASK_REQUEST] = {ISCSI_PDU_COLLECTED, iscsi_take_management, NUMBERED},
    [ISCSI_TEXT_REQUEST] = {ISCSI_PDU_COLLECTED, iscsi_take_text, IN_DISCOVERY | NUMBERED},
    [ISCSI_DATA_OUT] = {ISCSI_PDU_DATA, NULL, OF_STREAM},
    [ISCSI_LOGOUT_REQUEST] = {ISCSI_PDU_COLLECTED, take_logout, IN_DISCOVERY | NUMBERED},
    [ISCSI_SNACK_REQUEST] = {ISCSI_PDU_COLLECTED, take_snack, 0},
};

static const struct opcode_facts login_facts = {ISCSI_PDU_COLLECTED, iscsi_take_login, 0};
static const struct opcode_facts no_facts = {ISCSI_PDU_UNKNOWN, NULL, 0};

static const struct opcode_facts *facts_of(const struct iscsi_connection *c, uint8_t opcode)
{
    if (c->state == ISCSI_LOGIN) {
        return opcode == ISCSI_LOGIN_REQUEST ? &login_facts : &no_facts;
    }
    unsigned needs = c->login.is_discovery ? IN_DISCOVERY : 0;
    unsigned lacks = c->door->carrier->is_oneshot ? OF_STREAM : 0;
    const struct opcode_facts *facts =
        opcode < sizeof opcodes / sizeof opcodes[0] ? &opcodes[opcode] : &no_facts;
    bool is_possible = (facts->how & needs) == needs && (facts->how & lacks) == 0;
    return is_possible ? facts : &no_facts;
}

enum iscsi_pdu_kind iscsi_pdu_kind(const struct iscsi_connection *c, uint8_t opcode)
{
    return facts_of(c, opcode)->kind;
}

// Those beyond the window are to be ignored (section 4.2.2.1), and with one connection none can be
// late.
bool iscsi_is_next(struct iscsi_connection *c, const struct iscsi_header *h)
{
    if ((facts_of(c, h->opcode)->how & NUMBERED) == 0 || h->is_immediate) {
        return true;
    }
    bool is_full = h->opcode == ISCSI_SCSI_COMMAND && list_is_empty(&c->free);
    if (h->cmdsn != c->expcmdsn || c->window_used == ISCSI_WINDOW || is_full) {
        return false;
    }
    c->expcmdsn++;
    return true;
}

enum iscsi_verdict iscsi_take_pdu(struct iscsi_connection *c, const struct iscsi_header *h,
                                  const uint8_t *data, instant_ns now)
{
    return facts_of(c, h->opcode)->on_pdu(c, h, data, now);
}
