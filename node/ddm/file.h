// What the file driver asks of an engine: system calls on one descriptor that are carried out while
// the agent goes on. There are two: io_uring, and a pool of threads where io_uring is refused.
#pragma once

#include "node/interface/rta_ddm.h"

enum file_call { FILE_READ, FILE_WRITE, FILE_SYNC, FILE_ALLOCATE };

// One call. Made by the driver in a ddm_command's stead; the engine owns it until on_end.
struct file_job {
    enum file_call call;
    int mode;     // FILE_ALLOCATE: as fallocate
    int rw_flags; // FILE_READ, FILE_WRITE: as preadv2
    void *data;   // FILE_READ, FILE_WRITE
    uint64_t offset;
    uint64_t len;
    int64_t result; // as the call, or a negative errno
    struct list_link link;
};

struct file_engine;

struct file_engine_kind {
    const char *name;
    // -errno where the system refuses it. `depth`: jobs at a time.
    int (*create)(int fd, unsigned depth, struct file_engine **ret);
    // There is room for it: the driver counts. It begins at the latest with start.
    void (*queue)(struct file_engine *engine, struct file_job *job);
    void (*start)(struct file_engine *engine);
    // Readable when jobs have ended.
    int (*ended_fd)(struct file_engine *engine);
    // One that has ended, or NULL.
    struct file_job *(*reap)(struct file_engine *engine);
    // Blocks until one has ended; there is one.
    void (*wait)(struct file_engine *engine);
    // Nothing is under way.
    void (*destroy)(struct file_engine *engine);
};

extern const struct file_engine_kind file_engine_uring, file_engine_threads;
