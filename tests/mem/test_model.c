// Random lives of regions, windows and sinks against a model that keeps them in plain lists: every
// answer of the table is the model's, and its invariants hold throughout.
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "tests/mem/fixture.h"

enum { OBJECTS = 24, SINKS = 8, ELEMENT_LEN = 256, STEPS = 20000 };

struct object {
    uint32_t stag;
    uint32_t former; // an STag that it, or the object before it, no longer has
    uint32_t pd;
    uint32_t qp_num;
    uint32_t access;
    uint32_t first; // in the buffer, and the number of its first octet
    uint32_t length;
    struct object *region; // of a bound window
    bool is_live;
};

struct model {
    struct fixture *f;
    struct prng prng;
    struct object regions[OBJECTS];
    struct object windows[OBJECTS];
    struct object sinks[SINKS];
    struct sge elements[SINKS];
};

static uint32_t below(struct model *m, uint32_t bound)
{
    return prng_below(&m->prng, bound);
}

static uint32_t any_pd(struct model *m)
{
    return below(m, 4) == 0 ? m->f->other_pd : m->f->pd;
}

static bool is_bound(const struct model *m, const struct object *region)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (m->windows[i].is_live && m->windows[i].region == region) {
            return true;
        }
    }
    return false;
}

static void region_step(struct model *m)
{
    struct object *region = &m->regions[below(m, OBJECTS)];
    if (region->is_live) {
        bool is_busy = is_bound(m, region);
        assert_int_equal(mem_region_deregister(m->f->table, region->stag) < 0, is_busy);
        region->is_live = is_busy;
        region->former = is_busy ? region->former : region->stag;
        return;
    }
    region->pd = any_pd(m);
    region->access = MEM_ACCESS_LOCAL_WRITE | (below(m, 32) & MEM_ACCESS_FULL);
    region->first = below(m, FIXTURE_BUFFER_LEN);
    region->length = 1 + below(m, FIXTURE_BUFFER_LEN - region->first);
    region->is_live = true;
    assert_int_equal(mem_region_register(m->f->table, region->pd, m->f->buffer + region->first,
                                         region->length, region->first, region->access,
                                         &region->stag),
                     0);
}

static void window_bind(struct model *m, struct object *window)
{
    struct object *region = &m->regions[below(m, OBJECTS)];
    struct mem_asker asker = {.pd = any_pd(m), .qp_num = below(m, 2)};
    struct mem_binding b = {
        .stag = (window->stag & ~STAG_KEY_MASK) | ((window->stag + 1) & STAG_KEY_MASK),
        .lkey = region->stag,
        .addr = below(m, FIXTURE_BUFFER_LEN),
        .length = 1 + below(m, 200),
        .access = below(m, 16) & ~1U,
    };
    bool fits = region->is_live && region->pd == window->pd && asker.pd == window->pd &&
                (region->access & MEM_ACCESS_MW_BIND) && window->region == NULL &&
                b.addr >= region->first && b.addr + b.length <= region->first + region->length;
    assert_int_equal(mem_window_bind(m->f->table, asker, &b) == MEM_OK, fits);
    if (fits) {
        window->former = window->stag;
        window->stag = b.stag;
        window->region = region;
        window->qp_num = asker.qp_num;
        window->access = b.access;
        window->first = (uint32_t)b.addr;
        window->length = (uint32_t)b.length;
    }
}

static void window_invalidate(struct model *m, struct object *window)
{
    struct mem_asker asker = {.pd = any_pd(m), .qp_num = below(m, 2)};
    bool may = window->region != NULL && asker.pd == window->pd && asker.qp_num == window->qp_num;
    assert_int_equal(mem_invalidate(m->f->table, asker, window->stag, below(m, 2)) == MEM_OK, may);
    if (may) {
        window->region = NULL;
    }
}

static void window_step(struct model *m)
{
    struct object *window = &m->windows[below(m, OBJECTS)];
    if (!window->is_live) {
        *window = (struct object){.pd = any_pd(m), .is_live = true, .former = window->stag};
        assert_int_equal(
            mem_window_alloc(m->f->table, MEM_WINDOW_TYPE_2, window->pd, &window->stag), 0);
    } else if (below(m, 8) == 0) {
        assert_int_equal(mem_window_dealloc(m->f->table, window->stag), 0);
        window->is_live = false;
        window->region = NULL;
    } else if (window->region != NULL) {
        window_invalidate(m, window);
    } else {
        window_bind(m, window);
    }
}

static void sink_step(struct model *m)
{
    unsigned i = below(m, SINKS);
    struct object *sink = &m->sinks[i];
    if (sink->is_live) {
        assert_int_equal(mem_sink_close(m->f->table, sink->stag), 0);
        sink->is_live = false;
        sink->former = sink->stag;
        return;
    }
    struct object *region = &m->regions[below(m, OBJECTS)];
    m->elements[i] =
        (struct sge){.addr = region->first, .length = region->length, .lkey = region->stag};
    sink->pd = region->pd;
    sink->qp_num = below(m, 2);
    sink->length = region->length;
    sink->first = below(m, 1000);
    struct mem_asker asker = {.pd = sink->pd, .qp_num = sink->qp_num};
    assert_int_equal(mem_sink_open(m->f->table, asker, &m->elements[i], 1, 0, sink->length,
                                   sink->first, &sink->stag),
                     0);
    sink->is_live = true;
}

// The model's answer, from the rules alone.
static bool may_touch(const struct object *o, bool is_open, struct mem_asker asker, bool is_private,
                      uint64_t to, uint64_t len, uint32_t access)
{
    return o->is_live && is_open && o->pd == asker.pd &&
           (!is_private || o->qp_num == asker.qp_num) && (o->access & access) == access &&
           to >= o->first && to + len <= (uint64_t)o->first + o->length;
}

static void questions(struct model *m)
{
    struct mspan piece;
    unsigned count;
    struct mem_asker asker = {.pd = any_pd(m), .qp_num = below(m, 2)};
    uint64_t to = below(m, FIXTURE_BUFFER_LEN), len = 1 + below(m, 64);
    uint32_t access = 1U << (1 + below(m, 3));
    struct object *objects[] = {&m->regions[below(m, OBJECTS)], &m->windows[below(m, OBJECTS)]};
    for (unsigned kind = 0; kind < 2; kind++) {
        struct object *o = objects[kind];
        bool may = may_touch(o, kind == 0 || o->region != NULL, asker, kind == 1, to, len, access);
        enum mem_verdict verdict =
            mem_resolve(m->f->table, asker, o->stag, to, len, access, &piece, 1, &count);
        assert_int_equal(verdict == MEM_OK, may);
        if (may) {
            assert_ptr_equal(piece.ptr, m->f->buffer + to);
        }
        assert_int_equal(mem_resolve(m->f->table, asker, o->former, to, len, 0, &piece, 1, &count),
                         MEM_INVALID_STAG);
    }
    struct object *sink = &m->sinks[below(m, SINKS)];
    const struct sge *element = &m->elements[sink - m->sinks];
    bool may = may_touch(sink, true, asker, true, to, len, 0);
    bool is_backed = false;
    for (unsigned i = 0; i < OBJECTS; i++) {
        is_backed |= m->regions[i].is_live && m->regions[i].stag == element->lkey;
    }
    assert_int_equal(mem_resolve_sink(m->f->table, asker, sink->stag, to, len, &piece, 1, &count) ==
                         MEM_OK,
                     may && is_backed);
}

static void the_table_answers_as_the_model_does(void **state)
{
    static struct model m;
    uint64_t seeds = getenv("WEFT_SOAK") != NULL ? 1000 : 5;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        fixture_setup(state);
        m = (struct model){.f = *state};
        prng_init(&m.prng, seed);
        print_message("seed %llu\n", (unsigned long long)seed);
        assert_int_equal(mem_sinks_reserve(m.f->table, SINKS), 0);
        for (unsigned i = 0; i < STEPS; i++) {
            static void (*const steps[])(struct model *) = {region_step, window_step, sink_step};
            steps[below(&m, 3)](&m);
            questions(&m);
            if (i % 256 == 0) {
                assert_true(mem_table_check(m.f->table));
            }
        }
        fixture_teardown(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_answers_as_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
