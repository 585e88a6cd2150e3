// How work requests and receives end: completed, failed or flushed, each told once and counted as
// what it was.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wq/wq.h"

enum { MEMORY_LEN = 4096, QP_NUM = 5, RECEIVES = 4 };

struct queues {
    struct mem_table *mem;
    uint32_t pd, lkey;
    _Alignas(64) uint8_t memory[MEMORY_LEN];
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    struct wq_config config;
    struct wq_counters counters;
    struct wq wq;
};

static struct queues *open_queues(bool has_srq)
{
    struct queues *q = aligned_alloc(64, (sizeof *q + 63) / 64 * 64);
    memset(q, 0, sizeof *q);
    uint8_t key[STAG_KEY_LEN] = {7};
    q->mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(q->mem, &q->pd), 0);
    assert_int_equal(mem_region_register(q->mem, q->pd, q->memory, MEMORY_LEN, (uintptr_t)q->memory,
                                         MEM_ACCESS_LOCAL_WRITE, &q->lkey),
                     0);
    q->send_cq = cq_create(64, (struct cq_port){0});
    q->recv_cq = cq_create(64, (struct cq_port){0});
    if (has_srq) {
        struct srq_config srq = {.pd = q->pd, .max_wr = RECEIVES, .max_sge = 1};
        assert_int_equal(srq_create(&srq, &q->srq), 0);
    }
    q->config = (struct wq_config){
        .qp_num = QP_NUM,
        .pd = q->pd,
        .caps = {.max_send_wr = 16, .max_recv_wr = RECEIVES, .max_send_sge = 2, .max_recv_sge = 1},
        .send_cq = q->send_cq,
        .recv_cq = q->recv_cq,
        .srq = q->srq,
        .mem = q->mem,
        .ord_max = 2,
    };
    assert_int_equal(wq_init(&q->wq, &q->config, &q->counters), 0);
    wq_begin(&q->wq);
    wq_set_ord(&q->wq, 2);
    return q;
}

static void close_queues(struct queues *q)
{
    assert_true(wq_check(&q->wq, 0));
    wq_requests_forget(&q->wq);
    wq_fini(&q->wq);
    srq_destroy(q->srq);
    cq_destroy(q->send_cq);
    cq_destroy(q->recv_cq);
    mem_table_destroy(q->mem);
    free(q);
}

static void post(struct queues *q, uint64_t wr_id, enum wqe_opcode opcode, uint32_t flags)
{
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    *wqe = (struct send_wqe){
        .wr_id = wr_id, .opcode = opcode, .flags = flags, .sge_count = 1, .length = 64};
    wqe->sge[0] = (struct sge){(uintptr_t)q->memory, 64, q->lkey};
    wq_send_commit(&q->wq, 1);
}

static void put_message(struct queues *q, uint64_t mark)
{
    struct transport_work work;
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_MESSAGE);
    wq_message_put(&q->wq, mark);
}

static struct read_context *put_request(struct queues *q, uint64_t mark)
{
    struct transport_work work;
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    wq_request_put(&q->wq, work.context, mark);
    return work.context;
}

static void post_receive(struct queues *q, uint64_t wr_id)
{
    struct recv_wqe *wqe = q->srq != NULL ? srq_slot(q->srq, 0) : wq_receive_slot(&q->wq, 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 0;
    if (q->srq != NULL) {
        srq_commit(q->srq, 1);
    } else {
        wq_receive_commit(&q->wq, 1);
    }
}

static void expect(struct cq *cq, uint64_t wr_id, uint32_t status)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.status, status);
    assert_int_equal(cqe.qp_num, QP_NUM);
}

static void expect_none(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 0);
}

/* ---- sends ----------------------------------------------------------------------------------- */

static void what_succeeds_is_told_if_it_is_signalled_and_counted_in_any_case(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, 0);
    post(q, 2, WQE_SEND, WQE_SIGNALED);
    put_message(q, 10);
    put_message(q, 20);
    wq_on_released(&q->wq, 20, 20);
    wq_on_settled(&q->wq, 10);
    expect_none(q->send_cq);
    assert_int_equal(q->counters.send_completions, 1);
    wq_on_settled(&q->wq, 20);
    expect(q->send_cq, 2, WC_SUCCESS);
    expect_none(q->send_cq);
    assert_int_equal(q->counters.send_completions, 2);
    close_queues(q);
}

static void completions_name_their_operation_and_their_octets(void **state)
{
    struct queues *q = open_queues(false);
    struct cqe cqe;
    post(q, 1, WQE_SEND, WQE_SIGNALED);
    post(q, 2, WQE_RDMA_WRITE, WQE_SIGNALED);
    post(q, 3, WQE_RDMA_READ, WQE_SIGNALED);
    put_message(q, 10);
    put_message(q, 20);
    struct read_context *context = put_request(q, 20);
    context->arrived_len = 64;
    wq_on_released(&q->wq, 20, 20);
    wq_on_settled(&q->wq, 20);
    assert_int_equal(q->wq.request_count, 1);
    wq_request_answered(&q->wq, context);
    assert_int_equal(q->wq.request_count, 0);
    assert_null(wq_request_oldest(&q->wq));
    static const uint32_t opcodes[] = {WC_SEND, WC_RDMA_WRITE, WC_RDMA_READ};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(cq_poll(q->send_cq, &cqe, 1), 1);
        assert_int_equal(cqe.opcode, opcodes[i]);
        assert_int_equal(cqe.byte_len, 64);
        assert_int_equal(cqe.vendor_err, 0);
    }
    close_queues(q);
}

static void each_operation_has_its_name_in_the_completion(void **state)
{
    static const uint32_t opcodes[WQE_OPCODE_COUNT] = {
        [WQE_RDMA_WRITE] = WC_RDMA_WRITE,
        [WQE_RDMA_WRITE_WITH_IMM] = WC_RDMA_WRITE,
        [WQE_SEND] = WC_SEND,
        [WQE_SEND_WITH_IMM] = WC_SEND,
        [WQE_RDMA_READ] = WC_RDMA_READ,
        [WQE_ATOMIC_CMP_AND_SWP] = WC_COMP_SWAP,
        [WQE_ATOMIC_FETCH_AND_ADD] = WC_FETCH_ADD,
        [WQE_LOCAL_INV] = WC_LOCAL_INV,
        [WQE_BIND_MW] = WC_BIND_MW,
        [WQE_SEND_WITH_INV] = WC_SEND,
    };
    struct queues *q = open_queues(false);
    for (unsigned opcode = 0; opcode < WQE_OPCODE_COUNT; opcode++) {
        struct cqe cqe;
        post(q, opcode, opcode, 0);
        q->wq.now = 1000 + opcode;
        wq_flush_sends(&q->wq);
        assert_int_equal(cq_poll(q->send_cq, &cqe, 1), 1);
        assert_int_equal(cqe.opcode, opcodes[opcode]);
        assert_int_equal(cqe.timestamp_ns, 1000 + opcode);
    }
    close_queues(q);
}

static void behind_one_that_failed_none_is_successful(void **state)
{
    struct queues *q = open_queues(false);
    for (unsigned i = 1; i <= 4; i++) {
        post(q, i, WQE_SEND, 0);
        put_message(q, 10 * i);
    }
    wq_send_fail(wq_send_at(&q->wq, wq_send_head(&q->wq) + 1), WC_REM_OP_ERR);
    wq_on_released(&q->wq, 40, 40);
    wq_on_settled(&q->wq, 40);
    expect(q->send_cq, 2, WC_REM_OP_ERR);
    expect(q->send_cq, 3, WC_WR_FLUSH_ERR);
    expect(q->send_cq, 4, WC_WR_FLUSH_ERR);
    assert_int_equal(q->counters.send_completions, 1);
    assert_int_equal(q->counters.send_errors, 1);
    assert_int_equal(q->counters.send_flushed, 2);
    close_queues(q);
}

static void post_into_the_slot_of_what_completes(void *ctx)
{
    struct queues *q = ctx;
    assert_non_null(wq_send_slot(&q->wq, 0));
    assert_null(wq_send_slot(&q->wq, 1));
    post(q, 100, WQE_SEND, 0);
}

static void a_slot_is_free_before_its_completion_is_seen(void **state)
{
    struct queues *q = open_queues(false);
    cq_destroy(q->send_cq);
    q->config.send_cq = q->send_cq =
        cq_create(64, (struct cq_port){.on_event = post_into_the_slot_of_what_completes, .ctx = q});
    uint32_t count = 0;
    while (wq_send_slot(&q->wq, 0) != NULL) {
        post(q, ++count, WQE_SEND, WQE_SIGNALED);
    }
    put_message(q, 10);
    wq_on_released(&q->wq, 10, 10);
    cq_arm(q->send_cq, false);
    wq_on_settled(&q->wq, 10);
    expect(q->send_cq, 1, WC_SUCCESS);
    assert_int_equal(wq_send_count(&q->wq), count);
    close_queues(q);
}

static void what_is_posted_behind_a_flush_begins_anew(void **state)
{
    struct queues *q = open_queues(false);
    struct transport_work work;
    for (unsigned i = 1; i <= 2; i++) {
        post(q, i, WQE_RDMA_READ, 0);
        put_request(q, 10);
    }
    post(q, 3, WQE_RDMA_READ, 0);
    wq_next(&q->wq, &work);
    assert_false(wq_has_work(&q->wq)); // it waits for one of the two
    wq_requests_forget(&q->wq);
    wq_flush_sends(&q->wq);
    for (unsigned i = 1; i <= 3; i++) {
        expect(q->send_cq, i, WC_WR_FLUSH_ERR);
    }
    post(q, 4, WQE_SEND, 0);
    assert_true(wq_has_work(&q->wq));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_MESSAGE);
    wq_flush_sends(&q->wq);
    expect(q->send_cq, 4, WC_WR_FLUSH_ERR);
    post(q, 5, WQE_SEND, 0);
    assert_false(wq_next_reads_from(&q->wq, q->lkey)); // nobody has looked at it
    close_queues(q);
}

static void a_fence_that_was_waited_for_is_forgotten_with_what_is_flushed(void **state)
{
    struct queues *q = open_queues(false);
    struct transport_work work;
    post(q, 1, WQE_RDMA_READ, 0);
    put_request(q, 10);
    post(q, 2, WQE_SEND, WQE_FENCE);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    wq_flush_sends(&q->wq);
    wq_requests_forget(&q->wq);
    post(q, 3, WQE_SEND, 0);
    assert_true(wq_has_entry(&q->wq));
    close_queues(q);
}

// It was done here, and nobody has asked yet what is due.
static void what_is_done_and_not_to_be_told_leaves_its_slot_with_the_flush(void **state)
{
    struct queues *q = open_queues(false);
    struct transport_work work;
    uint32_t window;
    assert_int_equal(mem_window_alloc(q->mem, MEM_WINDOW_TYPE_1, q->pd, &window), 0);
    post(q, 1, WQE_BIND_MW, 0);
    wq_send_at(&q->wq, wq_send_head(&q->wq))->bind = (struct wqe_bind){.mw_rkey = window};
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_NOTHING);
    assert_int_equal(q->counters.binds, 1);
    wq_flush_sends(&q->wq);
    expect_none(q->send_cq);
    assert_int_equal(wq_send_count(&q->wq), 0);
    assert_int_equal(q->counters.send_completions, 1);
    close_queues(q);
}

static void a_completion_without_a_place_is_lost_and_counted(void **state)
{
    struct queues *q = open_queues(false);
    for (unsigned i = 0; i < cq_capacity(q->send_cq); i++) {
        assert_true(cq_push(q->send_cq, &(struct cqe){.qp_num = QP_NUM}));
    }
    for (unsigned lost = 1; lost <= 2; lost++) {
        post(q, lost, WQE_SEND, WQE_SIGNALED);
        put_message(q, lost);
        wq_on_released(&q->wq, lost, 1);
        wq_on_settled(&q->wq, lost);
        assert_int_equal(q->counters.cq_overruns, lost);
        assert_true(q->wq.has_overrun);
        assert_int_equal(wq_send_count(&q->wq), 0); // it is over all the same
    }
    close_queues(q);
}

static void what_was_not_carried_out_is_flushed_aloud_and_in_order(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, WQE_SIGNALED);
    post(q, 2, WQE_SEND, 0);
    post(q, 3, WQE_SEND, 0);
    put_message(q, 10);
    put_message(q, 20);
    wq_on_released(&q->wq, 20, 20);
    wq_on_settled(&q->wq, 10);
    q->wq.peer_fault = 0x123;
    wq_flush_sends(&q->wq);
    expect(q->send_cq, 1, WC_SUCCESS);
    struct cqe cqe;
    assert_int_equal(cq_poll(q->send_cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, 2);
    assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
    assert_int_equal(cqe.byte_len, 0);
    assert_int_equal(cqe.vendor_err, 0x123); // what the peer said
    expect(q->send_cq, 3, WC_WR_FLUSH_ERR);
    assert_int_equal(wq_send_count(&q->wq), 0);
    assert_int_equal(q->counters.send_flushed, 2);
    assert_int_equal(q->counters.send_completions, 1);
    close_queues(q);
}

// A peer that was never there fails the first, as a device does that has tried often enough.
static void without_a_peer_the_first_fails_and_the_rest_is_flushed(void **state)
{
    struct queues *q = open_queues(false);
    for (unsigned i = 1; i <= 3; i++) {
        post(q, i, WQE_SEND, 0);
    }
    q->wq.has_no_peer = true;
    wq_flush_sends(&q->wq);
    expect(q->send_cq, 1, WC_RETRY_EXC_ERR);
    expect(q->send_cq, 2, WC_WR_FLUSH_ERR);
    expect(q->send_cq, 3, WC_WR_FLUSH_ERR);
    assert_int_equal(q->counters.send_errors, 1);
    assert_int_equal(q->counters.send_flushed, 2);
    close_queues(q);
}

static void a_queue_pair_that_is_silent_completes_nothing(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, WQE_SIGNALED);
    post_receive(q, 70);
    q->wq.is_silent = true;
    wq_flush_sends(&q->wq);
    wq_flush_receives(&q->wq);
    expect_none(q->send_cq);
    expect_none(q->recv_cq);
    assert_false(q->wq.has_overrun); // none was lost
    close_queues(q);
}

static void there_is_work_until_all_has_left(void **state)
{
    struct queues *q = open_queues(false);
    assert_false(wq_has_work(&q->wq));
    post(q, 1, WQE_SEND, 0);
    assert_true(wq_has_work(&q->wq));
    assert_int_equal(wq_send_count(&q->wq), 1);
    put_message(q, 10);
    assert_false(wq_has_work(&q->wq));
    assert_int_equal(wq_send_count(&q->wq), 1); // until it is settled
    close_queues(q);
}

// Marks of the life before are none of the next.
static void a_new_connection_begins_its_marks_anew(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, 0);
    put_message(q, 1000);
    wq_on_released(&q->wq, 1000, 1000);
    wq_on_settled(&q->wq, 1000);
    wq_reset(&q->wq);
    wq_begin(&q->wq);
    post(q, 2, WQE_SEND, WQE_SIGNALED);
    put_message(q, 10);
    assert_true(wq_reads_from(&q->wq, q->lkey));
    wq_complete_sends(&q->wq);
    expect_none(q->send_cq);
    wq_on_released(&q->wq, 10, 10);
    assert_false(wq_reads_from(&q->wq, q->lkey));
    wq_on_settled(&q->wq, 10);
    expect(q->send_cq, 2, WC_SUCCESS);
    close_queues(q);
}

static void a_reset_forgets_what_was_posted_and_what_the_peer_said(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, WQE_SIGNALED);
    for (unsigned i = 0; i < RECEIVES; i++) {
        post_receive(q, i);
    }
    q->wq.peer_fault = 7;
    wq_reset(&q->wq);
    assert_int_equal(wq_send_count(&q->wq), 0);
    assert_false(wq_has_work(&q->wq));
    assert_int_equal(wq_receive_count(&q->wq), 0);
    assert_int_equal(q->wq.peer_fault, 0);
    for (unsigned i = 0; i < RECEIVES; i++) {
        post_receive(q, i); // there is room for all again
    }
    expect_none(q->send_cq);
    expect_none(q->recv_cq);
    close_queues(q);
}

static void reads_of_a_queue_pair_alone_have_two_requests_out(void **state)
{
    struct queues *q = open_queues(false);
    q->wq.reads.allotment_len = 40;
    post(q, 1, WQE_RDMA_READ, WQE_SIGNALED);
    put_request(q, 1);
    put_request(q, 2);
    close_queues(q);
}

struct source_case {
    const char *what;
    enum wqe_opcode opcode;
    uint32_t flags, len;
    bool copies; // the transport takes the octets at once
    bool is_read;
};

// Until it is taken, the memory that a message is put from must stay as it is.
static void memory_is_read_by_what_is_put_by_reference(void **state)
{
    static const struct source_case cases[] = {
        {"a Send", WQE_SEND, 0, 64, false, true},
        {"a Send with immediate data", WQE_SEND_WITH_IMM, 0, 64, false, true},
        {"a Send that invalidates", WQE_SEND_WITH_INV, 0, 64, false, true},
        {"a Write", WQE_RDMA_WRITE, 0, 64, false, true},
        {"a Write with immediate data", WQE_RDMA_WRITE_WITH_IMM, 0, 64, false, true},
        {"an empty list", WQE_SEND, 0, 0, false, false},
        {"octets of the work request itself", WQE_SEND, WQE_INLINE, 64, false, false},
        {"a transport that copies", WQE_SEND, 0, 64, true, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct queues *q = open_queues(false);
        q->wq.facts.copies = cases[i].copies;
        post(q, 1, cases[i].opcode, cases[i].flags);
        struct send_wqe *wqe = wq_send_at(&q->wq, q->wq.sq_next);
        wqe->length = cases[i].len;
        if ((cases[i].flags & WQE_INLINE) == 0) {
            wqe->sge[0].length = cases[i].len;
        }
        put_message(q, 10);
        if (wq_reads_from(&q->wq, q->lkey) != cases[i].is_read) {
            fail_msg("%s", cases[i].what);
        }
        wq_on_released(&q->wq, 10, 10);
        assert_false(wq_reads_from(&q->wq, q->lkey));
        wq_on_settled(&q->wq, 10);
        close_queues(q);
    }
}

// What was put says nothing of what will be.
static void memory_is_read_by_the_message_that_is_about_to_leave(void **state)
{
    struct queues *q = open_queues(false);
    struct transport_work work;
    post(q, 1, WQE_SEND, 0);
    assert_false(wq_next_reads_from(&q->wq, q->lkey));
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_MESSAGE);
    assert_true(wq_next_reads_from(&q->wq, q->lkey));
    assert_false(wq_next_reads_from(&q->wq, q->lkey + 1));
    wq_message_put(&q->wq, 10);
    assert_false(wq_next_reads_from(&q->wq, q->lkey));
    post(q, 2, WQE_RDMA_READ, 0);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_REQUEST);
    assert_false(wq_next_reads_from(&q->wq, q->lkey));
    wq_request_put(&q->wq, work.context, 20);
    close_queues(q);
}

static void memory_is_read_by_each_element_of_one_octet_and_more(void **state)
{
    struct queues *q = open_queues(false);
    for (uint32_t len = 0; len <= 1; len++) {
        struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
        *wqe = (struct send_wqe){.wr_id = len, .opcode = WQE_SEND, .sge_count = 2, .length = len};
        wqe->sge[0] = (struct sge){(uintptr_t)q->memory, 0, q->lkey + 1};
        wqe->sge[1] = (struct sge){(uintptr_t)q->memory, len, q->lkey};
        wq_send_commit(&q->wq, 1);
        put_message(q, 10 + len);
        assert_int_equal(wq_reads_from(&q->wq, q->lkey), len > 0);
        assert_false(wq_reads_from(&q->wq, q->lkey + 1));
    }
    close_queues(q);
}

static void memory_is_written_to_by_reads_until_they_are_over(void **state)
{
    struct queues *q = open_queues(false);
    post(q, 1, WQE_SEND, 0);
    post(q, 2, WQE_RDMA_READ, 0);
    put_message(q, 10);
    assert_false(wq_reads_into(&q->wq, q->lkey)); // it has not left
    struct read_context *context = put_request(q, 10);
    assert_true(wq_reads_into(&q->wq, q->lkey));
    assert_false(wq_reads_into(&q->wq, q->lkey + 1));
    assert_true(wq_reads_from(&q->wq, q->lkey)); // by the Send alone
    wq_on_released(&q->wq, 10, 10);
    assert_false(wq_reads_from(&q->wq, q->lkey));
    wq_on_settled(&q->wq, 10);
    context->arrived_len = 64;
    wq_request_answered(&q->wq, context);
    assert_false(wq_reads_into(&q->wq, q->lkey));
    close_queues(q);
}

/* ---- receives -------------------------------------------------------------------------------- */

static void receives_are_claimed_in_order_and_free_when_they_are_polled(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        struct queues *q = open_queues(k == 1);
        for (unsigned i = 0; i < RECEIVES; i++) {
            post_receive(q, 70 + i);
        }
        assert_int_equal(wq_receive_count(&q->wq), RECEIVES);
        for (unsigned i = 0; i < RECEIVES; i++) {
            assert_true(wq_receive_is_posted(&q->wq));
            struct recv_wqe *wqe = wq_receive_claim(&q->wq);
            assert_int_equal(wqe->wr_id, 70 + i);
            assert_int_equal(wq_receive_count(&q->wq), RECEIVES - 1 - i);
            wqe->message = (struct recv_message){.opcode = WC_RECV, .byte_len = 9};
            wq_complete_receive(&q->wq, wqe, WC_SUCCESS, false);
        }
        assert_false(wq_receive_is_posted(&q->wq));
        assert_null(wq_receive_claim(&q->wq));
        for (unsigned i = 0; i < RECEIVES; i++) {
            struct recv_wqe *full =
                q->srq != NULL ? srq_slot(q->srq, i) : wq_receive_slot(&q->wq, i);
            assert_null(full); // not before the completions are polled
            expect(q->recv_cq, 70 + i, WC_SUCCESS);
        }
        post_receive(q, 99);
        assert_int_equal(wq_receive_count(&q->wq), 1);
        close_queues(q);
    }
}

// Those of a shared queue stay for the others.
static void receives_of_its_own_are_flushed_with_it(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        struct queues *q = open_queues(k == 1);
        post_receive(q, 70);
        post_receive(q, 71);
        wq_flush_receives(&q->wq);
        if (k == 0) {
            expect(q->recv_cq, 70, WC_WR_FLUSH_ERR);
            expect(q->recv_cq, 71, WC_WR_FLUSH_ERR);
        }
        expect_none(q->recv_cq);
        assert_int_equal(q->counters.recv_flushed, k == 0 ? 2 : 0);
        assert_int_equal(wq_receive_count(&q->wq), k == 0 ? 0 : 2);
        close_queues(q);
    }
}

// Nobody will poll it, and so give it back.
static void a_shared_receive_whose_completion_is_lost_is_free_again(void **state)
{
    for (unsigned is_silent = 0; is_silent < 2; is_silent++) {
        struct queues *q = open_queues(true);
        q->wq.is_silent = is_silent == 1;
        while (!q->wq.is_silent && cq_push(q->recv_cq, &(struct cqe){.qp_num = QP_NUM})) {
        }
        for (unsigned i = 0; i < 2 * RECEIVES; i++) {
            post_receive(q, 70 + i);
            wq_complete_receive_without(&q->wq, wq_receive_claim(&q->wq), WC_LOC_LEN_ERR);
        }
        assert_int_equal(q->counters.cq_overruns, is_silent == 1 ? 0 : 2 * RECEIVES);
        close_queues(q);
    }
}

// Of a queue of its own, whoever polls frees the receives, in order.
static void a_receive_of_its_own_whose_completion_is_lost_stays_taken(void **state)
{
    struct queues *q = open_queues(false);
    q->wq.is_silent = true;
    for (unsigned i = 0; i < RECEIVES; i++) {
        post_receive(q, 70 + i);
        wq_complete_receive_without(&q->wq, wq_receive_claim(&q->wq), WC_LOC_LEN_ERR);
    }
    assert_null(wq_receive_slot(&q->wq, 0));
    close_queues(q);
}

/* ---- fields of messages ---------------------------------------------------------------------- */

static void a_reference_may_end_with_its_message(void **state)
{
    static const uint8_t message[] = {0xff, 0xff, 0x12, 0x34};
    struct oneshot_field field = {.offset = 2, .len = 2};
    uint64_t reference = 0;
    assert_true(oneshot_field_read(&field, message, 4, &reference));
    assert_int_equal(reference, 0x1234);
    field.is_little_endian = true;
    assert_true(oneshot_field_read(&field, message, 4, &reference));
    assert_int_equal(reference, 0x3412);
    assert_false(oneshot_field_read(&field, message, 3, &reference));
    assert_false(oneshot_field_read(&field, message, 1, &reference)); // it begins behind the end
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_succeeds_is_told_if_it_is_signalled_and_counted_in_any_case),
        cmocka_unit_test(completions_name_their_operation_and_their_octets),
        cmocka_unit_test(each_operation_has_its_name_in_the_completion),
        cmocka_unit_test(behind_one_that_failed_none_is_successful),
        cmocka_unit_test(a_slot_is_free_before_its_completion_is_seen),
        cmocka_unit_test(what_is_posted_behind_a_flush_begins_anew),
        cmocka_unit_test(a_fence_that_was_waited_for_is_forgotten_with_what_is_flushed),
        cmocka_unit_test(what_is_done_and_not_to_be_told_leaves_its_slot_with_the_flush),
        cmocka_unit_test(a_completion_without_a_place_is_lost_and_counted),
        cmocka_unit_test(what_was_not_carried_out_is_flushed_aloud_and_in_order),
        cmocka_unit_test(without_a_peer_the_first_fails_and_the_rest_is_flushed),
        cmocka_unit_test(a_queue_pair_that_is_silent_completes_nothing),
        cmocka_unit_test(there_is_work_until_all_has_left),
        cmocka_unit_test(a_new_connection_begins_its_marks_anew),
        cmocka_unit_test(reads_of_a_queue_pair_alone_have_two_requests_out),
        cmocka_unit_test(a_reset_forgets_what_was_posted_and_what_the_peer_said),
        cmocka_unit_test(memory_is_read_by_what_is_put_by_reference),
        cmocka_unit_test(memory_is_read_by_the_message_that_is_about_to_leave),
        cmocka_unit_test(memory_is_read_by_each_element_of_one_octet_and_more),
        cmocka_unit_test(memory_is_written_to_by_reads_until_they_are_over),
        cmocka_unit_test(receives_are_claimed_in_order_and_free_when_they_are_polled),
        cmocka_unit_test(receives_of_its_own_are_flushed_with_it),
        cmocka_unit_test(a_shared_receive_whose_completion_is_lost_is_free_again),
        cmocka_unit_test(a_receive_of_its_own_whose_completion_is_lost_stays_taken),
        cmocka_unit_test(a_reference_may_end_with_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
