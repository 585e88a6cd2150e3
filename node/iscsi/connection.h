// One iSCSI connection, which is a session, for these files and those that carry it: its login,
// tasks, the PDUs that are to go. What carries the PDUs, a stream of octets or a queue pair, is a
// port (struct iscsi_carrier) with two sides; what is said here holds for both.
//
//     iscsi.c      the target: sessions of all carriers, what the UMA says of them
//     session.c    names of targets; what all phases of a session need
//     unit.c       its logical units, which come and go
//     login.c      the login phase, by keys.h and chap.h
//     discovery.c  text requests of the full feature phase: which targets there are
//     phase.c      which PDU means what, and when
//     command.c    SCSI commands, task management
//     form.c       answers as octets
//     queue.c      what is to go, put down
//
//     node/tts/iscsi_tcp*    over a stream: PDUs come in pieces, data come and go in PDUs
//     node/tts/iscsi_rdma*   over a queue pair: a Send is a PDU, data move by RDMA
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "format/iscsi_text.h"
#include "listen/address.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/chap.h"
#include "node/iscsi/iscsi.h"
#include "node/iscsi/keys.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

enum iscsi_limits {
    ISCSI_WINDOW = 64,       // commands under way, by their numbers
    ISCSI_IMMEDIATE_MAX = 4, // and out of the order of these
    ISCSI_TASK_COUNT = ISCSI_WINDOW + ISCSI_IMMEDIATE_MAX,
    ISCSI_CONTROL_COUNT = 16,                   // PDUs that are to go and no task's
    ISCSI_CONTROL_SPARE = 3,                    // as many as one PDU may lead to
    ISCSI_COLLECTED_MAX = ISCSI_LOGIN_DATA_MAX, // octets of data that are looked at as a whole
    ISCSI_CONTROL_DATA_MAX = 128 << 10, // octets of these PDUs' data; one may lead beyond that
    ISCSI_PORTAL_GROUP = 1,
    ISCSI_TAIL_MAX = ISCSI_PAD - 1 + ISCSI_DIGEST_LEN,
};

enum iscsi_state {
    ISCSI_LOGIN,
    ISCSI_REINSTATING, // its login waits until the former session is over
    ISCSI_CONNECTING,  // the UMA has been asked
    ISCSI_OPEN,        // the full feature phase
    ISCSI_LEAVING,     // nothing is taken any more; what is queued is sent
    ISCSI_ENDED,       // its carrier is gone; commands are under way
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

// What a PDU of the initiator's leads to.
enum iscsi_verdict {
    ISCSI_GOES_ON,
    ISCSI_STOPS,  // until something else has happened
    ISCSI_LEAVES, // what is ready to go is sent, then the connection ends
};

enum iscsi_next { ISCSI_NOTHING, ISCSI_ASKS, ISCSI_DELIVERS, ISCSI_RESPONDS };

enum iscsi_unit_state {
    ISCSI_UNIT_ASKED,   // the UMA has been
    ISCSI_UNIT_OPEN,    // it takes commands
    ISCSI_UNIT_LEAVING, // its volume goes, when its commands have ended
};

// A volume as a logical unit of the session's target.
struct iscsi_unit {
    struct iscsi_connection *session;
    enum iscsi_unit_state state;
    struct connect_request connect;
    struct nexus nexus; // if it has a unit
    unsigned task_count;
    struct list_link link; // the session's
};

// A SCSI command, until its response is out.
struct iscsi_task {
    struct scsi_task scsi;
    struct iscsi_connection *connection;
    struct iscsi_unit *unit; // NULL: there is none of its number
    bool is_used, is_immediate, is_read, is_write;
    bool has_place; // in the window, or among the immediate ones: until its answer is formed
    bool is_doomed; // freed when the PDU that has begun to go has gone
    uint32_t itt, cmdsn;
    uint64_t lun; // as the initiator has put it
    uint32_t expected_len;

    // To the initiator.
    enum iscsi_next next;
    struct iscsi_out out;
    uint8_t sense[ISCSI_SENSE_LEN_LEN + SCSI_SENSE_EMIT_MAX];
    struct list_link link; // free

    struct iscsi_task_stream {
        bool is_receiving; // a PDU with some of its data is coming
        bool is_open;      // unsolicited PDUs with more follow
        bool is_wanted;    // the device fetches
        bool is_over;      // it has, or needs none: what comes is dropped
        bool has_answer;   // which goes when nothing comes any more
        uint32_t filled;   // octets that have come, in order
        uint32_t asked;    // up to here by R2T
        uint32_t r2tsn, datasn;
        uint8_t *staged; // what came before the device fetched; NULL: nothing did
        uint32_t delivered, deliver_datasn;
    } stream;
};

struct iscsi_login {
    enum iscsi_stage stage;
    bool has_begun, has_name, is_discovery, has_said_group;
    bool has_identity; // the first request is over, so who asks for what stays as it is
    bool has_oneshot;  // the initiator lends memory (X-invalid.weft.oneshot)
    struct chap chap;
    const char *why; // it is refused
    uint8_t isid[ISCSI_ISID_LEN];
    uint16_t cid;
    uint32_t itt;
    char initiator[CLIENT_IDENTITY_MAX];
    char target[ISCSI_NAME_MAX];
    uint8_t flags; // of the request that is to be answered
};

// Task management that waits until the tasks it aborted have ended: its session's own, and where it
// spans all sessions those of others that are with the volume.
struct iscsi_management {
    bool is_used, is_done;
    uint8_t function;
    uint32_t lun;   // of which unit; of all, if of the target
    uint64_t abort; // the device's last; what is aborted later is not waited for. 0: nothing is
    uint32_t itt;
    enum iscsi_task_response response;
};

enum { ISCSI_MANAGEMENT_COUNT = 4 };

struct iscsi_connection {
    struct iscsi_door *door;
    struct iscsi *iscsi;
    enum iscsi_state state;
    struct iscsi_login login;
    struct iscsi_parameters parameters;
    uint16_t tsih;

    struct client client;
    struct it_nexus it;
    struct list_link units;
    enum connect_status refusal; // of the last unit that it was refused

    uint32_t statsn, expcmdsn;
    unsigned window_used, immediate_used; // tasks that have their places there
    unsigned task_count;
    struct iscsi_task *tasks; // ISCSI_TASK_COUNT, of a normal session
    struct list_link free;
    struct iscsi_management managements[ISCSI_MANAGEMENT_COUNT];
    unsigned management_count; // that wait; each is sure of a control for its answer

    struct list_link outs;
    struct iscsi_control *controls; // ISCSI_CONTROL_COUNT
    struct list_link free_controls;
    unsigned free_control_count;
    uint32_t control_data_len;

    // A request of texts, of login or later, in several PDUs: up to ISCSI_TEXT_MAX octets.
    char *request;
    uint32_t request_len;
    bool awaits_text; // the rest, or what else the initiator has to say

    // The answer to a text request, in parts; or to the last one of login.
    char *answer;
    uint32_t answer_len, answer_at;

    struct list_link link; // all of the target's
};

// What a connection asks of whoever carries its PDUs.
struct iscsi_carrier {
    const char *name; // what the operator reads
    const struct tts_for_uma *tts;
    bool is_oneshot; // initiators lend memory, and data move by RDMA
    const struct scsi_transport *transport;
    // Something is to be sent, or its state has changed.
    void (*touch)(struct iscsi_connection *c);
    // Where the initiator came to. False: not over IP.
    bool (*own_end)(const struct iscsi_connection *c, struct address_end *ret);
    // A SCSI Command becomes the task, to which belongs what came with it; NULL: it is refused.
    void (*on_command)(struct iscsi_connection *c, const struct iscsi_header *h,
                       struct iscsi_task *task);
    // Nothing of the task is under way: what the carrier has for it goes.
    void (*on_task_free)(struct iscsi_task *task);
};

// One way in to the target: a TTS of the UMA.
struct iscsi_door {
    const struct iscsi_carrier *carrier;
    struct iscsi *iscsi;
    struct iscsi_counters counters;
};

struct iscsi {
    struct iscsi_parts parts;
    struct scsi_target *target;
    struct tts_for_cta for_cta;
    uint16_t tsih; // the last that was given
    struct list_link connections;
};

static inline void iscsi_touch(struct iscsi_connection *c)
{
    c->door->carrier->touch(c);
}

static inline bool iscsi_is_open(const struct iscsi_connection *c)
{
    return c->state == ISCSI_LOGIN || c->state == ISCSI_OPEN;
}

static inline struct iscsi_key_session iscsi_key_session(const struct iscsi_connection *c)
{
    return (struct iscsi_key_session){.is_open = c->state == ISCSI_OPEN,
                                      .is_discovery = c->login.is_discovery,
                                      .is_oneshot = c->door->carrier->is_oneshot};
}

// Octets of data in a PDU that is no task's. Over RDMA either end has receives of this length.
static inline uint32_t iscsi_control_data_max(const struct iscsi_connection *c)
{
    uint32_t most = c->parameters.peer_receive_max;
    bool is_less = c->door->carrier->is_oneshot && most > ISCSI_COLLECTED_MAX;
    return is_less ? ISCSI_COLLECTED_MAX : most;
}

// A PDU may lead to this many controls, and answers.
static inline bool iscsi_has_room(const struct iscsi_connection *c)
{
    return c->free_control_count >= ISCSI_CONTROL_SPARE + c->management_count &&
           c->control_data_len <= ISCSI_CONTROL_DATA_MAX;
}

static inline uint32_t iscsi_maxcmdsn(const struct iscsi_connection *c)
{
    return c->expcmdsn + (ISCSI_WINDOW - c->window_used) - 1;
}

/* ---- iscsi.c --------------------------------------------------------------------------------- */

// The initiator hears that the session is about to end, if it has begun, and then it does.
void iscsi_say_goodbye(struct iscsi_connection *c);
// Ends all sessions with the target of this one.
void iscsi_target_end(struct iscsi_connection *c);
// What carriers connect to the UMA; `ctx` is their struct iscsi_door.
void iscsi_door_advertise(void *ctx, const struct resource_table *table);
void iscsi_door_on_connected(void *ctx, struct connect_request *request);
void iscsi_door_drop(void *ctx, uint32_t connection);
// All of its sessions are told, and leave.
void iscsi_door_stop(struct iscsi_door *door);
// Of its sessions, whatever carries them, and of the target, which are the same at every door.
void iscsi_door_figures(const struct iscsi_door *door, tts_figure *figure, void *figure_ctx);

// A connection that is all zero. False: no memory; it is given back by iscsi_connection_fini too.
bool iscsi_connection_init(struct iscsi_connection *c, struct iscsi_door *door);
// Its carrier is gone: is nothing of it under way any more? Then the UMA has been told.
bool iscsi_connection_is_over(struct iscsi_connection *c);
// Its memory, whatever is under way.
void iscsi_connection_fini(struct iscsi_connection *c);

/* ---- session.c ------------------------------------------------------------------------------- */

// Is it a volume of this target?
bool iscsi_is_of(const struct resource *row, const char *target);
bool iscsi_may_see(const struct iscsi_connection *c, const struct resource *row);
// What it comes to that the UMA will not have a connection.
struct iscsi_refusal {
    enum iscsi_login_status status;
    const char *why;
};
const struct iscsi_refusal *iscsi_refusal_of(enum connect_status status);
// One line for the operator, about an initiator.
void iscsi_say(const struct iscsi_connection *c, const char *what);
// Nothing is taken any more; when all is sent the connection ends.
void iscsi_leave(struct iscsi_connection *c);
// The initiator does not keep to the protocol.
enum iscsi_verdict iscsi_malformed(struct iscsi_connection *c);
// False: no memory.
bool iscsi_tasks_init(struct iscsi_connection *c);
// Appends to what has come of the request of texts. False: too much, or no memory.
bool iscsi_request_append(struct iscsi_connection *c, const uint8_t *data, uint32_t len);
// Something of it may be under way: it has a target's units, or is about to.
bool iscsi_is_session(const struct iscsi_connection *c);
// Is there a session that an initiator names so?
bool iscsi_is_there(const struct iscsi *iscsi, const uint8_t isid[ISCSI_ISID_LEN], uint16_t tsih);
// Ends other sessions of the same initiator port with the same target. True: one is not over yet.
bool iscsi_reinstate(struct iscsi_connection *c);

/* ---- unit.c ---------------------------------------------------------------------------------- */

// Asks for all volumes of the login's target that the initiator may use. CONNECT_OK: there is one.
enum connect_status iscsi_units_connect(struct iscsi_connection *c);
// Asks for those that the table has and the session lacks.
void iscsi_units_look(struct iscsi_connection *c, const struct resource_table *table);
// The UMA has answered.
void iscsi_unit_on_connected(struct iscsi_unit *unit);
// Its volume goes. Is it the last of the session?
bool iscsi_unit_leave(struct iscsi_unit *unit);
bool iscsi_has_unit(const struct iscsi_connection *c, enum iscsi_unit_state state);
// Those that leave and whose commands have ended, end; carriers call it when they are touched.
void iscsi_units_settle(struct iscsi_connection *c);
// The initiator is gone: what waits at the CTA ends.
void iscsi_units_abandon(struct iscsi_connection *c, instant_ns now);
// No command is under way: all end. False: the UMA has yet to answer.
bool iscsi_units_end(struct iscsi_connection *c);
// Their memory, whatever is under way.
void iscsi_units_fini(struct iscsi_connection *c);

/* ---- login.c --------------------------------------------------------------------------------- */

enum iscsi_verdict iscsi_take_login(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now);
// A session is over: logins that waited for that go on.
void iscsi_logins_go_on(struct iscsi *iscsi);
// The UMA has answered for all units.
void iscsi_answer_connect(struct iscsi_connection *c);

/* ---- discovery.c ----------------------------------------------------------------------------- */

enum iscsi_verdict iscsi_take_text(struct iscsi_connection *c, const struct iscsi_header *h,
                                   const uint8_t *data, instant_ns now);

/* ---- phase.c --------------------------------------------------------------------------------- */

enum iscsi_pdu_kind {
    ISCSI_PDU_UNKNOWN,   // there is none of it in this phase
    ISCSI_PDU_COLLECTED, // taken with its data, of which there are ISCSI_COLLECTED_MAX at most
    ISCSI_PDU_COMMAND,   // data may follow
    ISCSI_PDU_DATA,      // of a command; over a stream alone
};

enum iscsi_pdu_kind iscsi_pdu_kind(const struct iscsi_connection *c, uint8_t opcode);
// Is this the next command, by its number? If not, it is to be ignored.
bool iscsi_is_next(struct iscsi_connection *c, const struct iscsi_header *h);
// Takes a PDU that is known here and the next; of one that is collected `data` are there.
enum iscsi_verdict iscsi_take_pdu(struct iscsi_connection *c, const struct iscsi_header *h,
                                  const uint8_t *data, instant_ns now);

/* ---- command.c ------------------------------------------------------------------------------- */

enum iscsi_verdict iscsi_take_command(struct iscsi_connection *c, const struct iscsi_header *h,
                                      const uint8_t *data, instant_ns now);
enum iscsi_verdict iscsi_take_management(struct iscsi_connection *c, const struct iscsi_header *h,
                                         const uint8_t *data, instant_ns now);
struct iscsi_task *iscsi_task_find(const struct iscsi_connection *c, uint32_t itt);
// Of a struct scsi_transport: carriers let the target go on when they are touched.
void iscsi_task_on_turn(struct scsi_task *scsi);
// It is over, as soon as the PDU of it that has begun to go has gone.
void iscsi_task_free(struct iscsi_task *task);
// The connection is gone: whatever is under way on it ends.
void iscsi_tasks_abandon(struct iscsi_connection *c, instant_ns now);

/* ---- form.c: a PDU whose turn has come ------------------------------------------------------- */

// Then it is formed, so that its numbers are those of that moment.
void iscsi_put_numbers(struct iscsi_connection *c, uint8_t *head, bool takes_status);
// Its place is free: the numbers that follow say so.
void iscsi_task_leave_place(struct iscsi_task *task);
// How many octets more or fewer there would be, at `offset`.
void iscsi_put_residual(const struct iscsi_task *task, uint8_t *head, unsigned offset);
// A SCSI Response.
void iscsi_form_response(struct iscsi_task *task);
// Numbers of what queue.c has put down.
void iscsi_form_control(struct iscsi_connection *c, struct iscsi_out *out);

/* ---- queue.c --------------------------------------------------------------------------------- */

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
