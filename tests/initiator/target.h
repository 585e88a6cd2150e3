// A target for the tests of the initiator, in a thread of its own: a discovery controller and one
// subsystem with a disk of memory, one command after the other, and whatever misbehaviour a test
// asks for.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TARGET_DISK_LEN = 8 << 20,
    TARGET_BLOCK_LEN = 512,
    TARGET_IN_CAPSULE_LEN = 4096,
    TARGET_TRANSFER_MAX = 1 << 20,
};

#define TARGET_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-1111-2222-3333-444444444444"

// What a target answers with, and may be made to answer with otherwise, an octet at a time.
enum target_page {
    TARGET_CONTROLLER, // Identify
    TARGET_NAMESPACE,
    TARGET_DESCRIPTORS,
    TARGET_LOG_HEADER, // of the discovery log
    TARGET_LOG_ENTRY,
    TARGET_ACCEPTANCE, // private data
};

struct target_edit {
    enum target_page page;
    uint16_t offset;
    uint8_t value;
};

enum { TARGET_EDIT_MAX = 8 };

// How it is to behave; all zero: well.
struct target_wish {
    unsigned edit_count;
    struct target_edit edits[TARGET_EDIT_MAX];
    uint64_t capabilities;     // CAP; 0: its own
    uint32_t status;           // CSTS; 0: its own
    uint32_t granted;          // result of Set Features; 0: what was asked for
    uint16_t other_controller; // that Connects of I/O queues name; 0: the same
    uint16_t log_len;          // entries of the discovery log, all alike; 0: 1
    uint16_t log_status;       // of every look at it
    uint16_t reject;           // reason of a rejection of every connection
    uint16_t connect_status;   // of every Connect,
    uint64_t connect_result;   // with this result
    uint16_t io_status;        // of every I/O command
    bool has_no_capsule_room;
    bool has_no_oneshot;
    bool is_read_only;
    bool is_curious;        // a read reads the host's memory to the disk, and brings nothing
    bool leaves_open;       // answers I/O without closing what was advertised
    bool answers_strangely; // names another command in answers to I/O
    bool is_silent;         // never answers I/O
    bool is_mute;           // never answers keep-alives
    bool misnames_itself;   // Identify names another controller
    bool lists_backwards;   // the list of namespaces
    bool restless_log;      // the discovery log changes with each look
    unsigned drops_after;   // I/O commands; then it ends the connection; 0: never
};

struct target;

// Listens on a free port of 127.0.0.1. Never NULL: it fails the test.
struct target *target_start(const struct target_wish *wish);
void target_stop(struct target *target);

const char *target_port(const struct target *target);
uint8_t *target_disk(struct target *target);

// What it was told, as it came: by a queue, and by the last Set Features, Property Set and I/O.
enum { TARGET_SEEN_MAX = 3 };

struct target_seen {
    uint8_t request[32], connect[64], connect_data[1024];
    uint8_t features[64], property[64], io[64];
    uint8_t range[16]; // of a Dataset Management
};
const struct target_seen *target_seen(const struct target *target, unsigned queue);

struct target_counters {
    atomic_uint connects, io, advertised, in_capsules, keep_alives, trims, zeroes, flushes, fuas;
    atomic_uint logs;       // looks at the discovery log
    atomic_uint identifies; // of a namespace
};
const struct target_counters *target_counters(const struct target *target);
