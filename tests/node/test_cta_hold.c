// Compares, and writes if all is as expected: what the CTA makes of reads and writes, and that
// nobody else changes the range in between.

#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

enum { BLOCK = 4096, OTHER = (1 << NODE_CONNECTION_SLOT_BITS) | 6 };

// A rig whose clients give their data when the test says so.
static struct rig *rig_slow(void)
{
    struct rig *rig = rig_ready();
    struct client_route route = rig_route(rig, OTHER);
    cta_for_uma.route_add(rig->cta, &route);
    rig_tell(rig, (struct unit_message){
                      .kind = UNIT_CONNECTION_ADD, .volume = RIG_VOLUME, .connection = OTHER});
    rig->is_slow = true;
    return rig;
}

static struct service_request compare(uint64_t offset)
{
    struct service_request request = rig_request(NODE_COMPARE, offset, BLOCK);
    request.data_len = BLOCK;
    return request;
}

static struct service_request swap(uint64_t offset)
{
    struct service_request request = rig_request(NODE_COMPARE_AND_WRITE, offset, BLOCK);
    request.data_len = 2 * BLOCK;
    return request;
}

static struct service_request or_write(uint64_t offset)
{
    struct service_request request = rig_request(NODE_OR_WRITE, offset, BLOCK);
    request.data_len = BLOCK;
    return request;
}

// The client's data: what it expects, or writes; then what it writes if that is so.
static void give(struct rig *rig, struct service_request *request, uint8_t first, uint8_t second)
{
    memset(request->data, first, request->len);
    if (request->operation == NODE_COMPARE_AND_WRITE) {
        memset((uint8_t *)request->data + request->len, second, request->len);
    }
    cta_for_tts.transferred(rig->cta, request, NODE_OK, rig->now);
}

static void begin(struct rig *rig, struct service_request *request, uint8_t first, uint8_t second)
{
    rig_submit_request(rig, request);
    give(rig, request, first, second);
    rig_run(rig);
}

static void device_goes_on(struct rig *rig)
{
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
}

static enum node_completion outcome(struct rig *rig, struct service_request *request, uint8_t first,
                                    uint8_t second)
{
    unsigned done = rig->completed;
    begin(rig, request, first, second);
    assert_int_equal(rig->completed, done + 1);
    return rig->last_completion;
}

static void a_compare_says_whether_the_range_has_it(void **state)
{
    struct rig *rig = rig_slow();
    memset(rig->volume + BLOCK, 7, BLOCK);
    struct service_request same = compare(BLOCK), other = compare(BLOCK), last = compare(BLOCK);
    assert_int_equal(outcome(rig, &same, 7, 0), NODE_OK);
    assert_int_equal(outcome(rig, &other, 8, 0), NODE_MISCOMPARE);
    assert_int_equal(other.miscompare_at, 0);
    rig->volume[2 * BLOCK - 1] = 8;
    assert_int_equal(outcome(rig, &last, 7, 0), NODE_MISCOMPARE);
    assert_int_equal(last.miscompare_at, BLOCK - 1);
    assert_int_equal(rig->volume[BLOCK], 7);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void what_is_as_expected_is_written(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request first = swap(0), second = swap(0);
    assert_int_equal(outcome(rig, &first, 0, 1), NODE_OK);
    assert_int_equal(rig->volume[0], 1);
    assert_int_equal(rig->volume[BLOCK - 1], 1);
    assert_int_equal(rig->volume[BLOCK], 0);
    assert_int_equal(outcome(rig, &second, 0, 2), NODE_MISCOMPARE);
    assert_int_equal(rig->volume[0], 1);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void bits_are_added_to_those_of_the_range(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request first = or_write(BLOCK), second = or_write(BLOCK);
    memset(rig->volume + BLOCK, 0x81, BLOCK);
    assert_int_equal(outcome(rig, &first, 0x18, 0), NODE_OK);
    assert_int_equal(rig->volume[BLOCK], 0x99);
    assert_int_equal(rig->volume[2 * BLOCK - 1], 0x99);
    assert_int_equal(rig->volume[BLOCK - 1] | rig->volume[2 * BLOCK], 0);
    assert_int_equal(outcome(rig, &second, 0x40, 0), NODE_OK);
    assert_int_equal(rig->volume[BLOCK], 0xd9);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

// Each adds a bit of its own to what the one before has left.
static void of_many_who_add_bits_none_is_lost(void **state)
{
    enum { COUNT = 8 };
    struct rig *rig = rig_slow();
    struct service_request requests[COUNT];
    rig->holds = true;
    for (unsigned i = 0; i < COUNT; i++) {
        requests[i] = or_write(0);
        requests[i].connection = i % 2 == 0 ? RIG_CONNECTION : OTHER;
        begin(rig, &requests[i], (uint8_t)(1 << i), 0);
    }
    while (rig->held_count > 0) {
        assert_int_equal(rig->held_count, 1);
        device_goes_on(rig);
    }
    assert_int_equal(rig->completed, COUNT);
    assert_int_equal(rig->volume[0] & rig->volume[BLOCK - 1], 0xff);
    rig_destroy(rig);
}

static void a_failed_half_is_the_end(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request request = swap(0);
    rig->device_says = NODE_MEDIA;
    rig->device_says_count = 1;
    assert_int_equal(outcome(rig, &request, 0, 1), NODE_MEDIA);
    assert_int_equal(rig->volume[0], 0);
    rig_destroy(rig);
}

static void changes_wait_while_the_range_is_held(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request held = swap(0), over = rig_request(NODE_WRITE, BLOCK - 512, BLOCK);
    struct service_request beside = rig_request(NODE_WRITE, BLOCK, BLOCK);
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    over.connection = OTHER;
    rig->holds = true;
    begin(rig, &held, 0, 1);
    begin(rig, &over, 2, 0);
    begin(rig, &beside, 3, 0);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->held_count, 3); // all but the one over it
    assert_int_equal(rig->held[1]->offset, BLOCK);
    assert_int_equal(rig->held[2]->operation, NODE_READ);
    device_goes_on(rig); // the first half: now it is written
    assert_int_equal(rig->held_count, 3);
    while (rig->held_count > 0) {
        device_goes_on(rig);
    }
    assert_int_equal(rig->volume[0], 1);
    assert_int_equal(rig->volume[BLOCK - 1], 2);
    rig_destroy(rig);
}

static void a_hold_waits_for_changes_under_way(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK), swapped = swap(0);
    rig->holds = true;
    begin(rig, &write, 5, 0);
    begin(rig, &swapped, 5, 6);
    assert_int_equal(rig->held_count, 1);
    device_goes_on(rig);
    rig->holds = false;
    device_goes_on(rig);
    assert_int_equal(rig->last_completion, NODE_OK);
    assert_int_equal(rig->volume[0], 6);
    rig_destroy(rig);
}

static void who_waits_for_a_hold_is_not_passed(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK), swapped = swap(0);
    struct service_request later = rig_request(NODE_TRIM, 0, BLOCK);
    rig->holds = true;
    begin(rig, &write, 5, 0);
    begin(rig, &swapped, 5, 6);
    rig_submit_request(rig, &later);
    rig_run(rig);
    assert_int_equal(rig->held_count, 1);
    device_goes_on(rig);
    assert_int_equal(rig->held_count, 1);
    assert_int_equal(rig->held[0]->operation, NODE_READ);
    device_goes_on(rig);
    assert_int_equal(rig->held[0]->operation, NODE_WRITE);
    device_goes_on(rig);
    assert_int_equal(rig->held[0]->operation, NODE_TRIM);
    device_goes_on(rig);
    rig_destroy(rig);
}

// A client whose data do not come holds nothing.
static void a_slow_client_keeps_nobody(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request slow = swap(0), quick = rig_request(NODE_WRITE, 0, BLOCK);
    rig_submit_request(rig, &slow);
    quick.connection = OTHER;
    assert_int_equal(outcome(rig, &quick, 4, 0), NODE_OK);
    give(rig, &slow, 4, 5);
    rig_run(rig);
    assert_int_equal(rig->last_completion, NODE_OK);
    assert_int_equal(rig->volume[0], 5);
    rig_destroy(rig);
}

static void of_many_who_count_none_is_lost(void **state)
{
    enum { COUNT = 16 };
    struct rig *rig = rig_slow();
    struct service_request requests[COUNT];
    unsigned done = 0;
    rig->holds = true;
    for (unsigned i = 0; i < COUNT; i++) { // all expect what only one of them will find
        requests[i] = swap(0);
        requests[i].connection = i % 2 == 0 ? RIG_CONNECTION : OTHER;
        begin(rig, &requests[i], 0, (uint8_t)(i + 1));
    }
    while (rig->held_count > 0) {
        assert_int_equal(rig->held_count, 1);
        device_goes_on(rig);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        done += requests[i].completion == NODE_OK;
    }
    assert_int_equal(rig->completed, COUNT);
    assert_int_equal(done, 1);
    assert_int_equal(rig->volume[0], 1);
    rig_destroy(rig);
}

static void dies_in(struct service_request held, bool second_half)
{
    struct rig *rig = rig_slow();
    struct service_request over = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    begin(rig, &held, 0, 1);
    begin(rig, &over, 2, 0);
    if (second_half) {
        device_goes_on(rig);
        memset(rig->volume, 1, BLOCK); // it was written; that is not known
    }
    assert_int_equal(rig->held[0]->operation, second_half ? NODE_WRITE : NODE_READ);
    rig_rta_kill(rig);
    rig_rta_start(rig);
    rig_tell(rig, (struct unit_message){
                      .kind = UNIT_CONNECTION_ADD, .volume = RIG_VOLUME, .connection = OTHER});
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->held_count, 1);
    assert_int_equal(rig->held[0]->operation, second_half ? NODE_WRITE : NODE_READ);
    while (rig->held_count > 0) {
        device_goes_on(rig);
    }
    assert_int_equal(held.completion, NODE_OK);
    assert_int_equal(rig->completed, 2);
    assert_int_equal(rig->volume[0], 2);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void a_unit_may_die_while_it_compares(void **state)
{
    dies_in(swap(0), false);
    dies_in(or_write(0), false);
}

static void a_unit_may_die_while_it_writes(void **state)
{
    dies_in(swap(0), true);
    dies_in(or_write(0), true);
}

static void what_is_reserved_between_the_halves_is_not_written(void **state)
{
    struct rig *rig = rig_create();
    struct reservation reservation = {0};
    rig_rta_start(rig);
    struct client_route route = rig_route(rig, RIG_CONNECTION);
    route.reservation = &reservation;
    cta_for_uma.route_add(rig->cta, &route);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig->is_slow = rig->holds = true;
    struct service_request request = swap(0);
    begin(rig, &request, 0, 1);
    reservation.claimed_by = OTHER;
    device_goes_on(rig);
    assert_int_equal(rig->last_completion, NODE_RESERVED);
    assert_int_equal(rig->held_count, 0);
    reservation.claimed_by = 0;
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = false;
    assert_int_equal(outcome(rig, &write, 9, 0), NODE_OK); // nothing is held any more
    rig_destroy(rig);
}

static void lengths_must_fit(void **state)
{
    struct rig *rig = rig_slow();
    struct service_request requests[] = {compare(0), compare(0),  swap(0),    swap(0),
                                         swap(0),    or_write(0), or_write(0)};
    requests[0].data_len = 2 * BLOCK;
    requests[1].len = requests[1].data_len = NODE_TRANSFER_MAX / 2 + BLOCK;
    requests[2].data_len = BLOCK;
    requests[3].len = NODE_SWAP_MAX + BLOCK;
    requests[3].data_len = 2 * (NODE_SWAP_MAX + BLOCK);
    requests[4].flags = NODE_NO_HOLE;
    requests[5].data_len = 2 * BLOCK;
    requests[6].len = requests[6].data_len = NODE_TRANSFER_MAX / 2 + BLOCK;
    for (unsigned i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        rig_submit_request(rig, &requests[i]);
        assert_int_equal(rig->completed, i + 1);
        assert_int_equal(rig->last_completion, NODE_MALFORMED);
    }
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compare_says_whether_the_range_has_it),
        cmocka_unit_test(what_is_as_expected_is_written),
        cmocka_unit_test(bits_are_added_to_those_of_the_range),
        cmocka_unit_test(of_many_who_add_bits_none_is_lost),
        cmocka_unit_test(a_failed_half_is_the_end),
        cmocka_unit_test(changes_wait_while_the_range_is_held),
        cmocka_unit_test(a_hold_waits_for_changes_under_way),
        cmocka_unit_test(who_waits_for_a_hold_is_not_passed),
        cmocka_unit_test(a_slow_client_keeps_nobody),
        cmocka_unit_test(of_many_who_count_none_is_lost),
        cmocka_unit_test(a_unit_may_die_while_it_compares),
        cmocka_unit_test(a_unit_may_die_while_it_writes),
        cmocka_unit_test(what_is_reserved_between_the_halves_is_not_written),
        cmocka_unit_test(lengths_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
