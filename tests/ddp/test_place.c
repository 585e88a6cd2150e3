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

static void octets_land_at_any_alignment_and_length(void **state)
{
    struct fixture *f = *state;
    for (size_t at = 0; at < 9; at++) {
        for (size_t len = 0; len < 40; len++) {
            for (size_t from = 0; from < 3; from++) {
                memset(f->buffer, 0, BUFFER_LEN);
                ddp_place_octets(f->buffer + at, span_of(f->payload + from, len));
                expect(f, at, from, len);
            }
        }
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

// Segments in order, out of order, across elements of any length.
static void an_untagged_buffer_takes_segments_anywhere(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{0x10000 + 8, 0, f->stag},
                               {0x10000 + 8, 7, f->stag},
                               {0, 0, 0},
                               {0x10000 + 15, 1, f->stag},
                               {0x10000 + 16, 84, f->stag}};
    struct ddp_buffer b;
    ddp_buffer_init(&b, list, 5);
    assert_int_equal(b.length, 92);
    static const size_t order[] = {0, 10, 20, 60, 30, 0, 80, 40, 50, 70};
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(
            ddp_place_untagged(f->mem, f->pd, &b, order[i], span_of(f->payload + order[i], 10)),
            DDP_OK);
    }
    expect(f, 8, 0, 90);
    assert_int_equal(ddp_place_untagged(f->mem, f->pd, &b, 90, span_of(f->payload + 90, 3)),
                     DDP_REFUSED_TOO_LONG);
    assert_int_equal(ddp_place_untagged(f->mem, f->pd, &b, 93, span_of(f->payload, 0)),
                     DDP_REFUSED_TOO_LONG);
    assert_int_equal(ddp_place_untagged(f->mem, f->pd, &b, 92, span_of(f->payload, 0)), DDP_OK);
    expect(f, 8, 0, 90);
}

static void a_local_key_that_is_gone_is_our_fault(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{0x10000, 8, f->stag ^ 1}};
    struct ddp_buffer b;
    ddp_buffer_init(&b, list, 1);
    assert_int_equal(ddp_place_untagged(f->mem, f->pd, &b, 0, span_of(f->payload, 8)),
                     DDP_REFUSED_LOCAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(octets_land_at_any_alignment_and_length),
        TEST(a_tagged_segment_lands_at_its_offset),
        TEST(what_is_refused_is_not_placed),
        TEST(an_empty_segment_asks_nothing),
        TEST(a_sink_scatters),
        TEST(an_untagged_buffer_takes_segments_anywhere),
        TEST(a_local_key_that_is_gone_is_our_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
