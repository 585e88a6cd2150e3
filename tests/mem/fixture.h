// What the tests of mem/ share: a table with a fixed key, two domains and askers on them.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mem/table.h"

enum { FIXTURE_CAPACITY = 4096, FIXTURE_QP = 7, FIXTURE_OTHER_QP = 8, FIXTURE_BUFFER_LEN = 4096 };

#define MEM_ACCESS_FULL (MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED)

struct fixture {
    struct mem_table *table;
    uint32_t pd;
    uint32_t other_pd;
    struct mem_asker asker;    // pd, FIXTURE_QP
    struct mem_asker other_qp; // pd, FIXTURE_OTHER_QP
    struct mem_asker stranger; // other_pd, FIXTURE_OTHER_QP
    uint8_t buffer[FIXTURE_BUFFER_LEN];
};

static inline struct mem_table *fixture_table(uint32_t capacity, uint8_t key_octet)
{
    uint8_t key[STAG_KEY_LEN];
    memset(key, key_octet, sizeof key);
    struct mem_table *table = mem_table_create(key, capacity, (struct mem_probe){0});
    assert_non_null(table);
    return table;
}

static inline int fixture_setup(void **state)
{
    static struct fixture f;
    f.table = fixture_table(FIXTURE_CAPACITY, 0x5a);
    assert_int_equal(mem_pd_alloc(f.table, &f.pd), 0);
    assert_int_equal(mem_pd_alloc(f.table, &f.other_pd), 0);
    f.asker = (struct mem_asker){.pd = f.pd, .qp_num = FIXTURE_QP};
    f.other_qp = (struct mem_asker){.pd = f.pd, .qp_num = FIXTURE_OTHER_QP};
    f.stranger = (struct mem_asker){.pd = f.other_pd, .qp_num = FIXTURE_OTHER_QP};
    *state = &f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    assert_true(mem_table_check(f->table));
    mem_table_destroy(f->table);
    return 0;
}

// The whole buffer, numbered from `iova`.
static inline uint32_t fixture_region(struct fixture *f, uint64_t iova, uint32_t access)
{
    uint32_t stag;
    assert_int_equal(
        mem_region_register(f->table, f->pd, f->buffer, FIXTURE_BUFFER_LEN, iova, access, &stag),
        0);
    return stag;
}

static inline enum mem_verdict fixture_resolve(struct fixture *f, struct mem_asker asker,
                                               uint32_t stag, uint64_t to, uint64_t len,
                                               uint32_t access)
{
    struct mspan piece;
    unsigned count;
    return mem_resolve(f->table, asker, stag, to, len, access, &piece, 1, &count);
}

#define MEM_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
