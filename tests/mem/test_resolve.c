// The verdicts, as truth tables: kind of object x who asks x what is asked.
#include <stdio.h>

#include "tests/mem/fixture.h"

enum { BASE = 1000 };

// One object of each kind, open for remote reading and local writing of [BASE, BASE + 4096).
enum kind { REGION, WINDOW_1, WINDOW_2, UNBOUND_1, UNBOUND_2, SINK, NOTHING, KIND_COUNT };

static struct sge sink_list;

static uint32_t window_of(struct fixture *f, enum mem_window_type type, uint32_t lkey)
{
    uint32_t stag;
    assert_int_equal(mem_window_alloc(f->table, type, f->pd, &stag), 0);
    struct mem_binding binding = {.stag = stag ^ 1,
                                  .lkey = lkey,
                                  .addr = BASE,
                                  .length = FIXTURE_BUFFER_LEN,
                                  .access = MEM_ACCESS_REMOTE_READ};
    assert_int_equal(mem_window_bind(f->table, f->asker, &binding), MEM_OK);
    return stag ^ 1;
}

static void objects_make(struct fixture *f, uint32_t stags[KIND_COUNT])
{
    uint32_t access = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ | MEM_ACCESS_MW_BIND;
    stags[REGION] = fixture_region(f, BASE, access);
    stags[WINDOW_1] = window_of(f, MEM_WINDOW_TYPE_1, stags[REGION]);
    stags[WINDOW_2] = window_of(f, MEM_WINDOW_TYPE_2, stags[REGION]);
    mem_window_alloc(f->table, MEM_WINDOW_TYPE_1, f->pd, &stags[UNBOUND_1]);
    mem_window_alloc(f->table, MEM_WINDOW_TYPE_2, f->pd, &stags[UNBOUND_2]);
    sink_list = (struct sge){.addr = BASE, .length = FIXTURE_BUFFER_LEN, .lkey = stags[REGION]};
    assert_int_equal(mem_sinks_reserve(f->table, 1), 0);
    assert_int_equal(
        mem_sink_open(f->table, f->asker, &sink_list, 1, 0, FIXTURE_BUFFER_LEN, BASE, &stags[SINK]),
        0);
    stags[NOTHING] = 0xdeadbeef;
}

struct question {
    struct mem_asker asker;
    uint64_t to;
    uint64_t len;
    uint32_t access;
};

static void expect(struct fixture *f, const uint32_t stags[KIND_COUNT], struct question q,
                   const enum mem_verdict verdicts[KIND_COUNT])
{
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        enum mem_verdict verdict = fixture_resolve(f, q.asker, stags[kind], q.to, q.len, q.access);
        if (verdict != verdicts[kind]) {
            fail_msg("kind %u: %s, expected %s", kind, mem_verdict_name(verdict),
                     mem_verdict_name(verdicts[kind]));
        }
    }
}

#define VERDICTS(region, window_1, window_2, sink)                                     \
    (const enum mem_verdict[KIND_COUNT])                                               \
    {                                                                                  \
        [REGION] = region, [WINDOW_1] = window_1, [WINDOW_2] = window_2,               \
        [UNBOUND_1] = MEM_INVALID_STAG, [UNBOUND_2] = MEM_INVALID_STAG, [SINK] = sink, \
        [NOTHING] = MEM_INVALID_STAG                                                   \
    }

static void queue_pair_denies_what_a_region_allows(void **state)
{
    struct fixture *f = *state;
    uint32_t stags[KIND_COUNT];
    struct mem_asker asker = f->asker;
    objects_make(f, stags);
    asker.denied = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC;
    expect(f, stags, (struct question){asker, BASE, 1, MEM_ACCESS_REMOTE_READ},
           VERDICTS(MEM_OK, MEM_OK, MEM_OK, MEM_ACCESS));
    asker.denied = MEM_ACCESS_REMOTE_READ;
    expect(f, stags, (struct question){asker, BASE, 1, MEM_ACCESS_REMOTE_READ},
           VERDICTS(MEM_ACCESS, MEM_ACCESS, MEM_ACCESS, MEM_ACCESS));
}

static void truth_table_of_the_peers_questions(void **state)
{
    struct fixture *f = *state;
    uint32_t stags[KIND_COUNT];
    objects_make(f, stags);
    const uint32_t read = MEM_ACCESS_REMOTE_READ, write = MEM_ACCESS_REMOTE_WRITE;
    const uint32_t atomic = MEM_ACCESS_REMOTE_ATOMIC;
    const uint64_t end = BASE + FIXTURE_BUFFER_LEN;

    expect(f, stags, (struct question){f->asker, BASE, FIXTURE_BUFFER_LEN, read},
           VERDICTS(MEM_OK, MEM_OK, MEM_OK, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, end - 1, 1, read},
           VERDICTS(MEM_OK, MEM_OK, MEM_OK, MEM_ACCESS));
    expect(f, stags, (struct question){f->other_qp, BASE, 1, read},
           VERDICTS(MEM_OK, MEM_OK, MEM_WRONG_QP, MEM_WRONG_QP));
    expect(f, stags, (struct question){f->stranger, BASE, 1, read},
           VERDICTS(MEM_WRONG_PD, MEM_WRONG_PD, MEM_WRONG_PD, MEM_WRONG_PD));
    expect(f, stags, (struct question){f->asker, BASE, 1, write},
           VERDICTS(MEM_ACCESS, MEM_ACCESS, MEM_ACCESS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, BASE, 8, atomic},
           VERDICTS(MEM_ACCESS, MEM_ACCESS, MEM_ACCESS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, BASE, 1, read | write},
           VERDICTS(MEM_ACCESS, MEM_ACCESS, MEM_ACCESS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, BASE - 1, 1, read},
           VERDICTS(MEM_BOUNDS, MEM_BOUNDS, MEM_BOUNDS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, end, 1, read},
           VERDICTS(MEM_BOUNDS, MEM_BOUNDS, MEM_BOUNDS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, BASE, FIXTURE_BUFFER_LEN + 1, read},
           VERDICTS(MEM_BOUNDS, MEM_BOUNDS, MEM_BOUNDS, MEM_ACCESS));
    expect(f, stags, (struct question){f->asker, UINT64_MAX, 2, read},
           VERDICTS(MEM_WRAP, MEM_WRAP, MEM_WRAP, MEM_ACCESS));
}

static void truth_table_of_the_sinks_questions(void **state)
{
    struct fixture *f = *state;
    uint32_t stags[KIND_COUNT];
    objects_make(f, stags);
    const enum mem_verdict *verdicts = VERDICTS(MEM_ACCESS, MEM_ACCESS, MEM_ACCESS, MEM_OK);
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct mspan piece;
        unsigned count;
        assert_int_equal(
            mem_resolve_sink(f->table, f->asker, stags[kind], BASE, 1, &piece, 1, &count),
            verdicts[kind]);
    }
}

static void truth_table_of_the_local_questions(void **state)
{
    struct fixture *f = *state;
    uint32_t stags[KIND_COUNT];
    objects_make(f, stags);
    struct mspan span;
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct sge sge = {.addr = BASE, .length = 1, .lkey = stags[kind]};
        enum mem_verdict expected = kind == REGION ? MEM_OK : MEM_INVALID_STAG;
        assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, &span), expected);
    }
    struct sge sge = {.addr = BASE, .length = 1, .lkey = stags[REGION]};
    assert_int_equal(mem_resolve_sge(f->table, f->other_pd, &sge, false, &span), MEM_WRONG_PD);
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, true, &span), MEM_OK);
    sge.addr = BASE + FIXTURE_BUFFER_LEN;
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, &span), MEM_BOUNDS);
    sge.addr = UINT64_MAX;
    sge.length = 2;
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, false, &span), MEM_WRAP);
    sge = (struct sge){.addr = 0, .length = 1, .lkey = fixture_region(f, 0, 0)};
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, true, &span), MEM_ACCESS);
}

static void an_empty_element_names_nothing(void **state)
{
    struct fixture *f = *state;
    struct mspan span = {.len = 1};
    struct sge sge = {.addr = 0x123, .length = 0, .lkey = 0xdeadbeef};
    assert_int_equal(mem_resolve_sge(f->table, f->pd, &sge, true, &span), MEM_OK);
    assert_int_equal(span.len, 0);
}

static void a_region_may_end_at_the_last_number_there_is(void **state)
{
    struct fixture *f = *state;
    const uint64_t base = UINT64_MAX - FIXTURE_BUFFER_LEN + 1;
    uint32_t stag = fixture_region(f, base, 0);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base, FIXTURE_BUFFER_LEN, 0), MEM_OK);
    assert_int_equal(fixture_resolve(f, f->asker, stag, UINT64_MAX, 1, 0), MEM_OK);
    assert_int_equal(fixture_resolve(f, f->asker, stag, UINT64_MAX, 2, 0), MEM_WRAP);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base, FIXTURE_BUFFER_LEN + 1, 0), MEM_WRAP);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base, UINT64_MAX, 0), MEM_WRAP);
    assert_int_equal(fixture_resolve(f, f->asker, stag, 0, 1, 0), MEM_BOUNDS);
}

// Nothing is read or written here, so the region need not be backed by so much memory.
static void ranges_across_4_gib_are_whole(void **state)
{
    struct fixture *f = *state;
    const uint64_t length = 0x180000000ULL, base = 0xffff0000ULL;
    struct mspan piece;
    unsigned count;
    uint32_t stag;
    assert_int_equal(mem_region_register(f->table, f->pd, (void *)0x10000, length, base, 0, &stag),
                     0);
    assert_int_equal(mem_resolve(f->table, f->asker, stag, base, length, 0, &piece, 1, &count),
                     MEM_OK);
    assert_int_equal(piece.len, length);
    assert_int_equal(
        mem_resolve(f->table, f->asker, stag, 0x100000000ULL, 16, 0, &piece, 1, &count), MEM_OK);
    assert_ptr_equal(piece.ptr, (void *)0x20000);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base + length - 1, 2, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base - 0x100000000ULL, 1, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, stag, base, length + 0x100000000ULL, 0),
                     MEM_BOUNDS);
}

static void an_empty_range_is_checked_like_any_other(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, BASE, 0);
    const uint64_t end = BASE + FIXTURE_BUFFER_LEN;
    assert_int_equal(fixture_resolve(f, f->asker, stag, end, 0, 0), MEM_OK);
    assert_int_equal(fixture_resolve(f, f->asker, stag, end + 1, 0, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, stag, BASE - 1, 0, 0), MEM_BOUNDS);
    assert_int_equal(fixture_resolve(f, f->asker, stag, BASE, 0, MEM_ACCESS_REMOTE_READ),
                     MEM_ACCESS);
    assert_int_equal(fixture_resolve(f, f->asker, stag ^ 1, BASE, 0, 0), MEM_INVALID_STAG);
}

static void every_answer_is_counted(void **state)
{
    struct fixture *f = *state;
    uint32_t stag = fixture_region(f, 0, 0);
    fixture_resolve(f, f->asker, stag, 0, 1, 0);
    fixture_resolve(f, f->asker, stag, 0, 1, 0);
    fixture_resolve(f, f->asker, stag, 0, FIXTURE_BUFFER_LEN + 1, 0);
    fixture_resolve(f, f->asker, stag, UINT64_MAX, 2, 0);
    fixture_resolve(f, f->asker, stag, 0, 1, MEM_ACCESS_REMOTE_WRITE);
    fixture_resolve(f, f->stranger, stag, 0, 1, 0);
    fixture_resolve(f, f->asker, stag ^ 1, 0, 1, 0);
    mem_invalidate(f->table, f->asker, stag, true);
    const uint64_t expected[MEM_VERDICT_COUNT] = {
        [MEM_OK] = 2,
        [MEM_BOUNDS] = 1,
        [MEM_WRAP] = 1,
        [MEM_ACCESS] = 1,
        [MEM_WRONG_PD] = 1,
        [MEM_INVALID_STAG] = 1,
        [MEM_CANNOT_INVALIDATE] = 1,
    };
    for (unsigned verdict = 0; verdict < MEM_VERDICT_COUNT; verdict++) {
        assert_int_equal(mem_table_verdict_count(f->table, verdict), expected[verdict]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MEM_TEST(truth_table_of_the_peers_questions),
        MEM_TEST(queue_pair_denies_what_a_region_allows),
        MEM_TEST(truth_table_of_the_sinks_questions),
        MEM_TEST(truth_table_of_the_local_questions),
        MEM_TEST(an_empty_element_names_nothing),
        MEM_TEST(a_region_may_end_at_the_last_number_there_is),
        MEM_TEST(ranges_across_4_gib_are_whole),
        MEM_TEST(an_empty_range_is_checked_like_any_other),
        MEM_TEST(every_answer_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
