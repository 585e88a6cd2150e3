// Memory regions: what may be registered, how it is numbered, how it changes and ends.
#include <errno.h>

#include "tests/mem/fixture.h"

static int register_with(struct fixture *f, void *addr, uint64_t length, uint64_t iova,
                         uint32_t access)
{
    uint32_t stag;
    return mem_region_register(f->table, f->pd, addr, length, iova, access, &stag);
}

static void remote_writing_needs_local_write(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(register_with(f, f->buffer, 8, 0, MEM_ACCESS_REMOTE_WRITE), -EINVAL);
    assert_int_equal(register_with(f, f->buffer, 8, 0, MEM_ACCESS_REMOTE_ATOMIC), -EINVAL);
    assert_int_equal(register_with(f, f->buffer, 8, 0, MEM_ACCESS_REMOTE_READ), 0);
    assert_int_equal(register_with(f, f->buffer, 8, 0, MEM_ACCESS_FULL), 0);
}

static void unknown_access_bits_are_refused(void **state)
{
    struct fixture *f = *state;
    for (unsigned bit = 8; bit < 32; bit++) { // 6 and 7 are of regions alone
        assert_int_equal(register_with(f, f->buffer, 8, 0, 1U << bit), -EINVAL);
    }
}

static void a_region_is_relaxed_if_it_says_so_until_it_ends(void **state)
{
    struct fixture *f = *state;
    const uint32_t access = MEM_ACCESS_FULL | MEM_ACCESS_MW_BIND;
    uint32_t strict, relaxed, window;
    assert_int_equal(mem_region_register(f->table, f->pd, f->buffer, 8, 0, access, &strict), 0);
    assert_int_equal(mem_region_register(f->table, f->pd, f->buffer, 8, 0,
                                         access | MEM_ACCESS_RELAXED_ORDERING, &relaxed),
                     0);
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &window), 0);
    const struct mem_binding binding = {
        .stag = window, .lkey = relaxed, .length = 8, .access = MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(f->table, (struct mem_asker){.pd = f->pd}, &binding), MEM_OK);
    assert_false(mem_is_relaxed(f->table, strict));
    assert_true(mem_is_relaxed(f->table, relaxed));
    assert_false(mem_is_relaxed(f->table, window));
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_int_equal(mem_region_deregister(f->table, relaxed), 0);
    assert_false(mem_is_relaxed(f->table, relaxed));
}

static void an_empty_region_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(register_with(f, f->buffer, 0, 0, 0), -EINVAL);
}

static void ranges_that_pass_the_end_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(register_with(f, f->buffer, UINT64_MAX, 0, 0), -EINVAL);
    assert_int_equal(register_with(f, (void *)(UINTPTR_MAX - 6), 8, 0, 0), -EINVAL);
    assert_int_equal(register_with(f, f->buffer, 8, UINT64_MAX - 6, 0), -EINVAL);
    assert_int_equal(register_with(f, f->buffer, 8, UINT64_MAX - 7, 0), 0);
}

static int probe_refuses(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known)
{
    *ret_known = mspan_of(addr, len);
    bool *asked_writable = ctx;
    *asked_writable = writable;
    return len > 8 ? -EFAULT : 0;
}

static void what_the_probe_refuses_is_not_registered(void **state)
{
    const uint8_t key[STAG_KEY_LEN] = {1};
    bool writable = true;
    struct mem_probe probe = {.check = probe_refuses, .ctx = &writable};
    struct mem_table *table = mem_table_create(key, 16, probe);
    uint32_t pd, stag;
    uint8_t memory[16];
    assert_int_equal(mem_pd_alloc(table, &pd), 0);
    assert_int_equal(mem_region_register(table, pd, memory, 9, 0, 0, &stag), -EFAULT);
    assert_false(writable);
    assert_int_equal(mem_table_live(table).regions, 0);
    assert_int_equal(mem_region_register(table, pd, memory, 8, 0, MEM_ACCESS_LOCAL_WRITE, &stag),
                     0);
    assert_true(writable);
    mem_table_destroy(table);
}

static int probe_notes(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known)
{
    *ret_known = mspan_of(addr, len);
    *(int *)ctx = writable;
    return 0;
}

// What writes needs memory that can be written now, even if it could be when it was registered.
static void a_region_on_demand_is_asked_about_as_it_is_used(void **state)
{
    enum { NOT_ASKED = -1 };
    static const struct {
        uint32_t access;
        int asked_writable;
    } table[] = {{MEM_ACCESS_REMOTE_READ, false},
                 {MEM_ACCESS_REMOTE_WRITE, true},
                 {MEM_ACCESS_REMOTE_ATOMIC, true}};
    const uint8_t key[STAG_KEY_LEN] = {1};
    int asked = NOT_ASKED;
    struct mem_probe probe = {.check = probe_notes, .ctx = &asked};
    for (unsigned is_pinned = 0; is_pinned < 2; is_pinned++) {
        struct mem_table *mem = mem_table_create(key, 16, probe);
        struct mem_asker asker = {.qp_num = FIXTURE_QP};
        uint32_t stag, access = MEM_ACCESS_FULL | (is_pinned ? 0 : MEM_ACCESS_ON_DEMAND);
        uint8_t memory[16];
        assert_int_equal(mem_pd_alloc(mem, &asker.pd), 0);
        assert_int_equal(mem_region_register(mem, asker.pd, memory, 16, 0, access, &stag), 0);
        for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
            struct mspan piece;
            unsigned count;
            asked = NOT_ASKED;
            assert_int_equal(
                mem_resolve(mem, asker, stag, 0, 8, table[i].access, &piece, 1, &count), MEM_OK);
            assert_int_equal(asked, is_pinned ? NOT_ASKED : table[i].asked_writable);
        }
        mem_table_destroy(mem);
    }
}

// `to` of the first octet, given the numbering asked for.
static void expect_first(struct fixture *f, uint32_t stag, uint64_t to)
{
    struct mspan piece;
    unsigned count = 0;
    assert_int_equal(mem_resolve(f->table, f->asker, stag, to, FIXTURE_BUFFER_LEN,
                                 MEM_ACCESS_REMOTE_READ, &piece, 1, &count),
                     MEM_OK);
    assert_int_equal(count, 1);
    assert_ptr_equal(piece.ptr, f->buffer);
    assert_int_equal(piece.len, FIXTURE_BUFFER_LEN);
    if (to > 0) {
        assert_int_equal(fixture_resolve(f, f->asker, stag, to - 1, 1, 0), MEM_BOUNDS);
    }
}

static void offsets_are_numbered_from_iova(void **state)
{
    struct fixture *f = *state;
    expect_first(f, fixture_region(f, (uintptr_t)f->buffer, MEM_ACCESS_REMOTE_READ),
                 (uintptr_t)f->buffer);
    expect_first(f, fixture_region(f, 0x123456789ULL, MEM_ACCESS_REMOTE_READ), 0x123456789ULL);
    expect_first(f, fixture_region(f, 0, MEM_ACCESS_REMOTE_READ), 0);
    expect_first(
        f, fixture_region(f, 0x123456789ULL, MEM_ACCESS_REMOTE_READ | MEM_ACCESS_ZERO_BASED), 0);
}

static void local_elements_use_the_same_numbers(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 1000, 0);
    struct mspan span;
    struct sge sge = {.addr = 1010, .length = 20, .lkey = stag};
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, &span), MEM_OK);
    assert_ptr_equal(span.ptr, f->buffer + 10);
    assert_int_equal(span.len, 20);
}

static void a_new_translation_kills_the_old_stag(void **state)
{
    struct fixture *f = *state;
    uint32_t old = fixture_region(f, 0, MEM_ACCESS_REMOTE_READ), stag;
    struct mem_reregistration r = {
        .changes = MEM_CHANGE_TRANSLATION, .addr = f->buffer + 100, .length = 10, .iova = 5};
    assert_int_equal(mem_region_reregister(f->table, old, &r, &stag), 0);
    assert_int_not_equal(stag, old);
    assert_int_equal(fixture_resolve(f, f->asker, old, 5, 1, 0), MEM_INVALID_STAG);
    struct mspan piece;
    unsigned count;
    assert_int_equal(
        mem_resolve(f->table, f->asker, stag, 5, 10, MEM_ACCESS_REMOTE_READ, &piece, 1, &count),
        MEM_OK);
    assert_ptr_equal(piece.ptr, f->buffer + 100);
    assert_int_equal(mem_table_live(f->table).regions, 1);
}

static void a_new_domain_or_access_keeps_the_stag(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, MEM_ACCESS_REMOTE_READ), same;
    struct mem_reregistration r = {.changes = MEM_CHANGE_ACCESS, .access = MEM_ACCESS_LOCAL_WRITE};
    assert_int_equal(mem_region_reregister(f->table, stag, &r, &same), 0);
    assert_int_equal(same, stag);
    assert_int_equal(fixture_resolve(f, f->asker, stag, 0, 1, MEM_ACCESS_REMOTE_READ), MEM_ACCESS);

    r = (struct mem_reregistration){.changes = MEM_CHANGE_PD, .pd = f->other_pd};
    assert_int_equal(mem_region_reregister(f->table, stag, &r, &same), 0);
    assert_int_equal(same, stag);
    assert_int_equal(fixture_resolve(f, f->asker, stag, 0, 1, 0), MEM_WRONG_PD);
    assert_int_equal(fixture_resolve(f, f->stranger, stag, 0, 1, 0), MEM_OK);
    assert_int_equal(mem_pd_dealloc(f->table, f->pd), 0);
    assert_int_equal(mem_pd_dealloc(f->table, f->other_pd), -EBUSY);
}

static void a_refused_reregistration_changes_nothing(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, MEM_ACCESS_REMOTE_READ), same;
    const struct mem_reregistration refused[] = {
        {.changes = 0},
        {.changes = MEM_CHANGE_ALL + 1},
        {.changes = MEM_CHANGE_PD, .pd = 99},
        {.changes = MEM_CHANGE_ACCESS, .access = MEM_ACCESS_REMOTE_WRITE},
        {.changes = MEM_CHANGE_TRANSLATION, .addr = f->buffer, .length = 0},
        {.changes = MEM_CHANGE_TRANSLATION | MEM_CHANGE_PD, .addr = f->buffer, .length = 1},
    };
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(mem_region_reregister(f->table, stag, &refused[i], &same), -EINVAL);
    }
    expect_first(f, stag, 0);
    assert_int_equal(mem_region_reregister(f->table, stag + 1, &refused[0], &same), -EINVAL);
}

static void the_numbering_changes_only_with_the_translation(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 1000, MEM_ACCESS_REMOTE_READ), same;
    struct mem_reregistration r = {.changes = MEM_CHANGE_ACCESS, .access = MEM_ACCESS_ZERO_BASED};
    assert_int_equal(mem_region_reregister(f->table, stag, &r, &same), -EINVAL);
    expect_first(f, stag, 1000);
}

static void deregistering_ends_the_stag_once(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, 0);
    assert_int_equal(mem_region_deregister(f->table, stag), 0);
    assert_int_equal(fixture_resolve(f, f->asker, stag, 0, 1, 0), MEM_INVALID_STAG);
    assert_int_equal(mem_region_deregister(f->table, stag), -EINVAL);
}

// In the order of the table: what is wrong first is what is told.
static void an_element_to_be_fetched_in_advance_is_judged(void **state)
{
    enum { NOT_ASKED = -1, LEN = 16, BASE = 4096 };
    enum { PINNED, READ_ONLY, WRITABLE, WINDOW, NOBODYS };
    static const struct {
        unsigned key;
        uint64_t addr;
        uint32_t len;
        bool is_of_other_pd, write, mapped;
        enum mem_verdict verdict;
        int asked_writable;
    } rows[] = {
        {NOBODYS, BASE, 8, false, false, true, MEM_INVALID_STAG, NOT_ASKED},
        {READ_ONLY, BASE, 8, true, false, true, MEM_WRONG_PD, NOT_ASKED},
        {PINNED, BASE, 8, false, false, true, MEM_CANNOT_INVALIDATE, NOT_ASKED},
        {WINDOW, BASE, 8, false, false, true, MEM_CANNOT_INVALIDATE, NOT_ASKED},
        {READ_ONLY, BASE, 8, false, true, true, MEM_ACCESS, NOT_ASKED},
        {READ_ONLY, BASE, 8, false, false, false, MEM_OK, NOT_ASKED},
        {READ_ONLY, BASE, 8, false, false, true, MEM_OK, false},
        {WRITABLE, BASE, LEN, false, true, true, MEM_OK, true},
        {WRITABLE, BASE, LEN, false, false, true, MEM_OK, false},
        {WRITABLE, BASE + 1, LEN, false, true, true, MEM_BOUNDS, NOT_ASKED},
        {WRITABLE, BASE - 1, 2, false, true, false, MEM_BOUNDS, NOT_ASKED},
    };
    const uint8_t key[STAG_KEY_LEN] = {1};
    int asked = NOT_ASKED;
    struct mem_probe probe = {.check = probe_notes, .ctx = &asked};
    struct mem_table *mem = mem_table_create(key, 16, probe);
    uint32_t pd, other_pd, keys[NOBODYS + 1];
    uint8_t memory[LEN];
    assert_int_equal(mem_pd_alloc(mem, &pd), 0);
    assert_int_equal(mem_pd_alloc(mem, &other_pd), 0);
    static const uint32_t access[] = {
        [PINNED] = MEM_ACCESS_LOCAL_WRITE,
        [READ_ONLY] = MEM_ACCESS_ON_DEMAND,
        [WRITABLE] = MEM_ACCESS_ON_DEMAND | MEM_ACCESS_LOCAL_WRITE,
    };
    for (unsigned i = 0; i < WINDOW; i++) {
        assert_int_equal(mem_region_register(mem, pd, memory, LEN, BASE, access[i], &keys[i]), 0);
    }
    assert_int_equal(mem_window_alloc(mem, MEM_WINDOW_TYPE_2, pd, &keys[WINDOW]), 0);
    keys[NOBODYS] = keys[PINNED] ^ 1;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sge sge = {
            .addr = rows[i].addr, .length = rows[i].len, .lkey = keys[rows[i].key]};
        asked = NOT_ASKED;
        assert_int_equal(mem_region_prefetch(mem, rows[i].is_of_other_pd ? other_pd : pd, &sge,
                                             rows[i].write, rows[i].mapped),
                         rows[i].verdict);
        assert_int_equal(asked, rows[i].asked_writable);
    }
    mem_table_destroy(mem);
}

// A window on it would be one on something else.
static void a_region_with_windows_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    const uint32_t access = MEM_ACCESS_FULL | MEM_ACCESS_MW_BIND;
    uint32_t stag = fixture_region(f, 0, access), window, changed;
    assert_int_equal(mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &window), 0);
    const struct mem_binding binding = {
        .stag = window, .lkey = stag, .length = 8, .access = MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(f->table, (struct mem_asker){.pd = f->pd}, &binding), MEM_OK);
    const struct mem_reregistration to = {.changes = MEM_CHANGE_ACCESS, .access = access};
    assert_int_equal(mem_region_reregister(f->table, stag, &to, &changed), -EBUSY);
    assert_int_equal(mem_region_deregister(f->table, stag), -EBUSY);
    assert_int_equal(mem_window_dealloc(f->table, window), 0);
    assert_int_equal(mem_region_reregister(f->table, stag, &to, &changed), 0);
    assert_int_equal(changed, stag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(remote_writing_needs_local_write),
        MEM_TEST(unknown_access_bits_are_refused),
        MEM_TEST(a_region_is_relaxed_if_it_says_so_until_it_ends),
        MEM_TEST(an_empty_region_is_refused),
        MEM_TEST(ranges_that_pass_the_end_are_refused),
        cmocka_unit_test(what_the_probe_refuses_is_not_registered),
        MEM_TEST(offsets_are_numbered_from_iova),
        MEM_TEST(local_elements_use_the_same_numbers),
        MEM_TEST(a_new_translation_kills_the_old_stag),
        MEM_TEST(a_new_domain_or_access_keeps_the_stag),
        MEM_TEST(a_refused_reregistration_changes_nothing),
        MEM_TEST(the_numbering_changes_only_with_the_translation),
        MEM_TEST(deregistering_ends_the_stag_once),
        cmocka_unit_test(an_element_to_be_fetched_in_advance_is_judged),
        MEM_TEST(a_region_with_windows_stays_as_it_is),
        cmocka_unit_test(a_region_on_demand_is_asked_about_as_it_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
