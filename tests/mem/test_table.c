// The table as a whole: domains, the life of STags, counters, limits.
#include <errno.h>

#include "base/prng.h"
#include "mem/slot.h"
#include "tests/mem/fixture.h"

static void a_domain_in_use_is_not_deallocated(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), -EBUSY);
    assert_int_equal(mem_region_deregister(f->table, stag), 0);

    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &stag), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), -EBUSY);
    assert_int_equal(mem_window_dealloc(f->table, stag), 0);

    assert_int_equal(mem_pd_hold(f->table, f->pd), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), -EBUSY);
    mem_pd_release(f->table, f->pd);

    assert_int_equal(mem_pd_dealloc(f->table, f->pd), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), -EINVAL);
    assert_int_equal(mem_pd_hold(f->table, f->pd), -EINVAL);
}

static void domain_zero_is_none(void **state)
{
    struct fixture *f = *state;
    uint32_t stag;
    assert_int_not_equal(f->pd, 0);
    assert_int_equal(mem_pd_dealloc(f->table, 0), -EINVAL);
    assert_int_equal(mem_region_register(f->table, 0, f->buffer, 1, 0, 0, &stag), -EINVAL);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, 0, &stag), -EINVAL);
}

static void domains_are_distinct_and_limited(void **state)
{
    struct fixture *f = *state;
    uint32_t pd = 0;
    for (uint32_t before = f->other_pd; before < MEM_PD_COUNT_MAX; before = pd) {
        assert_int_equal(mem_pd_alloc(f->table, &pd), 0);
        assert_true(pd > before);
    }
    assert_int_equal(mem_table_live(f->table).pds, MEM_PD_COUNT_MAX);
    assert_int_equal(mem_pd_alloc(f->table, &pd), -ENOSPC);
    assert_int_equal(mem_pd_dealloc(f->table, 1000), 0);
    assert_int_equal(mem_pd_alloc(f->table, &pd), 0);
    assert_int_equal(pd, 1000);
}

static void the_table_is_full_at_its_capacity(void **state)
{
    struct fixture *f = *state;
    uint32_t first = fixture_region(f, 0, 0);
    for (unsigned i = 1; i < FIXTURE_CAPACITY; i++) {
        fixture_region(f, 0, 0);
    }
    uint32_t stag;
    assert_int_equal(mem_region_register(f->table, f->pd, f->buffer, 1, 0, 0, &stag), -ENOSPC);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &stag), -ENOSPC);
    assert_int_equal(mem_sinks_reserve(f->table, 1), -ENOSPC);
    assert_int_equal(mem_table_live(f->table).regions, FIXTURE_CAPACITY);
    assert_int_equal(mem_region_deregister(f->table, first), 0);
    fixture_region(f, 0, 0);
}

static void regions_and_windows_have_limits_of_their_own(void **state)
{
    struct fixture *f = *state;
    uint32_t stag, window;
    mem_table_limit(f->table, 2, 2);
    uint32_t first = fixture_region(f, 0, 0);
    fixture_region(f, 0, 0);
    assert_int_equal(mem_region_register(f->table, f->pd, f->buffer, 1, 0, 0, &stag), -ENOMEM);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &window), 0);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &stag), 0);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &stag), -ENOMEM);
    assert_int_equal(mem_region_deregister(f->table, first), 0);
    fixture_region(f, 0, 0);
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &stag), 0);
}

// A name that was given back is nobody's, whoever has its place now.
static void a_window_that_is_gone_is_not_given_back_for_another(void **state)
{
    struct fixture *f = *state;
    uint32_t gone[4], stag;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &gone[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(mem_window_dealloc(f->table, gone[i]), 0);
        assert_int_equal(mem_window_dealloc(f->table, gone[i]), -EINVAL);
    }
    for (unsigned i = 0; i < FIXTURE_CAPACITY; i++) { // all places have somebody again
        assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &stag), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(mem_window_dealloc(f->table, gone[i]), -EINVAL);
    }
    assert_int_equal(mem_table_live(f->table).windows, FIXTURE_CAPACITY);
}

static void the_largest_table_holds_its_capacity(void **state)
{
    struct mem_table *table = fixture_table(MEM_CAPACITY_MAX, 1);
    uint32_t pd, stag;
    uint8_t octet;
    assert_int_equal(mem_pd_alloc(table, &pd), 0);
    for (unsigned i = 0; i < MEM_CAPACITY_MAX; i++) {
        assert_int_equal(mem_region_register(table, pd, &octet, 1, 0, 0, &stag), 0);
    }
    assert_int_equal(mem_region_register(table, pd, &octet, 1, 0, 0, &stag), -ENOSPC);
    assert_true(mem_table_check(table));
    mem_table_destroy(table);
}

static void forged_stags_hit_nothing(void **state)
{
    enum { OPEN = 256, TRIES = 1000000 };
    struct fixture *f = *state;
    for (unsigned i = 0; i < OPEN; i++) {
        fixture_region(f, 0, MEM_ACCESS_FULL);
    }
    // Blind guesses hit once in 2^32 / OPEN = 16.7 million; this seed does not.
    struct prng prng;
    prng_init(&prng, 5042);
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t guess = (uint32_t)prng_next(&prng);
        assert_int_equal(fixture_resolve(f, f->asker, guess, 0, 1, 0), MEM_INVALID_STAG);
    }
    assert_int_equal(mem_table_verdict_count(f->table, MEM_INVALID_STAG), TRIES);
}

static void stags_near_a_known_one_hit_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, MEM_ACCESS_FULL);
    fixture_region(f, 0, MEM_ACCESS_FULL);
    for (uint32_t distance = 1; distance < 100000; distance++) {
        assert_int_equal(fixture_resolve(f, f->asker, stag + distance, 0, 1, 0), MEM_INVALID_STAG);
        assert_int_equal(fixture_resolve(f, f->asker, stag - distance, 0, 1, 0), MEM_INVALID_STAG);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        assert_int_equal(fixture_resolve(f, f->asker, stag ^ 1U << bit, 0, 1, 0), MEM_INVALID_STAG);
    }
}

static void special_values_name_nothing(void **state)
{
    struct fixture *f = *state;
    fixture_region(f, 0, MEM_ACCESS_FULL);
    assert_int_equal(fixture_resolve(f, f->asker, 0, 0, 1, 0), MEM_INVALID_STAG);
    assert_int_equal(fixture_resolve(f, f->asker, UINT32_MAX, 0, 1, 0), MEM_INVALID_STAG);
    for (uint32_t stag = 1; stag < 0x10000; stag++) {
        assert_int_equal(fixture_resolve(f, f->asker, stag, 0, 1, 0), MEM_INVALID_STAG);
    }
}

static void a_stale_stag_stays_dead(void **state)
{
    enum { REGISTRATIONS = 100000 };
    struct fixture *f = *state;
    uint32_t stale = fixture_region(f, 0, MEM_ACCESS_FULL);
    assert_int_equal(fixture_resolve(f, f->asker, stale, 0, 1, 0), MEM_OK);
    assert_int_equal(mem_region_deregister(f->table, stale), 0);
    for (unsigned i = 0; i < REGISTRATIONS; i++) {
        uint32_t stag = fixture_region(f, 0, MEM_ACCESS_FULL);
        assert_int_not_equal(stag, stale);
        assert_int_equal(fixture_resolve(f, f->asker, stale, 0, 1, 0), MEM_INVALID_STAG);
        assert_int_equal(mem_region_deregister(f->table, stag), 0);
    }
}

// A hint left behind by another STag with the same low name bits must not answer for it.
static void many_live_stags_are_told_apart(void **state)
{
    enum { OPEN = 2000 };
    static uint32_t stags[OPEN];
    struct fixture *f = *state;
    for (unsigned i = 0; i < OPEN; i++) {
        assert_int_equal(mem_region_register(f->table, f->pd, f->buffer + i, 1, 0, 0, &stags[i]),
                         0);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < OPEN; i++) {
            struct mspan piece;
            unsigned count;
            assert_int_equal(mem_resolve(f->table, f->asker, stags[i], 0, 1, 0, &piece, 1, &count),
                             MEM_OK);
            assert_ptr_equal(piece.ptr, f->buffer + i);
        }
    }
}

// Each damage is one that a slip in the table could do; the check sees it and its repair.
static void the_check_sees_damage(void **state)
{
    struct fixture *f = *state;
    struct slot *slot = slot_find(f->table, fixture_region(f, 0, MEM_ACCESS_FULL));
    uint32_t *const damaged[] = {
        &slot->stag,
        &slot->link,
        &slot->pd,
        &slot->relation,
        &f->table->live[SLOT_REGION],
        &f->table->live[SLOT_SINK],
        &f->table->free.count,
        &f->table->free.tail,
        &f->table->pds[f->pd].objects,
        &f->table->pds[0].holders,
    };
    for (unsigned i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_true(mem_table_check(f->table));
        *damaged[i] += 1000;
        assert_false(mem_table_check(f->table));
        *damaged[i] -= 1000;
    }
    slot->is_open = false;
    assert_false(mem_table_check(f->table));
    slot->is_open = true;
}

static void every_verdict_has_a_name(void **state)
{
    for (unsigned verdict = 0; verdict < MEM_VERDICT_COUNT; verdict++) {
        assert_non_null(mem_verdict_name(verdict));
        assert_true(strlen(mem_verdict_name(verdict)) > 0);
    }
}

static bool has_changed(struct fixture *f)
{
    static uint64_t seen;
    const bool has = mem_table_version(f->table) != seen;
    seen = mem_table_version(f->table);
    return has;
}

static void the_version_changes_when_what_was_granted_may_be_refused(void **state)
{
    struct fixture *f = *state;
    const uint32_t all = MEM_ACCESS_FULL;
    uint32_t window, region = fixture_region(f, 0, all);
    struct mspan place;
    struct mem_element element = {.octets = mspan_of(f->buffer, 8)};
    struct mem_list list;
    uint32_t oneshot;
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &window), 0);
    const struct mem_binding binding = {
        .stag = window, .lkey = region, .length = 8, .access = MEM_ACCESS_REMOTE_READ};
    assert_int_equal(mem_window_bind(f->table, f->asker, &binding), MEM_OK);
    has_changed(f);
    const struct sge sge = {.addr = 0, .length = 8, .lkey = region};
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, &place), MEM_OK);
    assert_false(has_changed(f));
    assert_int_equal(mem_invalidate(f->table, f->asker, window, true), MEM_OK);
    assert_true(has_changed(f));
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_true(has_changed(f));
    const struct mem_reregistration narrower = {.changes = MEM_CHANGE_ACCESS, .access = 0};
    assert_int_equal(mem_region_reregister(f->table, region, &narrower, &region), 0);
    assert_true(has_changed(f));
    assert_int_equal(mem_region_deregister(f->table, region), 0);
    assert_true(has_changed(f));
    mem_list_init(&list, &element, 1);
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &oneshot), 0);
    mem_oneshot_open(f->table, oneshot,
                     &(struct mem_oneshot){.list = &list, .length = 8, .access = all});
    has_changed(f);
    mem_oneshot_close(f->table, oneshot, &oneshot);
    assert_true(has_changed(f));
    mem_oneshot_free(f->table, oneshot);
}

static void a_table_with_regions_on_demand_has_no_version(void **state)
{
    struct fixture *f = *state;
    assert_true(mem_table_version(f->table) != 0);
    const uint32_t region = fixture_region(f, 0, MEM_ACCESS_ON_DEMAND);
    assert_int_equal(mem_table_version(f->table), 0);
    assert_int_equal(mem_region_deregister(f->table, region), 0);
}

static void live_counts_return_to_zero(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, 0, MEM_ACCESS_FULL);
    uint32_t window, sink;
    struct sge sge = {.addr = 0, .length = 8, .lkey = region};
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &window), 0);
    assert_int_equal(mem_sinks_reserve(f->table, 1), 0);
    assert_int_equal(mem_sink_open(f->table, f->asker, &sge, 1, 0, 8, 0, &sink), 0);
    struct mem_live live = mem_table_live(f->table);
    assert_int_equal(live.regions, 1);
    assert_int_equal(live.windows, 1);
    assert_int_equal(live.sinks, 1);
    assert_int_equal(live.pds, 2);

    assert_int_equal(mem_sink_close(f->table, sink), 0);
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_int_equal(mem_region_deregister(f->table, region), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->other_pd), 0);
    live = mem_table_live(f->table);
    assert_int_equal(live.regions + live.windows + live.sinks + live.pds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(a_domain_in_use_is_not_deallocated),
        MEM_TEST(domain_zero_is_none),
        MEM_TEST(domains_are_distinct_and_limited),
        MEM_TEST(the_table_is_full_at_its_capacity),
        MEM_TEST(regions_and_windows_have_limits_of_their_own),
        cmocka_unit_test(the_largest_table_holds_its_capacity),
        MEM_TEST(forged_stags_hit_nothing),
        MEM_TEST(stags_near_a_known_one_hit_nothing),
        MEM_TEST(special_values_name_nothing),
        MEM_TEST(a_stale_stag_stays_dead),
        MEM_TEST(many_live_stags_are_told_apart),
        MEM_TEST(the_check_sees_damage),
        cmocka_unit_test(every_verdict_has_a_name),
        MEM_TEST(the_version_changes_when_what_was_granted_may_be_refused),
        MEM_TEST(a_table_with_regions_on_demand_has_no_version),
        MEM_TEST(live_counts_return_to_zero),
        MEM_TEST(a_window_that_is_gone_is_not_given_back_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
