// The target of a minimal block protocol, without its transport: a disk in memory, and the order in
// which a command is carried out. Reads push the blocks into the initiator's memory and answer
// behind them; writes pull them, and answer when they are here.
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

struct target_task {
    bool is_busy;
    struct iscsi_command command;
    struct target_memory memory;
    uint8_t *blocks; // on the disk
    uint32_t len;
    uint8_t answer[ISCSI_PDU_LEN];
};

struct target_port {
    // RDMA Write of the task's blocks. What is answered behind it comes behind it.
    void (*push)(void *ctx, struct target_task *task);
    // RDMA Read into the task's blocks; target_on_pulled follows.
    void (*pull)(void *ctx, struct target_task *task);
    // Sends `answer`, which frees what the initiator set up for the command, if the way it is done
    // has that. The task is free when the transport says so: target_on_answered.
    void (*answer)(void *ctx, struct target_task *task);
    void *ctx;
};

struct target {
    struct target_port port;
    uint8_t *disk;
    uint64_t disk_len; // octets
    uint32_t stat_sn;
    struct target_task tasks[TARGET_TASK_MAX];
    uint64_t done;
    const char *failure;
};

void target_init(struct target *t, const struct target_port *port, uint8_t *disk,
                 uint64_t disk_len);

// A PDU has come, and with it where the initiator's memory is.
void target_on_command(struct target *t, const uint8_t *pdu, size_t len,
                       struct target_memory memory);
void target_on_pulled(struct target *t, struct target_task *task);
void target_on_answered(struct target *t, struct target_task *task);
