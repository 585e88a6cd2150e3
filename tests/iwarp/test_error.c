// Terminates: which one goes out, which headers it carries, what the peer's means for work
// requests.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

static struct craft craft_terminate(const struct terminate *t, bool siw)
{
    uint8_t octets[TERMINATE_MAX_LEN];
    size_t len = terminate_emit(t, octets);
    if (siw) {
        octets[0] = (uint8_t)(octets[0] << 4 | octets[0] >> 4);
    }
    return craft_untagged(RDMAP_TERMINATE, 1, 0, true, octets, len);
}

// a hears a Terminate that has the header of this segment of its own, and its stream ends.
static void peer_refuses(struct pair *p, const struct craft *segment, enum terminate_cause cause)
{
    struct rdmap_offender offender = rdmap_offender_of(span_of(segment->octets, segment->len));
    struct terminate t = rdmap_terminate_make(cause, &offender);
    struct craft c = craft_terminate(&t, false);
    pair_inject(p, &p->a, c.octets, c.len);
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_LOCAL, p->now);
}

static void a_terminate_carries_the_segment_at_fault(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, 0x01020304, 0x1122334455667788, true, NULL, 100);
    pair_inject(p, &p->b, c.octets, c.len);
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_true(t.has_len && t.has_ddp);
    assert_false(t.has_rdmap);
    assert_int_equal(t.ddp_segment_len, c.len);
    assert_int_equal(t.ddp_header_len, DDP_TAGGED_HEADER_LEN);
    assert_memory_equal(t.ddp_header, c.octets, DDP_TAGGED_HEADER_LEN);
    assert_int_equal(p->b.event_count[QP_EVENT_ACCESS_ERR], 1);
    assert_non_null(qp_terminate_sent(p->b.qp));
    assert_null(qp_terminate_received(p->b.qp));
    pair_close(p);
}

static void a_terminate_carries_the_read_request_at_fault(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_read_request(1, 0xbad, 4096, 64);
    pair_inject(p, &p->b, c.octets, c.len);
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_true(t.has_ddp && t.has_rdmap);
    assert_memory_equal(t.read_request, c.octets + DDP_UNTAGGED_HEADER_LEN, RDMAP_READ_REQUEST_LEN);
    pair_close(p);
}

// RFC 5040 section 4.8: the Read Request header is updated to where the response stopped.
static void a_read_refused_half_way_says_where_it_stopped(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 514});
    struct craft c = craft_read_request(1, p->b.stag, (uintptr_t)p->b.memory, 2000);
    pair_inject(p, &p->b, c.octets, c.len);
    p->b.room = 2;
    pair_output(p, &p->b);
    assert_int_equal(p->b.batch.count, 2); // 1000 octets
    assert_int_equal(mem_region_deregister(p->b.mem, p->b.stag), 0);
    pair_hand(p, &p->b);
    pair_hand(p, &p->b);
    struct terminate t = pair_terminate_of(p, &p->b);
    struct rdmap_read_request request;
    assert_true(t.has_rdmap);
    assert_int_equal(t.code, 0); // invalid STag
    rdmap_read_request_parse(span_of(t.read_request, sizeof t.read_request), &request);
    assert_int_equal(request.rdmardsz, 1000);
    assert_int_equal(request.sink_to, 1000);
    assert_int_equal(request.src_to, (uintptr_t)p->b.memory + 1000);
    pair_close(p);
}

static void only_the_first_error_is_reported(void **state)
{
    struct pair *p = pair_open(NULL);
    qp_on_stream_error(p->b.qp, TERM_MPA_CRC, p->now);
    qp_on_stream_error(p->b.qp, TERM_MPA_MARKER, p->now);
    struct terminate t = pair_terminate_of(p, &p->b);
    assert_int_equal(t.layer, TERMINATE_LAYER_LLP);
    assert_int_equal(t.code, 2);
    assert_false(t.has_ddp);
    assert_int_equal(p->b.event_count[QP_EVENT_FATAL], 1);
    pair_close(p);
}

static void a_terminate_cuts_a_message_short(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    p->a.room = 2;
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 5000, 0);
    pair_output(p, &p->a);
    qp_on_stream_error(p->a.qp, TERM_MPA_CRC, p->now);
    pair_expect_none(p->a.send_cq); // the segments in the batch refer to it
    while (pair_hand(p, &p->a)) {
    }
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    assert_int_equal(qp_counters(p->b.qp)->terminates_in[TERM_MPA_CRC], 1);
    pair_close(p);
}

struct meaning {
    enum terminate_cause cause;
    uint32_t status;
};

static void the_peers_terminate_gives_the_oldest_request_its_status(void **state)
{
    static const struct meaning meanings[] = {
        {TERM_RDMAP_LOCAL, WC_REM_OP_ERR},
        {TERM_RDMAP_INVALID_STAG, WC_REM_ACCESS_ERR},
        {TERM_RDMAP_ACCESS, WC_REM_ACCESS_ERR},
        {TERM_RDMAP_VERSION, WC_REM_INV_REQ_ERR},
        {TERM_RDMAP_OPCODE, WC_REM_INV_REQ_ERR},
        {TERM_RDMAP_CATASTROPHIC_STREAM, WC_REM_INV_REQ_ERR},
        {TERM_RDMAP_INVALIDATE, WC_REM_OP_ERR},
        {TERM_DDP_BOUNDS, WC_REM_ACCESS_ERR},
        {TERM_DDP_NO_BUFFER, WC_RNR_RETRY_EXC_ERR},
        {TERM_DDP_TOO_LONG, WC_REM_INV_REQ_ERR},
        {TERM_MPA_CRC, WC_RETRY_EXC_ERR},
    };
    for (unsigned i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        struct pair *p = pair_open(NULL);
        pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
        pair_post_op(p, &p->a, 2, WQE_RDMA_READ, 0, 0, 64, 0);
        pair_output(p, &p->a);
        while (pair_hand(p, &p->a)) {
        }
        struct terminate t = terminate_of(meanings[i].cause);
        struct craft c = craft_terminate(&t, false);
        assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
        pair_expect(p->a.send_cq, 1, meanings[i].status);
        pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
        assert_int_equal(qp_counters(p->a.qp)->terminates_in[meanings[i].cause], 1);
        assert_int_equal(p->a.event_count[QP_EVENT_FATAL], 0); // the completion tells
        bool abort;
        assert_true(qp_wants_close(p->a.qp, &abort));
        assert_false(abort);
        assert_false(qp_has_output(p->a.qp)); // a Terminate is not answered
        pair_close(p);
    }
}

static void a_terminate_with_a_header_names_its_request(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_READ, 0, 0, 64, PAIR_MEMORY_LEN);
    pair_output(p, &p->a);
    pair_run(p); // b refuses the second before it has answered the first
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_REM_ACCESS_ERR);
    pair_close(p);

    p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 4096);
    pair_post_op(p, &p->a, 3, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a); // none is handed
    struct craft write =
        craft_tagged(RDMAP_WRITE, p->b.stag, (uintptr_t)p->b.memory + 4100, true, NULL, 0);
    peer_refuses(p, &write, TERM_DDP_INVALID_STAG);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_REM_ACCESS_ERR);
    pair_expect(p->a.send_cq, 3, WC_WR_FLUSH_ERR);
    pair_close(p);
}

// Both wrote there; the first has left, and waits only for the Read before it to be reported.
static void what_is_done_is_not_what_a_terminate_names(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 4096);
    pair_post_op(p, &p->a, 3, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 64, 4096);
    pair_output(p, &p->a);
    pair_hand(p, &p->a); // the request
    pair_hand(p, &p->a); // and the first Write
    struct craft write =
        craft_tagged(RDMAP_WRITE, p->b.stag, (uintptr_t)p->b.memory + 4100, true, NULL, 0);
    peer_refuses(p, &write, TERM_DDP_INVALID_STAG);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR); // with the Read
    pair_expect(p->a.send_cq, 3, WC_REM_ACCESS_ERR);
    pair_close(p);
}

static void a_send_is_known_again_by_its_number(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_output(p, &p->a);
    struct craft send = craft_untagged(RDMAP_SEND, 2, 0, true, NULL, 0);
    peer_refuses(p, &send, TERM_DDP_TOO_LONG);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_REM_INV_REQ_ERR);
    pair_close(p);
}

static void siw_writes_its_bits_in_another_order(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.siw = true});
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
    pair_output(p, &p->a);
    pair_hand(p, &p->a);
    struct terminate t = terminate_of(TERM_RDMAP_OPCODE); // 02 06 by the RFC, 20 06 from siw
    struct craft c = craft_terminate(&t, true);
    assert_int_equal(c.octets[DDP_UNTAGGED_HEADER_LEN], 0x20);
    pair_inject(p, &p->a, c.octets, c.len);
    assert_int_equal(qp_counters(p->a.qp)->terminates_in[TERM_RDMAP_OPCODE], 1);
    pair_expect(p->a.send_cq, 1, WC_REM_INV_REQ_ERR);
    assert_int_equal(qp_terminate_received(p->a.qp)->etype, 2);
    pair_close(p);
}

static void a_terminate_that_no_completion_tells_of_is_an_event(void **state)
{
    struct pair *p = pair_open(NULL);
    struct terminate t = terminate_of(TERM_RDMAP_LOCAL);
    struct craft c = craft_terminate(&t, false);
    pair_inject(p, &p->a, c.octets, c.len);
    assert_int_equal(p->a.event_count[QP_EVENT_FATAL], 1);
    pair_close(p);
}

static void a_terminate_that_is_cut_or_unknown_still_ends_the_stream(void **state)
{
    for (size_t len = 0; len <= 8; len++) {
        struct pair *p = pair_open(NULL);
        pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
        pair_output(p, &p->a);
        pair_hand(p, &p->a);
        static const uint8_t octets[8] = {0xee, 0x77, 0xe0, 0, 0, 1, 2, 3};
        struct craft c = craft_untagged(RDMAP_TERMINATE, 1, 0, true, octets, len);
        assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
        assert_int_equal(qp_counters(p->a.qp)->terminates_in[TERM_NONE], 1);
        pair_expect(p->a.send_cq, 1, WC_REM_OP_ERR);
        pair_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminate_carries_the_segment_at_fault),
        cmocka_unit_test(a_terminate_carries_the_read_request_at_fault),
        cmocka_unit_test(a_read_refused_half_way_says_where_it_stopped),
        cmocka_unit_test(only_the_first_error_is_reported),
        cmocka_unit_test(a_terminate_cuts_a_message_short),
        cmocka_unit_test(the_peers_terminate_gives_the_oldest_request_its_status),
        cmocka_unit_test(a_terminate_with_a_header_names_its_request),
        cmocka_unit_test(what_is_done_is_not_what_a_terminate_names),
        cmocka_unit_test(a_send_is_known_again_by_its_number),
        cmocka_unit_test(siw_writes_its_bits_in_another_order),
        cmocka_unit_test(a_terminate_that_no_completion_tells_of_is_an_event),
        cmocka_unit_test(a_terminate_that_is_cut_or_unknown_still_ends_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
