// Commands at a Ceph image, before a librbd that is a few variables: what of its answers a client
// is told.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/rbd/commands.h"

enum { DATA_LEN = 4096, NOTHING_SAID = 1 };

/* ---- librbd ---------------------------------------------------------------------------------- */

// Of the one command that is under way.
static void *under_way;
static ssize_t answer;
static unsigned completion_count;
static uint64_t image_len;
static int size_error;

int rbd_set_image_notification(rbd_image_t image, int fd, int type)
{
    return 0;
}

int rbd_aio_create_completion(void *arg, rbd_callback_t callback, rbd_completion_t *ret)
{
    *ret = under_way = arg;
    completion_count++;
    return 0;
}

int rbd_poll_io_events(rbd_image_t image, rbd_completion_t *completions, int max_count)
{
    if (under_way == NULL) {
        return 0;
    }
    completions[0] = under_way;
    under_way = NULL;
    return 1;
}

void *rbd_aio_get_arg(rbd_completion_t completion)
{
    return completion;
}

ssize_t rbd_aio_get_return_value(rbd_completion_t completion)
{
    return answer;
}

void rbd_aio_release(rbd_completion_t completion)
{
    completion_count--;
}

int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t len, char *buf, rbd_completion_t c)
{
    return 0;
}

int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t len, const char *buf,
                  rbd_completion_t c)
{
    return 0;
}

int rbd_get_size(rbd_image_t image, uint64_t *ret)
{
    *ret = image_len;
    return size_error;
}

int rbd_aio_flush(rbd_image_t image, rbd_completion_t c)
{
    return 0;
}

int rbd_aio_discard(rbd_image_t image, uint64_t offset, uint64_t len, rbd_completion_t c)
{
    return 0;
}

int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t len, rbd_completion_t c,
                         int zero_flags, int op_flags)
{
    return 0;
}

/* ---- the host -------------------------------------------------------------------------------- */

static int told;

static void complete(void *ctx, struct weft_ddm_command *command, int error)
{
    told = error;
}

static const struct weft_ddm_host host = {.size = sizeof host, .complete = complete};

// What is told of a command at this offset that librbd answers so.
static int told_at(enum weft_ddm_operation operation, uint64_t offset, ssize_t result)
{
    static uint8_t data[DATA_LEN];
    struct commands commands;
    struct weft_ddm_command command = {
        .size = sizeof command, .operation = operation, .offset = offset, .len = DATA_LEN};
    if (operation == WEFT_DDM_READ || operation == WEFT_DDM_WRITE) {
        command.data = data;
        command.data_len = DATA_LEN;
    }
    told = NOTHING_SAID;
    answer = result;
    assert_int_equal(commands_init(&commands, &host, false), 0);
    commands_submit(&commands, NULL, &command);
    assert_int_equal(told, NOTHING_SAID);
    commands_reap(&commands, NULL);
    assert_int_equal(completion_count, 0);
    commands_fini(&commands);
    return told;
}

static int told_of(enum weft_ddm_operation operation, ssize_t result)
{
    image_len = DATA_LEN;
    size_error = 0;
    return told_at(operation, 0, result);
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void a_whole_read_is_told_as_done(void **state)
{
    assert_int_equal(told_of(WEFT_DDM_READ, DATA_LEN), 0);
}

// librbd cuts a read at the end of an image that has become smaller, and says how far it came.
static void a_read_that_was_cut_at_the_end_is_out_of_range(void **state)
{
    assert_int_equal(told_of(WEFT_DDM_READ, DATA_LEN - 1), -ERANGE);
    assert_int_equal(told_of(WEFT_DDM_READ, 0), -ERANGE);
}

static void a_read_behind_the_end_is_out_of_range(void **state)
{
    assert_int_equal(told_of(WEFT_DDM_READ, -EINVAL), -ERANGE);
}

// Writes and flushes say 0, however many bytes they had.
static void what_brings_no_bytes_is_done_with_0(void **state)
{
    assert_int_equal(told_of(WEFT_DDM_WRITE, 0), 0);
    assert_int_equal(told_of(WEFT_DDM_FLUSH, 0), 0);
    assert_int_equal(told_of(WEFT_DDM_TRIM, 0), 0);
}

// librbd cuts those too, and says that they are done: what was behind the end is nowhere.
static void a_write_over_the_end_of_an_image_that_has_shrunk_is_out_of_range(void **state)
{
    const enum weft_ddm_operation writing[] = {WEFT_DDM_WRITE, WEFT_DDM_WRITE_ZEROES};
    size_error = 0;
    for (unsigned i = 0; i < 2; i++) {
        image_len = 2 * DATA_LEN;
        assert_int_equal(told_at(writing[i], DATA_LEN, 0), 0);
        image_len = 2 * DATA_LEN - 1;
        assert_int_equal(told_at(writing[i], DATA_LEN, 0), -ERANGE);
        image_len = DATA_LEN - 1;
        assert_int_equal(told_at(writing[i], DATA_LEN, 0), -ERANGE);
    }
    assert_int_equal(told_at(WEFT_DDM_TRIM, DATA_LEN, 0), 0); // nothing is there: as was wished
}

static void a_write_to_an_image_of_unknown_size_is_not_done(void **state)
{
    size_error = -ESHUTDOWN;
    assert_int_equal(told_at(WEFT_DDM_WRITE, 0, 0), -ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_read_is_told_as_done),
        cmocka_unit_test(a_read_that_was_cut_at_the_end_is_out_of_range),
        cmocka_unit_test(a_read_behind_the_end_is_out_of_range),
        cmocka_unit_test(what_brings_no_bytes_is_done_with_0),
        cmocka_unit_test(a_write_over_the_end_of_an_image_that_has_shrunk_is_out_of_range),
        cmocka_unit_test(a_write_to_an_image_of_unknown_size_is_not_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
