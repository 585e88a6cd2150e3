// What weft answers a requester on a reliable connection: operations (9.4), their order (9.5),
// PSNs, duplicates and acknowledgements (9.7.4, 9.7.5), the MSN (9.7.7.1).

#include <string.h>

#include "tests/conformance/pair.h"

static struct packet out, in;

/* ---- 9.4: operations ------------------------------------------------------------------------- */

// 9.4.1: a Send takes a receive, and what it carries is there.
static void a_send_is_received(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    say_send(&p, 0, "hello");
    hear_ack(&p, 0, 1);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 5);
    assert_int_equal(wc.wc_flags, 0);
    assert_memory_equal(program.memory + RECEIVES_AT, "hello", 5);
    pair_close(&p);
}

// 9.4.1: First, Middle, Last are one message.
static void a_send_in_packets_is_one_message(void **state)
{
    uint8_t octets[2 * PMTU + 7];
    struct pair p;
    fill(octets, sizeof octets, 1);
    pair_open(&p);
    post_receives(&p, 1);
    request(&out, SEND_FIRST, 0, octets, PMTU);
    say(&p, &out);
    hear_ack(&p, 0, 0);
    request(&out, SEND_MIDDLE, 1, octets + PMTU, PMTU);
    say(&p, &out);
    hear_ack(&p, 1, 0);
    request(&out, SEND_LAST, 2, octets + 2 * PMTU, 7);
    say(&p, &out);
    hear_ack(&p, 2, 1);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.byte_len, sizeof octets);
    assert_memory_equal(program.memory + RECEIVES_AT, octets, sizeof octets);
    pair_close(&p);
}

// 9.3.7: in the order in which they stand on the wire.
static void immediate_data_reach_the_program(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    request(&out, SEND_ONLY_IMM, 0, "x", 1);
    put_be32(out.octets + BTH_LEN, 0xa1b2c3d4);
    say(&p, &out);
    hear_ack(&p, 0, 1);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htonl(0xa1b2c3d4));
    assert_int_equal(wc.byte_len, 1);
    pair_close(&p);
}

static void a_send_of_nothing_takes_a_receive(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    say_send(&p, 0, "");
    hear_ack(&p, 0, 1);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 0);
    pair_close(&p);
}

// 9.4.3: a Write goes where its RETH says, and takes no receive.
static void a_write_is_placed_and_takes_no_receive(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    memset(program.memory, 0, 64);
    say_write(&p, 0, at(3), program.mr->rkey, "placed", 6);
    hear_ack(&p, 0, 1);
    assert_memory_equal(program.memory, "\0\0\0placed\0\0", 11);
    say_send(&p, 1, "behind");
    hear_ack(&p, 1, 2);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wr_id, 0);
    pair_close(&p);
}

// 9.4.3: the RETH of the first packet is for all of them.
static void a_write_in_packets_goes_on_where_it_was(void **state)
{
    uint8_t octets[3 * PMTU];
    struct pair p;
    fill(octets, sizeof octets, 5);
    pair_open(&p);
    packet_begin(&out, WRITE_FIRST, peer_psn(0));
    packet_reth(&out, at(100), program.mr->rkey, sizeof octets);
    packet_payload(&out, octets, PMTU);
    say(&p, &out);
    request(&out, WRITE_MIDDLE, 1, octets + PMTU, PMTU);
    say(&p, &out);
    request(&out, WRITE_LAST, 2, octets + 2 * PMTU, PMTU);
    say(&p, &out);
    do {
        hear(&p, &in); // of the second, maybe, and of the third
    } while (psn_of(&in) != peer_psn(2));
    assert_int_equal(msn_of(&in), 1);
    assert_memory_equal(program.memory + 100, octets, sizeof octets);
    pair_close(&p);
}

static void a_write_with_immediate_takes_a_receive(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    packet_begin(&out, WRITE_ONLY_IMM, peer_psn(0));
    packet_reth(&out, at(8), program.mr->rkey, 4);
    packet_word(&out, 0x01020304);
    packet_payload(&out, "four", 4);
    packet_ask(&out);
    say(&p, &out);
    hear_ack(&p, 0, 1);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, htonl(0x01020304));
    assert_int_equal(wc.byte_len, 4);
    assert_memory_equal(program.memory + 8, "four", 4);
    pair_close(&p);
}

// C9-88: of no octets: no key is looked at.
static void writes_and_reads_of_nothing_may_name_anything(void **state)
{
    struct pair p;
    pair_open(&p);
    say_write(&p, 0, 0x1234, 0xdeadbeef, NULL, 0);
    hear_ack(&p, 0, 1);
    say_read(&p, 1, 0x1234, 0xdeadbeef, 0);
    hear_read(&p, 1, NULL, 0);
    pair_close(&p);
}

// 9.4.4: First and Last have an AETH, those between have none; PSNs from that of the request on.
static void a_read_is_answered_in_packets(void **state)
{
    static const uint8_t operations[] = {READ_RESPONSE_FIRST, READ_RESPONSE_MIDDLE,
                                         READ_RESPONSE_LAST};
    static const size_t lens[] = {PMTU, PMTU, 3};
    struct pair p;
    pair_open(&p);
    fill(program.memory + 40, 2 * PMTU + 3, 9);
    say_read(&p, 0, at(40), program.mr->rkey, 2 * PMTU + 3);
    for (unsigned i = 0; i < 3; i++) {
        hear(&p, &in);
        assert_int_equal(opcode_of(&in), operations[i]);
        assert_int_equal(psn_of(&in), peer_psn(i));
        assert_int_equal(payload_len_of(&in), lens[i]);
        assert_memory_equal(payload_of(&in), program.memory + 40 + i * PMTU, lens[i]);
        assert_false(asks(&in));
    }
    say_write(&p, 3, 0, 0, NULL, 0); // 9.7.3.1: the next PSN is behind the answer
    hear_ack(&p, 3, 2);
    pair_close(&p);
}

static void a_read_of_whole_packets_ends_with_a_full_one(void **state)
{
    struct pair p;
    pair_open(&p);
    fill(program.memory, 2 * PMTU, 4);
    say_read(&p, 0, at(0), program.mr->rkey, PMTU);
    hear_read(&p, 0, program.memory, PMTU);
    say_read(&p, 1, at(0), program.mr->rkey, 2 * PMTU);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_FIRST);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_LAST);
    assert_int_equal(payload_len_of(&in), PMTU);
    pair_close(&p);
}

// 9.4.5: in the octets' order of the host; the answer is what was there.
static void fetch_add_adds_and_tells_what_was_there(void **state)
{
    const uint64_t before = 0xfffffffffffffff0;
    uint64_t after;
    struct pair p;
    pair_open(&p);
    memcpy(program.memory + 64, &before, sizeof before);
    say_add(&p, 0, at(64), program.mr->rkey, 0x20);
    hear_atomic(&p, 0, before);
    memcpy(&after, program.memory + 64, sizeof after);
    assert_true(after == 0x10);
    pair_close(&p);
}

static void compare_swap_swaps_what_is_equal(void **state)
{
    const uint64_t before = 7;
    uint64_t after;
    struct pair p;
    pair_open(&p);
    memcpy(program.memory + 64, &before, sizeof before);
    packet_begin(&out, COMPARE_SWAP, peer_psn(0));
    packet_atomiceth(&out, at(64), program.mr->rkey, 100, 8);
    say(&p, &out);
    hear_atomic(&p, 0, 7);
    packet_begin(&out, COMPARE_SWAP, peer_psn(1));
    packet_atomiceth(&out, at(64), program.mr->rkey, 100, 7);
    say(&p, &out);
    hear_atomic(&p, 1, 7);
    memcpy(&after, program.memory + 64, sizeof after);
    assert_true(after == 100);
    pair_close(&p);
}

/* ---- 9.5: order ------------------------------------------------------------------------------ */

static void a_read_sees_the_write_before_it(void **state)
{
    struct pair p;
    pair_open(&p);
    memset(program.memory, 0, 8);
    packet_begin(&out, WRITE_ONLY, peer_psn(0));
    packet_reth(&out, at(0), program.mr->rkey, 8);
    packet_payload(&out, "newer...", 8);
    say(&p, &out);
    say_read(&p, 1, at(0), program.mr->rkey, 8);
    hear_read(&p, 1, "newer...", 8);
    pair_close(&p);
}

static void receives_complete_in_the_order_of_the_sends(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 3);
    say_send(&p, 0, "a");
    say_send(&p, 1, "bb");
    say_send(&p, 2, "ccc");
    for (unsigned i = 0; i < 3; i++) {
        struct ibv_wc wc = poll_one();
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.byte_len, i + 1);
    }
    pair_close(&p);
}

// Requests are answered in their order, whatever kind they are; an acknowledgement of what is
// behind them does not overtake.
static void answers_leave_in_the_order_of_the_requests(void **state)
{
    const uint64_t zero = 0;
    struct pair p;
    pair_open(&p);
    memcpy(program.memory + 64, &zero, sizeof zero);
    say_read(&p, 0, at(0), program.mr->rkey, 2 * PMTU);
    say_add(&p, 2, at(64), program.mr->rkey, 1);
    say_read(&p, 3, at(0), program.mr->rkey, 1);
    say_write(&p, 4, 0, 0, NULL, 0);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_FIRST);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_LAST);
    hear_atomic(&p, 2, 0);
    hear_read(&p, 3, program.memory, 1);
    hear_ack(&p, 4, 4);
    pair_close(&p);
}

/* ---- 9.7.5: acknowledgements ----------------------------------------------------------------- */

// 9.2.8: who does not ask gets none; one that is asked for stands for all before it.
static void one_acknowledgement_stands_for_all_before_it(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 3);
    for (unsigned i = 0; i < 2; i++) {
        request(&out, SEND_ONLY, i, "x", 1);
        out.octets[BTH_ACK_REQ] = 0;
        say(&p, &out);
    }
    say_send(&p, 2, "asking");
    hear_ack(&p, 2, 3);
    pair_close(&p);
}

// 9.7.7.1: one more with each message that is done, a Read or an atomic too.
static void the_msn_counts_messages(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    say_write(&p, 0, 0, 0, NULL, 0);
    hear_ack(&p, 0, 1);
    say_read(&p, 1, at(0), program.mr->rkey, 8);
    hear(&p, &in);
    assert_int_equal(msn_of(&in), 2);
    say_add(&p, 2, at(64), program.mr->rkey, 0);
    hear(&p, &in);
    assert_int_equal(msn_of(&in), 3);
    request(&out, SEND_FIRST, 3, NULL, PMTU);
    say(&p, &out);
    hear_ack(&p, 3, 3); // not yet
    request(&out, SEND_LAST, 4, NULL, 1);
    say(&p, &out);
    hear_ack(&p, 4, 4);
    pair_close(&p);
}

/* ---- 9.7.4.1: PSNs --------------------------------------------------------------------------- */

// What is beyond a hole is not taken; the NAK names what is missing.
static void a_hole_is_told_by_what_is_missing(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 2);
    say_send(&p, 1, "beyond");
    hear_nak(&p, 0, NAK_SEQUENCE);
    say_send(&p, 0, "missing");
    hear_ack(&p, 0, 1);
    assert_int_equal(poll_one().byte_len, 7);
    say_send(&p, 1, "again");
    hear_ack(&p, 1, 2);
    assert_int_equal(poll_one().byte_len, 5);
    pair_close(&p);
}

// Once per hole, however much comes beyond it; and again of the next.
static void a_hole_is_told_once(void **state)
{
    struct pair p;
    pair_open(&p);
    for (unsigned n = 1; n < 6; n++) {
        say_write(&p, n, 0, 0, NULL, 0);
    }
    hear_nak(&p, 0, NAK_SEQUENCE);
    say_write(&p, 0, 0, 0, NULL, 0);
    hear_ack(&p, 0, 1);
    say_write(&p, 5, 0, 0, NULL, 0);
    hear_nak(&p, 1, NAK_SEQUENCE);
    pair_close(&p);
}

// Half of all PSNs are ahead, half behind.
static void the_window_of_psns_is_half_of_them(void **state)
{
    struct pair p;
    pair_open(&p);
    say_write(&p, 0, 0, 0, NULL, 0);
    hear_ack(&p, 0, 1);
    say_write(&p, 1 + 0x800000, 0, 0, NULL, 0); // the oldest duplicate
    hear_ack(&p, 0, 1);
    say_write(&p, 0x800000, 0, 0, NULL, 0); // the farthest beyond
    hear_nak(&p, 1, NAK_SEQUENCE);
    pair_close(&p);
}

/* ---- 9.7.5.1: duplicates --------------------------------------------------------------------- */

// Acknowledged with the newest that is done, and not done again.
static void a_send_that_comes_twice_is_received_once(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 3);
    say_send(&p, 0, "one");
    hear_ack(&p, 0, 1);
    say_send(&p, 1, "three");
    hear_ack(&p, 1, 2);
    say_send(&p, 0, "one");
    hear_ack(&p, 1, 2);
    say_send(&p, 2, "behind");
    hear_ack(&p, 2, 3);
    assert_int_equal(poll_one().byte_len, 3);
    assert_int_equal(poll_one().byte_len, 5);
    assert_int_equal(poll_one().byte_len, 6);
    pair_close(&p);
}

// 9.7.5.1: whether it is placed again is the responder's.
static void a_write_that_comes_twice_is_acknowledged(void **state)
{
    struct pair p;
    pair_open(&p);
    say_write(&p, 0, at(0), program.mr->rkey, "peer's", 6);
    hear_ack(&p, 0, 1);
    say_write(&p, 0, at(0), program.mr->rkey, "peer's", 6);
    hear_ack(&p, 0, 1);
    pair_close(&p);
}

// Executed again: from memory as it is now.
static void a_read_that_comes_twice_is_answered_twice(void **state)
{
    struct pair p;
    pair_open(&p);
    memcpy(program.memory, "before", 6);
    say_read(&p, 0, at(0), program.mr->rkey, 6);
    hear_read(&p, 0, "before", 6);
    memcpy(program.memory, "behind", 6);
    say_read(&p, 0, at(0), program.mr->rkey, 6);
    hear_read(&p, 0, "behind", 6);
    say_write(&p, 1, 0, 0, NULL, 0);
    hear_ack(&p, 1, 2);
    pair_close(&p);
}

// From the packet on that is missing, by a request with its PSN.
static void the_rest_of_a_read_is_answered(void **state)
{
    struct pair p;
    pair_open(&p);
    fill(program.memory, 3 * PMTU, 1);
    say_read(&p, 0, at(0), program.mr->rkey, 3 * PMTU);
    for (unsigned i = 0; i < 3; i++) {
        hear(&p, &in);
    }
    say_read(&p, 1, at(PMTU), program.mr->rkey, 2 * PMTU);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_FIRST);
    assert_int_equal(psn_of(&in), peer_psn(1));
    assert_memory_equal(payload_of(&in), program.memory + PMTU, PMTU);
    hear(&p, &in);
    assert_int_equal(opcode_of(&in), READ_RESPONSE_LAST);
    say_read(&p, 2, at(2 * PMTU), program.mr->rkey, PMTU);
    hear_read(&p, 2, program.memory + 2 * PMTU, PMTU);
    pair_close(&p);
}

// Answered with what was there then, and not executed again.
static void an_atomic_that_comes_twice_is_executed_once(void **state)
{
    const uint64_t before = 5;
    uint64_t after;
    struct pair p;
    pair_open(&p);
    memcpy(program.memory + 64, &before, sizeof before);
    say_add(&p, 0, at(64), program.mr->rkey, 1);
    hear_atomic(&p, 0, 5);
    say_add(&p, 1, at(64), program.mr->rkey, 10);
    hear_atomic(&p, 1, 6);
    say_add(&p, 0, at(64), program.mr->rkey, 1);
    hear_atomic(&p, 0, 5);
    memcpy(&after, program.memory + 64, sizeof after);
    assert_true(after == 16);
    pair_close(&p);
}

// As many are remembered as were agreed on; an older one is neither executed nor answered.
static void an_atomic_of_long_ago_is_dropped(void **state)
{
    const uint64_t zero = 0;
    uint64_t after;
    struct pair p;
    pair_open(&p);
    memcpy(program.memory + 64, &zero, sizeof zero);
    for (unsigned n = 0; n < 5; n++) {
        say_add(&p, n, at(64), program.mr->rkey, 1);
        hear_atomic(&p, n, n);
    }
    say_add(&p, 0, at(64), program.mr->rkey, 1);
    expect_silence(&p, 5, 6);
    memcpy(&after, program.memory + 64, sizeof after);
    assert_true(after == 5);
    pair_close(&p);
}

// What comes again need not be what came: another place, or another kind, is no duplicate.
static void a_request_that_only_looks_like_a_duplicate_is_dropped(void **state)
{
    struct pair p;
    pair_open(&p);
    say_read(&p, 0, at(0), program.mr->rkey, 8);
    hear(&p, &in);
    say_read(&p, 0, at(8), program.mr->rkey, 8);
    say_read(&p, 0, at(0), program.mr->rkey, 16);
    say_read(&p, 0, at(0), program.mr->rkey + 0x100, 8);
    say_add(&p, 0, at(0), program.mr->rkey, 1);
    expect_silence(&p, 1, 2);
    pair_close(&p);
}

static void an_atomic_that_only_looks_like_a_duplicate_is_dropped(void **state)
{
    const uint32_t key = program.mr->rkey;
    struct pair p;
    pair_open(&p);
    say_add(&p, 0, at(64), key, 1);
    hear(&p, &in);
    say_add(&p, 0, at(72), key, 1);
    say_add(&p, 0, at(64), key + 0x100, 1);
    packet_begin(&out, COMPARE_SWAP, peer_psn(0));
    packet_atomiceth(&out, at(64), key, 1, 0);
    say(&p, &out);
    expect_silence(&p, 1, 2);
    pair_close(&p);
}

// 9.7.7.2: how many receives there are beyond the messages that are counted; few have their number
// as the code.
static void an_acknowledgement_tells_of_receives(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 3);
    for (unsigned n = 0; n < 3; n++) {
        say_send(&p, n, "one");
        hear(&p, &in);
        assert_int_equal(opcode_of(&in), ACKNOWLEDGE);
        assert_int_equal(syndrome_of(&in), 2 - n);
    }
    pair_close(&p);
}

/* ---- 9.7.5.2.8: no receive ------------------------------------------------------------------- */

// With the program's timer, and the PSN that is to come again; what is behind is dropped.
static void who_has_no_receive_says_when_to_come_again(void **state)
{
    struct pair p;
    pair_open(&p);
    say_send(&p, 0, "early");
    hear_nak(&p, 0, RNR_NAK | 9);
    say_send(&p, 1, "dropped");
    post_receives(&p, 2);
    say_send(&p, 0, "again");
    hear_ack(&p, 0, 1);
    say_send(&p, 1, "next");
    hear_ack(&p, 1, 2);
    assert_int_equal(poll_one().byte_len, 5);
    assert_int_equal(poll_one().byte_len, 4);
    pair_close(&p);
}

static void a_write_with_immediate_waits_for_a_receive_too(void **state)
{
    struct pair p;
    pair_open(&p);
    packet_begin(&out, WRITE_ONLY_IMM, peer_psn(0));
    packet_reth(&out, 0, 0, 0);
    packet_word(&out, 1);
    packet_ask(&out);
    say(&p, &out);
    hear_nak(&p, 0, RNR_NAK | 9);
    post_receives(&p, 1);
    say(&p, &out);
    hear_ack(&p, 0, 1);
    pair_close(&p);
}

// A receive is asked for by the last packet of a Write, not by its first.
static void a_write_with_immediate_is_refused_at_its_end_alone(void **state)
{
    struct pair p;
    pair_open(&p);
    packet_begin(&out, WRITE_FIRST, peer_psn(0));
    packet_reth(&out, at(0), program.mr->rkey, PMTU + 1);
    packet_payload(&out, program.memory, PMTU);
    packet_ask(&out);
    say(&p, &out);
    hear_ack(&p, 0, 0);
    request(&out, WRITE_LAST_IMM, 1, "x", 1);
    say(&p, &out);
    hear_nak(&p, 1, RNR_NAK | 9);
    post_receives(&p, 1);
    say(&p, &out);
    hear_ack(&p, 1, 1);
    assert_int_equal(poll_one().byte_len, PMTU + 1);
    pair_close(&p);
}

// Reads and Writes need none.
static void who_has_no_receive_is_read_and_written_to(void **state)
{
    struct pair p;
    pair_open(&p);
    memcpy(program.memory, "readable", 8);
    say_write(&p, 0, at(16), program.mr->rkey, "x", 1);
    hear_ack(&p, 0, 1);
    say_read(&p, 1, at(0), program.mr->rkey, 8);
    hear_read(&p, 1, "readable", 8);
    pair_close(&p);
}

/* ---- windows: 9.4.1.1 ------------------------------------------------------------------------ */

static uint32_t bind_window(struct pair *p, struct ibv_mw *mw)
{
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_BIND_MW,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = {.mw = mw,
                    .rkey = ibv_inc_rkey(mw->rkey),
                    .bind_info = {.mr = program.mr,
                                  .addr = at(0),
                                  .length = 4096,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
    };
    post_wr(p, &wr);
    expect_success(IBV_WC_BIND_MW);
    return wr.bind_mw.rkey;
}

static void a_send_with_invalidate_takes_the_key_back(void **state)
{
    struct pair p;
    struct ibv_mw *mw = ibv_alloc_mw(program.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    pair_open(&p);
    post_receives(&p, 1);
    const uint32_t rkey = bind_window(&p, mw);
    say_write(&p, 0, at(0), rkey, "open", 4);
    hear_ack(&p, 0, 1);
    request(&out, SEND_ONLY_INV, 1, "done", 4);
    put_be32(out.octets + BTH_LEN, rkey);
    say(&p, &out);
    hear_ack(&p, 1, 2);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, rkey);
    assert_int_equal(wc.byte_len, 4);
    say_write(&p, 2, at(0), rkey, "shut", 4);
    hear_nak(&p, 2, NAK_REMOTE_ACCESS);
    assert_memory_equal(program.memory, "open", 4);
    pair_close(&p);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_is_received),
        cmocka_unit_test(a_send_in_packets_is_one_message),
        cmocka_unit_test(immediate_data_reach_the_program),
        cmocka_unit_test(a_send_of_nothing_takes_a_receive),
        cmocka_unit_test(a_write_is_placed_and_takes_no_receive),
        cmocka_unit_test(a_write_in_packets_goes_on_where_it_was),
        cmocka_unit_test(a_write_with_immediate_takes_a_receive),
        cmocka_unit_test(writes_and_reads_of_nothing_may_name_anything),
        cmocka_unit_test(a_read_is_answered_in_packets),
        cmocka_unit_test(a_read_of_whole_packets_ends_with_a_full_one),
        cmocka_unit_test(fetch_add_adds_and_tells_what_was_there),
        cmocka_unit_test(compare_swap_swaps_what_is_equal),
        cmocka_unit_test(a_read_sees_the_write_before_it),
        cmocka_unit_test(receives_complete_in_the_order_of_the_sends),
        cmocka_unit_test(answers_leave_in_the_order_of_the_requests),
        cmocka_unit_test(one_acknowledgement_stands_for_all_before_it),
        cmocka_unit_test(the_msn_counts_messages),
        cmocka_unit_test(a_hole_is_told_by_what_is_missing),
        cmocka_unit_test(a_hole_is_told_once),
        cmocka_unit_test(the_window_of_psns_is_half_of_them),
        cmocka_unit_test(a_send_that_comes_twice_is_received_once),
        cmocka_unit_test(a_write_that_comes_twice_is_acknowledged),
        cmocka_unit_test(a_read_that_comes_twice_is_answered_twice),
        cmocka_unit_test(the_rest_of_a_read_is_answered),
        cmocka_unit_test(an_atomic_that_comes_twice_is_executed_once),
        cmocka_unit_test(an_atomic_of_long_ago_is_dropped),
        cmocka_unit_test(a_request_that_only_looks_like_a_duplicate_is_dropped),
        cmocka_unit_test(an_atomic_that_only_looks_like_a_duplicate_is_dropped),
        cmocka_unit_test(an_acknowledgement_tells_of_receives),
        cmocka_unit_test(who_has_no_receive_says_when_to_come_again),
        cmocka_unit_test(a_write_with_immediate_waits_for_a_receive_too),
        cmocka_unit_test(a_write_with_immediate_is_refused_at_its_end_alone),
        cmocka_unit_test(who_has_no_receive_is_read_and_written_to),
        cmocka_unit_test(a_send_with_invalidate_takes_the_key_back),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
