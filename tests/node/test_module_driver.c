// A driver of somebody else's between interface 320 and <weft/ddm.h>: what is passed on to it, what
// comes back, and what of it is not believed. The module is a table of the test's.

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/interface/rta_ddm.h"
#include "node/interface/volume.h"
#include "node/module/module.h"

enum { DEPTH = 1024, OUT_MAX = DEPTH + 8, NOTHING = -7 };

/* ---- the module ------------------------------------------------------------------------------ */

static struct {
    int open, probe, submit; // what they say
    const char *why;
    bool ends_nowhere; // why
    struct weft_ddm_profile profile;
    const struct weft_ddm_host *host;
    char asked[64];
    struct weft_ddm_command *out[OUT_MAX];
    unsigned out_count, flushes, drains, closes, opens;
    uint64_t polled_at;
} it;

static int it_opens(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                    void **ret_device, struct weft_ddm_why *ret_why)
{
    assert_int_equal(target->size, sizeof *target);
    assert_int_equal(host->size, sizeof *host);
    snprintf(it.asked, sizeof it.asked, "%s %zu %s", target->object, target->parameter_count,
             target->parameter_count > 0 ? target->parameters[0].value : "-");
    it.opens++;
    it.host = host;
    *ret_device = &it;
    if (it.why != NULL) {
        memset(ret_why->text, 'x', sizeof ret_why->text);
        memcpy(ret_why->text, it.why, strlen(it.why) + !it.ends_nowhere);
    }
    return it.open;
}

static int it_probes(void *device, struct weft_ddm_profile *ret)
{
    assert_ptr_equal(device, &it);
    assert_int_equal(ret->size, sizeof *ret);
    assert_int_equal(ret->volume_len, 0);
    *ret = it.profile;
    return it.probe;
}

static int it_takes(void *device, struct weft_ddm_command *command)
{
    assert_ptr_equal(device, &it);
    assert_int_equal(command->size, sizeof *command);
    it.out[it.out_count] = command;
    it.out_count += it.submit == 0;
    return it.submit;
}

static void it_flushes(void *device)
{
    assert_ptr_equal(device, &it);
    it.flushes++;
}

static int its_fd(void *device)
{
    assert_ptr_equal(device, &it);
    return 17;
}

static uint64_t its_deadline(void *device)
{
    assert_ptr_equal(device, &it);
    return 4711;
}

static void it_polls(void *device, uint64_t now_ns)
{
    assert_ptr_equal(device, &it);
    it.polled_at = now_ns;
}

static void it_drains(void *device)
{
    assert_ptr_equal(device, &it);
    assert_int_equal(it.flushes, 1); // first
    it.drains++;
}

static void it_closes(void *device)
{
    assert_ptr_equal(device, &it);
    it.closes++;
}

static const char *const keys[] = {"one", "two", NULL};
static const char *const calls[] = {"pread64", NULL};

static const struct weft_ddm_driver whole = {
    .version = WEFT_DDM_VERSION,
    .size = sizeof whole,
    .name = "mine",
    .parameters = keys,
    .open = it_opens,
    .probe = it_probes,
    .submit = it_takes,
    .flush_queue = it_flushes,
    .poll_fd = its_fd,
    .next_deadline_ns = its_deadline,
    .poll = it_polls,
    .drain = it_drains,
    .close = it_closes,
    .calls = calls,
    .can_stand_by = true,
};

static const struct weft_ddm_driver least = {
    .version = WEFT_DDM_VERSION,
    .size = sizeof least,
    .name = "mine",
    .open = it_opens,
    .probe = it_probes,
    .submit = it_takes,
    .close = it_closes,
};

/* ---- the host -------------------------------------------------------------------------------- */

static struct {
    char said[64];
    int said_fd, kept;
    unsigned changes;
    const struct ddm *changed;
    struct volume_profile stood_by;
    unsigned stands;
} host;

static int host_token; // its address is the context

static instant_ns host_clock(void *ctx)
{
    assert_ptr_equal(ctx, &host_token);
    return 99;
}

static void host_say(void *ctx, const char *line)
{
    assert_ptr_equal(ctx, &host_token);
    snprintf(host.said, sizeof host.said, "%s", line);
    assert_true(host.said_fd == 0 || write(host.said_fd, line, strlen(line)) > 0);
}

static void host_keep(void *ctx, int fd)
{
    assert_ptr_equal(ctx, &host_token);
    host.kept = fd;
}

static void host_stand_by(void *ctx, const struct volume_profile *profile)
{
    assert_ptr_equal(ctx, &host_token);
    host.stood_by = *profile;
    host.stands++;
}

static void host_changed(void *ctx, const struct ddm *ddm)
{
    assert_ptr_equal(ctx, &host_token);
    host.changed = ddm;
    host.changes++;
}

static const struct ddm_driver row = {.name = "row", .calls = keys, .format = "its"};
static struct ddm_host lent;
static struct ddm *ddm;
static struct why why;

static int open_with(const struct weft_ddm_driver *driver, const char *key)
{
    const struct ddm_parameter parameters[] = {{"one", "1"}, {key, "2"}};
    const struct ddm_target target = {
        .object = "object", .parameters = parameters, .parameter_count = key != NULL ? 2 : 0};
    why = (struct why){""};
    ddm = NULL;
    return module_open(driver, &row, &target, &lent, &ddm, &why);
}

static int fresh(void **state)
{
    memset(&it, 0, sizeof it);
    memset(&host, 0, sizeof host);
    it.profile.size = sizeof it.profile;
    lent = (struct ddm_host){.ctx = &host_token,
                             .pool = &host,
                             .pool_len = 12345,
                             .keepsake = 5,
                             .clock = host_clock,
                             .say = host_say,
                             .keep = host_keep};
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void a_module_is_opened_with_what_the_uri_says_and_the_host_lends(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        fresh(NULL);
        lent.is_restart = i & 1;
        lent.read_only = i & 2;
        assert_int_equal(open_with(&whole, "two"), 0);
        assert_string_equal(it.asked, "object 2 1");
        assert_int_equal(it.host->is_restart, (i & 1) != 0);
        assert_int_equal(it.host->is_read_only, (i & 2) != 0);
        assert_int_equal(it.host->keepsake, 5);
        assert_ptr_equal(it.host->pool, &host);
        assert_int_equal(it.host->pool_len, 12345);
        assert_null(it.host->stand_by);
        assert_null(it.host->lost);
        assert_int_equal(it.host->clock_ns(it.host->ctx), 99);
        it.host->say(it.host->ctx, "a line");
        assert_string_equal(host.said, "a line");
        it.host->keep(it.host->ctx, 42);
        assert_int_equal(host.kept, 42);
        it.host->changed(it.host->ctx); // nobody wants to know
        assert_string_equal(ddm->driver->name, "row");
        assert_string_equal(ddm->driver->format, "its");
        assert_ptr_equal(ddm->driver->calls, calls);
        module_close(ddm);
        assert_int_equal(it.closes, 1);
    }
    fresh(NULL);
    lent.changed = host_changed;
    assert_int_equal(open_with(&least, NULL), 0);
    assert_string_equal(it.asked, "object 0 -");
    assert_ptr_equal(ddm->driver->calls, keys); // the row's, where it says nothing
    it.host->changed(it.host->ctx);
    assert_int_equal(host.changes, 1);
    assert_ptr_equal(host.changed, ddm);
    module_close(ddm);
}

static void keys_that_it_does_not_know_are_refused(void **state)
{
    static const struct {
        const struct weft_ddm_driver *driver;
        const char *key, *why;
    } cases[] = {
        {&whole, "two", ""},
        {&whole, "on", "the module mine has no parameter on"},
        {&whole, "three", "the module mine has no parameter three"},
        {&least, "two", "the module mine has no parameter one"},
        {&least, NULL, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        int error = open_with(cases[i].driver, cases[i].key);
        assert_int_equal(error, cases[i].why[0] != '\0' ? -EINVAL : 0);
        assert_string_equal(why.text, cases[i].why);
        assert_int_equal(it.opens, error == 0);
        if (error == 0) {
            module_close(ddm);
        }
    }
}

static void a_module_that_does_not_open_says_why(void **state)
{
    static const struct {
        int open, error;
        const char *why, *said;
    } cases[] = {
        {-EACCES, -EACCES, NULL, "mine: Permission denied"},
        {-EBUSY, -EBUSY, "in use", "mine: in use"},
        {ENOENT, -EIO, NULL, "mine: No such file or directory"}, // no error has that sign
        {1, -EIO, "so", "mine: so"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        it.open = cases[i].open;
        it.why = cases[i].why;
        assert_int_equal(open_with(&whole, NULL), cases[i].error);
        assert_string_equal(why.text, cases[i].said);
        assert_null(ddm);
        assert_int_equal(it.closes, 0);
    }
    fresh(NULL);
    it.open = -EIO;
    it.why = "without end";
    it.ends_nowhere = true;
    assert_int_equal(open_with(&whole, NULL), -EIO);
    assert_memory_equal(why.text, "mine: without endxxx", 20);
}

/* ---- standing by ----------------------------------------------------------------------------- */

static void it_stands_by_if_it_says_that_it_can(void **state)
{
    lent.stand_by = host_stand_by;
    assert_int_equal(open_with(&least, NULL), -EINVAL);
    assert_string_equal(why.text, "the module mine cannot stand by: its driver does not say so");
    assert_int_equal(it.opens, 0);
    assert_int_equal(open_with(&least, "three"), -EINVAL); // the first fault counts
    assert_non_null(strstr(why.text, "no parameter"));
    assert_int_equal(open_with(&whole, NULL), 0);
    assert_non_null(it.host->lost);
    struct weft_ddm_profile theirs = {.size = sizeof theirs, .volume_len = 1 << 20};
    it.host->stand_by(it.host->ctx, &theirs);
    assert_int_equal(host.stands, 1);
    assert_int_equal(host.stood_by.size, 1 << 20);
    assert_string_equal(host.stood_by.driver, "mine");
    module_close(ddm);
}

static void a_process_whose_device_is_lost_ends_at_once(void **state)
{
    int status, heard[2];
    char line[64] = "";
    lent.stand_by = host_stand_by;
    assert_int_equal(open_with(&whole, NULL), 0);
    assert_int_equal(pipe(heard), 0);
    pid_t child = fork();
    if (child == 0) {
        atexit(abort); // nothing else happens on the way
        host.said_fd = heard[1];
        it.host->lost(it.host->ctx, "it is another's");
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    close(heard[1]);
    assert_int_equal(read(heard[0], line, sizeof line), strlen("it is another's"));
    assert_string_equal(line, "it is another's");
    close(heard[0]);
    module_close(ddm);
}

/* ---- what a volume is ------------------------------------------------------------------------ */

static void each_ability_is_ours(void **state)
{
    static const struct {
        uint32_t theirs, ours;
    } cases[] = {
        {0, 0},
        {WEFT_DDM_CAN_WRITE, VOLUME_CAN_WRITE},
        {WEFT_DDM_CAN_FLUSH, VOLUME_CAN_FLUSH},
        {WEFT_DDM_CAN_FUA, VOLUME_CAN_FUA},
        {WEFT_DDM_CAN_TRIM, VOLUME_CAN_TRIM},
        {WEFT_DDM_CAN_WRITE_ZEROES, VOLUME_CAN_WRITE_ZEROES},
        {WEFT_DDM_CAN_ZERO_FAST, VOLUME_CAN_ZERO_FAST},
        {WEFT_DDM_CAN_EXTENTS, VOLUME_CAN_EXTENTS},
        {WEFT_DDM_IS_ROTATIONAL, VOLUME_IS_ROTATIONAL},
        {WEFT_DDM_CAN_WRITE | WEFT_DDM_CAN_TRIM, VOLUME_CAN_WRITE | VOLUME_CAN_TRIM},
        {1u << 8, 0}, // of versions to come
    };
    struct volume_profile profile;
    assert_int_equal(open_with(&least, NULL), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        it.profile.abilities = cases[i].theirs;
        assert_int_equal(module_probe(ddm, &profile), 0);
        assert_int_equal(profile.abilities, cases[i].ours);
    }
    module_close(ddm);
}

static void a_profile_is_taken_over_within_its_bounds(void **state)
{
    static const struct {
        uint32_t theirs, ours;
    } depths[] = {{1, 1}, {1023, 1023}, {1024, 1024}, {1025, 1024}, {UINT32_MAX, 1024}};
    struct volume_profile profile;
    assert_int_equal(open_with(&least, NULL), 0);
    it.profile = (struct weft_ddm_profile){.size = 1, // it is ours that counts
                                           .volume_len = 11,
                                           .block_len = 12,
                                           .alignment = 13,
                                           .preferred_len = 14,
                                           .transfer_max = 15,
                                           .range_max = 16};
    for (unsigned i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        it.profile.depth = depths[i].theirs;
        assert_int_equal(module_probe(ddm, &profile), 0);
        assert_int_equal(profile.depth, depths[i].ours);
    }
    assert_int_equal(profile.size, 11);
    assert_int_equal(profile.block_size, 12);
    assert_int_equal(profile.alignment, 13);
    assert_int_equal(profile.preferred, 14);
    assert_int_equal(profile.transfer_max, 15);
    assert_int_equal(profile.range_max, 16);
    memset(it.profile.model, 'm', sizeof it.profile.model); // none ends
    memset(it.profile.origin, 'o', sizeof it.profile.origin);
    memset(it.profile.instance, 'i', sizeof it.profile.instance);
    assert_int_equal(module_probe(ddm, &profile), 0);
    assert_int_equal(strspn(profile.model, "m"), WEFT_DDM_MODEL_MAX - 1);
    assert_int_equal(strlen(profile.model), WEFT_DDM_MODEL_MAX - 1);
    assert_int_equal(strspn(profile.instance, "i"), WEFT_DDM_INSTANCE_MAX - 1);
    assert_int_equal(strlen(profile.instance), WEFT_DDM_INSTANCE_MAX - 1);
    assert_memory_equal(profile.origin, "mine:ooo", 8);
    assert_int_equal(strlen(profile.origin), 5 + VOLUME_ORIGIN_MAX - VOLUME_DRIVER_MAX - 1);
    snprintf(it.profile.origin, sizeof it.profile.origin, "here");
    assert_int_equal(module_probe(ddm, &profile), 0);
    assert_string_equal(profile.origin, "mine:here");
    memset(&profile, 0, sizeof profile);
    it.probe = -ENODEV;
    assert_int_equal(module_probe(ddm, &profile), -ENODEV);
    assert_int_equal(profile.size, 0);
    module_close(ddm);
}

static void what_lies_beyond_the_profile_of_an_older_module_counts_as_zero(void **state)
{
    struct weft_ddm_profile theirs = {.size = offsetof(struct weft_ddm_profile, range_max),
                                      .volume_len = 7,
                                      .transfer_max = 8,
                                      .range_max = 9,
                                      .depth = 3,
                                      .origin = "x"};
    lent.stand_by = host_stand_by;
    assert_int_equal(open_with(&whole, NULL), 0);
    it.host->stand_by(it.host->ctx, &theirs);
    assert_int_equal(host.stood_by.size, 7);
    assert_int_equal(host.stood_by.transfer_max, 8);
    assert_int_equal(host.stood_by.range_max, 0);
    assert_int_equal(host.stood_by.depth, 0);
    assert_string_equal(host.stood_by.origin, "mine:");
    theirs.size = sizeof theirs + 100; // of versions to come
    it.host->stand_by(it.host->ctx, &theirs);
    assert_int_equal(host.stood_by.range_max, 9);
    assert_string_equal(host.stood_by.origin, "mine:x");
    module_close(ddm);
}

/* ---- commands -------------------------------------------------------------------------------- */

static unsigned ended;
static struct ddm_command *last;

static void on_end(void *ctx, struct ddm_command *command)
{
    ended++;
    last = command;
}

static int submit(struct ddm_command *command)
{
    ended = 0;
    command->end_count = 0;
    ddm_command_expect(command, on_end, NULL);
    return module_submit(ddm, command);
}

static void a_command_is_the_modules_until_it_ends(void **state)
{
    static const struct {
        enum node_operation operation;
        uint16_t flags;
        uint32_t theirs, their_flags;
    } cases[] = {
        {NODE_READ, 0, WEFT_DDM_READ, 0},
        {NODE_WRITE, NODE_FUA, WEFT_DDM_WRITE, WEFT_DDM_FUA},
        {NODE_FLUSH, 0, WEFT_DDM_FLUSH, 0},
        {NODE_TRIM, 0, WEFT_DDM_TRIM, 0},
        {NODE_WRITE_ZEROES, NODE_NO_HOLE, WEFT_DDM_WRITE_ZEROES, WEFT_DDM_NO_HOLE},
        {NODE_WRITE_ZEROES, NODE_FAST_ONLY, WEFT_DDM_WRITE_ZEROES, WEFT_DDM_FAST_ONLY},
        {NODE_WRITE_ZEROES, NODE_FLAG_ALL, WEFT_DDM_WRITE_ZEROES,
         WEFT_DDM_FUA | WEFT_DDM_NO_HOLE | WEFT_DDM_FAST_ONLY},
        {NODE_EXTENTS, 0, WEFT_DDM_EXTENTS, 0},
    };
    char data[64];
    assert_int_equal(open_with(&least, NULL), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ddm_command command = {.operation = cases[i].operation,
                                      .flags = cases[i].flags,
                                      .offset = 4096,
                                      .len = 8192,
                                      .data = data,
                                      .data_len = sizeof data,
                                      .submitted_at_ns = 33};
        it.out_count = 0;
        assert_int_equal(submit(&command), 0);
        struct weft_ddm_command *theirs = it.out[0];
        assert_int_equal(theirs->operation, cases[i].theirs);
        assert_int_equal(theirs->flags, cases[i].their_flags);
        assert_int_equal(theirs->offset, 4096);
        assert_int_equal(theirs->len, 8192);
        assert_ptr_equal(theirs->data, data);
        assert_int_equal(theirs->data_len, sizeof data);
        assert_int_equal(theirs->submitted_at_ns, 33);
        assert_int_equal(theirs->answer_len, 0);
        assert_int_equal(ended, 0);
        it.host->complete(it.host->ctx, theirs, 0);
        assert_int_equal(ended, 1);
        assert_ptr_equal(last, &command);
    }
    module_close(ddm);
}

static void each_error_has_its_word(void **state)
{
    static const struct {
        int error;
        enum node_completion word;
    } cases[] = {
        {0, NODE_OK},
        {-EAGAIN, NODE_RETRY},
        {-EINVAL, NODE_MALFORMED},
        {-ERANGE, NODE_RANGE},
        {-EOPNOTSUPP, NODE_UNSUPPORTED},
        {-EROFS, NODE_READ_ONLY},
        {-ENOSPC, NODE_NO_SPACE},
        {-ETIMEDOUT, NODE_TIMED_OUT},
        {-ENODEV, NODE_NO_VOLUME},
        {-EIO, NODE_MEDIA},
        {-ENOMEM, NODE_MEDIA},
        {EAGAIN, NODE_MEDIA},
    };
    assert_int_equal(open_with(&least, NULL), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ddm_command command = {.operation = NODE_READ};
        it.out_count = 0;
        assert_int_equal(submit(&command), 0);
        it.host->complete(it.host->ctx, it.out[0], cases[i].error);
        assert_int_equal(command.completion, cases[i].word);
        assert_int_equal(command.detail, (uint32_t)-cases[i].error);
    }
    module_close(ddm);
}

static void an_answer_is_no_longer_than_its_data(void **state)
{
    static const struct {
        uint32_t theirs, ours;
    } cases[] = {{0, 0}, {63, 63}, {64, 64}, {65, 0}, {UINT32_MAX, 0}};
    char data[64];
    assert_int_equal(open_with(&least, NULL), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ddm_command command = {
            .operation = NODE_EXTENTS, .data = data, .data_len = sizeof data, .answer_len = 5};
        it.out_count = 0;
        assert_int_equal(submit(&command), 0);
        it.out[0]->answer_len = cases[i].theirs;
        it.host->complete(it.host->ctx, it.out[0], 0);
        assert_int_equal(command.answer_len, cases[i].ours);
    }
    module_close(ddm);
}

static void as_many_are_out_as_there_is_room_for(void **state)
{
    struct ddm_command command = {.operation = NODE_READ};
    assert_int_equal(open_with(&least, NULL), 0);
    it.submit = -EAGAIN;
    for (unsigned i = 0; i < DEPTH + 1; i++) { // none is lost by it
        assert_int_equal(submit(&command), -EAGAIN);
    }
    it.submit = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(submit(&command), 0);
    }
    it.submit = NOTHING; // it is not asked
    assert_int_equal(submit(&command), -EAGAIN);
    it.submit = 0;
    it.host->complete(it.host->ctx, it.out[5], 0);
    assert_int_equal(submit(&command), 0);
    assert_ptr_equal(it.out[DEPTH], it.out[5]);
    assert_int_equal(submit(&command), -EAGAIN);
    module_close(ddm);
}

// Somebody else's code: what else it wrote, nobody knows.
static void a_command_that_ends_when_it_is_not_out_ends_the_process(void **state)
{
    struct ddm_command command = {.operation = NODE_READ};
    for (int refuses = 0; refuses < 2; refuses++) {
        int status;
        fresh(NULL);
        assert_int_equal(open_with(&least, NULL), 0);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            close(STDERR_FILENO);
            it.submit = refuses ? -EAGAIN : 0;
            submit(&command);
            if (!refuses) {
                it.host->complete(it.host->ctx, it.out[0], 0);
                ddm_command_expect(&command, on_end, NULL);
            }
            it.host->complete(it.host->ctx, it.out[0], 0);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
        module_close(ddm);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

static void what_a_module_has_is_called_and_what_it_has_not_is_not(void **state)
{
    assert_int_equal(open_with(&whole, NULL), 0);
    assert_int_equal(module_poll_fd(ddm), 17);
    assert_int_equal(module_next_deadline(ddm), 4711);
    module_poll(ddm, 1234);
    assert_int_equal(it.polled_at, 1234);
    module_drain(ddm);
    assert_int_equal(it.flushes, 1);
    assert_int_equal(it.drains, 1);
    module_flush_queue(ddm);
    assert_int_equal(it.flushes, 2);
    module_close(ddm);
    fresh(NULL);
    assert_int_equal(open_with(&least, NULL), 0);
    assert_int_equal(module_poll_fd(ddm), -1);
    assert_true(module_next_deadline(ddm) == INSTANT_NEVER);
    module_poll(ddm, 1234);
    module_drain(ddm);
    module_flush_queue(ddm);
    assert_int_equal(it.flushes, 0);
    module_close(ddm);
    assert_int_equal(it.closes, 1);
}

/* ---- its row --------------------------------------------------------------------------------- */

static void the_row_of_an_object_has_all_of_it(void **state)
{
    const struct ddm_driver *d = &ddm_module;
    const struct ddm_target target = {.object = "/nonexistent.so"};
    assert_int_equal(d->version, DDM_VERSION);
    assert_int_equal(d->self_size, sizeof *d);
    assert_string_equal(d->name, "module");
    assert_string_equal(d->object, "PATH");
    assert_non_null(d->summary);
    assert_non_null(d->fence);
    assert_null(d->format);
    assert_null(d->calls);
    assert_true(d->needs_process && d->can_stand_by && d->keeps_pages && d->takes_all);
    assert_false(d->is_filter || d->may_lose);
    assert_ptr_equal(d->probe, module_probe);
    assert_ptr_equal(d->submit, module_submit);
    assert_ptr_equal(d->flush_queue, module_flush_queue);
    assert_ptr_equal(d->poll_fd, module_poll_fd);
    assert_ptr_equal(d->next_deadline, module_next_deadline);
    assert_ptr_equal(d->poll, module_poll);
    assert_ptr_equal(d->drain, module_drain);
    assert_ptr_equal(d->close, module_close);
    assert_int_equal(d->open(&target, &lent, NULL, &ddm, &why), -EINVAL);
    assert_string_equal(why.text, "the module /nonexistent.so: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_module_is_opened_with_what_the_uri_says_and_the_host_lends, fresh),
        cmocka_unit_test_setup(keys_that_it_does_not_know_are_refused, fresh),
        cmocka_unit_test_setup(a_module_that_does_not_open_says_why, fresh),
        cmocka_unit_test_setup(it_stands_by_if_it_says_that_it_can, fresh),
        cmocka_unit_test_setup(a_process_whose_device_is_lost_ends_at_once, fresh),
        cmocka_unit_test_setup(each_ability_is_ours, fresh),
        cmocka_unit_test_setup(a_profile_is_taken_over_within_its_bounds, fresh),
        cmocka_unit_test_setup(what_lies_beyond_the_profile_of_an_older_module_counts_as_zero,
                               fresh),
        cmocka_unit_test_setup(a_command_is_the_modules_until_it_ends, fresh),
        cmocka_unit_test_setup(each_error_has_its_word, fresh),
        cmocka_unit_test_setup(an_answer_is_no_longer_than_its_data, fresh),
        cmocka_unit_test_setup(as_many_are_out_as_there_is_room_for, fresh),
        cmocka_unit_test_setup(a_command_that_ends_when_it_is_not_out_ends_the_process, fresh),
        cmocka_unit_test_setup(the_row_of_an_object_has_all_of_it, fresh),
        cmocka_unit_test_setup(what_a_module_has_is_called_and_what_it_has_not_is_not, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
