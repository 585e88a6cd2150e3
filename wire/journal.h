// A record of what a program did, or an engine decided (base/port_journal.h), as it stands in a
// capture: the body of a pcapng block of its own, which readers that do not know its type pass
// over. The type is one of those that pcapng leaves to local use; so others may have it too, and a
// record says that it is one.
//
//   OFFSET SIZE FIELD
//    0      4   "weft"
//    4      1   version: 1
//    5      1   kind: enum journal_kind
//    6      1   opcode
//    7      1   status
//    8      4   QP number
//   12      4   key: STag, or number of a read context
//   16      8   wr_id
//   24      8   length, bytes
//   32      8   time: nanoseconds since 1970
//
// and behind that, of JOURNAL_CARRIED alone
//
//   40     16   local address           74      2   remote port
//   56     16   remote address          76      4   remote QP number
//   72      2   local port
//
// Numbers are in network order, whatever order the file has.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/port_journal.h"
#include "base/span.h"
#include "base/time.h"

#define JOURNAL_BLOCK_TYPE 0x80776674U // local use, and "wft"

enum {
    JOURNAL_OFF_MAGIC = 0,
    JOURNAL_OFF_VERSION = 4,
    JOURNAL_OFF_KIND = 5,
    JOURNAL_OFF_OPCODE = 6,
    JOURNAL_OFF_STATUS = 7,
    JOURNAL_OFF_QP_NUM = 8,
    JOURNAL_OFF_KEY = 12,
    JOURNAL_OFF_WR_ID = 16,
    JOURNAL_OFF_LEN = 24,
    JOURNAL_OFF_TIME = 32,
    JOURNAL_LEN = 40,

    JOURNAL_OFF_LOCAL = 40,
    JOURNAL_OFF_REMOTE = 56,
    JOURNAL_OFF_LOCAL_PORT = 72,
    JOURNAL_OFF_REMOTE_PORT = 74,
    JOURNAL_OFF_REMOTE_QP_NUM = 76,
    JOURNAL_MAX_LEN = 80,
};

enum journal_parse_verdict {
    JOURNAL_PARSE_OK,
    JOURNAL_PARSE_FOREIGN, // somebody else's: no fault
    JOURNAL_PARSE_VERSION,
    JOURNAL_PARSE_KIND,
    JOURNAL_PARSE_LEN, // another length than its kind has
    JOURNAL_PARSE_VERDICT_COUNT,
};
// A sentence for people, without a full stop.
const char *journal_parse_verdict_text(enum journal_parse_verdict verdict);

enum journal_parse_verdict journal_parse(struct span octets, struct journal_record *ret,
                                         instant_ns *ret_at);
// Writes at most JOURNAL_MAX_LEN octets; returns how many, a multiple of 4.
size_t journal_emit(const struct journal_record *r, instant_ns at, uint8_t *buf);
