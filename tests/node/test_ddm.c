// Device driver modules through their contract: file with both engines, ram, null, and filters.
// `test_ddm URI` does to the device that is named what is done to all that keep data, and leaves
// other data on it than it found.

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/ddm/file.h"
#include "node/ddm/registry.h"
#include "node/rta/formats.h"

enum { BLOCK = 4096, POOL_LEN = 4 << 20, FILE_LEN = 1 << 20 };

struct desk {
    uint8_t *pool;
    int kept;
    struct why why;
    char said[256];
    char path[64];
    unsigned ended;
};

static instant_ns desk_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static void desk_say(void *ctx, const char *line)
{
    struct desk *desk = ctx;
    snprintf(desk->said, sizeof desk->said, "%s", line);
}

static void desk_keep(void *ctx, int fd)
{
    ((struct desk *)ctx)->kept = dup(fd);
}

static struct ddm_host host_of(struct desk *desk)
{
    return (struct ddm_host){.ctx = desk,
                             .pool = desk->pool,
                             .pool_len = POOL_LEN,
                             .keepsake = -1,
                             .clock = desk_clock,
                             .say = desk_say,
                             .keep = desk_keep};
}

static int desk_setup(void **state)
{
    struct desk *desk = calloc(1, sizeof *desk);
    desk->pool = aligned_alloc(BLOCK, POOL_LEN);
    desk->kept = -1;
    snprintf(desk->path, sizeof desk->path, "/tmp/weft-ddm.XXXXXX");
    int fd = mkstemp(desk->path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, FILE_LEN), 0);
    close(fd);
    *state = desk;
    return 0;
}

static int desk_teardown(void **state)
{
    struct desk *desk = *state;
    unlink(desk->path);
    if (desk->kept >= 0) {
        close(desk->kept);
    }
    free(desk->pool);
    free(desk);
    return 0;
}

static struct ddm *open_uri(struct desk *desk, const char *format)
{
    struct ddm *ddm = NULL;
    struct ddm_host host = host_of(desk);
    char uri[256];
    const char *mark = strchr(format, '@'); // the file's path
    snprintf(uri, sizeof uri, "%.*s%s%s", mark != NULL ? (int)(mark - format) : 0, format,
             mark != NULL ? desk->path : "", mark != NULL ? mark + 1 : format);
    assert_int_equal(ddm_registry_open(uri, &host, &ddm, &desk->why), 0);
    return ddm;
}

static void on_end(void *ctx, struct ddm_command *command)
{
    ((struct desk *)ctx)->ended++;
}

// Until `count` commands have ended in all.
static void await(struct desk *desk, struct ddm *ddm, unsigned count)
{
    const struct ddm_driver *driver = ddm->driver;
    if (driver->flush_queue != NULL) {
        driver->flush_queue(ddm);
    }
    while (desk->ended < count) {
        struct pollfd fd = {.fd = driver->poll_fd(ddm), .events = POLLIN};
        assert_true(poll(&fd, 1, 20) >= 0);
        driver->poll(ddm, desk_clock(NULL));
    }
}

static enum node_completion carry_out(struct desk *desk, struct ddm *ddm,
                                      struct ddm_command *command)
{
    desk->ended = 0;
    command->submitted_at_ns = desk_clock(NULL);
    ddm_command_expect(command, on_end, desk);
    assert_int_equal(ddm->driver->submit(ddm, command), 0);
    await(desk, ddm, 1);
    return command->completion;
}

static const struct io_format *format_of(const struct ddm *ddm)
{
    static const struct io_format *const formats[] = {&io_format_ata, &io_format_scsi};
    while (ddm->next != NULL) {
        ddm = ddm->next;
    }
    for (unsigned i = 0; i < 2 && ddm->driver->format != NULL; i++) {
        if (strcmp(formats[i]->name, ddm->driver->format) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

// A request, by as many commands as it takes; a device that says "not now" is asked again.
static enum node_completion simple(struct desk *desk, struct ddm *ddm, unsigned operation,
                                   uint64_t offset, uint64_t len, uint16_t flags)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    struct store_transaction transaction = {.request = {.operation = (uint8_t)operation,
                                                        .flags = flags,
                                                        .offset = offset,
                                                        .len = len,
                                                        .buffer_len = has_data ? (uint32_t)len : 0},
                                            .data = desk->pool};
    struct volume_profile profile;
    const struct io_format *format = format_of(ddm);
    struct ddm_command command = {0};
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    bool has_more = true;
    for (unsigned tries = 0; has_more && tries < 20; tries++) {
        assert_int_equal(converter_command(&profile, format, &transaction, &command), NODE_OK);
        carry_out(desk, ddm, &command);
        has_more = converter_result(&profile, format, &transaction, &command) ||
                   command.completion == NODE_RETRY;
        tries -= command.completion == NODE_OK;
    }
    return command.completion;
}

static void write_pattern(struct desk *desk, struct ddm *ddm, uint64_t offset, uint64_t len,
                          int octet, uint16_t flags)
{
    memset(desk->pool, octet, len);
    assert_int_equal(simple(desk, ddm, NODE_WRITE, offset, len, flags), NODE_OK);
}

static void expect_pattern(struct desk *desk, struct ddm *ddm, uint64_t offset, uint64_t len,
                           int octet)
{
    memset(desk->pool, ~octet, len);
    assert_int_equal(simple(desk, ddm, NODE_READ, offset, len, 0), NODE_OK);
    for (uint64_t i = 0; i < len; i++) {
        assert_int_equal(desk->pool[i], octet);
    }
}

// What every volume that keeps data must do.
static void exercise(struct desk *desk, struct ddm *ddm)
{
    struct volume_profile profile;
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    assert_true(volume_profile_is_sane(&profile));
    assert_true(profile.size >= FILE_LEN);
    write_pattern(desk, ddm, 0, 4 * BLOCK, 0x5a, 0);
    write_pattern(desk, ddm, BLOCK, BLOCK, 0xa5, NODE_FUA);
    expect_pattern(desk, ddm, 0, BLOCK, 0x5a);
    expect_pattern(desk, ddm, BLOCK, BLOCK, 0xa5);
    expect_pattern(desk, ddm, 2 * BLOCK, 2 * BLOCK, 0x5a);
    assert_int_equal(simple(desk, ddm, NODE_WRITE_ZEROES, BLOCK, BLOCK, 0), NODE_OK);
    expect_pattern(desk, ddm, BLOCK, BLOCK, 0);
    assert_int_equal(
        simple(desk, ddm, NODE_WRITE_ZEROES, 2 * BLOCK, BLOCK, NODE_NO_HOLE | NODE_FUA), NODE_OK);
    expect_pattern(desk, ddm, 2 * BLOCK, BLOCK, 0);
    expect_pattern(desk, ddm, 3 * BLOCK, BLOCK, 0x5a);
    if ((profile.abilities & VOLUME_CAN_TRIM) != 0) {
        assert_int_equal(simple(desk, ddm, NODE_TRIM, 0, FILE_LEN, 0), NODE_OK);
    }
    assert_int_equal(simple(desk, ddm, NODE_FLUSH, 0, 0, 0), NODE_OK);
    ddm->driver->drain(ddm);
    ddm->driver->close(ddm);
}

static const char *given; // on the command line

static void the_device_keeps_what_it_is_given(void **state)
{
    exercise(*state, open_uri(*state, given));
}

static void the_device_keeps_long_requests(void **state)
{
    enum { LEN = 3 << 20 };
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, given);
    struct volume_profile profile;
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    uint64_t at = profile.size - LEN; // its end, which must be beyond what one transfer moves
    for (uint32_t i = 0; i < LEN; i++) {
        desk->pool[i] = (uint8_t)(i * 7 + i / 509);
    }
    assert_int_equal(simple(desk, ddm, NODE_WRITE, at, LEN, 0), NODE_OK);
    memset(desk->pool, 0, LEN);
    assert_int_equal(simple(desk, ddm, NODE_READ, at, LEN, 0), NODE_OK);
    for (uint32_t i = 0; i < LEN; i++) {
        assert_int_equal(desk->pool[i], (uint8_t)(i * 7 + i / 509));
    }
    assert_int_equal(simple(desk, ddm, NODE_WRITE_ZEROES, at, LEN, 0), NODE_OK);
    expect_pattern(desk, ddm, at, LEN, 0);
    ddm->driver->drain(ddm);
    ddm->driver->close(ddm);
}

static void the_device_is_served_once(void **state)
{
    struct desk *desk = *state;
    struct ddm *first = open_uri(desk, given), *second = NULL;
    struct ddm_host host = host_of(desk);
    assert_int_equal(ddm_registry_open(given, &host, &second, &desk->why), -EBUSY);
    assert_non_null(strstr(desk->why.text, "another process"));
    first->driver->close(first);
}

static void the_device_ends_many_commands_at_once(void **state)
{
    enum { COUNT = 200 };
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, given);
    struct volume_profile profile;
    static struct ddm_command commands[COUNT];
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    unsigned begun = 0;
    for (desk->ended = 0; begun < COUNT; begun++) {
        struct store_transaction transaction = {
            .request = {.operation = begun % 2 ? NODE_WRITE : NODE_READ,
                        .offset = begun * BLOCK,
                        .len = BLOCK,
                        .buffer_len = BLOCK},
            .data = desk->pool + begun * BLOCK};
        struct ddm_command *command = &commands[begun];
        converter_command(&profile, format_of(ddm), &transaction, command);
        ddm_command_expect(command, on_end, desk);
        while (ddm->driver->submit(ddm, command) == -EAGAIN) {
            await(desk, ddm, desk->ended + 1);
        }
    }
    ddm->driver->drain(ddm);
    assert_int_equal(desk->ended, COUNT);
    ddm->driver->close(ddm);
}

static void every_driver_keeps_what_it_is_given(void **state)
{
    static const char *const uris[] = {"file:@", "file:@?engine=threads", "ram:1M",
                                       "delay+log+error+lose+file:@?error=0&log.file=/dev/null"};
    struct desk *desk = *state;
    for (unsigned i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        exercise(desk, open_uri(desk, uris[i]));
    }
}

// What some systems refuse.
static void exercise_if_possible(struct desk *desk, const char *parameters)
{
    struct ddm *ddm = NULL;
    struct ddm_host host = host_of(desk);
    char uri[256];
    snprintf(uri, sizeof uri, "file:%s?%s", desk->path, parameters);
    if (ddm_registry_open(uri, &host, &ddm, &desk->why) != 0) {
        print_message("SKIP: %s: %s\n", parameters, desk->why.text);
        skip();
    }
    exercise(desk, ddm);
}

// A ring knows calls of the kernel that are refused to the process.
static void a_ring_takes_no_more_than_files_need(void **state)
{
    struct desk *desk = *state;
    struct file_engine *engine;
    int fd = open(desk->path, O_RDWR | O_CLOEXEC);
    int error = file_engine_uring.create(fd, 8, &engine);
    if (error != 0) {
        close(fd);
        print_message("SKIP: io_uring is refused here (%s)\n", strerror(-error));
        skip();
    }
    int ring_fd = file_engine_uring.ended_fd(engine), event_fd = eventfd(0, EFD_CLOEXEC);
    // What may be asked for was settled for good, and the asking for more is not among it.
    assert_int_equal(syscall(SYS_io_uring_register, ring_fd, IORING_REGISTER_EVENTFD, &event_fd, 1),
                     -1);
    assert_int_equal(errno, EACCES);
    struct file_job job = {.call = FILE_READ, .data = desk->pool, .len = BLOCK};
    file_engine_uring.queue(engine, &job);
    file_engine_uring.start(engine);
    file_engine_uring.wait(engine);
    assert_ptr_equal(file_engine_uring.reap(engine), &job);
    assert_int_equal(job.result, BLOCK);
    file_engine_uring.destroy(engine);
    close(event_fd);
    close(fd);
}

static void io_uring_keeps_what_it_is_given(void **state)
{
    exercise_if_possible(*state, "engine=io_uring");
}

static void a_file_past_the_page_cache_keeps_what_it_is_given(void **state)
{
    exercise_if_possible(*state, "direct=on");
}

static void null_reads_zeroes(void **state)
{
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, "null:1M");
    write_pattern(desk, ddm, 0, BLOCK, 7, 0);
    expect_pattern(desk, ddm, 0, BLOCK, 0);
    ddm->driver->close(ddm);
}

static void many_commands_at_once_all_end(void **state)
{
    static const char *const uris[] = {"file:@", "file:@?engine=threads", "ram:1M"};
    enum { COUNT = 100 };
    struct desk *desk = *state;
    for (unsigned u = 0; u < 3; u++) {
        struct ddm *ddm = open_uri(desk, uris[u]);
        static struct ddm_command commands[COUNT];
        desk->ended = 0;
        for (unsigned i = 0; i < COUNT; i++) {
            commands[i] = (struct ddm_command){.operation = i % 2 ? NODE_WRITE : NODE_READ,
                                               .offset = i * BLOCK,
                                               .len = BLOCK,
                                               .data = desk->pool + i * BLOCK,
                                               .data_len = BLOCK};
            ddm_command_expect(&commands[i], on_end, desk);
            assert_int_equal(ddm->driver->submit(ddm, &commands[i]), 0);
        }
        await(desk, ddm, COUNT);
        ddm->driver->close(ddm);
    }
}

static void draining_ends_everything(void **state)
{
    static const char *const uris[] = {"file:@", "file:@?engine=threads",
                                       "delay+file:@?delay=1000s"};
    struct desk *desk = *state;
    for (unsigned u = 0; u < 3; u++) {
        struct ddm *ddm = open_uri(desk, uris[u]);
        struct ddm_command command = {.operation = NODE_WRITE,
                                      .len = BLOCK,
                                      .data = desk->pool,
                                      .data_len = BLOCK,
                                      .submitted_at_ns = desk_clock(NULL)};
        desk->ended = 0;
        ddm_command_expect(&command, on_end, desk);
        assert_int_equal(ddm->driver->submit(ddm, &command), 0);
        ddm->driver->drain(ddm);
        assert_int_equal(desk->ended, 1);
        ddm->driver->close(ddm);
    }
}

static void holes_are_told_apart_from_data(void **state)
{
    static const char *const uris[] = {"file:@", "ram:1M"};
    struct desk *desk = *state;
    for (unsigned u = 0; u < 2; u++) {
        struct ddm *ddm = open_uri(desk, uris[u]);
        struct node_extent extents[8];
        write_pattern(desk, ddm, 65536, 65536, 1, 0);
        struct ddm_command command = {.operation = NODE_EXTENTS,
                                      .len = FILE_LEN,
                                      .data = extents,
                                      .data_len = sizeof extents};
        assert_int_equal(carry_out(desk, ddm, &command), NODE_OK);
        uint64_t covered = 0;
        for (unsigned i = 0; i < command.answer_len / sizeof extents[0]; i++) {
            bool has_data = node_ranges_overlap(covered, extents[i].len, 65536, 65536);
            assert_true(!has_data || extents[i].flags == 0);
            covered += extents[i].len;
        }
        assert_int_equal(covered, FILE_LEN);
        ddm->driver->close(ddm);
    }
}

static void a_file_is_served_once(void **state)
{
    struct desk *desk = *state;
    struct ddm *first = open_uri(desk, "file:@"), *second = NULL;
    struct ddm_host host = host_of(desk);
    char uri[128];
    snprintf(uri, sizeof uri, "file:%s", desk->path);
    assert_int_equal(ddm_registry_open(uri, &host, &second, &desk->why), -EBUSY);
    assert_non_null(strstr(desk->why.text, "another process"));
    first->driver->close(first);
    second = open_uri(desk, "file:@");
    second->driver->close(second);
}

static void a_file_that_has_shrunk_is_a_media_error(void **state)
{
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, "file:@");
    assert_int_equal(truncate(desk->path, BLOCK), 0);
    assert_int_equal(simple(desk, ddm, NODE_READ, 8 * BLOCK, BLOCK, 0), NODE_MEDIA);
    struct volume_profile profile;
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    assert_int_equal(profile.size, BLOCK);
    ddm->driver->close(ddm);
}

static void a_full_disk_is_no_space(void **state)
{
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, "file:@?engine=threads");
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = BLOCK; // EFBIG, which is told as no space
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    enum node_completion completion = simple(desk, ddm, NODE_WRITE, 8 * BLOCK, BLOCK, 0);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(completion, NODE_NO_SPACE);
    ddm->driver->close(ddm);
}

static void ram_outlives_its_process(void **state)
{
    struct desk *desk = *state;
    struct ddm *first = open_uri(desk, "ram:1M"), *second = NULL;
    write_pattern(desk, first, BLOCK, BLOCK, 9, 0);
    first->driver->close(first);
    struct ddm_host host = host_of(desk);
    host.keepsake = desk->kept;
    desk->kept = -1;
    assert_int_equal(ddm_registry_open("ram:1M", &host, &second, &desk->why), 0);
    expect_pattern(desk, second, BLOCK, BLOCK, 9);
    second->driver->close(second);
}

static void a_keepsake_that_no_driver_is_given_is_closed(void **state)
{
    static const char *const uris[] = {"ram", "none:1M", "none+ram:1M", "ram:1M?none=1",
                                       "module:none"};
    struct desk *desk = *state;
    struct ddm *ddm = NULL;
    for (unsigned i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct ddm_host host = host_of(desk);
        host.keepsake = eventfd(0, EFD_CLOEXEC);
        assert_true(host.keepsake >= 0);
        assert_int_not_equal(ddm_registry_open_in_host(uris[i], &host, &ddm, &desk->why), 0);
        assert_int_equal(fcntl(host.keepsake, F_GETFD), -1);
    }
}

static void a_keepsake_that_ram_cannot_use_is_closed(void **state)
{
    static const char *const uris[] = {"ram:", "ram:0", "ram:much", "ram:2M"};
    struct desk *desk = *state;
    struct ddm *ddm = NULL;
    for (unsigned i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct ddm_host host = host_of(desk);
        host.keepsake = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(ftruncate(host.keepsake, 1 << 20), 0);
        assert_int_equal(ddm_registry_open(uris[i], &host, &ddm, &desk->why), -EINVAL);
        if (fcntl(host.keepsake, F_GETFD) != -1) {
            fail_msg("%s: it is open", uris[i]);
        }
    }
}

static void filters_do_what_they_say(void **state)
{
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, "error+ram:1M?error.write=100%&error.as=no-space");
    assert_int_equal(simple(desk, ddm, NODE_WRITE, 0, BLOCK, 0), NODE_NO_SPACE);
    assert_int_equal(simple(desk, ddm, NODE_READ, 0, BLOCK, 0), NODE_OK);
    ddm->driver->close(ddm);
    ddm = open_uri(desk, "delay+ram:1M?delay.read=30ms");
    instant_ns before = desk_clock(NULL);
    assert_int_equal(simple(desk, ddm, NODE_READ, 0, BLOCK, 0), NODE_OK);
    assert_true(desk_clock(NULL) - before >= 30 * NS_PER_MS);
    ddm->driver->close(ddm);
}

// On a clock that the test moves: a read waits 30 ms, a write 10.
static void delayed_commands_go_on_in_the_order_of_their_time(void **state)
{
    enum { COUNT = 40 };
    struct desk *desk = *state;
    struct ddm *ddm = open_uri(desk, "delay+ram:1M?delay.read=30ms&delay.write=10ms");
    static struct ddm_command commands[COUNT];
    instant_ns due[COUNT], now = 0;
    desk->ended = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned operation = i % 2 == 0 ? NODE_READ : NODE_WRITE;
        commands[i] = (struct ddm_command){.operation = (uint8_t)operation,
                                           .len = BLOCK,
                                           .data = desk->pool,
                                           .data_len = BLOCK,
                                           .submitted_at_ns = i * NS_PER_MS};
        due[i] = (i + (operation == NODE_READ ? 30 : 10)) * NS_PER_MS;
        ddm_command_expect(&commands[i], on_end, desk);
        assert_int_equal(ddm->driver->submit(ddm, &commands[i]), 0);
    }
    while (desk->ended < COUNT) {
        unsigned is_due = 0;
        now = ddm->driver->next_deadline(ddm);
        for (unsigned i = 0; i < COUNT; i++) {
            is_due += due[i] <= now;
        }
        ddm->driver->poll(ddm, now - 1);
        assert_int_equal(desk->ended, is_due - 1);
        ddm->driver->poll(ddm, now);
        assert_int_equal(desk->ended, is_due);
    }
    ddm->driver->close(ddm);
}

static void what_cannot_be_opened_says_why(void **state)
{
    static const struct {
        const char *uri;
        int error;
        const char *why;
    } table[] = {
        {"nothing", -EINVAL, "DRIVER:OBJECT"},
        {"floppy:a", -ENODEV, "there is no driver floppy"},
        {"ram+file:x", -ENODEV, "there is no filter ram"},
        {"delay:5", -ENODEV, "there is no driver delay"},
        {"ram:lots", -EINVAL, "size=lots"},
        {"ram:0", -EINVAL, "at least one octet"},
        {"ram:1M?colour=red", -EINVAL, "there is no parameter colour"},
        {"ram:1M?direct", -EINVAL, "KEY=VALUE"},
        {"file:/nonexistent", -ENOENT, "No such file"},
        {"file:/dev", -EISDIR, "directory"},
        {"file:/dev/null", -ENODEV, "neither a file nor a block device"},
        {"file:/x?direct=maybe", -EINVAL, "off or on"},
        {"iscsi:host", -EINVAL, "not //HOST[:PORT]/TARGET/LUN"},
        {"iscsi://h/t/1?timeout=soon", -EINVAL, "a duration"},
        {"iscsi://127.0.0.1:1/iqn.2026-11.invalid.judge:none/1", -ENOTCONN, "127.0.0.1:1"},
        {"sg:/nonexistent", -ENOENT, "No such file"},
        {"sg:/dev/null", -ENODEV, "no SCSI device"},
        {"ata:/dev/null", -ENODEV, "no SCSI device"},
        {"delay+ram:1M?delay=soon", -EINVAL, "a duration"},
        {"error+ram:1M?error=200%", -EINVAL, "a share"},
    };
    struct desk *desk = *state;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct ddm_host host = host_of(desk);
        struct ddm *ddm = NULL;
        int error = ddm_registry_open(table[i].uri, &host, &ddm, &desk->why);
        if (table[i].error == -EISDIR && error == -EISDIR) {
            continue;
        }
        assert_int_equal(error, table[i].error);
        assert_non_null(strstr(desk->why.text, table[i].why));
    }
}

static void why_it_cannot_be_opened_tells_no_secret(void **state)
{
    static const char *const uris[] = {"iscsi://user%hushhush@host",
                                       "iscsi+rdma://user%hushhush@host"};
    struct desk *desk = *state;
    for (unsigned i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct ddm_host host = host_of(desk);
        struct ddm *ddm = NULL;
        assert_int_equal(ddm_registry_open(uris[i], &host, &ddm, &desk->why), -EINVAL);
        assert_null(strstr(desk->why.text, "hushhush"));
    }
}

static int test_given(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_device_keeps_what_it_is_given, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(the_device_keeps_long_requests, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(the_device_is_served_once, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(the_device_ends_many_commands_at_once, desk_setup,
                                        desk_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        given = argv[1];
        return test_given();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_driver_keeps_what_it_is_given, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(a_ring_takes_no_more_than_files_need, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(io_uring_keeps_what_it_is_given, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(a_file_past_the_page_cache_keeps_what_it_is_given,
                                        desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(null_reads_zeroes, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(many_commands_at_once_all_end, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(draining_ends_everything, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(holes_are_told_apart_from_data, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(a_file_is_served_once, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_has_shrunk_is_a_media_error, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_no_space, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(ram_outlives_its_process, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(a_keepsake_that_no_driver_is_given_is_closed, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(a_keepsake_that_ram_cannot_use_is_closed, desk_setup,
                                        desk_teardown),
        cmocka_unit_test_setup_teardown(filters_do_what_they_say, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(delayed_commands_go_on_in_the_order_of_their_time,
                                        desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_says_why, desk_setup, desk_teardown),
        cmocka_unit_test_setup_teardown(why_it_cannot_be_opened_tells_no_secret, desk_setup,
                                        desk_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
