// Device driver modules: shared objects that make one kind of device volumes of weft's storage
// node. weft-ddm(3) has it at length, examples/memory.c is a driver of a hundred lines.
//
//     weft serve 'module:/usr/local/lib/memory.so?mib=64'
//
//     struct weft_ddm_driver     what a module exports, as the variable weft_ddm_module
//     struct weft_ddm_target     what the URI says
//     struct weft_ddm_host       what the module is lent, and calls
//     struct weft_ddm_profile    what a volume is
//     struct weft_ddm_command    one command at the device
//
// **Process.** A module is loaded by the process that drives its volume (an RTA) and by no other.
// When that process dies, another one opens the device again, and commands that had no answer are
// submitted again. Opening with `is_restart` must not end before the I/O of the process before is
// over: that is the fence. Where only the process itself moves data, its end is enough.
//
// **Threads.** All functions of a driver are called by one thread, one at a time, and none may
// block but open, drain and close. What the host lends is called by that thread alone. A module
// may have threads of its own; they wake the host's by the descriptor of poll_fd.
//
// **Versions.** Structures grow at their end. Each has its size in front, as its writer was
// compiled; what lies beyond it counts as zero. The version changes when a field changes its
// meaning: a module of another version is refused.
//
// Offsets and lengths are octets, times nanoseconds of CLOCK_MONOTONIC, errors negative errno.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum weft_ddm_limits {
    WEFT_DDM_VERSION = 1,
    WEFT_DDM_WHY_MAX = 256, // bytes of a reason, with the terminator, as all of these
    WEFT_DDM_MODEL_MAX = 48,
    WEFT_DDM_ORIGIN_MAX = 512,
    WEFT_DDM_INSTANCE_MAX = 64,
};

#define WEFT_DDM_NEVER UINT64_MAX // a time

/* ---- what the URI says ----------------------------------------------------------------------- */

struct weft_ddm_parameter {
    const char *key;
    const char *value;
};

// "module:/path/driver.so?size=1G&name=a": two parameters, percent signs taken out. For a driver
// that is part of weft the object is what stands behind the colon; for a module the path.
struct weft_ddm_target {
    uint32_t size;
    const char *object;
    const struct weft_ddm_parameter *parameters;
    size_t parameter_count;
};

// The value of the key, or NULL.
static inline const char *weft_ddm_parameter(const struct weft_ddm_target *target, const char *key)
{
    for (size_t i = 0; i < target->parameter_count; i++) {
        if (strcmp(target->parameters[i].key, key) == 0) {
            return target->parameters[i].value;
        }
    }
    return NULL;
}

/* ---- a volume -------------------------------------------------------------------------------- */

enum weft_ddm_ability {
    WEFT_DDM_CAN_WRITE = 1 << 0,
    WEFT_DDM_CAN_FLUSH = 1 << 1, // it has a volatile cache; without this, completed means stable
    WEFT_DDM_CAN_FUA = 1 << 2,
    WEFT_DDM_CAN_TRIM = 1 << 3,
    WEFT_DDM_CAN_WRITE_ZEROES = 1 << 4,
    WEFT_DDM_CAN_ZERO_FAST = 1 << 5, // zeroes cost less than writing them
    WEFT_DDM_CAN_EXTENTS = 1 << 6,
    WEFT_DDM_IS_ROTATIONAL = 1 << 7,
};

// What probe found. Zeroes on entry, but for `size`.
struct weft_ddm_profile {
    uint32_t size;
    uint32_t abilities;     // enum weft_ddm_ability
    uint64_t volume_len;    // octets of the volume
    uint32_t block_len;     // the logical block: a power of two, 512 to 65536
    uint32_t alignment;     // offsets and lengths of commands: a power of two, 1 to block_len
    uint32_t preferred_len; // commands of a multiple of this are served best
    uint32_t transfer_max; // octets of one read or write: what is longer is divided; at most 32 MiB
    uint64_t range_max;    // octets of one trim or write zeroes, likewise
    uint32_t depth;        // commands it takes at once: 1 to 1024
    char model[WEFT_DDM_MODEL_MAX];
    char origin[WEFT_DDM_ORIGIN_MAX];     // what makes the device this one and no other, the same
                                          // after a restart: the volume's identity comes from it
    char instance[WEFT_DDM_INSTANCE_MAX]; // where another device can come to the same origin: which
                                          // one it is. Empty: the origin says it all
};

/* ---- commands -------------------------------------------------------------------------------- */

enum weft_ddm_operation {
    WEFT_DDM_READ = 0,
    WEFT_DDM_WRITE = 1,
    WEFT_DDM_FLUSH = 2,        // every write completed before this was submitted becomes stable
    WEFT_DDM_TRIM = 3,         // the range's contents are no longer needed: advice
    WEFT_DDM_WRITE_ZEROES = 4, // the range reads as zeroes: an order
    WEFT_DDM_EXTENTS = 5,      // fills `data` with struct weft_ddm_extent, which begin at offset
};

enum weft_ddm_flag {
    WEFT_DDM_FUA = 1 << 0,       // completed means stable
    WEFT_DDM_NO_HOLE = 1 << 1,   // zeroes are allocated, so that later writes find room
    WEFT_DDM_FAST_ONLY = 1 << 2, // zeroes that cost as much as writing them: -EOPNOTSUPP
};

struct weft_ddm_extent {
    uint64_t len;
    uint32_t flags; // enum weft_ddm_extent_flag
    uint32_t reserved;
};

enum weft_ddm_extent_flag {
    WEFT_DDM_HOLE = 1 << 0, // nothing is allocated
    WEFT_DDM_ZERO = 1 << 1, // reads as zeroes
};

// The driver's from submit until it completes it. The request lies within the profile: aligned,
// within the volume, no longer than it takes, nothing that it cannot.
struct weft_ddm_command {
    uint32_t size;
    uint32_t operation; // enum weft_ddm_operation
    uint32_t flags;     // enum weft_ddm_flag
    uint32_t data_len;
    uint64_t offset;
    uint64_t len;
    void *data; // of data_len bytes, in the pool; aligned to 4096 where offset is to its own
    uint64_t submitted_at_ns;
    uint32_t answer_len; // WEFT_DDM_EXTENTS: bytes of `data` that are the answer
    uint32_t reserved;
    void *scratch[4]; // the driver's
};

/* ---- what the host lends --------------------------------------------------------------------- */

// Valid from open to close, at the address that open was given.
struct weft_ddm_host {
    uint32_t size;
    bool is_restart;   // wait for the fence; otherwise refuse a device in use (-EBUSY)
    bool is_read_only; // open it so
    int keepsake;      // what a predecessor kept, now the driver's; or -1
    const void *pool;  // all `data` lies in here
    uint64_t pool_len;
    void *ctx; // of the functions
    uint64_t (*clock_ns)(void *ctx);
    // One line for the operator; the host says it under the volume's process.
    void (*say)(void *ctx, const char *line);
    // In open: has the node keep a copy of the descriptor, of a file in memory, for a successor.
    void (*keep)(void *ctx, int fd);
    // The command has ended: 0, or a negative errno. -EAGAIN: not now, it is submitted again for a
    // while. -ENOSPC, -EROFS, -EOPNOTSUPP, -ERANGE, -EINVAL, -ETIMEDOUT, -ENODEV (the volume is
    // gone) have words of their own in the protocols; all else is an error of the medium. May be
    // called from within submit, flush_queue, poll and drain.
    void (*complete)(void *ctx, struct weft_ddm_command *command, int error);
    // In poll: what probe says has changed, the size as a rule; it is asked again soon.
    void (*changed)(void *ctx);
    // For drivers that can stand by; NULL where the volume is this node's alone. In open: another
    // node has the device. What is known of it; it is waited for from here on, for as long as it
    // takes, in open.
    void (*stand_by)(void *ctx, const struct weft_ddm_profile *profile);
    // Where stand_by is there: the device is another node's by now. Says why, and ends the process,
    // with what is under way; the next one stands by.
    void (*lost)(void *ctx, const char *why);
};

// Why a device was not opened, for people: what is wrong with which object, and what to do.
struct weft_ddm_why {
    char text[WEFT_DDM_WHY_MAX];
};

/* ---- the driver ------------------------------------------------------------------------------ */

struct weft_ddm_driver {
    uint32_t version; // WEFT_DDM_VERSION
    uint32_t size;    // sizeof(struct weft_ddm_driver)
    const char *name;
    const char *fence;             // what tells that the I/O of a killed process is over, in words
    const char *const *parameters; // the keys it knows, ended by NULL; NULL: none

    // 0, or an error with the reason for it.
    int (*open)(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                void **ret_device, struct weft_ddm_why *ret_why);
    // May be called again at any time: sizes change.
    int (*probe)(void *device, struct weft_ddm_profile *ret);
    // 0: taken. -EAGAIN: the device is full; again after something has completed.
    int (*submit)(void *device, struct weft_ddm_command *command);
    // After a batch of submits: what was only queued goes to the device. May be NULL.
    void (*flush_queue)(void *device);
    // Readable when poll has something to do; -1: never. The same from open to close. May be NULL.
    int (*poll_fd)(void *device);
    // WEFT_DDM_NEVER, or when poll wants to be called at the latest. May be NULL.
    uint64_t (*next_deadline_ns)(void *device);
    // NULL: commands complete within submit or flush_queue.
    void (*poll)(void *device, uint64_t now_ns);
    // Blocks until every command has completed. NULL as poll.
    void (*drain)(void *device);
    // Nothing is under way.
    void (*close)(void *device);

    // Names of the system calls that it makes once a device is open, ended by NULL, beside those of
    // every driver: memory without code, descriptors that are there, clocks, waiting. The process
    // can make no other from then on, and opens no file, if that device is its only one. NULL:
    // nobody knows.
    const char *const *calls;
    // Its fence is seen by other nodes, and open can wait for one that has the device, so that
    // standby=on is allowed.
    bool can_stand_by;
};

// What a module exports:
//
//     WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module = {
//         .version = WEFT_DDM_VERSION, .size = sizeof weft_ddm_module, ...};
#define WEFT_DDM_EXPORT __attribute__((visibility("default")))

extern WEFT_DDM_EXPORT const struct weft_ddm_driver weft_ddm_module;

#ifdef __cplusplus
}
#endif
