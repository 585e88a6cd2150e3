#include "initiator/iscsi/session.h"

#include <string.h>

#include "base/bytes.h"
#include "base/serial.h"
#include "format/iscsi_text.h"
#include "format/scsi.h"

enum { TASK_SIMPLE = 1 };

/* ---- what is said ---------------------------------------------------------------------------- */

static void emit(const struct iscsi_session *session, uint8_t *ret, uint8_t opcode, uint8_t flags,
                 uint32_t itt)
{
    iscsi_header_emit(ret, (enum iscsi_opcode)opcode, flags, itt);
    put_be32(ret + ISCSI_OFF_CMDSN, session->cmdsn);
    put_be32(ret + ISCSI_OFF_EXPSTATSN, session->expstatsn);
}

// Who has nothing to prove leaves out the stage for that.
static void login_begin(struct iscsi_session *session, struct iscsi_text_out *out)
{
    bool proves = session->proof.name[0] != '\0';
    session->stage = proves ? ISCSI_SECURITY : ISCSI_OPERATIONAL;
    session->has_offered = false;
    proof_begin(&session->proof);
    iscsi_text_put(out, "InitiatorName", "%s", session->initiator);
    iscsi_text_put(out, "TargetName", "%s", session->target);
    iscsi_text_put(out, "SessionType", "Normal");
    if (proves) {
        iscsi_text_put(out, "AuthMethod", "%s", proof_methods(&session->proof));
    }
}

// All that is offered, in the first request of its stage.
static void offer(struct iscsi_session *session, struct iscsi_text_out *out)
{
    session->has_offered = true;
    iscsi_text_put(out, "HeaderDigest", "None");
    iscsi_text_put(out, "DataDigest", "None");
    iscsi_text_put(out, "ImmediateData", "No");
    iscsi_text_put(out, "InitialR2T", "Yes");
    iscsi_text_put(out, "MaxRecvDataSegmentLength", "%d", ISCSI_TAKES_MAX);
    iscsi_text_put(out, "MaxConnections", "1");
    iscsi_text_put(out, "ErrorRecoveryLevel", "0");
    iscsi_text_put(out, "DefaultTime2Wait", "0");
    iscsi_text_put(out, "DefaultTime2Retain", "0");
    iscsi_text_put(out, ISCSI_ONESHOT_KEY, "Yes");
}

// It goes on to the next stage as soon as the target does, but for the algorithms: there is no
// challenge yet.
static uint8_t login_flags(const struct iscsi_session *session)
{
    uint8_t current = (uint8_t)(session->stage << ISCSI_LOGIN_CSG_SHIFT);
    uint8_t next = session->stage == ISCSI_SECURITY ? ISCSI_OPERATIONAL : ISCSI_FULL_FEATURE;
    bool waits = session->stage == ISCSI_SECURITY && session->proof.phase == PROOF_OFFERED;
    return waits ? current : ISCSI_LOGIN_TRANSIT | current | next;
}

uint32_t iscsi_session_login_emit(struct iscsi_session *session, uint8_t *ret, uint32_t capacity)
{
    struct iscsi_text_out out = {.ptr = (char *)ret + ISCSI_HEADER_LEN,
                                 .capacity = capacity - ISCSI_HEADER_LEN - ISCSI_PAD};
    if (session->login_rounds++ == 0) {
        login_begin(session, &out);
    }
    proof_put(&session->proof, &out);
    if (session->stage == ISCSI_OPERATIONAL && !session->has_offered) {
        offer(session, &out);
    }
    uint32_t len = (uint32_t)out.len, pad = iscsi_pad_of(len);
    emit(session, ret, ISCSI_IMMEDIATE | ISCSI_LOGIN_REQUEST, login_flags(session), 0);
    put_be24(ret + ISCSI_OFF_DATA_LEN, len);
    memcpy(ret + ISCSI_LOGIN_OFF_ISID, session->isid, ISCSI_ISID_LEN);
    put_be16(ret + ISCSI_LOGIN_OFF_TSIH, session->tsih);
    put_be32(ret + ISCSI_LOGIN_OFF_CID, 0);
    memset(ret + ISCSI_HEADER_LEN + len, 0, pad);
    return out.is_full ? 0 : ISCSI_HEADER_LEN + len + pad;
}

bool iscsi_session_may_send(const struct iscsi_session *session)
{
    return !serial_after(session->cmdsn, session->maxcmdsn);
}

void iscsi_session_command_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                                uint32_t itt, const uint8_t cdb[SCSI_CDB_LEN], uint8_t direction,
                                uint32_t len)
{
    emit(session, ret, ISCSI_SCSI_COMMAND, ISCSI_FINAL | direction | TASK_SIMPLE, itt);
    put_be64(ret + ISCSI_OFF_LUN, scsi_lun_of(session->lun));
    put_be32(ret + ISCSI_CMD_OFF_EXPECTED_LEN, len);
    memcpy(ret + ISCSI_CMD_OFF_CDB, cdb, ISCSI_CMD_CDB_LEN);
}

void iscsi_session_command_sent(struct iscsi_session *session)
{
    session->cmdsn++;
}

void iscsi_session_reset_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                              uint32_t itt)
{
    emit(session, ret, ISCSI_IMMEDIATE | ISCSI_TASK_REQUEST, ISCSI_FINAL | ISCSI_LUN_RESET, itt);
    put_be64(ret + ISCSI_OFF_LUN, scsi_lun_of(session->lun));
    put_be32(ret + ISCSI_TASK_OFF_REFERENCED, ISCSI_NO_TAG);
}

void iscsi_session_pong_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                             const uint8_t ping[ISCSI_HEADER_LEN])
{
    emit(session, ret, ISCSI_IMMEDIATE | ISCSI_NOP_OUT, ISCSI_FINAL, ISCSI_NO_TAG);
    memcpy(ret + ISCSI_OFF_LUN, ping + ISCSI_OFF_LUN, ISCSI_OFF_ITT - ISCSI_OFF_LUN);
    memcpy(ret + ISCSI_OFF_TTT, ping + ISCSI_OFF_TTT, ISCSI_OFF_CMDSN - ISCSI_OFF_TTT);
}

void iscsi_session_logout_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                               uint32_t itt)
{
    emit(session, ret, ISCSI_IMMEDIATE | ISCSI_LOGOUT_REQUEST, ISCSI_FINAL | ISCSI_CLOSE_SESSION,
         itt);
    put_be32(ret + ISCSI_LOGOUT_OFF_CID, 0);
}

/* ---- what is heard --------------------------------------------------------------------------- */

static enum iscsi_heard_kind kind_of(const struct iscsi_header *header)
{
    bool asks = get_be32(header->at + ISCSI_OFF_TTT) != ISCSI_NO_TAG;
    switch (header->opcode) {
    case ISCSI_LOGIN_RESPONSE:
        return ISCSI_HEARD_LOGIN;
    case ISCSI_SCSI_RESPONSE:
        return ISCSI_HEARD_ANSWER;
    case ISCSI_TASK_RESPONSE:
        return ISCSI_HEARD_TASK;
    case ISCSI_NOP_IN:
        return asks ? ISCSI_HEARD_PING : ISCSI_HEARD_NOTICE;
    case ISCSI_LOGOUT_RESPONSE:
        return ISCSI_HEARD_LOGOUT;
    case ISCSI_REJECT:
        return ISCSI_HEARD_REJECT;
    case ISCSI_ASYNC_MESSAGE:
        // 0 is SCSI's own business, all others end the connection or want another login.
        return header->at[ISCSI_ASYNC_OFF_EVENT] == 0 ? ISCSI_HEARD_NOTICE : ISCSI_HEARD_END;
    default:
        return ISCSI_HEARD_NONSENSE; // Data-In and R2T among them: data move by RDMA
    }
}

// Numbers of statuses and of the window, of all that has come in order.
static void numbers_take(struct iscsi_session *session, const struct iscsi_header *header)
{
    uint32_t expcmdsn = get_be32(header->at + ISCSI_OFF_EXPCMDSN);
    uint32_t maxcmdsn = get_be32(header->at + ISCSI_OFF_MAXCMDSN);
    bool has_status = header->opcode != ISCSI_NOP_IN || header->itt != ISCSI_NO_TAG;
    if (has_status) {
        session->expstatsn = get_be32(header->at + ISCSI_OFF_STATSN) + 1;
    }
    bool is_window = !serial_before(maxcmdsn, expcmdsn - 1);
    if (is_window && (serial_after(maxcmdsn, session->maxcmdsn) || session->login_rounds > 0)) {
        session->maxcmdsn = maxcmdsn;
    }
}

// Sense data stand behind their length.
static void answer_fill(const struct iscsi_header *header, struct iscsi_heard *ret)
{
    const uint8_t *at = header->at, *data = at + ISCSI_HEADER_LEN + header->ahs_len;
    ret->response = at[ISCSI_RSP_OFF_RESPONSE];
    ret->status = at[ISCSI_RSP_OFF_STATUS];
    ret->residual =
        (header->flags & ISCSI_UNDERFLOW) != 0 ? get_be32(at + ISCSI_RSP_OFF_RESIDUAL) : 0;
    if (header->data_len > 2) {
        uint32_t len = get_be16(data), most = header->data_len - 2;
        ret->sense = data + 2;
        ret->sense_len = len < most ? len : most;
    }
}

struct iscsi_heard iscsi_session_hear(struct iscsi_session *session, const uint8_t *pdu,
                                      uint32_t len)
{
    struct iscsi_heard heard = {.kind = ISCSI_HEARD_NONSENSE};
    if (len < ISCSI_HEADER_LEN) {
        return heard;
    }
    struct iscsi_header header = iscsi_header_parse(pdu);
    uint32_t rest = len - ISCSI_HEADER_LEN;
    if (header.ahs_len > rest || header.data_len > rest - header.ahs_len ||
        header.pad_len != rest - header.ahs_len - header.data_len) {
        return heard;
    }
    heard.kind = kind_of(&header);
    heard.itt = header.itt;
    heard.at = pdu;
    heard.data_len = header.data_len;
    if (heard.kind != ISCSI_HEARD_NONSENSE) {
        numbers_take(session, &header);
    }
    if (heard.kind == ISCSI_HEARD_ANSWER) {
        answer_fill(&header, &heard);
    } else if (heard.kind == ISCSI_HEARD_TASK) {
        heard.response = pdu[ISCSI_RSP_OFF_RESPONSE];
    }
    return heard;
}

/* ---- login ----------------------------------------------------------------------------------- */

static const struct {
    uint16_t status;
    const char *says;
} refusals[] = {
    {ISCSI_AUTHENTICATION_FAILURE, "it wants a proof of who logs in, by a name and secret that it "
                                   "knows: iscsi+rdma://USER%25SECRET@HOST/…; or it has none "
                                   "of its own, where target_user= asks for that"},
    {ISCSI_AUTHORIZATION_FAILURE, "this initiator may not use it; see the volume's allow="},
    {ISCSI_TARGET_NOT_FOUND, "there is no such target; `iscsi-ls` or the node's output names them"},
    {ISCSI_UNSUPPORTED_VERSION, "it does not speak this version of iSCSI"},
    {ISCSI_TOO_MANY_CONNECTIONS, "it has too many connections"},
    {ISCSI_MISSING_PARAMETER, "it misses a key"},
    {ISCSI_SERVICE_UNAVAILABLE, "the volume is not ready"},
    {ISCSI_OUT_OF_RESOURCES, "it has no resources left"},
};

static enum iscsi_login_verdict refused(uint16_t status, struct why *ret_why)
{
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (refusals[i].status == status) {
            why_say(ret_why, "the target refuses the login: %s", refusals[i].says);
            return ISCSI_LOGIN_FAILED;
        }
    }
    why_say(ret_why, "the target refuses the login with status %04x", status);
    return ISCSI_LOGIN_FAILED;
}

// What stands in the way of one-shot RDMA; digests and immediate data were not offered.
static bool key_take(struct iscsi_session *session, const struct iscsi_pair *pair,
                     struct why *ret_why)
{
    if (strcmp(pair->key, ISCSI_ONESHOT_KEY) == 0) {
        session->is_oneshot = strcmp(pair->value, "Yes") == 0;
        if (!session->is_oneshot) {
            why_say(ret_why,
                    "the target has no iSCSI over one-shot RDMA: it answers " ISCSI_ONESHOT_KEY
                    "=%.40s; use iscsi:// in place of iscsi+rdma://",
                    pair->value);
        }
        return session->is_oneshot;
    }
    if (!proof_take(&session->proof, pair, ret_why)) {
        return false;
    }
    bool is_digest = strcmp(pair->key, "HeaderDigest") == 0 || strcmp(pair->key, "DataDigest") == 0;
    if (is_digest && strcmp(pair->value, "None") != 0) {
        why_say(ret_why, "the target wants %s=%.40s, which RDMA has no place for", pair->key,
                pair->value);
        return false;
    }
    return true;
}

static bool keys_take(struct iscsi_session *session, const struct iscsi_heard *heard,
                      struct why *ret_why)
{
    uint32_t ahs_len = 4U * heard->at[ISCSI_OFF_AHS_LEN];
    struct iscsi_text text = {.at = (const char *)heard->at + ISCSI_HEADER_LEN + ahs_len,
                              .left = heard->data_len};
    struct iscsi_pair pair;
    for (;;) {
        switch (iscsi_text_next(&text, &pair)) {
        case ISCSI_TEXT_END:
            return proof_step(&session->proof, ret_why);
        case ISCSI_TEXT_BROKEN:
            why_say(ret_why, "the target's login makes no sense");
            return false;
        default:
            if (!key_take(session, &pair, ret_why)) {
                return false;
            }
        }
    }
}

// The target goes on to another stage, or not yet. False: that is none that comes after this one.
static bool stage_take(struct iscsi_session *session, uint8_t flags)
{
    enum iscsi_stage next = (enum iscsi_stage)(flags & ISCSI_LOGIN_STAGE_MASK);
    if ((flags & ISCSI_LOGIN_TRANSIT) == 0) {
        return true;
    }
    bool is_forward = next > session->stage && next != 2;
    session->stage = is_forward ? next : session->stage;
    return is_forward;
}

enum iscsi_login_verdict iscsi_session_login_take(struct iscsi_session *session,
                                                  const struct iscsi_heard *heard,
                                                  struct why *ret_why)
{
    uint16_t status = get_be16(heard->at + ISCSI_LOGIN_OFF_STATUS);
    if (status != ISCSI_LOGIN_OK) {
        return refused(status, ret_why);
    }
    if (!keys_take(session, heard, ret_why)) {
        return ISCSI_LOGIN_FAILED;
    }
    session->tsih = get_be16(heard->at + ISCSI_LOGIN_OFF_TSIH);
    if (!stage_take(session, heard->at[ISCSI_OFF_FLAGS])) {
        why_say(ret_why, "the target's login has its stages wrong");
        return ISCSI_LOGIN_FAILED;
    }
    if (session->stage != ISCSI_SECURITY && !proof_is_complete(&session->proof)) {
        why_say(ret_why, "the target does not prove who it is (CHAP)");
        return ISCSI_LOGIN_FAILED;
    }
    if (session->stage != ISCSI_FULL_FEATURE) {
        why_say(ret_why, "the target does not come to an end of the login");
        return session->login_rounds < ISCSI_LOGIN_ROUNDS ? ISCSI_LOGIN_GOES_ON
                                                          : ISCSI_LOGIN_FAILED;
    }
    if (!session->is_oneshot) {
        why_say(ret_why, "the target has no iSCSI over one-shot RDMA: it does not answer "
                         "" ISCSI_ONESHOT_KEY "; use iscsi:// in place of iscsi+rdma://");
        return ISCSI_LOGIN_FAILED;
    }
    session->login_rounds = 0; // from now on the window only grows
    return ISCSI_LOGGED_IN;
}
