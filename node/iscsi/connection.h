// One iSCSI connection, which is a session, for the files of that TTS: its login, the PDU that is
// coming, tasks, the PDUs that are to go.
//
//     iscsi.c      lives of connections
//     session.c    targets; what all phases of a session need
//     login.c      the login phase, by text.h and keys.h
//     discovery.c  text requests of the full feature phase: which targets there are
//     receive.c    PDUs from the initiator: headers, checks, data on their way into place
//     command.c    SCSI commands and their data, task management, logout
//     send.c       PDUs to the initiator
//     queue.c      what is to go, and what is coming, put down
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "node/format/iscsi_pdu.h"
#include "node/format/iscsi_text.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/iscsi.h"
#include "node/iscsi/keys.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"

enum iscsi_limits {
    ISCSI_CONNECTION_MAX = 1024,
    ISCSI_CONNECTION_OF_HOST_MAX = 512, // from one address
    ISCSI_IN_LEN = 64 << 10,
    ISCSI_WINDOW = 64,       // commands under way, by their numbers
    ISCSI_IMMEDIATE_MAX = 4, // and out of the order of these
    ISCSI_TASK_COUNT = ISCSI_WINDOW + ISCSI_IMMEDIATE_MAX,
    ISCSI_CONTROL_COUNT = 16,                   // PDUs that are to go and no task's
    ISCSI_CONTROL_SPARE = 3,                    // as many as one PDU may lead to
    ISCSI_COLLECTED_MAX = ISCSI_LOGIN_DATA_MAX, // octets of data that are looked at as a whole
    ISCSI_NAME_MAX = 224,
    ISCSI_PORTAL_GROUP = 1,
    ISCSI_TAIL_MAX = ISCSI_PAD - 1 + ISCSI_DIGEST_LEN,
};

enum iscsi_state {
    ISCSI_LOGIN,
    ISCSI_CONNECTING, // the UMA has been asked
    ISCSI_OPEN,       // the full feature phase
    ISCSI_LEAVING,    // nothing is read any more; what is queued is sent
    ISCSI_ENDED,      // the socket is closed; commands are under way
};

// A PDU on its way out: a header, data, a tail of padding and digest.
struct iscsi_out {
    struct list_link link;
    struct iscsi_task *task; // NULL: it is a control's
    bool is_formed;
    uint8_t head[ISCSI_HEADER_LEN + ISCSI_DIGEST_LEN];
    uint8_t tail[ISCSI_TAIL_MAX];
    const uint8_t *data;
    uint32_t head_len, data_len, tail_len;
    uint64_t sent;
};

// A PDU that is no task's.
struct iscsi_control {
    struct iscsi_out out;
    uint8_t *data;   // its own; NULL: none
    bool has_status; // it takes a status number
};

enum iscsi_next { ISCSI_NOTHING, ISCSI_ASKS, ISCSI_DELIVERS, ISCSI_RESPONDS };

// A SCSI command, until its response is out. Its place in the connection's table is the tag of its
// R2Ts.
struct iscsi_task {
    struct scsi_task scsi;
    struct iscsi_connection *connection;
    bool is_used, is_immediate, is_read, is_write;
    uint32_t itt, cmdsn;
    uint32_t expected_len;

    // Data from the initiator, in order.
    bool is_receiving; // a PDU with some of it is coming
    bool is_open;      // unsolicited PDUs with more follow
    bool is_wanted;    // the device fetches
    bool is_over;      // it has, or needs none: what comes is dropped
    bool has_answer;   // which goes when nothing comes any more
    bool is_doomed;    // freed when the PDU that has begun to go has gone
    uint32_t filled;   // octets that have come
    uint32_t asked;    // up to here by R2T
    uint32_t r2tsn, datasn;
    uint8_t *staged; // what came before the device fetched; NULL: nothing did

    // To the initiator.
    enum iscsi_next next;
    struct iscsi_out out;
    uint32_t delivered, deliver_datasn;
    uint8_t sense[2 + SCSI_SENSE_FIXED_LEN];
    struct list_link link; // free
};

// Data of the PDU under way.
struct iscsi_incoming {
    struct iscsi_task *task; // whose they are; NULL: nobody's
    uint32_t left;           // octets of data still to come,
    uint32_t pad_left;       // and of padding
    bool is_on;
    bool has_digest;
    bool is_asked; // by R2T
    bool is_final;
    uint32_t crc;
};

struct iscsi_login {
    enum iscsi_stage stage;
    bool has_begun, has_name, is_discovery, has_said_group;
    bool is_authenticated;
    uint8_t isid[ISCSI_ISID_LEN];
    uint16_t cid;
    uint32_t itt;
    char initiator[CLIENT_IDENTITY_MAX];
    char target[ISCSI_NAME_MAX];
    uint8_t flags; // of the request that is to be answered
    uint32_t text_len;
    char *text; // ISCSI_TEXT_MAX octets of a request that comes in several PDUs; NULL: none
};

// Task management that waits until the tasks it aborted have ended.
struct iscsi_management {
    bool is_used, is_done;
    uint32_t itt;
    enum iscsi_task_response response;
};

enum { ISCSI_MANAGEMENT_COUNT = 4 };

struct iscsi_connection {
    struct stream stream;
    struct iscsi *iscsi;
    enum iscsi_state state;
    struct iscsi_login login;
    struct iscsi_parameters parameters;
    uint16_t tsih;

    struct connect_request connect;
    uint32_t connection; // the UMA's number
    bool is_connecting, is_established;
    struct nexus nexus;
    bool has_nexus;

    uint32_t statsn, expcmdsn;
    struct iscsi_incoming incoming;
    unsigned asked_count; // tasks whose data are awaited
    unsigned window_used, task_count;
    struct iscsi_task *tasks; // ISCSI_TASK_COUNT, of a normal session
    struct list_link free;
    struct iscsi_management managements[ISCSI_MANAGEMENT_COUNT];

    struct list_link outs;
    struct iscsi_control *controls; // ISCSI_CONTROL_COUNT
    struct list_link free_controls;
    unsigned free_control_count;

    // The answer to a text request, in parts; or to the last one of login.
    char *answer;
    uint32_t answer_len, answer_at;
};

struct iscsi {
    struct iscsi_parts parts;
    struct stream_server server;
    struct scsi_target *target;
    struct tts_for_cta for_cta;
    uint16_t tsih; // the last that was given
    struct iscsi_counters counters;
};

static inline uint32_t iscsi_maxcmdsn(const struct iscsi_connection *c)
{
    return c->expcmdsn + (ISCSI_WINDOW - c->window_used) - 1;
}

// ---- session.c

// The target of a volume.
void iscsi_name(const struct resource *row, char ret[ISCSI_NAME_MAX]);
// The volume of a target; NULL: none that is ready.
const struct resource *iscsi_volume(const struct iscsi *iscsi, const char *target);
bool iscsi_may_see(const struct iscsi_connection *c, const struct resource *row);
// One line for the operator, about an initiator.
void iscsi_say(const struct iscsi_connection *c, const char *what);
// Nothing is read any more; when all is sent the connection ends.
void iscsi_leave(struct iscsi_connection *c);
// The initiator does not keep to the protocol.
enum stream_verdict iscsi_malformed(struct iscsi_connection *c);
// False: no memory.
bool iscsi_tasks_init(struct iscsi_connection *c);
// Ends older sessions of the same initiator port with the same target.
void iscsi_reinstate(struct iscsi_connection *c);

// ---- login.c

enum stream_verdict iscsi_take_login(struct iscsi_connection *c, const struct iscsi_header *h,
                                     const uint8_t *data, instant_ns now);
// The UMA has answered.
void iscsi_answer_connect(struct iscsi_connection *c);

// ---- discovery.c

enum stream_verdict iscsi_take_text(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now);

// ---- receive.c

// Takes what has come as far as it goes, one step.
enum stream_verdict iscsi_take(struct iscsi_connection *c, instant_ns now);
// Where data may be received straight into place: `*ret_len` octets; NULL: nowhere now.
uint8_t *iscsi_direct(const struct iscsi_connection *c, uint32_t *ret_len);
// So many have been.
void iscsi_received(struct iscsi_connection *c, uint32_t len);

// ---- command.c

extern const struct scsi_transport iscsi_transport;
enum stream_verdict iscsi_take_command(struct iscsi_connection *c, const struct iscsi_header *h,
                                       const uint8_t *data, instant_ns now);
enum stream_verdict iscsi_take_data(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now);
enum stream_verdict iscsi_take_management(struct iscsi_connection *c, const struct iscsi_header *h,
                                          const uint8_t *data, instant_ns now);
// Where the next octets of its data go, and how many of them do; NULL: they are dropped.
uint8_t *iscsi_task_place(struct iscsi_task *task, uint32_t *ret_len);
// A PDU of its data has come, whole, or with a wrong digest.
void iscsi_task_received(struct iscsi_task *task, const struct iscsi_incoming *incoming,
                         bool is_bad, instant_ns now);
// It has been sent, as far as it was formed.
void iscsi_task_sent(struct iscsi_task *task, instant_ns now);
// The connection is gone: whatever is under way on it ends.
void iscsi_tasks_abandon(struct iscsi_connection *c, instant_ns now);

// ---- queue.c

// The data behind this header go to the task, or to nobody.
void iscsi_incoming_begin(struct iscsi_connection *c, const struct iscsi_header *h,
                          struct iscsi_task *task);
// A PDU that is no task's, with a copy of `len` octets of data. The header, for what else stands in
// it. NULL: no memory.
uint8_t *iscsi_control_put(struct iscsi_connection *c, enum iscsi_opcode opcode, uint8_t flags,
                           uint32_t itt, const void *data, uint32_t len);
void iscsi_control_free(struct iscsi_connection *c, struct iscsi_control *control);
void iscsi_reject(struct iscsi_connection *c, const struct iscsi_header *h,
                  enum iscsi_reject_reason reason);
// A PDU of the task is to go, as its `next` says.
void iscsi_task_queue(struct iscsi_task *task, enum iscsi_next next);
// All that is queued is dropped.
void iscsi_outs_drop(struct iscsi_connection *c);

// ---- send.c

// Sends what is queued. 0, -EAGAIN, or another negative errno: the initiator is gone.
int iscsi_flush(struct iscsi_connection *c, instant_ns now);
