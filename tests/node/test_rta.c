// A remote transport agent alone: what it refuses, how it divides, retries and gives again.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "node/rta/agent.h"
#include "tests/node/rig.h"

enum { BLOCK = 4096 };

// A rig whose CTA the test plays.
struct played {
    struct rig *rig;
    uint32_t sequence;
    uint64_t serial;
    uint32_t acked;
};

static struct played play_on(struct rig *rig)
{
    rig_rta_start(rig);
    rig->trace[0] = '\0';
    return (struct played){.rig = rig};
}

static struct frame request(struct played *p, unsigned operation, uint64_t offset, uint64_t len)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    p->serial++;
    return (struct frame){.kind = FRAME_REQUEST,
                          .operation = (uint8_t)operation,
                          .sequence = ++p->sequence,
                          .ack = p->acked,
                          .connection = RIG_CONNECTION,
                          .transaction = p->serial << NODE_TRANSACTION_SLOT_BITS | p->serial,
                          .offset = offset,
                          .len = len,
                          .buffer_len = has_data ? (uint32_t)len : 0,
                          .deadline = INSTANT_NEVER};
}

// Puts the frame on the bus and gives the answer to it; kind 0: there was none.
static struct frame answer_to(struct played *p, const struct frame *frame)
{
    struct frame answer = {0};
    fake_bus_put(&p->rig->bus, 1, frame);
    assert_true(rta_on_bus(p->rig->rta, p->rig->now));
    while (fake_bus_receive(&p->rig->bus.cta, &answer)) {
        if (answer.kind == FRAME_RESULT) {
            p->acked = answer.sequence;
            return answer;
        }
    }
    return (struct frame){0};
}

static void expect_refusal(struct rig *rig, struct played *p, struct frame frame,
                           enum node_completion completion)
{
    struct frame answer = answer_to(p, &frame);
    assert_int_equal(answer.kind, FRAME_RESULT);
    assert_int_equal(answer.transaction, frame.transaction);
    assert_int_equal(answer.completion, completion);
    assert_int_equal(rta_under_way(rig->rta), 0);
}

static void requests_are_checked_at_the_door(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_READ, 0, BLOCK);
    f.connection++;
    expect_refusal(rig, &p, f, NODE_NO_VOLUME);
    expect_refusal(rig, &p, request(&p, NODE_READ, RIG_VOLUME_LEN, BLOCK), NODE_RANGE);
    expect_refusal(rig, &p, request(&p, NODE_READ, UINT64_MAX - 1, BLOCK), NODE_RANGE);
    expect_refusal(rig, &p, request(&p, NODE_DEVICE_OPERATION_COUNT, 0, BLOCK), NODE_MALFORMED);
    expect_refusal(rig, &p, request(&p, NODE_OPERATION_COUNT, 0, 0), NODE_MALFORMED);
    expect_refusal(rig, &p, request(&p, NODE_EXTENTS, 0, BLOCK), NODE_MALFORMED);
    f = request(&p, NODE_READ, 0, BLOCK);
    f.buffer_len--;
    expect_refusal(rig, &p, f, NODE_MALFORMED);
    f = request(&p, NODE_READ, 0, BLOCK);
    f.buffer_offset = RIG_POOL_LEN - BLOCK + 1;
    expect_refusal(rig, &p, f, NODE_MALFORMED);
    f = request(&p, NODE_WRITE, 0, BLOCK);
    f.flags = NODE_FUA; // the volume has none
    expect_refusal(rig, &p, f, NODE_UNSUPPORTED);
    f = request(&p, NODE_WRITE_ZEROES, 0, BLOCK);
    f.flags = NODE_FAST_ONLY;
    expect_refusal(rig, &p, f, NODE_UNSUPPORTED);
    assert_int_equal(rig_tell(rig, (struct unit_message){.kind = UNIT_STATUS})->counters.refusals,
                     10);
    assert_string_equal(strstr(rig->trace, "DDM") == NULL ? "" : rig->trace, "");
    rig_destroy(rig);
}

static void a_request_that_comes_twice_is_carried_out_once(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    answer_to(&p, &f);
    struct frame again = f; // the same transaction under a new number
    again.sequence = ++p.sequence;
    answer_to(&p, &again);
    assert_int_equal(rig->held_count, 1);
    assert_int_equal(rig_tell(rig, (struct unit_message){.kind = UNIT_STATUS})->counters.duplicates,
                     1);
    rig->holds = false;
    rig_release(rig, 0);
    rig_destroy(rig);
}

// Four requests on the bus, of a device that takes so long for each; how often the CTA is woken.
static unsigned rings_of_a_batch(struct rig *rig, duration_ns takes)
{
    struct played p = play_on(rig);
    rig->device_takes_ns = takes;
    for (unsigned i = 0; i < 4; i++) {
        struct frame f = request(&p, NODE_WRITE, i * BLOCK, BLOCK);
        f.buffer_offset = f.offset;
        fake_bus_put(&rig->bus, 1, &f);
    }
    unsigned before = rig->bus.rta.rings;
    assert_true(rta_on_bus(rig->rta, rig->now));
    return rig->bus.rta.rings - before;
}

static void a_result_is_on_the_bus_before_the_next_request_is_begun(void **state)
{
    struct rig *rig = rig_create();
    assert_int_equal(rings_of_a_batch(rig, 0), 1);
    assert_string_equal(rig->trace, "RTA>DDM write\nRTA>CTA result\n"
                                    "RTA>DDM write\nRTA>CTA result\n"
                                    "RTA>DDM write\nRTA>CTA result\n"
                                    "RTA>DDM write\nRTA>CTA result\n");
    rig_destroy(rig);
}

static void who_awaits_a_long_batch_is_woken_meanwhile(void **state)
{
    struct rig *rig = rig_create();
    assert_int_equal(rings_of_a_batch(rig, 30 * NS_PER_US), 2);
    rig_destroy(rig);
}

static void a_frame_that_comes_twice_is_dropped(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_FLUSH, 0, 0);
    answer_to(&p, &f);
    assert_int_equal(answer_to(&p, &f).kind, 0);
    assert_int_equal(rig_tell(rig, (struct unit_message){.kind = UNIT_STATUS})->counters.duplicates,
                     1);
    rig_destroy(rig);
}

static void a_frame_that_is_none_ends_the_process(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame result = {.kind = FRAME_RESULT, .sequence = 1};
    fake_bus_put(&rig->bus, 1, &result);
    assert_false(rta_on_bus(rig->rta, rig->now));
    assert_false(rta_on_message(rig->rta, &(struct unit_message){.kind = 99}, -1, rig->now));
    (void)p;
    rig_destroy(rig);
}

static void what_is_too_long_for_the_device_is_divided(void **state)
{
    struct rig *rig = rig_create();
    rig->transfer_max = 2 * BLOCK;
    struct played p = play_on(rig);
    for (unsigned i = 0; i < 5 * BLOCK; i++) {
        rig->pool[i] = (uint8_t)(i / BLOCK + 1);
    }
    struct frame f = request(&p, NODE_WRITE, BLOCK, 5 * BLOCK);
    assert_int_equal(answer_to(&p, &f).completion, NODE_OK);
    assert_string_equal(rig->trace, "RTA>DDM write\nRTA>DDM write\nRTA>DDM write\n"
                                    "RTA>CTA result\n");
    assert_memory_equal(rig->volume + BLOCK, rig->pool, 5 * BLOCK);
    struct frame zeroes = request(&p, NODE_WRITE_ZEROES, 0, 1 << 18); // four times the most
    assert_int_equal(answer_to(&p, &zeroes).completion, NODE_OK);
    assert_int_equal(rig->volume[5 * BLOCK], 0);
    rig_destroy(rig);
}

static void a_division_ends_with_the_first_failure(void **state)
{
    struct rig *rig = rig_create();
    rig->transfer_max = BLOCK;
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_READ, 0, 3 * BLOCK);
    rig->device_says = NODE_MEDIA;
    rig->device_says_count = 1;
    struct frame answer = answer_to(&p, &f);
    assert_int_equal(answer.completion, NODE_MEDIA);
    assert_int_equal(answer.detail, 5);
    assert_int_equal(answer.buffer_len, 0);
    assert_string_equal(rig->trace, "RTA>DDM read\nRTA>CTA result\n");
    rig_destroy(rig);
}

static void a_full_device_makes_requests_wait_in_order(void **state)
{
    struct rig *rig = rig_create();
    rig->depth = 1;
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame f[3];
    for (unsigned i = 0; i < 3; i++) {
        f[i] = request(&p, NODE_READ, i * BLOCK, BLOCK);
        answer_to(&p, &f[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig->held_count, 1);
        assert_int_equal(rig->held[0]->offset, i * BLOCK);
        rig_release(rig, 0);
        assert_true(rta_on_bus(rig->rta, rig->now));
    }
    rig_destroy(rig);
}

static void an_answer_that_is_looked_on_for_is_passed_on_at_once(void **state)
{
    struct rig *rig = rig_create();
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame answer, f = request(&p, NODE_READ, 0, BLOCK);
    assert_int_equal(answer_to(&p, &f).kind, 0);
    assert_false(rta_look_on(rig->rta, rig->now)); // in vain
    rig->answers_looks = true;
    assert_true(rta_look_on(rig->rta, rig->now));
    assert_true(fake_bus_receive(&rig->bus.cta, &answer));
    assert_int_equal(answer.kind, FRAME_RESULT);
    assert_false(rta_look_on(rig->rta, rig->now)); // nothing is out
    rig_destroy(rig);
}

static void not_now_is_tried_again(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame answer = {0}, f = request(&p, NODE_WRITE, 0, BLOCK);
    rig->device_says = NODE_RETRY;
    rig->device_says_count = 3;
    assert_int_equal(answer_to(&p, &f).kind, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(rta_next_deadline(rig->rta) != INSTANT_NEVER);
        rig->now = rta_next_deadline(rig->rta);
        assert_true(rta_on_deadline(rig->rta, rig->now));
    }
    do {
        assert_true(fake_bus_receive(&rig->bus.cta, &answer));
    } while (answer.kind != FRAME_RESULT);
    assert_int_equal(answer.completion, NODE_OK);
    rig_destroy(rig);
}

static void each_of_many_requests_is_tried_again_in_its_turn(void **state)
{
    enum { COUNT = 20 };
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f[COUNT];
    rig->device_says = NODE_RETRY;
    rig->device_says_count = COUNT;
    for (unsigned i = 0; i < COUNT; i++) {
        rig->now += 100 * NS_PER_US;
        f[i] = request(&p, NODE_READ, i * BLOCK, BLOCK);
        assert_int_equal(answer_to(&p, &f[i]).kind, 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        struct frame answer;
        do {
            rig->now = rta_next_deadline(rig->rta); // of a try, or of a ring
            assert_true(rta_on_deadline(rig->rta, rig->now));
        } while (!fake_bus_receive(&rig->bus.cta, &answer));
        assert_int_equal(answer.kind, FRAME_RESULT);
        assert_int_equal(answer.transaction, f[i].transaction);
    }
    rig_destroy(rig);
}

static void not_now_for_too_long_is_an_answer(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame answer = {0}, f = request(&p, NODE_WRITE, 0, BLOCK);
    rig->device_says = NODE_RETRY;
    rig->device_says_count = 1000;
    answer_to(&p, &f);
    for (unsigned i = 0; i < 100 && answer.kind != FRAME_RESULT; i++) {
        rig->now = rta_next_deadline(rig->rta);
        assert_true(rta_on_deadline(rig->rta, rig->now));
        fake_bus_receive(&rig->bus.cta, &answer);
    }
    assert_int_equal(answer.completion, NODE_RETRY);
    rig_destroy(rig);
}

static void what_a_device_loses_is_given_to_it_again(void **state)
{
    struct rig *rig = rig_create();
    rig->may_lose = true;
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_READ, 0, BLOCK);
    answer_to(&p, &f);
    rig->now = rta_next_deadline(rig->rta);
    assert_true(rta_on_deadline(rig->rta, rig->now));
    assert_int_equal(rig->held_count, 2);
    assert_ptr_not_equal(rig->held[0], rig->held[1]);
    rig_release(rig, 1);
    assert_true(rta_on_bus(rig->rta, rig->now));
    rig_release(rig, 0); // the first one's answer, late
    assert_true(rta_on_bus(rig->rta, rig->now));
    const struct unit_counters *counters =
        &rig_tell(rig, (struct unit_message){.kind = UNIT_STATUS})->counters;
    assert_int_equal(counters->results, 1);
    assert_int_equal(counters->resubmissions, 1);
    assert_int_equal(counters->duplicates, 1);
    rig_destroy(rig);
}

static void a_profile_is_what_the_device_says_now_or_a_fault_of_the_medium(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_PROFILE, 0, 0);
    f.buffer_len = sizeof(struct volume_profile);
    rig->depth = 5;
    assert_int_equal(answer_to(&p, &f).completion, NODE_OK);
    assert_int_equal(((const struct volume_profile *)rig->pool)->depth, 5);
    rig->is_dumb = true;
    f = request(&p, NODE_PROFILE, 0, 0);
    f.buffer_len = sizeof(struct volume_profile);
    struct frame answer = answer_to(&p, &f);
    assert_int_equal(answer.completion, NODE_MEDIA);
    assert_int_equal(answer.buffer_len, 0);
    rig_destroy(rig);
}

static void a_read_only_volume_is_not_changed(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    rig_opening = rig;
    rig_tell(rig, (struct unit_message){.kind = UNIT_OPEN, .volume = 2, .read_only = 1});
    rig_tell(rig, (struct unit_message){
                      .kind = UNIT_CONNECTION_ADD, .volume = 2, .connection = RIG_CONNECTION + 1});
    static const unsigned changing[] = {NODE_WRITE, NODE_TRIM, NODE_WRITE_ZEROES};
    for (unsigned i = 0; i < 3; i++) {
        struct frame f = request(&p, changing[i], 0, BLOCK);
        f.connection++;
        expect_refusal(rig, &p, f, NODE_READ_ONLY);
    }
    rig_destroy(rig);
}

static void who_has_the_only_device_opens_no_other(void **state)
{
    struct rig *rig = rig_create();
    play_on(rig);
    assert_int_equal(rig->gave_up, 0);
    rig_tell(rig, (struct unit_message){.kind = UNIT_OPEN, .volume = 2, .is_only = 1});
    assert_int_equal(rig->said.error, 0);
    assert_int_equal(rig->gave_up, 1);
    rig_tell(rig, (struct unit_message){.kind = UNIT_OPEN, .volume = 3});
    assert_int_equal(rig->said.error, -EPERM);
    assert_non_null(strstr(rig->said.why, "an RTA of its own"));
    rig_destroy(rig);
}

static void the_uma_is_refused_what_makes_no_sense(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    static const struct {
        struct unit_message ask;
        int error;
    } table[] = {
        {{.kind = UNIT_OPEN, .volume = RIG_VOLUME}, -EEXIST},
        {{.kind = UNIT_OPEN, .volume = 0}, -EEXIST},
        {{.kind = UNIT_PROBE, .volume = 9}, -ENOENT},
        {{.kind = UNIT_CLOSE, .volume = 9}, -ENOENT},
        {{.kind = UNIT_CLOSE, .volume = RIG_VOLUME}, -EBUSY},
        {{.kind = UNIT_CONNECTION_ADD, .volume = 9, .connection = 77}, -ENOENT},
        {{.kind = UNIT_CONNECTION_ADD, .volume = RIG_VOLUME, .connection = RIG_CONNECTION},
         -EEXIST},
        {{.kind = UNIT_CONNECTION_REMOVE, .connection = 77}, -ENOENT},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(rig_tell(rig, table[i].ask)->error, table[i].error);
        assert_int_equal(rig->said.kind, table[i].ask.kind);
    }
    (void)p;
    rig_destroy(rig);
}

static void a_row_that_leaves_ends_its_requests_first(void **state)
{
    struct rig *rig = rig_create();
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_READ, 0, BLOCK);
    answer_to(&p, &f);
    rig_tell(rig,
             (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = RIG_CONNECTION});
    struct frame late = request(&p, NODE_FLUSH, 0, 0);
    assert_int_equal(answer_to(&p, &late).completion, NODE_NO_VOLUME);
    assert_int_equal(
        rig_tell(rig, (struct unit_message){.kind = UNIT_CLOSE, .volume = RIG_VOLUME})->error,
        -EBUSY);
    rig_release(rig, 0);
    assert_true(rta_on_bus(rig->rta, rig->now));
    struct frame completion = {.kind = FRAME_COMPLETION,
                               .sequence = ++p.sequence,
                               .ack = p.acked,
                               .transaction = f.transaction};
    answer_to(&p, &completion);
    assert_int_equal(
        rig_tell(rig, (struct unit_message){.kind = UNIT_CLOSE, .volume = RIG_VOLUME})->error, 0);
    rig_destroy(rig);
}

static void a_buffer_is_held_from_the_request_to_its_completion(void **state)
{
    struct rig *rig = rig_create();
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_READ, 0, BLOCK);
    answer_to(&p, &f);
    assert_int_equal(rig->rta->dma.held_count, 1);
    assert_int_equal(rig->rta->dma.held_len, BLOCK);
    struct frame completion = {.kind = FRAME_COMPLETION,
                               .sequence = ++p.sequence,
                               .ack = p.acked,
                               .transaction = f.transaction};
    answer_to(&p, &completion);
    assert_int_equal(rig->rta->dma.held_count, 0);
    assert_int_equal(rig->rta->dma.held_len, 0);
    rig_destroy(rig);
}

static void a_drained_rta_says_so(void **state)
{
    struct rig *rig = rig_create();
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_FLUSH, 0, 0);
    answer_to(&p, &f);
    rta_on_message(rig->rta, &(struct unit_message){.kind = UNIT_DRAIN}, -1, rig->now);
    assert_false(rta_is_drained(rig->rta));
    rig_release(rig, 0);
    assert_true(rta_on_bus(rig->rta, rig->now));
    struct frame completion = {.kind = FRAME_COMPLETION,
                               .sequence = ++p.sequence,
                               .ack = p.acked,
                               .transaction = f.transaction};
    answer_to(&p, &completion);
    assert_true(rta_is_drained(rig->rta));
    rig_destroy(rig);
}

static void a_buffer_that_was_never_released_is_told_of(void **state)
{
    struct rig *rig = rig_create();
    const struct frame f = {.buffer_offset = BLOCK, .buffer_len = BLOCK};
    void *data;
    play_on(rig);
    assert_true(dma_obtain(&rig->rta->dma, &f, &data));
    const struct unit_message *said = rig_tell(rig, (struct unit_message){.kind = UNIT_STATUS});
    assert_int_equal(said->counters.buffers_held, 1);
    assert_int_equal(said->counters.octets_held, BLOCK);
    rta_on_message(rig->rta, &(struct unit_message){.kind = UNIT_DRAIN}, -1, rig->now);
    assert_true(rta_is_drained(rig->rta));
    rig_destroy(rig);
    assert_non_null(strstr(rig_last_line, "holds 1 buffers of the pool all the same (4096"));
}

static void an_rta_that_yields_ends_with_what_is_under_way(void **state)
{
    struct rig *rig = rig_create();
    rig->holds = true;
    struct played p = play_on(rig);
    struct frame f = request(&p, NODE_FLUSH, 0, 0);
    answer_to(&p, &f);
    assert_false(
        rta_on_message(rig->rta, &(struct unit_message){.kind = UNIT_YIELD}, -1, rig->now));
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_checked_at_the_door),
        cmocka_unit_test(a_request_that_comes_twice_is_carried_out_once),
        cmocka_unit_test(a_result_is_on_the_bus_before_the_next_request_is_begun),
        cmocka_unit_test(who_awaits_a_long_batch_is_woken_meanwhile),
        cmocka_unit_test(a_frame_that_comes_twice_is_dropped),
        cmocka_unit_test(a_frame_that_is_none_ends_the_process),
        cmocka_unit_test(what_is_too_long_for_the_device_is_divided),
        cmocka_unit_test(a_division_ends_with_the_first_failure),
        cmocka_unit_test(a_full_device_makes_requests_wait_in_order),
        cmocka_unit_test(an_answer_that_is_looked_on_for_is_passed_on_at_once),
        cmocka_unit_test(not_now_is_tried_again),
        cmocka_unit_test(each_of_many_requests_is_tried_again_in_its_turn),
        cmocka_unit_test(not_now_for_too_long_is_an_answer),
        cmocka_unit_test(what_a_device_loses_is_given_to_it_again),
        cmocka_unit_test(a_profile_is_what_the_device_says_now_or_a_fault_of_the_medium),
        cmocka_unit_test(a_read_only_volume_is_not_changed),
        cmocka_unit_test(who_has_the_only_device_opens_no_other),
        cmocka_unit_test(the_uma_is_refused_what_makes_no_sense),
        cmocka_unit_test(a_row_that_leaves_ends_its_requests_first),
        cmocka_unit_test(a_buffer_is_held_from_the_request_to_its_completion),
        cmocka_unit_test(a_drained_rta_says_so),
        cmocka_unit_test(a_buffer_that_was_never_released_is_told_of),
        cmocka_unit_test(an_rta_that_yields_ends_with_what_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
