// Memory windows: binding rules, ownership, invalidation.
#include <errno.h>

#include "tests/mem/fixture.h"

enum { BASE = 1000 };

static uint32_t window_of(struct fixture *f, enum mem_window_type type)
{
    uint32_t stag;
    assert_int_equal(mem_window_alloc(f->table, type, f->pd, &stag), 0);
    return stag;
}

// A binding that every window and region of these tests admits, with the next key.
static struct mem_binding binding_of(uint32_t window, uint32_t region)
{
    return (struct mem_binding){
        .stag = (window & ~STAG_KEY_MASK) | ((window + 1) & STAG_KEY_MASK),
        .lkey = region,
        .addr = BASE + 16,
        .length = 32,
        .access = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ,
    };
}

static enum mem_verdict write_through(struct fixture *f, struct mem_asker asker, uint32_t stag,
                                      uint64_t to, uint64_t len)
{
    return fixture_resolve(f, asker, stag, to, len, MEM_ACCESS_REMOTE_WRITE);
}

static void only_types_1_and_2_exist(void **state)
{
    struct fixture *f = *state;
    uint32_t stag;
    assert_int_equal(mem_window_alloc(f->table, 0, f->pd, &stag), -EINVAL);
    assert_int_equal(mem_window_alloc(f->table, 3, f->pd, &stag), -EINVAL);
}

static void only_windows_are_deallocated(void **state)
{
    struct fixture *f = *state;
    uint32_t window = window_of(f, MEM_WINDOW_TYPE_1);
    assert_int_equal(mem_window_dealloc(f->table, fixture_region(f, 0, 0)), -EINVAL);
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_int_equal(mem_window_dealloc(f->table, window), -EINVAL);
}

static void an_allocated_window_admits_nobody(void **state)
{
    struct fixture *f = *state;
    fixture_region(f, BASE, MEM_ACCESS_FULL);
    uint32_t window = window_of(f, MEM_WINDOW_TYPE_2);
    assert_int_equal(write_through(f, f->asker, window, BASE, 1), MEM_INVALID_STAG);
    assert_int_equal(mem_invalidate(f->table, f->asker, window, true), MEM_INVALID_STAG);
}

static void a_bound_window_opens_just_its_part(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_MW_BIND);
    for (enum mem_window_type type = MEM_WINDOW_TYPE_1; type <= MEM_WINDOW_TYPE_2; type++) {
        struct mem_binding b = binding_of(window_of(f, type), region);
        struct mspan piece;
        unsigned count;
        assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
        assert_int_equal(mem_resolve(f->table, f->asker, b.stag, BASE + 16, 32,
                                     MEM_ACCESS_REMOTE_WRITE, &piece, 1, &count),
                         MEM_OK);
        assert_ptr_equal(piece.ptr, f->buffer + 16);
        assert_int_equal(write_through(f, f->asker, b.stag, BASE + 15, 1), MEM_BOUNDS);
        assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 33), MEM_BOUNDS);
        assert_int_equal(
            fixture_resolve(f, f->asker, b.stag, BASE + 16, 8, MEM_ACCESS_REMOTE_ATOMIC),
            MEM_ACCESS);
    }
}

static void a_zero_based_window_counts_from_zero(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    b.access |= MEM_ACCESS_ZERO_BASED;
    struct mspan piece;
    unsigned count;
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_resolve(f->table, f->asker, b.stag, 0, 32, 0, &piece, 1, &count), MEM_OK);
    assert_ptr_equal(piece.ptr, f->buffer + 16);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_BOUNDS);
}

static void a_type_2_window_belongs_to_its_queue_pair(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(write_through(f, f->other_qp, b.stag, BASE + 16, 1), MEM_WRONG_QP);
    assert_int_equal(write_through(f, f->stranger, b.stag, BASE + 16, 1), MEM_WRONG_PD);
    assert_int_equal(mem_invalidate(f->table, f->other_qp, b.stag, true), MEM_WRONG_QP);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_OK);
}

static void a_type_2_window_keeps_how_far_ahead_it_was_written(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    mem_note_early(f->table, b.stag, 5); // not open: nobody was granted anything
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_early_end(f->table, b.stag), 0);
    mem_note_early(f->table, b.stag, 2000);
    mem_note_early(f->table, b.stag, 1000);
    assert_int_equal(mem_early_end(f->table, b.stag), 2000);
    assert_int_equal(mem_invalidate(f->table, f->asker, b.stag, true), MEM_OK);
    assert_int_equal(mem_early_end(f->table, b.stag), 0);
    b = binding_of(b.stag, region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_early_end(f->table, b.stag), 0);
    mem_note_early(f->table, region, 7); // no peer can take a region back
    assert_int_equal(mem_early_end(f->table, region), 0);
}

static void a_type_1_window_serves_every_queue_pair_of_its_domain(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_1), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(write_through(f, f->other_qp, b.stag, BASE + 16, 1), MEM_OK);
    assert_int_equal(write_through(f, f->stranger, b.stag, BASE + 16, 1), MEM_WRONG_PD);
}

struct refusal {
    enum mem_verdict verdict;
    enum mem_window_type type;
    uint32_t region_access;
    uint32_t window_access;
    uint64_t addr;
    uint64_t length;
};

static void binding_rules(void **state)
{
    const uint32_t bindable = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_MW_BIND;
    const struct refusal refusals[] = {
        {MEM_ACCESS, 1, MEM_ACCESS_LOCAL_WRITE, MEM_ACCESS_REMOTE_READ, BASE, 1},
        {MEM_ACCESS, 2, MEM_ACCESS_MW_BIND, MEM_ACCESS_REMOTE_WRITE, BASE, 1},
        {MEM_ACCESS, 2, MEM_ACCESS_MW_BIND, MEM_ACCESS_REMOTE_ATOMIC, BASE, 1},
        {MEM_ACCESS, 1, bindable, MEM_ACCESS_ZERO_BASED, BASE, 1},
        {MEM_ACCESS, 2, bindable, 1U << 6, BASE, 1},
        {MEM_ACCESS, 2, bindable | MEM_ACCESS_ZERO_BASED, 0, 0, 1},
        {MEM_BOUNDS, 2, bindable, 0, BASE, 0},
        {MEM_BOUNDS, 1, bindable, 0, BASE - 1, 1},
        {MEM_BOUNDS, 2, bindable, 0, BASE, FIXTURE_BUFFER_LEN + 1},
        {MEM_WRAP, 2, bindable, 0, UINT64_MAX, 2},
        {MEM_OK, 2, MEM_ACCESS_MW_BIND, MEM_ACCESS_REMOTE_READ, BASE, 1},
        {MEM_OK, 2, bindable, MEM_ACCESS_REMOTE_ATOMIC, BASE, FIXTURE_BUFFER_LEN},
    };
    struct fixture *f = *state;
    for (unsigned i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        uint32_t region = fixture_region(f, BASE, r->region_access);
        struct mem_binding b = binding_of(window_of(f, r->type), region);
        b.addr = r->addr;
        b.length = r->length;
        b.access = r->window_access;
        enum mem_verdict verdict = mem_window_bind(f->table, f->asker, &b);
        if (verdict != r->verdict) {
            fail_msg("rule %u: %s", i, mem_verdict_name(verdict));
        }
    }
}

static void domains_of_asker_window_and_region_must_agree(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL), foreign;
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->stranger, &b), MEM_WRONG_PD);
    assert_int_equal(mem_region_register(f->table, f->other_pd, f->buffer, FIXTURE_BUFFER_LEN, BASE,
                                         MEM_ACCESS_FULL, &foreign),
                     0);
    b.lkey = foreign;
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_WRONG_PD);
}

static void only_windows_are_bound_and_only_to_regions(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    uint32_t window = window_of(f, MEM_WINDOW_TYPE_2);
    struct mem_binding b = binding_of(region, region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_INVALID_STAG);
    b = binding_of(window, window_of(f, MEM_WINDOW_TYPE_1));
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_INVALID_STAG);
    b = binding_of(window, 0xdeadbeef);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_INVALID_STAG);
    b = binding_of(0xdeadbeef, region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_INVALID_STAG);
}

static void a_bound_type_2_window_is_not_bound_again(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    struct mem_binding again = binding_of(b.stag, region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &again), MEM_WINDOW_STATE);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_OK);
    assert_int_equal(mem_invalidate(f->table, f->asker, b.stag, false), MEM_OK);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK); // with the key it had
}

static void rebinding_type_1_kills_the_key_before(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_1), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_WINDOW_STATE); // that very key
    struct mem_binding next = binding_of(b.stag, region);
    next.addr = BASE + 100;
    assert_int_equal(mem_window_bind(f->table, f->asker, &next), MEM_OK);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_INVALID_STAG);
    assert_int_equal(write_through(f, f->asker, next.stag, BASE + 100, 32), MEM_OK);

    struct mem_binding off = {.stag = binding_of(next.stag, 0).stag, .length = 0};
    assert_int_equal(mem_window_bind(f->table, f->asker, &off), MEM_OK);
    assert_int_equal(write_through(f, f->asker, next.stag, BASE + 100, 1), MEM_INVALID_STAG);
    assert_int_equal(write_through(f, f->asker, off.stag, BASE + 100, 1), MEM_INVALID_STAG);
    assert_int_equal(mem_region_deregister(f->table, region), 0);
}

static void a_refused_bind_leaves_the_window_as_it_was(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_1), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    struct mem_binding bad = binding_of(b.stag, region);
    bad.addr = 0;
    assert_int_equal(mem_window_bind(f->table, f->asker, &bad), MEM_BOUNDS);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 32), MEM_OK);
    assert_int_equal(write_through(f, f->asker, bad.stag, BASE + 16, 32), MEM_INVALID_STAG);
}

static void a_region_with_windows_stays(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL), same;
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_region_deregister(f->table, region), -EBUSY);
    struct mem_reregistration r = {.changes = MEM_CHANGE_ACCESS, .access = 0};
    assert_int_equal(mem_region_reregister(f->table, region, &r, &same), -EBUSY);
    assert_true(mem_table_check(f->table));
    assert_int_equal(mem_window_dealloc(f->table, b.stag), 0);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_INVALID_STAG);
    assert_int_equal(mem_region_deregister(f->table, region), 0);
}

static void only_type_2_windows_are_invalidated(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL), sink;
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_1), region);
    struct sge sge = {.addr = BASE, .length = 1, .lkey = region};
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_sinks_reserve(f->table, 1), 0);
    assert_int_equal(mem_sink_open(f->table, f->asker, &sge, 1, 0, 1, 0, &sink), 0);
    for (int remote = 0; remote < 2; remote++) {
        assert_int_equal(mem_invalidate(f->table, f->asker, region, remote), MEM_CANNOT_INVALIDATE);
        assert_int_equal(mem_invalidate(f->table, f->asker, b.stag, remote), MEM_CANNOT_INVALIDATE);
        assert_int_equal(mem_invalidate(f->table, f->asker, sink, remote), MEM_CANNOT_INVALIDATE);
        assert_int_equal(mem_invalidate(f->table, f->asker, 0xdeadbeef, remote), MEM_INVALID_STAG);
        assert_int_equal(mem_invalidate(f->table, f->stranger, region, remote), MEM_WRONG_PD);
    }
}

static void an_invalidated_window_admits_nobody(void **state)
{
    struct fixture *f = *state;
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding b = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &b), MEM_OK);
    assert_int_equal(mem_invalidate(f->table, f->asker, b.stag, true), MEM_OK);
    assert_int_equal(write_through(f, f->asker, b.stag, BASE + 16, 1), MEM_INVALID_STAG);
    assert_int_equal(mem_invalidate(f->table, f->asker, b.stag, true), MEM_INVALID_STAG);
    assert_int_equal(mem_region_deregister(f->table, region), 0);
}

static void a_later_queue_pair_of_the_same_number_inherits_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mem_windows_release_qp(f->table, FIXTURE_QP), 0);
    uint32_t region = fixture_region(f, BASE, MEM_ACCESS_FULL);
    struct mem_binding ours = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    struct mem_binding other = binding_of(window_of(f, MEM_WINDOW_TYPE_2), region);
    assert_int_equal(mem_window_bind(f->table, f->asker, &ours), MEM_OK);
    assert_int_equal(mem_window_bind(f->table, f->other_qp, &other), MEM_OK);
    assert_int_equal(mem_windows_release_qp(f->table, FIXTURE_QP), 1);
    assert_int_equal(write_through(f, f->asker, ours.stag, BASE + 16, 1), MEM_INVALID_STAG);
    assert_int_equal(write_through(f, f->other_qp, other.stag, BASE + 16, 1), MEM_OK);
    assert_int_equal(mem_windows_release_qp(f->table, FIXTURE_QP), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(only_types_1_and_2_exist),
        MEM_TEST(only_windows_are_deallocated),
        MEM_TEST(an_allocated_window_admits_nobody),
        MEM_TEST(a_bound_window_opens_just_its_part),
        MEM_TEST(a_zero_based_window_counts_from_zero),
        MEM_TEST(a_type_2_window_belongs_to_its_queue_pair),
        MEM_TEST(a_type_2_window_keeps_how_far_ahead_it_was_written),
        MEM_TEST(a_type_1_window_serves_every_queue_pair_of_its_domain),
        MEM_TEST(binding_rules),
        MEM_TEST(domains_of_asker_window_and_region_must_agree),
        MEM_TEST(only_windows_are_bound_and_only_to_regions),
        MEM_TEST(a_bound_type_2_window_is_not_bound_again),
        MEM_TEST(rebinding_type_1_kills_the_key_before),
        MEM_TEST(a_refused_bind_leaves_the_window_as_it_was),
        MEM_TEST(a_region_with_windows_stays),
        MEM_TEST(only_type_2_windows_are_invalidated),
        MEM_TEST(an_invalidated_window_admits_nobody),
        MEM_TEST(a_later_queue_pair_of_the_same_number_inherits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
