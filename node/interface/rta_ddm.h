// Interface 320: a remote transport agent and its device driver modules. A DDM is a struct of
// methods with a version, named by the scheme of a URI: open, probe, submit, poll, drain, close.
// All calls of one DDM come from one thread.
//
//     open    the device named by the URI, and its fence
//     probe   what it can do: only what was tried
//     submit  a command; its end comes by ddm_command_end, perhaps before submit returns
//     poll    its descriptor is readable, or its deadline has come
//     drain   everything submitted ends; nothing is submitted any more
//     close
//
// **The fence.** A process that is killed leaves I/O behind that goes on without it, and that would
// overwrite what its successor writes. Every DDM names what tells that this is over: opening with
// `is_restart` does not end before it.
//
// **Formats.** A command carries a neutral request, and for a device with an I/O format of its own
// the command in that format: the I/O converter of the RTA makes it from the request, and turns
// the device's status into a completion. Neither header nor agent changes for a new format.
//
// **Filters** are DDMs that stand before another one, and pass on what they do not change.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

enum ddm_limits {
    DDM_VERSION = 1,
    DDM_NATIVE_MAX = 64,
    DDM_STATUS_MAX = 256,
    DDM_END_MAX = 8, // filters before one driver, and the RTA
};

struct ddm;
struct ddm_command;
struct ddm_driver;

// One command at a device. The RTA owns it and leaves it alone until complete.
struct ddm_command {
    // The request, within the device's limits: aligned, within its size, at most transfer_max.
    uint8_t operation; // enum node_operation
    uint16_t flags;    // enum node_flag
    uint64_t offset;
    uint64_t len;
    void *data; // of data_len octets in the pool, aligned to 4096 octets where offset is to its own
    uint32_t data_len;
    instant_ns submitted_at_ns;

    // The same in the device's format, where it has one.
    uint8_t native[DDM_NATIVE_MAX];
    uint32_t native_len;

    // The answer.
    enum node_completion completion; // devices without a format
    uint32_t detail;
    uint32_t answer_len;            // NODE_EXTENTS: octets of `data` that are the answer
    uint8_t status[DDM_STATUS_MAX]; // devices with a format: what the device said
    uint32_t status_len;
    int transport_error; // devices with a format: 0, or a negative errno: it said nothing

    // Who wants to hear of its end, the innermost last: the RTA, then filters that asked.
    struct ddm_end {
        void (*on_end)(void *ctx, struct ddm_command *command);
        void *ctx;
    } ends[DDM_END_MAX];
    unsigned end_count;

    struct list_link link; // of who has the command now
    void *scratch[2];      // the driver's, between submit and end
};

// A filter that passes the command on, and the RTA before it submits, ask to hear of its end.
static inline void ddm_command_expect(struct ddm_command *command,
                                      void (*on_end)(void *ctx, struct ddm_command *command),
                                      void *ctx)
{
    CHECK(command->end_count < DDM_END_MAX);
    command->ends[command->end_count++] = (struct ddm_end){.on_end = on_end, .ctx = ctx};
}

// The command has ended here, its answer is in it: the next one outwards hears of it.
static inline void ddm_command_end(struct ddm_command *command)
{
    CHECK(command->end_count > 0);
    struct ddm_end end = command->ends[--command->end_count];
    end.on_end(end.ctx, command);
}

// As above, for a device without a format of its own.
static inline void ddm_command_finish(struct ddm_command *command, enum node_completion completion,
                                      uint32_t detail)
{
    command->completion = completion;
    command->detail = detail;
    ddm_command_end(command);
}

// What the RTA lends a DDM.
struct ddm_host {
    void *ctx;
    const void *pool; // all `data` lies in here
    uint64_t pool_len;
    int keepsake;    // what a predecessor kept, now the DDM's; or -1
    bool is_restart; // wait for the fence; otherwise refuse a device in use (-EBUSY)
    bool read_only;  // open it so
    bool is_alone;   // a call that waits for a moment keeps nobody but this RTA's clients
    instant_ns (*clock)(void *ctx);
    // One line for the operator, said once per matter.
    void (*say)(void *ctx, const char *line);
    // While being opened: has the UMA keep a copy of the descriptor for a successor.
    void (*keep)(void *ctx, int fd);
    // While being opened: the volume may also be read by this descriptor, whose file has the same
    // octets at the same offsets as soon as a write has ended. It stays the DDM's, and is of a file
    // description that nothing else is done by. NULL: nobody would.
    void (*lend)(void *ctx, int fd);
    // While being opened: another node has the device. What is known of it; it is waited for from
    // here on, for as long as it takes, in open. NULL: a device in use is refused, as above.
    void (*stand_by)(void *ctx, const struct volume_profile *profile);
    // In poll: what probe says of this DDM has changed. NULL: nobody wants to know.
    void (*changed)(void *ctx, const struct ddm *ddm);
};

struct ddm_parameter {
    const char *key;
    const char *value;
};

// The URI, taken apart: "delay+file:disk.img?delay.read=10ms" is the filter `delay`, the driver
// `file`, the object "disk.img" and one parameter.
struct ddm_target {
    const char *object;
    const struct ddm_parameter *parameters;
    size_t parameter_count;
};

// Whether a driver's list of keys, ended by NULL, has this one. NULL: a driver without parameters.
static inline bool ddm_keys_have(const char *const *keys, const char *key)
{
    while (keys != NULL && *keys != NULL && strcmp(*keys, key) != 0) {
        keys++;
    }
    return keys != NULL && *keys != NULL;
}

// A DDM begins with this.
struct ddm {
    const struct ddm_driver *driver;
    struct ddm *next; // filters: whom it stands before; owned
    struct ddm_host host;
};

struct ddm_driver {
    uint32_t version;   // DDM_VERSION
    uint32_t self_size; // of this struct, as the driver was compiled
    const char *name;   // the scheme
    const char *summary;
    const char *object;            // what stands behind the colon, for help: "PATH"
    const char *fence;             // what tells that a killed process's I/O is over
    const char *format;            // the I/O format of its commands; NULL: none but the request
    const char *const *parameters; // the keys it knows, ended by NULL; for help and refusals
    bool is_filter;
    bool needs_process; // not for the host's own: code that is not weft's
    bool takes_all;     // keys that nobody else in the chain knows are its own to refuse
    bool may_lose;      // a command may vanish, so one without an answer is submitted again
    bool can_stand_by;  // its fence is seen by other nodes, and open can wait for it
    bool keeps_pages;   // a device may know the pool by its pages: unused ones stay there

    // What it needs of the system once the device is open, beside what every RTA needs; all else is
    // refused to a process that serves no other device (node/unit/confinement.h).
    const char *const *calls;      // names of system calls, ended by NULL; NULL: nobody knows
    bool (*has_known_calls)(void); // whether they are those in this process; NULL: always
    bool makes_threads;
    uint64_t capabilities; // 1 << CAP_...
    bool reads_files;      // as for the addresses of names

    // 0, or a negative errno with a reason in `ret_why`. `next` is NULL but
    // for filters, and stays the caller's when opening fails.
    int (*open)(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                struct ddm **ret, struct why *ret_why);
    // May be called again at any time: sizes change.
    int (*probe)(struct ddm *ddm, struct volume_profile *ret);
    // 0: taken. -EAGAIN: the device is full; again after something has completed.
    int (*submit)(struct ddm *ddm, struct ddm_command *command);
    // After a batch of submits: what was only queued goes to the device. May be NULL.
    void (*flush_queue)(struct ddm *ddm);
    // Readable when poll has something to do; -1: never.
    int (*poll_fd)(struct ddm *ddm);
    // INSTANT_NEVER, or when poll wants to be called at the latest. May be NULL.
    instant_ns (*next_deadline)(struct ddm *ddm);
    void (*poll)(struct ddm *ddm, instant_ns now);
    // As poll, before the process sleeps while commands are out: looks on for answers, as long as
    // that pays (base/lookout.h). Whether commands have ended. NULL: the descriptor tells.
    bool (*look_on)(struct ddm *ddm, instant_ns now);
    // Blocks until every command submitted has ended.
    void (*drain)(struct ddm *ddm);
    // Nothing is under way.
    void (*close)(struct ddm *ddm);
};

static inline int ddm_probe(struct ddm *ddm, struct volume_profile *ret)
{
    return ddm->driver->probe(ddm, ret);
}

static inline int ddm_submit(struct ddm *ddm, struct ddm_command *command)
{
    return ddm->driver->submit(ddm, command);
}

static inline void ddm_flush_queue(struct ddm *ddm)
{
    if (ddm->driver->flush_queue != NULL) {
        ddm->driver->flush_queue(ddm);
    }
}

static inline int ddm_poll_fd(struct ddm *ddm)
{
    return ddm->driver->poll_fd(ddm);
}

static inline instant_ns ddm_next_deadline(struct ddm *ddm)
{
    return ddm->driver->next_deadline != NULL ? ddm->driver->next_deadline(ddm) : INSTANT_NEVER;
}

static inline void ddm_poll(struct ddm *ddm, instant_ns now)
{
    ddm->driver->poll(ddm, now);
}

static inline void ddm_drain(struct ddm *ddm)
{
    ddm->driver->drain(ddm);
}

// Nothing is under way.
static inline void ddm_free(struct ddm *ddm)
{
    ddm->driver->close(ddm);
}

static inline void ddm_close(struct ddm *ddm)
{
    ddm_drain(ddm);
    ddm_free(ddm);
}
