// Sinks: a Read Response reaches the window of its own request and nothing else.
#include <errno.h>

#include "tests/mem/fixture.h"

enum { BASE = 500, ELEMENT_LEN = 5 };

// SGE_COUNT_MAX elements of five octets, five octets apart, over one region.
static void list_make(struct sge list[SGE_COUNT_MAX], uint32_t region)
{
    for (unsigned i = 0; i < SGE_COUNT_MAX; i++) {
        list[i] = (struct sge){.addr = 2 * ELEMENT_LEN * i, .length = ELEMENT_LEN, .lkey = region};
    }
}

static uint32_t sink_open(struct fixture *f, const struct sge *list, unsigned count,
                          uint64_t offset, uint64_t len)
{
    uint32_t stag;
    assert_int_equal(mem_sinks_reserve(f->table, 1), 0);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, count, offset, len, BASE, &stag), 0);
    return stag;
}

static enum mem_verdict resolve(struct fixture *f, uint32_t stag, uint64_t to, uint64_t len)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    return mem_resolve_sink(f->table, f->asker, stag, to, len, pieces, SGE_COUNT_MAX, &count);
}

// Every octet of the pieces is the one that the list names, and each piece is as long as it can be.
static void expect_octets(struct fixture *f, uint32_t stag, uint64_t first, uint64_t len)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    assert_int_equal(mem_resolve_sink(f->table, f->asker, stag, BASE + first, len, pieces,
                                      SGE_COUNT_MAX, &count),
                     MEM_OK);
    uint64_t at = first;
    for (unsigned i = 0; i < count; i++) {
        assert_true(pieces[i].len > 0);
        assert_ptr_equal(pieces[i].ptr,
                         f->buffer + 2 * ELEMENT_LEN * (at / ELEMENT_LEN) + at % ELEMENT_LEN);
        assert_true(i == 0 || at % ELEMENT_LEN == 0);
        assert_true(at % ELEMENT_LEN + pieces[i].len <= ELEMENT_LEN);
        at += pieces[i].len;
    }
    assert_int_equal(at, first + len);
}

static void thirty_two_elements_are_cut_at_every_boundary(void **state)
{
    struct fixture *f = *state;
    struct sge list[SGE_COUNT_MAX];
    const uint64_t total = SGE_COUNT_MAX * ELEMENT_LEN;
    list_make(list, fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE));
    uint32_t stag = sink_open(f, list, SGE_COUNT_MAX, 0, total);
    for (uint64_t first = 0; first < total; first++) {
        for (uint64_t len = 1; len <= total - first; len++) {
            expect_octets(f, stag, first, len);
        }
    }
}

// A table of no more slots: what is free may be reserved to the last one, and not one more.
static void all_that_is_free_may_be_reserved(void **state)
{
    enum { CAPACITY = 2048 };
    struct mem_table *table = fixture_table(CAPACITY, 1);
    uint32_t count = 0;
    while (mem_sinks_reserve(table, 1) == 0) {
        count++;
    }
    mem_table_destroy(table);
    assert_int_equal(count, CAPACITY);
    table = fixture_table(CAPACITY, 1);
    assert_int_equal(mem_sinks_reserve(table, count + 1), -ENOSPC);
    assert_int_equal(mem_sinks_reserve(table, count), 0);
    mem_table_destroy(table);
}

static void the_window_starts_anywhere_in_the_list(void **state)
{
    struct fixture *f = *state;
    struct sge list[SGE_COUNT_MAX];
    list_make(list, fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE));
    for (uint64_t offset = 0; offset < 3 * ELEMENT_LEN; offset++) {
        uint32_t stag = sink_open(f, list, SGE_COUNT_MAX, offset, 7);
        struct mspan pieces[SGE_COUNT_MAX];
        unsigned count;
        assert_int_equal(
            mem_resolve_sink(f->table, f->asker, stag, BASE, 7, pieces, SGE_COUNT_MAX, &count),
            MEM_OK);
        assert_ptr_equal(pieces[0].ptr, f->buffer + 2 * ELEMENT_LEN * (offset / ELEMENT_LEN) +
                                            offset % ELEMENT_LEN);
        assert_int_equal(resolve(f, stag, BASE - 1, 1), MEM_BOUNDS);
        assert_int_equal(resolve(f, stag, BASE + 7, 1), MEM_BOUNDS);
        assert_int_equal(resolve(f, stag, BASE, 8), MEM_BOUNDS);
        assert_int_equal(mem_sink_close(f->table, stag), 0);
    }
}

static void empty_elements_are_passed_over(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE);
    const struct sge list[] = {
        {.length = 0, .lkey = 0xdeadbeef}, {.addr = 10, .length = 2, .lkey = region},
        {.length = 0, .lkey = 0xdeadbeef}, {.addr = 20, .length = 2, .lkey = region},
        {.length = 0, .lkey = 0xdeadbeef},
    };
    uint32_t stag = sink_open(f, list, 5, 0, 4);
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    assert_int_equal(
        mem_resolve_sink(f->table, f->asker, stag, BASE, 4, pieces, SGE_COUNT_MAX, &count), MEM_OK);
    assert_int_equal(count, 2);
    assert_ptr_equal(pieces[0].ptr, f->buffer + 10);
    assert_ptr_equal(pieces[1].ptr, f->buffer + 20);
}

static void a_read_of_no_octets_has_a_sink_without_pieces(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = sink_open(f, NULL, 0, 0, 0);
    struct mspan piece;
    unsigned count = 9;
    assert_int_equal(mem_resolve_sink(f->table, f->asker, stag, BASE, 0, &piece, 1, &count),
                     MEM_OK);
    assert_int_equal(count, 0);
    assert_int_equal(resolve(f, stag, BASE, 1), MEM_BOUNDS);
}

static void local_keys_are_looked_up_at_every_placement(void **state)
{
    struct fixture *f = *state;
    uint32_t kept = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE);
    uint32_t gone = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE);
    const struct sge list[] = {{.addr = 0, .length = 8, .lkey = kept},
                               {.addr = 8, .length = 8, .lkey = gone}};
    uint32_t stag = sink_open(f, list, 2, 0, 16);
    assert_int_equal(resolve(f, stag, BASE, 16), MEM_OK);
    assert_int_equal(mem_region_deregister(f->table, gone), 0);
    assert_int_equal(resolve(f, stag, BASE, 16), MEM_LOCAL_ELEMENT);
    assert_int_equal(resolve(f, stag, BASE + 8, 1), MEM_LOCAL_ELEMENT);
    assert_int_equal(resolve(f, stag, BASE, 8), MEM_OK);
}

static void elements_need_local_write_and_the_right_domain(void **state)
{
    struct fixture *f = *state;
    uint32_t foreign;
    assert_int_equal(mem_region_register(f->table, f->other_pd, f->buffer, 8, 0,
                                         MEM_ACCESS_LOCAL_WRITE, &foreign),
                     0);
    struct sge sge = {.addr = 0, .length = 8, .lkey = fixture_region(f, 0, 0)};
    uint32_t stag = sink_open(f, &sge, 1, 0, 8);
    assert_int_equal(resolve(f, stag, BASE, 8), MEM_LOCAL_ELEMENT);
    sge.lkey = foreign;
    assert_int_equal(resolve(f, stag, BASE, 8), MEM_LOCAL_ELEMENT);
    sge = (struct sge){.addr = 4000, .length = 200, .lkey = fixture_region(f, 0, 1)};
    assert_int_equal(resolve(f, stag, BASE, 8), MEM_LOCAL_ELEMENT);
}

static void a_sink_answers_its_queue_pair_only(void **state)
{
    struct fixture *f = *state;
    struct sge sge = {.addr = 0, .length = 8, .lkey = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE)};
    uint32_t stag = sink_open(f, &sge, 1, 0, 8);
    struct mspan piece;
    unsigned count;
    assert_int_equal(mem_resolve_sink(f->table, f->other_qp, stag, BASE, 8, &piece, 1, &count),
                     MEM_WRONG_QP);
    assert_int_equal(mem_resolve_sink(f->table, f->stranger, stag, BASE, 8, &piece, 1, &count),
                     MEM_WRONG_PD);
}

static void a_closed_sink_is_dead(void **state)
{
    struct fixture *f = *state;
    struct sge sge = {.addr = 0, .length = 8, .lkey = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE)};
    uint32_t stag = sink_open(f, &sge, 1, 0, 8);
    assert_int_equal(mem_sink_close(f->table, stag), 0);
    assert_int_equal(resolve(f, stag, BASE, 1), MEM_INVALID_STAG);
    assert_int_equal(mem_sink_close(f->table, stag), -EINVAL);
    assert_int_equal(mem_sink_close(f->table, sge.lkey), -EINVAL);
}

// One slot, used again and again: no late answer may fit a later request.
static void stags_of_sinks_do_not_come_back_soon(void **state)
{
    struct fixture *f = *state;
    struct sge sge = {.addr = 0, .length = 8, .lkey = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE)};
    uint32_t late = sink_open(f, &sge, 1, 0, 8), stag;
    assert_int_equal(mem_sink_close(f->table, late), 0);
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(mem_sink_open(f->table, f->asker, &sge, 1, 0, 8, BASE, &stag), 0);
        assert_int_equal(resolve(f, late, BASE, 1), MEM_INVALID_STAG);
        assert_int_equal(mem_sink_close(f->table, stag), 0);
    }
}

static void what_cannot_be_a_window_is_not_opened(void **state)
{
    struct fixture *f = *state;
    struct sge list[SGE_COUNT_MAX + 1] = {{.length = 8}};
    uint32_t stag;
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 0, 8, 0, &stag), -ENOSPC);
    assert_int_equal(mem_sinks_reserve(f->table, 1), 0);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 0, 9, 0, &stag), -EINVAL);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 9, 0, 0, &stag), -EINVAL);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 1, UINT64_MAX, 0, &stag), -EINVAL);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 0, 8, UINT64_MAX - 6, &stag),
                     -EINVAL);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, SGE_COUNT_MAX + 1, 0, 8, 0, &stag),
                     -EINVAL);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 0, 8, UINT64_MAX - 7, &stag), 0);
    assert_int_equal(mem_sink_open(f->table, f->asker, list, 1, 0, 8, 0, &stag), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(thirty_two_elements_are_cut_at_every_boundary),
        MEM_TEST(all_that_is_free_may_be_reserved),
        MEM_TEST(the_window_starts_anywhere_in_the_list),
        MEM_TEST(empty_elements_are_passed_over),
        MEM_TEST(a_read_of_no_octets_has_a_sink_without_pieces),
        MEM_TEST(local_keys_are_looked_up_at_every_placement),
        MEM_TEST(elements_need_local_write_and_the_right_domain),
        MEM_TEST(a_sink_answers_its_queue_pair_only),
        MEM_TEST(a_closed_sink_is_dead),
        MEM_TEST(stags_of_sinks_do_not_come_back_soon),
        MEM_TEST(what_cannot_be_a_window_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
