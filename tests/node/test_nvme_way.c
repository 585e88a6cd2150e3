// Which of several ways to a namespace a command goes, and when a change that was out on a lost one
// may go by another.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node/ddm/nvme_way.h"

enum { NOW = 1000, LATER = 2000, NONE = -1 };

#define UP(state)                        \
    {                                    \
        .is_up = true, .access = (state) \
    }

static const struct nvme_way down = {.access = WEFT_NVME_OPTIMIZED};

/* ---- the choice ------------------------------------------------------------------------------ */

static void the_best_access_is_chosen_and_of_equal_ones_the_one_in_use(void **state)
{
    static const struct {
        enum weft_nvme_access access[3];
        int in_use, chosen;
    } table[] = {
        {{WEFT_NVME_OPTIMIZED, WEFT_NVME_OPTIMIZED, WEFT_NVME_OPTIMIZED}, NONE, 0},
        {{WEFT_NVME_OPTIMIZED, WEFT_NVME_OPTIMIZED, WEFT_NVME_OPTIMIZED}, 2, 2},
        {{WEFT_NVME_NON_OPTIMIZED, WEFT_NVME_OPTIMIZED, WEFT_NVME_OPTIMIZED}, NONE, 1},
        {{WEFT_NVME_OPTIMIZED, WEFT_NVME_NON_OPTIMIZED, WEFT_NVME_INACCESSIBLE}, 1, 0},
        {{WEFT_NVME_INACCESSIBLE, WEFT_NVME_NON_OPTIMIZED, WEFT_NVME_CHANGING}, 0, 1},
        {{WEFT_NVME_INACCESSIBLE, WEFT_NVME_UNREACHABLE, WEFT_NVME_CHANGING}, 0, NONE},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct nvme_way ways[] = {UP(table[i].access[0]), UP(table[i].access[1]),
                                        UP(table[i].access[2])};
        assert_int_equal(nvme_way_choose(ways, 3, table[i].in_use, NOW), table[i].chosen);
    }
}

static void a_way_that_is_down_or_rests_is_not_chosen(void **state)
{
    struct nvme_way ways[] = {down, UP(WEFT_NVME_NON_OPTIMIZED)};
    assert_int_equal(nvme_way_choose(ways, 2, 0, NOW), 1);
    ways[1].rests_until = LATER;
    assert_int_equal(nvme_way_choose(ways, 2, 1, NOW), NONE);
    assert_int_equal(nvme_way_choose(ways, 2, NONE, LATER), 1);
}

/* ---- what may be done twice ------------------------------------------------------------------ */

static enum nvme_quiet quiet_of(struct nvme_way lost, struct nvme_way other)
{
    const struct nvme_way ways[] = {other, lost};
    return nvme_way_quiet(ways, 2, 1, NOW);
}

static void a_lost_way_is_not_quiet_for_that_another_one_is_there(void **state)
{
    const struct nvme_way lost = {.heard_at = 500, .quiet_at = LATER};
    struct nvme_way other = UP(WEFT_NVME_OPTIMIZED);
    assert_int_equal(quiet_of(lost, other), NVME_NOT_QUIET);
    other.turned_at = 499; // and the lost one served the namespace after that
    assert_int_equal(quiet_of(lost, other), NVME_NOT_QUIET);
}

static void who_is_given_the_namespace_after_the_lost_way_served_it_has_it_alone(void **state)
{
    const struct nvme_way lost = {.heard_at = 500, .quiet_at = LATER};
    struct nvme_way other = UP(WEFT_NVME_OPTIMIZED);
    other.turned_at = 500;
    assert_int_equal(quiet_of(lost, other), NVME_HANDED_OVER);
    other.access = WEFT_NVME_INACCESSIBLE; // and has lost it again
    assert_int_equal(quiet_of(lost, other), NVME_NOT_QUIET);
    other.access = WEFT_NVME_OPTIMIZED;
    other.is_up = false;
    assert_int_equal(quiet_of(lost, other), NVME_NOT_QUIET);
}

static void a_lost_way_is_quiet_when_it_is_met_again_or_has_let_go(void **state)
{
    struct nvme_way lost = {.heard_at = 500, .quiet_at = NOW};
    assert_int_equal(quiet_of(lost, down), NVME_LET_GO);
    lost.quiet_at = NOW + 1;
    assert_int_equal(quiet_of(lost, down), NVME_NOT_QUIET);
    lost.is_up = true;
    assert_int_equal(quiet_of(lost, down), NVME_MET_AGAIN);
}

static void changes_wait_and_nothing_else_does(void **state)
{
    for (uint8_t operation = 0; operation < NODE_DEVICE_OPERATION_COUNT; operation++) {
        bool is_change =
            operation == NODE_WRITE || operation == NODE_TRIM || operation == NODE_WRITE_ZEROES;
        assert_int_equal(nvme_way_is_change(operation), is_change);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_access_is_chosen_and_of_equal_ones_the_one_in_use),
        cmocka_unit_test(a_way_that_is_down_or_rests_is_not_chosen),
        cmocka_unit_test(a_lost_way_is_not_quiet_for_that_another_one_is_there),
        cmocka_unit_test(who_is_given_the_namespace_after_the_lost_way_served_it_has_it_alone),
        cmocka_unit_test(a_lost_way_is_quiet_when_it_is_met_again_or_has_let_go),
        cmocka_unit_test(changes_wait_and_nothing_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
