// What the messages of the connection manager share: the verdicts, and private data, whose length
// is not on the wire: a field always has its full length, and what is shorter is followed by zeros.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/span.h"

// name, text
#define IBCM_PARSE_VERDICTS(X)                                              \
    X(BAD_LEN, "a management datagram has 256 octets")                      \
    X(BASE_VERSION, "unknown base version")                                 \
    X(CLASS, "not of the connection manager's class")                       \
    X(CLASS_VERSION, "unknown version of the connection manager's class")   \
    X(METHOD, "not a Send")                                                 \
    X(ATTRIBUTE, "no message of the connection manager has this attribute") \
    X(ALTERNATE_PATH, "RoCE has no alternate paths to load")                \
    X(INFO_LEN, "additional information longer than its field")

enum ibcm_parse_verdict {
    IBCM_PARSE_OK,
#define X(name, text) IBCM_PARSE_##name,
    IBCM_PARSE_VERDICTS(X)
#undef X
        IBCM_PARSE_VERDICT_COUNT,
};

// The octets of a field of `field_len`, zeros behind the data, which must fit.
static inline void ibcm_field_put(uint8_t *field, size_t field_len, struct span data)
{
    CHECK(data.len <= field_len);
    if (data.len > 0) {
        memcpy(field, data.ptr, data.len);
    }
    memset(field + data.len, 0, field_len - data.len);
}
