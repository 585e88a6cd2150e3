// Placement: every octet at its place and none beside it, at any alignment.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ddp/place.h"

enum { BUFFER_LEN = 4096 };

struct fixture {
    struct mem_table *mem;
    uint32_t pd, stag;
    struct mem_asker asker;
    uint8_t buffer[BUFFER_LEN];
    uint8_t payload[BUFFER_LEN];
};

static int setup(void **state)
{
    static struct fixture f;
    static const uint8_t key[STAG_KEY_LEN] = {1, 2, 3};
    memset(&f, 0, sizeof f);
    f.mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(f.mem, &f.pd), 0);
    assert_int_equal(mem_sinks_reserve(f.mem, 2), 0);
    f.asker = (struct mem_asker){f.pd, 9};
    assert_int_equal(mem_region_register(f.mem, f.pd, f.buffer, BUFFER_LEN, 0x10000,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE, &f.stag),
                     0);
    for (int i = 0; i < BUFFER_LEN; i++) {
        f.payload[i] = (uint8_t)(i * 5 + 1) | 1;
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mem_table_destroy(f->mem);
    return 0;
}

static void expect(const struct fixture *f, size_t at, size_t from, size_t len)
{
    assert_memory_equal(f->buffer + at, f->payload + from, len);
    for (size_t i = 0; i < at; i++) {
        assert_int_equal(f->buffer[i], 0);
    }
    for (size_t i = at + len; i < BUFFER_LEN; i++) {
        assert_int_equal(f->buffer[i], 0);
    }
}

static void a_tagged_segment_lands_at_its_offset(void **state)
{
    struct fixture *f = *state;
    struct span payload = span_of(f->payload, 100);
    assert_int_equal(
        ddp_place_tagged(f->mem, f->asker, f->stag, 0x10000 + 50, payload, MEM_ACCESS_REMOTE_WRITE),
        DDP_OK);
    expect(f, 50, 0, 100);
}

static void what_is_refused_is_not_placed(void **state)
{
    struct fixture *f = *state;
    struct span payload = span_of(f->payload, 100);
    assert_int_equal(ddp_place_tagged(f->mem, f->asker, f->stag, 0x10000 + BUFFER_LEN - 99, payload,
                                      MEM_ACCESS_REMOTE_WRITE),
                     DDP_REFUSED_BOUNDS);
    assert_int_equal(
        ddp_place_tagged(f->mem, f->asker, f->stag, 0x10000, payload, MEM_ACCESS_REMOTE_ATOMIC),
        DDP_REFUSED_ACCESS);
    assert_int_equal(ddp_place_sink(f->mem, f->asker, f->stag, 0x10000, payload),
                     DDP_REFUSED_ACCESS);
    expect(f, 0, 0, 0);
}

static void an_empty_segment_asks_nothing(void **state)
{
    struct fixture *f = *state;
    struct span empty = span_of(NULL, 0);
    assert_int_equal(ddp_place_tagged(f->mem, f->asker, 77, 1, empty, MEM_ACCESS_REMOTE_WRITE),
                     DDP_OK);
    assert_int_equal(ddp_place_sink(f->mem, f->asker, 77, 1, empty), DDP_OK);
}

static void a_sink_scatters(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {
        {0x10000 + 10, 5, f->stag}, {0x10000, 0, 0}, {0x10000 + 15, 20, f->stag}};
    uint32_t sink;
    assert_int_equal(mem_sink_open(f->mem, f->asker, list, 3, 2, 20, 1000, &sink), 0);
    assert_int_equal(ddp_place_sink(f->mem, f->asker, sink, 1000, span_of(f->payload, 20)), DDP_OK);
    expect(f, 12, 0, 20);
    assert_int_equal(mem_sink_close(f->mem, sink), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tagged_segment_lands_at_its_offset),
        TEST(what_is_refused_is_not_placed),
        TEST(an_empty_segment_asks_nothing),
        TEST(a_sink_scatters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
