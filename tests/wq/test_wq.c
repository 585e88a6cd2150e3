// Work queues by the calls that a transport makes; tests/transport/ has whole transports.
#include <errno.h>
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
        .caps = {.max_send_wr = 16,
                 .max_recv_wr = 4,
                 .max_send_sge = 8,
                 .max_recv_sge = 1,
                 .max_inline_len = 64},
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

static void octets_of_empty_elements_are_no_pieces(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {0, 10, 0, 20, 30};
    struct queues *q = queues_open();
    struct span pieces[SGE_COUNT_MAX];
    post_write(q, 1, lengths);
    assert_int_equal(wq_message_octets(&q->wq, start(q), 0, 60, pieces), 3);
    queues_close(q);
}

static void inline_octets_are_those_in_the_entry(void **state)
{
    struct queues *q = queues_open();
    struct span pieces[SGE_COUNT_MAX];
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    assert_non_null(wqe);
    *wqe = (struct send_wqe){.opcode = WQE_SEND, .flags = WQE_INLINE, .length = 40};
    wq_send_commit(&q->wq, 1);
    assert_int_equal(wq_message_octets(&q->wq, start(q), 10, 30, pieces), 1);
    assert_ptr_equal(pieces[0].ptr, wqe->inline_data + 10);
    assert_int_equal(pieces[0].len, 30);
    queues_close(q);
}

static void memory_that_may_only_be_read_is_sent(void **state)
{
    struct queues *q = queues_open();
    struct span pieces[SGE_COUNT_MAX];
    uint32_t lkey;
    assert_int_equal(
        mem_region_register(q->mem, q->pd, q->memory, 100, (uintptr_t)q->memory, 0, &lkey), 0);
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    assert_non_null(wqe);
    *wqe = (struct send_wqe){.opcode = WQE_SEND, .sge_count = 1, .length = 100};
    wqe->sge[0] = (struct sge){.addr = (uintptr_t)q->memory, .length = 100, .lkey = lkey};
    wq_send_commit(&q->wq, 1);
    assert_int_equal(wq_message_octets(&q->wq, start(q), 0, 100, pieces), 1);
    queues_close(q);
}

// The cursor stands where they ended, in the element that the next are of.
static void who_goes_on_is_not_made_to_look_for_the_place(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct span pieces[SGE_COUNT_MAX];
    post_write(q, 1, lengths);
    uint32_t handle = start(q);
    for (uint64_t offset = 0; offset < 150; offset += 15) {
        wq_message_octets(&q->wq, handle, offset, 15, pieces);
        assert_int_equal(q->wq.cursor.handle, handle);
        assert_int_equal(q->wq.cursor.offset, offset + 15);
    }
    assert_int_equal(q->wq.cursor.index, PIECE_COUNT);
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

static void one_that_needs_no_peer_is_refused_too(void **state)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_READ, WQE_BIND_MW, WQE_LOCAL_INV};
    for (unsigned i = 0; i < 3; i++) {
        struct queues *q = queues_open();
        struct transport_work work;
        struct cqe cqe;
        wq_set_ord(&q->wq, 1);
        q->wq.facts.refused = 1U << opcodes[i];
        *wq_send_slot(&q->wq, 0) = (struct send_wqe){.opcode = opcodes[i]};
        wq_send_commit(&q->wq, 1);
        assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_FAILED);
        wq_complete_sends(&q->wq);
        assert_true(cq_poll(q->cq, &cqe, 1) == 1);
        assert_int_equal(cqe.status, WC_LOC_QP_OP_ERR);
        queues_close(q);
    }
}

/* ---- what leaves, and when ------------------------------------------------------------------- */

static void post_read(struct queues *q, uint32_t len)
{
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    *wqe = (struct send_wqe){.opcode = WQE_RDMA_READ, .sge_count = 1, .length = len};
    wqe->sge[0] = (struct sge){(uintptr_t)q->memory, len, q->lkey};
    wq_send_commit(&q->wq, 1);
}

static void nothing_leaves_while_it_is_held(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct transport_work work;
    wq_set_ord(&q->wq, 1);
    post_read(q, 100);
    post_write(q, 1, lengths);
    q->wq.now = 1000;
    assert_int_equal(wq_hold_deadline(&q->wq), INSTANT_NEVER);
    wq_hold(&q->wq, 1500);
    assert_int_equal(wq_hold_deadline(&q->wq), 1500);
    q->wq.now = 1499;
    assert_false(wq_has_work(&q->wq));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    q->wq.now = 1500;
    assert_int_equal(wq_hold_deadline(&q->wq), INSTANT_NEVER);
    assert_true(wq_has_work(&q->wq));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_fail(&q->wq, work.context, WC_GENERAL_ERR);
    wq_hold(&q->wq, 9999);
    wq_begin(&q->wq); // that was another connection
    start(q);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

static void requests_that_may_leave_are_work_behind_the_last_entry(void **state)
{
    struct queues *q = queues_open();
    struct transport_work work;
    wq_set_ord(&q->wq, 1);
    q->wq.reads.allotment_len = 60;
    post_read(q, 100);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_put(&q->wq, work.context, 1);
    assert_false(wq_has_work(&q->wq)); // one at a time
    work.context->arrived_len = work.context->length;
    wq_request_answered(&q->wq, work.context);
    assert_false(wq_has_entry(&q->wq));
    assert_true(wq_has_work(&q->wq));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    assert_int_equal(work.context->length, 40);
    wq_request_fail(&q->wq, work.context, WC_GENERAL_ERR);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

// The first of a Read's requests is on its way, the second waits for its answer.
static struct read_context *begin_read_of_two(struct queues *q)
{
    struct transport_work work;
    wq_set_ord(&q->wq, 1);
    q->wq.reads.allotment_len = 60;
    post_read(q, 100);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_put(&q->wq, work.context, 1);
    return work.context;
}

static void answer(struct queues *q, struct read_context *context)
{
    context->arrived_len = context->length;
    wq_request_answered(&q->wq, context);
}

static void a_fence_holds_until_the_last_part_of_the_read_is_answered(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct transport_work work;
    struct read_context *first = begin_read_of_two(q);
    post_write(q, 1, lengths);
    wq_send_at(&q->wq, 1)->flags |= WQE_FENCE;
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    assert_false(wq_has_entry(&q->wq));
    answer(q, first);
    assert_false(wq_has_entry(&q->wq));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_put(&q->wq, work.context, 2);
    answer(q, work.context);
    assert_true(wq_has_entry(&q->wq));
    start(q);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

static void a_message_is_next_if_no_request_is(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    assert_null(wq_next_message(&q->wq)); // there is none
    struct read_context *first = begin_read_of_two(q);
    post_write(q, 1, lengths);
    assert_non_null(wq_next_message(&q->wq));
    answer(q, first); // the second request may leave
    assert_null(wq_next_message(&q->wq));
    wq_requests_forget(&q->wq);
    assert_non_null(wq_next_message(&q->wq));
    wq_hold(&q->wq, q->wq.now + 1);
    assert_null(wq_next_message(&q->wq));
    queues_close(q);
}

// So many that have not begun are seen, from this one on.
static void expect_transfers(struct queues *q, uint32_t from, uint32_t count)
{
    struct wq_transfers walk = wq_transfers_begin(&q->wq);
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(wq_transfers_next(&walk), wq_send_at(&q->wq, from + i));
    }
    assert_null(wq_transfers_next(&walk));
}

// Writes, one of them fenced, and how many are seen of those that have not begun.
static void what_has_not_begun_is_seen_up_to_a_fence(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    expect_transfers(q, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        post_write(q, i, lengths);
    }
    wq_send_at(&q->wq, 2)->flags |= WQE_FENCE;
    assert_int_equal(wq_unbegun_count(&q->wq), 3);
    expect_transfers(q, 0, 2);
    start(q);
    wq_message_put(&q->wq, 1);
    assert_int_equal(wq_unbegun_count(&q->wq), 2);
    expect_transfers(q, 1, 1);
    wq_hold(&q->wq, q->wq.now + 1);
    expect_transfers(q, 1, 0);
    queues_close(q);
}

static void nothing_is_seen_while_requests_of_a_read_come_first(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct read_context *first = begin_read_of_two(q);
    post_write(q, 1, lengths);
    expect_transfers(q, 1, 1);
    answer(q, first); // the second request may leave
    expect_transfers(q, 1, 0);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

static void a_completion_tells_what_its_message_has_brought(void **state)
{
    struct queues *q = queues_open();
    struct cqe cqe;
    *wq_receive_slot(&q->wq, 0) = (struct recv_wqe){.wr_id = 9};
    wq_receive_commit(&q->wq, 1);
    struct recv_wqe *wqe = wq_receive_claim(&q->wq);
    wqe->message = (struct recv_message){.opcode = WC_RECV,
                                         .byte_len = 77,
                                         .wc_flags = WC_WITH_IMM,
                                         .imm_or_inv = 0x01020304,
                                         .reference = UINT64_MAX};
    wq_complete_receive(&q->wq, wqe, WC_SUCCESS, false);
    assert_int_equal(cq_poll(q->cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, 9);
    assert_int_equal(cqe.opcode, WC_RECV);
    assert_int_equal(cqe.byte_len, 77);
    assert_int_equal(cqe.wc_flags, WC_WITH_IMM);
    assert_int_equal(cqe.imm_data, 0x01020304);
    assert_true(cqe.reference == UINT64_MAX);
    queues_close(q);
}

static void an_entry_has_room_for_an_address_behind_its_payload(void **state)
{
    struct queues *q = queues_open();
    struct wq_config config = q->config;
    struct wq wq = {0};
    // Up to three octets before a line of the cache, so that it has no room by accident.
    const uint32_t len = 2 * CACHE_LINE_LEN - sizeof(struct send_wqe) % CACHE_LINE_LEN - 3;
    config.caps = (struct wq_caps){.max_send_wr = 4, .max_send_sge = 1, .max_inline_len = len};
    config.address_len = 24;
    assert_int_equal(wq_init(&wq, &config, &q->counters), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct send_wqe *wqe = wq_send_slot(&wq, i);
        memset(wq_send_address(&wq, wqe), 0x11 * (int)i, 24);
        *wqe = (struct send_wqe){.opcode = WQE_SEND, .flags = WQE_INLINE, .length = len};
        memset(wqe->inline_data, 0xff, len);
    }
    for (unsigned i = 0; i < 4; i++) {
        uint8_t expected[24];
        memset(expected, 0x11 * (int)i, 24);
        const uint64_t *address = wq_send_address(&wq, wq_send_slot(&wq, i));
        assert_int_equal((uintptr_t)address % sizeof *address, 0);
        assert_memory_equal(address, expected, 24);
    }
    wq_fini(&wq);
    queues_close(q);
}

static void nothing_is_asked_for_while_the_transport_wants_none(void **state)
{
    struct queues *q = queues_open();
    struct transport_work work;
    wq_set_ord(&q->wq, 1);
    q->wq.keeps_requests = true;
    post_read(q, 100);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    q->wq.keeps_requests = false;
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_fail(&q->wq, work.context, WC_GENERAL_ERR);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

static void a_request_that_cannot_be_made_fails_its_work_request(void **state)
{
    struct queues *q = queues_open();
    struct transport_work work;
    struct cqe cqe;
    wq_set_ord(&q->wq, 1);
    post_read(q, 100);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_fail(&q->wq, work.context, WC_LOC_PROT_ERR);
    wq_complete_sends(&q->wq);
    assert_int_equal(cq_poll(q->cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_LOC_PROT_ERR);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

/* ---- a peer that does not answer ------------------------------------------------------------- */

// A Read's request is out behind a Write of 150 octets, since 500, and is waited for 1000.
static struct queues *wait_behind_a_write(void)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct transport_work work;
    q->config.read_timeout_ns = 1000;
    q->wq.now = 500;
    wq_set_ord(&q->wq, 1);
    post_write(q, 1, lengths);
    post_read(q, 100);
    start(q);
    wq_message_put(&q->wq, 150);
    assert_int_equal(wq_read_deadline(&q->wq), INSTANT_NEVER);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_put(&q->wq, work.context, 150);
    assert_int_equal(wq_read_deadline(&q->wq), 1500);
    return q;
}

static void an_answer_that_does_not_come_in_time_fails_its_read(void **state)
{
    struct queues *q = wait_behind_a_write();
    struct cqe cqe;
    wq_on_released(&q->wq, 150, 150);
    wq_on_settled(&q->wq, 150);
    assert_int_equal(completions(q), 1);
    q->wq.now = 1500;
    assert_true(wq_read_timeout(&q->wq));
    wq_complete_sends(&q->wq);
    assert_int_equal(cq_poll(q->cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_RETRY_EXC_ERR);
    wq_requests_forget(&q->wq);
    assert_false(wq_read_timeout(&q->wq)); // none is out
    queues_close(q);
}

// What stands before it is no request that leaves.
static void an_answer_is_waited_for_from_when_its_request_was_taken(void **state)
{
    struct queues *q = wait_behind_a_write();
    q->wq.now = 600;
    wq_on_released(&q->wq, 150, 150);
    assert_int_equal(wq_read_deadline(&q->wq), 1500);
    q->wq.now = 700;
    wq_on_released(&q->wq, 160, 10);
    assert_int_equal(wq_read_deadline(&q->wq), 1700);
    q->wq.now = 800;
    wq_on_released(&q->wq, 170, 10); // behind it
    assert_int_equal(wq_read_deadline(&q->wq), 1700);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void a_send_queue_may_go_on_after_an_error(void **state)
{
    const uint32_t lengths[PIECE_COUNT] = {10, 20, 30, 40, 50};
    struct queues *q = queues_open();
    struct transport_work work;
    struct cqe cqe;
    post_write(q, 1, lengths);
    start(q);
    wq_fail(&q->wq, WC_LOC_LEN_ERR);
    wq_close(&q->wq);
    wq_flush_sends(&q->wq);
    assert_true(cq_poll(q->cq, &cqe, 1) == 1);
    post_write(q, 2, lengths);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    wq_flush_sends(&q->wq);
    assert_true(cq_poll(q->cq, &cqe, 1) == 1);
    assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
    wq_resume(&q->wq);
    post_write(q, 3, lengths);
    start(q);
    wq_message_put(&q->wq, 1);
    wq_on_released(&q->wq, 1, 150);
    wq_on_settled(&q->wq, 1);
    assert_int_equal(completions(q), 1);
    queues_close(q);
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct sampled {
    unsigned count;
    enum wqe_opcode opcode;
    instant_ns posted_at_ns;
};

static void note_sampled(void *ctx, enum wqe_opcode opcode, instant_ns posted_at_ns)
{
    struct sampled *sampled = ctx;
    *sampled = (struct sampled){sampled->count + 1, opcode, posted_at_ns};
}

static void post_chosen(struct queues *q, instant_ns posted_at_ns)
{
    const uint32_t lengths[PIECE_COUNT] = {1};
    wq_send_slot(&q->wq, 0);
    post_write(q, 1, lengths);
    wq_send_at(&q->wq, q->wq.sq_next)->posted_at_ns = posted_at_ns;
}

static void who_was_chosen_to_be_measured_is_told_of_when_it_succeeds(void **state)
{
    struct queues *q = queues_open();
    struct sampled sampled = {0};
    q->config.on_sampled = note_sampled;
    q->config.ctx = &sampled;
    post_chosen(q, 0);
    start(q);
    wq_message_put(&q->wq, 1);
    wq_on_released(&q->wq, 1, 1);
    wq_on_settled(&q->wq, 1);
    assert_int_equal(sampled.count, 0); // not chosen

    post_chosen(q, 77);
    start(q);
    wq_message_put(&q->wq, 2);
    wq_on_released(&q->wq, 2, 1);
    assert_int_equal(sampled.count, 0); // not over
    wq_on_settled(&q->wq, 2);
    assert_int_equal(sampled.count, 1);
    assert_int_equal(sampled.opcode, WQE_RDMA_WRITE);
    assert_true(sampled.posted_at_ns == 77);

    post_chosen(q, 78);
    start(q);
    wq_fail(&q->wq, WC_LOC_LEN_ERR);
    wq_complete_sends(&q->wq);
    assert_int_equal(sampled.count, 1); // not successful
    q->config.ctx = NULL;
    queues_close(q);
}

/* ---- what there may be of each --------------------------------------------------------------- */

// One entry at least, and what was really made is told.
static void queues_are_made_of_what_can_be(void **state)
{
    enum { WR_MAX = 1 << 20, INLINE_MAX = 1 << 16 };
    static const struct {
        struct wq_caps caps;
        bool may;
    } rows[] = {
        {{.max_send_wr = 0, .max_recv_wr = 0}, true},
        {{.max_send_wr = 5, .max_recv_wr = 9}, true},
        {{.max_send_wr = 1, .max_inline_len = INLINE_MAX}, true},
        {{.max_send_wr = 1, .max_inline_len = INLINE_MAX + 1}, false},
        {{.max_send_wr = 1, .max_send_sge = SGE_COUNT_MAX}, true},
        {{.max_send_wr = 1, .max_send_sge = SGE_COUNT_MAX + 1}, false},
        {{.max_send_wr = 1, .max_recv_sge = SGE_COUNT_MAX}, true},
        {{.max_send_wr = 1, .max_recv_sge = SGE_COUNT_MAX + 1}, false},
        {{.max_send_wr = WR_MAX}, true},
        {{.max_send_wr = WR_MAX + 1}, false},
        {{.max_recv_wr = WR_MAX + 1}, false},
    };
    struct read_sched *sched = read_sched_create(1, 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wq_counters counters = {0};
        struct wq_config config = {.caps = rows[i].caps, .read_sched = sched};
        struct wq wq = {0};
        assert_int_equal(wq_init(&wq, &config, &counters), rows[i].may ? 0 : -EINVAL);
        if (rows[i].may) {
            assert_true(config.caps.max_send_wr > 0 && config.caps.max_recv_wr > 0);
            assert_true(config.caps.max_send_wr >= rows[i].caps.max_send_wr);
            assert_true(config.caps.max_recv_wr >= rows[i].caps.max_recv_wr);
            assert_int_equal(config.caps.max_send_wr, wq.sq.capacity);
            assert_int_equal(config.caps.max_recv_wr, wq.rq.capacity);
            wq_fini(&wq);
        }
    }
    read_sched_destroy(sched);
}

static void elements_of_a_receive_end_before_the_next_receive(void **state)
{
    struct read_sched *sched = read_sched_create(1, 0);
    struct wq_counters counters = {0};
    struct wq_config config = {.caps = {.max_recv_wr = 4, .max_recv_sge = SGE_COUNT_MAX},
                               .read_sched = sched};
    struct wq wq = {0};
    assert_int_equal(wq_init(&wq, &config, &counters), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct recv_wqe *wqe = wq_receive_slot(&wq, i);
        wqe->wr_id = i;
        memset(wqe->sge, 0xff, SGE_COUNT_MAX * sizeof wqe->sge[0]);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(wq_receive_slot(&wq, i)->wr_id, i);
    }
    wq_fini(&wq);
    read_sched_destroy(sched);
}

static void as_many_reads_are_out_as_the_queue_pair_may_have(void **state)
{
    struct queues *q = queues_open(); // of a scheduler of its own
    struct transport_work work;
    const struct read_sched *sched = q->wq.own_read_sched;
    assert_int_equal(read_sched_context_count(sched), 1);
    assert_int_equal(read_sched_in_use(sched), 0);
    wq_set_ord(&q->wq, 1);
    post_read(q, 100);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    assert_int_equal(read_sched_in_use(sched), 1);
    wq_request_fail(&q->wq, work.context, WC_GENERAL_ERR);
    wq_requests_forget(&q->wq);
    queues_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_may_be_asked_for_again_at_any_offset),
        cmocka_unit_test(octets_of_what_has_left_may_be_asked_for_until_it_is_settled),
        cmocka_unit_test(octets_of_empty_elements_are_no_pieces),
        cmocka_unit_test(inline_octets_are_those_in_the_entry),
        cmocka_unit_test(memory_that_may_only_be_read_is_sent),
        cmocka_unit_test(who_goes_on_is_not_made_to_look_for_the_place),
        cmocka_unit_test(memory_that_is_gone_gives_no_octets),
        cmocka_unit_test(memory_is_read_until_released_and_completed_when_settled),
        cmocka_unit_test(a_transport_may_carry_out_and_settle_in_one_call),
        cmocka_unit_test(an_operation_that_the_transport_refuses_fails_before_it_leaves),
        cmocka_unit_test(one_that_needs_no_peer_is_refused_too),
        cmocka_unit_test(nothing_leaves_while_it_is_held),
        cmocka_unit_test(requests_that_may_leave_are_work_behind_the_last_entry),
        cmocka_unit_test(a_fence_holds_until_the_last_part_of_the_read_is_answered),
        cmocka_unit_test(a_message_is_next_if_no_request_is),
        cmocka_unit_test(what_has_not_begun_is_seen_up_to_a_fence),
        cmocka_unit_test(nothing_is_seen_while_requests_of_a_read_come_first),
        cmocka_unit_test(a_completion_tells_what_its_message_has_brought),
        cmocka_unit_test(an_entry_has_room_for_an_address_behind_its_payload),
        cmocka_unit_test(nothing_is_asked_for_while_the_transport_wants_none),
        cmocka_unit_test(a_request_that_cannot_be_made_fails_its_work_request),
        cmocka_unit_test(an_answer_that_does_not_come_in_time_fails_its_read),
        cmocka_unit_test(an_answer_is_waited_for_from_when_its_request_was_taken),
        cmocka_unit_test(a_send_queue_may_go_on_after_an_error),
        cmocka_unit_test(who_was_chosen_to_be_measured_is_told_of_when_it_succeeds),
        cmocka_unit_test(queues_are_made_of_what_can_be),
        cmocka_unit_test(elements_of_a_receive_end_before_the_next_receive),
        cmocka_unit_test(as_many_reads_are_out_as_the_queue_pair_may_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
