// Packets from one process of a host to another through memory that both have: a lane, which leads
// one way. It is a ring (link/local/octet_ring.h) of records, one for each packet: a header, which
// says its path, and the packet from BTH to pad, without an ICRC. Each begins at a cache line, and
// so does what stands behind a BTH.
//
//   writer   put ... publish      copies a packet in, whole or not at all; shows what was put
//   reader   next ... give_back   hands packets out where they lie, then gives their room back
//
// **What the other side writes is hostile** (link/local/octet_ring.h). A record's header is copied
// out before it is looked at, and so are short packets, so that no message of a connection manager
// changes under who reads it. What is handed out where it lies may change while it is: who reads it
// copies its headers out before he decides about anything (wire/roce.h).
//
// No I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "base/span.h"
#include "link/local/octet_ring.h"
#include "link/local/slot.h"

// The memory, zeroed at first.
enum lane_memory_offset {
    LANE_MEMORY_IS_READ = 0,  // 64 bits, the reader's: not 0: it takes what comes
    LANE_MEMORY_RING = 128,   // control of the ring
    LANE_MEMORY_GATE = 1024,  // the reader's: the writer may write past it (link/local/slot.h)
    LANE_MEMORY_SLOTS = 1152, // in which the writer says that he does
    LANE_MEMORY_OCTETS = 4096,
    LANE_MEMORY_LEN = LANE_MEMORY_OCTETS + (1 << 20),
};

enum {
    LANE_SLOTS = 4, // threads that write past a lane at a time
    LANE_SLOT_LEN = 128,
};

enum { LANE_LAYOUT = 2 }; // of memory and records: both ends have the same

// The header of a record; numbers are big-endian.
enum lane_record_offset {
    LANE_OFF_LEN = 0,         // 32 bits: octets of the packet
    LANE_OFF_LOCAL = 4,       // 128 bits, as its sender has them
    LANE_OFF_REMOTE = 20,     // 128 bits
    LANE_OFF_SCOPE_ID = 36,   // 32 bits
    LANE_OFF_FLOW_LABEL = 40, // 32 bits
    LANE_OFF_SOURCE_PORT = 44,
    LANE_OFF_TRAFFIC_CLASS = 46,
    LANE_OFF_HOP_LIMIT = 47,
    LANE_RECORD_HEADER_LEN = 52, // four octets of zero last: with a BTH it is a cache line
};

enum {
    LANE_LINE = 64,
    LANE_COPIED_LEN_MAX = 512, // packets that are copied out; a MAD is 276 octets long
    LANE_BATCH_MAX = 64,       // handed out at a time
    LANE_COPIES_LEN = LANE_BATCH_MAX * LANE_COPIED_LEN_MAX + DATAGRAM_LEN_MAX,
};

static inline struct local_gate *lane_gate(uint8_t *memory)
{
    return (struct local_gate *)(void *)(memory + LANE_MEMORY_GATE);
}

static inline struct local_slot *lane_slot(uint8_t *memory, unsigned i)
{
    return (struct local_slot *)(void *)(memory + LANE_MEMORY_SLOTS + (size_t)LANE_SLOT_LEN * i);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct lane_writer {
    uint8_t *memory;
    struct octet_ring_writer ring;
    uint32_t unshown_len; // octets put and not published
};

// `memory`: LANE_MEMORY_LEN octets, at a page.
void lane_writer_init(struct lane_writer *w, uint8_t *memory);
// The reader has taken it up.
bool lane_is_read(const struct lane_writer *w);
// Is there room for this packet?
bool lane_has_room(struct lane_writer *w, const struct datagram_tx *tx);
// `path` says what the receiver sees. False: there was no room, or the ring is broken.
bool lane_put(struct lane_writer *w, const struct datagram_tx *tx,
              const struct datagram_path *path);
// Shows the reader what was put. True: it sleeps and must be woken; said once per sleep.
bool lane_publish(struct lane_writer *w);
// The reader sleeps, as far as is known.
bool lane_reader_sleeps(const struct lane_writer *w);
// The reader wrote nonsense: nothing has room any more.
static inline bool lane_writer_is_broken(const struct lane_writer *w)
{
    return w->ring.verdict != OCTET_RING_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct lane_reader {
    uint8_t *memory;
    struct octet_ring_reader ring;
    size_t lent_len; // octets of records handed out, not given back
    uint8_t *copies; // LANE_COPIES_LEN octets; several readers may have the same
    size_t copied_len;
    bool is_broken;
};

void lane_reader_init(struct lane_reader *r, uint8_t *memory, uint8_t *copies);
// Says to the writer that what it puts is read from now on.
void lane_take_up(struct lane_reader *r);
// The next packet, until `give_back`; of a batch no more than LANE_BATCH_MAX. False: there is none,
// or the writer wrote nonsense (`is_broken`), and then none comes any more.
bool lane_next(struct lane_reader *r, struct datagram_rx *ret);
// All that was handed out.
void lane_give_back(struct lane_reader *r);
// Something has come that was not handed out, or nonsense has.
bool lane_has_news(struct lane_reader *r);
// From now on the writer is told to wake us. False: there is news, or something is handed out, and
// nobody is to sleep.
bool lane_sleep(struct lane_reader *r);
void lane_rise(struct lane_reader *r);
