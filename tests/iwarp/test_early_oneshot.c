// One-shot RDMA beyond holes: a Send that closes acts at delivery, whatever of it came first.
#include "tests/iwarp/hole.h"

enum { BODY_LEN = 350, REFERENCE_AT = 99 }; // in the first and the second of four segments
static const uint64_t reference = 0x1122334455667788;

static const struct oneshot_config config = {
    .command_max = 2,
    .element_max = 1,
    .request = {.offset = REFERENCE_AT, .len = 8},
    .answer = {.offset = REFERENCE_AT, .len = 8},
};

static struct hole *open_as(const struct hole_options *options, uint32_t *ret_stag)
{
    struct hole *h = hole_open(options);
    hole_make_commands(h, &config);
    hole_post_receives(h, 3, 400);
    *ret_stag = hole_post_command(h, reference);
    return h;
}

static struct hole *open_with_command(bool is_marked, uint32_t *ret_stag)
{
    struct hole_options options = {
        .oneshot = is_marked ? EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS : 0};
    return open_as(&options, ret_stag);
}

// With the mark, or as RFC 5040 says it.
static unsigned close_region(struct hole *h, bool is_marked, uint32_t stag, uint64_t number)
{
    uint8_t body[BODY_LEN] = {0};
    oneshot_field_write(&config.answer, body, number);
    struct hole_send send = {
        .len = BODY_LEN,
        .stag = stag,
        .mark = is_marked ? ONESHOT_CLOSE : ONESHOT_NONE,
        .invalidates = !is_marked,
        .body = body,
    };
    return hole_send(h, &send);
}

static void a_close_is_known_by_its_reference_in_any_order(void **state)
{
    for (unsigned way = 0; way < 8; way++) {
        uint32_t stag;
        bool is_marked = way & 1;
        struct hole *h = open_with_command(is_marked, &stag);
        unsigned first = hole_write(h, stag, 0, 60);
        unsigned second = close_region(h, is_marked, stag, reference);
        hole_send(h, &(struct hole_send){.len = 5});
        assert_int_equal(h->count - first, 6);
        hole_begin(h);
        unsigned missing = second + way / 2; // it comes last but for the Write
        for (unsigned i = h->count; i-- > second;) {
            if (i != missing) {
                hole_arrive(h, i, i + 1);
            }
        }
        hole_arrive(h, missing, missing + 1);
        assert_int_equal(hole_counters(h)->wq.oneshot_closed, 0);
        hole_arrive(h, first, second);
        assert_int_equal(hole_counters(h)->wq.oneshot_closed, 1);
        assert_true(hole_received(h, 0).reference == reference);
        assert_int_equal(hole_received(h, 0).wc_flags, WC_WITH_INV | WC_CLOSED | WC_REFERENCE);
        hole_close(h);
    }
}

// Part of it in order, part of it beyond a hole: the reference is put together from both.
static void a_close_may_come_half_in_order(void **state)
{
    for (unsigned way = 0; way < 2; way++) {
        uint32_t stag;
        struct hole *h = open_with_command(true, &stag);
        unsigned first = close_region(h, true, stag, reference);
        hole_begin(h);
        hole_arrive(h, first, first + 1);
        hole_arrive(h, first + 2 + way, first + 3 + way);
        hole_arrive(h, first + 1, first + 2);
        hole_arrive(h, first + 3 - way, first + 4 - way);
        assert_true(hole_received(h, 0).reference == reference);
        hole_close(h);
    }
}

// The part in order waits for a receive of the SRQ meanwhile, behind a Send that has none.
static void a_close_may_come_half_to_the_store(void **state)
{
    uint32_t stag;
    struct recv_wqe *wqe;
    struct hole_options options = {.srq_wr = 8,
                                   .oneshot = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS};
    struct hole *h = open_as(&options, &stag);
    h->is_twin_free = true;
    unsigned first = hole_send(h, &(struct hole_send){.len = 5});
    unsigned second = close_region(h, true, stag, reference);
    hole_begin(h);
    hole_arrive(h, second + 1, h->count);
    while ((wqe = srq_claim(h->early.srq)) != NULL) { // others take what is left
        srq_free(h->early.srq, wqe);
    }
    hole_arrive(h, first, second + 1);
    assert_int_equal(hole_received_count(h), 0);
    hole_post_receives(h, 1, 400);
    hole_resume(h);
    assert_int_equal(hole_counters(h)->wq.oneshot_closed, 1);
    assert_true(hole_received(h, 1).reference == reference);
    hole_drop(h);
}

static void a_close_with_another_reference_is_refused_as_in_order(void **state)
{
    uint32_t stag;
    struct hole *h = open_with_command(true, &stag);
    unsigned first = hole_send(h, &(struct hole_send){.len = 5});
    unsigned second = close_region(h, true, stag, reference + 1);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_false(hole_is_over(h));
    h->is_twin_free = true; // the same Terminate, but for the header that it names
    hole_arrive(h, first, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_CLOSE_REFERENCE], 1);
    hole_drop(h);
}

static void a_write_behind_the_close_of_its_region_ends_the_stream(void **state)
{
    uint32_t stag;
    struct hole *h = open_with_command(true, &stag);
    h->is_twin_free = true;
    unsigned first = close_region(h, true, stag, reference);
    unsigned second = hole_write(h, stag, 0, 60);
    hole_begin(h);
    hole_arrive(h, second, h->count);
    assert_int_equal(hole_counters(h)->early_writes, 1);
    hole_arrive(h, first, second);
    assert_true(hole_is_over(h));
    assert_int_equal(hole_counters(h)->refusals[RDMAP_REFUSED_WRITTEN_BEHIND], 1);
    assert_int_equal(hole_counters(h)->wq.oneshot_closed, 0);
    hole_drop(h);
}

static void an_advertisement_beyond_a_hole_tells_its_reference(void **state)
{
    uint32_t stag;
    struct hole *h = open_with_command(true, &stag);
    uint8_t body[BODY_LEN] = {0};
    oneshot_field_write(&config.request, body, 77);
    struct hole_send send = {
        .len = BODY_LEN, .stag = 0x4242, .mark = ONESHOT_ADVERTISE, .body = body};
    unsigned first = hole_send(h, &(struct hole_send){.len = 5});
    unsigned second = hole_send(h, &send);
    hole_begin(h);
    for (unsigned i = h->count; i-- > second;) {
        hole_arrive(h, i, i + 1);
    }
    hole_arrive(h, first, second);
    assert_true(hole_received(h, 1).reference == 77);
    assert_int_equal(hole_received(h, 1).inv_rkey, 0x4242);
    hole_close(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_is_known_by_its_reference_in_any_order),
        cmocka_unit_test(a_close_may_come_half_in_order),
        cmocka_unit_test(a_close_may_come_half_to_the_store),
        cmocka_unit_test(a_close_with_another_reference_is_refused_as_in_order),
        cmocka_unit_test(a_write_behind_the_close_of_its_region_ends_the_stream),
        cmocka_unit_test(an_advertisement_beyond_a_hole_tells_its_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
