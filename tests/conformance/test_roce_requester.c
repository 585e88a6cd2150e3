// What weft asks of a responder on a reliable connection, and what it makes of the answers:
// requests and their PSNs (9.7.3), acknowledgements, NAKs and responses (9.7.6), credits (9.7.7.2),
// retries and what fails (9.9.2).

#include <string.h>

#include "tests/conformance/pair.h"

static struct packet out, in;

static void say_read_packet(struct pair *p, unsigned operation, unsigned n, const uint8_t *octets,
                            size_t len)
{
    packet_begin(&out, operation, weft_psn(n));
    if (operation != READ_RESPONSE_MIDDLE) {
        packet_aeth(&out, ACK, 1);
    }
    packet_payload(&out, octets, len);
    say(p, &out);
}

static void say_original(struct pair *p, unsigned n, uint64_t original)
{
    packet_begin(&out, ATOMIC_ACKNOWLEDGE, weft_psn(n));
    packet_aeth(&out, ACK, 1);
    packet_atomicacketh(&out, original);
    say(p, &out);
}

/* ---- 9.7.3: requests ------------------------------------------------------------------------- */

// 9.7.3.2: First, Middle, Last with PSNs that follow each other; full packets before the last; an
// acknowledgement is asked for by the end at the latest.
static void a_message_leaves_in_packets_of_the_path_mtu(void **state)
{
    static const uint8_t operations[] = {SEND_FIRST, SEND_MIDDLE, SEND_MIDDLE, SEND_LAST};
    struct pair p;
    pair_open(&p);
    fill(program.memory, 4 * PMTU, 3);
    post(&p, IBV_WR_SEND, 0, 3 * PMTU + 7, 0);
    for (unsigned n = 0; n < 4; n++) {
        hear_request(&p, &in, operations[n], n);
        assert_int_equal(payload_len_of(&in), n < 3 ? PMTU : 7);
        assert_memory_equal(payload_of(&in), program.memory + n * PMTU, payload_len_of(&in));
    }
    assert_true(asks(&in));
    say_ack(&p, 3, ACK, 1);
    expect_success(IBV_WC_SEND);
    pair_close(&p);
}

// 9.7.3.1: a Read takes as many PSNs as its answer has packets, and one if that has no octets.
static void a_read_takes_the_psns_of_its_answer(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_RDMA_READ, 0, 2 * PMTU + 1, 0x1000);
    post(&p, IBV_WR_RDMA_READ, 0, 0, 0x1000);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, READ_REQUEST, 0);
    hear_request(&p, &in, READ_REQUEST, 3);
    hear_request(&p, &in, SEND_ONLY, 4);
    pair_close(&p);
}

// 9.4.5: what was there is placed at the requester, in the order of the host's octets.
static void an_atomic_brings_what_was_there(void **state)
{
    const uint64_t original = 0x0102030405060708;
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8, 0x4000);
    hear_request(&p, &in, FETCH_ADD, 0);
    assert_true(get_be64(in.octets + BTH_LEN) == 0x4000);
    assert_int_equal(get_be32(in.octets + BTH_LEN + 8), PEER_KEY);
    assert_true(get_be64(in.octets + BTH_LEN + 12) == 0x1122334455667788);
    say_original(&p, 0, original);
    expect_success(IBV_WC_FETCH_ADD);
    assert_memory_equal(program.memory + 64, &original, sizeof original);
    pair_close(&p);
}

static void compare_swap_has_both_operands(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_ATOMIC_CMP_AND_SWP, 64, 8, 0x4000);
    hear_request(&p, &in, COMPARE_SWAP, 0);
    assert_true(get_be64(in.octets + BTH_LEN + 12) == 0x99aabbccddeeff00);
    assert_true(get_be64(in.octets + BTH_LEN + 20) == 0x1122334455667788);
    say_original(&p, 0, 1);
    expect_success(IBV_WC_COMP_SWAP);
    pair_close(&p);
}

// 10.8.3.3: behind a fence nothing leaves before the Reads before it are answered.
static void a_fence_waits_for_reads(void **state)
{
    struct ibv_sge sge = {.addr = at(0), .length = 1, .lkey = program.mr->lkey};
    struct ibv_send_wr fenced = work(IBV_WR_SEND, &sge, 0);
    struct pair p;
    pair_open(&p);
    fenced.send_flags |= IBV_SEND_FENCE;
    post(&p, IBV_WR_RDMA_READ, 0, 8, 0x1000);
    post_wr(&p, &fenced);
    hear_request(&p, &in, READ_REQUEST, 0);
    expect_withheld(&p, 0, 1);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, program.memory, 8);
    hear_request(&p, &in, SEND_ONLY, 1);
    pair_close(&p);
}

// 9.7.3.1, 9.4.4: no more Reads and atomics are out than was agreed on.
static void no_more_reads_are_out_than_agreed(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.depth = 1;
    pair_open_as(&p, &attr);
    post(&p, IBV_WR_RDMA_READ, 0, 8, 0x1000);
    post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8, 0x2000);
    hear_request(&p, &in, READ_REQUEST, 0);
    expect_withheld(&p, 0, 1);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, program.memory, 8);
    hear_request(&p, &in, FETCH_ADD, 1);
    pair_close(&p);
}

/* ---- 9.7.6: acknowledgements ----------------------------------------------------------------- */

// One stands for all before it, in their order.
static void one_acknowledgement_completes_all_before_it(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    post(&p, IBV_WR_RDMA_WRITE, 0, 1, 0x1000);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 2);
    say_ack(&p, 2, ACK, 3);
    expect_success(IBV_WC_SEND);
    expect_success(IBV_WC_RDMA_WRITE);
    expect_success(IBV_WC_SEND);
    pair_close(&p);
}

// A message is not done before its last packet is.
static void a_message_that_is_acknowledged_in_part_is_not_done(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 2 * PMTU, 0);
    hear_request(&p, &in, SEND_LAST, 1);
    say_ack(&p, 0, ACK, 0);
    say_ack(&p, 1, NAK_REMOTE_OPERATIONAL, 0);
    expect_status(IBV_WC_REM_OP_ERR);
    pair_close(&p);
}

// What was not sent yet, and what was acknowledged before, is no answer.
static void acknowledgements_of_nothing_are_dropped(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    say_ack(&p, 0, ACK, 1);
    expect_success(IBV_WC_SEND);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 1);
    say_ack(&p, 0, ACK, 1);
    say_ack(&p, 0, NAK_REMOTE_OPERATIONAL, 1);
    say_ack(&p, 2, ACK, 3);
    say_ack(&p, 0x800000, ACK, 3);
    say_ack(&p, 2, NAK_REMOTE_OPERATIONAL, 1);
    say_ack(&p, 1, NAK_REMOTE_ACCESS, 1);
    expect_status(IBV_WC_REM_ACCESS_ERR);
    pair_close(&p);
}

// 9.7.5.2: syndromes without a meaning.
static void reserved_syndromes_are_dropped(void **state)
{
    static const uint8_t reserved[] = {0x40, 0x5f, 0x65, 0x7f, 0x80, 0xa0, 0xff};
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    for (size_t i = 0; i < sizeof reserved; i++) {
        say_ack(&p, 0, reserved[i], 1);
    }
    say_ack(&p, 0, NAK_REMOTE_ACCESS, 1);
    expect_status(IBV_WC_REM_ACCESS_ERR);
    pair_close(&p);
}

// 9.7.5.2.2, 9.9.2: what is before the PSN of the NAK is done; from there on all leaves again.
static void a_sequence_nak_has_the_rest_leave_again(void **state)
{
    struct pair p;
    pair_open(&p);
    for (unsigned i = 0; i < 4; i++) {
        post(&p, IBV_WR_SEND, 0, i + 1, 0);
    }
    hear_request(&p, &in, SEND_ONLY, 3);
    say_ack(&p, 1, NAK_SEQUENCE, 1);
    expect_success(IBV_WC_SEND);
    for (unsigned n = 1; n < 4; n++) {
        hear_request(&p, &in, SEND_ONLY, n);
        assert_int_equal(payload_len_of(&in), n + 1);
    }
    say_ack(&p, 3, ACK, 4);
    for (unsigned i = 1; i < 4; i++) {
        expect_success(IBV_WC_SEND);
    }
    pair_close(&p);
}

// In the middle of a message: the same PSN is the same packet.
static void a_sequence_nak_in_a_message_goes_on_inside_of_it(void **state)
{
    struct pair p;
    pair_open(&p);
    fill(program.memory, 3 * PMTU, 8);
    post(&p, IBV_WR_RDMA_WRITE, 0, 3 * PMTU, 0x1000);
    hear_request(&p, &in, WRITE_LAST, 2);
    say_ack(&p, 1, NAK_SEQUENCE, 0);
    hear_request(&p, &in, WRITE_MIDDLE, 1);
    assert_memory_equal(payload_of(&in), program.memory + PMTU, PMTU);
    hear_request(&p, &in, WRITE_LAST, 2);
    say_ack(&p, 2, ACK, 1);
    expect_success(IBV_WC_RDMA_WRITE);
    pair_close(&p);
}

static void a_write_begins_anew_with_its_reth(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_RDMA_WRITE, 0, 2 * PMTU, 0x1000);
    hear_request(&p, &in, WRITE_LAST, 1);
    say_ack(&p, 0, NAK_SEQUENCE, 0);
    hear_request(&p, &in, WRITE_FIRST, 0);
    const struct reth_fields reth = reth_of(&in);
    assert_true(reth.va == 0x1000);
    assert_int_equal(reth.len, 2 * PMTU);
    pair_close(&p);
}

/* ---- 9.7.6: NAKs that end it ----------------------------------------------------------------- */

static void a_nak_ends_the_connection_with_its_reason(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum ibv_wc_status status;
    } cases[] = {{NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR},
                 {NAK_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR},
                 {NAK_REMOTE_OPERATIONAL, IBV_WC_REM_OP_ERR}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair p;
        pair_open(&p);
        post_receives(&p, 1);
        for (unsigned j = 0; j < 3; j++) {
            post(&p, IBV_WR_SEND, 0, 1, 0);
        }
        hear_request(&p, &in, SEND_ONLY, 2);
        say_ack(&p, 1, cases[i].syndrome, 1);
        expect_success(IBV_WC_SEND); // before it
        expect_status(cases[i].status);
        expect_status(IBV_WC_WR_FLUSH_ERR);
        expect_status(IBV_WC_WR_FLUSH_ERR); // the receive
        assert_int_equal(pair_state(&p), IBV_QPS_ERR);
        pair_close(&p);
    }
}

/* ---- 9.7.5.2.8: the peer has no receive ------------------------------------------------------ */

static void who_is_told_to_wait_comes_again(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    post(&p, IBV_WR_SEND, 0, 2, 0);
    hear_request(&p, &in, SEND_ONLY, 1);
    say_ack(&p, 1, RNR_NAK | 1, 1); // which acknowledges the first
    expect_success(IBV_WC_SEND);
    hear_request(&p, &in, SEND_ONLY, 1);
    assert_int_equal(payload_len_of(&in), 2);
    say_ack(&p, 1, ACK, 2);
    expect_success(IBV_WC_SEND);
    pair_close(&p);
}

// 9.9.2.1: rnr_retry times, 7 meaning for ever.
static void who_is_told_to_wait_too_often_gives_up(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    struct ibv_wc wc;
    unsigned count = 0;
    attr.rnr_retry = 2;
    pair_open_as(&p, &attr);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    while (ibv_poll_cq(program.cq, 1, &wc) == 0) {
        if (hear_if_any(&p, &in)) {
            say_ack(&p, 0, RNR_NAK | 1, 0);
            count++;
        }
    }
    assert_int_equal(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    assert_true(count >= 3);
    assert_int_equal(pair_state(&p), IBV_QPS_ERR);
    pair_close(&p);
}

static void seven_rnr_retries_are_any_number(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    for (unsigned i = 0; i < 20; i++) {
        hear_request(&p, &in, SEND_ONLY, 0);
        say_ack(&p, 0, RNR_NAK | 1, 0);
    }
    hear_request(&p, &in, SEND_ONLY, 0);
    say_ack(&p, 0, ACK, 1);
    expect_success(IBV_WC_SEND);
    pair_close(&p);
}

/* ---- 9.9.2.1: silence ------------------------------------------------------------------------ */

// What leaves again is the same to the octet, but for AckReq.
static void what_is_not_acknowledged_leaves_again(void **state)
{
    static struct packet first;
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.timeout = 8;
    pair_open_as(&p, &attr);
    fill(program.memory, 33, 2);
    post(&p, IBV_WR_RDMA_WRITE, 0, 33, 0x1000);
    hear_request(&p, &first, WRITE_ONLY, 0);
    hear_request(&p, &in, WRITE_ONLY, 0);
    assert_int_equal(in.len, first.len);
    assert_memory_equal(in.octets, first.octets, BTH_ACK_REQ);
    assert_memory_equal(in.octets + BTH_PSN, first.octets + BTH_PSN, in.len - BTH_PSN);
    say_ack(&p, 0, ACK, 1);
    expect_success(IBV_WC_RDMA_WRITE);
    pair_close(&p);
}

static void silence_ends_the_connection(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.timeout = 8;
    attr.retry_count = 1;
    pair_open_as(&p, &attr);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    post(&p, IBV_WR_RDMA_READ, 0, 1, 0x1000);
    expect_status(IBV_WC_RETRY_EXC_ERR);
    expect_status(IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(pair_state(&p), IBV_QPS_ERR);
    pair_close(&p);
}

/* ---- 9.4.4, 9.7.6: answers to Reads ---------------------------------------------------------- */

static void a_read_takes_its_answer(void **state)
{
    uint8_t octets[2 * PMTU + 5];
    struct pair p;
    pair_open(&p);
    fill(octets, sizeof octets, 11);
    memset(program.memory, 0, sizeof octets);
    post(&p, IBV_WR_RDMA_READ, 0, sizeof octets, 0x123456789a);
    hear_request(&p, &in, READ_REQUEST, 0);
    const struct reth_fields reth = reth_of(&in);
    assert_true(reth.va == 0x123456789a);
    assert_int_equal(reth.rkey, PEER_KEY);
    assert_int_equal(reth.len, sizeof octets);
    say_read_packet(&p, READ_RESPONSE_FIRST, 0, octets, PMTU);
    say_read_packet(&p, READ_RESPONSE_MIDDLE, 1, octets + PMTU, PMTU);
    say_read_packet(&p, READ_RESPONSE_LAST, 2, octets + 2 * PMTU, 5);
    expect_success(IBV_WC_RDMA_READ);
    assert_memory_equal(program.memory, octets, sizeof octets);
    pair_close(&p);
}

// It is asked for again from the first packet that is missing.
static void a_hole_in_an_answer_is_asked_for_again(void **state)
{
    uint8_t octets[3 * PMTU];
    struct pair p;
    pair_open(&p);
    fill(octets, sizeof octets, 13);
    post(&p, IBV_WR_RDMA_READ, 0, sizeof octets, 0x1000);
    hear_request(&p, &in, READ_REQUEST, 0);
    say_read_packet(&p, READ_RESPONSE_FIRST, 0, octets, PMTU);
    say_read_packet(&p, READ_RESPONSE_LAST, 2, octets + 2 * PMTU, PMTU);
    hear_request(&p, &in, READ_REQUEST, 1);
    const struct reth_fields reth = reth_of(&in);
    assert_true(reth.va == 0x1000 + PMTU);
    assert_int_equal(reth.len, 2 * PMTU);
    say_read_packet(&p, READ_RESPONSE_FIRST, 1, octets + PMTU, PMTU);
    say_read_packet(&p, READ_RESPONSE_LAST, 2, octets + 2 * PMTU, PMTU);
    expect_success(IBV_WC_RDMA_READ);
    assert_memory_equal(program.memory, octets, sizeof octets);
    pair_close(&p);
}

// Who acknowledges what is behind a Read has answered it; it is not done by that.
static void an_acknowledgement_does_not_stand_for_an_answer(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_RDMA_READ, 0, 4, 0x1000);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, READ_REQUEST, 0);
    hear_request(&p, &in, SEND_ONLY, 1);
    say_ack(&p, 1, ACK, 2);
    hear_request(&p, &in, READ_REQUEST, 0);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, (const uint8_t *)"data", 4);
    expect_success(IBV_WC_RDMA_READ);
    assert_memory_equal(program.memory, "data", 4);
    hear_request(&p, &in, SEND_ONLY, 1);
    say_ack(&p, 1, ACK, 2);
    expect_success(IBV_WC_SEND);
    pair_close(&p);
}

// 9.7.6.1: an answer acknowledges the messages before its request.
static void an_answer_acknowledges_what_is_before_it(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    post(&p, IBV_WR_RDMA_READ, 0, 4, 0x1000);
    hear_request(&p, &in, READ_REQUEST, 1);
    say_read_packet(&p, READ_RESPONSE_ONLY, 1, (const uint8_t *)"data", 4);
    expect_success(IBV_WC_SEND);
    expect_success(IBV_WC_RDMA_READ);
    pair_close(&p);
}

// 9.9.2: an answer that is not what was asked for.
static void an_answer_that_does_not_fit_ends_the_connection(void **state)
{
    static const uint8_t octets[2 * PMTU];
    static const struct {
        unsigned operation;
        size_t len;
    } cases[] = {
        {READ_RESPONSE_FIRST, PMTU - 4}, {READ_RESPONSE_FIRST, PMTU + 4},
        {READ_RESPONSE_LAST, PMTU},      {READ_RESPONSE_ONLY, PMTU},
        {READ_RESPONSE_ONLY, PMTU + 1},  {READ_RESPONSE_MIDDLE, PMTU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair p;
        pair_open(&p);
        post(&p, IBV_WR_RDMA_READ, 0, PMTU + 1, 0x1000);
        hear_request(&p, &in, READ_REQUEST, 0);
        say_read_packet(&p, cases[i].operation, 0, octets, cases[i].len);
        expect_status(IBV_WC_BAD_RESP_ERR);
        assert_int_equal(pair_state(&p), IBV_QPS_ERR);
        pair_close(&p);
    }
}

// False: it was asked for again meanwhile, from the second packet on, since a busy host was silent.
static bool second_first_is_refused(struct pair *p)
{
    static const uint8_t octets[3 * PMTU];
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    bool is_asked_again = false;
    pair_open(p);
    post(p, IBV_WR_RDMA_READ, 0, sizeof octets, 0x1000);
    hear_request(p, &in, READ_REQUEST, 0);
    say_read_packet(p, READ_RESPONSE_FIRST, 0, octets, PMTU);
    say_read_packet(p, READ_RESPONSE_FIRST, 1, octets, PMTU);
    while (ibv_poll_cq(program.cq, 1, &wc) == 0 && !is_asked_again) {
        is_asked_again = hear_if_any(p, &in) && psn_of(&in) != weft_psn(0);
    }
    assert_true(is_asked_again || wc.status == IBV_WC_BAD_RESP_ERR);
    pair_close(p);
    return !is_asked_again;
}

// 9.7.6.1: First is where the peer was asked to begin.
static void an_answer_that_begins_twice_ends_the_connection(void **state)
{
    struct pair p;
    unsigned tries = 0;
    while (!second_first_is_refused(&p)) {
        assert_true(++tries < 100);
    }
}

static void an_answer_of_another_kind_ends_the_connection(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_RDMA_READ, 0, 8, 0x1000);
    hear_request(&p, &in, READ_REQUEST, 0);
    say_original(&p, 0, 1);
    expect_status(IBV_WC_BAD_RESP_ERR);
    pair_close(&p);
    pair_open(&p);
    post(&p, IBV_WR_RDMA_READ, 0, 0, 0x1000); // whose answer is as long
    hear_request(&p, &in, READ_REQUEST, 0);
    say_original(&p, 0, 1);
    expect_status(IBV_WC_BAD_RESP_ERR);
    pair_close(&p);
    pair_open(&p);
    post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 64, 8, 0x1000);
    hear_request(&p, &in, FETCH_ADD, 0);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, program.memory, 8);
    expect_status(IBV_WC_BAD_RESP_ERR);
    pair_close(&p);
}

// One that nobody asked for, or has had already, is dropped.
static void answers_that_nobody_waits_for_are_dropped(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_RDMA_READ, 0, 4, 0x1000);
    hear_request(&p, &in, READ_REQUEST, 0);
    say_read_packet(&p, READ_RESPONSE_ONLY, 1, (const uint8_t *)"none", 4);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0x800000, (const uint8_t *)"none", 4);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, (const uint8_t *)"data", 4);
    expect_success(IBV_WC_RDMA_READ);
    say_read_packet(&p, READ_RESPONSE_ONLY, 0, (const uint8_t *)"late", 4);
    post(&p, IBV_WR_SEND, 16, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 1);
    say_ack(&p, 1, ACK, 2);
    expect_success(IBV_WC_SEND);
    assert_memory_equal(program.memory, "data", 4);
    pair_close(&p);
}

/* ---- 9.7.7.2: credits ------------------------------------------------------------------------ */

// Without a credit one Send leaves, and asks; what stands behind it waits for a word of the peer's.
static void a_requester_keeps_to_its_credits(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    say_ack(&p, 0, 0x00, 1); // none left
    expect_success(IBV_WC_SEND);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 1);
    assert_true(asks(&in));
    expect_withheld(&p, 0, 2);
    say_ack(&p, 1, 0x02, 2); // two
    expect_success(IBV_WC_SEND);
    hear_request(&p, &in, SEND_ONLY, 2);
    pair_close(&p);
}

// 0x1f counts none, and limits nothing.
static void who_counts_no_credits_is_sent_to(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    say_ack(&p, 0, ACK, 1);
    expect_success(IBV_WC_SEND);
    for (unsigned n = 1; n < 4; n++) {
        post(&p, IBV_WR_SEND, 0, 1, 0);
        hear_request(&p, &in, SEND_ONLY, n);
    }
    pair_close(&p);
}

// Writes and Reads need no receive, so they need no credit.
static void writes_need_no_credits(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    say_ack(&p, 0, 0x00, 1);
    expect_success(IBV_WC_SEND);
    post(&p, IBV_WR_RDMA_WRITE, 0, 1, 0x1000);
    post(&p, IBV_WR_RDMA_READ, 0, 1, 0x1000);
    hear_request(&p, &in, WRITE_ONLY, 1);
    hear_request(&p, &in, READ_REQUEST, 2);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_leaves_in_packets_of_the_path_mtu),
        cmocka_unit_test(a_read_takes_the_psns_of_its_answer),
        cmocka_unit_test(an_atomic_brings_what_was_there),
        cmocka_unit_test(compare_swap_has_both_operands),
        cmocka_unit_test(a_fence_waits_for_reads),
        cmocka_unit_test(no_more_reads_are_out_than_agreed),
        cmocka_unit_test(one_acknowledgement_completes_all_before_it),
        cmocka_unit_test(a_message_that_is_acknowledged_in_part_is_not_done),
        cmocka_unit_test(acknowledgements_of_nothing_are_dropped),
        cmocka_unit_test(reserved_syndromes_are_dropped),
        cmocka_unit_test(a_sequence_nak_has_the_rest_leave_again),
        cmocka_unit_test(a_sequence_nak_in_a_message_goes_on_inside_of_it),
        cmocka_unit_test(a_write_begins_anew_with_its_reth),
        cmocka_unit_test(a_nak_ends_the_connection_with_its_reason),
        cmocka_unit_test(who_is_told_to_wait_comes_again),
        cmocka_unit_test(who_is_told_to_wait_too_often_gives_up),
        cmocka_unit_test(seven_rnr_retries_are_any_number),
        cmocka_unit_test(what_is_not_acknowledged_leaves_again),
        cmocka_unit_test(silence_ends_the_connection),
        cmocka_unit_test(a_read_takes_its_answer),
        cmocka_unit_test(a_hole_in_an_answer_is_asked_for_again),
        cmocka_unit_test(an_acknowledgement_does_not_stand_for_an_answer),
        cmocka_unit_test(an_answer_acknowledges_what_is_before_it),
        cmocka_unit_test(an_answer_that_does_not_fit_ends_the_connection),
        cmocka_unit_test(an_answer_that_begins_twice_ends_the_connection),
        cmocka_unit_test(an_answer_of_another_kind_ends_the_connection),
        cmocka_unit_test(answers_that_nobody_waits_for_are_dropped),
        cmocka_unit_test(a_requester_keeps_to_its_credits),
        cmocka_unit_test(who_counts_no_credits_is_sent_to),
        cmocka_unit_test(writes_need_no_credits),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
