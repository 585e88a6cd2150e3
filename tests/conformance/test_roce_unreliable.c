// Services that answer nothing (9.8): unreliable connections and datagrams. That a packet was
// dropped is shown by what comes behind it, which is received next.

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/conformance/pair.h"

enum { GRH_LEN = 40 };

static struct packet out, in;

static struct pair_attr unreliable(enum ibv_qp_type type)
{
    struct pair_attr attr = pair_usual();
    attr.type = type;
    return attr;
}

/* ---- 9.8.2: unreliable connections ----------------------------------------------------------- */

static void open_connection(struct pair *p, unsigned receive_count)
{
    const struct pair_attr attr = unreliable(IBV_QPT_UC);
    pair_open_as(p, &attr);
    post_receives(p, receive_count);
}

static void say_part(struct pair *p, unsigned operation, unsigned n, const void *octets, size_t len)
{
    request(&out, UC | operation, n, octets, len);
    say(p, &out);
}

// The next that is received is so long, and took this receive.
static void expect_receive(unsigned wr_id, uint32_t len)
{
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.byte_len, len);
}

static void a_message_of_one_packet_and_of_several_is_received(void **state)
{
    uint8_t octets[2 * PMTU + 1];
    struct pair p;
    fill(octets, sizeof octets, 1);
    open_connection(&p, 2);
    say_part(&p, SEND_ONLY, 0, "one", 3);
    expect_receive(0, 3);
    say_part(&p, SEND_FIRST, 1, octets, PMTU);
    say_part(&p, SEND_MIDDLE, 2, octets + PMTU, PMTU);
    say_part(&p, SEND_LAST, 3, octets + 2 * PMTU, 1);
    expect_receive(1, sizeof octets);
    assert_memory_equal(program.memory + RECEIVES_AT + RECEIVE_LEN, octets, sizeof octets);
    pair_close(&p);
}

// Whether AckReq is set or not, and whatever is wrong.
static void nothing_is_answered(void **state)
{
    struct pair p;
    open_connection(&p, 2);
    say_part(&p, SEND_ONLY, 0, "asking", 6);
    expect_receive(0, 6);
    say_part(&p, SEND_MIDDLE, 7, NULL, PMTU);
    say_part(&p, SEND_ONLY, 8, "behind", 6);
    expect_receive(1, 6);
    expect_no_word(&p);
    pair_close(&p);
}

// 9.8.2.2: the rest of a message that has lost a packet is dropped; the next begins anew, with the
// receive that was taken.
static void a_message_with_a_hole_is_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    say_part(&p, SEND_FIRST, 0, NULL, PMTU);
    say_part(&p, SEND_LAST, 2, "lost", 4); // 1 is missing
    say_part(&p, SEND_ONLY, 3, "whole", 5);
    expect_receive(0, 5);
    assert_memory_equal(program.memory + RECEIVES_AT, "whole", 5);
    pair_close(&p);
}

static void a_message_whose_first_is_missing_is_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    say_part(&p, SEND_MIDDLE, 1, NULL, PMTU);
    say_part(&p, SEND_LAST, 2, "lost", 4);
    say_part(&p, SEND_ONLY, 3, "whole", 5);
    expect_receive(0, 5);
    pair_close(&p);
}

// A PSN that nobody expected, where a message begins: what is missing was whole messages.
static void a_message_behind_a_hole_is_received(void **state)
{
    struct pair p;
    open_connection(&p, 3);
    say_part(&p, SEND_ONLY, 1000, "far", 3);
    expect_receive(0, 3);
    say_part(&p, SEND_ONLY, 1001, "next", 4);
    expect_receive(1, 4);
    say_part(&p, SEND_FIRST, 2000, NULL, PMTU);
    say_part(&p, SEND_LAST, 2001, NULL, 1);
    expect_receive(2, PMTU + 1);
    pair_close(&p);
}

// A message that begins where another had not ended.
static void a_message_that_does_not_end_is_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    say_part(&p, SEND_FIRST, 0, NULL, PMTU);
    say_part(&p, SEND_ONLY, 1, "whole", 5);
    expect_receive(0, 5);
    pair_close(&p);
}

static void a_packet_from_another_address_is_dropped(void **state)
{
    struct sockaddr_in from;
    struct pair p;
    const int fd = another_socket("127.0.0.3", &from);
    open_connection(&p, 1);
    request(&out, UC | SEND_ONLY, 0, "another's", 9);
    say_from(&p, &out, fd, &from, 0);
    say_part(&p, SEND_ONLY, 0, "whole", 5);
    expect_receive(0, 5);
    close(fd);
    pair_close(&p);
}

static void packets_of_another_kind_or_service_are_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    memset(program.memory, 0, 2 * PMTU);
    say_part(&p, SEND_FIRST, 0, NULL, PMTU);
    say_part(&p, WRITE_LAST, 1, "another kind", 12);
    packet_begin(&out, UC | WRITE_FIRST, peer_psn(2));
    packet_reth(&out, at(0), program.mr->rkey, PMTU + 4);
    packet_payload(&out, memset(in.octets, 'w', PMTU), PMTU);
    say(&p, &out);
    say_part(&p, SEND_LAST, 3, "send", 4);
    request(&out, RC | SEND_ONLY, 4, "reliable", 8);
    say(&p, &out);
    say_part(&p, SEND_ONLY, 4, "whole", 5);
    expect_receive(0, 5);
    assert_int_equal(program.memory[PMTU - 1], 'w');
    assert_int_equal(program.memory[PMTU], 0);
    pair_close(&p);
}

static void packets_of_wrong_lengths_are_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    say_part(&p, SEND_FIRST, 0, NULL, PMTU - 4);
    say_part(&p, SEND_ONLY, 1, NULL, PMTU + 4);
    say_part(&p, SEND_FIRST, 2, NULL, PMTU);
    say_part(&p, SEND_LAST, 3, NULL, 0);
    say_part(&p, SEND_ONLY, 4, "whole", 5);
    expect_receive(0, 5);
    pair_close(&p);
}

static void what_finds_no_receive_is_dropped(void **state)
{
    struct pair p;
    struct pair_attr attr = unreliable(IBV_QPT_UC);
    pair_open_as(&p, &attr);
    say_part(&p, SEND_ONLY, 0, "early", 5);
    expect_no_word(&p); // and it has been looked at
    post_receives(&p, 1);
    say_part(&p, SEND_ONLY, 1, "in time", 7);
    expect_receive(0, 7);
    pair_close(&p);
}

static void say_unreliable_write(struct pair *p, unsigned operation, unsigned n, uint32_t rkey,
                                 const char *text)
{
    packet_begin(&out, UC | operation, peer_psn(n));
    packet_reth(&out, at(0), rkey, (uint32_t)strlen(text));
    if (operation == WRITE_ONLY_IMM) {
        packet_word(&out, 0x0a0b0c0d);
    }
    packet_payload(&out, text, strlen(text));
    say(p, &out);
}

// 9.8.2.2: one that may not be is dropped, and the connection goes on.
static void writes_are_placed_where_they_may_be(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    memset(program.memory, 0, 8);
    say_unreliable_write(&p, WRITE_ONLY, 0, program.closed->rkey, "closed");
    say_unreliable_write(&p, WRITE_ONLY, 1, program.foreign->rkey, "foreign");
    say_part(&p, SEND_ONLY, 2, "x", 1);
    expect_receive(0, 1);
    assert_int_equal(program.memory[0], 0);
    say_unreliable_write(&p, WRITE_ONLY, 3, program.mr->rkey, "open");
    post_receives(&p, 1);
    say_unreliable_write(&p, WRITE_ONLY_IMM, 4, program.mr->rkey, "O");
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, htonl(0x0a0b0c0d));
    assert_int_equal(wc.byte_len, 1);
    assert_memory_equal(program.memory, "Open", 4);
    pair_close(&p);
}

// 9.8.2.2: the whole of it is looked at when it begins.
static void a_write_that_would_leave_its_region_places_nothing(void **state)
{
    const uint32_t offset = MEMORY_LEN - PMTU;
    struct pair p;
    open_connection(&p, 1);
    memset(program.memory + offset, 0, PMTU);
    packet_begin(&out, UC | WRITE_FIRST, peer_psn(0));
    packet_reth(&out, at(offset), program.mr->rkey, PMTU + 1);
    packet_payload(&out, memset(in.octets, 'w', PMTU), PMTU);
    say(&p, &out);
    say_part(&p, SEND_ONLY, 1, "behind", 6);
    expect_receive(0, 6);
    assert_int_equal(program.memory[offset], 0);
    pair_close(&p);
}

static void a_write_without_the_right_of_the_queue_pair_is_dropped(void **state)
{
    struct pair_attr attr = unreliable(IBV_QPT_UC);
    struct pair p;
    attr.rights = 0;
    pair_open_as(&p, &attr);
    post_receives(&p, 1);
    program.memory[0] = 0;
    say_unreliable_write(&p, WRITE_ONLY, 0, program.mr->rkey, "write");
    say_part(&p, SEND_ONLY, 1, "behind", 6);
    expect_receive(0, 6);
    assert_int_equal(program.memory[0], 0);
    pair_close(&p);
}

// 9.8.1: there are none on this service.
static void reads_and_atomics_are_dropped(void **state)
{
    struct pair p;
    open_connection(&p, 1);
    for (unsigned operation = READ_REQUEST; operation <= FETCH_ADD; operation++) {
        say_part(&p, operation, 0, NULL, 0);
    }
    say_part(&p, SEND_ONLY, 0, "whole", 5);
    expect_receive(0, 5);
    pair_close(&p);
}

// 9.8.2.1: opcodes of the service; done when it has left.
static void what_weft_sends_needs_no_answer(void **state)
{
    struct pair p;
    open_connection(&p, 0);
    post(&p, IBV_WR_SEND, 0, PMTU + 1, 0);
    post(&p, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 4, 0x1000);
    expect_success(IBV_WC_SEND);
    expect_success(IBV_WC_RDMA_WRITE);
    hear_request(&p, &in, UC | SEND_FIRST, 0);
    hear_request(&p, &in, UC | SEND_LAST, 1);
    hear_request(&p, &in, UC | WRITE_ONLY_IMM, 2);
    assert_true(reth_of(&in).va == 0x1000);
    pair_close(&p);
}

/* ---- 9.8.3: unreliable datagrams ------------------------------------------------------------- */

static void open_datagrams(struct pair *p, unsigned receive_count)
{
    const struct pair_attr attr = unreliable(IBV_QPT_UD);
    pair_open_as(p, &attr);
    post_receives(p, receive_count);
}

static void datagram(unsigned operation, uint32_t psn, uint32_t qkey, const void *octets,
                     size_t len)
{
    packet_begin(&out, UD | operation, psn);
    packet_deth(&out, qkey, 0x00abcd);
    if (operation == SEND_ONLY_IMM) {
        packet_word(&out, 0x0a0b0c0d);
    }
    packet_payload(&out, octets, len);
}

static void say_datagram(struct pair *p, uint32_t qkey, const char *text)
{
    datagram(SEND_ONLY, 0, qkey, text, strlen(text));
    say(p, &out);
}

// A16.5.1, A17.4.3: 40 octets precede the payload; of IPv4 its header is in the second half. Who
// sent it is told by the completion.
static void a_datagram_comes_behind_its_ip_header(void **state)
{
    const uint8_t *received = program.memory + RECEIVES_AT;
    struct pair p;
    open_datagrams(&p, 1);
    say_datagram(&p, PAIR_QKEY, "datagram");
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, GRH_LEN + 8);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH);
    assert_int_equal(wc.src_qp, 0x00abcd);
    assert_int_equal(received[20], 0x45);
    assert_memory_equal(received + 20 + 12, &ends.peer_at.sin_addr, 4);
    assert_memory_equal(received + 20 + 16, &ends.weft_at.sin_addr, 4);
    assert_memory_equal(received + GRH_LEN, "datagram", 8);
    pair_close(&p);
}

static void a_datagram_has_immediate_data(void **state)
{
    struct pair p;
    open_datagrams(&p, 1);
    datagram(SEND_ONLY_IMM, 5, PAIR_QKEY, "x", 1);
    say(&p, &out);
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htonl(0x0a0b0c0d));
    assert_int_equal(wc.byte_len, GRH_LEN + 1);
    pair_close(&p);
}

// 9.8.3, 10.2.5: of another Q_Key; PSNs are not looked at.
static void a_datagram_with_another_q_key_is_dropped(void **state)
{
    struct pair p;
    open_datagrams(&p, 1);
    say_datagram(&p, PAIR_QKEY + 1, "dropped");
    say_datagram(&p, 0, "dropped");
    datagram(SEND_ONLY, 0x123456, PAIR_QKEY, "taken", 5);
    say(&p, &out);
    expect_receive(0, GRH_LEN + 5);
    pair_close(&p);
}

// Every fault that has a connection's packets dropped, and what is no datagram of one packet.
static void what_is_no_datagram_is_dropped(void **state)
{
    static const uint8_t operations[] = {SEND_FIRST, SEND_MIDDLE,  SEND_LAST,
                                         WRITE_ONLY, READ_REQUEST, ACKNOWLEDGE};
    struct pair p;
    open_datagrams(&p, 1);
    for (size_t i = 0; i < sizeof operations; i++) {
        datagram(operations[i], 0, PAIR_QKEY, "zz", 2);
        say(&p, &out);
    }
    request(&out, RC | SEND_ONLY, 0, "reliable", 8);
    say(&p, &out);
    request(&out, UC | SEND_ONLY, 0, "connected", 9);
    say(&p, &out);
    datagram(SEND_ONLY, 0, PAIR_QKEY, "x", 1);
    out.octets[BTH_P_KEY + 1] = 0x17;
    say(&p, &out);
    datagram(SEND_ONLY, 0, PAIR_QKEY, "x", 1);
    out.octets[BTH_FLAGS] |= 1;
    say(&p, &out);
    say_datagram(&p, PAIR_QKEY, "taken");
    expect_receive(0, GRH_LEN + 5);
    pair_close(&p);
}

// 9.8.3.2.2: the receive stays for what fits it.
static void a_datagram_too_long_for_its_receive_is_dropped(void **state)
{
    struct pair p;
    open_datagrams(&p, 0);
    post_receive(&p, GRH_LEN + 4);
    say_datagram(&p, PAIR_QKEY, "five!");
    say_datagram(&p, PAIR_QKEY, "four");
    expect_receive(0, GRH_LEN + 4);
    pair_close(&p);
}

static void a_datagram_without_a_receive_is_dropped(void **state)
{
    struct pair p;
    open_datagrams(&p, 0);
    say_datagram(&p, PAIR_QKEY, "early");
    expect_no_word(&p); // and it has been looked at
    post_receives(&p, 1);
    say_datagram(&p, PAIR_QKEY, "in time");
    expect_receive(0, GRH_LEN + 7);
    pair_close(&p);
}

// To queue pair 0xffffff, from a socket of the host's that sends to groups where weft hears them.
static void say_to_group(struct pair *p, const struct sockaddr_in *group, uint32_t qkey,
                         const char *text)
{
    const struct sockaddr_in weft_at = ends.weft_at;
    struct sockaddr_in from;
    const int fd = another_socket(inet_ntoa(weft_at.sin_addr), &from);
    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &weft_at.sin_addr, sizeof weft_at.sin_addr);
    datagram(SEND_ONLY, 0, qkey, text, strlen(text));
    put_be24(out.octets + BTH_DEST_QP, 0xffffff);
    ends.weft_at = *group;
    say_from(p, &out, fd, &from, 0);
    ends.weft_at = weft_at;
    close(fd);
}

// 10.5.2: who is attached has it, with the Q_Key; its IP header names the group.
static void a_datagram_to_a_group_is_for_who_is_attached(void **state)
{
    struct sockaddr_in group = ends.weft_at;
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    struct pair attached, other;
    group.sin_addr.s_addr = inet_addr("239.7.7.7");
    memcpy(gid.raw + 12, &group.sin_addr, 4);
    open_datagrams(&other, 1);
    open_datagrams(&attached, 1);
    assert_int_equal(ibv_attach_mcast(attached.qp, &gid, 0), 0);
    say_to_group(&attached, &group, PAIR_QKEY + 1, "dropped");
    say_to_group(&attached, &group, PAIR_QKEY, "to all");
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.qp_num, attached.qp->qp_num);
    assert_int_equal(wc.byte_len, GRH_LEN + 6);
    assert_memory_equal(program.memory + RECEIVES_AT + 20 + 16, &group.sin_addr, 4);
    assert_int_equal(ibv_detach_mcast(attached.qp, &gid, 0), 0);
    pair_close(&attached);
    pair_close(&other);
}

static void send_datagram(struct pair *p, uint32_t qkey, enum ibv_wr_opcode opcode)
{
    struct ibv_ah_attr attr = {.is_global = 1,
                               .port_num = 1,
                               .grh = {.hop_limit = 5, .dgid.raw = {[10] = 0xff, [11] = 0xff}}};
    memcpy(attr.grh.dgid.raw + 12, &ends.peer_at.sin_addr, 4);
    attr.grh.sgid_index = (uint8_t)pair_gid_index();
    struct ibv_ah *ah = ibv_create_ah(program.pd, &attr);
    assert_non_null(ah);
    struct ibv_sge sge = {.addr = at(0), .length = 6, .lkey = program.mr->lkey};
    struct ibv_send_wr wr = work(opcode, &sge, 0);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = p->peer_num;
    wr.wr.ud.remote_qkey = qkey;
    post_wr(p, &wr);
    expect_success(IBV_WC_SEND);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

// 9.3.2: with the Q_Key of the work request, and the number of the queue pair; done when it has
// left.
static void a_datagram_says_who_sent_it(void **state)
{
    struct pair p;
    open_datagrams(&p, 0);
    memcpy(program.memory, "abcdef", 6);
    send_datagram(&p, 0x7f000001, IBV_WR_SEND);
    hear_request(&p, &in, UD | SEND_ONLY, 0);
    assert_int_equal(get_be32(in.octets + BTH_LEN), 0x7f000001);
    assert_int_equal(get_be32(in.octets + BTH_LEN + 4), p.qp->qp_num);
    assert_false(asks(&in));
    assert_int_equal(in.ttl, 5);
    assert_memory_equal(in.octets + BTH_LEN + DETH_LEN, "abcdef\0", 8);
    send_datagram(&p, 1, IBV_WR_SEND_WITH_IMM);
    hear_request(&p, &in, UD | SEND_ONLY_IMM, 1);
    assert_int_equal(get_be32(in.octets + BTH_LEN + DETH_LEN), 0x12345678);
    pair_close(&p);
}

// 10.2.5: the uppermost bit asks for that of the queue pair.
static void a_q_key_may_be_the_queue_pairs(void **state)
{
    struct pair p;
    open_datagrams(&p, 0);
    send_datagram(&p, 0x80000000, IBV_WR_SEND);
    hear_request(&p, &in, UD | SEND_ONLY, 0);
    assert_int_equal(get_be32(in.octets + BTH_LEN), PAIR_QKEY);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_one_packet_and_of_several_is_received),
        cmocka_unit_test(nothing_is_answered),
        cmocka_unit_test(a_message_with_a_hole_is_dropped),
        cmocka_unit_test(a_message_whose_first_is_missing_is_dropped),
        cmocka_unit_test(a_message_behind_a_hole_is_received),
        cmocka_unit_test(a_message_that_does_not_end_is_dropped),
        cmocka_unit_test(a_packet_from_another_address_is_dropped),
        cmocka_unit_test(packets_of_another_kind_or_service_are_dropped),
        cmocka_unit_test(packets_of_wrong_lengths_are_dropped),
        cmocka_unit_test(what_finds_no_receive_is_dropped),
        cmocka_unit_test(writes_are_placed_where_they_may_be),
        cmocka_unit_test(a_write_that_would_leave_its_region_places_nothing),
        cmocka_unit_test(a_write_without_the_right_of_the_queue_pair_is_dropped),
        cmocka_unit_test(reads_and_atomics_are_dropped),
        cmocka_unit_test(what_weft_sends_needs_no_answer),
        cmocka_unit_test(a_datagram_comes_behind_its_ip_header),
        cmocka_unit_test(a_datagram_has_immediate_data),
        cmocka_unit_test(a_datagram_with_another_q_key_is_dropped),
        cmocka_unit_test(what_is_no_datagram_is_dropped),
        cmocka_unit_test(a_datagram_too_long_for_its_receive_is_dropped),
        cmocka_unit_test(a_datagram_without_a_receive_is_dropped),
        cmocka_unit_test(a_datagram_to_a_group_is_for_who_is_attached),
        cmocka_unit_test(a_datagram_says_who_sent_it),
        cmocka_unit_test(a_q_key_may_be_the_queue_pairs),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
