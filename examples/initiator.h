// The initiator of a minimal block protocol, without its transport: it makes iSCSI commands that
// write blocks and read them back, keeps `depth` of them outstanding, and compares what comes.
//
// A transport makes the memory of a command reachable, carries the PDU, and frees what it held when
// the answer is there. No I/O here: the same code runs over verbs (block_initiator.c) and in the
// simulator (tests/sim/test_oneshot.c).
//
//     initiator_next           the command to submit next, again and again until there is none
//     initiator_on_answer      a PDU has come: whose it is; the transport frees what that held
//     initiator_on_released    ... has done so: there may be a next one
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "examples/iscsi.h"

enum {
    INITIATOR_DEPTH_MAX = 256,
    INITIATOR_PIECES_MAX = 64, // elements of one command's scatter list
};

struct initiator_command {
    unsigned slot;   // 0 .. depth - 1: has blocks and memory of its own
    uint32_t cmd_sn; // its number, and its task tag: the reference
    bool is_write;
    bool is_answered;
    uint8_t status;                            // enum iscsi_status, once answered
    uint32_t version;                          // of the blocks' content
    struct iovec memory[INITIATOR_PIECES_MAX]; // what the target reads or writes
    unsigned memory_count;
    uint8_t pdu[ISCSI_PDU_LEN];
    double started_at_s; // for who measures
};

struct initiator_options {
    unsigned depth;       // commands outstanding at a time
    uint32_t command_len; // octets of data, a multiple of ISCSI_BLOCK_LEN
    unsigned pieces;      // elements of each command's scatter list, 1 .. INITIATOR_PIECES_MAX
    bool verify;          // make and compare content: off to measure the transport alone
    uint64_t count;       // commands in all
};

struct initiator {
    struct initiator_options options;
    uint8_t *memory; // depth * command_len octets, lent to the target piece by piece
    struct initiator_command commands[INITIATOR_DEPTH_MAX];
    unsigned idle[INITIATOR_DEPTH_MAX]; // slots of those that are not under way
    unsigned idle_count;
    uint32_t next_cmd_sn;
    uint32_t exp_stat_sn;
    uint64_t started, done;
    const char *failure; // what went wrong, NULL: nothing
};

// `memory` has initiator_memory_len octets.
static inline size_t initiator_memory_len(const struct initiator_options *options)
{
    return (size_t)options->depth * options->command_len;
}
void initiator_init(struct initiator *i, const struct initiator_options *options, uint8_t *memory);

// The next command: its memory is to be made reachable for the target, and its PDU sent. NULL: no
// more now, as `depth` and `count` have it.
struct initiator_command *initiator_next(struct initiator *i);

// A PDU has come. The command that it answers; NULL: none, `failure` says why.
struct initiator_command *initiator_on_answer(struct initiator *i, const uint8_t *pdu, size_t len);

// All that the command held is free: its content is compared, and another may come next.
void initiator_on_released(struct initiator *i, struct initiator_command *command);

static inline bool initiator_is_done(const struct initiator *i)
{
    return i->failure != NULL || i->done == i->options.count;
}
