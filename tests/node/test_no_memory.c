// The agents of the node are made while the Nth allocation fails, for every N: whoever is asked
// says so, and what it had taken is given back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node/bus/residual.h"
#include "node/cta/cta.h"
#include "node/nvme/controller.h"
#include "node/rta/rta.h"
#include "node/uma/uma.h"
#include "tests/failing_memory.h"
#include "tests/node/fake_bus.h"

enum { POOL_LEN = NODE_TRANSFER_MAX, CALLS_MAX = 100 };

static struct fake_bus bus;

static void *residual_make(void)
{
    return residual_create(fake_bus_port(&bus.cta), 16, NULL, NULL);
}

static void residual_end(void *made)
{
    residual_destroy(made);
}

// With a unit, since that is where most of its memory goes.
static void *cta_make(void)
{
    static const struct uma_for_cta uma;
    struct cta_parts parts = {.pool = {.len = POOL_LEN}, .uma = &uma};
    struct cta *cta = cta_create(&parts);
    if (cta != NULL && !cta_for_uma.unit_add(cta, 3, fake_bus_port(&bus.cta))) {
        assert_true(cta_check(cta)); // it goes on without
        cta_destroy(cta);
        return NULL;
    }
    return cta;
}

static void cta_end(void *made)
{
    cta_destroy(made);
}

static void *rta_make(void)
{
    static const struct io_format *const formats[] = {NULL};
    struct rta_parts parts = {.bus = fake_bus_port(&bus.rta), .pool_len = POOL_LEN};
    parts.formats = formats;
    return rta_create(&parts);
}

static void rta_end(void *made)
{
    rta_destroy(made);
}

static void *uma_make(void)
{
    struct uma_parts parts = {0};
    return uma_create(&parts);
}

static void uma_end(void *made)
{
    uma_destroy(made);
}

static void *target_make(void)
{
    struct nvme_target_parts parts = {0};
    return nvme_target_create(&parts);
}

static void target_end(void *made)
{
    nvme_target_destroy(made);
}

static const struct {
    const char *name;
    void *(*make)(void);
    void (*end)(void *made);
    unsigned calls_least;
} makers[] = {
    {"residual message store", residual_make, residual_end, 2},
    {"CTA", cta_make, cta_end, 4},
    {"RTA", rta_make, rta_end, 4},
    {"UMA", uma_make, uma_end, 1},
    {"NVMe target", target_make, target_end, 1},
};

static void who_gets_no_memory_says_so_and_keeps_none(void **state)
{
    for (unsigned i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        void *made = NULL;
        unsigned call = 0;
        while (made == NULL && call < CALLS_MAX) {
            int64_t before = memory_blocks;
            memory_fail_at(++call);
            made = makers[i].make();
            memory_fail_at(0);
            if (made == NULL && memory_blocks != before) {
                fail_msg("%s: %lld blocks are left of call %u", makers[i].name,
                         (long long)(memory_blocks - before), call);
            }
            if (made != NULL) {
                makers[i].end(made);
                assert_int_equal(memory_blocks, before);
            }
        }
        assert_non_null(made);
        if (call <= makers[i].calls_least) {
            fail_msg("%s: made though call %u failed", makers[i].name, call);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gets_no_memory_says_so_and_keeps_none),
    };
    fake_bus_init(&bus, 1, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
