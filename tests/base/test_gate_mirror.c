// Queue pairs on packets as peers of the same host see them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/gate_mirror.h"

static struct gate_mirror mirror;
static const struct gate shown = {.qp_num = 0x10005,
                                  .peer_qp_num = 0x20007,
                                  .local = {.s6_addr = {1, [15] = 2}},
                                  .remote = {.s6_addr = {3, [15] = 4}},
                                  .pd = 3,
                                  .psn = 0xfffffe};

static int begin(void **state)
{
    memset(&mirror, 0, sizeof mirror);
    return 0;
}

static void gate_is_found_as_it_was_opened(void **state)
{
    struct gate gate;
    uint64_t opening;
    const struct gate_entry *entry = gate_mirror_open(&mirror, &shown, 7);
    assert_non_null(entry);
    assert_ptr_equal(gate_mirror_find(&mirror, shown.qp_num, &gate, &opening), entry);
    assert_int_equal(opening, 7);
    assert_true(gate_is_alike(&gate, &shown));
    assert_int_equal(gate.psn, shown.psn);
    assert_null(gate_mirror_find(&mirror, shown.qp_num + 1, &gate, &opening));
}

static void psn_follows_and_the_opening_stays(void **state)
{
    struct gate gate, next = shown;
    uint64_t opening;
    struct gate_entry *entry = gate_mirror_open(&mirror, &shown, 7);
    next.psn = 1;
    gate_mirror_follow(entry, &next);
    assert_non_null(gate_mirror_find(&mirror, shown.qp_num, &gate, &opening));
    assert_int_equal(gate.psn, 1);
    assert_int_equal(gate.pd, shown.pd);
    assert_int_equal(opening, 7);
}

static void gate_that_was_closed_is_seen_to_be_gone(void **state)
{
    struct gate gate;
    uint64_t opening;
    struct gate_entry *entry = gate_mirror_open(&mirror, &shown, 7);
    gate_mirror_close(entry);
    assert_int_equal(atomic_load(&entry->opening), 0); // by who has found it before, too
    assert_null(gate_mirror_find(&mirror, shown.qp_num, &gate, &opening));
    assert_ptr_equal(gate_mirror_open(&mirror, &shown, 8), entry);
    assert_non_null(gate_mirror_find(&mirror, shown.qp_num, &gate, &opening));
    assert_int_equal(opening, 8);
}

// Each of them counts.
static void gates_of_other_ends_are_not_alike(void **state)
{
    struct gate other[] = {shown, shown, shown, shown, shown};
    other[0].qp_num++;
    other[1].peer_qp_num++;
    other[2].pd++;
    other[3].local.s6_addr[15]++;
    other[4].remote.s6_addr[0]++;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        assert_false(gate_is_alike(&other[i], &shown));
    }
}

static void full_bucket_opens_no_more(void **state)
{
    struct gate gate = shown, found;
    uint64_t opening = 0, seen;
    unsigned open_count = 0, closed_count = 0;
    for (gate.qp_num = 2; gate.qp_num < 2 + 2 * GATE_MIRROR_BUCKETS * GATE_MIRROR_WAYS;
         gate.qp_num++) {
        const struct gate_entry *entry = gate_mirror_open(&mirror, &gate, ++opening);
        open_count += entry != NULL;
        closed_count += entry == NULL;
        assert_true((gate_mirror_find(&mirror, gate.qp_num, &found, &seen) != NULL) ==
                    (entry != NULL));
    }
    assert_int_equal(open_count, GATE_MIRROR_BUCKETS * GATE_MIRROR_WAYS);
    assert_true(closed_count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gate_is_found_as_it_was_opened, begin),
        cmocka_unit_test_setup(psn_follows_and_the_opening_stays, begin),
        cmocka_unit_test_setup(gate_that_was_closed_is_seen_to_be_gone, begin),
        cmocka_unit_test_setup(gates_of_other_ends_are_not_alike, begin),
        cmocka_unit_test_setup(full_bucket_opens_no_more, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
