// A target for the tests of the iSCSI initiator over one-shot RDMA, in a thread of its own: a disk
// of memory, READ(16) and WRITE(16), and whatever misbehaviour a test asks for.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DISK_BLOCK_LEN = 512, DISK_LEN = 4 << 20 };

// How it is to behave; all zero: well.
struct iscsi_target_wish {
    const char *keys; // its answer to a login, with a zero behind each; NULL: Yes
    uint32_t keys_len;
    uint16_t login_status;
    uint32_t wrong_tag;    // is added to the tag of answers that close nothing
    uint32_t spare_octets; // written beyond the memory of a read
    uint32_t residual;     // of every answer
    uint8_t response;      // of every answer
    uint8_t status;        // likewise, with sense data of one octet 0x70
    unsigned silent_after; // commands; then it says nothing more; 0: never
    unsigned strays;       // answers to no command before that to the first
    bool moves_nothing;    // answers without having read or written
    bool closes_another;   // of two commands the second's answer closes the first's memory
    bool leaves_open;      // answers without closing
    bool ends;             // says so in an asynchronous message at the first command
    bool pings;            // with each answer
    bool cuts_short;       // answers have fewer octets than they say
};

struct iscsi_target_counters {
    unsigned logins, commands, advertised, pongs, resets, logouts;
    uint32_t last_cmdsn;
};

struct iscsi_target;

// Listens on a free port of 127.0.0.1. Never NULL: it fails the test.
struct iscsi_target *iscsi_target_start(const struct iscsi_target_wish *wish);
void iscsi_target_stop(struct iscsi_target *target);
const char *iscsi_target_port(const struct iscsi_target *target);
// How many strays have gone.
unsigned iscsi_target_strays(const struct iscsi_target *target);
uint8_t *iscsi_target_disk(struct iscsi_target *target);
const struct iscsi_target_counters *iscsi_target_counters(const struct iscsi_target *target);
