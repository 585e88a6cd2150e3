// What a filter does where it does nothing of its own: the same as the driver behind it. And what
// the one that lets commands fail does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/ddm/filter.h"
#include "node/ddm/registry.h"

enum { PROBED = -5, SUBMITTED = -6, DESCRIPTOR = 77, DEADLINE = 1234 };

// The driver behind, and what it was asked last.
struct behind {
    struct ddm ddm;
    const char *asked;
    const void *with;
    instant_ns now;
};

static void note(struct ddm *ddm, const char *what, const void *with)
{
    struct behind *behind = (struct behind *)ddm;
    assert_null(behind->asked);
    behind->asked = what;
    behind->with = with;
}

static int behind_probe(struct ddm *ddm, struct volume_profile *ret)
{
    note(ddm, "probe", ret);
    return PROBED;
}

static int behind_submit(struct ddm *ddm, struct ddm_command *command)
{
    note(ddm, "submit", command);
    return SUBMITTED;
}

static void behind_flush_queue(struct ddm *ddm)
{
    note(ddm, "flush", NULL);
}

static int behind_poll_fd(struct ddm *ddm)
{
    return DESCRIPTOR;
}

static instant_ns behind_next_deadline(struct ddm *ddm)
{
    return DEADLINE;
}

static void behind_poll(struct ddm *ddm, instant_ns now)
{
    note(ddm, "poll", NULL);
    ((struct behind *)ddm)->now = now;
}

static void behind_drain(struct ddm *ddm)
{
    note(ddm, "drain", NULL);
}

static void behind_close(struct ddm *ddm)
{
    note(ddm, "close", NULL);
}

static const struct ddm_driver behind_driver = {.version = DDM_VERSION,
                                                .probe = behind_probe,
                                                .submit = behind_submit,
                                                .flush_queue = behind_flush_queue,
                                                .poll_fd = behind_poll_fd,
                                                .next_deadline = behind_next_deadline,
                                                .poll = behind_poll,
                                                .drain = behind_drain,
                                                .close = behind_close};

static void expect(struct behind *behind, const char *asked, const void *with)
{
    assert_non_null(behind->asked);
    assert_string_equal(behind->asked, asked);
    assert_ptr_equal(behind->with, with);
    behind->asked = NULL;
}

static void whatever_it_is_asked_the_next_is_asked_once(void **state)
{
    static const struct ddm_driver own = {.version = DDM_VERSION};
    int context;
    const struct ddm_host host = {.ctx = &context};
    struct behind behind = {.ddm.driver = &behind_driver};
    struct ddm *filter = filter_create(sizeof *filter + sizeof(uint64_t), &own, &host, &behind.ddm);
    struct volume_profile profile;
    struct ddm_command command;
    assert_ptr_equal(filter->driver, &own);
    assert_ptr_equal(filter->next, &behind.ddm);
    assert_ptr_equal(filter->host.ctx, &context);
    assert_int_equal(*(const uint64_t *)(filter + 1), 0);
    assert_int_equal(filter_probe(filter, &profile), PROBED);
    expect(&behind, "probe", &profile);
    assert_int_equal(filter_submit(filter, &command), SUBMITTED);
    expect(&behind, "submit", &command);
    filter_flush_queue(filter);
    expect(&behind, "flush", NULL);
    assert_int_equal(filter_poll_fd(filter), DESCRIPTOR);
    assert_int_equal(filter_next_deadline(filter), DEADLINE);
    filter_poll(filter, 99);
    expect(&behind, "poll", NULL);
    assert_int_equal(behind.now, 99);
    filter_drain(filter);
    expect(&behind, "drain", NULL);
    filter_close(filter);
    expect(&behind, "close", NULL);
}

static void what_the_next_may_lack_is_not_called(void **state)
{
    static const struct ddm_driver lacks = {.version = DDM_VERSION, .close = behind_close};
    const struct ddm_host host = {0};
    struct behind behind = {.ddm.driver = &lacks};
    struct ddm *filter = filter_create(sizeof *filter, &lacks, &host, &behind.ddm);
    filter_flush_queue(filter);
    assert_true(filter_next_deadline(filter) == INSTANT_NEVER);
    assert_null(behind.asked);
    filter_close(filter);
}

/* ---- error: which commands fail -------------------------------------------------------------- */

static void on_end(void *ctx, struct ddm_command *command)
{
    ++*(unsigned *)ctx;
}

// Which of all operations fail, as bits, of a filter that is asked for so.
static unsigned failing(const char *uri, enum node_completion completion)
{
    unsigned bits = 0;
    for (uint8_t operation = 0; operation < NODE_DEVICE_OPERATION_COUNT; operation++) {
        const struct ddm_host host = {0};
        struct ddm *ddm = NULL;
        struct why why;
        uint8_t data[4096];
        unsigned ended = 0;
        struct ddm_command command = {
            .operation = operation, .data = data, .data_len = sizeof data, .len = sizeof data};
        assert_int_equal(ddm_registry_open(uri, &host, &ddm, &why), 0);
        ddm_command_expect(&command, on_end, &ended);
        assert_int_equal(ddm->driver->submit(ddm, &command), 0);
        if (ended == 1 && command.completion == completion) {
            bits |= 1U << operation;
        }
        ddm->driver->drain(ddm);
        ddm->driver->close(ddm);
    }
    return bits;
}

static void what_is_to_fail_fails_as_it_is_told(void **state)
{
    enum { ALL = (1 << NODE_DEVICE_OPERATION_COUNT) - 1 };
    static const struct {
        const char *uri;
        enum node_completion completion;
        unsigned fail;
    } rows[] = {
        {"error+null:1M", NODE_MEDIA, ALL},
        {"error+null:1M?error=100%", NODE_MEDIA, ALL},
        {"error+null:1M?error=0", NODE_MEDIA, 0},
        {"error+null:1M?error.as=retry", NODE_RETRY, ALL},
        {"error+null:1M?error.as=no-space", NODE_NO_SPACE, ALL},
        {"error+null:1M?error.read=1", NODE_MEDIA, 1 << NODE_READ},
        {"error+null:1M?error.write=1", NODE_MEDIA, 1 << NODE_WRITE},
        {"error+null:1M?error.flush=1", NODE_MEDIA, 1 << NODE_FLUSH},
        {"error+null:1M?error=1&error.read=0", NODE_MEDIA, ALL & ~(1 << NODE_READ)},
        {"error+null:1M?error.file=/nonexistent", NODE_MEDIA, 0},
        {"error+null:1M?error.file=/", NODE_MEDIA, ALL},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(failing(rows[i].uri, rows[i].completion), rows[i].fail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_it_is_asked_the_next_is_asked_once),
        cmocka_unit_test(what_the_next_may_lack_is_not_called),
        cmocka_unit_test(what_is_to_fail_fails_as_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
