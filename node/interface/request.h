// What every interface of the node speaks of: an operation on a range of a volume, a reference to
// a buffer in the unit's part of the pool, and how the operation ended. None of it belongs to a
// network protocol or to an I/O format: those are made from it, and turned into it, at the edges
// (the target transport services on one side, the I/O converter of the remote transport agent on
// the other).
//
//     operations    enum node_operation, node_operation_facts, enum node_flag
//     outcomes      enum node_completion, node_completion_name
//     data          struct node_buffer, struct node_extent
//     ranges        node_ranges_overlap
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

enum node_limits {
    NODE_TRANSFER_MAX = 32 << 20,      // octets of one request's buffer
    NODE_SWAP_MAX = 512 << 10,         // of the range of one NODE_COMPARE_AND_WRITE
    NODE_VOLUME_COUNT_MAX = 1024,      // of a host storage node
    NODE_UNIT_COUNT_MAX = 1024,        // RTAs of a host storage node: one for each volume
    NODE_CONNECTION_COUNT_MAX = 4096,  // at a time
    NODE_TRANSACTION_COUNT_MAX = 4096, // requests under way, of all connections
};

// A connection's number is never used twice: its lower bits are a slot that no other connection of
// the moment has. A transaction's number likewise (cta_rta.h).
enum { NODE_CONNECTION_SLOT_BITS = 12 };

static inline uint32_t node_connection_slot(uint32_t connection)
{
    return connection & (NODE_CONNECTION_COUNT_MAX - 1);
}

// Values are fixed: they cross between processes.
enum node_operation {
    NODE_READ = 0,
    NODE_WRITE = 1,
    NODE_FLUSH = 2,        // every write completed before this was submitted becomes stable
    NODE_TRIM = 3,         // the range's contents are no longer needed: advice
    NODE_WRITE_ZEROES = 4, // the range reads as zeroes: an order
    NODE_EXTENTS = 5,      // answers with an array of struct node_extent that begins at offset
    NODE_PROFILE = 6,      // answers with a struct volume_profile, probed anew
    NODE_DEVICE_OPERATION_COUNT,
    // From here on they are the CTA's, which makes them of those before: no RTA is asked for one.
    NODE_COMPARE = NODE_DEVICE_OPERATION_COUNT, // is the client's data what the range has?
    NODE_COMPARE_AND_WRITE, // the same, and if so the range gets what the client sends behind that:
                            // nothing else changes it in between
    NODE_OR_WRITE,          // the range gets all bits that it has or the client's data; likewise
    NODE_OPERATION_COUNT
};

// Values are fixed.
enum node_flag {
    NODE_FUA = 1 << 0,       // completed means stable
    NODE_NO_HOLE = 1 << 1,   // zeroes must be allocated, so that later writes find room
    NODE_FAST_ONLY = 1 << 2, // refuse (NODE_UNSUPPORTED) zeroes that cost as much as writing them
    NODE_FOR_READ = 1 << 3,  // a flush for who reads behind it: to reservations it is a read
    NODE_FLAG_ALL = (1 << 4) - 1,
};

struct node_operation_facts {
    const char *name;
    bool has_range;       // offset and len name octets of the volume
    bool moves_to_client; // the buffer is filled by the device, then read by the client
    bool moves_to_device; // the buffer is filled by the client, then read by the device
    bool changes;         // the volume may differ afterwards: refused where it is read-only
    bool reads_first; // its buffer has room behind the client's data for what the device reads, and
                      // where it changes the range nothing else does so in between
    uint16_t flags;   // those it may carry
};

// The row of the table; NULL for a number that is no operation.
const struct node_operation_facts *node_operation_facts(unsigned operation);

// How an operation ended, and whether asking again can help. Values are fixed.
enum node_completion {
    NODE_OK = 0,
    NODE_RETRY = 1,       // not now: the same request may succeed later
    NODE_MALFORMED = 2,   // no such operation, flags it cannot have, alignment, length
    NODE_RANGE = 3,       // beyond the volume's end
    NODE_UNSUPPORTED = 4, // the volume has no such operation
    NODE_READ_ONLY = 5,
    NODE_NO_SPACE = 6,    // the backing store is full
    NODE_MEDIA = 7,       // the device could not read or write there
    NODE_TRANSFER = 8,    // the data could not be moved from or to the client
    NODE_TIMED_OUT = 9,   // the deadline passed
    NODE_NO_VOLUME = 10,  // the volume is gone, or the connection has no row
    NODE_INTERNAL = 11,   // a fault of the node's own
    NODE_RESERVED = 12,   // somebody else's reservation is in the way
    NODE_MISCOMPARE = 13, // the range has something else than what was to be compared
    NODE_STANDBY = 14,    // another node serves the volume: ask that one
    NODE_COMPLETION_COUNT
};

// "ok", "media" ...; "unknown" for a number that is none.
const char *node_completion_name(unsigned completion);

// Octets of a unit's part of the pool. The books of the pool are the CTA's; everyone else takes
// references as given, and checks those that come from another process.
struct node_buffer {
    uint64_t offset; // from the start of the part
    uint32_t len;
};

// One run of a volume in the answer to NODE_EXTENTS.
struct node_extent {
    uint64_t len;
    uint32_t flags; // enum node_extent_flag
    uint32_t reserved;
};

enum node_extent_flag {
    NODE_EXTENT_HOLE = 1 << 0, // nothing is allocated
    NODE_EXTENT_ZERO = 1 << 1, // reads as zeroes
};

// Is [offset, offset + len) within `size` octets?
static inline bool node_range_is_within(uint64_t offset, uint64_t len, uint64_t size)
{
    return offset <= size && len <= size - offset;
}

// Ranges that do not wrap; an empty one overlaps nothing.
static inline bool node_ranges_overlap(uint64_t offset_a, uint64_t len_a, uint64_t offset_b,
                                       uint64_t len_b)
{
    return len_a > 0 && len_b > 0 &&
           (offset_a < offset_b ? offset_b - offset_a < len_a : offset_a - offset_b < len_b);
}
