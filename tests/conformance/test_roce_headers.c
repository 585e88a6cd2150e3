// Headers, whatever the operation: the BTH and what extends it (9.2, 9.3, 9.6.1), and what RoCEv2
// has around it (annex A17): IP, UDP, ICRC, marks of congestion. Without weft's extensions, of
// which one is in bits that are reserved here.

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/conformance/pair.h"

static struct packet out, in;

/* ---- 9.2, 9.3: what weft sends --------------------------------------------------------------- */

static void a_send_has_the_header_of_the_figure(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 6, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    uint8_t header[BTH_LEN] = {SEND_ONLY, FLAG_MIG_REQ | 2 << 4, 0xff, 0xff, 0, 0, 0,
                               0,         FLAG_ACK_REQ};
    put_be24(header + BTH_DEST_QP, p.peer_num);
    put_be24(header + BTH_PSN, WEFT_PSN);
    assert_memory_equal(in.octets, header, sizeof header);
    assert_int_equal(in.len, BTH_LEN + 8);
    pair_close(&p);
}

// 9.2.1, table 35: opcodes, and which headers stand behind the BTH, in which order.
static void each_operation_has_its_opcode_and_headers(void **state)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        unsigned operation;
        bool has_reth, has_word;
    } cases[] = {
        {IBV_WR_SEND, SEND_ONLY, false, false},
        {IBV_WR_SEND_WITH_IMM, SEND_ONLY_IMM, false, true},
        {IBV_WR_SEND_WITH_INV, SEND_ONLY_INV, false, true},
        {IBV_WR_RDMA_WRITE, WRITE_ONLY, true, false},
        {IBV_WR_RDMA_WRITE_WITH_IMM, WRITE_ONLY_IMM, true, true},
    };
    struct pair p;
    pair_open(&p);
    memcpy(program.memory, "payload!", 8);
    for (unsigned n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        post(&p, cases[n].opcode, 0, 8, 0x123456789abcdef0);
        hear_request(&p, &in, cases[n].operation, n);
        const uint8_t *at = in.octets + BTH_LEN;
        if (cases[n].has_reth) {
            const struct reth_fields reth = reth_of(&in);
            assert_true(reth.va == 0x123456789abcdef0);
            assert_int_equal(reth.rkey, PEER_KEY);
            assert_int_equal(reth.len, 8);
            at += RETH_LEN;
        }
        if (cases[n].has_word) {
            const bool takes_back = cases[n].operation == SEND_ONLY_INV;
            assert_int_equal(get_be32(at), takes_back ? PEER_KEY : 0x12345678);
            at += 4;
        }
        assert_memory_equal(at, "payload!", 8);
        assert_int_equal(in.len, (size_t)(at - in.octets) + 8);
        say_ack(&p, n, ACK, n + 1);
    }
    pair_close(&p);
}

// The same of messages of several packets: what describes the whole stands in the first, what the
// receiver is told at the end in the last.
static void headers_stand_at_the_ends_of_a_message(void **state)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        unsigned first, last;
    } cases[] = {
        {IBV_WR_SEND_WITH_IMM, SEND_FIRST, SEND_LAST_IMM},
        {IBV_WR_SEND_WITH_INV, SEND_FIRST, SEND_LAST_INV},
        {IBV_WR_RDMA_WRITE_WITH_IMM, WRITE_FIRST, WRITE_LAST_IMM},
    };
    struct pair p;
    pair_open(&p);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        post(&p, cases[i].opcode, 0, PMTU + 4, 0x1000);
        hear_request(&p, &in, cases[i].first, 2 * i);
        assert_int_equal(payload_len_of(&in), PMTU);
        hear_request(&p, &in, cases[i].last, 2 * i + 1);
        assert_int_equal(payload_len_of(&in), 4);
        assert_int_equal(in.len, BTH_LEN + 4 + 4);
        say_ack(&p, 2 * i + 1, ACK, i + 1);
    }
    pair_close(&p);
}

// 9.2.2: in the last packet of what its program asked it for.
static void a_solicited_event_is_asked_for_at_the_end(void **state)
{
    struct ibv_sge sge = {.addr = at(0), .length = PMTU + 1, .lkey = program.mr->lkey};
    struct ibv_send_wr wr = work(IBV_WR_SEND, &sge, 0);
    struct pair p;
    wr.send_flags |= IBV_SEND_SOLICITED;
    pair_open(&p);
    post_wr(&p, &wr);
    hear_request(&p, &in, SEND_FIRST, 0);
    assert_int_equal(in.octets[BTH_FLAGS] & FLAG_SE, 0);
    hear_request(&p, &in, SEND_LAST, 1);
    assert_int_equal(in.octets[BTH_FLAGS] & FLAG_SE, FLAG_SE);
    pair_close(&p);
}

// 9.2.4: zeros, up to a multiple of four octets.
static void a_payload_is_padded_with_zeros(void **state)
{
    struct pair p;
    pair_open(&p);
    memset(program.memory, 0xff, 8);
    for (unsigned n = 0; n < 6; n++) {
        post(&p, IBV_WR_SEND, 0, n, 0);
        hear_request(&p, &in, SEND_ONLY, n);
        assert_int_equal(payload_len_of(&in), n);
        assert_int_equal(in.len % 4, 0);
        assert_true(pad_of(&in) == (size_t)(-n & 3));
        for (size_t i = in.len - pad_of(&in); i < in.len; i++) {
            assert_int_equal(in.octets[i], 0);
        }
        say_ack(&p, n, ACK, n + 1);
    }
    pair_close(&p);
}

// Answers have no AckReq, and nothing in what is reserved.
static void answers_have_the_header_of_the_figure(void **state)
{
    struct pair p;
    uint8_t header[BTH_LEN] = {ACKNOWLEDGE, FLAG_MIG_REQ, 0xff, 0xff};
    pair_open(&p);
    say_write(&p, 0, 0, 0, NULL, 0);
    hear(&p, &in);
    put_be24(header + BTH_DEST_QP, p.peer_num);
    put_be24(header + BTH_PSN, PEER_PSN);
    assert_memory_equal(in.octets, header, sizeof header);
    say_read(&p, 1, at(0), program.mr->rkey, 4);
    hear(&p, &in);
    header[BTH_OPCODE] = READ_RESPONSE_ONLY;
    put_be24(header + BTH_PSN, peer_psn(1));
    assert_memory_equal(in.octets, header, sizeof header);
    pair_close(&p);
}

/* ---- 9.2, 9.6.1: what weft takes ------------------------------------------------------------- */

static void payloads_of_each_pad_are_taken(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 6);
    for (unsigned n = 0; n < 6; n++) {
        request(&out, SEND_ONLY, n, "octets", n);
        say(&p, &out);
        hear_ack(&p, n, n + 1);
        const struct ibv_wc wc = poll_one();
        assert_int_equal(wc.byte_len, n);
        assert_memory_equal(program.memory + RECEIVES_AT + n * RECEIVE_LEN, "octets", n);
    }
    pair_close(&p);
}

// Reserved bits, MigReq and marks of congestion say nothing about whether a packet is taken.
static void bits_without_a_meaning_here_are_passed_over(void **state)
{
    static const struct {
        unsigned at;
        uint8_t bits;
    } cases[] = {
        {BTH_FLAGS, FLAG_MIG_REQ}, {BTH_CONGESTION, 0x3f}, {BTH_CONGESTION, 0xc0},
        {BTH_ACK_REQ, 0x7f},       {BTH_ACK_REQ, 0x2a},
    };
    struct pair p;
    pair_open(&p);
    for (unsigned n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        request(&out, WRITE_ONLY, n, NULL, 0);
        out.octets[cases[n].at] ^= cases[n].bits;
        say(&p, &out);
        hear_ack(&p, n, n + 1);
    }
    pair_close(&p);
}

// 9.2.2: who waits for solicited completions alone hears of such a one.
static void a_solicited_event_wakes_who_waits_for_one(void **state)
{
    struct ibv_cq *cq;
    void *context;
    struct pair p;
    pair_open(&p);
    post_receives(&p, 2);
    assert_int_equal(ibv_req_notify_cq(program.cq, 1), 0);
    say_send(&p, 0, "silent");
    hear_ack(&p, 0, 1);
    struct pollfd told = {.fd = ends.channel->fd, .events = POLLIN};
    assert_int_equal(poll(&told, 1, 0), 0);
    request(&out, SEND_ONLY, 1, "loud", 4);
    out.octets[BTH_FLAGS] |= FLAG_SE;
    say(&p, &out);
    assert_int_equal(ibv_get_cq_event(ends.channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(poll_one().byte_len, 6);
    assert_int_equal(poll_one().byte_len, 4);
    pair_close(&p);
}

// 9.6.1: what fails a check is dropped, without a word, and without a trace in PSN or receive.
static const struct {
    const char *what;
    unsigned at;
    uint8_t bits;
} faults[] = {
    {"TVer 1", BTH_FLAGS, 0x01},
    {"TVer 15", BTH_FLAGS, 0x0f},
    {"another partition", BTH_P_KEY + 1, 0x01},
    {"another one", BTH_P_KEY + 1, 0xff},
    {"a pad of a payload that there is not", BTH_FLAGS, 0x30},
};

static void a_header_that_fails_a_check_is_dropped(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 1);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        request(&out, SEND_ONLY, 0, NULL, 0);
        out.octets[faults[i].at] ^= faults[i].bits;
        say(&p, &out);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

// 10.9.3: full members and limited ones may speak to a full one.
static void a_limited_member_of_the_partition_is_heard(void **state)
{
    struct pair p;
    pair_open(&p);
    request(&out, WRITE_ONLY, 0, NULL, 0);
    put_be16(out.octets + BTH_P_KEY, 0x7fff);
    say(&p, &out);
    hear_ack(&p, 0, 1);
    pair_close(&p);
}

// 9.2.7: a number that no queue pair has, and those that are none of a program's.
static void a_queue_pair_that_is_not_there_is_silent(void **state)
{
    static const uint32_t changes[] = {0x800000, 0x400000, 0x008000};
    struct pair p;
    pair_open(&p);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        request(&out, WRITE_ONLY, 0, NULL, 0);
        put_be24(out.octets + BTH_DEST_QP, p.qp->qp_num ^ changes[i]);
        say(&p, &out);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

// Cut off anywhere within its headers; and of a length that is no multiple of four.
static void a_packet_that_is_cut_is_dropped(void **state)
{
    struct pair p;
    pair_open(&p);
    packet_begin(&out, WRITE_ONLY, peer_psn(0));
    packet_reth(&out, at(0), program.mr->rkey, 0);
    const size_t len = out.len;
    for (out.len = BTH_LEN; out.len < len; out.len++) {
        say(&p, &out);
    }
    request(&out, SEND_ONLY, 0, "four", 4);
    for (out.len -= 3; out.len < BTH_LEN + 4; out.len++) {
        say(&p, &out);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

// Datagrams that are no packets at all.
static void datagrams_too_short_for_a_header_are_dropped(void **state)
{
    static const uint8_t octets[BTH_LEN + ICRC_LEN];
    struct pair p;
    pair_open(&p);
    for (size_t len = 0; len < sizeof octets; len++) {
        assert_int_equal(
            sendto(ends.fd, octets, len, 0, (struct sockaddr *)&ends.weft_at, sizeof ends.weft_at),
            (ssize_t)len);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

/* ---- annex A17: IP and UDP ------------------------------------------------------------------- */

// The source port tells flows apart, and is the same for all packets of one; 0xc000 and above.
static void a_flow_has_one_source_port(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    const uint16_t port = in.source_port;
    assert_true(port >= 0xc000);
    say_ack(&p, 0, ACK, 1);
    say_write(&p, 0, 0, 0, NULL, 0);
    hear(&p, &in);
    assert_int_equal(in.source_port, port);
    pair_close(&p);
}

// Answers go to RoCE's port, wherever a packet came from.
static void a_source_port_is_no_return_address(void **state)
{
    struct sockaddr_in from;
    struct pair p;
    const int fd = another_socket("127.0.0.2", &from);
    pair_open(&p);
    request(&out, WRITE_ONLY, 0, NULL, 0);
    say_from(&p, &out, fd, &from, 0);
    hear_ack(&p, 0, 1);
    close(fd);
    pair_close(&p);
}

// 9.6.1.2: a connection's packets come from its path's address.
static void a_packet_from_another_address_is_dropped(void **state)
{
    struct sockaddr_in from;
    struct pair p;
    const int fd = another_socket("127.0.0.3", &from);
    pair_open(&p);
    request(&out, WRITE_ONLY, 0, NULL, 0);
    say_from(&p, &out, fd, &from, 0);
    expect_silence(&p, 0, 1);
    close(fd);
    pair_close(&p);
}

// A17.4.5: DSCP from the traffic class, TTL from the hop limit.
static void traffic_class_and_hop_limit_are_in_the_ip_header(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.traffic_class = 0x68;
    attr.hop_limit = 33;
    pair_open_as(&p, &attr);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    assert_int_equal(in.tos & 0xfc, 0x68);
    assert_int_equal(in.ttl, 33);
    pair_close(&p);
}

/* ---- annex A17.3.3: ICRC --------------------------------------------------------------------- */

// This suite's own, held against a packet that others sent. (Weft's is looked at in each packet
// that any test hears.)
static void the_icrc_is_that_of_a_captured_packet(void **state)
{
    static const uint8_t octets[] = {
        0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17,
        0x10, 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a,
        0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00,
    };
    static const uint8_t icrc[] = {0x78, 0xf3, 0x53, 0xf3};
    struct sockaddr_in from = {.sin_addr.s_addr = inet_addr("192.168.0.7"),
                               .sin_port = htons(49152)};
    struct sockaddr_in to = from;
    to.sin_port = htons(4791);
    memcpy(out.octets, octets, sizeof octets);
    out.len = sizeof octets;
    icrc_put(&out, icrc_of(&out, &from, &to, 0x0478));
    assert_memory_equal(out.octets + sizeof octets, icrc, sizeof icrc);
}

static void a_packet_whose_icrc_is_wrong_is_dropped(void **state)
{
    static const uint32_t changes[] = {0xffffffff, 0x01000000, 0x00000001};
    struct pair p;
    pair_open(&p);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        request(&out, WRITE_ONLY, 0, NULL, 0);
        say_from(&p, &out, ends.fd, &ends.peer_at, changes[i]);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

// What routers write does not count.
static void tos_and_ttl_are_not_in_the_icrc(void **state)
{
    const int tos = 0x28, ttl = 7, usual_tos = 0, usual_ttl = 64;
    struct pair p;
    pair_open(&p);
    assert_int_equal(setsockopt(ends.fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos), 0);
    assert_int_equal(setsockopt(ends.fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl), 0);
    say_write(&p, 0, 0, 0, NULL, 0);
    setsockopt(ends.fd, IPPROTO_IP, IP_TOS, &usual_tos, sizeof usual_tos);
    setsockopt(ends.fd, IPPROTO_IP, IP_TTL, &usual_ttl, sizeof usual_ttl);
    hear_ack(&p, 0, 1);
    pair_close(&p);
}

/* ---- annex A17.9: congestion ----------------------------------------------------------------- */

static void say_marked(struct pair *p, unsigned n)
{
    const int marked = 3, unmarked = 0;
    assert_int_equal(setsockopt(ends.fd, IPPROTO_IP, IP_TOS, &marked, sizeof marked), 0);
    say_write(p, n, 0, 0, NULL, 0);
    setsockopt(ends.fd, IPPROTO_IP, IP_TOS, &unmarked, sizeof unmarked);
}

// Sent so that routers may mark it.
static void packets_can_be_marked(void **state)
{
    struct pair p;
    pair_open(&p);
    post(&p, IBV_WR_SEND, 0, 1, 0);
    hear_request(&p, &in, SEND_ONLY, 0);
    assert_int_equal(in.tos & 3, 2);
    pair_close(&p);
}

// A17.9.3: to the sender of a packet that was marked: BECN, PSN 0, 16 octets of zero.
static void a_marked_packet_is_told_to_its_sender(void **state)
{
    bool has_cnp = false, has_ack = false;
    struct pair p;
    pair_open(&p);
    say_marked(&p, 0);
    while (!has_cnp || !has_ack) {
        hear(&p, &in);
        has_ack |= opcode_of(&in) == ACKNOWLEDGE;
        if (opcode_of(&in) == CNP) {
            static const uint8_t reserved[16];
            assert_int_equal(in.octets[BTH_CONGESTION], FLAG_BECN);
            assert_int_equal(psn_of(&in), 0);
            assert_int_equal(in.len, BTH_LEN + sizeof reserved);
            assert_memory_equal(in.octets + BTH_LEN, reserved, sizeof reserved);
            assert_false(has_cnp);
            has_cnp = true;
        }
    }
    pair_close(&p);
}

// It is no request: it has no PSN of the connection's, and gets no answer.
static void a_cnp_is_taken_without_a_word(void **state)
{
    static const uint8_t reserved[16];
    struct pair p;
    pair_open(&p);
    packet_begin(&out, CNP, 0);
    out.octets[BTH_CONGESTION] = FLAG_BECN;
    packet_payload(&out, reserved, sizeof reserved);
    say(&p, &out);
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_send_has_the_header_of_the_figure),
        cmocka_unit_test(each_operation_has_its_opcode_and_headers),
        cmocka_unit_test(headers_stand_at_the_ends_of_a_message),
        cmocka_unit_test(a_solicited_event_is_asked_for_at_the_end),
        cmocka_unit_test(a_payload_is_padded_with_zeros),
        cmocka_unit_test(answers_have_the_header_of_the_figure),
        cmocka_unit_test(payloads_of_each_pad_are_taken),
        cmocka_unit_test(bits_without_a_meaning_here_are_passed_over),
        cmocka_unit_test(a_solicited_event_wakes_who_waits_for_one),
        cmocka_unit_test(a_header_that_fails_a_check_is_dropped),
        cmocka_unit_test(a_limited_member_of_the_partition_is_heard),
        cmocka_unit_test(a_queue_pair_that_is_not_there_is_silent),
        cmocka_unit_test(a_packet_that_is_cut_is_dropped),
        cmocka_unit_test(datagrams_too_short_for_a_header_are_dropped),
        cmocka_unit_test(a_flow_has_one_source_port),
        cmocka_unit_test(a_source_port_is_no_return_address),
        cmocka_unit_test(a_packet_from_another_address_is_dropped),
        cmocka_unit_test(traffic_class_and_hop_limit_are_in_the_ip_header),
        cmocka_unit_test(the_icrc_is_that_of_a_captured_packet),
        cmocka_unit_test(a_packet_whose_icrc_is_wrong_is_dropped),
        cmocka_unit_test(tos_and_ttl_are_not_in_the_icrc),
        cmocka_unit_test(packets_can_be_marked),
        cmocka_unit_test(a_marked_packet_is_told_to_its_sender),
        cmocka_unit_test(a_cnp_is_taken_without_a_word),
    };
    setenv("WEFT_EXTENSIONS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
