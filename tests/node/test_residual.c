// Residual message stores over a bus that loses and repeats.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "node/bus/residual.h"
#include "tests/node/fake_bus.h"

enum { WINDOW = 16 };

struct pair {
    struct fake_bus bus;
    struct residual_store *cta, *rta;
    uint64_t acked; // transactions, in order
    instant_ns now;
};

static void count_ack(void *ctx, const struct frame *frame)
{
    struct pair *p = ctx;
    p->acked++;
    assert_int_equal(frame->transaction, p->acked);
}

static void ignore_ack(void *ctx, const struct frame *frame)
{
}

static struct pair *pair_create(uint64_t seed, uint32_t lose, uint32_t repeat)
{
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    fake_bus_init(&p->bus, seed, lose, repeat);
    p->cta = residual_create(fake_bus_port(&p->bus.cta), WINDOW, count_ack, p);
    p->rta = residual_create(fake_bus_port(&p->bus.rta), WINDOW, ignore_ack, p);
    return p;
}

static void pair_destroy(struct pair *p)
{
    residual_destroy(p->cta);
    residual_destroy(p->rta);
    free(p);
}

static struct frame request(uint64_t number)
{
    return (struct frame){.kind = FRAME_REQUEST, .transaction = number};
}

static void nothing_is_lost_or_doubled(void **state)
{
    uint64_t total = getenv("WEFT_SOAK") != NULL ? 100000 : 2000;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct pair *p = pair_create(seed, 20, 20);
        uint64_t sent = 0, received = 0;
        struct frame frame;
        while (p->acked < total) {
            while (sent < total && residual_can_send(p->cta)) {
                residual_send(p->cta, request(++sent), false, p->now);
            }
            residual_flush(p->cta);
            while (residual_receive(p->rta, &frame, p->now) == RESIDUAL_FRAME) {
                assert_int_equal(frame.transaction, ++received);
            }
            residual_flush(p->rta);
            assert_int_not_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_BROKEN);
            p->now += 100 * NS_PER_MS;
            residual_on_deadline(p->cta, p->now);
        }
        assert_int_equal(received, total);
        assert_true(p->cta->counters.resent > 0);
        assert_true(p->rta->counters.duplicates > 0 && p->rta->counters.gaps > 0);
        pair_destroy(p);
    }
}

static void a_sound_bus_needs_nothing_twice(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    for (uint64_t i = 1; i <= 100; i++) {
        residual_send(p->cta, request(i), false, p->now);
        assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
        residual_flush(p->rta);
        assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_NOTHING);
    }
    assert_int_equal(p->acked, 100);
    assert_int_equal(residual_next_deadline(p->cta), INSTANT_NEVER);
    assert_int_equal(p->cta->counters.resent, 0);
    pair_destroy(p);
}

static void what_is_not_acknowledged_goes_again(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    residual_send(p->cta, request(1), false, p->now);
    residual_flush(p->cta);
    p->bus.count[1] = 0; // lost
    p->now = residual_next_deadline(p->cta);
    assert_int_not_equal(p->now, INSTANT_NEVER);
    residual_on_deadline(p->cta, p->now);
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
    assert_int_equal(frame.transaction, 1);
    assert_int_equal(p->cta->counters.resent, 1);
    pair_destroy(p);
}

static void credits_run_out_and_come_back(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    for (uint64_t i = 1; i <= WINDOW; i++) {
        assert_true(residual_can_send(p->cta));
        residual_send(p->cta, request(i), false, p->now);
    }
    assert_false(residual_can_send(p->cta));
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
    residual_flush(p->rta);
    residual_receive(p->cta, &frame, p->now);
    assert_true(residual_can_send(p->cta));
    pair_destroy(p);
}

static void what_goes_back_acknowledges(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    residual_send(p->cta, request(1), false, p->now);
    residual_receive(p->rta, &frame, p->now);
    residual_send(p->rta, (struct frame){.kind = FRAME_RESULT}, false, p->now);
    residual_flush(p->rta);
    assert_int_equal(p->bus.count[0], 1);
    assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_FRAME);
    assert_int_equal(p->acked, 1);
    pair_destroy(p);
}

static void an_acknowledgement_of_what_was_never_sent_breaks_it(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame, lie = {.kind = FRAME_ACK, .ack = 1};
    fake_bus_put(&p->bus, 0, &lie);
    assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_BROKEN);
    assert_int_equal(p->cta->counters.refusals, 1);
    pair_destroy(p);
}

static void what_is_no_frame_breaks_it(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame, noise = {.kind = FRAME_KIND_COUNT};
    fake_bus_put(&p->bus, 0, &noise);
    assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_BROKEN);
    noise.kind = 0;
    fake_bus_put(&p->bus, 0, &noise);
    assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_BROKEN);
    assert_int_equal(p->cta->counters.refusals, 2);
    pair_destroy(p);
}

static void an_old_acknowledgement_is_harmless(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame, old = {.kind = FRAME_ACK, .ack = UINT32_MAX};
    fake_bus_put(&p->bus, 0, &old);
    assert_int_equal(residual_receive(p->cta, &frame, p->now), RESIDUAL_NOTHING);
    pair_destroy(p);
}

// A ring of few places: what it refuses is sent when there is room, once each and in order.
struct narrow {
    struct fake_bus *bus;
    unsigned room;
};

static bool narrow_send(void *ctx, const struct frame *frame)
{
    struct narrow *narrow = ctx;
    if (narrow->bus->count[1] >= narrow->room) {
        return false;
    }
    fake_bus_put(narrow->bus, 1, frame);
    return true;
}

static void narrow_ring(void *ctx)
{
    fake_bus_ring(&((struct narrow *)ctx)->bus->cta);
}

static bool narrow_receive(void *ctx, struct frame *ret)
{
    return fake_bus_receive(&((struct narrow *)ctx)->bus->cta, ret);
}

static void what_a_full_ring_refuses_goes_when_there_is_room(void **state)
{
    enum { COUNT = 7 };
    struct pair *p = pair_create(1, 0, 0);
    struct narrow narrow = {.bus = &p->bus, .room = 2};
    struct frame_port port = {
        .ctx = &narrow, .send = narrow_send, .ring = narrow_ring, .receive = narrow_receive};
    struct residual_store *store = residual_create(port, WINDOW, count_ack, p);
    struct frame frame;
    for (uint64_t i = 1; i <= COUNT; i++) {
        residual_send(store, request(i), false, p->now);
    }
    assert_int_equal(p->bus.count[1], 2);
    for (uint64_t received = 0; received < COUNT;) {
        while (residual_receive(p->rta, &frame, p->now) == RESIDUAL_FRAME) {
            assert_int_equal(frame.transaction, ++received);
        }
        residual_flush(store);
        assert_int_equal(p->bus.count[1], received + 2 <= COUNT ? 2 : COUNT - received);
    }
    assert_int_equal(p->rta->counters.gaps + p->rta->counters.duplicates, 0);
    assert_int_equal(store->counters.resent, 0);
    residual_flush(p->rta);
    assert_int_equal(residual_receive(store, &frame, p->now), RESIDUAL_NOTHING);
    assert_int_equal(p->acked, COUNT);
    residual_destroy(store);
    pair_destroy(p);
}

// An acknowledgement that the ring refuses is still owed.
static void an_acknowledgement_that_a_full_ring_refuses_is_owed(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct narrow narrow = {.bus = &p->bus, .room = 0};
    struct frame_port port = {
        .ctx = &narrow, .send = narrow_send, .ring = narrow_ring, .receive = narrow_receive};
    struct residual_store *store = residual_create(port, WINDOW, ignore_ack, p);
    struct frame frame;
    residual_send(p->rta, request(1), false, p->now);
    assert_int_equal(residual_receive(store, &frame, p->now), RESIDUAL_FRAME);
    residual_flush(store);
    assert_int_equal(p->bus.count[1], 0);
    narrow.room = 1;
    residual_flush(store);
    assert_int_equal(p->bus.count[1], 1);
    residual_flush(store);
    assert_int_equal(p->bus.count[1], 1); // once is enough
    assert_int_equal(p->bus.queue[1][0].ack, 1);
    residual_destroy(store);
    pair_destroy(p);
}

static void a_lazy_frame_rings_later(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    residual_send(p->cta, request(1), true, p->now);
    residual_flush(p->cta);
    assert_int_equal(p->bus.cta.rings, 0);
    // Who sleeps meanwhile does so behind the kernel's next tick.
    assert_in_range(residual_next_deadline(p->cta) - p->now, 10 * NS_PER_MS, 100 * NS_PER_MS);
    residual_on_deadline(p->cta, residual_next_deadline(p->cta));
    assert_int_equal(p->bus.cta.rings, 1);
    pair_destroy(p);
}

static void who_waits_for_an_acknowledgement_is_rung_for_it(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    residual_send(p->cta, request(1), true, p->now);
    residual_flush(p->cta);
    residual_hurry(p->cta);
    assert_int_equal(p->bus.cta.rings, 1);
    while (residual_receive(p->rta, &frame, p->now) == RESIDUAL_FRAME) {
        assert_int_equal(frame.flags, 0);
    }
    residual_flush(p->rta);
    assert_int_equal(p->bus.rta.rings, 1);
    residual_receive(p->cta, &frame, p->now);
    assert_int_equal(p->acked, 1);
    struct frame waits = {.kind = FRAME_REQUEST, .flags = FRAME_WANTS_ACK | NODE_FUA};
    waits.sequence = 2;
    fake_bus_put(&p->bus, 1, &waits);
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
    assert_int_equal(frame.flags, NODE_FUA); // the rest is the request's
    residual_flush(p->rta);
    assert_int_equal(p->bus.rta.rings, 2);
    residual_send(p->cta, request(2), true, p->now); // whose number has come: nobody waits for it
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_NOTHING);
    assert_int_equal(p->rta->counters.duplicates, 1);
    residual_flush(p->rta);
    assert_int_equal(p->bus.rta.rings, 2);
    pair_destroy(p);
}

static void a_new_other_side_begins_at_one(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    residual_send(p->cta, request(1), false, p->now);
    residual_reset(p->cta);
    p->bus.count[1] = 0;
    assert_int_equal(residual_next_deadline(p->cta), INSTANT_NEVER);
    residual_send(p->cta, request(1), false, p->now);
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
    assert_int_equal(frame.sequence, 1);
    pair_destroy(p);
}

// 200 ms after it was sent, and then each time after twice as long, at most 5 s; from the start
// again as soon as something is acknowledged.
static void what_is_sent_again_waits_ever_longer(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame, ack = {.kind = FRAME_ACK, .ack = 1};
    duration_ns wait = 200 * NS_PER_MS;
    p->now = 7;
    residual_send(p->cta, request(1), false, p->now);
    residual_send(p->cta, request(2), false, p->now);
    residual_flush(p->cta);
    for (unsigned i = 0; i < 8; i++) {
        unsigned rings = p->bus.cta.rings;
        assert_int_equal(residual_next_deadline(p->cta), p->now + wait);
        residual_on_deadline(p->cta, p->now + wait - 1);
        assert_int_equal(p->cta->counters.resent, 2 * i);
        p->now += wait;
        residual_on_deadline(p->cta, p->now);
        assert_int_equal(p->cta->counters.resent, 2 * (i + 1));
        assert_int_equal(p->bus.count[1], 2 * (i + 2));
        assert_int_equal(p->bus.cta.rings, rings + 1);
        wait = 2 * wait < 5 * NS_PER_S ? 2 * wait : 5 * NS_PER_S;
    }
    fake_bus_put(&p->bus, 0, &ack);
    residual_receive(p->cta, &frame, p->now + 3);
    assert_int_equal(residual_next_deadline(p->cta), p->now + 3 + 200 * NS_PER_MS);
    p->now += 3 + 200 * NS_PER_MS;
    residual_on_deadline(p->cta, p->now);
    assert_int_equal(p->cta->counters.resent, 2 * 8 + 1); // the second alone
    pair_destroy(p);
}

static void the_time_of_the_first_that_is_out_counts(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    residual_send(p->cta, request(1), false, 10);
    residual_flush(p->cta);
    residual_send(p->cta, request(2), false, 20);
    residual_flush(p->cta);
    assert_int_equal(residual_next_deadline(p->cta), 10 + 200 * NS_PER_MS);
    pair_destroy(p);
}

static void who_is_rung_already_is_not_rung_for_what_was_lazy(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    residual_send(p->cta, request(1), true, p->now);
    residual_send(p->cta, request(2), false, p->now);
    residual_flush(p->cta);
    assert_int_equal(p->bus.cta.rings, 1);
    assert_int_equal(residual_next_deadline(p->cta), p->now + 200 * NS_PER_MS);
    residual_flush(p->cta);
    assert_int_equal(p->bus.cta.rings, 1);
    pair_destroy(p);
}

// What is in between is not dropped, and what is left of the ring's time stays.
static void an_acknowledgement_of_some_leaves_the_rest_to_be_rung_for(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame, ack = {.kind = FRAME_ACK, .ack = 1};
    residual_send(p->cta, request(1), true, p->now);
    residual_send(p->cta, request(2), true, p->now);
    instant_ns ring_at = residual_next_deadline(p->cta);
    fake_bus_put(&p->bus, 0, &ack);
    residual_receive(p->cta, &frame, p->now + 1);
    assert_int_equal(p->acked, 1);
    assert_int_equal(residual_next_deadline(p->cta), ring_at);
    ack.ack = 2;
    fake_bus_put(&p->bus, 0, &ack);
    residual_receive(p->cta, &frame, p->now + 2);
    assert_int_equal(p->acked, 2);
    assert_true(residual_next_deadline(p->cta) == INSTANT_NEVER);
    pair_destroy(p);
}

static void nothing_that_is_out_is_nothing_to_hurry(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    residual_hurry(p->cta);
    assert_int_equal(p->bus.count[1], 0);
    assert_int_equal(p->bus.cta.rings, 0);
    pair_destroy(p);
}

// It says so, and no more: an acknowledgement that nobody waits for rings nobody.
static void an_acknowledgement_alone_rings_only_who_waits_for_it(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    residual_send(p->cta, request(1), false, p->now);
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_FRAME);
    residual_flush(p->rta);
    assert_int_equal(p->bus.count[0], 1);
    assert_int_equal(p->bus.queue[0][0].kind, FRAME_ACK);
    assert_int_equal(p->bus.queue[0][0].sequence, 0);
    assert_int_equal(p->bus.queue[0][0].flags, 0);
    assert_int_equal(p->bus.rta.rings, 0);
    pair_destroy(p);
}

static void a_gap_is_dropped_and_counted(void **state)
{
    struct pair *p = pair_create(1, 0, 0);
    struct frame frame;
    for (uint64_t i = 1; i <= 3; i++) {
        residual_send(p->cta, request(i), false, p->now);
    }
    p->bus.queue[1][0] = p->bus.queue[1][2]; // the third comes first
    assert_int_equal(residual_receive(p->rta, &frame, p->now), RESIDUAL_NOTHING);
    assert_int_equal(p->rta->counters.gaps, 3);
    assert_int_equal(p->rta->counters.duplicates, 0);
    residual_flush(p->rta);
    assert_int_equal(p->bus.queue[0][0].ack, 0); // as far as it goes
    pair_destroy(p);
}

// A store whose other side never stops: acknowledgements, as many as are asked for.
static bool endless_receive(void *ctx, struct frame *ret)
{
    ++*(unsigned *)ctx;
    *ret = (struct frame){.kind = FRAME_ACK};
    return true;
}

static bool endless_send(void *ctx, const struct frame *frame)
{
    return true;
}

static void who_never_stops_keeps_nobody(void **state)
{
    unsigned received = 0;
    struct frame frame;
    struct residual_store *store = residual_create(
        (struct frame_port){.ctx = &received, .send = endless_send, .receive = endless_receive},
        WINDOW, ignore_ack, NULL);
    assert_int_equal(residual_receive(store, &frame, 0), RESIDUAL_NOTHING);
    assert_in_range(received, 1, 100000);
    residual_destroy(store);
    residual_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_doubled),
        cmocka_unit_test(a_sound_bus_needs_nothing_twice),
        cmocka_unit_test(what_is_not_acknowledged_goes_again),
        cmocka_unit_test(credits_run_out_and_come_back),
        cmocka_unit_test(what_goes_back_acknowledges),
        cmocka_unit_test(an_acknowledgement_of_what_was_never_sent_breaks_it),
        cmocka_unit_test(what_is_no_frame_breaks_it),
        cmocka_unit_test(an_old_acknowledgement_is_harmless),
        cmocka_unit_test(what_a_full_ring_refuses_goes_when_there_is_room),
        cmocka_unit_test(an_acknowledgement_that_a_full_ring_refuses_is_owed),
        cmocka_unit_test(a_lazy_frame_rings_later),
        cmocka_unit_test(who_waits_for_an_acknowledgement_is_rung_for_it),
        cmocka_unit_test(a_new_other_side_begins_at_one),
        cmocka_unit_test(what_is_sent_again_waits_ever_longer),
        cmocka_unit_test(the_time_of_the_first_that_is_out_counts),
        cmocka_unit_test(who_is_rung_already_is_not_rung_for_what_was_lazy),
        cmocka_unit_test(an_acknowledgement_of_some_leaves_the_rest_to_be_rung_for),
        cmocka_unit_test(nothing_that_is_out_is_nothing_to_hurry),
        cmocka_unit_test(an_acknowledgement_alone_rings_only_who_waits_for_it),
        cmocka_unit_test(a_gap_is_dropped_and_counted),
        cmocka_unit_test(who_never_stops_keeps_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
