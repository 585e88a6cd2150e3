// What programs do, each over every transport that can carry it, with a receive queue of its own
// and with a shared one. A transport that another test needs is a row of `transports`.
#include <stdio.h>
#include <stdlib.h>

#include "base/sanitized.h"
#include "tests/transport/transport.h"

static const struct test_transport *const transports[] = {
    &transport_direct, &transport_datagram, &transport_lossy, &transport_stream,
    &transport_rc,     &transport_uc,       &transport_ud};

enum { LEN = 3000, REMOTE = 16384, SINK = 32768 };
// Under a sanitizer a quarter of those that run without one.
enum { SEED_COUNT = IS_SANITIZED ? 5 : 20 };

// Of a receive that was posted with `capacity` octets at `offset`.
static void expect_received(const struct end *end, size_t offset, uint32_t capacity, size_t len,
                            uint8_t seed)
{
    uint32_t first = capacity - capacity / 3;
    uint8_t octets[END_MEMORY_LEN];
    memcpy(octets, end->memory + offset + capacity / 3, first);
    memcpy(octets + first, end->memory + offset, capacity / 3);
    struct end flat = {.memory = octets};
    end_expect_filled(&flat, 0, len, seed);
}

static struct send_wqe *send_of_pieces(struct end *end, uint64_t wr_id, enum wqe_opcode opcode)
{
    static const uint32_t lengths[] = {100, 0, 1, 900, 33};
    struct send_wqe *wqe = end_send_slot(end, wr_id, opcode, WQE_SIGNALED);
    size_t offset = 0;
    for (unsigned i = 0; i < 5; i++) {
        end_add_sge(end, wqe, offset, lengths[i]);
        offset += lengths[i];
    }
    end_set_remote(end, wqe, REMOTE);
    return wqe;
}

enum { PIECES_LEN = 1034 };

/* ---- Sends ----------------------------------------------------------------------------------- */

static void a_send_from_several_elements_fills_a_receive(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, PIECES_LEN, 3);
    end_post_receive(b, 7, 0, 2000);
    send_of_pieces(a, 1, WQE_SEND);
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    struct cqe cqe = end_poll(b->recv_cq);
    assert_int_equal(cqe.wr_id, 7);
    assert_int_equal(cqe.opcode, WC_RECV);
    assert_int_equal(cqe.byte_len, PIECES_LEN);
    assert_false(cqe.solicited);
    expect_received(b, 0, 2000, PIECES_LEN, 3);
}

static void an_inline_send_has_its_octets_with_it(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    uint8_t octets[200];
    struct end flat = {.memory = octets};
    end_fill(&flat, 0, sizeof octets, 9);
    end_post_receive(b, 7, 0, 200);
    end_set_inline(end_send_slot(a, 1, WQE_SEND, WQE_SIGNALED), octets, sizeof octets);
    end_post(a);
    assert_false(wq_reads_from(a->wq, a->key));
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    expect_received(b, 0, 200, 200, 9);
}

static void a_send_says_what_is_immediate_and_that_it_is_solicited(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 30);
    struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND_WITH_IMM, WQE_SIGNALED | WQE_SOLICITED);
    wqe->imm_or_inv = 0x12345678;
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    struct cqe cqe = end_poll(b->recv_cq);
    assert_int_equal(cqe.wc_flags, WC_WITH_IMM);
    assert_int_equal(cqe.imm_data, 0x12345678);
    assert_int_equal(cqe.byte_len, 0);
    assert_true(cqe.solicited);
}

static void sends_arrive_in_order_round_after_round(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    enum { ROUND_COUNT = 12, ROUND = 20, MESSAGE_LEN = 64 };
    for (unsigned i = 0; i < ROUND_COUNT * ROUND; i++) {
        size_t offset = (size_t)(i % ROUND) * MESSAGE_LEN;
        end_post_receive(b, i, offset, MESSAGE_LEN);
        end_fill(a, offset, MESSAGE_LEN, (uint8_t)i);
        end_post_op(a, i, WQE_SEND, WQE_SIGNALED, offset, MESSAGE_LEN, 0);
        if (i % ROUND < ROUND - 1) {
            continue;
        }
        world_run(w);
        for (unsigned k = i - (ROUND - 1); k <= i; k++) {
            end_expect(a->send_cq, k, WC_SUCCESS);
            end_expect(b->recv_cq, k, WC_SUCCESS);
            expect_received(b, (size_t)(k % ROUND) * MESSAGE_LEN, MESSAGE_LEN, MESSAGE_LEN,
                            (uint8_t)k);
        }
    }
}

static void a_send_waits_for_its_receive(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, 100, 5);
    for (unsigned i = 0; i < 3; i++) {
        end_post_op(a, i, WQE_SEND, WQE_SIGNALED, 0, 100, 0);
    }
    for (unsigned i = 0; i < 100; i++) {
        w->transport->step(w);
    }
    end_expect_none(b->recv_cq);
    for (unsigned i = 0; i < 3; i++) {
        end_post_receive(b, i, 100UL * i, 100);
    }
    world_run(w);
    for (unsigned i = 0; i < 3; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
        end_expect(b->recv_cq, i, WC_SUCCESS);
        expect_received(b, 100UL * i, 100, 100, 5);
    }
}

static void only_signalled_work_requests_complete_aloud(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    for (unsigned i = 0; i < 10; i++) {
        end_post_receive(b, i, 0, 0);
        end_post_op(a, i, WQE_SEND, i % 4 == 1 ? WQE_SIGNALED : 0, 0, 0, 0);
    }
    world_run(w);
    for (unsigned i = 1; i < 10; i += 4) {
        end_expect(a->send_cq, i, WC_SUCCESS);
    }
    end_expect_none(a->send_cq);
    assert_int_equal(wq_send_count(a->wq), 0);
}

/* ---- Writes ---------------------------------------------------------------------------------- */

static void a_write_lands_in_the_memory_that_it_names(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, PIECES_LEN, 4);
    send_of_pieces(a, 1, WQE_RDMA_WRITE);
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_filled(b, REMOTE, PIECES_LEN, 4);
    assert_int_equal(b->memory[REMOTE + PIECES_LEN], 0);
    end_expect_none(b->recv_cq);
}

static void a_write_with_immediate_takes_a_receive(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, PIECES_LEN, 4);
    end_post_receive(b, 7, 0, 0);
    send_of_pieces(a, 1, WQE_RDMA_WRITE_WITH_IMM)->imm_or_inv = 77;
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_filled(b, REMOTE, PIECES_LEN, 4);
    struct cqe cqe = end_poll(b->recv_cq);
    assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(cqe.byte_len, PIECES_LEN);
    assert_int_equal(cqe.imm_data, 77);
}

// A program may change what it wrote from as soon as it has seen the completion, and not before:
// what is sent again is read again.
static void memory_is_read_no_more_after_the_completion(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, LEN, 4);
    end_post_op(a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
    struct cqe cqe;
    bool is_over = cq_poll(a->send_cq, &cqe, 1) == 1;
    while (!is_over) {
        assert_true(w->transport->step(w));
        is_over = cq_poll(a->send_cq, &cqe, 1) == 1;
    }
    assert_false(wq_reads_from(a->wq, a->key));
    memset(a->memory, 0xee, LEN);
    world_run(w);
    end_expect_filled(b, REMOTE, LEN, 4);
}

static void memory_is_guarded_while_it_may_be_read_again(struct world *w)
{
    struct end *a = &w->ends[0];
    struct cqe cqe;
    end_post_op(a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
    while (cq_poll(a->send_cq, &cqe, 1) == 0) {
        bool has_begun = wq_begun_end(a->wq) != wq_send_head(a->wq);
        assert_int_equal(wq_reads_from(a->wq, a->key), has_begun);
        assert_true(w->transport->step(w));
    }
}

static void a_flushed_write_completes_behind_its_answer(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, LEN, 4);
    end_post_op(a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
    struct cqe cqe;
    while (cq_poll(a->send_cq, &cqe, 1) == 0) {
        assert_true(w->transport->step(w));
    }
    end_expect_filled(b, REMOTE, LEN, 4); // at once
    assert_int_equal(a->wq->counters->write_flushes, 1);
    world_run(w);
}

/* ---- Reads and atomics ----------------------------------------------------------------------- */

static void a_read_fills_its_elements(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(b, REMOTE, PIECES_LEN, 8);
    send_of_pieces(a, 1, WQE_RDMA_READ);
    end_post(a);
    world_run(w);
    struct cqe cqe = end_poll(a->send_cq);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.byte_len, PIECES_LEN);
    end_expect_filled(a, 0, PIECES_LEN, 8);
}

static void reads_longer_than_the_allotment_are_divided(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(b, REMOTE, LEN, 8);
    end_fill(b, REMOTE + LEN, LEN, 6);
    end_post_op(a, 1, WQE_RDMA_READ, WQE_SIGNALED, SINK, LEN, REMOTE);
    end_post_op(a, 2, WQE_RDMA_READ, WQE_SIGNALED, SINK + LEN, LEN, REMOTE + LEN);
    end_post_op(a, 3, WQE_RDMA_READ, WQE_SIGNALED, 0, 0, 0);
    world_run(w);
    for (unsigned i = 1; i <= 3; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
    }
    end_expect_filled(a, SINK, LEN, 8);
    end_expect_filled(a, SINK + LEN, LEN, 6);
}

static uint64_t word_at(const struct end *end, size_t offset)
{
    uint64_t word;
    memcpy(&word, end->memory + offset, sizeof word);
    return word;
}

static void post_atomic(struct end *end, uint64_t wr_id, enum wqe_opcode opcode, size_t sink,
                        uint64_t compare_add, uint64_t swap)
{
    struct send_wqe *wqe = end_send_slot(end, wr_id, opcode, WQE_SIGNALED);
    end_add_sge(end, wqe, sink, 8);
    end_set_remote(end, wqe, REMOTE);
    wqe->compare_add = compare_add;
    wqe->swap = swap;
    end_post(end);
}

static void an_atomic_acts_once_and_answers_with_the_value_before(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    enum { COUNT = 40 };
    for (unsigned i = 0; i < COUNT; i++) {
        post_atomic(a, i, WQE_ATOMIC_FETCH_AND_ADD, SINK + 8UL * i, 3, 0);
    }
    post_atomic(a, COUNT, WQE_ATOMIC_CMP_AND_SWP, SINK + 8UL * COUNT, 3 * COUNT, 1000);
    post_atomic(a, COUNT + 1, WQE_ATOMIC_CMP_AND_SWP, SINK + 8UL * (COUNT + 1), 17, 2000);
    world_run(w);
    for (unsigned i = 0; i <= COUNT; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
        assert_int_equal(word_at(a, SINK + 8UL * i), 3 * i);
    }
    end_expect(a->send_cq, COUNT + 1, WC_SUCCESS);
    assert_int_equal(word_at(a, SINK + 8UL * (COUNT + 1)), 1000);
    assert_int_equal(word_at(b, REMOTE), 1000);
}

// Each Write would overtake the answer to the Read before it.
static void a_fenced_write_waits_for_the_reads_before_it(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(b, REMOTE, LEN, 1);
    for (unsigned i = 0; i < 8; i++) {
        end_fill(a, i * LEN, LEN, (uint8_t)(2 + i));
    }
    for (unsigned i = 0; i < 8; i++) {
        end_post_op(a, i, WQE_RDMA_READ, 0, SINK + i * LEN, LEN, REMOTE);
        end_post_op(a, i, WQE_RDMA_WRITE, WQE_FENCE, i * LEN, LEN, REMOTE);
    }
    world_run(w);
    assert_int_equal(wq_send_count(a->wq), 0);
    for (unsigned i = 0; i < 8; i++) {
        end_expect_filled(a, SINK + i * LEN, LEN, (uint8_t)(1 + i));
    }
    end_expect_filled(b, REMOTE, LEN, 9);
}

static void what_stands_behind_a_read_completes_behind_it(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    for (unsigned i = 0; i < 20; i++) {
        bool is_read = i % 3 == 0;
        if (i % 3 == 1) {
            end_post_receive(b, i, 0, LEN);
        }
        end_post_op(a, i,
                    is_read      ? WQE_RDMA_READ
                    : i % 3 == 1 ? WQE_SEND
                                 : WQE_RDMA_WRITE,
                    WQE_SIGNALED, is_read ? SINK : 0, 700, REMOTE);
    }
    world_run(w);
    for (unsigned i = 0; i < 20; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

static void a_window_is_bound_used_and_taken_back(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    uint32_t window;
    assert_int_equal(mem_window_alloc(b->mem, MEM_WINDOW_TYPE_2, b->pd, &window), 0);
    struct send_wqe *wqe = end_send_slot(b, 1, WQE_BIND_MW, WQE_SIGNALED);
    wqe->bind = (struct wqe_bind){window + 1, b->key, (uintptr_t)b->memory + REMOTE, 100,
                                  MEM_ACCESS_REMOTE_WRITE};
    end_post(b);
    world_run(w);
    end_expect(b->send_cq, 1, WC_SUCCESS);
    end_fill(a, 0, 100, 7);
    wqe = end_send_slot(a, 2, WQE_RDMA_WRITE, WQE_SIGNALED);
    end_add_sge(a, wqe, 0, 100);
    end_set_remote(a, wqe, REMOTE);
    wqe->rkey = window + 1;
    end_post(a);
    end_post_receive(b, 7, 0, 0);
    end_send_slot(a, 3, WQE_SEND_WITH_INV, WQE_SIGNALED)->imm_or_inv = window + 1;
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    end_expect(a->send_cq, 3, WC_SUCCESS);
    end_expect_filled(b, REMOTE, 100, 7);
    struct cqe cqe = end_poll(b->recv_cq);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV);
    assert_int_equal(cqe.inv_rkey, window + 1);
    end_send_slot(b, 4, WQE_LOCAL_INV, WQE_SIGNALED)->imm_or_inv = window + 1; // it is not bound
    end_post(b);
    world_run(w);
    end_expect(b->send_cq, 4, WC_LOC_QP_OP_ERR);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void expect_over(struct world *w, struct end *end, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        end_expect(end->send_cq, i, WC_WR_FLUSH_ERR);
    }
    end_expect_none(end->send_cq);
    end_post_op(end, 99, WQE_SEND, 0, 0, 10, 0); // and what is posted from here on
    world_run(w);
    end_expect(end->send_cq, 99, WC_WR_FLUSH_ERR);
}

// A receive of a queue of its own; those of a shared one stay for others.
static void expect_flushed(struct end *end, uint64_t wr_id)
{
    if (end->srq == NULL) {
        end_expect(end->recv_cq, wr_id, WC_WR_FLUSH_ERR);
    }
    end_expect_none(end->recv_cq);
}

static void a_write_to_what_nobody_may_write_ends_the_connection(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 10);
    end_post_receive(a, 8, 0, 10);
    end_post_op(a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 10, REMOTE);
    end_post_op(a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 10, END_MEMORY_LEN - 9);
    world_run(w);
    end_post_op(a, 3, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 10, REMOTE);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect(a->send_cq, 2, WC_REM_ACCESS_ERR);
    expect_over(w, a, 3, 3);
    expect_flushed(b, 7);
    expect_flushed(a, 8);
    expect_over(w, b, 1, 0);
}

static void a_read_of_what_nobody_may_read_ends_the_connection(struct world *w)
{
    struct end *a = &w->ends[0];
    end_post_op(a, 1, WQE_RDMA_READ, WQE_SIGNALED, SINK, 10, REMOTE);
    struct send_wqe *wqe = end_send_slot(a, 2, WQE_RDMA_READ, WQE_SIGNALED);
    end_add_sge(a, wqe, SINK, 10);
    end_set_remote(a, wqe, REMOTE);
    wqe->rkey ^= 0x100;
    end_post(a);
    world_run(w);
    end_post_op(a, 3, WQE_RDMA_READ, WQE_SIGNALED, SINK, 10, REMOTE);
    world_run(w);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect(a->send_cq, 2, WC_REM_ACCESS_ERR);
    expect_over(w, a, 3, 3);
}

static void a_send_longer_than_its_receive_ends_the_connection(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 99);
    end_post_op(a, 1, WQE_SEND, 0, 0, 100, 0);
    world_run(w);
    end_expect(a->send_cq, 1, WC_REM_INV_REQ_ERR);
    end_expect(b->recv_cq, 7, WC_LOC_LEN_ERR);
    expect_over(w, a, 1, 0);
}

static void memory_that_is_not_ours_is_a_local_error(struct world *w)
{
    struct end *a = &w->ends[0];
    struct send_wqe *wqe = send_of_pieces(a, 1, WQE_RDMA_WRITE);
    wqe->sge[3].lkey ^= 0x100;
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_LOC_PROT_ERR);
    expect_over(w, a, 1, 0);
}

static void a_message_of_more_than_two_gigabytes_is_a_local_error(struct world *w)
{
    struct end *a = &w->ends[0];
    end_send_slot(a, 1, WQE_SEND, 0)->length = WQ_MESSAGE_MAX_LEN + 1;
    end_post(a);
    world_run(w);
    end_expect(a->send_cq, 1, WC_LOC_LEN_ERR);
}

static void what_is_posted_when_the_connection_ends_is_flushed(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(a, 8, 0, 10);
    for (unsigned i = 0; i < 6; i++) { // there is no receive: they cannot succeed
        end_post_op(a, i, i % 2 == 0 ? WQE_SEND : WQE_RDMA_READ, 0, SINK, LEN, REMOTE);
    }
    for (unsigned i = 0; i < 10; i++) {
        w->transport->step(w);
    }
    w->transport->give_up(a);
    world_run(w);
    expect_over(w, a, 0, 5);
    expect_flushed(a, 8);
    end_expect_none(b->recv_cq);
}

static void what_a_transport_does_not_carry_is_refused(struct world *w)
{
    for (unsigned opcode = 0; opcode < WQE_OPCODE_COUNT; opcode++) {
        if (transport_can(w->transport, 1U << opcode, 0)) {
            continue;
        }
        struct world *fresh = world_open(w->transport, &w->options);
        struct end *a = &fresh->ends[0];
        struct send_wqe *wqe = end_send_slot(a, opcode, opcode, 0);
        end_add_sge(a, wqe, SINK, 8);
        end_set_remote(a, wqe, REMOTE);
        end_post(a);
        world_run(fresh);
        end_expect(a->send_cq, opcode, WC_LOC_QP_OP_ERR);
        world_close(fresh);
    }
}

// Whatever was under way: nothing of it comes in again.
static void a_queue_pair_that_was_reset_connects_again(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 4; i++) {
            end_post_receive(b, 90, 0, LEN);
            end_post_op(a, 90, WQE_RDMA_READ, WQE_SIGNALED, SINK, LEN, REMOTE);
            end_post_op(a, 90, WQE_RDMA_WRITE, WQE_FENCE, 0, LEN, REMOTE);
            end_post_op(a, 90, WQE_SEND, 0, 0, LEN, REMOTE);
        }
        for (unsigned i = 0; i < 5 * round; i++) {
            w->transport->step(w);
        }
        if (round % 2 == 1) {
            w->transport->give_up(a);
            w->transport->give_up(b);
        }
        world_reconnect(w);
        end_fill(a, 0, LEN, (uint8_t)round);
        end_post_receive(b, 7, 0, LEN);
        end_post_op(a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
        end_post_op(a, 2, WQE_RDMA_READ, WQE_SIGNALED, SINK, LEN, REMOTE);
        end_post_op(a, 3, WQE_SEND, WQE_SIGNALED, 0, LEN, 0);
        world_run(w);
        for (unsigned i = 1; i <= 3; i++) {
            end_expect(a->send_cq, i, WC_SUCCESS);
        }
        end_expect(b->recv_cq, 7, WC_SUCCESS);
        end_expect_filled(a, SINK, LEN, (uint8_t)round);
        expect_received(b, 0, LEN, LEN, (uint8_t)round);
    }
}

static void a_queue_pair_may_be_its_own_peer(struct world *w)
{
    struct end *a = &w->ends[0];
    a->peer = a;
    end_fill(a, 0, LEN, 5);
    end_post_receive(a, 7, 4096, LEN);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, LEN, 0);
    end_post_op(a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
    end_post_op(a, 3, WQE_RDMA_READ, WQE_SIGNALED, SINK, LEN, REMOTE);
    world_run(w);
    for (unsigned i = 1; i <= 3; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
    }
    end_expect(a->recv_cq, 7, WC_SUCCESS);
    expect_received(a, 4096, LEN, LEN, 5);
    end_expect_filled(a, SINK, LEN, 5);
}

/* ---- a net that loses ------------------------------------------------------------------------ */

// All of it happens, or this transport proves nothing.
static void what_goes_wrong_on_the_way_is_mended(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    for (unsigned i = 0; i < 300; i++) {
        post_atomic(a, i, WQE_ATOMIC_FETCH_AND_ADD, SINK, 1, 0);
        end_post_op(a, i, WQE_RDMA_READ, WQE_SIGNALED, SINK, LEN, REMOTE);
        end_post_op(a, i, WQE_SEND, WQE_SIGNALED, 0, LEN, 0);
        for (unsigned k = 0; k < 100; k++) {
            w->transport->step(w);
        }
        end_post_receive(b, i, 0, LEN);
        world_run(w);
        for (unsigned k = 0; k < 3; k++) {
            end_expect(a->send_cq, i, WC_SUCCESS);
        }
        end_expect(b->recv_cq, i, WC_SUCCESS);
    }
    assert_int_equal(word_at(b, REMOTE), 300);
    assert_true(w->trouble.lost > 0 && w->trouble.repeated > 0);
    assert_true(w->trouble.gaps > 0 && w->trouble.not_ready > 0);
    assert_true(w->trouble.sent_again > 0 && w->trouble.apart > 0);
    assert_true(w->trouble.read_again > 0 && w->trouble.answered_again > 0);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static void post_to(struct end *end, uint64_t wr_id, uint32_t index, uint32_t len)
{
    struct send_wqe *wqe = end_send_slot(end, wr_id, WQE_SEND, WQE_SIGNALED);
    end_add_sge(end, wqe, 0, len);
    end_set_address(end, wqe, index);
    end_post(end);
}

static void each_datagram_goes_where_its_work_request_says(struct world *w)
{
    struct end *a = &w->ends[0];
    for (unsigned i = 0; i < END_COUNT; i++) {
        for (unsigned k = 0; k < 4; k++) {
            end_post_receive(&w->ends[i], k, 1000UL * k, 1000);
        }
    }
    for (unsigned i = 0; i < 4 * END_COUNT; i++) {
        post_to(a, i, i % END_COUNT, 100 * (i % END_COUNT) + 1); // one is for the sender itself
    }
    world_run(w);
    for (unsigned i = 0; i < 4 * END_COUNT; i++) {
        end_expect(a->send_cq, i, WC_SUCCESS);
        struct cqe cqe = end_poll(w->ends[i % END_COUNT].recv_cq);
        assert_int_equal(cqe.byte_len, 100 * (i % END_COUNT) + 1);
        assert_int_equal(cqe.src_qp, a->config.qp_num); // from whom
    }
}

static void a_datagram_that_finds_no_receive_is_dropped(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    post_to(a, 1, 1, 10);
    world_run(w);
    end_post_receive(b, 7, 0, 100);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_none(b->recv_cq);
    post_to(a, 2, 1, 20);
    world_run(w);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    assert_int_equal(end_poll(b->recv_cq).byte_len, 20);
}

static void an_error_stops_the_send_queue_until_it_goes_on(struct world *w)
{
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(a, 8, 0, 100);
    end_post_receive(b, 7, 0, 100);
    post_to(a, 1, 1, PACKET_LEN_MAX + 1);
    post_to(a, 2, 1, 10);
    end_expect(a->send_cq, 1, WC_LOC_LEN_ERR);
    end_expect(a->send_cq, 2, WC_WR_FLUSH_ERR);
    post_to(b, 3, 0, 10); // receives go on
    world_run(w);
    end_expect(a->recv_cq, 8, WC_SUCCESS);
    w->transport->go_on(a);
    post_to(a, 4, 1, 10);
    world_run(w);
    end_expect(a->send_cq, 4, WC_SUCCESS);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
}

static void memory_that_went_before_it_was_read_is_a_local_error(struct world *w)
{
    struct end *a = &w->ends[0];
    post_to(a, 1, 1, 10);
    assert_true(wq_reads_from(a->wq, a->key)); // nobody who asks would take it away
    assert_int_equal(mem_region_deregister(a->mem, a->key), 0);
    world_run(w);
    end_expect(a->send_cq, 1, WC_LOC_PROT_ERR);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define OP(name) (1U << WQE_##name)

static const struct program {
    const char *name;
    void (*run)(struct world *w);
    uint32_t needs;  // opcodes
    uint32_t traits; // enum transport_trait
    struct world_options options;
} programs[] = {
#define PROGRAM(name, ...)       \
    {                            \
#name, name, __VA_ARGS__ \
    }
    PROGRAM(a_send_from_several_elements_fills_a_receive, OP(SEND)),
    PROGRAM(an_inline_send_has_its_octets_with_it, OP(SEND)),
    PROGRAM(a_send_says_what_is_immediate_and_that_it_is_solicited, OP(SEND_WITH_IMM)),
    PROGRAM(sends_arrive_in_order_round_after_round, OP(SEND), TRAIT_CONNECTED),
    PROGRAM(a_send_waits_for_its_receive, OP(SEND), TRAIT_CONNECTED),
    PROGRAM(only_signalled_work_requests_complete_aloud, OP(SEND)),
    PROGRAM(a_write_lands_in_the_memory_that_it_names, OP(RDMA_WRITE)),
    PROGRAM(a_write_with_immediate_takes_a_receive, OP(RDMA_WRITE_WITH_IMM)),
    PROGRAM(memory_is_read_no_more_after_the_completion, OP(RDMA_WRITE)),
    PROGRAM(memory_is_guarded_while_it_may_be_read_again, OP(RDMA_WRITE), TRAIT_GUARDS),
    PROGRAM(a_flushed_write_completes_behind_its_answer, OP(RDMA_WRITE) | OP(RDMA_READ), 0,
            {.write_flush = true}),
    PROGRAM(a_read_fills_its_elements, OP(RDMA_READ)),
    PROGRAM(reads_longer_than_the_allotment_are_divided, OP(RDMA_READ), 0, {.allotment_len = 512}),
    PROGRAM(an_atomic_acts_once_and_answers_with_the_value_before,
            OP(ATOMIC_CMP_AND_SWP) | OP(ATOMIC_FETCH_AND_ADD)),
    PROGRAM(a_fenced_write_waits_for_the_reads_before_it, OP(RDMA_WRITE) | OP(RDMA_READ)),
    PROGRAM(what_stands_behind_a_read_completes_behind_it,
            OP(SEND) | OP(RDMA_WRITE) | OP(RDMA_READ)),
    PROGRAM(a_window_is_bound_used_and_taken_back,
            OP(BIND_MW) | OP(LOCAL_INV) | OP(SEND_WITH_INV) | OP(RDMA_WRITE)),
    PROGRAM(a_write_to_what_nobody_may_write_ends_the_connection, OP(RDMA_WRITE),
            TRAIT_CONNECTED | TRAIT_ANSWERED),
    PROGRAM(a_read_of_what_nobody_may_read_ends_the_connection, OP(RDMA_READ)),
    PROGRAM(a_send_longer_than_its_receive_ends_the_connection, OP(SEND), TRAIT_ANSWERED),
    PROGRAM(memory_that_is_not_ours_is_a_local_error, OP(RDMA_WRITE)),
    PROGRAM(a_message_of_more_than_two_gigabytes_is_a_local_error, OP(SEND)),
    PROGRAM(what_is_posted_when_the_connection_ends_is_flushed, OP(SEND) | OP(RDMA_READ),
            TRAIT_ANSWERED),
    PROGRAM(what_a_transport_does_not_carry_is_refused, 0),
    PROGRAM(a_queue_pair_that_was_reset_connects_again, OP(SEND) | OP(RDMA_WRITE) | OP(RDMA_READ),
            TRAIT_CONNECTED),
    PROGRAM(a_queue_pair_may_be_its_own_peer, OP(SEND) | OP(RDMA_WRITE) | OP(RDMA_READ),
            TRAIT_ANSWERED),
    PROGRAM(each_datagram_goes_where_its_work_request_says, OP(SEND), TRAIT_DATAGRAM),
    PROGRAM(a_datagram_that_finds_no_receive_is_dropped, OP(SEND), TRAIT_DATAGRAM),
    PROGRAM(an_error_stops_the_send_queue_until_it_goes_on, OP(SEND), TRAIT_DATAGRAM),
    PROGRAM(memory_that_went_before_it_was_read_is_a_local_error, OP(SEND),
            TRAIT_DATAGRAM | TRAIT_GUARDS),
    PROGRAM(what_goes_wrong_on_the_way_is_mended, OP(SEND) | OP(RDMA_READ), TRAIT_LOSSY),
#undef PROGRAM
};

struct trial {
    char name[128];
    const struct test_transport *transport;
    const struct program *program;
    bool has_srq;
};

static void run_trial(void **state)
{
    const struct trial *trial = *state;
    struct world_options options = trial->program->options;
    options.has_srq = trial->has_srq;
    for (options.seed = 1; options.seed <= SEED_COUNT; options.seed++) {
        struct world *w = world_open(trial->transport, &options);
        trial->program->run(w);
        world_close(w);
    }
}

int main(void)
{
    enum {
        TRANSPORT_COUNT = sizeof transports / sizeof transports[0],
        PROGRAM_COUNT = sizeof programs / sizeof programs[0],
        TRIAL_MAX = 2 * TRANSPORT_COUNT * PROGRAM_COUNT,
    };
    static struct trial trials[TRIAL_MAX];
    static struct CMUnitTest tests[TRIAL_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < TRIAL_MAX; i++) {
        struct trial *t = &trials[count];
        t->transport = transports[i / 2 / PROGRAM_COUNT];
        t->program = &programs[i / 2 % PROGRAM_COUNT];
        t->has_srq = i % 2 == 1;
        if (!transport_can(t->transport, t->program->needs, t->program->traits)) {
            continue;
        }
        snprintf(t->name, sizeof t->name, "%s%s: %s", t->transport->name,
                 t->has_srq ? " with an SRQ" : "", t->program->name);
        tests[count++] =
            (struct CMUnitTest){.name = t->name, .test_func = run_trial, .initial_state = t};
    }
    return _cmocka_run_group_tests("programs", tests, count, NULL, NULL);
}
