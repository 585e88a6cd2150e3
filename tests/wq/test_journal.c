// What a queue pair records for who asked: each post, each completion, and read contexts as they
// come and go.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "wq/journal.h"
#include "wq/srq.h"
#include "wq/wq.h"

enum { MEMORY_LEN = 4096, PARTS = 3, PART_LEN = 1000, RECORD_MAX = 64 };

static struct journal_record records[RECORD_MAX];
static unsigned record_count;

static void note(struct journal *journal, const struct journal_record *record)
{
    (void)journal;
    assert_true(record_count < RECORD_MAX);
    records[record_count++] = *record;
}

static struct journal journal = {.put = note};

struct queue {
    struct wq_config config;
    struct wq_counters counters;
    struct wq wq;
};

static struct {
    struct mem_table *mem;
    uint32_t pd, lkey;
    uint8_t memory[MEMORY_LEN];
    struct cq *cq;
    struct read_sched *sched; // of one context
    struct queue queue[2];
} it;

static void open_queue(struct queue *q, uint32_t qp_num, struct journal *to)
{
    q->config = (struct wq_config){
        .qp_num = qp_num,
        .pd = it.pd,
        .caps = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 2},
        .send_cq = it.cq,
        .recv_cq = it.cq,
        .mem = it.mem,
        .read_sched = it.sched,
        .ord_max = 1,
        .journal = to,
    };
    assert_int_equal(wq_init(&q->wq, &q->config, &q->counters), 0);
    wq_begin(&q->wq);
    wq_set_ord(&q->wq, 1);
    q->wq.reads.allotment_len = PART_LEN;
}

static void open_all(struct journal *to)
{
    uint8_t key[STAG_KEY_LEN] = {7};
    memset(&it, 0, sizeof it);
    record_count = 0;
    it.mem = mem_table_create(key, 64, (struct mem_probe){0});
    it.cq = cq_create(64, (struct cq_port){0});
    it.sched = read_sched_create(1, 0);
    assert_int_equal(mem_pd_alloc(it.mem, &it.pd), 0);
    assert_int_equal(mem_sinks_reserve(it.mem, 1), 0);
    assert_int_equal(mem_region_register(it.mem, it.pd, it.memory, MEMORY_LEN, (uintptr_t)it.memory,
                                         MEM_ACCESS_LOCAL_WRITE, &it.lkey),
                     0);
    open_queue(&it.queue[0], 5, to);
    open_queue(&it.queue[1], 6, to);
}

static int open_kept(void **state)
{
    open_all(&journal);
    return 0;
}

static int open_unasked(void **state)
{
    open_all(NULL);
    return 0;
}

static int close_all(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        wq_requests_forget(&it.queue[i].wq);
        wq_fini(&it.queue[i].wq);
    }
    read_sched_destroy(it.sched);
    cq_destroy(it.cq);
    mem_table_destroy(it.mem);
    return 0;
}

static void post(struct queue *q, enum wqe_opcode opcode, uint64_t wr_id, uint32_t len)
{
    struct send_wqe *wqe = wq_send_slot(&q->wq, 0);
    *wqe = (struct send_wqe){.wr_id = wr_id,
                             .opcode = opcode,
                             .flags = WQE_SIGNALED,
                             .rkey = 0x77,
                             .sge_count = 1,
                             .length = len};
    wqe->sge[0] = (struct sge){.addr = (uintptr_t)it.memory, .length = len, .lkey = it.lkey};
    wq_send_commit(&q->wq, 1);
}

static void expect_record(unsigned at, enum journal_kind kind, uint32_t qp_num, uint64_t wr_id,
                          uint64_t len)
{
    assert_true(at < record_count);
    assert_int_equal(records[at].kind, kind);
    assert_int_equal(records[at].qp_num, qp_num);
    assert_int_equal(records[at].wr_id, wr_id);
    assert_int_equal(records[at].len, len);
}

static void a_send_is_recorded_from_its_post_to_its_completion(void **state)
{
    struct queue *q = &it.queue[0];
    struct transport_work work;
    post(q, WQE_SEND, 42, 100);
    expect_record(0, JOURNAL_SEND_POSTED, 5, 42, 100);
    assert_int_equal(records[0].opcode, WQE_SEND);
    assert_int_equal(wq_next(&q->wq, &work), TRANSPORT_MESSAGE);
    wq_message_put(&q->wq, 1);
    wq_on_settled(&q->wq, 1);
    assert_int_equal(record_count, 2);
    expect_record(1, JOURNAL_COMPLETED, 5, 42, 100);
    assert_int_equal(records[1].opcode, WC_SEND);
    assert_int_equal(records[1].status, WC_SUCCESS);
}

static void every_slot_of_a_batch_is_recorded(void **state)
{
    struct queue *q = &it.queue[0];
    for (unsigned i = 0; i < 3; i++) {
        *wq_send_slot(&q->wq, i) =
            (struct send_wqe){.wr_id = i, .opcode = WQE_RDMA_WRITE, .rkey = 0x100 + i, .length = i};
    }
    wq_send_commit(&q->wq, 3);
    assert_int_equal(record_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        expect_record(i, JOURNAL_SEND_POSTED, 5, i, i);
        assert_int_equal(records[i].key, 0x100 + i);
    }
}

static void every_receive_of_a_batch_is_recorded(void **state)
{
    struct queue *q = &it.queue[0];
    for (unsigned i = 0; i < 2; i++) {
        struct recv_wqe *wqe = wq_receive_slot(&q->wq, i);
        wqe->wr_id = i;
        wqe->sge_count = 0;
    }
    wq_receive_commit(&q->wq, 2);
    expect_record(0, JOURNAL_RECEIVE_POSTED, 5, 0, 0);
    expect_record(1, JOURNAL_RECEIVE_POSTED, 5, 1, 0);
}

// Where the same octets are Immediate Data, they are none.
static void a_key_is_that_of_who_is_named_or_invalidated(void **state)
{
    static const struct {
        enum wqe_opcode opcode;
        uint32_t key;
    } rows[] = {{WQE_RDMA_READ, 0x77},     {WQE_ATOMIC_FETCH_AND_ADD, 0x77}, {WQE_LOCAL_INV, 0x99},
                {WQE_SEND_WITH_INV, 0x99}, {WQE_SEND_WITH_IMM, 0},           {WQE_SEND, 0}};
    struct queue *q = &it.queue[0];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *wq_send_slot(&q->wq, 0) = (struct send_wqe){
            .wr_id = i, .opcode = rows[i].opcode, .rkey = 0x77, .imm_or_inv = 0x99};
        wq_journal_sends(&q->wq, 1);
        assert_int_equal(records[i].key, rows[i].key);
    }
}

// The number lies where the transport says, in what the poster has told it of the entry.
static void a_datagram_names_whom_it_goes_to_and_came_from(void **state)
{
    enum { TO = 0x1234, FROM = 0x4321 };
    struct {
        uint32_t before, qp_num;
    } to = {.before = 99, .qp_num = TO};
    struct wq_config config = it.queue[0].config;
    struct wq_counters counters = {0};
    struct wq wq = {0};
    config.qp_num = 11;
    config.address_len = sizeof to;
    config.address_key_at = sizeof to.before;
    assert_int_equal(wq_init(&wq, &config, &counters), 0);
    wq_begin(&wq);
    struct send_wqe *send = wq_send_slot(&wq, 0);
    *send = (struct send_wqe){.wr_id = 1, .opcode = WQE_SEND};
    memcpy(wq_send_address(&wq, send), &to, sizeof to);
    wq_send_commit(&wq, 1);
    assert_int_equal(records[0].key, TO);
    *wq_receive_slot(&wq, 0) = (struct recv_wqe){.wr_id = 2};
    wq_receive_commit(&wq, 1);
    struct recv_wqe *receive = wq_receive_claim(&wq);
    receive->message = (struct recv_message){.opcode = WC_RECV, .src_qp = FROM};
    wq_complete_receive(&wq, receive, WC_SUCCESS, false);
    assert_int_equal(records[2].kind, JOURNAL_COMPLETED);
    assert_int_equal(records[2].key, FROM);
    wq_fini(&wq);
}

static void a_receive_tells_of_its_room_and_then_of_its_message(void **state)
{
    struct queue *q = &it.queue[0];
    struct recv_wqe *wqe = wq_receive_slot(&q->wq, 0);
    wqe->wr_id = 9;
    wqe->sge_count = 2;
    wqe->sge[0].length = 70;
    wqe->sge[1].length = 30;
    wq_receive_commit(&q->wq, 1);
    expect_record(0, JOURNAL_RECEIVE_POSTED, 5, 9, 100);
    wqe = wq_receive_claim(&q->wq);
    wqe->message = (struct recv_message){.opcode = WC_RECV, .byte_len = 64};
    wq_complete_receive(&q->wq, wqe, WC_SUCCESS, false);
    expect_record(1, JOURNAL_COMPLETED, 5, 9, 64);
    assert_int_equal(records[1].opcode, WC_RECV);
}

// Who sent it is known of datagrams alone.
static void a_completed_receive_names_who_sent_it_where_there_are_addresses(void **state)
{
    struct queue *q = &it.queue[0];
    for (uint32_t address_len = 0; address_len <= 1; address_len++) {
        q->config.address_len = address_len;
        struct recv_wqe *wqe = wq_receive_slot(&q->wq, 0);
        wqe->sge_count = 0;
        wq_receive_commit(&q->wq, 1);
        wqe = wq_receive_claim(&q->wq);
        assert_non_null(wqe);
        wqe->message = (struct recv_message){.opcode = WC_RECV, .byte_len = 33, .src_qp = 9};
        record_count = 0;
        wq_complete_receive(&q->wq, wqe, WC_SUCCESS, false);
        expect_record(0, JOURNAL_COMPLETED, 5, wqe->wr_id, 33);
        assert_int_equal(records[0].key, address_len > 0 ? 9 : 0);
    }
    record_count = 0;
    q->config.address_len = 1;
    post(q, WQE_SEND, 42, 100);
    wq_flush_sends(&q->wq);
    expect_record(1, JOURNAL_COMPLETED, 5, 42, 0);
    assert_int_equal(records[1].key, 0);
}

static void a_shared_receive_is_recorded_by_who_takes_it(void **state)
{
    struct queue *q = &it.queue[0];
    const struct srq_config config = {.pd = it.pd, .max_wr = 2, .max_sge = 2};
    struct srq *srq;
    assert_int_equal(srq_create(&config, &srq), 0);
    q->config.srq = srq;
    struct recv_wqe *wqe = srq_slot(srq, 0);
    wqe->wr_id = 9;
    wqe->sge_count = 1;
    wqe->sge[0].length = 70;
    srq_commit(srq, 1);
    assert_int_equal(record_count, 0); // it may be anybody's
    assert_ptr_equal(wq_receive_claim(&q->wq), wqe);
    expect_record(0, JOURNAL_RECEIVE_TAKEN, 5, 9, 70);
    assert_null(wq_receive_claim(&q->wq));
    assert_int_equal(record_count, 1);
    q->config.srq = NULL;
    srq_free(srq, wqe);
    srq_destroy(srq);
}

static void what_is_flushed_says_so(void **state)
{
    struct queue *q = &it.queue[0];
    post(q, WQE_SEND, 1, 10);
    wq_flush_sends(&q->wq);
    expect_record(1, JOURNAL_COMPLETED, 5, 1, 0);
    assert_int_equal(records[1].status, WC_WR_FLUSH_ERR);
}

// The only request that is out is answered.
static void answer(struct queue *q)
{
    struct read_context *context = wq_request_oldest(&q->wq);
    context->arrived_len = context->length;
    wq_request_answered(&q->wq, context);
}

static bool ask(struct queue *q)
{
    struct transport_work work;
    if (wq_next(&q->wq, &work) != TRANSPORT_REQUEST) {
        return false;
    }
    wq_request_put(&q->wq, work.context, 1);
    return true;
}

static void a_context_that_is_taken_is_recorded_with_what_its_read_still_wants(void **state)
{
    post(&it.queue[0], WQE_RDMA_READ, 1, PARTS * PART_LEN);
    post(&it.queue[1], WQE_RDMA_READ, 2, PART_LEN);
    record_count = 0;
    // The first look at the queue posts the task, the second asks for it.
    while (!ask(&it.queue[0])) {
    }
    expect_record(0, JOURNAL_CONTEXT_GRANTED, 5, 1, PART_LEN);
    assert_false(ask(&it.queue[1])); // it waits
    assert_false(ask(&it.queue[1]));
    answer(&it.queue[0]);
    expect_record(1, JOURNAL_CONTEXT_GONE, 5, 1, (PARTS - 1) * PART_LEN);
    expect_record(2, JOURNAL_CONTEXT_GRANTED, 6, 2, PART_LEN);
    assert_int_equal(records[2].key, records[0].key);
    assert_int_equal(record_count, 3);
    assert_true(ask(&it.queue[1]));
    answer(&it.queue[1]);
    expect_record(3, JOURNAL_CONTEXT_GONE, 6, 2, 0);
}

static void nothing_is_recorded_for_nobody(void **state)
{
    post(&it.queue[0], WQE_RDMA_READ, 1, PART_LEN);
    while (!ask(&it.queue[0])) {
    }
    answer(&it.queue[0]);
    assert_int_equal(record_count, 0);
}

#define CASE(name, open) cmocka_unit_test_setup_teardown(name, open, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_send_is_recorded_from_its_post_to_its_completion, open_kept),
        CASE(every_slot_of_a_batch_is_recorded, open_kept),
        CASE(every_receive_of_a_batch_is_recorded, open_kept),
        CASE(a_key_is_that_of_who_is_named_or_invalidated, open_kept),
        CASE(a_datagram_names_whom_it_goes_to_and_came_from, open_kept),
        CASE(a_receive_tells_of_its_room_and_then_of_its_message, open_kept),
        CASE(a_completed_receive_names_who_sent_it_where_there_are_addresses, open_kept),
        CASE(a_shared_receive_is_recorded_by_who_takes_it, open_kept),
        CASE(what_is_flushed_says_so, open_kept),
        CASE(a_context_that_is_taken_is_recorded_with_what_its_read_still_wants, open_kept),
        CASE(nothing_is_recorded_for_nobody, open_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
