// `weft cp` between files, streams and volumes that are the test's own: a kernel that takes part of
// what it is given, targets that answer late and in any order, ends that lie within a piece, and
// errors of each.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/copy.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "tests/failing_memory.h"

enum {
    PIECE = 512 << 10, // the most that is copied at a time
    LEN = 3 * PIECE + 777,
    BLOCK = 512,
    WHOLE = (LEN + BLOCK - 1) / BLOCK * BLOCK,
    ROOM = 4 * PIECE,
    HELD_MAX = 16,
};

/* ---- a kernel that takes parts --------------------------------------------------------------- */

static struct kernel {
    size_t part;       // at most so many octets of a call; 0: all
    unsigned calls;    // counted while something is set here
    unsigned fails_at; // this call of them; 0: none
    int error;
} kernel;

// How much of it this call takes; -1 with errno.
static ssize_t kernel_takes(size_t len)
{
    if (kernel.part == 0) {
        return (ssize_t)len;
    }
    if (++kernel.calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    if (kernel.fails_at != 0 && kernel.calls >= kernel.fails_at) {
        errno = kernel.error;
        return -1;
    }
    return (ssize_t)(len < kernel.part ? len : kernel.part);
}

ssize_t __real_pread64(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t len, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t len, off_t at)
{
    ssize_t takes = kernel_takes(len);
    return takes < 0 ? -1 : __real_pread64(fd, data, (size_t)takes, at);
}

ssize_t __real_pwrite64(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t len, off_t at)
{
    ssize_t takes = kernel_takes(len);
    return takes < 0 ? -1 : __real_pwrite64(fd, data, (size_t)takes, at);
}

ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len)
{
    ssize_t takes = kernel_takes(len);
    return takes < 0 ? -1 : __real_read(fd, data, (size_t)takes);
}

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    ssize_t takes = kernel_takes(len);
    return takes < 0 ? -1 : __real_write(fd, data, (size_t)takes);
}

/* ---- volumes --------------------------------------------------------------------------------- */

// A volume in memory, whose target answers when it likes.
static struct target {
    struct volume_facts facts;
    uint8_t octets[ROOM];
    struct volume_io *held[HELD_MAX];
    unsigned held_count, held_most;
    unsigned depth; // more than so many are to come again
    bool is_latest_first;
    unsigned counts[VOLUME_OPERATION_COUNT]; // of each operation
    uint64_t longest;
    unsigned fails_at; // the command that fails; 0: none
    unsigned served;
    bool is_open;
    uint64_t hole_start, hole_end; // said to be zeroes
    void *lent;
    size_t lent_len;
} targets[2];

static struct target *target_of(const struct volume *volume)
{
    return volume->session;
}

int volume_submit(struct volume *volume, struct volume_io *io)
{
    struct target *t = target_of(volume);
    if (t->held_count == t->depth) {
        return -EAGAIN;
    }
    assert_true(io->offset % BLOCK == 0 && io->len % BLOCK == 0);
    assert_true(io->offset + io->len <= t->facts.len);
    assert_true(io->len <= t->facts.transfer_max_len);
    if (io->operation == VOLUME_READ || io->operation == VOLUME_WRITE) {
        assert_in_range((uintptr_t)io->data, (uintptr_t)t->lent,
                        (uintptr_t)t->lent + t->lent_len - io->len);
    }
    t->counts[io->operation]++;
    t->longest = io->len > t->longest ? io->len : t->longest;
    t->held[t->held_count++] = io;
    t->held_most = t->held_count > t->held_most ? t->held_count : t->held_most;
    return 0;
}

static void carry_out(struct volume *volume, struct volume_io *io)
{
    struct target *t = target_of(volume);
    if (++t->served == t->fails_at) {
        io->error = -EIO;
        snprintf(io->answer, sizeof io->answer, "not today");
    } else if (io->operation == VOLUME_READ) {
        memcpy(io->data, t->octets + io->offset, io->len);
    } else if (io->operation == VOLUME_WRITE) {
        memcpy(t->octets + io->offset, io->data, io->len);
    } else if (io->operation == VOLUME_WRITE_ZEROES) {
        memset(t->octets + io->offset, 0, io->len);
    }
    list_push_tail(&volume->ended, &io->link);
}

int volume_wait(struct volume *volume, int timeout_ms)
{
    struct target *t = target_of(volume);
    assert_true(timeout_ms >= 0 || t->held_count > 0); // who waits without end waits for something
    if (t->held_count == 0) {
        return 0;
    }
    unsigned at = t->is_latest_first ? t->held_count - 1 : 0;
    struct volume_io *io = t->held[at];
    memmove(&t->held[at], &t->held[at + 1], (--t->held_count - at) * sizeof t->held[0]);
    carry_out(volume, io);
    return 0;
}

struct volume_io *volume_ended(struct volume *volume)
{
    struct list_link *link = list_pop_head(&volume->ended);
    return link != NULL ? LIST_ENTRY(link, struct volume_io, link) : NULL;
}

bool volume_is_zero(struct volume *volume, uint64_t offset, uint32_t len)
{
    const struct target *t = target_of(volume);
    return offset >= t->hole_start && offset + len <= t->hole_end;
}

void volume_lend(struct volume *volume, void *data, size_t len)
{
    struct target *t = target_of(volume);
    assert_null(t->lent);
    t->lent = data;
    t->lent_len = len;
}

void volume_take_back(struct volume *volume, void *data)
{
    assert_ptr_equal(target_of(volume)->lent, data);
    target_of(volume)->lent = NULL;
}

// Volumes are named by their number.
bool volume_is_uri(const char *text)
{
    return text[0] == '0' || text[0] == '1';
}

int volume_open(const char *uri, unsigned depth, struct volume *ret)
{
    struct target *t = &targets[uri[0] - '0'];
    t->is_open = true;
    *ret = (struct volume){.session = t, .facts = t->facts};
    list_init(&ret->ended);
    return 0;
}

void volume_close(struct volume *volume)
{
    if (volume->session != NULL) {
        target_of(volume)->is_open = false;
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

static uint8_t pattern[ROOM];
static char folder[] = "/tmp/weft-test-copy-XXXXXX", in_name[64], out_name[64];

static int setup(void **state)
{
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(in_name, sizeof in_name, "%s/in", folder);
    snprintf(out_name, sizeof out_name, "%s/out", folder);
    for (size_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
    memset(&kernel, 0, sizeof kernel);
    for (unsigned i = 0; i < 2; i++) {
        targets[i] = (struct target){.facts = {.transfer_max_len = PIECE,
                                               .can_write_zeroes = true,
                                               .block_len = BLOCK,
                                               .len = ROOM},
                                     .depth = HELD_MAX};
        memset(targets[i].octets, 0xee, ROOM);
    }
    return 0;
}

static int teardown(void **state)
{
    assert_false(targets[0].is_open || targets[1].is_open);
    unlink(in_name);
    unlink(out_name);
    rmdir(folder);
    return 0;
}

static void file_fill(const char *name, const uint8_t *octets, size_t len)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(octets, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void expect_file(const char *name, const uint8_t *octets, size_t len)
{
    static uint8_t found[ROOM + 1];
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), len);
    assert_memory_equal(found, octets, len);
    fclose(file);
}

static struct copy_report report;
static struct copy_place from, to;

static void places_open(const char *source, const char *destination)
{
    assert_int_equal(place_open_source(source, 0, &from), 0);
    assert_int_equal(place_open_destination(destination, 0, from.len, &to), 0);
}

static void places_close(void)
{
    place_close(&from);
    place_close(&to);
}

static int copy_as(const char *source, const char *destination, struct copy_wish wish)
{
    places_open(source, destination);
    int result = copy_run(&from, &to, &wish, NULL, &report);
    assert_int_equal(place_flush(&to), 0);
    places_close();
    return result;
}

static void expect_copied(const char *source, const char *destination, struct copy_wish wish)
{
    assert_int_equal(copy_as(source, destination, wish), 0);
    assert_int_equal(report.len, LEN);
    assert_int_equal(report.error, 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void a_file_arrives_whole_however_little_the_kernel_takes(void **state)
{
    static const size_t parts[] = {0, 100000, PIECE, PIECE - 1, 70001};
    file_fill(in_name, pattern, LEN);
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        file_fill(out_name, pattern + 5, ROOM - 5); // longer, and other octets
        kernel = (struct kernel){.part = parts[i]};
        expect_copied(in_name, out_name, (struct copy_wish){.depth = 2});
        kernel.part = 0;
        expect_file(out_name, pattern, LEN);
    }
}

static void a_file_that_cannot_be_read_or_written_is_told_with_its_place(void **state)
{
    file_fill(in_name, pattern, LEN);
    for (unsigned i = 0; i < 2; i++) {
        places_open(in_name, out_name);
        struct copy_wish wish = {.depth = 1};
        // Reads and writes take turns, a piece at a time.
        kernel = (struct kernel){.part = PIECE, .fails_at = i == 0 ? 5 : 4, .error = ENXIO};
        assert_int_equal(copy_run(&from, &to, &wish, NULL, &report), -1);
        assert_int_equal(report.error, -ENXIO);
        assert_int_equal(report.error_at, PIECE);
        assert_ptr_equal(report.error_place, i == 0 ? &to : &from);
        assert_int_equal(report.len, PIECE);
        kernel.part = 0;
        places_close();
    }
}

static void what_is_no_file_is_refused(void **state)
{
    assert_int_equal(place_open_source(folder, 0, &from), EXIT_FAILED); // has no octets
    place_close(&from);
    assert_int_equal(place_open_source(in_name, 0, &from), EXIT_FAILED); // is not there
    place_close(&from);
    assert_int_equal(place_open_destination(folder, 0, 1, &to), EXIT_FAILED);
    place_close(&to);
    assert_int_equal(place_open_destination("/dev/null", 0, 1, &to), EXIT_FAILED); // has no room
    place_close(&to);
    assert_int_equal(place_open_destination("/dev/null", 0, 0, &to), 0);
    assert_false(to.is_regular);
    place_close(&to);
}

static void a_file_that_became_shorter_reads_as_zeroes(void **state)
{
    static uint8_t expected[LEN];
    memcpy(expected, pattern, LEN);
    memset(expected + PIECE + 9, 0, LEN - PIECE - 9);
    file_fill(in_name, pattern, LEN);
    places_open(in_name, out_name);
    assert_int_equal(truncate(in_name, PIECE + 9), 0);
    assert_int_equal(copy_run(&from, &to, &(struct copy_wish){.depth = 3}, NULL, &report), 0);
    places_close();
    expect_file(out_name, expected, LEN);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void expect_volume(unsigned number)
{
    static const uint8_t zeroes[BLOCK];
    const struct target *t = &targets[number];
    assert_memory_equal(t->octets, pattern, LEN);
    assert_memory_equal(t->octets + LEN, zeroes, WHOLE - LEN);
    for (size_t i = WHOLE; i < ROOM; i++) {
        assert_int_equal(t->octets[i], 0xee);
    }
}

static void a_file_fills_whole_blocks_of_a_volume(void **state)
{
    file_fill(in_name, pattern, LEN);
    for (unsigned depth = 1; depth < 4; depth++) {
        targets[0].is_latest_first = depth == 3;
        expect_copied(in_name, "0", (struct copy_wish){.depth = depth});
        expect_volume(0);
        assert_true(targets[0].held_most <= depth);
        assert_int_equal(targets[0].longest, PIECE);
        assert_int_equal(targets[0].counts[VOLUME_WRITE], 4 * depth);
        assert_int_equal(targets[0].counts[VOLUME_FLUSH], depth);
    }
}

static void a_volume_fills_a_file_to_its_end(void **state)
{
    memcpy(targets[0].octets, pattern, ROOM);
    for (unsigned depth = 1; depth < 6; depth += 2) {
        assert_int_equal(copy_as("0", out_name, (struct copy_wish){.depth = depth}), 0);
        assert_int_equal(report.len, ROOM);
        expect_file(out_name, pattern, ROOM);
    }
    assert_int_equal(targets[0].held_most, 4); // there is no fifth piece
}

static void a_volume_is_copied_to_another_of_larger_blocks_and_shorter_transfers(void **state)
{
    memcpy(targets[0].octets, pattern, LEN);
    targets[1].facts.block_len = 4096;
    targets[1].facts.transfer_max_len = 64 << 10;
    targets[0].depth = 2;
    targets[0].facts.len = 3 * PIECE + 8 * BLOCK;
    assert_int_equal(copy_as("0", "1", (struct copy_wish){.depth = 5}), 0);
    assert_int_equal(report.len, targets[0].facts.len);
    assert_memory_equal(targets[1].octets, targets[0].octets, targets[0].facts.len);
    assert_int_equal(targets[0].longest, 64 << 10);
    assert_int_equal(targets[1].longest, 64 << 10);
    assert_int_equal(targets[1].octets[targets[0].facts.len], 0xee);
    assert_int_equal(targets[0].held_most, 2);
}

static void a_target_that_refuses_is_told_with_its_words(void **state)
{
    file_fill(in_name, pattern, LEN);
    places_open(in_name, "0");
    targets[0].fails_at = 3;
    assert_int_equal(copy_run(&from, &to, &(struct copy_wish){.depth = 2}, NULL, &report), -1);
    assert_int_equal(report.error, -EIO);
    assert_string_equal(report.answer, "not today");
    assert_int_equal(report.error_at, 2 * PIECE);
    assert_ptr_equal(report.error_place, &to);
    assert_int_equal(targets[0].held_count, 0); // what was under way has ended
    assert_null(targets[0].lent);
    targets[0].fails_at = targets[0].served + 1;
    assert_int_equal(place_flush(&to), -EIO);
    places_close();
}

static void volumes_that_cannot_take_it_are_refused(void **state)
{
    targets[0].facts.is_read_only = true;
    assert_int_equal(place_open_destination("0", 0, 1, &to), EXIT_FAILED);
    place_close(&to);
    targets[0].facts.is_read_only = false;
    assert_int_equal(place_open_destination("0", 0, ROOM + 1, &to), EXIT_FAILED);
    place_close(&to);
    assert_int_equal(place_open_destination("0", 0, ROOM, &to), 0);
    place_close(&to);
    assert_int_equal(place_open_destination("0", 0, PLACE_LEN_UNKNOWN, &to), 0);
    place_close(&to);
}

/* ---- zeroes ---------------------------------------------------------------------------------- */

static void pieces_of_zeroes_are_told_not_written(void **state)
{
    memset(pattern + PIECE, 0, PIECE);
    pattern[2 * PIECE] = 0; // one octet that is none makes a piece of data
    file_fill(in_name, pattern, LEN);
    expect_copied(in_name, "0", (struct copy_wish){.depth = 2, .is_sparse = true});
    expect_volume(0);
    assert_int_equal(report.zero_len, PIECE);
    assert_int_equal(targets[0].counts[VOLUME_WRITE], 3);
    assert_int_equal(targets[0].counts[VOLUME_WRITE_ZEROES], 1);
    expect_copied(in_name, out_name, (struct copy_wish){.depth = 2, .is_sparse = true});
    expect_file(out_name, pattern, LEN);
    assert_int_equal(report.zero_len, PIECE);
    struct stat status;
    assert_int_equal(stat(out_name, &status), 0);
    assert_true((uint64_t)status.st_blocks * 512 < LEN); // it has a hole
    expect_copied(in_name, "1", (struct copy_wish){.depth = 2});
    assert_int_equal(report.zero_len, 0);
    assert_int_equal(targets[1].counts[VOLUME_WRITE], 4);
}

static void who_cannot_be_told_of_zeroes_is_written_them(void **state)
{
    memset(pattern, 0, PIECE);
    targets[0].facts.can_write_zeroes = false;
    file_fill(in_name, pattern, LEN);
    expect_copied(in_name, "0", (struct copy_wish){.depth = 2, .is_sparse = true});
    expect_volume(0);
    assert_int_equal(targets[0].counts[VOLUME_WRITE], 4);
    assert_int_equal(report.zero_len, PIECE);
}

static void what_a_target_says_is_zeroes_is_not_read(void **state)
{
    memset(pattern + PIECE, 0, 2 * PIECE);
    memcpy(targets[0].octets, pattern, ROOM);
    targets[0].hole_start = PIECE;
    targets[0].hole_end = 3 * PIECE;
    for (unsigned i = 0; i < 2; i++) {
        file_fill(out_name, pattern + 5, ROOM - 5);
        struct copy_wish wish = {.depth = 2, .is_sparse = i == 1};
        assert_int_equal(copy_as("0", out_name, wish), 0);
        expect_file(out_name, pattern, ROOM);
        assert_int_equal(report.zero_len, i == 1 ? 2 * PIECE : 0);
        assert_int_equal(targets[0].counts[VOLUME_READ], 2 * (i + 1));
    }
}

static void a_comparison_believes_nobody_who_says_zeroes(void **state)
{
    memset(pattern, 0, PIECE);
    memcpy(targets[0].octets, pattern, ROOM);
    memcpy(targets[1].octets, pattern, ROOM);
    targets[0].hole_end = targets[1].hole_end = PIECE;
    targets[1].octets[7] = 1;
    assert_int_equal(place_open_source("0", 0, &from), 0);
    assert_int_equal(place_open_source("1", 0, &to), 0);
    struct copy_wish wish = {.depth = 2, .is_comparison = true};
    assert_int_equal(copy_run(&from, &to, &wish, NULL, &report), -1);
    assert_int_equal(report.error_at, 7);
    places_close();
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static int compare(unsigned depth)
{
    assert_int_equal(place_open_source(in_name, 0, &from), 0);
    assert_int_equal(place_open_source("0", 0, &to), 0);
    struct copy_wish wish = {.depth = depth, .is_comparison = true};
    int result = copy_run(&from, &to, &wish, NULL, &report);
    places_close();
    return result;
}

static void a_comparison_names_the_first_octet_that_differs(void **state)
{
    static const size_t places[] = {0, PIECE - 1, PIECE, LEN - 1};
    file_fill(in_name, pattern, LEN);
    memcpy(targets[0].octets, pattern, LEN);
    memset(targets[0].octets + LEN, 0, WHOLE - LEN);
    for (unsigned depth = 1; depth < 4; depth++) {
        assert_int_equal(compare(depth), 0);
        assert_int_equal(report.len, LEN);
    }
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        targets[0].octets[places[i]] ^= 1;
        assert_int_equal(compare(2), -1);
        assert_int_equal(report.error, -EILSEQ);
        assert_int_equal(report.error_at, places[i]);
        assert_null(report.error_place);
        targets[0].octets[places[i]] ^= 1;
    }
    assert_int_equal(targets[0].counts[VOLUME_WRITE], 0);
}

/* ---- streams --------------------------------------------------------------------------------- */

// Standard input, or output, is a file for the time of the test.
static int standard_becomes(int standard, const char *name, int flags)
{
    int kept = dup(standard), fd = open(name, flags, 0600);
    assert_true(kept >= 0 && fd >= 0);
    assert_int_equal(dup2(fd, standard), standard);
    close(fd);
    return kept;
}

static void standard_is_again(int standard, int kept)
{
    dup2(kept, standard);
    close(kept);
}

static void a_stream_ends_where_it_ends(void **state)
{
    static const size_t lens[] = {LEN, 2 * PIECE, 1, 0, PIECE + 1, PIECE - 1};
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        file_fill(in_name, pattern, lens[i]);
        memset(targets[0].octets, 0xee, ROOM);
        int kept = standard_becomes(STDIN_FILENO, in_name, O_RDONLY);
        kernel = (struct kernel){.part = i == 0 ? 100001 : 0};
        assert_int_equal(copy_as("-", "0", (struct copy_wish){.depth = 1 + i % 3}), 0);
        kernel.part = 0;
        standard_is_again(STDIN_FILENO, kept);
        assert_int_equal(report.len, lens[i]);
        assert_memory_equal(targets[0].octets, pattern, lens[i]);
        size_t whole = (lens[i] + BLOCK - 1) / BLOCK * BLOCK;
        for (size_t at = lens[i]; at < ROOM; at++) {
            assert_int_equal(targets[0].octets[at], at < whole ? 0 : 0xee);
        }
    }
}

static void a_stream_that_is_longer_than_the_volume_says_where_that_ends(void **state)
{
    file_fill(in_name, pattern, LEN);
    for (unsigned i = 0; i < 2; i++) {
        targets[0].facts.len = i == 0 ? 3 * PIECE : WHOLE;
        int kept = standard_becomes(STDIN_FILENO, in_name, O_RDONLY);
        places_open("-", "0");
        int result = copy_run(&from, &to, &(struct copy_wish){.depth = 1}, NULL, &report);
        places_close();
        standard_is_again(STDIN_FILENO, kept);
        assert_int_equal(result, i == 0 ? -1 : 0);
        assert_int_equal(report.error, i == 0 ? -ENOSPC : 0);
        assert_int_equal(report.error_at, i == 0 ? 3 * PIECE : 0);
    }
}

static void a_stream_is_written_in_order_whatever_comes_first(void **state)
{
    memcpy(targets[0].octets, pattern, ROOM);
    for (unsigned depth = 1; depth < 5; depth++) {
        targets[0].is_latest_first = true;
        int kept = standard_becomes(STDOUT_FILENO, out_name, O_WRONLY | O_CREAT | O_TRUNC);
        kernel = (struct kernel){.part = 65537};
        int result = copy_as("0", "-", (struct copy_wish){.depth = depth});
        kernel.part = 0;
        standard_is_again(STDOUT_FILENO, kept);
        assert_int_equal(result, 0);
        assert_int_equal(report.len, ROOM);
        expect_file(out_name, pattern, ROOM);
    }
}

static void a_stream_that_breaks_is_told(void **state)
{
    file_fill(in_name, pattern, LEN);
    for (unsigned i = 0; i < 2; i++) {
        int in = standard_becomes(STDIN_FILENO, in_name, O_RDONLY);
        int out = standard_becomes(STDOUT_FILENO, out_name, O_WRONLY | O_CREAT | O_TRUNC);
        places_open(i == 0 ? "-" : "0", i == 0 ? "0" : "-");
        kernel = (struct kernel){.part = PIECE, .fails_at = 2, .error = EPIPE};
        int result = copy_run(&from, &to, &(struct copy_wish){.depth = 1}, NULL, &report);
        kernel.part = 0;
        standard_is_again(STDIN_FILENO, in);
        standard_is_again(STDOUT_FILENO, out);
        assert_int_equal(result, -1);
        assert_int_equal(report.error, -EPIPE);
        assert_int_equal(report.error_at, PIECE);
        assert_ptr_equal(report.error_place, i == 0 ? &from : &to);
        places_close();
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void without_memory_nothing_is_copied_and_nothing_kept(void **state)
{
    file_fill(in_name, pattern, LEN);
    for (unsigned call = 1; call <= 2; call++) {
        places_open(in_name, "0");
        int64_t before = memory_blocks;
        memory_fail_at(call);
        assert_int_equal(copy_run(&from, &to, &(struct copy_wish){.depth = 2}, NULL, &report), -1);
        memory_fail_at(0);
        assert_int_equal(memory_blocks, before);
        assert_int_equal(report.error, -ENOMEM);
        assert_ptr_equal(report.error_place, &from);
        assert_int_equal(targets[0].served, 0);
        places_close();
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_arrives_whole_however_little_the_kernel_takes),
        CASE(a_file_that_cannot_be_read_or_written_is_told_with_its_place),
        CASE(what_is_no_file_is_refused),
        CASE(a_file_that_became_shorter_reads_as_zeroes),
        CASE(a_file_fills_whole_blocks_of_a_volume),
        CASE(a_volume_fills_a_file_to_its_end),
        CASE(a_volume_is_copied_to_another_of_larger_blocks_and_shorter_transfers),
        CASE(a_target_that_refuses_is_told_with_its_words),
        CASE(volumes_that_cannot_take_it_are_refused),
        CASE(pieces_of_zeroes_are_told_not_written),
        CASE(who_cannot_be_told_of_zeroes_is_written_them),
        CASE(what_a_target_says_is_zeroes_is_not_read),
        CASE(a_comparison_believes_nobody_who_says_zeroes),
        CASE(a_comparison_names_the_first_octet_that_differs),
        CASE(a_stream_ends_where_it_ends),
        CASE(a_stream_that_is_longer_than_the_volume_says_where_that_ends),
        CASE(a_stream_is_written_in_order_whatever_comes_first),
        CASE(a_stream_that_breaks_is_told),
        CASE(without_memory_nothing_is_copied_and_nothing_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
