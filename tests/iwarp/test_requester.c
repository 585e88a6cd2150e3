// From work request to messages: each operation end to end, fences, ORD, local errors.
#include <errno.h>

#include "tests/iwarp/pair.h"

enum { LEN = 5000 };

static void a_write_lands_and_completes(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_fill(&p->a, 0, LEN, 1);
    pair_post_op(p, &p->a, 7, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, 100);
    pair_run(p);
    pair_expect_filled(&p->b, 100, LEN, 1);
    struct cqe cqe = pair_poll(p->a.send_cq);
    assert_int_equal(cqe.wr_id, 7);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.opcode, WC_RDMA_WRITE);
    assert_int_equal(cqe.qp_num, qp_num(p->a.qp));
    pair_expect_none(p->b.recv_cq);
    pair_close(p);
}

static void a_send_fills_a_receive(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_fill(&p->a, 0, LEN, 2);
    pair_post_receive(p, &p->b, 70, 200, LEN + 10);
    pair_post_op(p, &p->a, 7, WQE_SEND, WQE_SIGNALED | WQE_SOLICITED, 0, LEN, 0);
    pair_run(p);
    pair_expect_filled(&p->b, 200, LEN, 2);
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.wr_id, 70);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.opcode, WC_RECV);
    assert_int_equal(cqe.byte_len, LEN);
    assert_int_equal(cqe.wc_flags, 0);
    assert_true(cqe.solicited);
    pair_expect(p->a.send_cq, 7, WC_SUCCESS);
    pair_close(p);
}

static void a_read_fetches_into_its_list(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    pair_fill(&p->b, 300, LEN, 3);
    pair_post_op(p, &p->a, 8, WQE_RDMA_READ, WQE_SIGNALED, 64, LEN, 300);
    pair_run(p);
    pair_expect_filled(&p->a, 64, LEN, 3);
    struct cqe cqe = pair_poll(p->a.send_cq);
    assert_int_equal(cqe.opcode, WC_RDMA_READ);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.byte_len, LEN);
    pair_close(p);
}

static void atomics_answer_with_the_value_before(void **state)
{
    struct pair *p = pair_open(NULL);
    uint64_t *word = (uint64_t *)(void *)(p->b.memory + 64);
    uint64_t *result = (uint64_t *)(void *)p->a.memory;
    *word = 40;
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_ATOMIC_FETCH_AND_ADD, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 8);
    pair_set_remote(p, &p->a, wqe, 64);
    wqe->compare_add = 2;
    pair_post(p, &p->a);
    pair_run(p);
    assert_int_equal(*word, 42);
    assert_int_equal(*result, 40);
    assert_int_equal(pair_poll(p->a.send_cq).opcode, WC_FETCH_ADD);

    wqe = pair_send_slot(&p->a, 2, WQE_ATOMIC_CMP_AND_SWP, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 8);
    pair_set_remote(p, &p->a, wqe, 64);
    wqe->compare_add = 42;
    wqe->swap = 99;
    pair_post(p, &p->a);
    pair_run(p);
    assert_int_equal(*word, 99);
    assert_int_equal(*result, 42);
    assert_int_equal(pair_poll(p->a.send_cq).opcode, WC_COMP_SWAP);
    pair_close(p);
}

static void a_write_with_immediate_is_a_write_and_a_receive(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_fill(&p->a, 0, LEN, 4);
    pair_post_receive(p, &p->b, 70, 0, 0);
    struct send_wqe *wqe =
        pair_send_slot(&p->a, 1, WQE_RDMA_WRITE_WITH_IMM, WQE_SIGNALED | WQE_SOLICITED);
    pair_set_sge(&p->a, wqe, 0, LEN);
    pair_set_remote(p, &p->a, wqe, 1000);
    wqe->imm_or_inv = 0x01020304;
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect_filled(&p->b, 1000, LEN, 4);
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(cqe.byte_len, LEN);
    assert_int_equal(cqe.wc_flags, WC_WITH_IMM);
    assert_int_equal(cqe.imm_data, 0x01020304);
    assert_true(cqe.solicited);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_none(p->a.send_cq);
    pair_close(p);
}

static void an_empty_write_with_immediate_reports_no_octets(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 70, 0, 0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 64, 0);
    struct send_wqe *wqe = pair_send_slot(&p->a, 2, WQE_RDMA_WRITE_WITH_IMM, 0);
    wqe->rkey = 0;
    wqe->imm_or_inv = 5;
    pair_post(p, &p->a);
    pair_run(p);
    assert_int_equal(pair_poll(p->b.recv_cq).byte_len, 0);
    pair_close(p);
}

static void a_send_with_immediate_needs_a_weft_peer(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true});
    pair_run(p);
    assert_int_equal(p->b.extension_count, 1);
    assert_int_equal(qp_may_post(p->a.qp, WQE_SEND_WITH_IMM), 0);
    for (int i = 0; i < 2; i++) {
        struct end *from = i == 0 ? &p->a : &p->b;
        struct end *to = pair_other(p, from);
        pair_post_receive(p, to, 70, 500, 64);
        pair_fill(from, 0, 64, 5);
        struct send_wqe *wqe = pair_send_slot(from, 1, WQE_SEND_WITH_IMM, WQE_SIGNALED);
        pair_set_sge(from, wqe, 0, 64);
        wqe->imm_or_inv = 0xfeedface;
        pair_post(p, from);
        pair_run(p);
        pair_expect_filled(to, 500, 64, 5);
        struct cqe cqe = pair_poll(to->recv_cq);
        assert_int_equal(cqe.opcode, WC_RECV);
        assert_int_equal(cqe.byte_len, 64);
        assert_int_equal(cqe.wc_flags, WC_WITH_IMM);
        assert_int_equal(cqe.imm_data, 0xfeedface);
        pair_expect(from->send_cq, 1, WC_SUCCESS);
    }
    pair_close(p);

    p = pair_open(NULL);
    assert_int_equal(qp_may_post(p->a.qp, WQE_SEND_WITH_IMM), -EOPNOTSUPP);
    assert_int_equal(qp_may_post(p->a.qp, WQE_SEND), 0);
    pair_close(p);
}

static void a_send_with_immediate_fails_when_the_peer_is_foreign(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    assert_int_equal(qp_may_post(p->a.qp, WQE_SEND_WITH_IMM), 0);
    pair_send_slot(&p->a, 1, WQE_SEND_WITH_IMM, WQE_SIGNALED);
    pair_post(p, &p->a);
    pair_connect(p);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_QP_OP_ERR);
    pair_close(p);
}

static void inline_payload_may_change_behind_the_post(void **state)
{
    struct pair *p = pair_open(NULL);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED | WQE_INLINE);
    wqe->length = 300;
    memset(wqe->inline_data, 0x3c, 300);
    pair_set_remote(p, &p->a, wqe, 0);
    pair_post(p, &p->a);
    pair_run(p);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(p->b.memory[i], 0x3c);
    }
    assert_int_equal(p->b.memory[300], 0);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

// 32 elements of growing length, some of them empty, on either side of each operation.
static void lists_of_many_elements(void **state)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_SEND, WQE_RDMA_READ};
    for (unsigned i = 0; i < 3; i++) {
        struct pair *p = pair_open(&(struct pair_options){.mulpdu = 150});
        struct send_wqe *wqe = pair_send_slot(&p->a, 1, opcodes[i], WQE_SIGNALED);
        struct recv_wqe *receive = wq_receive_slot(qp_wq(p->b.qp), 0);
        uint32_t total = 0;
        receive->sge_count = 0;
        for (uint32_t k = 0; k < SGE_COUNT_MAX; k++) {
            uint32_t len = k % 5 == 0 ? 0 : k * 3;
            pair_set_sge(&p->a, wqe, total, len);
            receive->sge[receive->sge_count++] =
                (struct sge){(uintptr_t)p->b.memory + total, len, p->b.stag};
            total += len;
        }
        pair_set_remote(p, &p->a, wqe, 0);
        pair_fill(opcodes[i] == WQE_RDMA_READ ? &p->b : &p->a, 0, total, 9);
        wq_receive_commit(qp_wq(p->b.qp), 1);
        pair_post(p, &p->a);
        pair_run(p);
        pair_expect_filled(opcodes[i] == WQE_RDMA_READ ? &p->a : &p->b, 0, total, 9);
        pair_expect(p->a.send_cq, 1, WC_SUCCESS);
        pair_close(p);
    }
}

static void empty_operations_look_at_no_key(void **state)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_SEND, WQE_RDMA_READ};
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 70, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        struct send_wqe *wqe = pair_send_slot(&p->a, i, opcodes[i], WQE_SIGNALED);
        wqe->rkey = 0xdeadbeef;
        wqe->remote_addr = 1;
        pair_post(p, &p->a);
    }
    pair_run(p);
    for (unsigned i = 0; i < 3; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    assert_int_equal(pair_poll(p->b.recv_cq).byte_len, 0);
    pair_close(p);
}

static void a_fence_waits_for_earlier_reads(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED | WQE_FENCE, 64, 64, 64);
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 1);
    assert_false(qp_has_output(p->a.qp));
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    assert_int_equal(qp_counters(p->a.qp)->wq.fence_waits, 1);
    pair_close(p);
}

static void an_unfenced_write_does_not_wait_but_completes_in_order(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 64, 64, 64);
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 2);
    while (pair_hand(p, &p->a)) {
    }
    pair_expect_none(p->a.send_cq); // the Write has left, but the Read before it is not complete
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_close(p);
}

static void no_more_requests_than_ord(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.stream = {.ird = 2, .ord = 2}});
    for (unsigned i = 0; i < 5; i++) {
        pair_post_op(p, &p->a, i, WQE_RDMA_READ, WQE_SIGNALED, i * 64, 64, 0);
    }
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 2);
    assert_false(qp_has_output(p->a.qp));
    pair_run(p);
    for (unsigned i = 0; i < 5; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    assert_true(qp_counters(p->a.qp)->wq.ord_waits > 0);
    pair_close(p);
}

static void a_read_without_ord_fails_and_does_not_hang(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    struct qp_stream stream = {.mulpdu = 1000, .is_initiator = true, .may_send = true};
    qp_on_established(p->a.qp, &stream, p->now);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
    pair_output(p, &p->a);
    pair_expect(p->a.send_cq, 1, WC_LOC_QP_OP_ERR);
    pair_expect_terminate(p, &p->a, TERM_RDMAP_LOCAL);
    pair_close(p);
}

static void local_keys_are_checked_before_anything_leaves(void **state)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_SEND, WQE_RDMA_READ,
                                              WQE_ATOMIC_FETCH_AND_ADD, WQE_RDMA_WRITE_WITH_IMM};
    for (unsigned i = 0; i < 5; i++) {
        for (uint32_t mulpdu = 128; mulpdu < 65535; mulpdu += 60000) {
            struct pair *p = pair_open(&(struct pair_options){.mulpdu = mulpdu});
            struct send_wqe *wqe = pair_send_slot(&p->a, 1, opcodes[i], 0);
            pair_set_sge(&p->a, wqe, 0, 1000);
            pair_set_sge(&p->a, wqe, 0, 1000);
            pair_set_remote(p, &p->a, wqe, 0);
            wqe->sge[1].lkey ^= 1;
            pair_post(p, &p->a);
            pair_post_op(p, &p->a, 2, WQE_SEND, 0, 0, 1, 0);
            pair_output(p, &p->a);
            assert_int_equal(qp_counters(p->a.qp)->refusals[RDMAP_REFUSED_WORK_REQUEST], 1);
            pair_expect(p->a.send_cq, 1, WC_LOC_PROT_ERR);
            pair_run(p); // the Terminate leaves: only it
            pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
            assert_int_equal(qp_counters(p->b.qp)->terminates_in[TERM_RDMAP_LOCAL], 1);
            assert_int_equal(qp_counters(p->b.qp)->in[RDMAP_WRITE].octets, 0);
            pair_close(p);
        }
    }
}

static void a_read_sink_must_be_writable(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t stag;
    assert_int_equal(mem_region_register(p->a.mem, p->a.pd, p->a.memory, 64, (uintptr_t)p->a.memory,
                                         MEM_ACCESS_REMOTE_READ, &stag),
                     0);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_RDMA_READ, 0);
    pair_set_sge(&p->a, wqe, 0, 64);
    pair_set_remote(p, &p->a, wqe, 0);
    wqe->sge[0].lkey = stag;
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_PROT_ERR);
    pair_close(p);
}

static void memory_deregistered_under_a_long_write_ends_the_stream(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    p->a.room = 2;
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 5000, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    assert_int_equal(mem_region_deregister(p->a.mem, p->a.stag), 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_PROT_ERR);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    assert_int_equal(qp_state_of(p->b.qp), QP_ERR);
    pair_close(p);
}

static void a_window_is_bound_written_and_taken_back(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t window;
    assert_int_equal(mem_window_alloc(p->b.mem, MEM_WINDOW_TYPE_2, p->b.pd, &window), 0);
    struct send_wqe *wqe = pair_send_slot(&p->b, 1, WQE_BIND_MW, WQE_SIGNALED);
    wqe->bind = (struct wqe_bind){
        .mw_rkey = (window & ~0xffU) | ((window + 1) & 0xff),
        .lkey = p->b.stag,
        .addr = (uintptr_t)p->b.memory,
        .length = 4096,
        .access = MEM_ACCESS_REMOTE_WRITE,
    };
    uint32_t rkey = wqe->bind.mw_rkey;
    pair_post(p, &p->b);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 64, 0); // lets b send
    pair_run(p);
    struct cqe cqe = pair_poll(p->b.send_cq);
    assert_int_equal(cqe.opcode, WC_BIND_MW);
    assert_int_equal(cqe.status, WC_SUCCESS);

    pair_post_receive(p, &p->b, 70, 100, 64);
    wqe = pair_send_slot(&p->a, 2, WQE_SEND_WITH_INV, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 64);
    wqe->imm_or_inv = rkey;
    pair_post(p, &p->a);
    pair_run(p);
    cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV);
    assert_int_equal(cqe.inv_rkey, rkey);
    assert_int_equal(qp_counters(p->b.qp)->invalidations, 1);

    wqe = pair_send_slot(&p->a, 3, WQE_RDMA_WRITE, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 64);
    wqe->rkey = rkey;
    wqe->remote_addr = (uintptr_t)p->b.memory;
    pair_post(p, &p->a);
    pair_run(p);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_DDP_INVALID_STAG], 1);
    pair_close(p);
}

static void a_window_is_taken_back_by_its_owner(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t window;
    assert_int_equal(mem_window_alloc(p->a.mem, MEM_WINDOW_TYPE_2, p->a.pd, &window), 0);
    uint32_t rkey = (window & ~0xffU) | ((window + 1) & 0xff);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_BIND_MW, WQE_SIGNALED);
    wqe->bind =
        (struct wqe_bind){rkey, p->a.stag, (uintptr_t)p->a.memory, 64, MEM_ACCESS_REMOTE_READ};
    pair_post(p, &p->a);
    wqe = pair_send_slot(&p->a, 2, WQE_LOCAL_INV, WQE_SIGNALED);
    wqe->imm_or_inv = rkey;
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_int_equal(pair_poll(p->a.send_cq).opcode, WC_LOCAL_INV);

    wqe = pair_send_slot(&p->a, 3, WQE_LOCAL_INV, 0);
    wqe->imm_or_inv = rkey;
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 3, WC_LOC_QP_OP_ERR);
    assert_int_equal(qp_counters(p->a.qp)->wq.local_invalidations, 1);
    pair_close(p);
}

static void a_bind_that_is_refused_fails(void **state)
{
    struct pair *p = pair_open(NULL);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_BIND_MW, 0);
    wqe->bind = (struct wqe_bind){0x12345678, p->a.stag, 0, 64, MEM_ACCESS_REMOTE_READ};
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_MW_BIND_ERR);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    pair_close(p);
}

static void with_write_flush_a_write_waits_for_its_placement(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.write_flush = true}});
    pair_fill(&p->a, 0, 64, 1);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    pair_expect_none(p->a.send_cq);
    pair_run(p);
    pair_expect_filled(&p->b, 0, 64, 1);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_int_equal(qp_counters(p->a.qp)->wq.write_flushes, 1);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, 0, 0, 64, 0); // unsignalled: no flush
    pair_run(p);
    assert_int_equal(qp_counters(p->a.qp)->wq.write_flushes, 1);
    pair_close(p);
}

static void with_write_flush_a_refused_write_says_so(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.write_flush = true}});
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, PAIR_MEMORY_LEN);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_REM_ACCESS_ERR);
    pair_close(p);
}

static void what_is_too_long_or_too_short_is_a_length_error(void **state)
{
    struct pair *p = pair_open(NULL);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_ATOMIC_FETCH_AND_ADD, 0);
    pair_set_sge(&p->a, wqe, 0, 7);
    pair_set_remote(p, &p->a, wqe, 0);
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_LEN_ERR);
    pair_close(p);
    p = pair_open(NULL);
    wqe = pair_send_slot(&p->a, 1, WQE_RDMA_WRITE, 0);
    wqe->length = WQ_MESSAGE_MAX_LEN + 1;
    pair_post(p, &p->a);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_LOC_LEN_ERR);
    pair_close(p);
}

static void a_short_context_pool_only_delays(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.read_contexts = 1});
    for (unsigned i = 0; i < 4; i++) {
        pair_post_op(p, &p->a, i, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    }
    pair_run(p);
    for (unsigned i = 0; i < 4; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    assert_int_equal(qp_counters(p->a.qp)->wq.context_waits, 5); // at each look without one
    pair_close(p);
}

static void unsignalled_work_completes_without_a_word(void **state)
{
    struct pair *p = pair_open(NULL);
    for (unsigned i = 0; i < 200; i++) { // several times round the queue
        pair_post_op(p, &p->a, i, WQE_RDMA_WRITE, i == 199 ? WQE_SIGNALED : 0, 0, 16, 0);
        pair_run(p);
    }
    pair_expect(p->a.send_cq, 199, WC_SUCCESS);
    pair_expect_none(p->a.send_cq);
    assert_int_equal(qp_counters(p->a.qp)->wq.send_completions, 200);
    pair_close(p);
}

static void sq_sig_all_signals_everything(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config.wq = {.sq_sig_all = true}});
    pair_post_op(p, &p->a, 5, WQE_RDMA_WRITE, 0, 0, 16, 0);
    pair_run(p);
    pair_expect(p->a.send_cq, 5, WC_SUCCESS);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_lands_and_completes),
        cmocka_unit_test(a_send_fills_a_receive),
        cmocka_unit_test(a_read_fetches_into_its_list),
        cmocka_unit_test(atomics_answer_with_the_value_before),
        cmocka_unit_test(a_write_with_immediate_is_a_write_and_a_receive),
        cmocka_unit_test(an_empty_write_with_immediate_reports_no_octets),
        cmocka_unit_test(a_send_with_immediate_needs_a_weft_peer),
        cmocka_unit_test(a_send_with_immediate_fails_when_the_peer_is_foreign),
        cmocka_unit_test(inline_payload_may_change_behind_the_post),
        cmocka_unit_test(lists_of_many_elements),
        cmocka_unit_test(empty_operations_look_at_no_key),
        cmocka_unit_test(a_fence_waits_for_earlier_reads),
        cmocka_unit_test(an_unfenced_write_does_not_wait_but_completes_in_order),
        cmocka_unit_test(no_more_requests_than_ord),
        cmocka_unit_test(a_read_without_ord_fails_and_does_not_hang),
        cmocka_unit_test(local_keys_are_checked_before_anything_leaves),
        cmocka_unit_test(a_read_sink_must_be_writable),
        cmocka_unit_test(memory_deregistered_under_a_long_write_ends_the_stream),
        cmocka_unit_test(a_window_is_bound_written_and_taken_back),
        cmocka_unit_test(a_window_is_taken_back_by_its_owner),
        cmocka_unit_test(a_bind_that_is_refused_fails),
        cmocka_unit_test(with_write_flush_a_write_waits_for_its_placement),
        cmocka_unit_test(with_write_flush_a_refused_write_says_so),
        cmocka_unit_test(what_is_too_long_or_too_short_is_a_length_error),
        cmocka_unit_test(a_short_context_pool_only_delays),
        cmocka_unit_test(unsignalled_work_completes_without_a_word),
        cmocka_unit_test(sq_sig_all_signals_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
