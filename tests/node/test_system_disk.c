// The drivers of this system's disks: an ATA disk of 2 MiB behind SG_IO, which is played here, and
// what it is asked, what it takes, and how it fails.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <scsi/sg.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/ata.h"
#include "node/ddm/registry.h"
#include "node/interface/request.h"
#include "node/rta/formats.h"

#define PATH "/dev/played"

enum { BLOCK = 512, BLOCKS = 4096, TRACE_MAX = 4096, QUEUE_SECTORS = 64, LIMIT_MS = 10000 };

// The disk. Its commands come from several threads.
static struct {
    pthread_mutex_t lock;
    uint8_t octets[BLOCKS * BLOCK];
    uint8_t identity[ATA_BLOCK_LEN];
    char trace[TRACE_MAX];
    int fd;               // it was opened so
    int flags;            // ... with these
    mode_t type;          // what stat says it is
    unsigned major;       // ... of a character device
    int queue_error;      // of BLKSECTGET
    int reset_error;      // of SG_SCSI_RESET
    int error;            // the next ioctl's errno; 0: none
    unsigned host_status; // of the next commands but IDENTIFY DEVICE
    unsigned status;
    uint8_t sense[32];
    unsigned sense_len;
    int residual;
    bool holds; // commands wait for it to be false
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    va_list words;
    size_t len = strlen(disk.trace);
    va_start(words, format);
    vsnprintf(disk.trace + len, sizeof disk.trace - len, format, words);
    va_end(words);
}

static void expect_trace(const char *wanted)
{
    pthread_mutex_lock(&disk.lock);
    char said[TRACE_MAX];
    memcpy(said, disk.trace, sizeof said);
    disk.trace[0] = '\0';
    pthread_mutex_unlock(&disk.lock);
    assert_string_equal(said, wanted);
}

/* ---- ATA ------------------------------------------------------------------------------------- */

static uint64_t lba_of(const uint8_t *cdb)
{
    return (uint64_t)cdb[11] << 40 | (uint64_t)cdb[9] << 32 | (uint64_t)cdb[7] << 24 |
           (uint64_t)cdb[12] << 16 | (uint64_t)cdb[10] << 8 | cdb[8];
}

static void trim(const uint8_t *entries)
{
    for (unsigned i = 0; i < ATA_BLOCK_LEN; i += ATA_TRIM_ENTRY_LEN) {
        uint64_t entry;
        memcpy(&entry, entries + i, sizeof entry);
        if (entry >> 48 != 0) {
            note(" %llu+%llu", (unsigned long long)(entry & 0xffffffffffff),
                 (unsigned long long)(entry >> 48));
        }
    }
}

static void move(struct sg_io_hdr *io, const char *what, bool is_write)
{
    const uint8_t *cdb = io->cmdp;
    uint64_t lba = lba_of(cdb);
    unsigned blocks = (unsigned)cdb[5] << 8 | cdb[6];
    note("%s %llu+%u", what, (unsigned long long)lba, blocks);
    int direction = is_write ? SG_DXFER_TO_DEV : SG_DXFER_FROM_DEV;
    if (io->dxfer_direction != direction || io->dxfer_len != blocks * BLOCK ||
        lba + blocks > BLOCKS) {
        note(" wrong");
    } else if (is_write) {
        memcpy(disk.octets + lba * BLOCK, io->dxferp, io->dxfer_len);
    } else {
        memcpy(io->dxferp, disk.octets + lba * BLOCK, io->dxfer_len);
    }
}

static void carry_out(struct sg_io_hdr *io)
{
    const uint8_t *cdb = io->cmdp;
    switch (cdb[14]) {
    case ATA_IDENTIFY_DEVICE:
        note("identify");
        memcpy(io->dxferp, disk.identity, io->dxfer_len < BLOCK ? io->dxfer_len : BLOCK);
        break;
    case ATA_READ_DMA_EXT:
        move(io, "read", false);
        break;
    case ATA_WRITE_DMA_EXT:
        move(io, "write", true);
        break;
    case ATA_WRITE_DMA_FUA_EXT:
        move(io, "write fua", true);
        break;
    case ATA_FLUSH_CACHE_EXT:
        note("flush%s", io->dxfer_direction == SG_DXFER_NONE && io->dxfer_len == 0 ? "" : " wrong");
        break;
    case ATA_DATA_SET_MANAGEMENT:
        note("trim");
        trim(io->dxferp);
        note(io->dxfer_len == BLOCK && io->dxfer_direction == SG_DXFER_TO_DEV ? "" : " wrong");
        break;
    default:
        note("command %02x", cdb[14]);
    }
    note(cdb[0] == 0x85 && io->cmd_len == 16 && io->interface_id == 'S' && io->mx_sb_len >= 32 &&
                 io->timeout == 30000
             ? "\n"
             : " wrongly\n");
}

static int command(struct sg_io_hdr *io)
{
    for (bool waits = true; waits;) {
        pthread_mutex_lock(&disk.lock);
        waits = disk.holds;
        if (waits) {
            pthread_mutex_unlock(&disk.lock);
            usleep(1000);
        }
    }
    bool is_asking = ((const uint8_t *)io->cmdp)[14] == ATA_IDENTIFY_DEVICE;
    int error = is_asking ? 0 : disk.error;
    carry_out(io);
    io->host_status = is_asking ? 0 : (unsigned short)disk.host_status;
    io->status = is_asking ? 0 : (unsigned char)disk.status;
    io->masked_status = io->status >> 1 & 0x1f;
    io->resid = disk.residual;
    io->sb_len_wr = is_asking ? 0 : (unsigned char)disk.sense_len;
    memcpy(io->sbp, disk.sense, io->sb_len_wr);
    pthread_mutex_unlock(&disk.lock);
    errno = error;
    return error != 0 ? -1 : 0;
}

/* ---- the system ------------------------------------------------------------------------------ */

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __real_stat64(const char *path, struct stat *ret);
int __wrap_stat64(const char *path, struct stat *ret);

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    switch (request) {
    case SG_IO:
        return command(argument);
    case BLKSECTGET:
        *(unsigned short *)argument = QUEUE_SECTORS;
        errno = disk.queue_error;
        return disk.queue_error != 0 ? -1 : 0;
    case SG_SCSI_RESET:
        note("reset %d\n", *(int *)argument);
        errno = disk.reset_error;
        return disk.reset_error != 0 ? -1 : 0;
    default:
        return __real_ioctl(fd, request, argument);
    }
}

int __wrap_open64(const char *path, int flags, mode_t mode)
{
    if (strcmp(path, PATH) != 0) {
        return __real_open64(path, flags, mode);
    }
    disk.flags = flags;
    disk.fd = memfd_create("played", MFD_CLOEXEC);
    return disk.fd;
}

int __wrap_stat64(const char *path, struct stat *ret)
{
    if (strcmp(path, PATH) != 0) {
        return __real_stat64(path, ret);
    }
    *ret = (struct stat){.st_mode = disk.type | 0600, .st_rdev = makedev(disk.major, 250)};
    return 0;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static struct ddm *ddm;
static struct volume_profile profile;
static struct why why;
static uint8_t data[64 * BLOCK];
static unsigned ended;
static uint32_t detail; // of the last answer

static instant_ns clock_now(void *ctx)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (instant_ns)now.tv_sec * NS_PER_S + (instant_ns)now.tv_nsec;
}

static void say(void *ctx, const char *line)
{
}

static int try_open(bool read_only, bool is_restart)
{
    const struct ddm_host host = {.pool = data,
                                  .pool_len = sizeof data,
                                  .keepsake = -1,
                                  .read_only = read_only,
                                  .is_restart = is_restart,
                                  .clock = clock_now,
                                  .say = say};
    why = (struct why){0};
    return ddm_registry_open("ata:" PATH, &host, &ddm, &why);
}

static void open_disk(void)
{
    assert_int_equal(try_open(false, false), 0);
    expect_trace("identify\n");
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
}

static void close_disk(void)
{
    ddm->driver->close(ddm);
    ddm = NULL;
}

static void on_end(void *ctx, struct ddm_command *c)
{
    ended++;
}

static struct ddm_command request(enum node_operation operation, uint64_t block, uint32_t blocks,
                                  uint16_t flags)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    struct ddm_command c = {.operation = (uint8_t)operation,
                            .flags = flags,
                            .offset = block * BLOCK,
                            .len = (uint64_t)blocks * BLOCK,
                            .data = has_data ? data : NULL,
                            .data_len = has_data ? blocks * BLOCK : 0};
    assert_int_equal(io_format_ata.encode(&profile, &c), NODE_OK);
    return c;
}

static void wait_for(unsigned count)
{
    while (ended < count) {
        struct pollfd fd = {.fd = ddm->driver->poll_fd(ddm), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, LIMIT_MS), 1);
        ddm->driver->poll(ddm, clock_now(NULL));
    }
}

static enum node_completion run(enum node_operation operation, uint64_t block, uint32_t blocks,
                                uint16_t flags)
{
    struct ddm_command c = request(operation, block, blocks, flags);
    ended = 0;
    ddm_command_expect(&c, on_end, NULL);
    assert_int_equal(ddm->driver->submit(ddm, &c), 0);
    wait_for(1);
    io_format_ata.decode(&c);
    detail = c.detail;
    return c.completion;
}

static void word(unsigned number, unsigned value)
{
    disk.identity[2 * number] = (uint8_t)value;
    disk.identity[2 * number + 1] = (uint8_t)(value >> 8);
}

static int setup(void **state)
{
    static const char model[] = "lPyaded si k    "; // the octets of each word exchanged
    memset(disk.identity, 0, sizeof disk.identity);
    memset(disk.octets, 0x5a, sizeof disk.octets);
    memset(disk.identity + 54, ' ', 40);
    memcpy(disk.identity + 54, model, sizeof model - 1);
    word(10, 'S' << 8 | '1');
    word(83, 0x4400);          // addresses of 48 bits
    word(84, 0x4000 | 1 << 6); // FUA
    word(85, 1 << 5);          // a cache for writes
    word(100, BLOCKS);
    word(169, 1); // trim
    word(217, 1); // does not turn
    disk.trace[0] = '\0';
    disk.type = S_IFBLK;
    disk.major = 8;
    disk.queue_error = disk.reset_error = disk.error = disk.residual = 0;
    disk.host_status = disk.status = disk.sense_len = 0;
    disk.holds = false;
    memset(disk.sense, 0, sizeof disk.sense);
    return 0;
}

static int teardown(void **state)
{
    disk.holds = false;
    if (ddm != NULL) {
        close_disk();
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void a_disk_says_what_it_is_and_can(void **state)
{
    open_disk();
    assert_int_equal(disk.flags, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    assert_int_equal(profile.size, BLOCKS * BLOCK);
    assert_int_equal(profile.block_size, BLOCK);
    assert_int_equal(profile.alignment, BLOCK);
    assert_int_equal(profile.preferred, 4096);
    assert_int_equal(profile.transfer_max, QUEUE_SECTORS * BLOCK);
    assert_int_equal(profile.range_max, 6ULL * 65535 * BLOCK);
    assert_int_equal(profile.depth, 8);
    assert_string_equal(profile.driver, "ata");
    assert_string_equal(profile.model, "Played disk");
    assert_string_equal(profile.origin, "ata:Played disk/S1");
    assert_int_equal(profile.abilities, VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_FUA |
                                            VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_TRIM);
}

static void what_it_does_not_have_is_not_promised(void **state)
{
    word(85, 0);
    word(169, 0);
    word(217, 7200);
    word(106, 0x4000 | 1 << 13 | 5); // 32 logical sectors in a physical one
    word(87, 0x4000 | 1 << 8);
    word(108, 0x5000);
    word(111, 0xbeef);
    open_disk();
    assert_int_equal(profile.abilities, VOLUME_CAN_WRITE | VOLUME_CAN_FUA |
                                            VOLUME_CAN_WRITE_ZEROES | VOLUME_IS_ROTATIONAL);
    assert_int_equal(profile.preferred, 32 * BLOCK);
    assert_string_equal(profile.origin, "ata:500000000000beef");
}

static void one_that_is_only_read_is_opened_so(void **state)
{
    assert_int_equal(try_open(true, false), 0);
    assert_int_equal(disk.flags & O_ACCMODE, O_RDONLY);
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    assert_int_equal(profile.abilities, VOLUME_CAN_FLUSH);
}

// Where the queue tells nothing, it is what the kernel takes whatever the memory is like; and a
// transfer is of whole blocks.
static void transfers_are_as_long_as_the_queue_takes(void **state)
{
    disk.queue_error = ENOTTY;
    open_disk();
    assert_int_equal(profile.transfer_max, 256 << 10);
    close_disk();
    disk.queue_error = 0;
    word(106, 0x4000 | 1 << 12);
    word(117, 12288 / 2);
    assert_int_equal(try_open(false, false), -EPROTO); // no power of two
    word(117, 65536 / 2);
    expect_trace("identify\n");
    open_disk();
    assert_int_equal(profile.transfer_max, 65536); // one block, though the queue takes half
}

static void what_is_no_disk_is_refused(void **state)
{
    disk.type = S_IFREG;
    assert_int_equal(try_open(false, false), -ENODEV);
    assert_string_equal(why.text, PATH ": no SCSI device");
    disk.type = S_IFCHR;
    disk.major = 8;
    assert_int_equal(try_open(false, false), -ENODEV);
    disk.type = S_IFBLK;
    word(83, 0);
    assert_int_equal(try_open(false, false), -EPROTO);
    assert_string_equal(why.text, "no ATA disk with addresses of 48 bits");
    word(83, 0x4400);
    disk.residual = 1;
    assert_int_equal(try_open(false, false), -EPROTO);
    disk.residual = 0;
    assert_int_equal(try_open(false, false), 0);
}

// What a predecessor left at a generic device is ended; at a block device it cannot be there.
static void a_generic_device_is_reset_after_a_predecessor(void **state)
{
    disk.type = S_IFCHR;
    disk.major = 21;
    assert_int_equal(try_open(false, true), 0);
    expect_trace("reset 1\nidentify\n");
    close_disk();
    open_disk();
    close_disk();
    disk.reset_error = EACCES;
    assert_int_equal(try_open(false, true), -EACCES);
    assert_string_equal(why.text, PATH ": an earlier process's commands cannot be ended: "
                                       "Permission denied");
    disk.trace[0] = '\0';
    disk.type = S_IFBLK;
    assert_int_equal(try_open(false, true), 0);
    expect_trace("identify\n");
}

/* ---- commands -------------------------------------------------------------------------------- */

static void blocks_are_read_and_written(void **state)
{
    open_disk();
    memset(data, 0x11, 3 * BLOCK);
    assert_int_equal(run(NODE_WRITE, 7, 3, 0), NODE_OK);
    assert_int_equal(disk.octets[7 * BLOCK - 1], 0x5a);
    assert_memory_equal(disk.octets + 7 * BLOCK, data, 3 * BLOCK);
    assert_int_equal(disk.octets[10 * BLOCK], 0x5a);
    memset(data, 0, sizeof data);
    assert_int_equal(run(NODE_READ, 6, 2, 0), NODE_OK);
    assert_memory_equal(data, disk.octets + 6 * BLOCK, 2 * BLOCK);
    assert_int_equal(run(NODE_READ, BLOCKS - 1, 1, 0), NODE_OK);
    assert_int_equal(run(NODE_FLUSH, 0, 0, 0), NODE_OK);
    expect_trace("write 7+3\nread 6+2\nread 4095+1\nflush\n");
}

static void what_must_be_stable_is_written_so_or_flushed(void **state)
{
    open_disk();
    assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), NODE_OK);
    expect_trace("write fua 1+1\n");
    close_disk();
    word(84, 0x4000);
    open_disk();
    assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), NODE_OK);
    assert_int_equal(run(NODE_WRITE, 1, 1, 0), NODE_OK);
    expect_trace("write 1+1\nflush\nwrite 1+1\n");
    disk.status = SCSI_BUSY;
    run(NODE_WRITE, 1, 1, NODE_FUA);
    expect_trace("write 1+1\n"); // there is nothing to flush
    disk.status = 0;
    disk.error = EIO;
    run(NODE_WRITE, 1, 1, NODE_FUA);
    expect_trace("write 1+1\n");
    disk.error = 0;
    close_disk();
    word(85, 0); // without a cache all is stable
    open_disk();
    assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), NODE_OK);
    expect_trace("write 1+1\n");
}

// Some layers between tell the registers of each command, by sense data.
static void what_is_written_and_told_of_is_flushed(void **state)
{
    static const struct {
        uint8_t status;
        enum node_completion completion;
        const char *trace;
    } cases[] = {{0x50, NODE_OK, "write 1+1\nflush\n"},
                 {0x50 | ATA_STATUS_ERROR, NODE_RETRY, "write 1+1\n"},
                 {0x50 | ATA_STATUS_DEVICE_FAULT, NODE_MEDIA, "write 1+1\n"},
                 {ATA_STATUS_BUSY, NODE_RETRY, "write 1+1\n"}};
    word(84, 0x4000);
    open_disk();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t sense[22] = {0x72,     SCSI_RECOVERED_ERROR,  0, 0x1d, [7] = 14, [8] = 0x09,
                                   [9] = 12, [21] = cases[i].status};
        disk.status = SCSI_CHECK_CONDITION;
        memcpy(disk.sense, sense, sizeof sense);
        disk.sense_len = sizeof sense;
        assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), cases[i].completion);
        expect_trace(cases[i].trace);
    }
}

// Of a transfer that moved less nobody knows which part, whatever the disk says of the command.
static void what_is_written_in_part_is_no_success(void **state)
{
    static const uint8_t told[22] = {
        0x72, SCSI_RECOVERED_ERROR, 0, 0x1d, [7] = 14, [8] = 0x09, [9] = 12, [21] = 0x50};
    word(84, 0x4000);
    open_disk();
    disk.residual = BLOCK;
    assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), NODE_RETRY);
    expect_trace("write 1+1\n");
    disk.status = SCSI_CHECK_CONDITION;
    memcpy(disk.sense, told, sizeof told);
    disk.sense_len = sizeof told;
    assert_int_equal(run(NODE_WRITE, 1, 1, NODE_FUA), NODE_RETRY);
    expect_trace("write 1+1\n");
}

static void ranges_are_trimmed_and_zeroed(void **state)
{
    open_disk();
    assert_int_equal(run(NODE_TRIM, 5, 9, 0), NODE_OK);
    expect_trace("trim 5+9\n");
    assert_int_equal(run(NODE_WRITE_ZEROES, 2, 2, 0), NODE_OK);
    expect_trace("write 2+2\n");
    static const uint8_t zeroes[2 * BLOCK];
    assert_memory_equal(disk.octets + 2 * BLOCK, zeroes, sizeof zeroes);
    assert_int_equal(disk.octets[2 * BLOCK - 1], 0x5a);
    assert_int_equal(disk.octets[4 * BLOCK], 0x5a);
}

static void as_many_commands_as_it_has_room_for_are_under_way(void **state)
{
    enum { DEPTH = 8 };
    struct ddm_command c[DEPTH + 1];
    open_disk();
    ended = 0;
    pthread_mutex_lock(&disk.lock);
    disk.holds = true;
    pthread_mutex_unlock(&disk.lock);
    for (unsigned i = 0; i <= DEPTH; i++) {
        c[i] = request(NODE_FLUSH, 0, 0, 0);
        ddm_command_expect(&c[i], on_end, NULL);
        assert_int_equal(ddm->driver->submit(ddm, &c[i]), i < DEPTH ? 0 : -EAGAIN);
    }
    ddm->driver->poll(ddm, clock_now(NULL));
    assert_int_equal(ended, 0);
    pthread_mutex_lock(&disk.lock);
    disk.holds = false;
    pthread_mutex_unlock(&disk.lock);
    ddm->driver->drain(ddm);
    assert_int_equal(ended, DEPTH);
    assert_int_equal(ddm->driver->submit(ddm, &c[DEPTH]), 0);
    wait_for(DEPTH + 1);
}

/* ---- failures -------------------------------------------------------------------------------- */

// What the disk's registers say, in either format of sense data.
static void registers_tell_what_failed(void **state)
{
    static const struct {
        uint8_t status, error;
        enum node_completion completion;
    } rows[] = {{ATA_STATUS_ERROR, ATA_ERROR_UNCORRECTABLE, NODE_MEDIA},
                {ATA_STATUS_ERROR, ATA_ERROR_INTERFACE_CRC, NODE_RETRY},
                {ATA_STATUS_DEVICE_FAULT, 0, NODE_MEDIA},
                {0x40, 0, NODE_OK}};
    open_disk();
    disk.status = SCSI_CHECK_CONDITION;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint8_t descriptor[] = {
            0x72,          4, 0, 0, 0, 0, 0, 14, 0x09, 12, 0,
            rows[i].error, 0, 0, 0, 0, 0, 0, 0,  0,    0,  rows[i].status};
        memcpy(disk.sense, descriptor, sizeof descriptor);
        disk.sense_len = sizeof descriptor;
        assert_int_equal(run(NODE_READ, 0, 1, 0), rows[i].completion);
    }
}

static void what_the_layer_between_says_counts_without_them(void **state)
{
    static const struct {
        uint8_t key;
        enum node_completion completion;
    } rows[] = {{SCSI_ILLEGAL_REQUEST, NODE_UNSUPPORTED},
                {SCSI_NOT_READY, NODE_RETRY},
                {SCSI_UNIT_ATTENTION, NODE_RETRY},
                {SCSI_ABORTED_COMMAND, NODE_RETRY},
                {SCSI_HARDWARE_ERROR, NODE_MEDIA}};
    open_disk();
    disk.status = SCSI_CHECK_CONDITION;
    disk.sense_len = 18;
    disk.sense[0] = 0x70;
    disk.sense[7] = 10;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        disk.sense[2] = rows[i].key;
        assert_int_equal(run(NODE_READ, 0, 1, 0), rows[i].completion);
    }
    disk.sense_len = 0;
    assert_int_equal(run(NODE_READ, 0, 1, 0), NODE_MEDIA);
    disk.status = SCSI_BUSY;
    assert_int_equal(run(NODE_READ, 0, 1, 0), NODE_RETRY);
}

static void what_does_not_reach_the_disk_is_told_apart(void **state)
{
    static const struct {
        unsigned host_status;
        int error;
        enum node_completion completion;
    } rows[] = {{1, ENODEV, NODE_NO_VOLUME}, {4, ENODEV, NODE_NO_VOLUME},
                {3, ETIMEDOUT, NODE_RETRY},  {2, EAGAIN, NODE_RETRY},
                {8, EAGAIN, NODE_RETRY},     {13, EAGAIN, NODE_RETRY},
                {7, EIO, NODE_MEDIA}};
    open_disk();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        disk.host_status = rows[i].host_status;
        assert_int_equal(run(NODE_READ, 0, 1, 0), rows[i].completion);
        assert_int_equal(detail, rows[i].error);
    }
    disk.host_status = 0;
    disk.error = ENODEV;
    assert_int_equal(run(NODE_READ, 0, 1, 0), NODE_NO_VOLUME);
    disk.error = 0;
    disk.residual = BLOCK;
    assert_int_equal(run(NODE_READ, 0, 1, 0), NODE_RETRY);
    disk.residual = 0;
    assert_int_equal(run(NODE_READ, 0, 1, 0), NODE_OK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_disk_says_what_it_is_and_can),
        CASE(what_it_does_not_have_is_not_promised),
        CASE(one_that_is_only_read_is_opened_so),
        CASE(transfers_are_as_long_as_the_queue_takes),
        CASE(what_is_no_disk_is_refused),
        CASE(a_generic_device_is_reset_after_a_predecessor),
        CASE(blocks_are_read_and_written),
        CASE(what_must_be_stable_is_written_so_or_flushed),
        CASE(what_is_written_and_told_of_is_flushed),
        CASE(what_is_written_in_part_is_no_success),
        CASE(ranges_are_trimmed_and_zeroed),
        CASE(as_many_commands_as_it_has_room_for_are_under_way),
        CASE(registers_tell_what_failed),
        CASE(what_the_layer_between_says_counts_without_them),
        CASE(what_does_not_reach_the_disk_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
