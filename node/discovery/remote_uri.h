// URIs of portals and discovery services, and of the devices that are found behind them:
//
//     [FILTER+]DRIVER://[USER%25PASSWORD@]HOST[:PORT]/PATTERN[?interval=DURATION&most=NUMBER&...]
//     [FILTER+]DRIVER://[USER%25PASSWORD@]HOST[:PORT]/TARGET/NUMBER[?...]
//
// DRIVER is iscsi, nvme+tcp or nvme+rdma. PATTERN has an asterisk, and the targets it matches
// (glob(7)) are asked for their units. All other parameters are those of each device.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "base/why.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"

enum remote_limits {
    REMOTE_HOST_MAX = 256,   // HOST[:PORT]
    REMOTE_TARGET_MAX = 224, // an IQN or NQN, with the terminator
    REMOTE_USER_MAX = 256,
    REMOTE_MOST_DEFAULT = 128, // volumes
    REMOTE_INTERVAL_DEFAULT_S = 30,
    REMOTE_INTERVAL_MAX_S = 24 * 3600,
};

struct remote_uri {
    char head[64];                // filters and driver
    char driver[16];              // one of three
    char user[REMOTE_USER_MAX];   // with what stands between it and the host; empty: none
    char where[REMOTE_HOST_MAX];  // HOST[:PORT]
    char pattern[UNIT_URI_MAX];   // decoded
    char rest[UNIT_URI_MAX];      // parameters of each device, with the question mark; or empty
    char initiator[UNIT_URI_MAX]; // iSCSI: that one, where it is given
    uint32_t most;
    duration_ns interval_ns;
};

bool remote_uri_is(const char *uri);

// 0, or -EINVAL with the reason.
int remote_uri_parse(const char *uri, struct remote_uri *ret, struct why *ret_why);

// The URI of a unit of a target that somebody at `where` has (empty: the one who was asked), and
// what its volume is called. False: strangers chose names that no URI of ours can have.
bool remote_uri_of(const struct remote_uri *asked, const char *where, const char *target,
                   uint32_t number, char ret_uri[UNIT_URI_MAX], char ret_name[VOLUME_NAME_MAX]);
