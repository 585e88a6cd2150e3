// Interface 275 on the side of the common transport agent, 322 on that of a remote transport agent:
// frames of 64 octets, each way, over a bus between two processes (or two agents in one).
//
//     CTA FRAME_REQUEST ──────▶ RTA   an operation, its buffer lent with it
//     CTA ◀────── FRAME_RESULT  RTA   the callback: how it ended; the buffer holds what was read
//     CTA FRAME_COMPLETION ───▶ RTA   the client has it: the RTA releases the buffer,
//     CTA ◀──────── FRAME_ACK   RTA   and says so by acknowledging
//
// Frames are numbered per direction and acknowledged by number, cumulatively, in the frames that
// go back or by FRAME_ACK alone. Who sent a frame keeps it until then and sends it again when time
// runs out; who receives one takes them in order of number and drops repeats. A request that comes
// twice is told by its transaction. Numbers begin at 1 with each process of an RTA.
//
// A transaction is a number that the CTA never uses twice: its lower NODE_TRANSACTION_SLOT_BITS are
// a slot below NODE_TRANSACTION_COUNT_MAX that no other transaction under way has.
//
// The bus is memory that the other process can write at any time: a frame is copied out first,
// then checked, and what it says is believed only as far as the receiver's own tables agree.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/time.h"
#include "node/interface/request.h"

enum { FRAME_LEN = 64, NODE_TRANSACTION_SLOT_BITS = 12 };

STATIC_CHECK(1 << NODE_TRANSACTION_SLOT_BITS == NODE_TRANSACTION_COUNT_MAX);

enum frame_kind {
    FRAME_REQUEST = 1,
    FRAME_RESULT = 2,
    FRAME_COMPLETION = 3,
    FRAME_ACK = 4, // not numbered, not kept: `sequence` is 0
    FRAME_KIND_COUNT
};

// In `flags` of any kind: the sender waits for the acknowledgement, so it must not wait for a frame
// to go back with.
enum { FRAME_WANTS_ACK = 1 << 15 };

// What fields a kind does not have are 0.
struct frame {
    uint8_t kind;           // enum frame_kind
    uint8_t operation;      // request: enum node_operation
    uint16_t flags;         // request: enum node_flag
    uint32_t sequence;      // serial number (base/serial.h)
    uint32_t ack;           // the highest number received in order from the other side
    uint32_t connection;    // request: the row in the transaction store
    uint64_t transaction;   // request, result, completion
    uint64_t offset;        // request: octets, in the volume
    uint64_t len;           // request: octets of the volume
    uint64_t buffer_offset; // request: octets, in the unit's part of the pool
    uint32_t buffer_len;    // request: octets lent; result: octets of them that are the answer
    uint16_t completion;    // result: enum node_completion; completion: whether the client has it
    uint16_t detail;        // result: for logs
    instant_ns deadline;    // request: CLOCK_MONOTONIC, the same for all processes of a machine
};

STATIC_CHECK(sizeof(struct frame) == FRAME_LEN);

static inline uint32_t frame_transaction_slot(uint64_t transaction)
{
    return (uint32_t)transaction & (NODE_TRANSACTION_COUNT_MAX - 1);
}

// One end of a bus, as an agent sees it: a port, so that agents run over shared memory, within one
// process, or over a bus of a test that loses and repeats.
struct frame_port {
    void *ctx;
    // False: no room; try again when something has been received.
    bool (*send)(void *ctx, const struct frame *frame);
    // The other side should look: after the last send of a batch.
    void (*ring)(void *ctx);
    // The next frame, copied out. False: none is there.
    bool (*receive)(void *ctx, struct frame *ret);
};
