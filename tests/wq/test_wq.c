// Work queues by the calls that a transport makes. None that there is asks for octets again, or
// releases and settles apart at its own pace, as others will.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "wq/wq.h"

enum { MEMORY_LEN = 1 << 16, PIECE_COUNT = 5 };

struct queues {
    struct mem_table *mem;
    uint32_t pd, lkey;
    uint8_t *memory;
    struct cq *cq;
    struct wq_config config;
    struct wq_counters counters;
    struct wq wq;
};

static struct queues *queues_open(void)
{
    struct queues *q = calloc(1, sizeof *q);
    uint8_t key[STAG_KEY_LEN] = {7};
    q->mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(q->mem, &q->pd), 0);
    q->memory = aligned_alloc(4096, MEMORY_LEN);
    for (unsigned i = 0; i < MEMORY_LEN; i++) {
        q->memory[i] = (uint8_t)(i * 31 + i / 256);
    }
    assert_int_equal(mem_region_register(q->mem, q->pd, q->memory, MEMORY_LEN, (uintptr_t)q->memory,
                                         MEM_ACCESS_LOCAL_WRITE, &q->lkey),
                     0);
    q->cq = cq_create(64, (struct cq_port){0});
    q->config = (struct wq_config){
        .qp_num = 5,
        .pd = q->pd,
        .caps = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 8, .max_recv_sge = 1},
        .send_cq = q->cq,
        .recv_cq = q->cq,
        .sq_sig_all = true,
        .mem = q->mem,
        .ord_max = 1,
    };
    assert_int_equal(wq_init(&q->wq, &q->config, &q->counters), 0);
    wq_begin(&q->wq);
    return q;
}

static void queues_close(struct queues *q)
{
    assert_true(wq_check(&q->wq, 0));
    wq_fini(&q->wq);
    cq_destroy(q->cq);
    mem_table_destroy(q->mem);
    free(q->memory);
    free(q);
}

// A Write from pieces of the memory that lie apart, one of them empty.
static void post_write(struct queues *q, uint64_t wr_id, const uint32_t *lengths)
{
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    assert_non_null(wqe);
    *wqe = (struct send_wqe){.wr_id = wr_id, .opcode = WQE_RDMA_WRITE, .sge_count = PIECE_COUNT};
    for (unsigned i = 0; i < PIECE_COUNT; i++) {
        wqe->sge[i] = (struct sge){
            .addr = (uintptr_t)q->memory + i * 4096, .length = lengths[i], .lkey = q->lkey};
        wqe->length += lengths[i];
    }
    wq_send_commit(&q->wq, 1);
}

static uint32_t start(struct queues *q)
{
    struct transport_work work;
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_MESSAGE);
    return work.handle;
}

static void expect_octets(struct queues *q, uint32_t handle, const uint8_t *expected,
                          uint64_t offset, size_t len)
{
    struct span pieces[SGE_COUNT_MAX];
    unsigned count = wq_message_octets(&q->wq, handle, offset, len, pieces);
    assert_true(count > 0);
    size_t done = 0;
    for (unsigned i = 0; i < count; i++) {
        assert_memory_equal(pieces[i].ptr, expected + offset + done, pieces[i].len);
        done += pieces[i].len;
    }
    assert_int_equal(done, len);
}

static size_t payload_of(const struct queues *q, const uint32_t *lengths, uint8_t *ret)
{
    size_t len = 0;
    for (unsigned i = 0; i < PIECE_COUNT; i++) {
        memcpy(ret + len, q->memory + i * 4096, lengths[i]);
        len += lengths[i];
    }
    return len;
}

static unsigned completions(struct queues *q)
{
    struct cqe cqe;
    unsigned count = 0;
    while (cq_poll(q->cq, &cqe, 1) == 1) {
        assert_int_equal(cqe.status, WC_SUCCESS);
        count++;
    }
    return count;
}

/* ---- payload --------------------------------------------------------------------------------- */

static void octets_may_be_asked_for_again_at_any_offset(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {100, 0, 1, 2000, 33};
    struct queues *q = queues_open();
    struct prng prng;
    uint8_t expected[8192];
    prng_init(&prng, 9);
    size_t len = payload_of(q, lengths, expected);
    post_write(q, 1, lengths);
    uint32_t handle = start(q);
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t offset = prng_below(&prng, (uint32_t)len);
        expect_octets(q, handle, expected, offset, 1 + prng_below(&prng, (uint32_t)(len - offset)));
    }
    queues_close(q);
}

static void octets_of_what_has_left_may_be_asked_for_until_it_is_settled(void **state)
{
    const uint32_t first[PIECE_COUNT] = {10, 20, 30, 40, 50}, second[PIECE_COUNT] = {7, 6, 5, 4, 3};
    struct queues *q = queues_open();
    uint8_t of_first[256], of_second[256];
    size_t len = payload_of(q, first, of_first);
    payload_of(q, second, of_second);
    post_write(q, 1, first);
    post_write(q, 2, second);
    uint32_t a = start(q);
    expect_octets(q, a, of_first, 0, len);
    wq_message_put(&q->wq, 1000);
    uint32_t b = start(q);
    expect_octets(q, b, of_second, 0, 12);
    expect_octets(q, a, of_first, 12, 100); // it was lost on its way
    expect_octets(q, b, of_second, 12, 3);
    queues_close(q);
}

static void memory_that_is_gone_gives_no_octets(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct span pieces[SGE_COUNT_MAX];
    post_write(q, 1, lengths);
    uint32_t handle = start(q);
    assert_int_equal(mem_region_deregister(q->mem, q->lkey), 0);
    assert_int_equal(wq_message_octets(&q->wq, handle, 15, 5, pieces), 0);
    queues_close(q);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void memory_is_read_until_released_and_completed_when_settled(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    post_write(q, 1, lengths);
    start(q);
    wq_message_put(&q->wq, 5); // marks need not count octets
    assert_true(wq_reads_from(&q->wq, q->lkey));
    wq_on_released(&q->wq, 4, 75);
    assert_true(wq_reads_from(&q->wq, q->lkey));
    wq_on_released(&q->wq, 5, 75);
    assert_false(wq_reads_from(&q->wq, q->lkey));
    assert_int_equal(completions(q), 0);
    wq_on_settled(&q->wq, 4);
    assert_int_equal(completions(q), 0);
    wq_on_settled(&q->wq, 5);
    assert_int_equal(completions(q), 1);
    queues_close(q);
}

static void a_transport_may_carry_out_and_settle_in_one_call(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    for (uint64_t mark = 1; mark <= 40; mark++) { // more than the queue has slots
        post_write(q, mark, lengths);
        start(q);
        wq_message_put(&q->wq, mark);
        wq_on_released(&q->wq, mark, 150);
        wq_on_settled(&q->wq, mark);
        assert_int_equal(completions(q), 1);
    }
    queues_close(q);
}

/* ---- what a transport cannot carry ----------------------------------------------------------- */

static void an_operation_that_the_transport_refuses_fails_before_it_leaves(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct transport_work work;
    struct cqe cqe;
    q->wq.facts.refused = 1U << WQE_RDMA_WRITE;
    post_write(q, 1, lengths);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_FAILED);
    wq_complete_sends(&q->wq);
    assert_true(cq_poll(q->cq, &cqe, 1) == 1);
    assert_int_equal(cqe.status, WC_LOC_QP_OP_ERR);
    queues_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_may_be_asked_for_again_at_any_offset),
        cmocka_unit_test(octets_of_what_has_left_may_be_asked_for_until_it_is_settled),
        cmocka_unit_test(memory_that_is_gone_gives_no_octets),
        cmocka_unit_test(memory_is_read_until_released_and_completed_when_settled),
        cmocka_unit_test(a_transport_may_carry_out_and_settle_in_one_call),
        cmocka_unit_test(an_operation_that_the_transport_refuses_fails_before_it_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
