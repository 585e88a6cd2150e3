// Reads of whole devices on virtual time: many readers on few contexts, and every event that
// changes the allotment, seen at both nodes.
#include <stdlib.h>

#include "iwarp/qp.h"
#include "tests/sim/crowd.h"

enum { ALLOTMENT = 4096 };

static struct crowd *open_crowd(unsigned count, uint32_t contexts, bool extensions)
{
    struct crowd_options o = {
        .count = count,
        .nic = {crowd_config(contexts, ALLOTMENT), crowd_config(128, ALLOTMENT)},
        .seed = 1,
    };
    o.nic[0].extensions = extensions;
    return crowd_open(&o);
}

static bool any_is_reading(const struct crowd *c)
{
    for (unsigned i = 0; i < c->count; i++) {
        if (crowd_is_reading(c, i)) {
            return true;
        }
    }
    return false;
}

// Both ways of cutting: by the requester (towards an RFC peer), by the responder.
static void a_thousand_readers_on_four_contexts_all_get_their_share(void **state)
{
    unsigned rounds = getenv("WEFT_SOAK") != NULL ? 20 : 1;
    for (unsigned form = 0; form < 2; form++) {
        struct crowd *c = open_crowd(1000, 4, form == 1);
        for (unsigned round = 0; round < rounds; round++) {
            for (unsigned i = 0; i < c->count; i++) {
                crowd_read(c, i, i % 4 == 0 ? 8 * ALLOTMENT : 1 + i);
            }
            while (any_is_reading(c)) {
                assert_true(crowd_step(c));
            }
        }
        for (unsigned i = 0; i < c->count; i++) {
            assert_int_equal(c->end[0][i].completed, rounds);
        }
        struct read_sched_counters counters = rnic_reads(c->nic[0].rnic).counters;
        assert_true(counters.preemptions > 0);
        assert_true(counters.continuations > 0);
        crowd_close(c);
    }
}

// Endless readers: whoever waits gets a context within a turn of all others.
static void endless_readers_are_served_evenly(void **state)
{
    struct crowd *c = open_crowd(64, 4, true);
    uint64_t least = UINT64_MAX, most = 0;
    for (unsigned step = 0; step < 40000; step++) {
        for (unsigned i = 0; i < c->count; i++) {
            if (!crowd_is_reading(c, i)) {
                crowd_read(c, i, i % 2 == 0 ? CROWD_PLACE_LEN : 2 * ALLOTMENT);
            }
        }
        assert_true(crowd_step(c));
    }
    for (unsigned i = 0; i < c->count; i++) {
        uint64_t octets = c->end[0][i].octets;
        least = octets < least ? octets : least;
        most = octets > most ? octets : most;
    }
    assert_true(least > CROWD_PLACE_LEN);
    assert_true(most < least + least / 4 + 2 * CROWD_PLACE_LEN);
    while (any_is_reading(c)) {
        assert_true(crowd_step(c));
    }
    crowd_close(c);
}

static void the_allotment_may_change_at_any_time(void **state)
{
    for (unsigned form = 0; form < 2; form++) {
        struct crowd *c = open_crowd(20, 4, form == 1);
        for (unsigned step = 0; step < 20000; step++) {
            for (unsigned i = 0; i < c->count; i++) {
                if (!crowd_is_reading(c, i)) {
                    crowd_read(c, i, 1 + prng_below(&c->prng, CROWD_PLACE_LEN));
                }
            }
            if (prng_below(&c->prng, 50) == 0) {
                unsigned side = prng_below(&c->prng, 2);
                bool is_undivided = prng_below(&c->prng, 8) == 0;
                uint32_t len = is_undivided ? 0 : 1U << (9 + prng_below(&c->prng, 9));
                rnic_reads_set_allotment(c->nic[side].rnic, len);
            }
            if (prng_below(&c->prng, 100) == 0) {
                rnic_reads_set_memory(c->nic[prng_below(&c->prng, 2)].rnic, RNIC_MEMORY_TOLD,
                                      step % 2 == 0);
            }
            assert_true(crowd_step(c));
        }
        while (any_is_reading(c)) {
            assert_true(crowd_step(c));
        }
        for (unsigned i = 0; i < c->count; i++) {
            assert_int_equal(c->end[0][i].failed, 0);
            assert_true(c->end[0][i].completed > 0);
        }
        crowd_close(c);
    }
}

// Memory taken away at the source between two subsidiaries: who reads from it fails, once.
static void an_invalidated_source_fails_each_read_once(void **state)
{
    for (unsigned form = 0; form < 2; form++) {
        struct crowd *c = open_crowd(10, 4, form == 1);
        for (unsigned i = 0; i < c->count; i++) {
            crowd_read(c, i, CROWD_PLACE_LEN);
        }
        while (rnic_reads(c->nic[0].rnic).counters.subsidiary_requests < 20) {
            assert_true(crowd_step(c));
        }
        struct crowd_nic *nic = &c->nic[1];
        assert_int_equal(rnic_region_deregister(nic->rnic, nic->stag), 0);
        while (any_is_reading(c)) {
            assert_true(crowd_step(c));
        }
        for (unsigned i = 0; i < c->count; i++) {
            assert_int_equal(c->end[0][i].completed + c->end[0][i].failed, 1);
        }
        assert_int_equal(rnic_reads(c->nic[0].rnic).contexts_in_use, 0);
        assert_int_equal(rnic_region_register(nic->rnic, nic->pd, nic->memory, nic->memory_len, 0,
                                              MEM_ACCESS_REMOTE_READ, &nic->stag),
                         0);
        crowd_close(c);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

// Reader 0 reads on and on until both ends of its connection use this length.
static void expect_both(struct crowd *c, uint32_t len)
{
    instant_ns patience_ns = c->now_ns + 60 * NS_PER_S;
    while (crowd_request_len(c, 0, 0) != len || crowd_request_len(c, 1, 0) != len) {
        assert_true(c->now_ns < patience_ns);
        if (!crowd_is_reading(c, 0)) {
            crowd_read(c, 0, CROWD_PLACE_LEN);
        }
        crowd_step(c);
    }
    while (any_is_reading(c)) {
        assert_true(crowd_step(c));
    }
}

static uint64_t change_count(const struct crowd *c, unsigned side, enum allotment_event event)
{
    return rnic_reads(c->nic[side].rnic).changes[event];
}

// The peer's notice is one of the events: it is what changes the value at the other node each time.
static void an_operators_command_changes_it_at_both_nodes(void **state)
{
    for (unsigned side = 0; side < 2; side++) {
        struct crowd *c = open_crowd(1, 4, true);
        expect_both(c, ALLOTMENT);
        rnic_reads_set_allotment(c->nic[side].rnic, 1000);
        expect_both(c, 1000);
        assert_int_equal(change_count(c, side, ALLOTMENT_OPERATOR), 1);
        struct qp *told = qp_of_transport(c->end[1 - side][0].qp->transport);
        assert_int_equal(qp_counters(told)->allotment_changes, 1);
        crowd_close(c);
    }
}

static void short_memory_changes_it_at_both_nodes(void **state)
{
    for (unsigned side = 0; side < 2; side++) {
        struct crowd_options o = {
            .count = 1,
            .nic = {crowd_config(4, 65536), crowd_config(4, 65536)},
            .seed = 1,
        };
        struct crowd *c = crowd_open(&o);
        rnic_reads_set_memory(c->nic[side].rnic, RNIC_MEMORY_TOLD, true);
        expect_both(c, 16384);
        rnic_reads_set_memory(c->nic[side].rnic, RNIC_MEMORY_TOLD, false);
        expect_both(c, 65536);
        assert_int_equal(change_count(c, side, ALLOTMENT_MEMORY), 2);
        crowd_close(c);
    }
}

static void waiting_readers_change_it_at_both_nodes(void **state)
{
    struct crowd_options o = {
        .count = 24,
        .nic = {crowd_config(4, 16384), crowd_config(4, 16384)},
        .delay_max_ns = 50 * NS_PER_MS,
        .seed = 1,
    };
    struct crowd *c = crowd_open(&o);
    for (unsigned i = 1; i < c->count; i++) {
        crowd_read(c, i, CROWD_PLACE_LEN);
    }
    expect_both(c, 8192);
    assert_int_equal(change_count(c, 0, ALLOTMENT_WAITING), 1);
    expect_both(c, 16384); // nobody waits any more
    crowd_close(c);
}

static void a_long_pipe_changes_it_at_both_nodes(void **state)
{
    struct crowd_options o = {
        .count = 1,
        .nic = {crowd_config(2, ALLOTMENT), crowd_config(2, ALLOTMENT)},
        .delay_max_ns = 10 * NS_PER_MS,
        .seed = 1,
    };
    struct crowd *c = crowd_open(&o);
    expect_both(c, 2 * ALLOTMENT);
    assert_true(change_count(c, 0, ALLOTMENT_PIPE) > 0);
    assert_int_equal(change_count(c, 1, ALLOTMENT_PIPE), 0); // it followed
    crowd_close(c);
}

// A Read of 64 KiB takes microseconds here, so it would have one request last as long as all of it.
static void one_that_reads_alone_changes_it_at_both_nodes_until_another_reads(void **state)
{
    struct crowd_options o = {
        .count = 2,
        .nic = {crowd_config(4, ALLOTMENT), crowd_config(4, ALLOTMENT)},
        .seed = 1,
    };
    struct crowd *c = crowd_open(&o);
    expect_both(c, CROWD_PLACE_LEN);
    assert_int_equal(change_count(c, 0, ALLOTMENT_ALONE), 1);
    assert_int_equal(change_count(c, 1, ALLOTMENT_ALONE), 0); // it followed
    instant_ns since_ns = c->now_ns;
    crowd_read(c, 0, CROWD_PLACE_LEN);
    crowd_read(c, 1, CROWD_PLACE_LEN);
    while (change_count(c, 0, ALLOTMENT_ALONE) == 1) {
        assert_true(crowd_step(c));
    }
    assert_true(c->now_ns - since_ns < NS_PER_MS); // not at the next sample
    expect_both(c, ALLOTMENT);
    crowd_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_readers_on_four_contexts_all_get_their_share),
        cmocka_unit_test(endless_readers_are_served_evenly),
        cmocka_unit_test(the_allotment_may_change_at_any_time),
        cmocka_unit_test(an_invalidated_source_fails_each_read_once),
        cmocka_unit_test(an_operators_command_changes_it_at_both_nodes),
        cmocka_unit_test(short_memory_changes_it_at_both_nodes),
        cmocka_unit_test(waiting_readers_change_it_at_both_nodes),
        cmocka_unit_test(a_long_pipe_changes_it_at_both_nodes),
        cmocka_unit_test(one_that_reads_alone_changes_it_at_both_nodes_until_another_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
