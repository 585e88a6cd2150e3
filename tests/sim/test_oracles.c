// Each oracle of the simulator can fail: one wrong thing is done behind its back, and it says
// which.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sim/sim.h"

static struct sim sim;

// A calm run with enough of everything in it.
static struct sim_params calm_on(enum sim_wire wire)
{
    struct sim_params params;
    sim_params_draw(&params, 1, wire);
    params.faults = params.mistakes = params.turmoil = params.refusals = 0;
    params.pairs = params.connections = 2;
    params.ops = 80;
    params.use_srq = false;
    params.mpa_revision = 2;
    for (unsigned i = 0; i < params.nodes; i++) {
        params.extensions[i] = true;
    }
    if (wire == SIM_WIRE_IWARP) {
        params.oneshot = RNIC_ONESHOT_FLAGS;
        params.oneshot_parts = RNIC_ONESHOT_BOTH;
    }
    return params;
}

static struct sim_params calm(void)
{
    return calm_on(SIM_WIRE_IWARP);
}

static void expect_found_on(enum sim_wire wire, enum sim_tamper_kind kind, uint64_t at,
                            const char *text)
{
    struct sim_params params = calm_on(wire);
    struct sim_tamper tamper = {.kind = kind, .at = at};
    assert_false(sim_run_params(&sim, &params, false, &tamper));
    if (strstr(sim.report, text) == NULL) {
        fail_msg("the report is: %s", sim.report);
    }
}

static void expect_found(enum sim_tamper_kind kind, uint64_t at, const char *text)
{
    expect_found_on(SIM_WIRE_IWARP, kind, at, text);
    if (kind != SIM_TAMPER_REFERENCE) { // of one-shot RDMA
        expect_found_on(SIM_WIRE_ROCE, kind, at, text);
    }
}

static void a_calm_run_fails_nowhere(void **state)
{
    struct sim_params params = calm();
    bool ok = sim_run_params(&sim, &params, false, NULL);
    if (!ok) {
        fail_msg("%s", sim.report);
    }
    assert_int_equal(sim.ended_connections, 2);
    assert_true(sim.deliveries > 20);
    assert_true(sim.commands > 0);
}

static void a_changed_octet_is_found(void **state)
{
    expect_found(SIM_TAMPER_OCTET, 20, "ought to be");
}

static void an_octet_beside_registered_memory_is_found(void **state)
{
    expect_found(SIM_TAMPER_FENCE, 20, "fence behind");
}

static void a_lost_completion_is_found(void **state)
{
    expect_found(SIM_TAMPER_LOSE, 20, "");
}

static void the_last_completion_lost_is_found(void **state)
{
    for (enum sim_wire wire = SIM_WIRE_IWARP; wire <= SIM_WIRE_ROCE; wire++) {
        struct sim_params params = calm_on(wire);
        sim_run_params(&sim, &params, false, NULL);
        expect_found_on(wire, SIM_TAMPER_LOSE, sim.completions - 1, "never completed");
    }
}

static void a_repeated_completion_is_found(void **state)
{
    expect_found(SIM_TAMPER_REPEAT, 20, "completes and is not");
}

static void a_wrong_status_is_found(void **state)
{
    expect_found(SIM_TAMPER_STATUS, 20, "nothing was done to it");
}

// The first completion of a message: sends have lengths that nobody compares.
static void a_wrong_length_is_found(void **state)
{
    for (uint64_t at = 20; at < 40; at++) {
        struct sim_params params = calm();
        struct sim_tamper tamper = {.kind = SIM_TAMPER_LENGTH, .at = at};
        if (!sim_run_params(&sim, &params, false, &tamper)) {
            assert_non_null(strstr(sim.report, "was sent with"));
            return;
        }
    }
    fail_msg("no length was compared");
}

static void a_wrong_reference_is_found(void **state)
{
    expect_found(SIM_TAMPER_REFERENCE, 20, "reference");
}

static void an_object_that_is_not_given_back_is_found(void **state)
{
    expect_found(SIM_TAMPER_LEAK, 0, "alive at the end: pds 1");
}

static void work_that_never_ends_is_found(void **state)
{
    expect_found_on(SIM_WIRE_IWARP, SIM_TAMPER_STOP, 0, "still connecting");
    expect_found_on(SIM_WIRE_ROCE, SIM_TAMPER_STOP, 0, "nothing was done to it");
}

// A device that does not check its ICRCs.
static void octets_that_change_under_way_are_found(void **state)
{
    struct sim_params params = calm_on(SIM_WIRE_ROCE);
    params.roce.corrupt = 20000;
    params.roce.is_unchecked = true;
    assert_false(sim_run_params(&sim, &params, false, NULL));
    assert_non_null(strstr(sim.report, "other octets"));
}

static void a_completion_of_a_flow_that_comes_twice_is_found(void **state)
{
    struct sim_params params = calm_on(SIM_WIRE_ROCE);
    struct sim_tamper tamper = {.kind = SIM_TAMPER_FLOW, .at = 20};
    params.roce.flows = 2;
    assert_false(sim_run_params(&sim, &params, false, &tamper));
    assert_non_null(strstr(sim.report, "is due"));
}

static void a_run_is_the_same_every_time(void **state)
{
    struct sim_params params;
    sim_params_draw(&params, 24, SIM_WIRE_IWARP);
    sim_run_params(&sim, &params, false, NULL);
    uint64_t steps = sim.step, completions = sim.completions;
    instant_ns end_ns = sim.now_ns;
    sim_run_params(&sim, &params, false, NULL);
    assert_int_equal(sim.step, steps);
    assert_int_equal(sim.completions, completions);
    assert_int_equal(sim.now_ns, end_ns);
}

/* ---- the oracle of memory by itself ---------------------------------------------------------- */

static struct sim_block block;
static struct sim_claim claim;
static uint8_t content[100];

static int setup_target(void **state)
{
    struct prng rng;
    prng_init(&rng, 1);
    memset(content, 0x11, sizeof content);
    if (!sim_block_init(&block, 1000, &rng) ||
        !sim_claim_take(&claim, &block, SIM_CLAIM_TARGET, sizeof content, 1, &rng)) {
        return -1;
    }
    memset(block.octets + claim.at, 0x22, claim.len);
    memset(block.shadow + claim.at, 0x22, claim.len);
    return 0;
}

static int teardown_target(void **state)
{
    sim_block_fini(&block);
    return 0;
}

static void a_prefix_of_what_was_sent_is_right(void **state)
{
    size_t placed;
    memcpy(block.octets + claim.at, content, 40);
    assert_true(sim_claims_placed(&claim, 1, content, sizeof content, false, &placed));
    assert_int_equal(placed, 40);
}

static void a_gap_in_what_was_placed_is_found(void **state)
{
    size_t placed;
    memcpy(block.octets + claim.at + 1, content, 40);
    assert_false(sim_claims_placed(&claim, 1, content, sizeof content, false, &placed));
}

// Where octets are placed beyond holes, but only the right ones.
static void a_gap_is_right_where_there_are_holes(void **state)
{
    size_t placed;
    memcpy(block.octets + claim.at, content, 10);
    memcpy(block.octets + claim.at + 20, content, 40);
    assert_true(sim_claims_placed(&claim, 1, content, sizeof content, true, &placed));
    assert_int_equal(placed, 10);
    assert_false(sim_claims_placed(&claim, 1, content, 50, true, &placed));
}

static void other_octets_in_a_target_are_found(void **state)
{
    size_t placed;
    block.octets[claim.at + 7] = 0x33;
    assert_false(sim_claims_placed(&claim, 1, content, sizeof content, false, &placed));
    assert_false(sim_claims_placed(&claim, 1, content, sizeof content, true, &placed));
}

static void octets_beside_a_target_are_found(void **state)
{
    char text[SIM_BLOCK_FAULT_TEXT_LEN];
    block.octets[claim.at + 7] = 0x33;
    assert_true(sim_block_check(&block, text)); // inside: not this check's business
    block.octets[(claim.at + claim.len) % block.len] ^= 1;
    assert_false(sim_block_check(&block, text));
}

static void nothing_may_change_once_a_target_is_settled(void **state)
{
    char text[SIM_BLOCK_FAULT_TEXT_LEN];
    uint32_t at = claim.at;
    memcpy(block.octets + at, content, 40);
    sim_claims_settle(&claim, 1);
    assert_true(sim_block_check(&block, text));
    block.octets[at + 40] = 0x11;
    assert_false(sim_block_check(&block, text));
}

int main(void)
{
#define ON_TARGET(test) cmocka_unit_test_setup_teardown(test, setup_target, teardown_target)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_run_fails_nowhere),
        cmocka_unit_test(a_run_is_the_same_every_time),
        cmocka_unit_test(a_changed_octet_is_found),
        cmocka_unit_test(an_octet_beside_registered_memory_is_found),
        cmocka_unit_test(a_lost_completion_is_found),
        cmocka_unit_test(the_last_completion_lost_is_found),
        cmocka_unit_test(a_repeated_completion_is_found),
        cmocka_unit_test(a_wrong_status_is_found),
        cmocka_unit_test(a_wrong_length_is_found),
        cmocka_unit_test(a_wrong_reference_is_found),
        cmocka_unit_test(an_object_that_is_not_given_back_is_found),
        cmocka_unit_test(octets_that_change_under_way_are_found),
        cmocka_unit_test(a_completion_of_a_flow_that_comes_twice_is_found),
        cmocka_unit_test(work_that_never_ends_is_found),
        ON_TARGET(a_prefix_of_what_was_sent_is_right),
        ON_TARGET(a_gap_in_what_was_placed_is_found),
        ON_TARGET(a_gap_is_right_where_there_are_holes),
        ON_TARGET(other_octets_in_a_target_are_found),
        ON_TARGET(octets_beside_a_target_are_found),
        ON_TARGET(nothing_may_change_once_a_target_is_settled),
    };
    return cmocka_run_group_tests_name("sim/oracles", tests, NULL, NULL);
}
