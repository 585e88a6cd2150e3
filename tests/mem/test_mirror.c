// The mirror of regions: what processes of the same host see of them, and when they are waited for.
#include <errno.h>

#include "tests/mem/fixture.h"

enum { WRITABLE = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE };

static struct key_mirror mirror;
static uint64_t waited_for[8];
static unsigned wait_count;
static bool was_shown; // ... while it was waited for
static struct key last_found;

static void begin(void *ctx, uint64_t generation)
{
    (void)ctx;
    was_shown = last_found.entry != NULL && key_is_shown(&last_found);
    waited_for[wait_count++ % 8] = generation;
}

static int setup(void **state)
{
    fixture_setup(state);
    struct fixture *f = *state;
    memset(&mirror, 0, sizeof mirror);
    last_found = (struct key){0};
    wait_count = 0;
    mem_table_show(f->table, &mirror, (struct mem_revocation){.begin = begin});
    return 0;
}

static bool is_found(uint32_t stag)
{
    return key_mirror_find(&mirror, stag, &last_found);
}

static uint64_t generation_of(uint32_t stag)
{
    assert_true(is_found(stag));
    return last_found.generation;
}

static void a_region_for_remote_writes_is_shown_as_it_is(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0x10000, WRITABLE);
    uint64_t addr;
    assert_true(is_found(stag));
    assert_int_equal(last_found.pd, f->pd);
    assert_true(key_resolve(&last_found, f->pd, 0x10010, 32, &addr));
    assert_int_equal(addr, (uint64_t)(uintptr_t)(f->buffer + 16));
    assert_true(key_is_shown(&last_found));
}

static void only_what_lies_in_the_region_and_domain_is_resolved(void **state)
{
    struct fixture *f = *state;
    const uint64_t end = 0x10000 + FIXTURE_BUFFER_LEN;
    uint64_t addr;
    assert_true(is_found(fixture_region(f, 0x10000, WRITABLE)));
    assert_true(key_resolve(&last_found, f->pd, end - 1, 1, &addr));
    assert_true(key_resolve(&last_found, f->pd, end, 0, &addr));
    assert_false(key_resolve(&last_found, f->pd, end - 1, 2, &addr));
    assert_false(key_resolve(&last_found, f->pd, end + 1, 0, &addr));
    assert_false(key_resolve(&last_found, f->pd, 0xffff, 1, &addr));
    assert_false(key_resolve(&last_found, f->pd, end - 1, UINT64_MAX, &addr));
    assert_false(key_resolve(&last_found, f->other_pd, 0x10000, 1, &addr));
}

static void a_region_is_shown_with_its_rights(void **state)
{
    struct fixture *f = *state;
    assert_true(is_found(fixture_region(f, 0, WRITABLE)));
    assert_true(key_allows(&last_found, KEY_MAY_WRITE));
    assert_false(key_allows(&last_found, KEY_MAY_READ));
    assert_true(is_found(fixture_region(f, 0, MEM_ACCESS_REMOTE_READ)));
    assert_false(key_allows(&last_found, KEY_MAY_WRITE));
    assert_true(key_allows(&last_found, KEY_MAY_READ));
    assert_true(is_found(fixture_region(f, 0, WRITABLE | MEM_ACCESS_REMOTE_READ)));
    assert_true(key_allows(&last_found, KEY_MAY_WRITE));
    assert_true(key_allows(&last_found, KEY_MAY_READ));
}

// Who reads looks at the key behind that.
static void nobody_waits_for_who_only_reads(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, MEM_ACCESS_REMOTE_READ);
    assert_true(is_found(stag));
    assert_int_equal(mem_region_deregister(f->table, stag), 0);
    assert_false(is_found(stag));
    assert_int_equal(wait_count, 0);
}

static void what_a_peer_may_not_reach_is_not_shown(void **state)
{
    struct fixture *f = *state;
    struct mem_binding binding = {.length = 16, .access = MEM_ACCESS_REMOTE_WRITE};
    uint32_t window, oneshot;
    assert_false(is_found(fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_MW_BIND)));
    assert_false(is_found(fixture_region(f, 0, WRITABLE | MEM_ACCESS_ON_DEMAND)));
    binding.lkey = fixture_region(f, 0, WRITABLE | MEM_ACCESS_MW_BIND);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &window), 0);
    binding.stag = window;
    assert_int_equal(mem_window_bind(f->table, f->asker, &binding), MEM_OK);
    assert_false(is_found(window));
    assert_int_equal(mem_oneshot_alloc(f->table, f->asker, &oneshot), 0);
    assert_false(is_found(oneshot));
}

static void deregistering_waits_for_who_has_read_the_key(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, WRITABLE);
    uint64_t generation = generation_of(stag);
    assert_int_equal(mem_region_deregister(f->table, stag), 0);
    assert_int_equal(wait_count, 1);
    assert_int_equal(waited_for[0], generation);
    assert_false(was_shown); // it was taken back before
    assert_false(is_found(stag));
}

static void nobody_is_waited_for_who_could_not_write(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, MEM_ACCESS_LOCAL_WRITE);
    assert_int_equal(mem_region_deregister(f->table, stag), 0);
    assert_int_equal(wait_count, 0);
}

static void a_region_that_changes_is_another_one(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, WRITABLE);
    uint64_t generation = generation_of(stag);
    struct mem_reregistration to = {.changes = MEM_CHANGE_PD, .pd = f->other_pd};
    assert_int_equal(mem_region_reregister(f->table, stag, &to, &stag), 0);
    assert_int_equal(waited_for[0], generation);
    assert_true(generation_of(stag) > generation);
    assert_int_equal(last_found.pd, f->other_pd);
    to =
        (struct mem_reregistration){.changes = MEM_CHANGE_ACCESS, .access = MEM_ACCESS_LOCAL_WRITE};
    assert_int_equal(mem_region_reregister(f->table, stag, &to, &stag), 0);
    assert_int_equal(wait_count, 2);
    assert_false(is_found(stag));
}

static void a_change_that_is_refused_changes_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, WRITABLE);
    uint64_t generation = generation_of(stag);
    const struct mem_reregistration to = {.changes = MEM_CHANGE_PD, .pd = 77};
    assert_int_equal(mem_region_reregister(f->table, stag, &to, &stag), -EINVAL);
    assert_int_equal(wait_count, 0);
    assert_int_equal(generation_of(stag), generation);
}

// STags come again after 16,384 uses of an index, generations never.
static void no_generation_comes_twice(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;
    for (unsigned i = 0; i < 3 * STAG_GENERATION_COUNT; i++) {
        uint32_t stag = fixture_region(f, 0, WRITABLE);
        uint64_t generation = generation_of(stag);
        assert_true(generation > last);
        last = generation;
        assert_int_equal(mem_region_deregister(f->table, stag), 0);
    }
}

// More regions than a bucket has room for: those left out work as ever, without a mirror.
static void what_finds_no_room_is_left_out(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 4000 };
    static uint32_t stags[COUNT];
    unsigned shown = 0, waited;
    for (unsigned way = 0; way < KEY_MIRROR_BUCKETS; way += 2) {
        for (unsigned i = 0; i < KEY_MIRROR_WAYS; i++) { // half of the buckets are full
            atomic_store(&mirror.entries[way][i].generation, UINT64_MAX);
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        stags[i] = fixture_region(f, 0, WRITABLE);
        shown += is_found(stags[i]);
    }
    assert_in_range(shown, COUNT / 3, COUNT - COUNT / 3);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(mem_region_deregister(f->table, stags[i]), 0);
    }
    waited = wait_count;
    assert_int_equal(waited, shown);
}

static void a_hidden_table_touches_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, WRITABLE);
    mem_table_hide(f->table);
    assert_int_equal(mem_region_deregister(f->table, stag), 0);
    assert_int_equal(wait_count, 0);
    assert_true(is_found(stag)); // the parent's
}

#define MIRROR_TEST(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MIRROR_TEST(a_region_for_remote_writes_is_shown_as_it_is),
        MIRROR_TEST(only_what_lies_in_the_region_and_domain_is_resolved),
        MIRROR_TEST(a_region_is_shown_with_its_rights),
        MIRROR_TEST(nobody_waits_for_who_only_reads),
        MIRROR_TEST(what_a_peer_may_not_reach_is_not_shown),
        MIRROR_TEST(deregistering_waits_for_who_has_read_the_key),
        MIRROR_TEST(nobody_is_waited_for_who_could_not_write),
        MIRROR_TEST(a_region_that_changes_is_another_one),
        MIRROR_TEST(a_change_that_is_refused_changes_nothing),
        MIRROR_TEST(no_generation_comes_twice),
        MIRROR_TEST(what_finds_no_room_is_left_out),
        MIRROR_TEST(a_hidden_table_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
