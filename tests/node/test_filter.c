// What a filter does where it does nothing of its own: the same as the driver behind it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/ddm/filter.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_it_is_asked_the_next_is_asked_once),
        cmocka_unit_test(what_the_next_may_lack_is_not_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
