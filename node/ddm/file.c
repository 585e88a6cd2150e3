// file: a file or a block device. Reads and writes by the page cache at once (file_cache.h) or by
// an engine (file.h), holes and zeroes by fallocate, stability by fdatasync.
//
// The fence is the lock on the file description (lock.h), which is made here and is inherited by
// nobody.

#include "node/ddm/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/file_cache.h"
#include "node/ddm/lock.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

enum {
    FILE_DEPTH = 128,
    SECTOR_LEN = 512,
    FILE_ZEROES_LEN = 1 << 20,
};

struct file_work {
    struct file_job job;
    struct ddm_command *command;
    uint64_t done_len;
};

struct file {
    struct ddm ddm;
    int fd;
    bool is_block_device;
    bool is_direct;
    bool can_punch;
    bool can_zero;
    uint32_t sector;
    uint64_t size; // as of the last probe
    char origin[VOLUME_ORIGIN_MAX];
    char instance[VOLUME_INSTANCE_MAX];
    const struct file_engine_kind *kind;
    struct file_engine *engine;
    struct file_cache cache; // if not direct
    int window_fd;           // by which others may read what the cache has; -1: nobody
    unsigned under_way;      // at the engine, or about to be
    void *zeroes;
    struct file_work works[FILE_DEPTH];
    struct list_link free;
};

static const char *const keys[] = {"direct", "engine", NULL};

/* ---- opening --------------------------------------------------------------------------------- */

static void file_close(struct ddm *ddm)
{
    struct file *file = (struct file *)ddm;
    if (file->engine != NULL) {
        file->kind->destroy(file->engine);
    }
    if (file->window_fd >= 0) {
        close(file->window_fd);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->zeroes);
    free(file);
}

// What fallocate can do here, tried where it changes nothing: behind the end.
static void try_fallocate(struct file *file)
{
    off_t end = (off_t)((file->size + 4095) & ~UINT64_C(4095));
    int keep = FALLOC_FL_KEEP_SIZE;
    if (file->is_block_device) {
        file->can_punch = file->can_zero = true; // the kernel answers each request for itself
        return;
    }
    file->can_zero = fallocate(file->fd, keep | FALLOC_FL_ZERO_RANGE, end, 4096) == 0;
    file->can_punch = fallocate(file->fd, keep | FALLOC_FL_PUNCH_HOLE, end, 4096) == 0;
}

// Another file may take the path, another disk the name of a device.
static void instance_set(struct file *file, const struct stat *status)
{
    dev_t disk = file->is_block_device ? status->st_rdev : 0;
    snprintf(file->instance, sizeof file->instance, "%ju:%ju:%ju", (uintmax_t)status->st_dev,
             (uintmax_t)status->st_ino, (uintmax_t)disk);
}

#ifdef STATX_DIOALIGN
// Clients are told no block but of a power of two; who aligns to more than a page of any machine
// (extents of a real-time volume) is let find out by itself.
static uint32_t direct_sector_from(uint32_t told)
{
    enum { MOST_LEN = 64 << 10 };
    bool is_block = told > SECTOR_LEN && told <= MOST_LEN && (told & (told - 1)) == 0;
    return is_block ? told : SECTOR_LEN;
}
#endif

// What direct=on takes at the least, where the file system says so (statx(2), Linux 6.1): a file on
// a disk of 4 KiB blocks takes no less.
static uint32_t direct_sector(int fd)
{
    uint32_t sector = SECTOR_LEN;
#ifdef STATX_DIOALIGN
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
        (status.stx_mask & STATX_DIOALIGN) != 0) {
        sector = direct_sector_from(status.stx_dio_offset_align);
    }
#endif
    return sector;
}

static int size_find(struct file *file)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return -errno;
    }
    file->is_block_device = S_ISBLK(status.st_mode);
    instance_set(file, &status);
    if (!file->is_block_device && !S_ISREG(status.st_mode)) {
        return S_ISDIR(status.st_mode) ? -EISDIR : -ENODEV;
    }
    file->size = (uint64_t)status.st_size;
    if (!file->is_block_device) {
        return 0;
    }
    int sector;
    if (ioctl(file->fd, BLKGETSIZE64, &file->size) != 0 ||
        ioctl(file->fd, BLKSSZGET, &sector) != 0) {
        return -errno;
    }
    file->sector = (uint32_t)sector;
    return 0;
}

static int engine_choose(struct file *file, unsigned wanted, const struct ddm_host *host)
{
    int error = -ENOSYS;
    if (wanted != 2) {
        file->kind = &file_engine_uring;
        error = file->kind->create(file->fd, FILE_DEPTH, &file->engine);
    }
    if (wanted == 0 && error != 0) {
        char line[128];
        snprintf(line, sizeof line, "file: io_uring is refused here (%s): using threads",
                 strerror(-error));
        host->say(host->ctx, line);
    }
    if (wanted == 2 || (wanted == 0 && error != 0)) {
        file->kind = &file_engine_threads;
        error = file->kind->create(file->fd, FILE_DEPTH, &file->engine);
    }
    return error;
}

// What does not fit is told by its end, which is where paths differ.
static void origin_set(struct file *file, const char *object)
{
    char path[PATH_MAX];
    const char *whole = realpath(object, path) != NULL ? path : object;
    size_t len = strlen(whole), most = sizeof file->origin - sizeof "file:";
    snprintf(file->origin, sizeof file->origin, "file:%.*s", (int)most,
             len > most ? whole + len - most : whole);
}

static int file_probe(struct ddm *ddm, struct volume_profile *ret)
{
    struct file *file = (struct file *)ddm;
    int error = size_find(file);
    if (error != 0) {
        return error;
    }
    uint32_t alignment = file->is_direct ? file->sector : 1;
    *ret = (struct volume_profile){.size = file->size & ~(uint64_t)(alignment - 1),
                                   .abilities = VOLUME_CAN_FLUSH | VOLUME_CAN_EXTENTS,
                                   .block_size = file->sector,
                                   .alignment = alignment,
                                   .preferred = 4096,
                                   .transfer_max = NODE_TRANSFER_MAX,
                                   .range_max = 1ULL << 40,
                                   .depth = FILE_DEPTH,
                                   .driver = "file"};
    if (!ddm->host.read_only) {
        ret->abilities |= VOLUME_CAN_WRITE | VOLUME_CAN_FUA | VOLUME_CAN_WRITE_ZEROES;
        ret->abilities |= file->can_punch ? VOLUME_CAN_TRIM : 0;
        ret->abilities |= file->can_punch && file->can_zero ? VOLUME_CAN_ZERO_FAST : 0;
    }
    ret->abilities &= file->is_block_device ? ~(uint32_t)VOLUME_CAN_EXTENTS : UINT32_MAX;
    snprintf(ret->model, sizeof ret->model, "%s", file->kind->name);
    snprintf(ret->origin, sizeof ret->origin, "%s", file->origin);
    snprintf(ret->instance, sizeof ret->instance, "%s", file->instance);
    return 0;
}

// Has no other file taken its path meanwhile?
static bool is_at(const struct file *file, const char *path)
{
    struct stat here, there;
    return fstat(file->fd, &here) == 0 && stat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

// What another node has is told of as it is, with all that a file can mostly do: nothing is tried
// on what is not ours.
static int stand_by(struct file *file, const char *path)
{
    const struct ddm_host *host = &file->ddm.host;
    struct volume_profile profile;
    file->can_punch = file->can_zero = true;
    int error = file_probe(&file->ddm, &profile);
    if (error != 0) {
        return error;
    }
    host->stand_by(host->ctx, &profile);
    error = lock_wait(file->fd, host);
    return error == 0 && !is_at(file, path) ? -ESTALE : error;
}

static int fence_take(struct file *file, const char *path)
{
    const struct ddm_host *host = &file->ddm.host;
    if (host->stand_by == NULL) {
        return lock_take(file->fd, host, "file");
    }
    int error = lock_try(file->fd, host);
    return error == -EBUSY ? stand_by(file, path) : error;
}

static int file_setup(struct file *file, const char *path, unsigned engine)
{
    const struct ddm_host *host = &file->ddm.host;
    int flags = (host->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    file->fd = open(path, flags | (file->is_direct ? O_DIRECT : 0));
    if (file->fd < 0) {
        return -errno;
    }
    file->sector = file->is_direct ? direct_sector(file->fd) : SECTOR_LEN;
    origin_set(file, path);
    int error = size_find(file);
    if (error == 0) {
        error = engine_choose(file, engine, host);
    }
    if (error == 0) {
        error = fence_take(file, path);
    }
    if (error == 0) {
        error = size_find(file); // as the predecessor left it
    }
    if (error == 0 && !host->read_only) {
        try_fallocate(file);
    }
    file_cache_init(&file->cache, file->fd, host->is_alone);
    return error;
}

static const char *reason(int error)
{
    return error == -EBUSY    ? "another process has it open through weft"
           : error == -ESTALE ? "another file has taken its place while another node had it"
           : error == -ENODEV ? "neither a file nor a block device"
                              : strerror(-error);
}

// Not with direct=on: what that writes, and what the page cache has, meet at the disk alone.
static void window_lend(struct file *file)
{
    const struct ddm_host *host = &file->ddm.host;
    if (host->lend == NULL || file->is_direct || file->is_block_device) {
        return;
    }
    file->window_fd = file_cache_window(file->fd);
    if (file->window_fd >= 0) {
        host->lend(host->ctx, file->window_fd);
    }
}

static int file_open(const struct ddm_target *target, const struct ddm_host *host, struct ddm *next,
                     struct ddm **ret, struct why *ret_why)
{
    static const char *const switch_words[] = {"off", "on", NULL};
    static const char *const engine_words[] = {"auto", "io_uring", "threads", NULL};
    unsigned direct = 0, engine = 0;
    int error = parameter_word(target, "direct", switch_words, &direct, ret_why);
    if (error != 0 ||
        (error = parameter_word(target, "engine", engine_words, &engine, ret_why)) != 0) {
        return error;
    }
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        return -ENOMEM;
    }
    *file = (struct file){.ddm = {.driver = &ddm_file, .host = *host},
                          .fd = -1,
                          .window_fd = -1,
                          .is_direct = direct != 0};
    list_init(&file->free);
    for (unsigned i = 0; i < FILE_DEPTH; i++) {
        list_push_tail(&file->free, &file->works[i].job.link);
    }
    error = file_setup(file, target->object, engine);
    if (error != 0) {
        why_say(ret_why, "%.150s: %s", target->object, reason(error));
        file_close(&file->ddm);
        return error;
    }
    window_lend(file);
    *ret = &file->ddm;
    return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

static enum node_completion completion_of(int error)
{
    switch (error) {
    case 0:
        return NODE_OK;
    case EAGAIN:
    case EINTR:
        return NODE_RETRY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return NODE_NO_SPACE;
    case EBADF:
    case EPERM:
    case EROFS:
        return NODE_READ_ONLY;
    case EOPNOTSUPP:
        return NODE_UNSUPPORTED;
    default:
        return NODE_MEDIA;
    }
}

static bool must_allocate(const struct ddm_command *command)
{
    return command->operation == NODE_WRITE_ZEROES && (command->flags & NODE_NO_HOLE) != 0;
}

// What fallocate takes of a disk is whole sectors.
static uint64_t fallocate_unit(const struct file *file)
{
    return file->is_block_device ? file->sector : 1;
}

// How fallocate makes these zeroes; 0: it cannot.
static int fallocate_mode(const struct file *file, const struct ddm_command *command)
{
    if ((command->offset | command->len) % fallocate_unit(file) != 0) {
        return 0;
    }
    if (file->can_punch && !must_allocate(command)) {
        return FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
    }
    return file->can_zero ? FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE : 0;
}

// Zeroes come about by fallocate, or are written.
static void zeroes_begin(struct file *file, struct file_work *work)
{
    struct ddm_command *command = work->command;
    uint64_t left = command->len - work->done_len;
    work->job.mode = fallocate_mode(file, command);
    if (work->job.mode != 0) {
        work->job.call = FILE_ALLOCATE;
        work->job.len = command->len;
        return;
    }
    work->job.call = FILE_WRITE;
    work->job.data = file->zeroes;
    work->job.len = left < FILE_ZEROES_LEN ? left : FILE_ZEROES_LEN;
}

// The range of advice, as far as it can be taken.
static void trim_begin(struct file *file, struct file_work *work)
{
    const struct ddm_command *command = work->command;
    uint64_t unit = fallocate_unit(file), end = command->offset + command->len;
    uint64_t from = (command->offset + unit - 1) / unit * unit;
    end -= end % unit;
    work->job.call = FILE_ALLOCATE;
    work->job.mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;
    work->job.offset = from;
    work->job.len = end > from ? end - from : 0;
}

// The call that comes next for the command.
static void call_prepare(struct file *file, struct file_work *work)
{
    struct ddm_command *command = work->command;
    work->job.offset = command->offset + work->done_len;
    work->job.rw_flags = (command->flags & NODE_FUA) != 0 ? RWF_DSYNC : 0;
    switch (command->operation) {
    case NODE_READ:
    case NODE_WRITE:
        work->job.call = command->operation == NODE_READ ? FILE_READ : FILE_WRITE;
        work->job.data = (uint8_t *)command->data + work->done_len;
        work->job.len = command->data_len - work->done_len;
        break;
    case NODE_FLUSH:
        work->job.call = FILE_SYNC;
        break;
    case NODE_TRIM:
        trim_begin(file, work);
        break;
    default:
        zeroes_begin(file, work);
    }
}

static void extents(const struct file *file, struct ddm_command *command)
{
    struct node_extent *out = command->data;
    size_t most = command->data_len / sizeof *out, count = 0;
    uint64_t at = command->offset, end = command->offset + command->len;
    while (at < end && count < most) {
        off_t data = lseek(file->fd, (off_t)at, SEEK_DATA);
        uint64_t data_at = data < 0 || (uint64_t)data > end ? end : (uint64_t)data;
        if (data < 0 && errno != ENXIO) {
            data_at = at; // no holes to be seen here
        }
        off_t hole = data_at > at ? (off_t)data_at : lseek(file->fd, (off_t)at, SEEK_HOLE);
        // A hole that begins here has come since.
        uint64_t next = hole <= (off_t)at || (uint64_t)hole > end ? end : (uint64_t)hole;
        out[count++] = (struct node_extent){
            .len = next - at, .flags = data_at > at ? NODE_EXTENT_HOLE | NODE_EXTENT_ZERO : 0};
        at = next;
    }
    command->answer_len = (uint32_t)(count * sizeof *out);
    ddm_command_finish(command, NODE_OK, 0);
}

static bool must_write_zeroes(const struct file *file, const struct ddm_command *command)
{
    return command->operation == NODE_WRITE_ZEROES && fallocate_mode(file, command) == 0;
}

// What fallocate does here may be less than the volume was said to be able to do.
static bool is_possible(const struct file *file, const struct ddm_command *command)
{
    bool is_slow = (command->flags & NODE_FAST_ONLY) != 0 && must_write_zeroes(file, command);
    return !is_slow && (command->operation != NODE_TRIM || file->can_punch);
}

// In memory that direct=on takes. False: there is none.
static bool zeroes_have(struct file *file)
{
    if (file->zeroes == NULL && (file->zeroes = aligned_alloc(4096, FILE_ZEROES_LEN)) != NULL) {
        memset(file->zeroes, 0, FILE_ZEROES_LEN);
    }
    return file->zeroes != NULL;
}

static void work_end(struct file *file, struct file_work *work, int error)
{
    struct ddm_command *command = work->command;
    list_push_head(&file->free, &work->job.link);
    file->under_way--;
    ddm_command_finish(command, completion_of(error), (uint32_t)error);
}

// What fallocate refuses here and now is written, unless that is of no use, or ruled out.
static bool fall_back(struct file *file, struct file_work *work)
{
    struct ddm_command *command = work->command;
    bool is_refused = work->job.result == -EOPNOTSUPP || work->job.result == -EINVAL;
    if (work->job.call != FILE_ALLOCATE || !is_refused) {
        return false;
    }
    if (command->operation == NODE_TRIM || (command->flags & NODE_FAST_ONLY) != 0) {
        work->job.result = -EOPNOTSUPP;
        return false;
    }
    file->can_zero = false;
    file->can_punch = file->can_punch && must_allocate(command);
    return true;
}

// True: the command needs another call, which is prepared.
static bool work_continue(struct file *file, struct file_work *work, int *ret_error)
{
    struct file_job *job = &work->job;
    struct ddm_command *command = work->command;
    *ret_error = 0;
    if (fall_back(file, work)) {
        *ret_error = zeroes_have(file) ? 0 : ENOMEM;
        call_prepare(file, work);
        return *ret_error == 0;
    }
    if (job->result < 0) {
        *ret_error = (int)-job->result;
        return false;
    }
    if (job->call == FILE_READ || job->call == FILE_WRITE) {
        uint64_t wanted =
            command->operation == NODE_WRITE_ZEROES ? command->len : command->data_len;
        if (job->result == 0) {
            *ret_error = EIO; // the file has been cut short
            return false;
        }
        work->done_len += (uint64_t)job->result;
        if (work->done_len < wanted) {
            call_prepare(file, work);
            return true;
        }
        return false;
    }
    if (job->call == FILE_ALLOCATE && (command->flags & NODE_FUA) != 0) {
        job->call = FILE_SYNC;
        return true;
    }
    return false;
}

static int file_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct file *file = (struct file *)ddm;
    if (command->operation == NODE_EXTENTS) {
        extents(file, command);
        return 0;
    }
    if (!is_possible(file, command)) {
        ddm_command_finish(command, NODE_UNSUPPORTED, EOPNOTSUPP);
        return 0;
    }
    if (must_write_zeroes(file, command) && !zeroes_have(file)) {
        return -ENOMEM;
    }
    struct list_link *l = list_pop_head(&file->free);
    if (l == NULL) {
        return -EAGAIN;
    }
    struct file_work *work = LIST_ENTRY(l, struct file_work, job.link);
    *work = (struct file_work){.command = command};
    list_init(&work->job.link);
    call_prepare(file, work);
    file->under_way++;
    int error = 0;
    if (work->job.call == FILE_ALLOCATE && work->job.len == 0) {
        work_end(file, work, 0); // less than a sector
    } else if (!file->is_direct && file_cache_try(&file->cache, &work->job) &&
               !work_continue(file, work, &error)) {
        work_end(file, work, error);
    } else {
        file->kind->queue(file->engine, &work->job);
    }
    return 0;
}

static void reap(struct file *file)
{
    bool has_more = false;
    for (struct file_job *job; (job = file->kind->reap(file->engine)) != NULL;) {
        struct file_work *work = LIST_ENTRY(job, struct file_work, job);
        int error;
        if (work_continue(file, work, &error)) {
            file->kind->queue(file->engine, job);
            has_more = true;
        } else {
            work_end(file, work, error);
        }
    }
    if (has_more) {
        file->kind->start(file->engine);
    }
}

// Many calls have ended when they have begun.
static void file_flush_queue(struct ddm *ddm)
{
    struct file *file = (struct file *)ddm;
    if (file->under_way > 0) {
        file->kind->start(file->engine);
        reap(file);
    }
}

static int file_poll_fd(struct ddm *ddm)
{
    struct file *file = (struct file *)ddm;
    return file->kind->ended_fd(file->engine);
}

static void file_poll(struct ddm *ddm, instant_ns now)
{
    reap((struct file *)ddm);
}

static void file_drain(struct ddm *ddm)
{
    struct file *file = (struct file *)ddm;
    file_flush_queue(ddm);
    while (file->under_way > 0) {
        file->kind->wait(file->engine);
        reap(file);
    }
}

static const char *const calls[] = {"preadv2", "pwritev2",       "fdatasync", "fallocate",
                                    "ioctl",   "io_uring_enter", "getrusage", NULL};

const struct ddm_driver ddm_file = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "file",
    .summary = "a file or a block device",
    .object = "PATH",
    .fence = "a lock on the file description that the I/O goes through",
    .parameters = keys,
    .can_stand_by = true,
    .calls = calls,
    .open = file_open,
    .probe = file_probe,
    .submit = file_submit,
    .flush_queue = file_flush_queue,
    .poll_fd = file_poll_fd,
    .poll = file_poll,
    .drain = file_drain,
    .close = file_close,
};
