// One-shot RDMA over packets of RC: the STag is in the message, Send with Invalidate closes it.
#include <errno.h>

#include "tests/roce/rc_end.h"
#include "wq/oneshot.h"

enum {
    BODY_LEN = 48,
    REFERENCE_AT = 24,
    DATA_AT = 16 * 1024, // in both memories
    DATA_LEN = 2000,
    PIECE_LEN = 4, // so that a packet of 256 octets has twice as many as are told at a time
    PIECES_MAX = DATA_LEN / PIECE_LEN,
    LONGER_LEN = 20, // ... as are told at a time are two packets and a half
    COMMANDS = 4,
};

static const uint64_t reference = 0x1122334455667788;
static const struct oneshot_config config = {
    .command_max = COMMANDS,
    .element_max = PIECES_MAX,
    .request = {.offset = REFERENCE_AT, .len = 8},
    .answer = {.offset = REFERENCE_AT, .len = 8},
};

static unsigned piece_len;

struct ends {
    struct rc_end *a, *b; // a posts commands, b answers them
};

static int setup(void **state)
{
    static struct ends ends;
    const struct rc_end_options options = {.pmtu = 256};
    piece_len = PIECE_LEN;
    ends = (struct ends){rc_end_open(&options), rc_end_open(&options)};
    assert_int_equal(wq_oneshot_create(rc_wq(ends.a->rc), &config), 0);
    for (unsigned i = 0; i < 4; i++) {
        rc_end_post_receive(ends.a, 100 + i, 256 * i, 256);
        rc_end_post_receive(ends.b, 200 + i, 256 * i, 256);
    }
    *state = &ends;
    return 0;
}

static int teardown(void **state)
{
    struct ends *ends = *state;
    rc_end_close(ends->a);
    rc_end_close(ends->b);
    return 0;
}

// Pieces with gaps of as many octets.
static uint8_t *octet_at(const struct rc_end *e, unsigned i)
{
    return e->memory + DATA_AT + 2 * (i - i % piece_len) + i % piece_len;
}

static uint32_t post_command(struct rc_end *e)
{
    struct oneshot_command *command = wq_oneshot_slot(rc_wq(e->rc));
    assert_non_null(command);
    const unsigned count = DATA_LEN / piece_len;
    for (unsigned i = 0; i < count; i++) {
        command->list.elements[i].octets = mspan_of(octet_at(e, i * piece_len), piece_len);
    }
    mem_list_init(&command->list, command->list.elements, count);
    command->offset = 0;
    command->length = DATA_LEN;
    command->reference = reference;
    command->access = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE;
    struct send_wqe *wqe = rc_end_slot(e, 1, WQE_SEND);
    uint32_t stag = command->stag;
    wqe->flags = WQE_INLINE;
    wqe->length = BODY_LEN;
    memset(wqe->inline_data, 0x77, BODY_LEN);
    wq_oneshot_commit(rc_wq(e->rc), wqe);
    rc_end_commit(e);
    return stag;
}

static void post_close(struct rc_end *e, uint32_t stag, uint64_t number, uint32_t len)
{
    struct send_wqe *wqe = rc_end_slot(e, 2, WQE_SEND);
    wqe->flags = WQE_INLINE | WQE_CLOSE;
    wqe->imm_or_inv = stag;
    wqe->length = len;
    memset(wqe->inline_data, 0, BODY_LEN);
    oneshot_field_write(&config.answer, wqe->inline_data, number);
    rc_end_commit(e);
}

// A command that has arrived.
static uint32_t advertise(struct ends *ends)
{
    uint32_t stag = post_command(ends->a);
    rc_ends_run(ends->a, ends->b);
    rc_end_completed(ends->a->send_cq, 1, WC_SUCCESS);
    rc_end_completed(ends->b->recv_cq, 200, WC_SUCCESS);
    assert_int_equal(rc_end_counters(ends->a)->wq.oneshot_advertised, 1);
    return stag;
}

static void expect_closed(struct ends *ends, uint32_t stag)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(ends->a->recv_cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.byte_len, BODY_LEN);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV | WC_CLOSED | WC_REFERENCE);
    assert_int_equal(cqe.inv_rkey, stag);
    assert_true(cqe.reference == reference);
    assert_int_equal(rc_end_counters(ends->a)->wq.oneshot_closed, 1);
    assert_int_equal(rc_end_counters(ends->b)->oneshot_answered, 1);
}

static void a_list_of_many_pieces_is_written_and_read_then_closed(void **state)
{
    struct ends *ends = *state;
    struct rc_end *a = ends->a, *b = ends->b;
    uint32_t stag = advertise(ends);
    for (unsigned i = 0; i < DATA_LEN; i++) {
        b->memory[DATA_AT + i] = (uint8_t)(i * 7 + i / 256 + 1);
    }
    rc_end_post(b, 3, WQE_RDMA_WRITE, DATA_AT, DATA_LEN, 0, stag);
    rc_end_post(b, 4, WQE_RDMA_READ, DATA_AT + DATA_LEN, DATA_LEN, 0, stag);
    post_close(b, stag, reference, BODY_LEN);
    rc_ends_run(a, b);
    rc_end_completed(b->send_cq, 3, WC_SUCCESS);
    rc_end_completed(b->send_cq, 4, WC_SUCCESS);
    rc_end_completed(b->send_cq, 2, WC_SUCCESS);
    expect_closed(ends, stag);
    for (unsigned i = 0; i < DATA_LEN; i++) {
        assert_int_equal(*octet_at(a, i), (uint8_t)(i * 7 + i / 256 + 1));
        assert_int_equal(*(octet_at(a, i) + piece_len), 0); // the gap
    }
    assert_memory_equal(b->memory + DATA_AT, b->memory + DATA_AT + DATA_LEN, DATA_LEN);
}

static void a_list_of_longer_pieces_is_written_and_read_then_closed(void **state)
{
    piece_len = LONGER_LEN;
    a_list_of_many_pieces_is_written_and_read_then_closed(state);
}

// The packet is a Send with Invalidate, as any RNIC has it: a stranger may close as well.
static void the_close_is_a_send_with_invalidate(void **state)
{
    struct ends *ends = *state;
    uint32_t stag = advertise(ends);
    post_close(ends->b, stag, reference, BODY_LEN);
    const struct rc_end_packet *packet = rc_end_left(ends->b, ROCE_SEND_ONLY_INV, RC_END_PSN);
    assert_int_equal(packet->p.ieth.rkey, stag);
    rc_end_take_octets(ends->a, span_of(packet->octets, packet->len));
    expect_closed(ends, stag);
    // It comes again, since its acknowledgement was lost: nothing is closed twice.
    rc_end_take_octets(ends->a, span_of(packet->octets, packet->len));
    assert_int_equal(rc_end_counters(ends->a)->duplicates, 1);
    assert_int_equal(rc_end_state(ends->a), QP_RTS);
    rc_end_completed_none(ends->a->recv_cq);
}

static void access_behind_the_close_is_refused(void **state)
{
    struct ends *ends = *state;
    uint32_t stag = advertise(ends);
    post_close(ends->b, stag, reference, BODY_LEN);
    rc_end_post(ends->b, 3, WQE_RDMA_WRITE, DATA_AT, 10, 0, stag);
    rc_ends_run(ends->a, ends->b);
    expect_closed(ends, stag);
    rc_end_completed(ends->b->send_cq, 2, WC_SUCCESS);
    rc_end_completed(ends->b->send_cq, 3, WC_REM_ACCESS_ERR);
    assert_int_equal(rc_end_counters(ends->a)->refusals[RC_REFUSED_ACCESS], 1);
}

static void expect_refused(struct ends *ends, enum rc_refusal refusal, uint32_t status)
{
    struct cqe cqe;
    rc_ends_run(ends->a, ends->b);
    assert_int_equal(rc_end_counters(ends->a)->refusals[refusal], 1);
    assert_int_equal(rc_end_state(ends->a), QP_ERR);
    assert_int_equal(cq_poll(ends->b->send_cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, status);
    // What it lent is detached, and the message was delivered to nobody.
    assert_int_equal(rc_end_counters(ends->a)->wq.oneshot_closed +
                         rc_end_counters(ends->a)->wq.oneshot_detached,
                     1);
    assert_int_equal(cq_poll(ends->a->recv_cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
}

static void close_with_another_reference_is_refused(void **state)
{
    struct ends *ends = *state;
    post_close(ends->b, advertise(ends), reference + 1, BODY_LEN);
    expect_refused(ends, RC_REFUSED_CLOSE_REFERENCE, WC_REM_ACCESS_ERR);
}

static void close_that_ends_before_its_reference_is_refused(void **state)
{
    struct ends *ends = *state;
    post_close(ends->b, advertise(ends), reference, REFERENCE_AT + 7);
    expect_refused(ends, RC_REFUSED_CLOSE_SHORT, WC_REM_INV_REQ_ERR);
}

static void second_close_is_refused(void **state)
{
    struct ends *ends = *state;
    uint32_t stag = advertise(ends);
    post_close(ends->b, stag, reference, BODY_LEN);
    rc_ends_run(ends->a, ends->b);
    expect_closed(ends, stag);
    rc_end_completed(ends->b->send_cq, 2, WC_SUCCESS);
    post_close(ends->b, stag, reference, BODY_LEN);
    expect_refused(ends, RC_REFUSED_INVALIDATE, WC_REM_ACCESS_ERR);
}

static void close_of_what_was_not_sent_yet_is_refused(void **state)
{
    struct ends *ends = *state;
    const struct oneshot_command *next = wq_oneshot_slot(rc_wq(ends->a->rc));
    uint32_t stag = advertise(ends);
    assert_true(next->stag == stag);
    post_close(ends->b, wq_oneshot_slot(rc_wq(ends->a->rc))->stag, reference, BODY_LEN);
    expect_refused(ends, RC_REFUSED_INVALIDATE, WC_REM_ACCESS_ERR);
}

static void the_end_of_the_connection_detaches_what_was_lent(void **state)
{
    struct ends *ends = *state;
    struct mem_asker asker = {.pd = ends->a->pd, .qp_num = RC_END_NUMBER};
    uint32_t stag = advertise(ends), cookie;
    assert_int_equal(mem_oneshot_find(ends->a->mem, asker, stag, &cookie), MEM_OK);
    rc_end_modify(ends->a, QP_ERR);
    assert_int_equal(rc_end_counters(ends->a)->wq.oneshot_detached, 1);
    assert_int_equal(mem_oneshot_find(ends->a->mem, asker, stag, &cookie), MEM_INVALID_STAG);
}

static void agreement_is_known_while_there_is_a_peer(void **state)
{
    struct ends *ends = *state;
    assert_int_equal(ends->a->t->ops->oneshot_agreed(ends->a->t), 0);
    rc_end_modify(ends->a, QP_RESET);
    assert_int_equal(ends->a->t->ops->oneshot_agreed(ends->a->t), -ENOTCONN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_list_of_many_pieces_is_written_and_read_then_closed),
        CASE(a_list_of_longer_pieces_is_written_and_read_then_closed),
        CASE(the_close_is_a_send_with_invalidate),
        CASE(access_behind_the_close_is_refused),
        CASE(close_with_another_reference_is_refused),
        CASE(close_that_ends_before_its_reference_is_refused),
        CASE(second_close_is_refused),
        CASE(close_of_what_was_not_sent_yet_is_refused),
        CASE(the_end_of_the_connection_detaches_what_was_lent),
        CASE(agreement_is_known_while_there_is_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
