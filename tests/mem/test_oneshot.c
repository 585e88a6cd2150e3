// One-shot regions: a list that one queue pair's peer reaches from opening to closing, by an STag
// that is another one each time.
#include <errno.h>

#include "base/prng.h"
#include "tests/mem/fixture.h"

enum { ELEMENT_LEN = 5, ELEMENT_COUNT = 100, TOTAL_LEN = ELEMENT_LEN * ELEMENT_COUNT, COOKIE = 77 };

#define READ_WRITE ((uint32_t)MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE)

struct oneshot {
    struct mem_element elements[ELEMENT_COUNT];
    struct mem_list list;
    uint32_t stag;
};

// Every other five octets of the buffer.
static struct oneshot *oneshot_alloc(struct fixture *f)
{
    static struct oneshot o;
    for (unsigned i = 0; i < ELEMENT_COUNT; i++) {
        o.elements[i].octets = mspan_of(f->buffer + 2 * ELEMENT_LEN * i, ELEMENT_LEN);
    }
    mem_list_init(&o.list, o.elements, ELEMENT_COUNT);
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &o.stag), 0);
    return &o;
}

static struct oneshot *oneshot_open(struct fixture *f, uint64_t offset, uint64_t length,
                                    uint32_t access)
{
    struct oneshot *o = oneshot_alloc(f);
    struct mem_oneshot region = {&o->list, offset, length, access, COOKIE};
    mem_oneshot_open(f->table, o->stag, &region);
    return o;
}

// The octets [to, to + len) of the part that begins at `offset` are those that the list names.
static void expect_octets(struct fixture *f, struct oneshot *o, uint64_t offset, uint64_t to,
                          uint64_t len)
{
    struct mspan pieces[8];
    unsigned count;
    uint64_t at = offset + to;
    const uint64_t end = at + len;
    while (at < end) {
        assert_int_equal(mem_resolve(f->table, f->asker, o->stag, at - offset, end - at,
                                     MEM_ACCESS_REMOTE_READ, pieces, 8, &count),
                         MEM_OK);
        assert_true(count > 0);
        for (unsigned i = 0; i < count; i++) {
            assert_true(pieces[i].len > 0);
            assert_ptr_equal(pieces[i].ptr,
                             f->buffer + 2 * ELEMENT_LEN * (at / ELEMENT_LEN) + at % ELEMENT_LEN);
            assert_true(at % ELEMENT_LEN + pieces[i].len <= ELEMENT_LEN);
            at += pieces[i].len;
        }
        assert_true(count == 8 || at == end);
    }
    assert_int_equal(at, end);
}

static void a_list_is_cut_wherever_it_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, READ_WRITE);
    struct prng prng;
    prng_init(&prng, 1);
    for (unsigned i = 0; i < 5000; i++) { // forwards and backwards: the cursor must not matter
        uint64_t to = prng_below(&prng, TOTAL_LEN);
        expect_octets(f, o, 0, to, 1 + prng_below(&prng, (uint32_t)(TOTAL_LEN - to)));
        assert_true(mem_table_check(f->table));
    }
}

static void offsets_count_from_the_part_that_was_opened(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 12, 40, READ_WRITE);
    expect_octets(f, o, 12, 0, 40);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 40, 1, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 39, 2, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, UINT64_MAX, 2, 0), MEM_WRAP);
}

static void a_region_keeps_how_far_ahead_it_was_written_while_it_is_open(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, READ_WRITE);
    mem_note_early(f->table, o->stag, 900);
    assert_int_equal(mem_early_end(f->table, o->stag), 900);
    mem_oneshot_close(f->table, o->stag, &o->stag);
    assert_int_equal(mem_early_end(f->table, o->stag), 0);
    struct mem_oneshot region = {&o->list, 0, TOTAL_LEN, READ_WRITE, COOKIE};
    mem_oneshot_open(f->table, o->stag, &region);
    assert_int_equal(mem_early_end(f->table, o->stag), 0);
}

static void elements_without_octets_are_passed_over(void **state)
{
    struct fixture *f = *state;
    struct mem_element elements[] = {{mspan_of(f->buffer, 0)},
                                     {mspan_of(f->buffer + 1, 1)},
                                     {mspan_of(f->buffer, 0)},
                                     {mspan_of(f->buffer + 3, 2)},
                                     {mspan_of(f->buffer, 0)}};
    struct mem_list list;
    struct mspan pieces[4];
    unsigned count;
    uint32_t stag;
    mem_list_init(&list, elements, 5);
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &stag), 0);
    struct mem_oneshot region = {&list, 0, 3, READ_WRITE, 0};
    mem_oneshot_open(f->table, stag, &region);
    assert_int_equal(mem_resolve(f->table, f->asker, stag, 0, 3, 0, pieces, 4, &count), MEM_OK);
    assert_int_equal(count, 2);
    assert_ptr_equal(pieces[0].ptr, f->buffer + 1);
    assert_ptr_equal(pieces[1].ptr, f->buffer + 3);
    for (unsigned at = 3; at-- > 0;) { // also backwards
        assert_int_equal(mem_resolve(f->table, f->asker, stag, at, 1, 0, pieces, 4, &count),
                         MEM_OK);
        assert_ptr_equal(pieces[0].ptr, f->buffer + (at == 0 ? 1 : 2 + at));
    }
    mem_oneshot_free(f->table, stag);
}

// The peer chooses where it reads: a million jumps in a list of 65536 elements would take a minute
// if each walked the list.
static void jumps_about_a_long_list_are_cheap(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 65536, JUMP_COUNT = 1000000 };
    static struct mem_element elements[COUNT];
    struct mem_list list;
    struct mspan piece;
    uint32_t stag;
    unsigned count;
    struct prng prng;
    prng_init(&prng, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        elements[i].octets = mspan_of(f->buffer + i % 64, 3);
    }
    mem_list_init(&list, elements, COUNT);
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &stag), 0);
    mem_oneshot_open(f->table, stag, &(struct mem_oneshot){&list, 0, 3 * COUNT, READ_WRITE, 0});
    for (unsigned i = 0; i < JUMP_COUNT; i++) {
        uint32_t at = prng_below(&prng, 3 * COUNT);
        assert_int_equal(mem_resolve(f->table, f->asker, stag, at, 1, 0, &piece, 1, &count),
                         MEM_OK);
        assert_ptr_equal(piece.ptr, f->buffer + at / 3 % 64 + at % 3);
    }
    mem_oneshot_free(f->table, stag);
}

static void nobody_else_reaches_or_closes_it(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, READ_WRITE);
    uint32_t cookie = 0;
    assert_int_equal(fixture_resolve(f, f->other_qp, o->stag, 0, 1, 0), MEM_WRONG_QP);
    assert_int_equal(fixture_resolve(f, f->stranger, o->stag, 0, 1, 0), MEM_WRONG_PD);
    assert_int_equal(mem_oneshot_find(f->table, f->other_qp, o->stag, &cookie), MEM_WRONG_QP);
    assert_int_equal(mem_oneshot_find(f->table, f->stranger, o->stag, &cookie), MEM_WRONG_PD);
    assert_int_equal(cookie, 0);
    assert_int_equal(mem_oneshot_find(f->table, f->asker, o->stag, &cookie), MEM_OK);
    assert_int_equal(cookie, COOKIE);
}

static void only_the_rights_that_were_given_hold(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, MEM_ACCESS_REMOTE_READ);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, MEM_ACCESS_REMOTE_READ), MEM_OK);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, MEM_ACCESS_REMOTE_WRITE),
                     MEM_ACCESS);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 8, MEM_ACCESS_REMOTE_ATOMIC),
                     MEM_ACCESS);
}

static void it_is_no_local_key_no_window_and_no_sink(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, READ_WRITE);
    struct sge sge = {.addr = (uintptr_t)f->buffer, .length = 1, .lkey = o->stag};
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, pieces), MEM_INVALID_STAG);
    assert_int_equal(mem_invalidate(f->table, f->asker, o->stag, true), MEM_CANNOT_INVALIDATE);
    assert_int_equal(mem_invalidate(f->table, f->asker, o->stag, false), MEM_CANNOT_INVALIDATE);
    assert_int_equal(mem_window_dealloc(f->table, o->stag), -EINVAL);
    assert_int_equal(mem_region_deregister(f->table, o->stag), -EINVAL);
    assert_int_equal(mem_sink_close(f->table, o->stag), -EINVAL);
    assert_int_equal(
        mem_resolve_sink(f->table, f->asker, o->stag, 0, 1, pieces, SGE_COUNT_MAX, &count),
        MEM_ACCESS);
}

static void the_stag_is_refused_before_opening_and_after_closing(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_alloc(f);
    uint32_t cookie, next;
    assert_true(mem_is_oneshot(f->table, o->stag));
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, 0), MEM_INVALID_STAG);
    assert_int_equal(mem_oneshot_find(f->table, f->asker, o->stag, &cookie), MEM_INVALID_STAG);
    struct mem_oneshot region = {&o->list, 0, TOTAL_LEN, READ_WRITE, COOKIE};
    mem_oneshot_open(f->table, o->stag, &region);
    mem_oneshot_close(f->table, o->stag, &next);
    assert_int_not_equal(next, o->stag);
    assert_false(mem_is_oneshot(f->table, o->stag));
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, 0), MEM_INVALID_STAG);
    assert_int_equal(mem_oneshot_find(f->table, f->asker, o->stag, &cookie), MEM_INVALID_STAG);
    mem_oneshot_open(f->table, next, &region);
    assert_int_equal(fixture_resolve(f, f->asker, next, 0, 1, 0), MEM_OK);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, 0), MEM_INVALID_STAG);
}

static void what_is_no_one_shot_region_is_not_closed_as_one(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, 0, MEM_ACCESS_FULL), cookie;
    assert_int_equal(mem_oneshot_find(f->table, f->asker, region, &cookie), MEM_CANNOT_INVALIDATE);
    assert_false(mem_is_oneshot(f->table, region));
}

static void all_are_given_back(void **state)
{
    struct fixture *f = *state;
    struct oneshot *o = oneshot_open(f, 0, TOTAL_LEN, READ_WRITE);
    uint32_t closed;
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &closed), 0);
    assert_int_equal(mem_table_live(f->table).oneshots, 2);
    mem_oneshot_free(f->table, o->stag);
    mem_oneshot_free(f->table, closed);
    assert_int_equal(mem_table_live(f->table).oneshots, 0);
    assert_int_equal(fixture_resolve(f, f->asker, o->stag, 0, 1, 0), MEM_INVALID_STAG);
    assert_int_equal(mem_oneshot_alloc(f->table, (struct mem_asker){.pd = 999}, &closed), -EINVAL);
}

struct probed {
    size_t asked_count;
    struct mspan known; // what the next answer says of the surroundings
};

static int refuse_writable(void *ctx, void *addr, size_t len, bool writable,
                           struct mspan *ret_known)
{
    struct probed *probed = ctx;
    probed->asked_count++;
    *ret_known = probed->known.len > 0 ? probed->known : mspan_of(addr, len);
    return writable ? -EFAULT : 0;
}

static void every_element_is_asked_about_until_its_surroundings_are_known(void **state)
{
    uint8_t key[STAG_KEY_LEN] = {1}, octets[16];
    struct probed probed = {0};
    struct mem_probe probe = {refuse_writable, &probed};
    struct mem_table *table = mem_table_create(key, 16, probe);
    struct mem_element elements[] = {
        {mspan_of(octets + 4, 3)}, {mspan_of(octets, 0)}, {mspan_of(octets + 8, 5)}};
    struct mem_list list;
    struct mem_known known = {0};
    mem_list_init(&list, elements, 3);
    assert_int_equal(mem_oneshot_probe(table, &list, false, &known), 0);
    assert_int_equal(probed.asked_count, 2);
    probed.known = mspan_of(octets + 4, 9); // both, and no more
    known = (struct mem_known){0};
    assert_int_equal(mem_oneshot_probe(table, &list, false, &known), 0);
    assert_int_equal(mem_oneshot_probe(table, &list, false, &known), 0);
    assert_int_equal(probed.asked_count, 3);
    elements[2].octets.len = 6; // one octet beyond what is known
    assert_int_equal(mem_oneshot_probe(table, &list, false, &known), 0);
    assert_int_equal(probed.asked_count, 4);
    elements[0].octets = mspan_of(octets + 3, 1); // one before
    assert_int_equal(mem_oneshot_probe(table, &list, false, &known), 0);
    assert_int_equal(probed.asked_count, 6);
    assert_int_equal(mem_oneshot_probe(table, &list, true, &known), -EFAULT);
    assert_int_equal(probed.asked_count, 7); // what may be read may not yet be written
    assert_int_equal(known.mapped.len, 0);
    mem_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(a_list_is_cut_wherever_it_is_asked_for),
        MEM_TEST(offsets_count_from_the_part_that_was_opened),
        MEM_TEST(a_region_keeps_how_far_ahead_it_was_written_while_it_is_open),
        MEM_TEST(elements_without_octets_are_passed_over),
        MEM_TEST(jumps_about_a_long_list_are_cheap),
        MEM_TEST(nobody_else_reaches_or_closes_it),
        MEM_TEST(only_the_rights_that_were_given_hold),
        MEM_TEST(it_is_no_local_key_no_window_and_no_sink),
        MEM_TEST(the_stag_is_refused_before_opening_and_after_closing),
        MEM_TEST(what_is_no_one_shot_region_is_not_closed_as_one),
        MEM_TEST(all_are_given_back),
        MEM_TEST(every_element_is_asked_about_until_its_surroundings_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
