// The keys of login (RFC 7143 section 13): what both ends want of each comes to one value.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/iscsi_text.h"

enum iscsi_key_limits {
    ISCSI_RECEIVE_MAX = 256 << 10, // octets of data in a PDU, as we take them
    ISCSI_FIRST_BURST_MAX = 64 << 10,
    ISCSI_BURST_MAX = 1 << 20,
    ISCSI_LOGIN_DATA_MAX = 8192, // of a PDU before the parties have agreed
};

// What holds for a session, with the values of the standard until something else is agreed on.
struct iscsi_parameters {
    uint32_t peer_receive_max; // octets of data in a PDU, as the initiator takes them
    uint32_t first_burst;
    uint32_t max_burst;
    uint32_t has_header_digest, has_data_digest;
    uint32_t has_immediate_data;
    uint32_t has_initial_r2t;
    uint32_t time_to_wait, time_to_retain;
    uint32_t said; // which keys the login has had, a bit each
};

extern const struct iscsi_parameters iscsi_parameters_default;

enum iscsi_key_verdict {
    ISCSI_KEY_TAKEN,   // and answered, if it wants one
    ISCSI_KEY_UNKNOWN, // not one of these
    ISCSI_KEY_REFUSED, // a value that cannot be, or said before
};

// What a key means depends on the session.
struct iscsi_key_session {
    bool is_open; // the login is over: what was agreed on there stays
    bool is_discovery;
    bool is_oneshot; // data move by RDMA
};

enum iscsi_key_verdict iscsi_key_take(const struct iscsi_pair *pair,
                                      struct iscsi_key_session session,
                                      struct iscsi_parameters *parameters,
                                      struct iscsi_text_out *out);

// The initiator lends memory with its commands; a key of sessions over RDMA alone (docs/iscsi.md).
#define ISCSI_ONESHOT_KEY "X-invalid.weft.oneshot"
