// What a seed draws for two processes of one host: how their devices are set, and a program of work
// requests for each. Both draw the same, so each knows what the other sends, and what its own
// memory has to hold, without being told.
//
// An octet of a message says which work request brought it: its number, mixed with its place.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "wq/wqe.h"

enum {
    DRAWN_OPS_MAX = 240, // numbers fit in an octet; 0 is what was there before
    DRAWN_OPEN_MAX = 16, // posted and not known to be complete
    DRAWN_SLOT_LEN = 24 * 1024,
    DRAWN_SLOT_COUNT = 6, // what the peer writes and reads; atomics have the first alone
    DRAWN_TARGET_LEN = DRAWN_SLOT_COUNT * DRAWN_SLOT_LEN,
    DRAWN_ATOMIC_COUNT = 16, // words at the beginning of the first slot
    DRAWN_SGE_MAX = 6,
    DRAWN_INLINE_MAX = 256,
    DRAWN_WINDOW_COUNT = 3,
    DRAWN_PRIVATE_LEN = 4096, // memory that is open for Reads or Writes, never both
};

// How a connection ends.
enum drawn_ending {
    ENDING_QUIET,       // both programs come to their end
    ENDING_WRONG_KEY,   // the last work request of one of them names nothing
    ENDING_BOUNDS,      // ... begins inside and ends outside
    ENDING_RIGHTS,      // ... names memory that is not open for that
    ENDING_INVALIDATED, // ... a window that it has invalidated
    ENDING_WITHDRAWN,   // one side deregisters what the other one writes and reads
    ENDING_COUNT,
};

struct drawn_op {
    enum wqe_opcode opcode;
    uint32_t flags; // enum wqe_flags
    uint32_t len;
    uint32_t at;       // in the peer's target
    int window;        // of the peer, by which it goes or which it invalidates; -1: the region
    bool is_wrong;     // as the ending says
    bool is_of_atomic; // a Read of one's word
    uint32_t immediate;
    uint64_t compare_add, swap;
    uint64_t original; // of an atomic, or a Read of one: what it finds
    uint32_t parts[DRAWN_SGE_MAX], part_count;
};

struct drawn_program {
    struct drawn_op ops[DRAWN_OPS_MAX + 1]; // by number, from 1 on
    unsigned count;
    unsigned message_count;               // that take a receive
    uint64_t atomics[DRAWN_ATOMIC_COUNT]; // what it leaves in the peer's
};

// How one end is set, and how its program behaves.
struct drawn_end {
    unsigned rights; // enum key_right
    bool is_asleep;  // waits for events; else it polls
    bool has_srq, sq_sig_all;
    uint32_t receive_rate; // of 1024 looks
    uint32_t burst_max;    // work requests that are posted together
    uint32_t think_us;     // a pause, in which the peer goes to sleep; 0: none
    uint16_t reads;        // IRD and ORD
};

struct drawn {
    uint64_t seed;
    uint32_t ring_len;
    bool crc_within_host, write_flush;
    enum drawn_ending ending;
    unsigned culprit;      // whose fault it is
    unsigned withdrawn_at; // ENDING_WITHDRAWN: so many of its own are complete
    struct drawn_end ends[2];
    struct drawn_program programs[2];
};

void drawn_init(struct drawn *d, uint64_t seed);
void drawn_print(const struct drawn *d); // what to expect of it

// The first value of an atomic.
uint64_t drawn_atomic(unsigned index);
bool drawn_takes_receive(const struct drawn_op *op);
bool drawn_brings(const struct drawn_op *op); // octets from the peer

// What the work request of that number leaves at a place, and which one left this octet there.
static inline uint8_t drawn_octet(uint8_t number, uint32_t at)
{
    return number ^ (uint8_t)((at * 0x9e3779b1U) >> 24);
}

static inline uint8_t drawn_number(uint8_t octet, uint32_t at)
{
    return drawn_octet(octet, at);
}

// Does it write there?
static inline bool drawn_covers(const struct drawn_op *op, uint32_t at)
{
    return (op->opcode == WQE_RDMA_WRITE || op->opcode == WQE_RDMA_WRITE_WITH_IMM) &&
           !op->is_wrong && at - op->at < op->len;
}
