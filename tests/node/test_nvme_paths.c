// The driver of volumes at another NVMe target, by all paths to a namespace, before an initiator
// whose targets are a table: what is asked of them, which path a command goes by, what is sent
// again when one is lost and when, and what the operator hears. Time is the test's.

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/nvme.h>

#include "base/time.h"
#include "base/why.h"
#include "node/ddm/drivers.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"
#include "tests/node/nvme_ends.h"

enum { SAID_MAX = 2048, BLOCK = 4096, PARAMETER_MAX = 4 };

/* ---- who has the volume ---------------------------------------------------------------------- */

static instant_ns now;
static char said[SAID_MAX]; // by the driver, line by line
static struct ddm *ddm;
static struct why why;
static unsigned ended; // of the commands, as bits

static instant_ns clock_of_test(void *ctx)
{
    return now;
}

static void say(void *ctx, const char *line)
{
    size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%s\n", line);
}

static const struct ddm_host host = {.clock = clock_of_test, .say = say};

static int fresh(void **state)
{
    memset(ends, 0, sizeof ends);
    for (unsigned i = 0; i < END_COUNT; i++) {
        ends[i] = (struct end){
            .has_namespaces = true,
            .ns = {.nsid = 7,
                   .block_len = BLOCK,
                   .len = 100 * BLOCK,
                   .has_uuid = true,
                   .uuid = {1, 2, 3}},
            .info = {.nqn = "nqn.x", .model = "M", .transfer_max_len = 1 << 20, .depth = 64},
            .trim_max = 1 << 25,
            .zeroes_max = 1 << 24,
            .access = WEFT_NVME_OPTIMIZED};
    }
    now = 100 * NS_PER_S;
    said[0] = '\0';
    ended = 0;
    return 0;
}

// "key=value" words behind the object.
static int open_with(const char *object, const char *const *words)
{
    static char keys[PARAMETER_MAX][64], values[PARAMETER_MAX][256];
    struct ddm_parameter parameters[PARAMETER_MAX];
    struct ddm_target target = {.object = object, .parameters = parameters};
    for (; words != NULL && words[target.parameter_count] != NULL; target.parameter_count++) {
        size_t i = target.parameter_count;
        const char *mark = strchr(words[i], '=');
        snprintf(keys[i], sizeof keys[i], "%.*s", (int)(mark - words[i]), words[i]);
        snprintf(values[i], sizeof values[i], "%s", mark + 1);
        parameters[i] = (struct ddm_parameter){keys[i], values[i]};
    }
    why = (struct why){""};
    return ddm_nvme_tcp.open(&target, &host, NULL, &ddm, &why);
}

static void open_well(const char *object, const char *word)
{
    const char *words[] = {word, NULL};
    assert_int_equal(open_with(object, words), 0);
}

static void polled_at(instant_ns at)
{
    now = at;
    ddm_nvme_tcp.poll(ddm, now);
}

// The path that the last look began to meet has been met, or not: its thread says so by the
// descriptor, which nobody has looked at since.
static void has_met(void)
{
    struct pollfd ready = {.fd = ddm_nvme_tcp.poll_fd(ddm), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 30000), 1);
    ddm_nvme_tcp.poll(ddm, now);
}

static void close_all(void)
{
    ddm_close(ddm);
    assert_int_equal(ends[0].open, 0);
    assert_int_equal(ends[1].open, 0);
}

/* ---- commands -------------------------------------------------------------------------------- */

static struct ddm_command commands[OUT_MAX];
static uint8_t memory[2 * BLOCK];

static void on_end(void *ctx, struct ddm_command *command)
{
    ended |= 1u << (command - commands);
}

static void submit(unsigned index, enum node_operation operation)
{
    struct ddm_command *command = &commands[index];
    ended &= ~(1u << index);
    *command = (struct ddm_command){.operation = (uint8_t)operation,
                                    .offset = index * BLOCK,
                                    .len = BLOCK,
                                    .data = memory,
                                    .data_len = BLOCK};
    ddm_command_expect(command, on_end, NULL);
    assert_int_equal(ddm_submit(ddm, command), 0);
}

// What is out at an end, by the commands' numbers.
static void assert_out(const struct end *end, const char *numbers)
{
    char found[OUT_MAX + 1] = "";
    for (unsigned i = 0; i < end->out_count; i++) {
        found[i] = (char)('0' + end->out[i]->offset / BLOCK);
    }
    assert_string_equal(found, numbers);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void what_an_address_may_say(void **state)
{
    static const struct {
        const char *object, *words[PARAMETER_MAX];
        const char *why; // NULL: it is good
        unsigned depth, keep_alive_ms;
    } cases[] = {
        {"//a/nqn.x", {NULL}, NULL, 128, 15000},
        {"//a/nqn.x", {"paths=b"}, NULL, 128, 5000},
        {"//a:1/nqn.x", {"paths=a:2"}, NULL, 128, 5000},
        {"//a:1/nqn.x", {"paths=b:1"}, NULL, 128, 5000},
        {"//a/nqn.x", {"depth=1", "keep_alive=100ms"}, NULL, 1, 100},
        {"//a/nqn.x", {"depth=1024", "keep_alive=3600"}, NULL, 1024, 3600000},
        {"//a/nqn.x", {"paths=a:1,a:2,a:3,a:4,a:5,a:6,a:7"}, NULL, 128, 5000},
        {"//a/nqn.x", {"paths=a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8"}, "at most 8", 0, 0},
        {"//a", {NULL}, "it names no subsystem", 0, 0},
        {"/a", {NULL}, "", 0, 0},
        {"//a/nqn.x", {"paths=b,c/nqn.y"}, "paths=c/nqn.y: it is HOST[:PORT]", 0, 0},
        {"//a/nqn.x", {"paths="}, "it is HOST[:PORT]", 0, 0},
        {"//a/nqn.x", {"paths=b,"}, "it is HOST[:PORT]", 0, 0},
        {"//a/nqn.x", {"paths=b,a"}, "paths=a: this address is named twice", 0, 0},
        {"//a/nqn.x", {"depth=0"}, "depth must be 1 to 1024", 0, 0},
        {"//a/nqn.x", {"depth=1025"}, "depth must be 1 to 1024", 0, 0},
        {"//a/nqn.x", {"keep_alive=99ms"}, "keep_alive must be 100ms to 1h", 0, 0},
        {"//a/nqn.x", {"keep_alive=3601"}, "keep_alive must be", 0, 0},
        {"//a/nqn.x", {"patience=soon"}, "", 0, 0},
        {"//a/nqn.x", {"depth=some"}, "", 0, 0},
        {"//a/nqn.x", {"keep_alive=long"}, "", 0, 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        int error = open_with(cases[i].object, cases[i].words);
        if (cases[i].why != NULL) {
            assert_int_equal(error, -EINVAL);
            assert_non_null(strstr(why.text, cases[i].why));
            assert_int_equal(ends[0].connects, 0);
            continue;
        }
        assert_int_equal(error, 0);
        assert_int_equal(ends[0].asked.depth, cases[i].depth);
        assert_int_equal(ends[0].asked.keep_alive_ms, cases[i].keep_alive_ms);
        assert_true(ends[0].asked.timeout_ms >= 1000);
        close_all();
    }
}

static void a_namespace_is_the_one_that_is_named_or_the_first(void **state)
{
    open_well("//a/nqn.x", NULL);
    assert_int_equal(ends[0].asked_nsid, 7);
    close_all();
    ends[0].has_namespaces = false;
    assert_int_equal(open_with("//a/nqn.x", NULL), -ENOENT);
    assert_string_equal(why.text, "the subsystem has no namespace");
    assert_int_equal(ends[0].open, 0);
    open_well("//a/nqn.x/7", NULL); // it need not be listed
    close_all();
    ends[0].has_namespaces = true;
    ends[0].namespaces_error = -ETIMEDOUT;
    assert_int_equal(open_with("//a/nqn.x", NULL), -ETIMEDOUT);
    ends[0].namespaces_error = 0;
    ends[0].identify_error = -ENOENT;
    assert_int_equal(open_with("//a/nqn.x/9", NULL), -ENOENT);
    assert_int_equal(ends[0].asked_nsid, 9);
    assert_int_equal(ends[0].open, 0);
}

static void the_first_path_that_can_be_met_is_taken(void **state)
{
    static const char *const words[] = {"paths=b", NULL};
    ends[0].connect_error = -ECONNREFUSED;
    assert_int_equal(open_with("//a/nqn.x", words), 0);
    assert_string_equal(said, "nqn.x: a:4420: no path, it is tried each second: a refuses\n");
    submit(1, NODE_READ);
    assert_out(&ends[1], "1");
    ends[1].done = 1;
    close_all();
    ends[1].connect_error = -ETIMEDOUT;
    assert_int_equal(open_with("//a/nqn.x", words), -ETIMEDOUT);
    assert_string_equal(why.text, "b refuses");
    assert_int_equal(open_with("//a/nqn.x", NULL), -ECONNREFUSED);
    assert_string_equal(why.text, "a refuses");
}

/* ---- what it is ------------------------------------------------------------------------------ */

static void abilities_are_those_of_controller_and_namespace(void **state)
{
    enum {
        WRITES = VOLUME_CAN_WRITE | VOLUME_CAN_FUA,
        ALL = WRITES | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES
    };
    static const struct {
        bool has_cache, can_trim, can_zero, is_read_only;
        uint32_t abilities;
    } cases[] = {{false, false, false, false, WRITES},
                 {true, false, false, false, WRITES | VOLUME_CAN_FLUSH},
                 {false, true, false, false, WRITES | VOLUME_CAN_TRIM},
                 {false, false, true, false, WRITES | VOLUME_CAN_WRITE_ZEROES},
                 {true, true, true, false, ALL},
                 {true, true, true, true, VOLUME_CAN_FLUSH}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct volume_profile profile;
        ends[0].info.has_volatile_cache = cases[i].has_cache;
        ends[0].info.can_trim = cases[i].can_trim;
        ends[0].info.can_write_zeroes = cases[i].can_zero;
        ends[0].ns.is_read_only = cases[i].is_read_only;
        open_well("//a/nqn.x", NULL);
        assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
        assert_int_equal(profile.abilities, cases[i].abilities);
        assert_int_equal(profile.size, 100 * BLOCK);
        assert_int_equal(profile.transfer_max, 1 << 20);
        assert_int_equal(profile.range_max, 1 << 24); // the lesser of the two
        assert_int_equal(profile.depth, 64);
        assert_string_equal(profile.driver, "nvme+tcp");
        assert_string_equal(profile.model, "M");
        assert_string_equal(profile.origin, "nvme:nqn.x:7");
        close_all();
    }
}

static void ranges_and_blocks_follow_the_namespace(void **state)
{
    static const struct {
        uint32_t block, preferred;
    } cases[] = {{512, 4096}, {4096, 4096}, {8192, 8192}};
    struct volume_profile profile;
    ends[0].trim_max = 1 << 20;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ends[0].ns.block_len = cases[i].block;
        open_well("//a/nqn.x", NULL);
        assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
        assert_int_equal(profile.block_size, cases[i].block);
        assert_int_equal(profile.alignment, cases[i].block);
        assert_int_equal(profile.preferred, cases[i].preferred);
        assert_int_equal(profile.range_max, 1 << 20);
        close_all();
    }
}

static void a_size_that_changes_is_told_and_another_volume_is_not(void **state)
{
    struct volume_profile profile;
    open_well("//a/nqn.x", NULL);
    ends[0].ns.len = 200 * BLOCK;
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    assert_int_equal(profile.size, 200 * BLOCK);
    ends[0].ns.len = 300 * BLOCK;
    ends[0].identify_error = -ETIMEDOUT;
    ddm->driver->probe(ddm, &profile);
    assert_int_equal(profile.size, 200 * BLOCK);
    ends[0].identify_error = 0;
    ends[0].ns.uuid[15] = 1;
    ddm->driver->probe(ddm, &profile);
    assert_int_equal(profile.size, 200 * BLOCK);
    close_all();
}

/* ---- one command ----------------------------------------------------------------------------- */

static void a_request_becomes_an_io(void **state)
{
    static const struct {
        enum node_operation operation;
        uint16_t flags;
        enum weft_nvme_operation expected;
        unsigned expected_flags;
        uint64_t len;
    } cases[] = {
        {NODE_READ, NODE_FUA | NODE_NO_HOLE, WEFT_NVME_READ, 0, 2 * BLOCK},
        {NODE_WRITE, 0, WEFT_NVME_WRITE, 0, 2 * BLOCK},
        {NODE_WRITE, NODE_FUA | NODE_NO_HOLE, WEFT_NVME_WRITE, WEFT_NVME_FUA, 2 * BLOCK},
        {NODE_FLUSH, NODE_FUA, WEFT_NVME_FLUSH, 0, 9 * BLOCK},
        {NODE_TRIM, NODE_FUA, WEFT_NVME_TRIM, 0, 9 * BLOCK},
        {NODE_WRITE_ZEROES, NODE_FUA, WEFT_NVME_WRITE_ZEROES, WEFT_NVME_FUA, 9 * BLOCK},
        {NODE_WRITE_ZEROES, NODE_NO_HOLE, WEFT_NVME_WRITE_ZEROES, WEFT_NVME_NO_HOLE, 9 * BLOCK},
    };
    open_well("//a/nqn.x", NULL);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ddm_command command = {.operation = (uint8_t)cases[i].operation,
                                      .flags = cases[i].flags,
                                      .offset = 3 * BLOCK,
                                      .len = 9 * BLOCK,
                                      .data = memory,
                                      .data_len = 2 * BLOCK};
        ddm_command_expect(&command, on_end, NULL);
        commands[0] = command;
        assert_int_equal(ddm_submit(ddm, &commands[0]), 0);
        assert_int_equal(ends[0].out_count, 1);
        const struct weft_nvme_io *io = ends[0].out[0];
        assert_int_equal(io->operation, cases[i].expected);
        assert_int_equal(io->flags & ~WEFT_NVME_MORE, cases[i].expected_flags);
        assert_int_equal(io->nsid, 7);
        assert_int_equal(io->offset, 3 * BLOCK);
        assert_int_equal(io->len, cases[i].len);
        assert_int_equal(io->memory_count, 1);
        assert_ptr_equal(io->memory->iov_base, memory);
        assert_int_equal(io->memory->iov_len, 2 * BLOCK);
        ends[0].done = 1;
        ended = 0;
        polled_at(now);
        assert_int_equal(ended, 1);
        assert_int_equal(commands[0].completion, NODE_OK);
    }
    close_all();
}

static const struct {
    int error;
    enum node_completion completion;
} meanings[] = {
    {-ENOSPC, NODE_NO_SPACE},    {-EROFS, NODE_READ_ONLY},
    {-EBADE, NODE_RESERVED},     {-EOPNOTSUPP, NODE_UNSUPPORTED},
    {-EBUSY, NODE_RETRY},        {-ENOMEM, NODE_RETRY},
    {-ERANGE, NODE_RANGE},       {-EINVAL, NODE_MALFORMED},
    {-EMSGSIZE, NODE_MALFORMED}, {-EIO, NODE_MEDIA},
    {-EPROTO, NODE_MEDIA},
};

static void each_error_of_an_answer_has_its_completion(void **state)
{
    open_well("//a/nqn.x", NULL);
    for (unsigned i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        submit(0, NODE_WRITE);
        ends[0].error = meanings[i].error;
        ends[0].status = i % 2 == 0 ? 0 : 0x281;
        ends[0].done = 1;
        polled_at(now);
        assert_int_equal(ended, 1);
        assert_int_equal(commands[0].completion, meanings[i].completion);
        assert_int_equal(commands[0].detail, i % 2 == 0 ? -meanings[i].error : 0x281);
    }
    // An answer with a status is the target's, whatever error that is made of.
    submit(0, NODE_WRITE);
    ends[0].error = -ETIMEDOUT;
    ends[0].status = 0x281;
    ends[0].done = 1;
    polled_at(now);
    assert_int_equal(commands[0].completion, NODE_MEDIA);
    assert_int_equal(ended, 1);
    close_all();
}

static void what_is_not_taken_ends_at_once_or_is_taken_later(void **state)
{
    open_well("//a/nqn.x", NULL);
    for (unsigned i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        ends[0].submit_error = meanings[i].error;
        submit(0, NODE_WRITE);
        assert_int_equal(ended, 1);
        assert_int_equal(commands[0].completion, meanings[i].completion);
        assert_int_equal(commands[0].detail, -meanings[i].error);
    }
    static const int later[] = {-EAGAIN, -ENOTCONN};
    for (unsigned i = 0; i < 2; i++) {
        ends[0].submit_error = later[i];
        ended = 0;
        submit(0, NODE_WRITE);
        assert_int_equal(ddm->driver->next_deadline(ddm), 0); // soon
        ends[0].submit_error = 0;
        submit(1, NODE_READ); // behind it
        assert_int_equal(ends[0].out_count, 0);
        polled_at(now);
        assert_out(&ends[0], "01");
        ends[0].done = 2;
        polled_at(now);
        assert_int_equal(ended, 3);
        polled_at(now);
        assert_true(ddm->driver->next_deadline(ddm) == INSTANT_NEVER);
    }
    close_all();
}

static void no_more_are_out_than_it_is_deep(void **state)
{
    open_well("//a/nqn.x", "depth=2");
    for (unsigned i = 0; i < 4; i++) {
        submit(i, NODE_WRITE);
    }
    assert_out(&ends[0], "01");
    ends[0].done = 1;
    polled_at(now);
    assert_out(&ends[0], "12");
    ends[0].done = 2;
    polled_at(now);
    assert_out(&ends[0], "3");
    ends[0].done = 1;
    close_all(); // which drains
    assert_int_equal(ended, 0xf);
}

// The RTA says when a batch is over.
static void commands_of_a_batch_leave_together(void **state)
{
    open_well("//a/nqn.x", NULL);
    submit(0, NODE_READ);
    submit(1, NODE_WRITE);
    assert_int_equal(ends[0].waiting, 2);
    ddm_nvme_tcp.flush_queue(ddm);
    assert_int_equal(ends[0].waiting, 0);
    ends[0].done = 2;
    close_all();
}

// They are submitted where no batch is over.
static void commands_that_had_no_room_leave_when_there_is_some(void **state)
{
    open_well("//a/nqn.x", "depth=1");
    submit(0, NODE_READ);
    submit(1, NODE_READ);
    ddm_nvme_tcp.flush_queue(ddm);
    ends[0].done = 1;
    polled_at(now);
    assert_out(&ends[0], "1");
    assert_int_equal(ends[0].waiting, 0);
    ends[0].done = 1;
    close_all();
}

static void who_looks_on_takes_what_has_come(void **state)
{
    const struct ddm_driver *driver = &ddm_nvme;
    struct ddm_target target = {.object = "//a/nqn.x"};
    assert_int_equal(driver->open(&target, &host, NULL, &ddm, &why), 0);
    assert_false(driver->look_on(ddm, now)); // nothing is out
    submit(0, NODE_READ);
    assert_false(driver->look_on(ddm, now));
    ends[0].done = 1;
    assert_true(driver->look_on(ddm, now));
    assert_int_equal(ended, 1);
    assert_string_equal(ddm->driver->name, "nvme+rdma");
    close_all();
}

/* ---- lost, and met again --------------------------------------------------------------------- */

static void one_path_that_is_lost_is_met_again_and_all_is_sent_again_in_order(void **state)
{
    open_well("//a/nqn.x", NULL);
    submit(0, NODE_WRITE);
    submit(1, NODE_READ);
    submit(2, NODE_TRIM);
    ends[0].is_lost = true;
    ended = 0;
    polled_at(now);
    assert_string_equal(said, "nqn.x: the peer is gone\n");
    submit(3, NODE_READ); // waits
    ends[0].is_lost = false;
    has_met();
    assert_string_equal(said, "nqn.x: the peer is gone\nnqn.x: connected again\n");
    assert_out(&ends[0], "0213"); // changes first, they may be older than what was read
    assert_int_equal(ended, 0);
    assert_int_equal(ends[0].connects, 2);
    ends[0].done = 4;
    close_all();
}

static void commands_without_a_path_wait_for_their_patience(void **state)
{
    instant_ns lost_at = now;
    open_well("//a/nqn.x", "patience=20s");
    submit(0, NODE_WRITE);
    ends[0].is_lost = true;
    ends[0].connect_error = -ECONNREFUSED;
    ended = 0;
    polled_at(lost_at);
    submit(1, NODE_READ);
    has_met();
    assert_true(ddm->driver->next_deadline(ddm) <= instant_after(lost_at, NS_PER_S));
    unsigned connects = ends[0].connects;
    polled_at(lost_at + NS_PER_S - 1); // it is tried each second
    assert_int_equal(ends[0].connects, connects);
    polled_at(lost_at + NS_PER_S);
    has_met();
    assert_int_equal(ends[0].connects, connects + 1);
    polled_at(lost_at + 20 * NS_PER_S - 1);
    assert_int_equal(ended, 0);
    polled_at(lost_at + 20 * NS_PER_S);
    assert_int_equal(ended, 3);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(commands[i].completion, NODE_MEDIA);
        assert_int_equal(commands[i].detail, ENOTCONN);
    }
    submit(2, NODE_READ); // likewise, at the next look
    polled_at(lost_at + 21 * NS_PER_S);
    assert_int_equal(ended, 7);
    assert_string_equal(said, "nqn.x: the peer is gone\n"); // one path's refusals are not news
    close_all();
}

static void a_change_of_access_may_last_longer_than_patience(void **state)
{
    instant_ns began = now;
    open_well("//a/nqn.x", "patience=1s");
    ends[0].access = WEFT_NVME_CHANGING;
    ends[0].change_ms = 5000;
    ended = 0;
    polled_at(began);
    submit(0, NODE_READ);
    assert_true(ddm->driver->next_deadline(ddm) == began + 100 * NS_PER_MS);
    polled_at(began + 5 * NS_PER_S - 1);
    assert_int_equal(ended, 0);
    polled_at(began + 5 * NS_PER_S);
    assert_int_equal(ended, 1);
    ends[0].access = WEFT_NVME_NON_OPTIMIZED;
    polled_at(began + 6 * NS_PER_S);
    submit(0, NODE_READ);
    assert_out(&ends[0], "0");
    ends[0].done = 1;
    close_all();
}

/* ---- two paths ------------------------------------------------------------------------------- */

static void open_two(void)
{
    open_well("//a/nqn.x", "paths=b");
    polled_at(now);
    has_met();
    assert_non_null(strstr(said, "nqn.x: b:4420: connected\n"));
    said[0] = '\0';
}

static void commands_go_by_the_better_path(void **state)
{
    ends[0].access = WEFT_NVME_NON_OPTIMIZED;
    open_two();
    submit(0, NODE_READ);
    assert_out(&ends[1], "0");
    ends[1].access = WEFT_NVME_INACCESSIBLE;
    ends[1].done = 1;
    polled_at(now);
    submit(1, NODE_READ);
    assert_out(&ends[0], "1");
    assert_non_null(strstr(said, "commands go by a:4420 now; b:4420 is inaccessible"));
    ends[0].done = 1;
    close_all();
}

static void reads_go_by_the_other_path_at_once_and_changes_when_the_lost_one_is_quiet(void **state)
{
    instant_ns lost_at = now;
    open_two();
    submit(0, NODE_WRITE);
    submit(1, NODE_READ);
    submit(2, NODE_FLUSH);
    submit(3, NODE_WRITE_ZEROES);
    ends[0].is_lost = true;
    ends[0].connect_error = -ECONNREFUSED;
    polled_at(lost_at);
    assert_out(&ends[1], "12");
    assert_non_null(strstr(said, "nqn.x: a:4420: the peer is gone\n"
                                 "nqn.x: commands go by b:4420 now; a:4420 is not connected\n"));
    ends[1].done = 2;
    has_met(); // which is refused, and said once
    char *refused = strstr(said, "a:4420: no path, it is tried each second: a refuses");
    assert_non_null(refused);
    polled_at(lost_at + NS_PER_S);
    has_met();
    assert_null(strstr(strchr(refused, '\n'), "no path")); // nor again
    polled_at(lost_at + 15 * NS_PER_S - 1);                // three keep-alives of five seconds
    assert_out(&ends[1], "");
    assert_int_equal(ended, 6);
    polled_at(lost_at + 15 * NS_PER_S);
    assert_out(&ends[1], "03");
    assert_non_null(strstr(said, "nqn.x: a:4420: sent again, 2 that were out: it has let go"));
    ends[1].done = 2;
    close_all();
    assert_int_equal(ended, 0xf);
}

static void changes_are_sent_again_by_who_was_handed_the_namespace(void **state)
{
    ends[1].access = WEFT_NVME_INACCESSIBLE;
    open_two();
    submit(0, NODE_WRITE);
    ends[0].is_lost = true;
    ends[0].connect_error = -ECONNREFUSED;
    polled_at(now + NS_PER_MS);
    assert_out(&ends[1], "");
    ends[1].access = WEFT_NVME_OPTIMIZED;
    polled_at(now + NS_PER_MS);
    assert_out(&ends[1], "0");
    assert_non_null(strstr(said, "sent again, 1 that were out: the namespace was handed over"));
    ends[1].done = 1;
    close_all();
}

// Lost before it was ever told to be: commands that it carried out since count against that.
static void who_served_after_the_hand_over_is_not_quiet(void **state)
{
    ends[1].access = WEFT_NVME_INACCESSIBLE;
    open_two();
    ends[1].access = WEFT_NVME_OPTIMIZED; // told at 1 ms
    polled_at(now + NS_PER_MS);
    submit(0, NODE_READ);
    ends[0].done = 1;
    polled_at(now + NS_PER_MS); // carried out at 2 ms
    submit(1, NODE_WRITE);
    ends[0].is_lost = true;
    ends[0].connect_error = -ECONNREFUSED;
    polled_at(now + NS_PER_MS);
    polled_at(now + NS_PER_MS);
    assert_out(&ends[1], "");
    now += 15 * NS_PER_S;
    polled_at(now);
    assert_out(&ends[1], "1");
    ends[1].done = 1;
    close_all();
}

static void a_path_that_fails_by_itself_rests(void **state)
{
    open_two();
    submit(0, NODE_WRITE);
    ends[0].done = 1;
    ends[0].error = -EIO;
    ends[0].status = 0x371; // host pathing error... the command may go by another
    polled_at(now);
    bool is_path = weft_nvme_is_path_status(0x371);
    assert_true(is_path);
    assert_out(&ends[1], "0");
    assert_non_null(strstr(said, "a:4420 is resting after a failure of its own"));
    assert_int_equal(ended, 0);
    assert_true(ddm->driver->next_deadline(ddm) <= now + NS_PER_S);
    ends[1].done = 1;
    ends[1].is_lost = true; // none is left: the one that rests is waited for
    ends[1].connect_error = -ECONNREFUSED;
    polled_at(now + 1);
    submit(1, NODE_READ);
    assert_out(&ends[0], "");
    polled_at(now + NS_PER_S);
    assert_out(&ends[0], "1");
    ends[0].done = 1;
    ends[0].error = 0;
    ends[0].status = 0;
    close_all();
}

static void a_status_of_the_path_that_is_final_is_the_commands(void **state)
{
    open_two();
    submit(0, NODE_WRITE);
    ends[0].done = 1;
    ends[0].error = -EIO;
    ends[0].status = 0x371;
    ends[0].is_final = true;
    polled_at(now);
    assert_int_equal(ended, 1);
    assert_int_equal(commands[0].detail, 0x371);
    assert_out(&ends[1], "");
    close_all();
}

static void what_is_no_path_to_the_same_volume_is_not_taken(void **state)
{
    static const struct {
        uint32_t nsid, block_len;
        uint8_t uuid;
        bool has_uuid;
        uint32_t transfer_max;
        uint64_t range_max;
        const char *why; // NULL: it is taken
    } cases[] = {
        {7, BLOCK, 1, true, 1 << 20, 1 << 24, NULL},
        {7, BLOCK, 1, true, 2 << 20, 2 << 24, NULL},
        {7, BLOCK, 1, false, 1 << 20, 1 << 24, "its namespace has no UUID"},
        {8, BLOCK, 1, true, 1 << 20, 1 << 24, "there is another volume now"},
        {7, 512, 1, true, 1 << 20, 1 << 24, "there is another volume now"},
        {7, BLOCK, 9, true, 1 << 20, 1 << 24, "there is another volume now"},
        {7, BLOCK, 1, true, (1 << 20) - 1, 1 << 24, "it takes less in one command"},
        {7, BLOCK, 1, true, 1 << 20, (1 << 24) - 1, "it takes less in one command"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        ends[1].ns.nsid = cases[i].nsid;
        ends[1].ns.block_len = cases[i].block_len;
        ends[1].ns.uuid[0] = cases[i].uuid;
        ends[1].ns.has_uuid = cases[i].has_uuid;
        ends[1].info.transfer_max_len = cases[i].transfer_max;
        ends[1].zeroes_max = cases[i].range_max;
        open_well("//a/nqn.x", "paths=b");
        polled_at(now);
        has_met();
        assert_non_null(strstr(said, cases[i].why != NULL ? cases[i].why : "b:4420: connected"));
        assert_int_equal(ends[1].open, cases[i].why == NULL);
        close_all();
    }
    fresh(NULL);
    ends[0].ns.has_uuid = false;
    open_well("//a/nqn.x", NULL); // alone it needs none
    close_all();
}

static void a_drain_waits_for_what_is_out_and_fails_what_has_no_path(void **state)
{
    open_well("//a/nqn.x", NULL);
    submit(0, NODE_WRITE);
    ends[0].is_lost = true;
    ends[0].connect_error = -ECONNREFUSED;
    ended = 0;
    polled_at(now);
    submit(1, NODE_READ);
    ddm->driver->drain(ddm);
    assert_int_equal(ended, 3);
    assert_int_equal(commands[1].completion, NODE_MEDIA);
    close_all();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_an_address_may_say, fresh),
        cmocka_unit_test_setup(a_namespace_is_the_one_that_is_named_or_the_first, fresh),
        cmocka_unit_test_setup(the_first_path_that_can_be_met_is_taken, fresh),
        cmocka_unit_test_setup(abilities_are_those_of_controller_and_namespace, fresh),
        cmocka_unit_test_setup(ranges_and_blocks_follow_the_namespace, fresh),
        cmocka_unit_test_setup(a_size_that_changes_is_told_and_another_volume_is_not, fresh),
        cmocka_unit_test_setup(a_request_becomes_an_io, fresh),
        cmocka_unit_test_setup(each_error_of_an_answer_has_its_completion, fresh),
        cmocka_unit_test_setup(what_is_not_taken_ends_at_once_or_is_taken_later, fresh),
        cmocka_unit_test_setup(no_more_are_out_than_it_is_deep, fresh),
        cmocka_unit_test_setup(commands_of_a_batch_leave_together, fresh),
        cmocka_unit_test_setup(commands_that_had_no_room_leave_when_there_is_some, fresh),
        cmocka_unit_test_setup(who_looks_on_takes_what_has_come, fresh),
        cmocka_unit_test_setup(one_path_that_is_lost_is_met_again_and_all_is_sent_again_in_order,
                               fresh),
        cmocka_unit_test_setup(commands_without_a_path_wait_for_their_patience, fresh),
        cmocka_unit_test_setup(a_change_of_access_may_last_longer_than_patience, fresh),
        cmocka_unit_test_setup(commands_go_by_the_better_path, fresh),
        cmocka_unit_test_setup(
            reads_go_by_the_other_path_at_once_and_changes_when_the_lost_one_is_quiet, fresh),
        cmocka_unit_test_setup(changes_are_sent_again_by_who_was_handed_the_namespace, fresh),
        cmocka_unit_test_setup(who_served_after_the_hand_over_is_not_quiet, fresh),
        cmocka_unit_test_setup(a_path_that_fails_by_itself_rests, fresh),
        cmocka_unit_test_setup(a_status_of_the_path_that_is_final_is_the_commands, fresh),
        cmocka_unit_test_setup(what_is_no_path_to_the_same_volume_is_not_taken, fresh),
        cmocka_unit_test_setup(a_drain_waits_for_what_is_out_and_fails_what_has_no_path, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
