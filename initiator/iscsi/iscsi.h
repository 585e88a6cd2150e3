// An iSCSI initiator over one-shot RDMA: a session with one logical unit on one queue pair. Each
// command is one Send that lends the memory of its data, and one Send that answers and closes it;
// the data move by RDMA Reads and Writes of the target's. docs/iscsi.md has the wire.
//
//     session.h   what is said and heard: PDUs, numbers, login; no connection
//     proof.h     of the login, how it proves who it is
//     connect.c   the connection, by librdmacm
//     queue.c     commands and answers on the queue pair
//     iscsi.c     its life, and its progress
//
// Nothing here waits but for the addresses of names, and iscsi_initiator_log_out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"

enum { ISCSI_INITIATOR_DEPTH_MAX = 256 };

struct iscsi_initiator;

struct iscsi_initiator_attr {
    const char *host, *port;
    const char *target, *name; // of the target, and of this initiator
    const char *user, *secret; // what it is called by CHAP, and proves it by; NULL: nothing
    const char *target_user, *target_secret; // likewise of the target; NULL: it need not prove it
    uint8_t isid[ISCSI_ISID_LEN];
    uint16_t lun;
    unsigned depth; // requests at a time
};

enum iscsi_direction { ISCSI_NO_DATA, ISCSI_FROM_TARGET, ISCSI_TO_TARGET };

// A command and its answer. From submit until on_end it and its data are the initiator's. Data from
// the target that it does not write are zeroes, whatever it answers.
struct iscsi_request {
    uint8_t cdb[SCSI_CDB_LEN];
    enum iscsi_direction direction;
    void *data;
    uint32_t data_len;

    int error; // 0, or a negative errno: -EREMOTEIO, the target has failed; -ECANCELED, a reset
    uint8_t status;
    uint32_t residual;
    uint8_t sense[SCSI_SENSE_MAX];
    uint32_t sense_len;

    void (*on_end)(struct iscsi_request *request);
    void *context;
};

struct iscsi_initiator_counters {
    uint64_t commands;
    uint64_t oneshots; // commands that lent memory
    uint64_t closes;   // answers that closed it
    uint64_t revokes;  // it was taken back: the answer did not, or the command was aborted
    uint64_t sends;    // PDUs of all kinds, those of commands among them
    uint64_t strange;  // answers to no command
};

enum iscsi_initiator_state {
    ISCSI_INITIATOR_BEGINS,
    ISCSI_INITIATOR_READY,
    ISCSI_INITIATOR_LOST, // iscsi_initiator_why says why; requests will not end any more
};

// Begins to connect and to log in. NULL with the reason.
struct iscsi_initiator *iscsi_initiator_begin(const struct iscsi_initiator_attr *attr,
                                              struct why *ret_why);
// Of requests that have not ended none will, and their memory is nobody else's any more.
void iscsi_initiator_end(struct iscsi_initiator *initiator);
// Says that the session is over, and waits for the answer for a moment.
void iscsi_initiator_log_out(struct iscsi_initiator *initiator);

// Readable when poll has something to do.
int iscsi_initiator_fd(const struct iscsi_initiator *initiator);
// Takes what has come, or so much of it that a target that never ceases cannot hold the caller; the
// descriptor is readable then. `looks`: at the descriptors too. Requests end in here.
enum iscsi_initiator_state iscsi_initiator_poll(struct iscsi_initiator *initiator, bool looks);
enum iscsi_initiator_state iscsi_initiator_state(const struct iscsi_initiator *initiator);
const char *iscsi_initiator_why(const struct iscsi_initiator *initiator);
const struct iscsi_initiator_counters *iscsi_initiator_counters(
    const struct iscsi_initiator *initiator);

// 0; -EAGAIN: again when another one has ended; -ENOTCONN; what weft_oneshot_post says.
int iscsi_initiator_submit(struct iscsi_initiator *initiator, struct iscsi_request *request);
// Resets the logical unit. When that is answered, the memory of all requests that were before it is
// taken back, they end with -ECANCELED, and `on_end` is called with an iscsi_task_response.
int iscsi_initiator_reset(struct iscsi_initiator *initiator,
                          void (*on_end)(void *context, uint8_t response), void *context);
