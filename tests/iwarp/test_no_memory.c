// A queue pair while the Nth allocation fails, for every N: it is made whole or not at all.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cq/cq.h"
#include "iwarp/qp.h"
#include "mem/table.h"
#include "tests/failing_memory.h"

enum { ALLOCATIONS_MAX = 100 };

static const struct qp_config config = {
    .wq = {.qp_num = 5,
           .caps = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
           .ord_max = 4},
    .ird_max = 4,
    .rnr_store_len = 65536,
    .places_early = true,
};

static void queue_pair_is_made_whole_or_not_at_all(void **state)
{
    static const uint8_t key[STAG_KEY_LEN] = {7};
    struct qp_config own = config;
    own.wq.mem = mem_table_create(key, 64, (struct mem_probe){0});
    own.wq.send_cq = own.wq.recv_cq = cq_create(64, (struct cq_port){0});
    assert_int_equal(mem_pd_alloc(own.wq.mem, &own.wq.pd), 0);
    assert_int_equal(mem_sinks_reserve(own.wq.mem, own.wq.ord_max), 0); // stays with the table
    int64_t before = memory_blocks;
    struct qp *qp = NULL;
    int error = -ENOMEM;
    unsigned n = 1;
    for (; error != 0 && n < ALLOCATIONS_MAX; n++) {
        memory_fail_at(n);
        error = qp_create(&own, &qp);
        memory_fail_at(0);
        assert_true(error == 0 || error == -ENOMEM);
        assert_true(error == 0 || memory_blocks == before);
    }
    assert_int_equal(error, 0);
    // Itself with what lies behind it, both rings, a scheduler, what is beyond holes.
    assert_true(n > 5);
    assert_int_equal(qp_query(qp).sq_count, 0);
    qp_destroy(qp);
    assert_int_equal(memory_blocks, before);
    cq_destroy(own.wq.send_cq);
    mem_table_destroy(own.wq.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(queue_pair_is_made_whole_or_not_at_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
