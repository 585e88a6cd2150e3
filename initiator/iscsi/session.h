// What an initiator says in an iSCSI session over one-shot RDMA, and what it makes of what it
// hears: PDUs out, PDUs in, whoever carries them. docs/iscsi.md has the wire.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "initiator/iscsi/proof.h"

#define ISCSI_ONESHOT_KEY "X-invalid.weft.oneshot"

enum iscsi_session_limits {
    ISCSI_NAME_LEN = 224,  // of an iSCSI name, with the terminator
    ISCSI_TAKES_MAX = 512, // octets of data in a PDU that the target may send, once logged in
    ISCSI_LOGIN_TAKES_MAX = 8192, // ... and before
    ISCSI_LOGIN_ROUNDS = 8,
};

struct iscsi_session {
    char initiator[ISCSI_NAME_LEN], target[ISCSI_NAME_LEN];
    uint8_t isid[ISCSI_ISID_LEN];
    uint16_t lun, tsih;
    struct proof proof;
    unsigned login_rounds;
    enum iscsi_stage stage; // of the login
    bool has_offered;       // what is agreed on in a login
    bool is_oneshot;        // the target has said so
    uint32_t cmdsn, maxcmdsn, expstatsn;
};

/* ---- what is said ---------------------------------------------------------------------------- */

// The next Login Request: its length; 0: it does not fit.
uint32_t iscsi_session_login_emit(struct iscsi_session *session, uint8_t *ret, uint32_t capacity);
// The window of commands is open.
bool iscsi_session_may_send(const struct iscsi_session *session);
// A SCSI Command, whose number is counted when it has been sent.
void iscsi_session_command_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                                uint32_t itt, const uint8_t cdb[SCSI_CDB_LEN], uint8_t direction,
                                uint32_t len);
void iscsi_session_command_sent(struct iscsi_session *session);
// Immediate ones: a reset of the logical unit, an answer to a ping, the session's end.
void iscsi_session_reset_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                              uint32_t itt);
void iscsi_session_pong_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                             const uint8_t ping[ISCSI_HEADER_LEN]);
void iscsi_session_logout_emit(const struct iscsi_session *session, uint8_t ret[ISCSI_HEADER_LEN],
                               uint32_t itt);

/* ---- what is heard --------------------------------------------------------------------------- */

enum iscsi_heard_kind {
    ISCSI_HEARD_NONSENSE, // lengths that are not its own, or a PDU that has no place here
    ISCSI_HEARD_LOGIN,
    ISCSI_HEARD_ANSWER,
    ISCSI_HEARD_TASK,
    ISCSI_HEARD_PING,
    ISCSI_HEARD_LOGOUT,
    ISCSI_HEARD_REJECT,
    ISCSI_HEARD_END, // the target will drop the connection
    ISCSI_HEARD_NOTICE,
};

struct iscsi_heard {
    enum iscsi_heard_kind kind;
    uint32_t itt;
    const uint8_t *at; // the PDU
    uint32_t data_len;
    uint8_t response; // ANSWER: 0, or the target has failed; TASK: enum iscsi_task_response
    uint8_t status;   // ANSWER
    uint32_t residual;
    const uint8_t *sense; // ANSWER
    uint32_t sense_len;
};

// A PDU of `len` octets.
struct iscsi_heard iscsi_session_hear(struct iscsi_session *session, const uint8_t *pdu,
                                      uint32_t len);

enum iscsi_login_verdict { ISCSI_LOGGED_IN, ISCSI_LOGIN_GOES_ON, ISCSI_LOGIN_FAILED };
// Of ISCSI_HEARD_LOGIN; the reason if it has failed.
enum iscsi_login_verdict iscsi_session_login_take(struct iscsi_session *session,
                                                  const struct iscsi_heard *heard,
                                                  struct why *ret_why);
