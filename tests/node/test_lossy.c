// Drivers that stand for a device that is not there, or not reliable: null, lose and log.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "node/ddm/registry.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

enum { COMMANDS = 200, LEN = 4096 };

static instant_ns now;
static struct ddm *ddm;
static struct ddm_command commands[COMMANDS];
static unsigned ended;
static uint8_t data[LEN];

static instant_ns clock_of_test(void *ctx)
{
    return now;
}

static void on_end(void *ctx, struct ddm_command *command)
{
    ended++;
}

static int open_uri(const char *uri)
{
    static const struct ddm_host host = {.clock = clock_of_test};
    struct why why;
    now = 50 * NS_PER_S;
    ended = 0;
    return ddm_registry_open(uri, &host, &ddm, &why);
}

static struct ddm_command *submit(unsigned index, enum node_operation operation)
{
    struct ddm_command *command = &commands[index];
    *command = (struct ddm_command){.operation = (uint8_t)operation,
                                    .offset = 512,
                                    .len = LEN,
                                    .data = data,
                                    .data_len = LEN,
                                    .flags = NODE_FUA,
                                    .submitted_at_ns = now};
    ddm_command_expect(command, on_end, NULL);
    assert_int_equal(ddm_submit(ddm, command), 0);
    return command;
}

/* ---- null ------------------------------------------------------------------------------------ */

static void null_is_zeroes_of_any_size(void **state)
{
    struct volume_profile profile;
    struct node_extent extent;
    assert_int_equal(open_uri("null:3M"), 0);
    assert_int_equal(ddm->driver->probe(ddm, &profile), 0);
    assert_int_equal(profile.size, 3 << 20);
    assert_int_equal(profile.block_size, 512);
    assert_int_equal(profile.alignment, 1);
    assert_int_equal(profile.transfer_max, NODE_TRANSFER_MAX);
    assert_int_equal(profile.preferred, 4096);
    assert_true(profile.range_max == 1ULL << 40);
    assert_int_equal(profile.depth, 512);
    assert_int_equal(profile.abilities, VOLUME_CAN_WRITE | VOLUME_CAN_FUA | VOLUME_CAN_TRIM |
                                            VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST |
                                            VOLUME_CAN_EXTENTS);
    assert_string_equal(profile.model, "null");
    assert_string_equal(profile.origin, "null:3145728");
    assert_string_equal(profile.driver, "null");
    memset(data, 1, sizeof data);
    assert_int_equal(submit(0, NODE_WRITE)->completion, NODE_OK);
    assert_int_equal(data[0], 1);
    commands[0].detail = 7;
    assert_int_equal(submit(0, NODE_READ)->completion, NODE_OK);
    assert_int_equal(commands[0].detail, 0);
    assert_int_equal(data[0], 0);
    assert_int_equal(data[LEN - 1], 0);
    assert_int_equal(submit(0, NODE_EXTENTS)->answer_len, sizeof extent);
    memcpy(&extent, data, sizeof extent);
    assert_int_equal(extent.len, LEN);
    assert_int_equal(extent.flags, NODE_EXTENT_HOLE | NODE_EXTENT_ZERO);
    assert_int_equal(ended, 3);
    assert_int_equal(ddm->driver->poll_fd(ddm), -1);
    ddm->driver->poll(ddm, now);
    ddm->driver->drain(ddm);
    assert_int_equal(ended, 3);
    assert_ptr_equal(ddm->host.clock, clock_of_test);
    const struct ddm_driver *null = ddm->driver;
    ddm_close(ddm);
    assert_int_equal(open_uri("null:much"), -EINVAL);
    assert_int_equal(null->version, DDM_VERSION);
    assert_int_equal(null->self_size, sizeof *null);
    assert_string_equal(null->summary, "reads zeroes, drops what is written");
    assert_string_equal(null->object, "SIZE");
    assert_string_equal(null->fence, "there is no I/O");
    assert_null(null->calls[0]); // it is kept to what every RTA needs
    assert_null(null->format);
}

/* ---- lose ------------------------------------------------------------------------------------ */

static void a_share_of_commands_vanishes_the_same_with_each_seed(void **state)
{
    static const struct {
        const char *uri;
        unsigned least, most; // that end
    } cases[] = {{"lose+null:1M", COMMANDS, COMMANDS},
                 {"lose+null:1M?lose=0", COMMANDS, COMMANDS},
                 {"lose+null:1M?lose=100%", 0, 0},
                 {"lose+null:1M?lose=50%", COMMANDS / 3, 2 * COMMANDS / 3},
                 {"lose+null:1M?lose=50%&lose.seed=7", COMMANDS / 3, 2 * COMMANDS / 3}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned first = 0;
        for (unsigned time = 0; time < 2; time++) {
            assert_int_equal(open_uri(cases[i].uri), 0);
            for (unsigned n = 0; n < COMMANDS; n++) {
                submit(n, NODE_READ);
            }
            assert_true(ended >= cases[i].least && ended <= cases[i].most);
            assert_true(time == 0 || ended == first);
            first = ended;
            ddm_close(ddm);
        }
    }
    assert_int_equal(open_uri("lose+null:1M?lose=often"), -EINVAL);
    assert_int_equal(open_uri("lose+null:1M?lose.late=often"), -EINVAL);
    assert_int_equal(open_uri("lose+null:1M?lose.seed=none"), -EINVAL);
}

static void late_answers_come_when_their_time_has_come(void **state)
{
    enum { LATE_MS = 1500 };
    assert_int_equal(open_uri("lose+null:1M?lose.late=100%"), 0);
    assert_true(ddm->driver->next_deadline(ddm) == INSTANT_NEVER);
    instant_ns first_at = now;
    submit(0, NODE_READ);
    now += NS_PER_MS;
    submit(1, NODE_READ);
    assert_int_equal(ended, 0);
    assert_true(ddm->driver->next_deadline(ddm) == first_at + LATE_MS * NS_PER_MS);
    ddm->driver->poll(ddm, first_at + LATE_MS * NS_PER_MS - 1);
    assert_int_equal(ended, 0);
    ddm->driver->poll(ddm, first_at + LATE_MS * NS_PER_MS);
    assert_int_equal(ended, 1);
    assert_int_equal(commands[0].completion, NODE_OK);
    assert_int_equal(commands[0].end_count, 0);
    assert_true(ddm->driver->next_deadline(ddm) == now + LATE_MS * NS_PER_MS);
    ddm->driver->drain(ddm); // all of them
    assert_int_equal(ended, 2);
    ddm->driver->close(ddm);
}

/* ---- log ------------------------------------------------------------------------------------- */

static void each_command_has_a_line(void **state)
{
    char path[] = "/tmp/weft-log.XXXXXX", uri[128], lines[4][128];
    int fd = mkstemp(path);
    snprintf(uri, sizeof uri, "log+error+null:1M?log.file=%s&error.write=1", path);
    assert_int_equal(open_uri(uri), 0);
    submit(0, NODE_READ);
    submit(1, NODE_WRITE);
    FILE *in = fdopen(fd, "r");
    for (unsigned i = 0; i < 2; i++) { // as soon as it has ended
        assert_non_null(fgets(lines[i], sizeof lines[i], in));
    }
    assert_null(fgets(lines[2], sizeof lines[2], in));
    assert_string_equal(lines[0], "read offset=512 len=4096 flags=0x1: ok, 0 us\n");
    assert_non_null(strstr(lines[1], "write offset=512 len=4096 flags=0x1: "));
    assert_null(strstr(lines[1], ": ok"));
    ddm_close(ddm);
    assert_int_equal(open_uri(uri), 0); // written behind what is there
    now += 7 * NS_PER_US;
    submit(0, NODE_READ);
    ddm_close(ddm);
    rewind(in);
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(fgets(lines[i], sizeof lines[i], in));
    }
    assert_string_equal(lines[2], lines[0]);
    fclose(in);
    unlink(path);
    assert_int_equal(open_uri("log+null:1M?log.file=/nowhere/at/all"), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_zeroes_of_any_size),
        cmocka_unit_test(a_share_of_commands_vanishes_the_same_with_each_seed),
        cmocka_unit_test(late_answers_come_when_their_time_has_come),
        cmocka_unit_test(each_command_has_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
