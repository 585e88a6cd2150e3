// The target of a minimal block protocol, without its transport: a disk in memory, and the order in
// which a command is carried out. Reads push the blocks into the initiator's memory and answer
// behind them; writes pull them, and answer when they are here.
//
//     target_on_command     a PDU has come: what the transport is to do for it
//     target_on_pulled      the blocks of a write are here: what it is to do next
//     target_on_answered    the answer has left: the task is free
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/iscsi.h"

enum { TARGET_TASK_MAX = 256 };

// Where the initiator's memory can be reached.
struct target_memory {
    uint32_t stag;
    uint64_t to; // of its first octet
};

// What the transport is to do for a task.
enum target_step {
    TARGET_PUSH,   // RDMA Write of its blocks, and send the answer, which comes behind them
    TARGET_PULL,   // RDMA Read into its blocks; then target_on_pulled
    TARGET_ANSWER, // send the answer
};

struct target_task {
    bool is_busy;
    enum target_step step;
    struct iscsi_command command;
    struct target_memory memory;
    uint8_t *blocks; // on the disk
    uint32_t len;
    // Sending it frees what the initiator set up for the command, if the way it is done has that.
    uint8_t answer[ISCSI_PDU_LEN];
};

struct target {
    uint8_t *disk;
    uint64_t disk_len; // octets
    uint32_t stat_sn;
    struct target_task tasks[TARGET_TASK_MAX];
    uint64_t done;
    const char *failure;
};

void target_init(struct target *t, uint8_t *disk, uint64_t disk_len);

// A PDU has come, and with it where the initiator's memory is. NULL: `failure` says why.
struct target_task *target_on_command(struct target *t, const uint8_t *pdu, size_t len,
                                      struct target_memory memory);
void target_on_pulled(struct target *t, struct target_task *task);
void target_on_answered(struct target *t, struct target_task *task);
