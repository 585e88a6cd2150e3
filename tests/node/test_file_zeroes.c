// Zeroes and trims of files and disks, before a kernel of the test's: what fallocate is asked, what
// is written where it refuses, and what becomes stable.

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/ddm/registry.h"
#include "node/interface/request.h"

enum { SECTOR = 4096, FILE_LEN = 4 << 20, TRACE_MAX = 1024, PIECE = 1 << 20 };

// The kernel, as threads of the engine ask it, one at a time.
static struct {
    bool is_disk;
    unsigned direct_align;            // of files, with direct=on; 0: it does not say
    bool refuses_punch, refuses_zero; // for good: so it does when the volume is opened
    int punch_error, zero_error;      // ... or from when the test says so; 0: none
    int sync_error, write_error;      // the errno of the next; 0: none
    size_t write_max;                 // that one call writes
    bool is_told;                     // the trace is written
    char trace[TRACE_MAX];
} kernel;

static void __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    size_t len = strlen(kernel.trace);
    va_list words;
    va_start(words, format);
    if (kernel.is_told) {
        vsnprintf(kernel.trace + len, sizeof kernel.trace - len, format, words);
    }
    va_end(words);
}

static int failing(int error)
{
    errno = error;
    return error != 0 ? -1 : 0;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t len);
int __real_fallocate64(int fd, int mode, off_t offset, off_t len);
int __wrap_statx(int fd, const char *at, int flags, unsigned mask, struct statx *ret);
int __wrap_fdatasync(int fd);
int __wrap_fstat64(int fd, struct stat *ret);
int __real_fstat64(int fd, struct stat *ret);
int __wrap_ioctl(int fd, unsigned long request, void *ret);
ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __real_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t len)
{
    bool punches = mode == (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE);
    bool is_known = punches || mode == (FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE);
    note("%s %ld+%ld, ", punches ? "punch" : is_known ? "zero" : "?", (long)offset, (long)len);
    if (punches ? kernel.refuses_punch : kernel.refuses_zero) {
        return failing(EOPNOTSUPP);
    }
    if (kernel.is_disk && (offset % SECTOR != 0 || len % SECTOR != 0)) {
        return failing(EINVAL); // as blkdev_fallocate has it
    }
    int error = punches ? kernel.punch_error : kernel.zero_error;
    // Whatever the file system here can do: the file is dense, and long enough.
    if (error == 0 && kernel.is_told) {
        static const uint8_t zeroes[FILE_LEN];
        return pwrite(fd, zeroes, (size_t)len, offset) == len ? 0 : -1;
    }
    return failing(error);
}

int __wrap_fdatasync(int fd)
{
    note("sync, ");
    return failing(kernel.sync_error);
}

int __wrap_fstat64(int fd, struct stat *ret)
{
    int error = __real_fstat64(fd, ret);
    if (kernel.is_disk && S_ISREG(ret->st_mode)) {
        ret->st_mode = S_IFBLK | 0600;
        ret->st_size = 0;
    }
    return error;
}

int __wrap_statx(int fd, const char *at, int flags, unsigned mask, struct statx *ret)
{
    assert_string_equal(at, "");
    assert_int_equal(flags, AT_EMPTY_PATH);
    memset(ret, 0, sizeof *ret);
    ret->stx_mask = STATX_BASIC_STATS | (kernel.direct_align > 0 ? mask : 0);
#ifdef STATX_DIOALIGN
    ret->stx_dio_offset_align = kernel.direct_align;
#endif
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *ret)
{
    if (request == BLKGETSIZE64) {
        *(uint64_t *)ret = FILE_LEN;
    } else if (request == BLKSSZGET) {
        *(int *)ret = SECTOR;
    } else {
        return failing(ENOTTY);
    }
    return 0;
}

ssize_t __wrap_pwritev64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    if ((flags & RWF_NOWAIT) != 0) {
        return failing(EAGAIN); // it is the engine's
    }
    struct iovec part = *iov;
    if (kernel.write_max > 0 && part.iov_len > kernel.write_max) {
        part.iov_len = kernel.write_max;
    }
    // What has no boundary of its own is refused with direct=on.
    note("write %ld+%zu%s%s, ", (long)offset, part.iov_len, (flags & RWF_DSYNC) != 0 ? " fua" : "",
         (uintptr_t)iov->iov_base % 4096 != 0 ? " from anywhere" : "");
    return kernel.write_error != 0 ? failing(kernel.write_error)
                                   : __real_pwritev64v2(fd, &part, count, offset, 0);
}

/* ---- the volume ------------------------------------------------------------------------------ */

static char path[64];
static uint8_t *memory;
static struct ddm *ddm;
static unsigned ended;

static instant_ns no_clock(void *ctx)
{
    return 0;
}

static void say(void *ctx, const char *line)
{
}

static int fresh(void **state)
{
    memset(&kernel, 0, sizeof kernel);
    memory = aligned_alloc(4096, FILE_LEN);
    memset(memory, 0x5a, FILE_LEN);
    snprintf(path, sizeof path, "/tmp/weft-zeroes.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, memory, FILE_LEN, 0), FILE_LEN);
    close(fd);
    ddm = NULL;
    return 0;
}

static int over(void **state)
{
    if (ddm != NULL) {
        ddm->driver->drain(ddm);
        ddm->driver->close(ddm);
    }
    unlink(path);
    free(memory);
    return 0;
}

static struct volume_profile probed(void)
{
    struct volume_profile profile;
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    return profile;
}

static void opened_with(const char *parameters)
{
    const struct ddm_host host = {
        .pool = memory, .pool_len = FILE_LEN, .keepsake = -1, .clock = no_clock, .say = say};
    struct why why = {""};
    char uri[128];
    snprintf(uri, sizeof uri, "file:%s?engine=threads%s", path, parameters);
    assert_int_equal(ddm_registry_open(uri, &host, &ddm, &why), 0);
    kernel.is_told = true;
}

static void opened(void)
{
    opened_with("");
}

static void on_end(void *ctx, struct ddm_command *command)
{
    ended++;
}

static struct ddm_command asked(enum node_operation operation, uint64_t offset, uint64_t len,
                                unsigned flags)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    struct ddm_command command = {.operation = (uint8_t)operation,
                                  .flags = (uint16_t)flags,
                                  .offset = offset,
                                  .len = len,
                                  .data = memory,
                                  .data_len = has_data ? (uint32_t)len : 0};
    kernel.trace[0] = '\0';
    ended = 0;
    ddm_command_expect(&command, on_end, NULL);
    assert_int_equal(ddm->driver->submit(ddm, &command), 0);
    ddm->driver->drain(ddm);
    assert_int_equal(ended, 1);
    return command;
}

static void expect(enum node_operation operation, uint64_t offset, uint64_t len, unsigned flags,
                   enum node_completion completion, const char *trace)
{
    struct ddm_command command = asked(operation, offset, len, flags);
    assert_string_equal(kernel.trace, trace);
    assert_int_equal(command.completion, completion);
}

// The octets of this range are zero, those before and behind are not.
static void expect_zeroes(uint64_t offset, uint64_t len)
{
    static uint8_t found[FILE_LEN];
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, found, FILE_LEN, 0), FILE_LEN);
    close(fd);
    for (uint64_t i = 0; i < FILE_LEN; i++) {
        bool is_within = i >= offset && i < offset + len;
        if (found[i] != (is_within ? 0 : 0x5a)) {
            fail_msg("octet %llu is %02x", (unsigned long long)i, found[i]);
        }
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void a_file_can_what_its_file_system_can(void **state)
{
    static const struct {
        bool refuses_punch, refuses_zero;
        uint32_t abilities;
        const char *zeroes, *allocated;
    } cases[] = {
        {false, false, VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST, "punch 100+200, ", "zero 100+200, "},
        {false, true, VOLUME_CAN_TRIM, "punch 100+200, ", "write 100+200, "},
        {true, false, 0, "zero 100+200, ", "zero 100+200, "},
        {true, true, 0, "write 100+200, ", "write 100+200, "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel.refuses_punch = cases[i].refuses_punch;
        kernel.refuses_zero = cases[i].refuses_zero;
        opened();
        assert_int_equal(probed().abilities & (VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST),
                         cases[i].abilities);
        expect(NODE_WRITE_ZEROES, 100, 200, 0, NODE_OK, cases[i].zeroes);
        expect(NODE_WRITE_ZEROES, 100, 200, NODE_NO_HOLE, NODE_OK, cases[i].allocated);
        expect_zeroes(100, 200);
        over(NULL);
        fresh(NULL);
    }
}

static void zeroes_that_are_written_are_written_to_the_end(void **state)
{
    kernel.refuses_punch = kernel.refuses_zero = true;
    opened();
    expect(NODE_WRITE_ZEROES, 512, 2 * PIECE + 1024, 0, NODE_OK,
           "write 512+1048576, write 1049088+1048576, write 2097664+1024, ");
    expect_zeroes(512, 2 * PIECE + 1024);
    kernel.write_max = 700; // it takes less than it is given
    expect(NODE_WRITE_ZEROES, 0, 2048, NODE_FUA, NODE_OK,
           "write 0+700 fua, write 700+700 fua, write 1400+648 fua, ");
    expect_zeroes(0, 2 * PIECE + 1536);
    kernel.write_error = ENOSPC;
    expect(NODE_WRITE_ZEROES, 0, 2048, 0, NODE_NO_SPACE, "write 0+700, ");
}

// fallocate has no FUA of its own.
static void zeroes_are_stable_when_that_is_asked_for(void **state)
{
    opened();
    expect(NODE_WRITE_ZEROES, 0, 4096, NODE_FUA, NODE_OK, "punch 0+4096, sync, ");
    expect(NODE_WRITE_ZEROES, 0, 4096, NODE_FUA | NODE_NO_HOLE, NODE_OK, "zero 0+4096, sync, ");
    expect(NODE_TRIM, 0, 4096, NODE_FUA, NODE_OK, "punch 0+4096, sync, ");
    expect(NODE_WRITE, 0, 4096, NODE_FUA, NODE_OK, "write 0+4096 fua, ");
    expect(NODE_FLUSH, 0, 0, 0, NODE_OK, "sync, ");
    kernel.sync_error = EIO;
    struct ddm_command command = asked(NODE_WRITE_ZEROES, 0, 4096, NODE_FUA);
    assert_int_equal(command.completion, NODE_MEDIA);
    assert_int_equal(command.detail, EIO);
    expect(NODE_FLUSH, 0, 0, 0, NODE_MEDIA, "sync, ");
}

// A file system may say so before, and still refuse.
static void what_fallocate_refuses_later_is_written(void **state)
{
    static const int refusals[] = {EOPNOTSUPP, EINVAL};
    for (unsigned i = 0; i < 2; i++) {
        opened();
        kernel.zero_error = refusals[i];
        expect(NODE_WRITE_ZEROES, 4096, 8192, NODE_NO_HOLE, NODE_OK,
               "zero 4096+8192, write 4096+8192, ");
        expect_zeroes(4096, 8192);
        assert_int_equal(probed().abilities & (VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST),
                         VOLUME_CAN_TRIM); // of holes it has said nothing
        expect(NODE_WRITE_ZEROES, 0, 512, NODE_NO_HOLE, NODE_OK, "write 0+512, ");
        kernel.punch_error = refusals[i];
        expect(NODE_WRITE_ZEROES, 0, 4096, 0, NODE_OK, "punch 0+4096, write 0+4096, ");
        expect(NODE_WRITE_ZEROES, 0, 4096, 0, NODE_OK, "write 0+4096, "); // it is not asked again
        assert_int_equal(probed().abilities & (VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST), 0);
        over(NULL);
        fresh(NULL);
    }
}

static void errors_of_fallocate_are_no_refusals(void **state)
{
    static const struct {
        int error;
        enum node_completion completion;
    } cases[] = {{ENOSPC, NODE_NO_SPACE}, {EDQUOT, NODE_NO_SPACE}, {EFBIG, NODE_NO_SPACE},
                 {EIO, NODE_MEDIA},       {EAGAIN, NODE_RETRY},    {EINTR, NODE_RETRY},
                 {EPERM, NODE_READ_ONLY}, {EROFS, NODE_READ_ONLY}, {EBADF, NODE_READ_ONLY}};
    opened();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel.punch_error = cases[i].error;
        struct ddm_command command = asked(NODE_WRITE_ZEROES, 0, 4096, 0);
        assert_string_equal(kernel.trace, "punch 0+4096, ");
        assert_int_equal(command.completion, cases[i].completion);
        assert_int_equal(command.detail, cases[i].error);
    }
}

/* ---- what may not be written ----------------------------------------------------------------- */

// Also if fallocate could when the volume was told of.
static void zeroes_that_have_to_be_fast_are_never_written(void **state)
{
    static const int refusals[] = {EOPNOTSUPP, EINVAL};
    for (unsigned i = 0; i < 2; i++) {
        opened();
        expect(NODE_WRITE_ZEROES, 0, 4096, NODE_FAST_ONLY, NODE_OK, "punch 0+4096, ");
        kernel.punch_error = refusals[i];
        expect(NODE_WRITE_ZEROES, 0, 4096, NODE_FAST_ONLY, NODE_UNSUPPORTED, "punch 0+4096, ");
        expect(NODE_WRITE_ZEROES, 0, 4096, 0, NODE_OK, "punch 0+4096, write 0+4096, ");
        expect(NODE_WRITE_ZEROES, 0, 4096, NODE_FAST_ONLY, NODE_UNSUPPORTED, "");
        over(NULL);
        fresh(NULL);
    }
}

static void a_trim_is_never_written(void **state)
{
    static const int refusals[] = {EOPNOTSUPP, EINVAL};
    for (unsigned i = 0; i < 2; i++) {
        opened();
        expect(NODE_TRIM, 4096, 8192, 0, NODE_OK, "punch 4096+8192, ");
        kernel.punch_error = refusals[i];
        expect(NODE_TRIM, 4096, 8192, 0, NODE_UNSUPPORTED, "punch 4096+8192, ");
        expect(NODE_WRITE_ZEROES, 0, 4096, 0, NODE_OK, "punch 0+4096, write 0+4096, ");
        expect(NODE_TRIM, 4096, 8192, 0, NODE_UNSUPPORTED, "");
        over(NULL);
        fresh(NULL);
    }
}

/* ---- disks ----------------------------------------------------------------------------------- */

static void a_disk_has_its_sectors_and_no_extents(void **state)
{
    kernel.is_disk = true;
    opened();
    const struct volume_profile profile = probed();
    assert_int_equal(profile.size, FILE_LEN);
    assert_int_equal(profile.block_size, SECTOR);
    assert_int_equal(profile.abilities, VOLUME_CAN_FLUSH | VOLUME_CAN_WRITE | VOLUME_CAN_FUA |
                                            VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
                                            VOLUME_CAN_ZERO_FAST);
}

// It is advice.
static void a_trim_of_a_disk_is_that_of_its_whole_sectors(void **state)
{
    kernel.is_disk = true;
    opened();
    expect(NODE_TRIM, SECTOR, 2 * SECTOR, 0, NODE_OK, "punch 4096+8192, ");
    expect(NODE_TRIM, SECTOR - 1, 2 * SECTOR + 2, 0, NODE_OK, "punch 4096+8192, ");
    expect(NODE_TRIM, SECTOR + 1, 2 * SECTOR, 0, NODE_OK, "punch 8192+4096, ");
    expect(NODE_TRIM, SECTOR + 1, 2 * SECTOR - 2, 0, NODE_OK, "");
    expect(NODE_TRIM, SECTOR + 8, 16, 0, NODE_OK, "");
}

// ... and who asks for it takes nothing from others by it.
static void zeroes_of_parts_of_sectors_are_written(void **state)
{
    kernel.is_disk = true;
    opened();
    expect(NODE_WRITE_ZEROES, 512, SECTOR, 0, NODE_OK, "write 512+4096, ");
    expect_zeroes(512, SECTOR);
    expect(NODE_WRITE_ZEROES, SECTOR, 512, NODE_NO_HOLE, NODE_OK, "write 4096+512, ");
    expect(NODE_WRITE_ZEROES, 0, 512, NODE_FAST_ONLY, NODE_UNSUPPORTED, "");
    assert_true((probed().abilities & VOLUME_CAN_TRIM) != 0);
    assert_true((probed().abilities & VOLUME_CAN_ZERO_FAST) != 0);
    expect(NODE_WRITE_ZEROES, SECTOR, SECTOR, 0, NODE_OK, "punch 4096+4096, ");
    expect(NODE_WRITE_ZEROES, SECTOR, SECTOR, NODE_NO_HOLE, NODE_OK, "zero 4096+4096, ");
}

#ifdef STATX_DIOALIGN
enum { TOLD = 4096 };
#else
enum { TOLD = 512 }; // the system's headers are older than Linux 6.1
#endif

// tmpfs takes O_DIRECT from Linux 6.6 on.
static void direct_writes_are_aligned_as_the_file_system_says(void **state)
{
    static const struct {
        unsigned told, alignment;
    } cases[] = {{0, 512}, {512, 512}, {4096, TOLD}, {1, 512}};
    int fd = open(path, O_RDWR | O_DIRECT);
    close(fd);
    if (fd < 0) {
        print_message("SKIP: no file here can be opened past the page cache\n");
        skip();
    }
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel.direct_align = cases[i].told;
        opened_with("&direct=on");
        struct volume_profile profile = probed();
        assert_int_equal(profile.alignment, cases[i].alignment);
        assert_int_equal(profile.block_size, cases[i].alignment);
        ddm->driver->close(ddm);
        ddm = NULL;
    }
    kernel.direct_align = 4096;
    opened();
    assert_int_equal(probed().alignment, 1);
    assert_int_equal(probed().block_size, 512);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, over)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_can_what_its_file_system_can),
        TEST(zeroes_that_are_written_are_written_to_the_end),
        TEST(zeroes_are_stable_when_that_is_asked_for),
        TEST(what_fallocate_refuses_later_is_written),
        TEST(errors_of_fallocate_are_no_refusals),
        TEST(zeroes_that_have_to_be_fast_are_never_written),
        TEST(a_trim_is_never_written),
        TEST(a_disk_has_its_sectors_and_no_extents),
        TEST(a_trim_of_a_disk_is_that_of_its_whole_sectors),
        TEST(zeroes_of_parts_of_sectors_are_written),
        TEST(direct_writes_are_aligned_as_the_file_system_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
