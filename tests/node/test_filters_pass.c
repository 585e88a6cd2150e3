// Filters before a device of the test's: each passes on what it does not change, and the log has a
// line for each way in which a command can end.

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
#include "node/ddm/drivers.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

static const struct ddm_driver *const filters[] = {&ddm_delay, &ddm_error, &ddm_log, &ddm_lose};
enum { FILTERS = sizeof filters / sizeof filters[0] };

/* ---- the device ------------------------------------------------------------------------------ */

static struct {
    int submit; // what it says
    unsigned probes, submits, flushes, polls, drains, closes;
    instant_ns polled_at;
    struct ddm_command *last;
} it;

static struct ddm device;

static int it_probes(struct ddm *ddm, struct volume_profile *ret)
{
    assert_ptr_equal(ddm, &device);
    it.probes++;
    ret->size = 12345;
    return 5;
}

static int it_takes(struct ddm *ddm, struct ddm_command *command)
{
    assert_ptr_equal(ddm, &device);
    it.submits++;
    it.last = command;
    return it.submit;
}

static void it_flushes(struct ddm *ddm)
{
    assert_ptr_equal(ddm, &device);
    it.flushes++;
}

static int its_fd(struct ddm *ddm)
{
    assert_ptr_equal(ddm, &device);
    return 17;
}

static instant_ns its_deadline(struct ddm *ddm)
{
    assert_ptr_equal(ddm, &device);
    return 99;
}

static void it_polls(struct ddm *ddm, instant_ns now)
{
    assert_ptr_equal(ddm, &device);
    it.polls++;
    it.polled_at = now;
}

static void it_drains(struct ddm *ddm)
{
    assert_ptr_equal(ddm, &device);
    it.drains++;
}

static void it_closes(struct ddm *ddm)
{
    assert_ptr_equal(ddm, &device);
    it.closes++;
}

static const struct ddm_driver whole = {.probe = it_probes,
                                        .submit = it_takes,
                                        .flush_queue = it_flushes,
                                        .poll_fd = its_fd,
                                        .next_deadline = its_deadline,
                                        .poll = it_polls,
                                        .drain = it_drains,
                                        .close = it_closes};
static const struct ddm_driver least = {.probe = it_probes,
                                        .submit = it_takes,
                                        .poll_fd = its_fd,
                                        .poll = it_polls,
                                        .drain = it_drains,
                                        .close = it_closes};

/* ---- who uses it ----------------------------------------------------------------------------- */

static instant_ns now;
static struct ddm *ddm;
static unsigned ended;

static instant_ns clock_of_test(void *ctx)
{
    return now;
}

static int open_as(const struct ddm_driver *filter, const char *key, const char *value)
{
    const struct ddm_parameter parameter = {key, value};
    const struct ddm_target target = {.parameters = &parameter, .parameter_count = key != NULL};
    const struct ddm_host host = {.clock = clock_of_test};
    struct why why = {""};
    memset(&it, 0, sizeof it);
    now = 50 * NS_PER_S;
    ended = 0;
    int error = filter->open(&target, &host, &device, &ddm, &why);
    assert_int_equal(why_is_said(&why), error != 0);
    return error;
}

// So that it changes nothing.
static int open_calm(const struct ddm_driver *filter)
{
    return open_as(filter, filter == &ddm_error ? "error" : NULL, "0");
}

static void on_end(void *ctx, struct ddm_command *command)
{
    ended++;
}

static struct ddm_command command;

static int submit(enum node_operation operation)
{
    command = (struct ddm_command){
        .operation = (uint8_t)operation, .offset = 512, .len = 1024, .submitted_at_ns = now};
    ddm_command_expect(&command, on_end, NULL);
    return ddm->driver->submit(ddm, &command);
}

/* ---- what all pass on ------------------------------------------------------------------------ */

static void each_passes_on_what_it_does_not_change(void **state)
{
    for (unsigned i = 0; i < FILTERS; i++) {
        const struct ddm_driver *d = filters[i];
        struct volume_profile profile = {0};
        device.driver = &whole;
        assert_int_equal(open_calm(d), 0);
        assert_ptr_equal(ddm->driver, d);
        assert_ptr_equal(ddm->next, &device);
        assert_int_equal(d->probe(ddm, &profile), 5);
        assert_int_equal(profile.size, 12345);
        d->flush_queue(ddm);
        assert_int_equal(it.flushes, 1);
        assert_int_equal(d->poll_fd(ddm), 17);
        assert_int_equal(d->next_deadline(ddm), 99);
        assert_int_equal(submit(NODE_READ), 0);
        d->poll(ddm, 60 * NS_PER_S); // one that keeps commands lets them go
        assert_int_equal(it.polls, 1);
        assert_true(it.polled_at == 60 * NS_PER_S);
        assert_int_equal(it.submits, 1);
        assert_ptr_equal(it.last, &command);
        ddm_command_end(&command);
        assert_int_equal(ended, 1);
        d->drain(ddm);
        assert_int_equal(it.drains, 1);
        d->close(ddm);
        assert_int_equal(it.closes, 1);
        device.driver = &least;
        assert_int_equal(open_calm(d), 0);
        d->flush_queue(ddm);
        assert_true(d->next_deadline(ddm) == INSTANT_NEVER);
        d->close(ddm);
    }
}

static void a_command_that_is_not_taken_is_as_before(void **state)
{
    device.driver = &whole;
    for (unsigned i = 0; i < FILTERS; i++) {
        assert_int_equal(open_calm(filters[i]), 0);
        it.submit = -EAGAIN;
        assert_int_equal(submit(NODE_READ), -EAGAIN);
        assert_int_equal(command.end_count, 1);
        assert_int_equal(ended, 0);
        ddm->driver->close(ddm);
    }
    assert_int_equal(open_as(&ddm_lose, "lose.late", "100%"), 0);
    it.submit = -EAGAIN;
    assert_int_equal(submit(NODE_READ), -EAGAIN);
    assert_int_equal(command.end_count, 1);
    ddm->driver->close(ddm);
}

static void each_has_its_row(void **state)
{
    static const char *const names[] = {"delay", "error", "log", "lose"};
    for (unsigned i = 0; i < FILTERS; i++) {
        const struct ddm_driver *d = filters[i];
        assert_int_equal(d->version, DDM_VERSION);
        assert_int_equal(d->self_size, sizeof *d);
        assert_string_equal(d->name, names[i]);
        assert_non_null(d->summary);
        assert_string_equal(d->fence, "that of the next");
        assert_memory_equal(d->parameters[0], names[i], strlen(names[i]));
        assert_true(d->is_filter);
        assert_false(d->needs_process || d->takes_all || d->can_stand_by || d->keeps_pages);
        assert_int_equal(d->may_lose, d == &ddm_lose);
        assert_non_null(d->calls);
        assert_int_equal(d->calls[0] != NULL, d == &ddm_error); // it looks for a file
    }
}

static void values_that_mean_nothing_are_refused(void **state)
{
    static const struct {
        const struct ddm_driver *filter;
        const char *key;
    } cases[] = {
        {&ddm_delay, "delay"},       {&ddm_delay, "delay.read"},  {&ddm_delay, "delay.write"},
        {&ddm_delay, "delay.flush"}, {&ddm_error, "error"},       {&ddm_error, "error.read"},
        {&ddm_error, "error.write"}, {&ddm_error, "error.flush"}, {&ddm_error, "error.as"},
        {&ddm_error, "error.seed"},  {&ddm_lose, "lose"},         {&ddm_lose, "lose.late"},
        {&ddm_lose, "lose.seed"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool is_known = false;
        for (const char *const *key = cases[i].filter->parameters; *key != NULL; key++) {
            is_known |= strcmp(*key, cases[i].key) == 0;
        }
        assert_true(is_known);
        assert_int_equal(open_as(cases[i].filter, cases[i].key, "nonsense"), -EINVAL);
    }
}

/* ---- delay ----------------------------------------------------------------------------------- */

static int open_with(const struct ddm_driver *filter, const struct ddm_parameter *parameters,
                     size_t count)
{
    const struct ddm_target target = {.parameters = parameters, .parameter_count = count};
    const struct ddm_host host = {.clock = clock_of_test};
    struct why why;
    memset(&it, 0, sizeof it);
    now = 50 * NS_PER_S;
    ended = 0;
    device.driver = &least;
    return filter->open(&target, &host, &device, &ddm, &why);
}

static void each_operation_waits_its_time_and_in_that_order(void **state)
{
    static const struct ddm_parameter parameters[] = {
        {"delay", "10ms"}, {"delay.read", "20ms"}, {"delay.write", "30ms"}, {"delay.flush", "5ms"}};
    static const enum node_operation operations[] = {NODE_WRITE, NODE_READ, NODE_TRIM, NODE_FLUSH,
                                                     NODE_TRIM};
    static const struct {
        unsigned after_ms, last;
    } order[] = {{5, 3}, {10, 2}, {10, 4}, {20, 1}, {30, 0}};
    struct ddm_command commands[5];
    assert_int_equal(open_with(&ddm_delay, parameters, 4), 0);
    assert_true(ddm->driver->next_deadline(ddm) == INSTANT_NEVER);
    for (unsigned i = 0; i < 5; i++) {
        commands[i] =
            (struct ddm_command){.operation = (uint8_t)operations[i], .submitted_at_ns = now};
        ddm_command_expect(&commands[i], on_end, NULL);
        assert_int_equal(ddm->driver->submit(ddm, &commands[i]), 0);
    }
    for (unsigned i = 0; i < 5; i++) {
        instant_ns due = now + order[i].after_ms * NS_PER_MS;
        if (i == 2) {
            continue; // both at once, in the order in which they came
        }
        assert_true(ddm->driver->next_deadline(ddm) == due);
        ddm->driver->poll(ddm, due - 1);
        assert_int_equal(it.submits, i);
        ddm->driver->poll(ddm, due);
        assert_int_equal(it.submits, i == 1 ? 3 : i + 1);
        assert_ptr_equal(it.last, &commands[order[i == 1 ? 2 : i].last]);
    }
    ddm->driver->close(ddm);
}

static void all_wait_as_long_where_nothing_else_is_said(void **state)
{
    static const struct ddm_parameter parameter = {"delay", "10ms"};
    for (unsigned i = 0; i < NODE_DEVICE_OPERATION_COUNT; i++) {
        assert_int_equal(open_with(&ddm_delay, &parameter, 1), 0);
        assert_int_equal(submit((enum node_operation)i), 0);
        assert_int_equal(it.submits, 0);
        assert_true(ddm->driver->next_deadline(ddm) == now + 10 * NS_PER_MS);
        ddm->driver->drain(ddm); // whatever its time
        assert_int_equal(it.submits, 1);
        ddm->driver->close(ddm);
        assert_int_equal(open_with(&ddm_delay, NULL, 0), 0);
        assert_int_equal(submit((enum node_operation)i), 0);
        assert_int_equal(it.submits, 1); // at once
        ddm->driver->close(ddm);
    }
}

static void what_the_device_has_no_room_for_waits_on(void **state)
{
    static const struct ddm_parameter parameter = {"delay", "10ms"};
    assert_int_equal(open_with(&ddm_delay, &parameter, 1), 0);
    device.driver = &whole;
    assert_int_equal(submit(NODE_READ), 0);
    it.submit = -EAGAIN;
    ddm->driver->poll(ddm, now + NS_PER_S);
    assert_int_equal(it.submits, 1);
    assert_int_equal(it.flushes, 1); // the device hears that no more follow
    assert_int_equal(ended, 0);
    it.submit = -EIO;
    ddm->driver->poll(ddm, now + NS_PER_S);
    assert_int_equal(ended, 1);
    assert_int_equal(command.completion, NODE_INTERNAL);
    assert_int_equal(command.detail, EIO);
    ddm->driver->poll(ddm, now + NS_PER_S);
    assert_int_equal(it.submits, 2);
    ddm->driver->close(ddm);
}

/* ---- lose ------------------------------------------------------------------------------------ */

// Which of 64 commands got through, as bits.
static uint64_t kept_by(const struct ddm_driver *filter, const char *key, const char *value)
{
    uint64_t kept = 0;
    memset(&it, 0, sizeof it);
    device.driver = &whole;
    const struct ddm_parameter parameters[] = {{filter->name, "50%"}, {key, value}};
    const struct ddm_target target = {.parameters = parameters,
                                      .parameter_count = key != NULL ? 2 : 1};
    const struct ddm_host host = {.clock = clock_of_test};
    struct why why;
    assert_int_equal(filter->open(&target, &host, &device, &ddm, &why), 0);
    for (unsigned i = 0; i < 64; i++) {
        unsigned before = it.submits;
        assert_int_equal(submit(NODE_READ), 0);
        kept |= (uint64_t)(it.submits > before) << i;
    }
    ddm->driver->close(ddm);
    return kept;
}

static void which_are_hit_is_the_seeds(void **state)
{
    static const struct {
        const struct ddm_driver *filter;
        const char *key;
    } cases[] = {{&ddm_lose, "lose.seed"}, {&ddm_error, "error.seed"}};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t kept = kept_by(cases[i].filter, NULL, NULL);
        assert_true(kept == kept_by(cases[i].filter, NULL, NULL));
        assert_true(kept == kept_by(cases[i].filter, cases[i].key, "1"));
        assert_true(kept != kept_by(cases[i].filter, cases[i].key, "2"));
    }
}

/* ---- log ------------------------------------------------------------------------------------- */

static void a_line_says_how_a_command_has_ended(void **state)
{
    static const struct {
        enum node_completion completion;
        uint32_t status_len;
        int transport_error;
        const char *line;
    } cases[] = {
        {NODE_OK, 0, 0, "trim offset=512 len=1024 flags=0: ok, 3 us\n"},
        {NODE_NO_SPACE, 0, 0, "trim offset=512 len=1024 flags=0: no space, 3 us\n"},
        {NODE_OK, 1, 0, "trim offset=512 len=1024 flags=0: status 02h, 3 us\n"},
        {NODE_OK, 1, -EIO,
         "trim offset=512 len=1024 flags=0: no answer (Input/output error), "
         "3 us\n"},
    };
    char path[] = "/tmp/weft-log.XXXXXX", line[128];
    int before = dup(0);
    close(before);
    FILE *in = fdopen(mkstemp(path), "r");
    device.driver = &whole;
    assert_int_equal(open_as(&ddm_log, "log.file", path), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(submit(NODE_TRIM), 0);
        now += 3 * NS_PER_US;
        command.completion = cases[i].completion;
        command.status[0] = 2;
        command.status_len = cases[i].status_len;
        command.transport_error = cases[i].transport_error;
        ddm_command_end(&command);
        assert_int_equal(ended, i + 1);
        clearerr(in);
        assert_non_null(fgets(line, sizeof line, in));
        assert_string_equal(line, cases[i].line);
    }
    ddm->driver->close(ddm);
    fclose(in);
    unlink(path);
    int behind = dup(0);
    close(behind);
    assert_int_equal(behind, before); // it has closed its file
    assert_int_equal(open_as(&ddm_log, "log.file", "/nowhere/at/all"), -ENOENT);
    assert_int_equal(open_as(&ddm_log, NULL, NULL), 0);
    ddm->driver->close(ddm);
    assert_true(ferror(stderr) == 0 && fflush(stderr) == 0 && dup2(2, 2) == 2); // that stays
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_passes_on_what_it_does_not_change),
        cmocka_unit_test(a_command_that_is_not_taken_is_as_before),
        cmocka_unit_test(each_has_its_row),
        cmocka_unit_test(values_that_mean_nothing_are_refused),
        cmocka_unit_test(each_operation_waits_its_time_and_in_that_order),
        cmocka_unit_test(all_wait_as_long_where_nothing_else_is_said),
        cmocka_unit_test(what_the_device_has_no_room_for_waits_on),
        cmocka_unit_test(which_are_hit_is_the_seeds),
        cmocka_unit_test(a_line_says_how_a_command_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
