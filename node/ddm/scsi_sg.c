// The transport to disks of this system: SCSI commands by SG_IO, which blocks, on a few threads.
//
// The fence is the lock on the file description (lock.h), for on a block device the kernel lets no
// thread go before its command has ended, not even one that is killed. On a generic device
// (/dev/sg0) it does; so that is taken by its block device's name. Where it has none, the commands
// that a predecessor left are ended by a reset of the logical unit.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <scsi/sg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/ddm/lock.h"
#include "node/ddm/scsi_transport.h"
#include "node/interface/volume.h"

enum {
    SG_THREAD_COUNT = 8,
    SG_DEPTH = 32,
    SG_TIMEOUT_MS = 30000,
    // What the kernel maps in one request whatever the memory looks like: 64 pages that are apart.
    SG_TRANSFER_MAX = 256 << 10,
    SG_MAJOR = 21, // of generic devices
};

struct sg {
    struct scsi_transport transport;
    char path[VOLUME_ORIGIN_MAX];
    int fd;
    uint32_t transfer_max;
    int event_fd; // counts ended jobs that nobody has been told of
    bool is_ending;
    unsigned thread_count;
    pthread_t threads[SG_THREAD_COUNT];
    pthread_mutex_t lock;
    pthread_cond_t has_jobs;
    struct list_link waiting;
    struct list_link ended;
};

/* ---- one command, on a thread ---------------------------------------------------------------- */

// The host adapter's word; 0: the device was reached.
static int error_of_host(unsigned host_status)
{
    enum { NO_CONNECT = 1, BUS_BUSY = 2, TIME_OUT = 3, BAD_TARGET = 4, RESET = 8, REQUEUE = 13 };
    switch (host_status) {
    case 0:
        return 0;
    case NO_CONNECT:
    case BAD_TARGET:
        return -ENODEV;
    case TIME_OUT:
        return -ETIMEDOUT;
    case BUS_BUSY:
    case RESET:
    case REQUEUE:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

static int direction_of(const struct scsi_job *job)
{
    return job->direction == SCSI_FROM_DEVICE ? SG_DXFER_FROM_DEV
           : job->direction == SCSI_TO_DEVICE ? SG_DXFER_TO_DEV
                                              : SG_DXFER_NONE;
}

static void carry_out(const struct sg *sg, struct scsi_job *job)
{
    struct sg_io_hdr io = {.interface_id = 'S',
                           .dxfer_direction = direction_of(job),
                           .cmd_len = (unsigned char)scsi_cdb_len(job->cdb[0]),
                           .mx_sb_len = SCSI_SENSE_MAX,
                           .dxfer_len = job->data_len,
                           .dxferp = job->data,
                           .cmdp = job->cdb,
                           .sbp = job->sense,
                           .timeout = SG_TIMEOUT_MS};
    if (ioctl(sg->fd, SG_IO, &io) != 0) {
        job->error = -errno;
        return;
    }
    job->status = io.masked_status == 0 && io.sb_len_wr > 0 ? SCSI_CHECK_CONDITION : io.status;
    job->sense_len = io.sb_len_wr;
    job->residual = io.resid > 0 ? (uint32_t)io.resid : 0;
    job->error = job->status == SCSI_GOOD ? error_of_host(io.host_status) : 0;
}

static void *serve(void *ctx)
{
    struct sg *sg = ctx;
    pthread_mutex_lock(&sg->lock);
    for (;;) {
        while (list_is_empty(&sg->waiting) && !sg->is_ending) {
            pthread_cond_wait(&sg->has_jobs, &sg->lock);
        }
        struct list_link *l = list_pop_head(&sg->waiting);
        if (l == NULL) {
            break;
        }
        pthread_mutex_unlock(&sg->lock);
        carry_out(sg, LIST_ENTRY(l, struct scsi_job, link));
        pthread_mutex_lock(&sg->lock);
        bool is_first = list_is_empty(&sg->ended);
        list_push_tail(&sg->ended, l);
        if (is_first) {
            eventfd_write(sg->event_fd, 1);
        }
    }
    pthread_mutex_unlock(&sg->lock);
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void transport_submit(struct scsi_transport *transport, struct scsi_job *job)
{
    struct sg *sg = (struct sg *)transport;
    job->submitted_at_ns = transport->host.clock(transport->host.ctx);
    job->error = 0;
    job->residual = job->sense_len = 0;
    pthread_mutex_lock(&sg->lock);
    list_push_tail(&sg->waiting, &job->link);
    pthread_cond_signal(&sg->has_jobs);
    pthread_mutex_unlock(&sg->lock);
}

static void transport_flush(struct scsi_transport *transport)
{
}

static int transport_poll_fd(struct scsi_transport *transport)
{
    return ((struct sg *)transport)->event_fd;
}

static instant_ns transport_next_deadline(struct scsi_transport *transport)
{
    return INSTANT_NEVER;
}

static void transport_poll(struct scsi_transport *transport, instant_ns now)
{
    struct sg *sg = (struct sg *)transport;
    struct list_link ended;
    eventfd_t count;
    pthread_mutex_lock(&sg->lock);
    list_move_all(&ended, &sg->ended);
    eventfd_read(sg->event_fd, &count);
    pthread_mutex_unlock(&sg->lock);
    for (struct list_link *l; (l = list_pop_head(&ended)) != NULL;) {
        scsi_job_end(LIST_ENTRY(l, struct scsi_job, link));
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

// The path of the block device that is the same logical unit as the generic one. False: none.
static bool block_sibling(dev_t device, char ret[VOLUME_ORIGIN_MAX])
{
    char folder[64];
    snprintf(folder, sizeof folder, "/sys/dev/char/%u:%u/device/block", major(device),
             minor(device));
    DIR *names = opendir(folder);
    bool has_found = false;
    for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(ret, VOLUME_ORIGIN_MAX, "/dev/%s", entry->d_name);
            has_found = true;
        }
    }
    if (names != NULL) {
        closedir(names);
    }
    return has_found;
}

// What the queue takes in one request: block devices say it in sectors, generic ones in octets.
static uint32_t transfer_limit(int fd, bool is_block)
{
    unsigned short sectors = 0;
    int octets = 0;
    long most = is_block && ioctl(fd, BLKSECTGET, &sectors) == 0   ? 512L * sectors
                : !is_block && ioctl(fd, BLKSECTGET, &octets) == 0 ? octets
                                                                   : SG_TRANSFER_MAX;
    return most > 0 && most < SG_TRANSFER_MAX ? (uint32_t)most : SG_TRANSFER_MAX;
}

// Ends what a predecessor left at a generic device.
static int reset(const struct sg *sg, const struct ddm_host *host, struct why *ret_why)
{
    int how = SG_SCSI_RESET_DEVICE;
    if (!host->is_restart || ioctl(sg->fd, SG_SCSI_RESET, &how) == 0) {
        return 0;
    }
    int error = -errno;
    why_say(ret_why, "%.120s: an earlier process's commands cannot be ended: %s", sg->path,
            strerror(-error));
    return error;
}

static int device_open(struct sg *sg, const char *path, const struct ddm_host *host,
                       struct why *ret_why)
{
    int flags = (host->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat status;
    snprintf(sg->path, sizeof sg->path, "%s", path);
    bool is_there = stat(path, &status) == 0;
    bool is_generic = is_there && S_ISCHR(status.st_mode) && major(status.st_rdev) == SG_MAJOR;
    if (is_there && !is_generic && !S_ISBLK(status.st_mode)) {
        why_say(ret_why, "%.150s: no SCSI device", path);
        return -ENODEV;
    }
    is_generic = is_generic && !block_sibling(status.st_rdev, sg->path);
    sg->fd = open(sg->path, flags);
    int error = sg->fd < 0 ? -errno : lock_take(sg->fd, host, "sg");
    if (error != 0) {
        why_say(ret_why, "%.150s: %s", sg->path,
                error == -EBUSY ? "another process has it open through weft" : strerror(-error));
        return error;
    }
    sg->transfer_max = transfer_limit(sg->fd, !is_generic);
    return is_generic ? reset(sg, host, ret_why) : 0;
}

// Signals are for the agent's own thread.
static void threads_start(struct sg *sg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (sg->thread_count < SG_THREAD_COUNT &&
           pthread_create(&sg->threads[sg->thread_count], NULL, serve, sg) == 0) {
        sg->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void cancel_waiting(struct sg *sg)
{
    pthread_mutex_lock(&sg->lock);
    sg->is_ending = true;
    for (struct list_link *l; (l = list_pop_head(&sg->waiting)) != NULL;) {
        LIST_ENTRY(l, struct scsi_job, link)->error = -ECANCELED;
        list_push_tail(&sg->ended, l);
    }
    pthread_cond_broadcast(&sg->has_jobs);
    pthread_mutex_unlock(&sg->lock);
}

static void transport_close(struct scsi_transport *transport)
{
    struct sg *sg = (struct sg *)transport;
    cancel_waiting(sg);
    for (unsigned i = 0; i < sg->thread_count; i++) {
        pthread_join(sg->threads[i], NULL);
    }
    transport_poll(transport, 0);
    pthread_cond_destroy(&sg->has_jobs);
    pthread_mutex_destroy(&sg->lock);
    if (sg->event_fd >= 0) {
        close(sg->event_fd);
    }
    if (sg->fd >= 0) {
        close(sg->fd);
    }
    free(sg);
}

static int transport_open(const struct ddm_target *target, const struct ddm_host *host,
                          struct scsi_transport **ret, struct why *ret_why)
{
    struct sg *sg = calloc(1, sizeof *sg);
    if (sg == NULL) {
        return -ENOMEM;
    }
    sg->transport = (struct scsi_transport){.kind = &scsi_transport_sg, .host = *host};
    sg->fd = -1;
    sg->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&sg->lock, NULL);
    pthread_cond_init(&sg->has_jobs, NULL);
    list_init(&sg->waiting);
    list_init(&sg->ended);
    int error = device_open(sg, target->object, host, ret_why);
    if (error == 0) {
        threads_start(sg);
        error = sg->event_fd < 0 || sg->thread_count == 0 ? -EAGAIN : 0;
    }
    if (error != 0) {
        transport_close(&sg->transport);
        return error;
    }
    *ret = &sg->transport;
    return 0;
}

static uint32_t transport_transfer_max(struct scsi_transport *transport)
{
    return ((struct sg *)transport)->transfer_max;
}

static const char *transport_address(struct scsi_transport *transport)
{
    return ((struct sg *)transport)->path;
}

const struct scsi_transport_kind scsi_transport_sg = {
    .name = "sg",
    .depth = SG_DEPTH,
    .open = transport_open,
    .transfer_max = transport_transfer_max,
    .address = transport_address,
    .submit = transport_submit,
    .flush = transport_flush,
    .poll_fd = transport_poll_fd,
    .next_deadline = transport_next_deadline,
    .poll = transport_poll,
    .close = transport_close,
};
