// The file engine on io_uring.

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "node/ddm/file.h"

struct file_engine {
    struct io_uring ring;
    int fd;
};

// IORING_SETUP_COOP_TASKRUN, which liburing's header does not name before 2.2 (Ubuntu 22.04).
enum { SETUP_COOP_TASKRUN = 1 << 8 };

// liburing declares functions for these two, and Debian 12's does not have them.
static int register_with(struct io_uring *ring, unsigned what, const void *data, unsigned count)
{
    return syscall(SYS_io_uring_register, ring->ring_fd, what, data, count) == 0 ? 0 : -errno;
}

// What the ring may be asked for, whoever has got hold of it: it knows calls that seccomp refuses.
static int restrict_to_files(struct io_uring *ring)
{
    static const uint8_t operations[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC,
                                         IORING_OP_FALLOCATE};
    struct io_uring_restriction allowed[sizeof operations] = {0};
    for (unsigned i = 0; i < sizeof operations; i++) {
        allowed[i].opcode = IORING_RESTRICTION_SQE_OP;
        allowed[i].sqe_op = operations[i];
    }
    int error = register_with(ring, IORING_REGISTER_RESTRICTIONS, allowed, sizeof operations);
    return error == 0 ? register_with(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) : error;
}

static int uring_create(int fd, unsigned depth, struct file_engine **ret)
{
    struct file_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return -ENOMEM;
    }
    engine->fd = fd;
    // Without interrupting: the agent looks at the ring whenever it comes from the kernel anyway.
    unsigned flags = IORING_SETUP_R_DISABLED;
    int error = io_uring_queue_init(depth, &engine->ring, flags | SETUP_COOP_TASKRUN);
    if (error == -EINVAL) {
        error = io_uring_queue_init(depth, &engine->ring, flags);
    }
    if (error == 0 && (error = restrict_to_files(&engine->ring)) != 0) {
        io_uring_queue_exit(&engine->ring);
    }
    if (error != 0) {
        free(engine);
        return error;
    }
    *ret = engine;
    return 0;
}

static void uring_start(struct file_engine *engine)
{
    // What the kernel does not take now (-EAGAIN, -EBUSY) stays prepared for the next time.
    if (io_uring_sq_ready(&engine->ring) > 0) {
        io_uring_submit(&engine->ring);
    }
}

static void uring_queue(struct file_engine *engine, struct file_job *job)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&engine->ring);
    while (sqe == NULL) {
        uring_start(engine);
        sqe = io_uring_get_sqe(&engine->ring);
    }
    switch (job->call) {
    case FILE_READ:
        io_uring_prep_read(sqe, engine->fd, job->data, (unsigned)job->len, job->offset);
        sqe->rw_flags = job->rw_flags;
        break;
    case FILE_WRITE:
        io_uring_prep_write(sqe, engine->fd, job->data, (unsigned)job->len, job->offset);
        sqe->rw_flags = job->rw_flags;
        break;
    case FILE_SYNC:
        io_uring_prep_fsync(sqe, engine->fd, IORING_FSYNC_DATASYNC);
        break;
    case FILE_ALLOCATE:
        io_uring_prep_fallocate(sqe, engine->fd, job->mode, (off_t)job->offset, (off_t)job->len);
        break;
    }
    io_uring_sqe_set_data(sqe, job);
}

static int uring_ended_fd(struct file_engine *engine)
{
    return engine->ring.ring_fd;
}

static struct file_job *uring_reap(struct file_engine *engine)
{
    struct io_uring_cqe *cqe;
    if (io_uring_peek_cqe(&engine->ring, &cqe) != 0) {
        return NULL;
    }
    struct file_job *job = io_uring_cqe_get_data(cqe);
    job->result = cqe->res;
    io_uring_cqe_seen(&engine->ring, cqe);
    return job;
}

static void uring_wait(struct file_engine *engine)
{
    struct io_uring_cqe *cqe;
    io_uring_submit_and_wait(&engine->ring, 1);
    io_uring_wait_cqe(&engine->ring, &cqe);
}

static void uring_destroy(struct file_engine *engine)
{
    io_uring_queue_exit(&engine->ring);
    free(engine);
}

const struct file_engine_kind file_engine_uring = {
    .name = "io_uring",
    .create = uring_create,
    .queue = uring_queue,
    .start = uring_start,
    .ended_fd = uring_ended_fd,
    .reap = uring_reap,
    .wait = uring_wait,
    .destroy = uring_destroy,
};
