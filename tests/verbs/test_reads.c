// Preemptible partial reads as an ordinary program has them: the library that its calls enter makes
// a first request of its Read, and subsidiary ones (the product of claim 27).
#include <weft/reads.h>

#include "tests/verbs/pair.h"

enum { ALLOTMENT = BENCH_BUF_LEN / 8 };

static struct pair pair;

static int setup(void **state)
{
    pair_init(&pair);
    assert_int_equal(weft_reads_set_allotment(ALLOTMENT), 0);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(weft_reads_release_allotment(), 0);
    pair_fini(*state);
    return 0;
}

static uint8_t octet_at(size_t at)
{
    return (uint8_t)(at * 7 + at / 256);
}

static void a_read_of_many_allotments_brings_every_octet(void **state)
{
    struct pair *p = *state;
    struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = (uintptr_t)p->b.buf;
    wr.wr.rdma.rkey = p->b.mr->rkey;
    for (size_t i = 0; i < BENCH_BUF_LEN; i++) {
        p->b.buf[i] = octet_at(i);
    }
    assert_int_equal(pair_post_send(&p->a, wr, bench_sge(&p->a, 0, BENCH_BUF_LEN)).opcode,
                     IBV_WC_RDMA_READ);
    assert_memory_equal(p->a.buf, p->b.buf, BENCH_BUF_LEN);
    struct weft_reads reads;
    assert_int_equal(weft_reads_query(&reads), 0);
    assert_int_equal(reads.allotment, ALLOTMENT);
    assert_int_equal(reads.contexts_in_use, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_read_of_many_allotments_brings_every_octet, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
