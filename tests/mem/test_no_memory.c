// Tables while the Nth allocation fails, for every N: a table is made whole or not at all, and one
// that cannot grow keeps what it has.
#include <errno.h>

#include "tests/failing_memory.h"
#include "tests/mem/fixture.h"

enum { ALLOCATIONS_MAX = 100, REGIONS = 1100 }; // more than slots are taken from the heap at a time

static const uint8_t key[STAG_KEY_LEN] = {7};

static void table_is_made_whole_or_not_at_all(void **state)
{
    int64_t before = memory_blocks;
    struct mem_table *table = NULL;
    unsigned n = 1;
    for (; table == NULL && n < ALLOCATIONS_MAX; n++) {
        memory_fail_at(n);
        table = mem_table_create(key, FIXTURE_CAPACITY, (struct mem_probe){0});
        memory_fail_at(0);
        assert_true(table != NULL || memory_blocks == before);
    }
    assert_non_null(table);
    assert_true(n > 2);
    assert_true(mem_table_check(table));
    mem_table_destroy(table);
    assert_int_equal(memory_blocks, before);
}

static int register_one(struct mem_table *table, uint32_t pd, uint32_t *ret_stag)
{
    static uint8_t buffer[4096];
    return mem_region_register(table, pd, buffer, sizeof buffer, (uintptr_t)buffer, 0, ret_stag);
}

static void table_that_cannot_grow_says_so_and_keeps_what_it_has(void **state)
{
    static uint32_t stags[REGIONS];
    int64_t before = memory_blocks;
    struct mem_table *table = mem_table_create(key, FIXTURE_CAPACITY, (struct mem_probe){0});
    uint32_t pd;
    unsigned refused = 0;
    assert_int_equal(mem_pd_alloc(table, &pd), 0);
    for (unsigned i = 0; i < REGIONS; i++) {
        memory_fail_at(1);
        int error = register_one(table, pd, &stags[i]);
        memory_fail_at(0);
        if (error != 0) {
            assert_int_equal(error, -ENOMEM);
            assert_int_equal(mem_table_live(table).regions, i);
            assert_int_equal(register_one(table, pd, &stags[i]), 0); // memory is there again
            refused++;
        }
        assert_true(mem_table_check(table));
    }
    assert_true(refused > 0);
    for (unsigned i = 0; i < REGIONS; i++) {
        assert_int_equal(mem_region_deregister(table, stags[i]), 0);
    }
    assert_int_equal(mem_table_live(table).regions, 0);
    mem_table_destroy(table);
    assert_int_equal(memory_blocks, before);
}

static void domains_that_cannot_be_noted_are_refused(void **state)
{
    enum { DOMAINS = 300 };
    struct mem_table *table = mem_table_create(key, FIXTURE_CAPACITY, (struct mem_probe){0});
    uint32_t pd[DOMAINS];
    unsigned refused = 0;
    for (unsigned i = 0; i < DOMAINS; i++) {
        memory_fail_at(1);
        int error = mem_pd_alloc(table, &pd[i]);
        memory_fail_at(0);
        if (error != 0) {
            assert_int_equal(error, -ENOMEM);
            assert_int_equal(mem_table_live(table).pds, i);
            assert_int_equal(mem_pd_alloc(table, &pd[i]), 0);
            refused++;
        }
        assert_true(i == 0 || pd[i] != pd[i - 1]);
    }
    assert_true(refused > 0);
    mem_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_made_whole_or_not_at_all),
        cmocka_unit_test(table_that_cannot_grow_says_so_and_keeps_what_it_has),
        cmocka_unit_test(domains_that_cannot_be_noted_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
