// A capture file, octet by octet: pcap (both octet orders, micro- and nanoseconds) and pcapng
// (sections of both orders, any resolution of time). Which bits of a packet are what is frame.h's.
//
//   OFFSET SIZE FIELD of pcap's file              OFFSET SIZE FIELD of pcapng's block
//    0      4   magic: order and unit of time      0      4   type
//    4      2   major version: 2                   4      4   length n of it, a multiple of 4
//    6      2   minor version                      8    n-12  body
//    8      8   reserved                         n-4      4   length again
//   16      4   longest packet
//   20      4   link type (lower 16 bits)        OFFSET SIZE FIELD of pcap's packet
//                                                  0      8   seconds; micro- or nanoseconds
//                                                  8      4   octets here
//                                                 12      4   octets that the packet had
//
// pcapng's blocks may be weft's records of what no packet shows, too (wire/journal.h).
//
// No I/O: who has the file gives octets and is told how many were used, or how many are needed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/time.h"
#include "wire/journal.h"

enum {
    CAPTURE_PACKET_MAX = 1 << 20,                // octets of a packet; more is refused
    CAPTURE_NEED_MAX = CAPTURE_PACKET_MAX + 512, // never more octets at a time are needed
    CAPTURE_INTERFACE_MAX = 64,                  // of one pcapng section
};

enum capture_verdict {
    CAPTURE_PACKET,     // *ret_packet holds, until the octets given go away
    CAPTURE_RECORD,     // `record` holds, until the next call
    CAPTURE_NOTHING,    // octets were used, or thrown away; go on
    CAPTURE_MORE,       // `needed` octets must be there; at the end of the file: it is cut
    CAPTURE_FOREIGN,    // neither pcap nor pcapng
    CAPTURE_VERSION,    // of another version
    CAPTURE_TOO_LONG,   // a packet of more than CAPTURE_PACKET_MAX octets
    CAPTURE_BLOCK,      // a block whose lengths do not agree
    CAPTURE_INTERFACE,  // a packet of an interface that was not described
    CAPTURE_INTERFACES, // more interfaces than are kept
    CAPTURE_VERDICT_COUNT,
};
// A sentence for people, without a full stop.
const char *capture_verdict_name(enum capture_verdict verdict);

struct capture_packet {
    uint64_t number; // from 1, as other programs count
    instant_ns at;   // since 1970
    uint32_t link_type;
    struct span octets; // what was captured
    uint32_t len;       // what the packet had, at least as many
};

struct capture_record {
    uint64_t number; // from 1, of those in the file
    instant_ns at;   // since 1970
    enum journal_parse_verdict verdict;
    struct journal_record what; // with JOURNAL_PARSE_OK
};

// Why it cannot be read, a sentence for people without a full stop; NULL: it was.
const char *capture_record_fault(const struct capture_record *record);

struct capture_interface {
    uint32_t link_type;
    uint32_t snap_len;      // 0: no bound
    uint64_t ticks;         // in a second; 0: 2^ticks_shift
    uint8_t ticks_shift;    // of those that count in binary
    uint64_t offset_second; // added to every time
};

enum capture_format { CAPTURE_UNKNOWN, CAPTURE_PCAP, CAPTURE_PCAPNG };

struct capture {
    enum capture_format format;
    bool is_swapped; // the other octet order than this machine's
    size_t needed;   // with CAPTURE_MORE
    uint64_t skip;   // octets of a block that is passed over
    uint64_t packet_count, record_count;
    struct capture_record record;
    bool is_in_record;        // with CAPTURE_MORE: what is not there is of a record
    unsigned interface_count; // of pcap: one
    struct capture_interface interface[CAPTURE_INTERFACE_MAX];
};

// Begins all zero. Takes one packet, or block, from `octets`, which continue where the last call's
// `*ret_used` ended. After a refusal the same verdict would come for ever.
enum capture_verdict capture_next(struct capture *c, struct span octets, size_t *ret_used,
                                  struct capture_packet *ret_packet);
