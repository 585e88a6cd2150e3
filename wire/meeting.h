// What an initiator puts into the private data of its MPA Request where no connection manager
// connects: which queue pair of the responder it asks for, and which one of its own asks. What a
// meeting is stands in meet/meeting.h.
//
//   OFFSET SIZE FIELD
//    0      4   magic "wqp\x01", the last octet a version
//    4      4   number of the responder's queue pair
//    8      4   number of the initiator's queue pair
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    MEETING_OFF_MAGIC = 0,
    MEETING_OFF_TO = 4,
    MEETING_OFF_FROM = 8,
    MEETING_REQUEST_LEN = 12,
};
STATIC_CHECK(MEETING_OFF_FROM + 4 == MEETING_REQUEST_LEN);

struct meeting_request {
    uint32_t to_qp_num, from_qp_num;
};

enum meeting_verdict {
    MEETING_OK,
    MEETING_BAD_LEN,   // not exactly MEETING_REQUEST_LEN octets
    MEETING_BAD_MAGIC, // something else, or another version
    MEETING_VERDICT_COUNT,
};

// `*ret` holds with MEETING_OK only.
enum meeting_verdict meeting_request_parse(struct span private_data, struct meeting_request *ret);

// Writes MEETING_REQUEST_LEN octets and returns that number.
size_t meeting_request_emit(const struct meeting_request *request, uint8_t *buf);

// One trace line. Returns `buf`.
const char *meeting_request_format(const struct meeting_request *request, char *buf, size_t len);
