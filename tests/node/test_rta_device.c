// What the I/O interface of an RTA gives its devices, when, and what it makes of their answers.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/rta/io_interface.h"

enum { REQUEST_MAX = 1100, DEVICE_COUNT = 2, BLOCK = 4096, COMMANDS_OF_ALL = 1024 };

static const instant_ns began = 1000;

// A device that keeps what it is given, and says what the test has it say.
struct device {
    struct ddm ddm;
    struct ddm_command *given[REQUEST_MAX]; // not ended
    unsigned given_count, submits, flushes, polls, looks, closes;
    int says;      // to a submit
    unsigned room; // commands that it takes
    bool ends_at_once, ends_when_looked_at;
    instant_ns deadline;
};

static struct stage {
    struct io *io;
    struct store *store;
    struct device devices[DEVICE_COUNT];
    struct io_volume *volumes[DEVICE_COUNT];
    struct store_row *rows[DEVICE_COUNT];
    unsigned done_count;
    struct store_transaction *done[REQUEST_MAX];
    enum node_completion completion; // of the last
    uint32_t detail;
} stage;

static int device_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct device *device = (struct device *)ddm;
    device->submits++;
    if (device->says != 0 || device->given_count == device->room) {
        return device->says != 0 ? device->says : -EAGAIN;
    }
    if (device->ends_at_once) {
        ddm_command_finish(command, NODE_OK, 0);
    } else {
        device->given[device->given_count++] = command;
    }
    return 0;
}

static void device_flush(struct ddm *ddm)
{
    ((struct device *)ddm)->flushes++;
}

static instant_ns device_deadline(struct ddm *ddm)
{
    return ((struct device *)ddm)->deadline;
}

// Ends one that it has.
static void answer(struct device *device, unsigned index, enum node_completion completion,
                   uint32_t detail)
{
    struct ddm_command *command = device->given[index];
    device->given_count--;
    memmove(&device->given[index], &device->given[index + 1],
            (device->given_count - index) * sizeof(struct ddm_command *));
    ddm_command_finish(command, completion, detail);
}

static void device_poll(struct ddm *ddm, instant_ns now)
{
    ((struct device *)ddm)->polls++;
}

static bool device_look_on(struct ddm *ddm, instant_ns now)
{
    struct device *device = (struct device *)ddm;
    device->looks++;
    if (device->ends_when_looked_at) {
        answer(device, 0, NODE_OK, 0);
    }
    return device->ends_when_looked_at;
}

static void device_drain(struct ddm *ddm)
{
}

static void device_close(struct ddm *ddm)
{
    ((struct device *)ddm)->closes++;
}

static const struct ddm_driver steady = {.version = DDM_VERSION,
                                         .self_size = sizeof(struct ddm_driver),
                                         .name = "steady",
                                         .submit = device_submit,
                                         .flush_queue = device_flush,
                                         .next_deadline = device_deadline,
                                         .poll = device_poll,
                                         .look_on = device_look_on,
                                         .drain = device_drain,
                                         .close = device_close};
static const struct ddm_driver lossy = {.version = DDM_VERSION,
                                        .self_size = sizeof(struct ddm_driver),
                                        .name = "lossy",
                                        .may_lose = true,
                                        .submit = device_submit,
                                        .drain = device_drain,
                                        .close = device_close};

static void on_done(void *ctx, struct store_transaction *transaction,
                    enum node_completion completion, uint32_t detail)
{
    assert_ptr_equal(ctx, &stage);
    stage.done[stage.done_count++] = transaction;
    stage.completion = completion;
    stage.detail = detail;
}

// Two volumes, each of a device with so many credits.
static void begin(const struct ddm_driver *driver, uint32_t depth)
{
    const struct volume_profile profile = {.size = 1ULL << 40,
                                           .alignment = 1,
                                           .transfer_max = BLOCK,
                                           .range_max = BLOCK,
                                           .depth = depth};
    stage = (struct stage){.store = store_create()};
    stage.io = io_create(&(struct io_parts){.ctx = &stage, .on_done = on_done});
    assert_true(stage.io != NULL && stage.store != NULL);
    for (unsigned i = 0; i < DEVICE_COUNT; i++) {
        struct device *device = &stage.devices[i];
        *device = (struct device){
            .ddm = {.driver = driver}, .room = REQUEST_MAX, .deadline = INSTANT_NEVER};
        stage.volumes[i] = io_volume_add(stage.io, i + 1, &device->ddm, NULL, &profile, false);
        assert_non_null(stage.volumes[i]);
        stage.rows[i] = store_row_add(stage.store, i + 1, stage.volumes[i]);
    }
}

static int end(void **state)
{
    io_destroy(stage.io);
    store_destroy(stage.store);
    for (unsigned i = 0; i < DEVICE_COUNT; i++) {
        assert_int_equal(stage.devices[i].closes, 1);
    }
    return 0;
}

static struct store_transaction *submit_until(unsigned volume, uint64_t len, instant_ns now,
                                              instant_ns deadline)
{
    static uint64_t number;
    static uint8_t data[3 * BLOCK];
    number++;
    const struct frame request = {.operation = NODE_WRITE,
                                  .transaction = number,
                                  .offset = number * BLOCK,
                                  .len = len,
                                  .buffer_len = (uint32_t)len,
                                  .deadline = deadline};
    struct store_transaction *t = store_begin(stage.store, stage.rows[volume], &request);
    assert_non_null(t);
    t->data = data;
    io_submit(stage.io, t, now);
    return t;
}

static struct store_transaction *submit(unsigned volume, uint64_t len)
{
    return submit_until(volume, len, began, INSTANT_NEVER);
}

/* ---- what a device is given ------------------------------------------------------------------ */

static void a_device_has_as_many_as_it_carries(void **state)
{
    begin(&steady, 2);
    struct device *device = &stage.devices[0];
    const struct store_transaction *t[4];
    for (unsigned i = 0; i < 4; i++) {
        t[i] = submit(0, BLOCK);
    }
    io_settle(stage.io, began);
    assert_int_equal(device->submits, 2);
    assert_int_equal(io_in_flight(stage.io), 2);
    submit(1, BLOCK); // another's credits are its own
    assert_int_equal(stage.devices[1].given_count, 1);
    assert_int_equal(io_in_flight(stage.io), 3);
    answer(device, 1, NODE_OK, 0);
    assert_int_equal(stage.done_count, 0); // nothing is answered from within the device
    io_settle(stage.io, began);
    assert_int_equal(stage.done_count, 1);
    assert_ptr_equal(stage.done[0], t[1]);
    assert_int_equal(device->given_count, 2);
    assert_int_equal(device->given[1]->offset, t[2]->request.offset); // in order
    answer(device, 0, NODE_OK, 0);
    answer(device, 0, NODE_OK, 0);
    io_settle(stage.io, began);
    assert_int_equal(device->given[0]->offset, t[3]->request.offset);
    assert_int_equal(io_in_flight(stage.io), 2);
    assert_int_equal(stage.done_count, 3);
}

static void a_command_says_when_it_was_given(void **state)
{
    begin(&steady, 8);
    submit_until(0, BLOCK, 77, INSTANT_NEVER);
    assert_int_equal(stage.devices[0].given[0]->submitted_at_ns, 77);
}

static void what_comes_later_passes_nobody_who_waits(void **state)
{
    begin(&steady, 1);
    struct device *device = &stage.devices[0];
    const struct store_transaction *t[3] = {submit(0, BLOCK), submit(0, BLOCK)};
    answer(device, 0, NODE_OK, 0);
    io_settle_ended(stage.io, began); // there is a credit, and it is the second's
    t[2] = submit(0, BLOCK);
    assert_int_equal(device->given_count, 0);
    io_settle(stage.io, began);
    assert_int_equal(device->given[0]->offset, t[1]->request.offset);
    answer(device, 0, NODE_OK, 0);
    io_settle(stage.io, began);
    assert_int_equal(device->given[0]->offset, t[2]->request.offset);
}

static void a_full_device_is_asked_again_when_something_has_ended(void **state)
{
    begin(&steady, 8);
    struct device *device = &stage.devices[0];
    device->room = 1;
    const struct store_transaction *t[3] = {submit(0, BLOCK), submit(0, BLOCK), submit(0, BLOCK)};
    io_settle(stage.io, began);
    io_settle(stage.io, began);
    assert_int_equal(device->submits, 2); // it has said so, and was not asked for the third
    assert_int_equal(io_in_flight(stage.io), 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(device->given[0]->offset, t[i]->request.offset);
        answer(device, 0, NODE_OK, 0);
        io_settle(stage.io, began);
        assert_int_equal(stage.done_count, i + 1);
    }
    assert_int_equal(io_in_flight(stage.io), 0);
}

static void what_a_device_refuses_is_answered_with_its_error(void **state)
{
    begin(&steady, 8);
    stage.devices[0].says = -EIO;
    submit(0, BLOCK);
    assert_int_equal(stage.done_count, 0);
    io_settle(stage.io, began);
    assert_int_equal(stage.done_count, 1);
    assert_int_equal(stage.completion, NODE_INTERNAL);
    assert_int_equal(stage.detail, EIO);
    assert_int_equal(io_in_flight(stage.io), 0);
}

static void a_device_begins_once_for_all_that_it_was_given(void **state)
{
    begin(&steady, 8);
    submit(0, BLOCK);
    submit(0, BLOCK);
    assert_int_equal(stage.devices[0].flushes, 0);
    io_settle(stage.io, began);
    assert_int_equal(stage.devices[0].flushes, 1);
    assert_int_equal(stage.devices[1].flushes, 0);
    io_settle(stage.io, began);
    assert_int_equal(stage.devices[0].flushes, 1);
}

static void of_what_is_divided_each_piece_follows_the_one_before(void **state)
{
    begin(&steady, 1);
    struct device *device = &stage.devices[0];
    const struct store_transaction *t = submit(0, 3 * BLOCK);
    const struct store_transaction *other = submit(0, BLOCK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(device->given_count, 1);
        assert_int_equal(device->given[0]->offset, t->request.offset + i * BLOCK);
        assert_int_equal(device->given[0]->len, BLOCK);
        assert_int_equal(stage.done_count, 0);
        answer(device, 0, NODE_OK, 0);
        io_settle(stage.io, began);
    }
    assert_int_equal(stage.done_count, 1);
    assert_int_equal(device->given[0]->offset, other->request.offset);
}

static void a_device_that_answers_at_once_gets_all_pieces_in_one_turn(void **state)
{
    begin(&steady, 1);
    stage.devices[0].ends_at_once = true;
    submit(0, 3 * BLOCK);
    io_settle(stage.io, began);
    assert_int_equal(stage.done_count, 1);
    assert_int_equal(stage.devices[0].submits, 3);
}

// All devices together; each may carry more.
static void there_are_so_many_commands(void **state)
{
    begin(&steady, 2 * COMMANDS_OF_ALL);
    for (unsigned i = 0; i < COMMANDS_OF_ALL + 2; i++) {
        submit(i % 2, BLOCK);
    }
    assert_int_equal(io_in_flight(stage.io), COMMANDS_OF_ALL);
    while (io_in_flight(stage.io) > 0) {
        struct device *device = &stage.devices[stage.devices[0].given_count == 0];
        answer(device, 0, NODE_OK, 0);
        io_settle(stage.io, began);
    }
    assert_int_equal(stage.done_count, COMMANDS_OF_ALL + 2);
}

/* ---- tries again ----------------------------------------------------------------------------- */

// After 5 ms, and then each time after twice as long, for 5 s.
static void not_now_is_asked_again_ever_more_seldom(void **state)
{
    begin(&steady, 8);
    struct device *device = &stage.devices[0];
    instant_ns now = began;
    duration_ns wait = 5 * NS_PER_MS;
    unsigned tries = 0;
    submit(0, BLOCK);
    for (;; wait *= 2) {
        assert_int_equal(device->given_count, 1);
        answer(device, 0, NODE_RETRY, 6);
        io_settle(stage.io, now);
        if (stage.done_count > 0) {
            break;
        }
        tries++;
        assert_int_equal(io_counters(stage.io)->retries, tries);
        assert_int_equal(io_next_deadline(stage.io), now + wait);
        io_on_deadline(stage.io, now + wait - 1);
        assert_int_equal(device->given_count, 0);
        now += wait;
        io_on_deadline(stage.io, now);
    }
    assert_in_range(now, began + 5 * NS_PER_S, began + 10 * NS_PER_S);
    assert_int_equal(stage.completion, NODE_RETRY);
    assert_int_equal(stage.detail, 6);
    assert_true(io_next_deadline(stage.io) == INSTANT_NEVER);
}

static void beyond_its_deadline_a_request_is_not_tried_again(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        begin(&steady, 8);
        submit_until(0, BLOCK, began, began + 10);
        answer(&stage.devices[0], 0, NODE_RETRY, 0);
        io_settle(stage.io, began + 9 + i);
        assert_int_equal(stage.done_count, i);
        if (i == 0) {
            end(NULL);
        }
    }
}

static void any_other_failure_is_an_answer_at_once(void **state)
{
    begin(&steady, 8);
    submit(0, BLOCK);
    answer(&stage.devices[0], 0, NODE_MEDIA, 9);
    io_settle(stage.io, began);
    assert_int_equal(stage.done_count, 1);
    assert_int_equal(stage.completion, NODE_MEDIA);
    assert_int_equal(stage.detail, 9);
    assert_int_equal(io_counters(stage.io)->retries, 0);
}

static void what_is_asked_again_waits_behind_the_others(void **state)
{
    begin(&steady, 1);
    struct device *device = &stage.devices[0];
    const struct store_transaction *t[3] = {submit(0, BLOCK), submit(0, BLOCK), submit(0, BLOCK)};
    answer(device, 0, NODE_RETRY, 0);
    io_settle(stage.io, began);
    assert_int_equal(device->given[0]->offset, t[1]->request.offset);
    io_on_deadline(stage.io, began + 5 * NS_PER_MS);
    answer(device, 0, NODE_OK, 0);
    io_settle(stage.io, began + 5 * NS_PER_MS);
    assert_int_equal(device->given[0]->offset, t[2]->request.offset);
    answer(device, 0, NODE_OK, 0);
    io_settle(stage.io, began + 5 * NS_PER_MS);
    assert_int_equal(device->given[0]->offset, t[0]->request.offset);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

static void what_is_not_answered_in_a_second_is_given_again(void **state)
{
    begin(&lossy, 1);
    struct device *device = &stage.devices[0];
    const struct store_transaction *t = submit(0, BLOCK);
    assert_int_equal(io_next_deadline(stage.io), began + NS_PER_S);
    io_on_deadline(stage.io, began + NS_PER_S - 1);
    assert_int_equal(device->given_count, 1);
    io_on_deadline(stage.io, began + NS_PER_S);
    assert_int_equal(device->given_count, 2); // though it has a credit for one
    assert_ptr_not_equal(device->given[0], device->given[1]);
    assert_int_equal(device->given[1]->offset, t->request.offset);
    assert_int_equal(io_in_flight(stage.io), 1);
    assert_int_equal(io_counters(stage.io)->resubmissions, 1);
    // The one that nobody waits for has no deadline.
    assert_int_equal(io_next_deadline(stage.io), began + 2 * NS_PER_S);
    answer(device, 1, NODE_OK, 0);
    io_settle(stage.io, began + NS_PER_S);
    assert_int_equal(stage.done_count, 1);
    assert_true(io_next_deadline(stage.io) == INSTANT_NEVER);
    answer(device, 0, NODE_MEDIA, 0);
    io_settle(stage.io, began + NS_PER_S);
    assert_int_equal(stage.done_count, 1);
    assert_int_equal(io_counters(stage.io)->duplicates, 1);
    assert_int_equal(io_in_flight(stage.io), 0);
}

static void only_what_is_old_is_given_again(void **state)
{
    begin(&lossy, 8);
    submit_until(0, BLOCK, began, INSTANT_NEVER);
    submit_until(0, BLOCK, began + 1, INSTANT_NEVER);
    submit_until(0, BLOCK, began, INSTANT_NEVER);
    io_on_deadline(stage.io, began + NS_PER_S);
    assert_int_equal(io_counters(stage.io)->resubmissions, 1); // the oldest that is out
    assert_int_equal(io_next_deadline(stage.io), began + 1 + NS_PER_S);
    io_on_deadline(stage.io, began + 1 + NS_PER_S);
    assert_int_equal(io_counters(stage.io)->resubmissions, 3);
}

static void who_never_loses_is_waited_for(void **state)
{
    begin(&steady, 8);
    submit(0, BLOCK);
    assert_true(io_next_deadline(stage.io) == INSTANT_NEVER);
    io_on_deadline(stage.io, began + 3600 * NS_PER_S);
    assert_int_equal(stage.devices[0].submits, 1);
}

// Its answer will not come any more: its place is another's.
static void what_was_lost_for_good_goes_with_its_volume(void **state)
{
    begin(&lossy, 2 * COMMANDS_OF_ALL);
    submit(0, BLOCK);
    io_on_deadline(stage.io, began + NS_PER_S);
    answer(&stage.devices[0], 1, NODE_OK, 0);
    io_settle(stage.io, began + NS_PER_S);
    assert_int_equal(stage.done_count, 1);
    io_volume_remove(stage.io, stage.volumes[0]);
    for (unsigned i = 0; i < COMMANDS_OF_ALL; i++) {
        submit(1, BLOCK);
    }
    assert_int_equal(stage.devices[1].given_count, COMMANDS_OF_ALL);
}

/* ---- time, and looks ------------------------------------------------------------------------- */

static void the_nearest_deadline_of_all_counts(void **state)
{
    begin(&steady, 8);
    assert_true(io_next_deadline(stage.io) == INSTANT_NEVER);
    stage.devices[1].deadline = 50;
    assert_int_equal(io_next_deadline(stage.io), 50);
    stage.devices[0].deadline = 40;
    assert_int_equal(io_next_deadline(stage.io), 40);
    io_on_deadline(stage.io, 39);
    assert_int_equal(stage.devices[0].polls, 0);
    io_on_deadline(stage.io, 40);
    assert_int_equal(stage.devices[0].polls, 1);
    assert_int_equal(stage.devices[1].polls, 0);
}

static void only_who_has_a_command_is_looked_at(void **state)
{
    begin(&steady, 8);
    assert_false(io_look_on(stage.io, began));
    assert_int_equal(stage.devices[0].looks + stage.devices[1].looks, 0);
    submit(1, BLOCK);
    assert_false(io_look_on(stage.io, began));
    assert_int_equal(stage.devices[0].looks, 0);
    assert_int_equal(stage.devices[1].looks, 1);
    submit(0, BLOCK);
    stage.devices[0].ends_when_looked_at = true;
    assert_true(io_look_on(stage.io, began));
    assert_int_equal(stage.devices[1].looks, 1); // one has answers: those first
    io_settle(stage.io, began);
    assert_int_equal(stage.done_count, 1);
}

static void who_does_not_look_on_is_not_asked_to(void **state)
{
    begin(&lossy, 8);
    submit(0, BLOCK);
    assert_false(io_look_on(stage.io, began));
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void volumes_are_found_by_number_in_any_order(void **state)
{
    begin(&steady, 8);
    assert_ptr_equal(io_volume_find(stage.io, 1), stage.volumes[0]);
    assert_ptr_equal(io_volume_find(stage.io, 2), stage.volumes[1]);
    assert_null(io_volume_find(stage.io, 3));
    assert_ptr_equal(io_volume_next(stage.io, NULL), stage.volumes[0]);
    assert_ptr_equal(io_volume_next(stage.io, stage.volumes[0]), stage.volumes[1]);
    assert_null(io_volume_next(stage.io, stage.volumes[1]));
    struct volume_profile profile = stage.volumes[0]->profile;
    io_volume_remove(stage.io, stage.volumes[0]);
    assert_null(io_volume_find(stage.io, 1));
    assert_ptr_equal(io_volume_next(stage.io, NULL), stage.volumes[1]);
    assert_int_equal(stage.devices[0].closes, 1);
    stage.devices[0].closes = 0;
    profile.size = 5;
    stage.volumes[0] = io_volume_add(stage.io, 9, &stage.devices[0].ddm, NULL, &profile, true);
    assert_ptr_equal(io_volume_find(stage.io, 9), stage.volumes[0]);
    assert_ptr_equal(io_volume_find(stage.io, 2), stage.volumes[1]); // as it was
    assert_true(stage.volumes[0]->is_read_only && !stage.volumes[1]->is_read_only);
    assert_int_equal(stage.volumes[0]->profile.size, 5);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_has_as_many_as_it_carries),
        TEST(a_command_says_when_it_was_given),
        TEST(what_comes_later_passes_nobody_who_waits),
        TEST(a_full_device_is_asked_again_when_something_has_ended),
        TEST(what_a_device_refuses_is_answered_with_its_error),
        TEST(a_device_begins_once_for_all_that_it_was_given),
        TEST(of_what_is_divided_each_piece_follows_the_one_before),
        TEST(a_device_that_answers_at_once_gets_all_pieces_in_one_turn),
        TEST(there_are_so_many_commands),
        TEST(not_now_is_asked_again_ever_more_seldom),
        TEST(beyond_its_deadline_a_request_is_not_tried_again),
        TEST(any_other_failure_is_an_answer_at_once),
        TEST(what_is_asked_again_waits_behind_the_others),
        TEST(what_is_not_answered_in_a_second_is_given_again),
        TEST(only_what_is_old_is_given_again),
        TEST(who_never_loses_is_waited_for),
        TEST(what_was_lost_for_good_goes_with_its_volume),
        TEST(the_nearest_deadline_of_all_counts),
        TEST(only_who_has_a_command_is_looked_at),
        TEST(who_does_not_look_on_is_not_asked_to),
        TEST(volumes_are_found_by_number_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
