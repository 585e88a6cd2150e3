// Volumes that targets serve, as the commands use them, whatever protocol carries them: opened by a
// URI, then read and written by I/O that is submitted and ends later.
//
//     volume.c        which protocol a URI is of; opening
//     volume_say.c    what people and programs are told of volumes
//     volume_nvme.c   NVMe over RDMA or TCP, by <weft/nvme.h>
//     volume_nbd.c    NBD, by libnbd (volume_libnbd.c, a module)
//     volume_driver.c iSCSI, and NVMe by several paths, by drivers of the storage node
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/why.h"

struct json_object;
struct volume;

enum {
    VOLUME_URI_MAX = 2048,
    VOLUME_LABEL_MAX = 512,
    VOLUME_UUID_MAX = 37,
    VOLUME_ANSWER_MAX = 64,
    VOLUME_IO_WORDS = 16,
};

struct volume_facts {
    char uri[VOLUME_URI_MAX]; // names it for every command
    const char *name_key;     // what its protocol calls the name: "nqn", "export"
    char name[VOLUME_LABEL_MAX];
    uint32_t nsid; // 0: its protocol has no such number
    uint64_t len;
    uint32_t block_len;        // offsets and lengths of I/O are multiples of it
    uint32_t transfer_max_len; // of one read or write
    bool is_read_only, can_write_zeroes;
    bool has_uuid, has_nguid;
    uint8_t uuid[16], nguid[16];
};

/* ---- I/O ------------------------------------------------------------------------------------- */

enum volume_operation {
    VOLUME_READ,
    VOLUME_WRITE,
    VOLUME_FLUSH, // no range
    VOLUME_WRITE_ZEROES,
    VOLUME_OPERATION_COUNT,
};

// From submission until volume_ended gives it back, it and its data are the volume's.
struct volume_io {
    enum volume_operation operation;
    uint64_t offset;
    uint32_t len;
    uint8_t *data; // of reads and writes
    void *context; // whose it is

    int error;                      // when it has ended: 0 or a negative errno,
    char answer[VOLUME_ANSWER_MAX]; // and what the target said of it; empty: nothing

    struct list_link link;         // ended
    uint64_t own[VOLUME_IO_WORDS]; // the protocol's
};

/* ---- the port -------------------------------------------------------------------------------- */

typedef void volume_seen(void *context, const struct volume_facts *facts);

// What a protocol must know. NULL stands for what it has not.
struct volume_protocol {
    const char *const *schemes; // "nbd://"; ends with NULL
    // 0, or -EINVAL with the reason. is_one: it must name one volume, not only a target.
    int (*check)(const char *uri, bool is_one, struct why *ret_why);
    // Fills in facts and session. 0, or a negative errno with the reason. `depth` 0: the default.
    int (*open)(struct volume *volume, const char *uri, unsigned depth, struct why *ret_why);
    void (*close)(struct volume *volume); // also of one that did not open
    int (*submit)(struct volume *volume, struct volume_io *io);
    int (*wait)(struct volume *volume, int timeout_ms);
    const char *(*lost_why)(const struct volume *volume); // NULL: the connection is there
    const char *(*remedy)(int error);                     // what to do about one
    bool (*is_zero)(struct volume *volume, uint64_t offset, uint32_t len);
    void (*lend)(struct volume *volume, void *data, size_t len);
    void (*take_back)(struct volume *volume, void *data);
    void (*count)(const struct volume *volume, struct json_object *to);
    void (*show)(const struct volume *volume); // for `weft info`: on standard output, and as JSON
    void (*describe)(const struct volume *volume, struct json_object *to);
    // Calls `seen` with each volume of a target, or of what the URI names of it. 0, or EXIT_FAILED
    // after saying why not all could be seen. NULL: a volume is the list of itself.
    int (*list)(const char *uri, volume_seen *seen, void *context);
};

extern const struct volume_protocol volume_nvme, volume_nbd, volume_driver;

struct volume {
    const struct volume_protocol *protocol; // NULL: closed
    struct volume_facts facts;
    struct list_link ended; // I/O of which nobody has been told
    void *session;          // the protocol's
};

/* ---- volume.c -------------------------------------------------------------------------------- */

// "nbd://...": as opposed to a file's name.
bool volume_is_uri(const char *text);
// 0, or EXIT_USAGE after saying what is wrong with it. A HOST[:PORT] alone is an NVMe target.
int volume_check(const char *command, const char *uri, bool is_one);
// 0, or EXIT_FAILED after saying why not.
int volume_open(const char *uri, unsigned depth, struct volume *ret);
void volume_close(struct volume *volume);
int volume_list(const char *uri, volume_seen *seen, void *context);

// 0: it ends later. -EAGAIN: after another one has ended. Other negative errno: never.
int volume_submit(struct volume *volume, struct volume_io *io);
// Waits at most this long (-1: for ever) for I/O to end. Negative: the connection is lost, and all
// I/O has ended.
int volume_wait(struct volume *volume, int timeout_ms);
// The next that has ended. NULL: none.
struct volume_io *volume_ended(struct volume *volume);
// Does the target say that the range reads as zeroes? It may ask.
bool volume_is_zero(struct volume *volume, uint64_t offset, uint32_t len);
// Memory that I/O will come from and go to; taken back when no I/O is under way.
void volume_lend(struct volume *volume, void *data, size_t len);
void volume_take_back(struct volume *volume, void *data);

/* ---- volume_say.c ---------------------------------------------------------------------------- */

// `remedy`: the protocol's, of the error. Gives EXIT_FAILED back.
int volume_say_failed(const char *what, const char *uri, const char *remedy, const char *why);
struct json_object *volume_json(const struct volume_facts *facts);
// "-" if it has none.
const char *volume_uuid(const struct volume_facts *facts, char ret[VOLUME_UUID_MAX]);
