// The messages of InfiniBand's connection manager, whichever it is: a MAD of class 7, of which the
// attribute says which. Each has a file pair: ibcm_req (REQ), ibcm_rep (REP), ibcm_rej (REJ),
// ibcm_ids (RTU, DREQ, DREP, MRA), ibcm_sidr (SIDR_REQ, SIDR_REP). What they say to programs that
// speak of IP addresses is ip_cm.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/ib_time.h"
#include "wire/ibcm_ids.h"
#include "wire/ibcm_parts.h"
#include "wire/ibcm_rej.h"
#include "wire/ibcm_rep.h"
#include "wire/ibcm_req.h"
#include "wire/ibcm_sidr.h"

// name, attribute
#define IBCM_KINDS(X) \
    X(REQ, 0x10)      \
    X(MRA, 0x11)      \
    X(REJ, 0x12)      \
    X(REP, 0x13)      \
    X(RTU, 0x14)      \
    X(DREQ, 0x15)     \
    X(DREP, 0x16)     \
    X(SIDR_REQ, 0x17) \
    X(SIDR_REP, 0x18)

enum ibcm_kind {
#define X(name, attribute) IBCM_##name,
    IBCM_KINDS(X)
#undef X
        IBCM_KIND_COUNT,
};

struct ibcm_message {
    enum ibcm_kind kind;
    uint64_t transaction_id; // an answer has that of what it answers
    union {
        struct ibcm_req req;
        struct ibcm_mra mra;
        struct ibcm_rej rej;
        struct ibcm_rep rep;
        struct ibcm_ids ids; // RTU, DREP
        struct ibcm_dreq dreq;
        struct ibcm_sidr_req sidr_req;
        struct ibcm_sidr_rep sidr_rep;
    };
};

// Reads a whole MAD. `*ret` holds with IBCM_PARSE_OK only; its spans lie in `mad`.
enum ibcm_parse_verdict ibcm_message_parse(struct span mad, struct ibcm_message *ret);

// Writes MAD_LEN octets and returns that number. What the message has must fit into its fields.
size_t ibcm_message_emit(const struct ibcm_message *m, uint8_t *buf);

// One trace line. Returns `buf`.
const char *ibcm_message_format(const struct ibcm_message *m, char *buf, size_t len);

const char *ibcm_kind_name(enum ibcm_kind kind);
const char *ibcm_parse_verdict_name(enum ibcm_parse_verdict verdict);
