// Sockets of datagrams, towards each other and towards a peer that is made of a plain UDP socket
// and a queue pair, which sees what goes which way.

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/verbs/roce.h"

enum { UDP_HEADER_LEN = 16, HEADER_LEN = 8, MESSAGE_MAX = 2048 - UDP_HEADER_LEN };

static const struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = 0x0100007fU};

/* ---- sockets --------------------------------------------------------------------------------- */

static int bound_socket(struct sockaddr_in *ret_addr)
{
    socklen_t len = sizeof *ret_addr;
    int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(rbind(fd, (const struct sockaddr *)&loopback, sizeof loopback), 0);
    assert_int_equal(rgetsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
    return fd;
}

static ssize_t send_to(int fd, const char *text, const struct sockaddr_in *to)
{
    return rsendto(fd, text, strlen(text), 0, (const struct sockaddr *)to, sizeof *to);
}

static void assert_receives(int fd, const char *text, struct sockaddr_in *ret_from)
{
    char buf[64];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t got = rrecvfrom(fd, buf, sizeof buf, 0, (struct sockaddr *)&from, &len);
    assert_int_equal(got, strlen(text));
    assert_memory_equal(buf, text, strlen(text));
    assert_int_equal(len, sizeof from);
    if (ret_from != NULL) {
        *ret_from = from;
    }
}

// Two sockets, of which each knows the other's queue pair.
struct two {
    int a, b;
    struct sockaddr_in addr_a, addr_b;
};

static void two_open(struct two *t)
{
    t->a = bound_socket(&t->addr_a);
    t->b = bound_socket(&t->addr_b);
    for (unsigned i = 0; i < 2; i++) { // over UDP, then not
        assert_int_equal(send_to(t->a, "there", &t->addr_b), 5);
        assert_receives(t->b, "there", NULL);
        assert_int_equal(send_to(t->b, "back", &t->addr_a), 4);
        assert_receives(t->a, "back", NULL);
    }
}

static void two_close(struct two *t)
{
    assert_int_equal(rclose(t->a), 0);
    assert_int_equal(rclose(t->b), 0);
}

/* ---- the peer that sees ---------------------------------------------------------------------- */

struct peer {
    int udp_fd;
    struct sockaddr_in addr;
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t memory[2][4096]; // received, sent
};

static void peer_post(struct peer *p)
{
    assert_int_equal(rdma_post_recv(p->id, NULL, p->memory[0], sizeof p->memory[0], p->mr), 0);
}

static void peer_open(struct peer *p)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
    struct sockaddr_in own = loopback;
    socklen_t len = sizeof p->addr;
    memset(p, 0, sizeof *p);
    p->udp_fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(p->udp_fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(getsockname(p->udp_fd, (struct sockaddr *)&p->addr, &len), 0);
    assert_int_equal(rdma_create_id(NULL, &p->id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_resolve_addr(p->id, NULL, (struct sockaddr *)&own, 2000), 0);
    assert_int_equal(rdma_create_qp(p->id, NULL, &attr), 0);
    p->mr = rdma_reg_msgs(p->id, p->memory, sizeof p->memory);
    assert_non_null(p->mr);
    peer_post(p);
}

static void peer_close(struct peer *p)
{
    rdma_destroy_qp(p->id);
    ibv_dereg_mr(p->mr);
    rdma_destroy_id(p->id);
    close(p->udp_fd);
}

// What has come over UDP, with its header.
static size_t peer_take_udp(struct peer *p, uint8_t *buf, size_t len, struct sockaddr_in *ret_from)
{
    socklen_t from_len = sizeof *ret_from;
    ssize_t got = recvfrom(p->udp_fd, buf, len, 0, (struct sockaddr *)ret_from, &from_len);
    assert_true(got >= UDP_HEADER_LEN);
    return (size_t)got;
}

static bool peer_has_udp(const struct peer *p)
{
    uint8_t octet;
    return recv(p->udp_fd, &octet, 1, MSG_DONTWAIT | MSG_PEEK) >= 0;
}

static void peer_send_udp(struct peer *p, uint8_t op, const char *text,
                          const struct sockaddr_in *to)
{
    uint8_t buf[64] = {0x55, 0x55, 0x55, 0x55, 4, op, UDP_HEADER_LEN};
    uint32_t qpn = htonl(p->id->qp->qp_num);
    memcpy(buf + 8, &qpn, sizeof qpn);
    memcpy(buf + 12, &loopback.sin_addr, 4);
    memcpy(buf + UDP_HEADER_LEN, text, strlen(text));
    size_t len = UDP_HEADER_LEN + strlen(text);
    assert_int_equal(sendto(p->udp_fd, buf, len, 0, (const struct sockaddr *)to, sizeof *to), len);
}

// What has come to its queue pair, behind the GRH.
static size_t peer_take(struct peer *p, const uint8_t **ret)
{
    struct ibv_wc wc;
    assert_int_equal(rdma_get_recv_comp(p->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    *ret = p->memory[0] + ROCE_GRH_LEN;
    return wc.byte_len - ROCE_GRH_LEN;
}

static void peer_send(struct peer *p, uint32_t qpn, const void *octets, size_t len)
{
    struct ibv_ah_attr attr = roce_ah_attr(p->id->verbs);
    struct ibv_ah *ah = ibv_create_ah(p->id->pd, &attr);
    struct ibv_wc wc;
    assert_non_null(ah);
    memcpy(p->memory[1], octets, len);
    assert_int_equal(rdma_post_ud_send(p->id, NULL, p->memory[1], len, p->mr, 0, ah, qpn), 0);
    assert_int_equal(rdma_get_send_comp(p->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    ibv_destroy_ah(ah);
}

static uint32_t qpn_in(const uint8_t *udp_header)
{
    uint32_t qpn;
    memcpy(&qpn, udp_header + 8, sizeof qpn);
    return ntohl(qpn);
}

/* ---- which way ------------------------------------------------------------------------------- */

static void test_first_goes_over_udp_and_tells_the_queue_pair(void **state)
{
    static const uint8_t header[] = {0x55, 0x55, 0x55, 0x55, 4, 0, UDP_HEADER_LEN, 0};
    struct peer p;
    struct sockaddr_in own, from;
    uint8_t buf[64];
    peer_open(&p);
    int fd = bound_socket(&own);
    assert_int_equal(send_to(fd, "first", &p.addr), 5);
    assert_int_equal(peer_take_udp(&p, buf, sizeof buf, &from), UDP_HEADER_LEN + 5);
    assert_memory_equal(buf, header, sizeof header);
    assert_memory_equal(buf + UDP_HEADER_LEN, "first", 5);
    assert_int_not_equal(qpn_in(buf), 0);
    assert_int_equal(from.sin_port, own.sin_port);
    rclose(fd);
    peer_close(&p);
}

static void test_goes_to_the_queue_pair_that_the_peer_answers_with(void **state)
{
    struct peer p;
    struct sockaddr_in own, from;
    uint8_t buf[64];
    const uint8_t *octets;
    peer_open(&p);
    int fd = bound_socket(&own);
    send_to(fd, "first", &p.addr);
    peer_take_udp(&p, buf, sizeof buf, &from);
    peer_send_udp(&p, 7, "", &from);
    assert_int_equal(send_to(fd, "second", &p.addr), 6);
    assert_int_equal(peer_take(&p, &octets), HEADER_LEN + 6);
    assert_int_equal(octets[0], 4);
    assert_int_equal(octets[1], HEADER_LEN);
    assert_memory_equal(octets + 2, &own.sin_port, 2);
    assert_memory_equal(octets + 4, &loopback.sin_addr, 4);
    assert_memory_equal(octets + HEADER_LEN, "second", 6);
    assert_false(peer_has_udp(&p));
    rclose(fd);
    peer_close(&p);
}

static void test_what_comes_over_udp_is_answered_with_a_queue_pair(void **state)
{
    struct peer p;
    struct sockaddr_in own, from;
    uint8_t buf[64], message[64] = {4, HEADER_LEN, 0x12, 0x34, 10, 9, 8, 7, 'b', 'y'};
    peer_open(&p);
    int fd = bound_socket(&own);
    peer_send_udp(&p, 0, "hello", &own);
    assert_receives(fd, "hello", &from);
    assert_int_equal(from.sin_port, p.addr.sin_port);
    assert_int_equal(peer_take_udp(&p, buf, sizeof buf, &from), UDP_HEADER_LEN);
    assert_int_equal(buf[5], 7);
    peer_send(&p, qpn_in(buf), message, HEADER_LEN + 2);
    assert_receives(fd, "by", &from); // and who has sent it stands in its header
    assert_int_equal(from.sin_port, htons(0x1234));
    assert_int_equal(from.sin_addr.s_addr, htonl(0x0a090807));
    rclose(fd);
    peer_close(&p);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

// Asked by UDP after more than a second, and not again within one. False: this process had to wait
// so long for its processor that nothing follows.
static bool is_asked_again_once(int fd, struct peer *p)
{
    struct sockaddr_in from;
    uint8_t buf[64];
    const uint8_t *octets;
    usleep(1100 * 1000);
    const int64_t begun_us = now_us();
    assert_int_equal(send_to(fd, "third", &p->addr), 5);
    assert_int_equal(peer_take_udp(p, buf, sizeof buf, &from), UDP_HEADER_LEN + 5);
    assert_int_equal(send_to(fd, "fourth", &p->addr), 6);
    if (now_us() - begun_us >= 1000 * 1000) {
        return false;
    }
    assert_int_equal(peer_take(p, &octets), HEADER_LEN + 6);
    return true;
}

static void test_who_is_silent_is_asked_again(void **state)
{
    bool is_known = false;
    while (!is_known) {
        struct peer p;
        struct sockaddr_in own, from;
        uint8_t buf[64];
        const uint8_t *octets;
        peer_open(&p);
        int fd = bound_socket(&own);
        send_to(fd, "first", &p.addr);
        peer_take_udp(&p, buf, sizeof buf, &from);
        peer_send_udp(&p, 7, "", &from);
        send_to(fd, "second", &p.addr);
        peer_take(&p, &octets);
        peer_post(&p);
        is_known = is_asked_again_once(fd, &p);
        rclose(fd);
        peer_close(&p);
    }
}

static void test_another_queue_pair_of_the_same_address_takes_the_place(void **state)
{
    struct peer p, q;
    struct sockaddr_in own, from;
    uint8_t buf[64];
    const uint8_t *octets;
    peer_open(&p);
    peer_open(&q);
    int fd = bound_socket(&own);
    send_to(fd, "first", &p.addr);
    peer_take_udp(&p, buf, sizeof buf, &from);
    peer_send_udp(&p, 7, "", &from);
    struct rdma_cm_id *before = p.id;
    p.id = q.id; // as a program that was started anew
    peer_send_udp(&p, 7, "", &from);
    p.id = before;
    assert_int_equal(rrecv(fd, buf, sizeof buf, MSG_DONTWAIT), -1);
    send_to(fd, "again", &p.addr);
    assert_int_equal(peer_take(&q, &octets), HEADER_LEN + 5);
    rclose(fd);
    peer_close(&p);
    peer_close(&q);
}

/* ---- what is dropped ------------------------------------------------------------------------- */

static void test_other_datagrams_of_udp_are_not_the_programs(void **state)
{
    static const uint8_t rows[][UDP_HEADER_LEN] = {
        {'h', 'e', 'l', 'l', 'o'},                          // no tag
        {0x55, 0x55, 0x55, 0x55, 6, 0, 28},                 // another family's
        {0x55, 0x55, 0x55, 0x55, 4, 0, UDP_HEADER_LEN - 1}, // another length
        {0x55, 0x55, 0x55, 0x55, 4, 3, UDP_HEADER_LEN},     // another operation
    };
    struct peer p;
    struct sockaddr_in own;
    peer_open(&p);
    int fd = bound_socket(&own);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sendto(p.udp_fd, rows[i], sizeof rows[i], 0, (struct sockaddr *)&own, sizeof own);
    }
    sendto(p.udp_fd, rows[1], 3, 0, (struct sockaddr *)&own, sizeof own);
    peer_send_udp(&p, 0, "good", &own);
    assert_receives(fd, "good", NULL);
    rclose(fd);
    peer_close(&p);
}

static void test_messages_without_a_header_are_not_the_programs(void **state)
{
    static const uint8_t good[] = {4, HEADER_LEN, 0, 1, 127, 0, 0, 1, 'g', 'o', 'o', 'd'};
    struct peer p;
    struct sockaddr_in own, from;
    uint8_t buf[64];
    peer_open(&p);
    int fd = bound_socket(&own);
    send_to(fd, "first", &p.addr);
    peer_take_udp(&p, buf, sizeof buf, &from);
    peer_send(&p, qpn_in(buf), "\4\10", 2);
    peer_send(&p, qpn_in(buf), "\5\10......", 8);
    peer_send(&p, qpn_in(buf), good, sizeof good);
    assert_receives(fd, "good", NULL);
    rclose(fd);
    peer_close(&p);
}

static void test_who_is_connected_hears_its_peer_alone(void **state)
{
    static const uint8_t stranger[] = {4, HEADER_LEN, 0, 1, 10, 0, 0, 1, 'n', 'o'};
    struct two t;
    struct peer p;
    struct sockaddr_in from;
    uint8_t buf[64];
    two_open(&t);
    peer_open(&p);
    send_to(t.a, "first", &p.addr);
    peer_take_udp(&p, buf, sizeof buf, &from);
    assert_int_equal(rconnect(t.a, (struct sockaddr *)&t.addr_b, sizeof t.addr_b), 0);
    peer_send(&p, qpn_in(buf), stranger, sizeof stranger);
    assert_int_equal(send_to(t.b, "yes", &t.addr_a), 3);
    assert_receives(t.a, "yes", NULL);
    peer_close(&p);
    two_close(&t);
}

/* ---- as sockets of datagrams are ------------------------------------------------------------- */

static void test_each_datagram_is_received_alone_and_in_order(void **state)
{
    struct two t;
    two_open(&t);
    send_to(t.a, "one", &t.addr_b);
    send_to(t.a, "", &t.addr_b);
    send_to(t.a, "three", &t.addr_b);
    assert_receives(t.b, "one", NULL);
    assert_receives(t.b, "", NULL);
    assert_receives(t.b, "three", NULL);
    two_close(&t);
}

static void test_connected_ones_send_without_an_address(void **state)
{
    struct two t;
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    two_open(&t);
    assert_int_equal(rsend(t.a, "x", 1, 0), -1);
    assert_int_equal(errno, EDESTADDRREQ);
    assert_int_equal(rconnect(t.a, (struct sockaddr *)&t.addr_b, sizeof t.addr_b), 0);
    assert_int_equal(rgetpeername(t.a, (struct sockaddr *)&from, &len), 0);
    assert_int_equal(from.sin_port, t.addr_b.sin_port);
    assert_int_equal(rwrite(t.a, "plain", 5), 5);
    assert_receives(t.b, "plain", &from);
    assert_int_equal(from.sin_port, t.addr_a.sin_port);
    two_close(&t);
}

static void test_who_is_not_bound_is_given_a_port(void **state)
{
    struct sockaddr_in addr, from;
    int bound = bound_socket(&addr), other = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(send_to(other, "question", &addr), 8);
    assert_receives(bound, "question", &from);
    assert_int_not_equal(from.sin_port, 0);
    assert_int_equal(send_to(bound, "answer", &from), 6);
    assert_receives(other, "answer", NULL);
    rclose(bound);
    rclose(other);
}

// Bound to no address, a socket of IPv6 hears and answers IPv4, first over UDP and then not.
static void test_socket_of_ipv6_has_peers_of_ipv4(void **state)
{
    struct sockaddr_in addr, from;
    struct sockaddr_in6 own = {.sin6_family = AF_INET6}, seen;
    socklen_t len = sizeof own;
    char buf[64];
    int of_4 = bound_socket(&addr), of_6 = rsocket(AF_INET6, SOCK_DGRAM, 0);
    assert_int_equal(rbind(of_6, (const struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(rgetsockname(of_6, (struct sockaddr *)&own, &len), 0);
    struct sockaddr_in to = loopback;
    to.sin_port = own.sin6_port;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(send_to(of_4, "question", &to), 8);
        len = sizeof seen;
        assert_int_equal(rrecvfrom(of_6, buf, sizeof buf, 0, (struct sockaddr *)&seen, &len), 8);
        assert_int_equal(len, sizeof seen);
        assert_true(IN6_IS_ADDR_V4MAPPED(&seen.sin6_addr));
        assert_int_equal(seen.sin6_port, addr.sin_port);
        assert_int_equal(rsendto(of_6, "answer", 6, 0, (const struct sockaddr *)&seen, len), 6);
        assert_receives(of_4, "answer", &from);
        assert_int_equal(from.sin_port, own.sin6_port);
    }
    assert_int_equal(rconnect(of_6, (const struct sockaddr *)&seen, sizeof seen), 0);
    assert_int_equal(rsend(of_6, "connected", 9, 0), 9);
    assert_receives(of_4, "connected", NULL);
    assert_int_equal(send_to(of_4, "heard", &to), 5);
    assert_int_equal(rrecv(of_6, buf, sizeof buf, 0), 5);
    rclose(of_4);
    rclose(of_6);
}

static void test_what_does_not_fit_is_cut_and_said(void **state)
{
    struct two t;
    char a[2], b[3];
    struct sockaddr_in from;
    struct iovec parts[] = {{a, sizeof a}, {b, sizeof b}};
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = parts, .msg_iovlen = 2};
    two_open(&t);
    send_to(t.a, "abcdefg", &t.addr_b);
    send_to(t.a, "hi", &t.addr_b);
    assert_int_equal(rrecv(t.b, a, sizeof a, MSG_PEEK | MSG_TRUNC), 7);
    assert_int_equal(rrecvmsg(t.b, &message, 0), 5);
    assert_memory_equal(a, "ab", 2);
    assert_memory_equal(b, "cde", 3);
    assert_int_equal(message.msg_flags, MSG_TRUNC);
    assert_int_equal(from.sin_port, t.addr_a.sin_port);
    assert_receives(t.b, "hi", NULL);
    two_close(&t);
}

static void test_parts_make_one_datagram(void **state)
{
    struct two t;
    struct iovec parts[] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    two_open(&t);
    struct msghdr message = {
        .msg_name = &t.addr_b, .msg_namelen = sizeof t.addr_b, .msg_iov = parts, .msg_iovlen = 3};
    assert_int_equal(rsendmsg(t.a, &message, 0), 5);
    assert_receives(t.b, "abcde", NULL);
    two_close(&t);
}

static void test_longest(void **state)
{
    static uint8_t out[MESSAGE_MAX + 1], in[MESSAGE_MAX + 1];
    struct two t;
    const struct sockaddr *to = (const struct sockaddr *)&t.addr_b;
    two_open(&t);
    memset(out, 'x', sizeof out);
    assert_int_equal(rsendto(t.a, out, MESSAGE_MAX, 0, to, sizeof t.addr_b), MESSAGE_MAX);
    assert_int_equal(rrecv(t.b, in, sizeof in, 0), MESSAGE_MAX);
    assert_memory_equal(in, out, MESSAGE_MAX);
    assert_int_equal(rsendto(t.a, out, MESSAGE_MAX + 1, 0, to, sizeof t.addr_b), -1);
    assert_int_equal(errno, EMSGSIZE);
    two_close(&t);
}

static void test_more_than_there_are_places_for_are_sent_in_turn(void **state)
{
    struct two t;
    int buffer_len = 4 * 2048;
    char buf[8];
    two_open(&t);
    int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
    rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_len, sizeof buffer_len);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(send_to(fd, "many", &t.addr_b), 4);
        assert_int_equal(rrecv(t.b, buf, sizeof buf, 0), 4);
    }
    rclose(fd);
    two_close(&t);
}

static void test_calls_of_streams_are_refused(void **state)
{
    struct sockaddr_in own;
    int type, fd = bound_socket(&own);
    socklen_t len = sizeof type;
    assert_int_equal(rlisten(fd, 1), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(raccept(fd, NULL, NULL), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(riomap(fd, &own, sizeof own, 0, 0, 0), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(rshutdown(fd, SHUT_RDWR), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len), 0);
    assert_int_equal(type, SOCK_DGRAM);
    rclose(fd);
    assert_int_equal(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), -1);
    assert_int_equal(errno, ENOTSUP);
}

// As rdma-core has it.
static void test_other_options_are_those_of_its_udp_socket(void **state)
{
    static const struct {
        int level, name;
    } rows[] = {{SOL_SOCKET, SO_BROADCAST}, {IPPROTO_IP, IP_TOS}, {IPPROTO_IP, IP_MULTICAST_TTL}};
    struct sockaddr_in addr;
    int fd = bound_socket(&addr);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int number = 4, got = -1;
        socklen_t len = sizeof got;
        assert_int_equal(rsetsockopt(fd, rows[i].level, rows[i].name, &number, sizeof number), 0);
        assert_int_equal(rgetsockopt(fd, rows[i].level, rows[i].name, &got, &len), 0);
        assert_int_equal(got, rows[i].name == SO_BROADCAST ? 1 : number);
    }
    const uint8_t off = 0;
    int number = 1;
    socklen_t len = sizeof number;
    assert_int_equal(rsetsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off), 0);
    assert_int_equal(rgetsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &number, &len), 0);
    assert_int_equal(number, 0);
    assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
    assert_int_equal(rsetsockopt(fd, IPPROTO_TCP, TCP_CORK, &number, sizeof number), -1);
    assert_int_equal(rsetsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3), -1);
    assert_int_equal(rclose(fd), 0);
}

static void test_shut_down_it_sends_and_hears_no_more(void **state)
{
    struct two t;
    char octet;
    two_open(&t);
    rconnect(t.a, (struct sockaddr *)&t.addr_b, sizeof t.addr_b);
    assert_int_equal(rshutdown(t.a, SHUT_RD), 0);
    assert_int_equal(rrecv(t.a, &octet, 1, 0), 0);
    assert_int_equal(rsend(t.a, "x", 1, 0), 1);
    assert_int_equal(rshutdown(t.a, SHUT_WR), 0);
    assert_int_equal(rsend(t.a, "x", 1, 0), -1);
    assert_int_equal(errno, EPIPE);
    two_close(&t);
}

static void test_where_no_way_leads_connecting_fails(void **state)
{
    const struct sockaddr_in far = {.sin_family = AF_INET,
                                    .sin_port = htons(9),
                                    .sin_addr.s_addr = htonl(0xc6336401)}; // from loopback
    struct sockaddr_in own;
    int fd = bound_socket(&own);
    assert_int_equal(rconnect(fd, (const struct sockaddr *)&far, sizeof far), -1);
    assert_int_equal(rsend(fd, "x", 1, 0), -1);
    assert_int_equal(errno, EDESTADDRREQ);
    rclose(fd);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void test_nonblocking_ones_come_again(void **state)
{
    struct two t;
    char octet;
    two_open(&t);
    assert_int_equal(rrecv(t.a, &octet, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    int fd = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(rrecv(fd, &octet, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    rclose(fd);
    two_close(&t);
}

struct late {
    struct two *t;
    struct peer *p;
};

static void *send_late(void *ctx)
{
    struct late *late = ctx;
    usleep(20 * 1000);
    if (late->p != NULL) {
        peer_send_udp(late->p, 0, "late", &late->t->addr_b);
    } else {
        send_to(late->t->a, "late", &late->t->addr_b);
    }
    return NULL;
}

static void assert_poll_wakes(struct two *t, struct peer *p)
{
    struct late late = {t, p};
    struct pollfd fd = {.fd = t->b, .events = POLLIN | POLLOUT};
    pthread_t thread;
    assert_int_equal(rpoll(&fd, 1, 0), 1);
    assert_int_equal(fd.revents, POLLOUT);
    fd.events = POLLIN;
    assert_int_equal(pthread_create(&thread, NULL, send_late, &late), 0);
    assert_int_equal(rpoll(&fd, 1, 20 * 1000), 1);
    assert_int_equal(fd.revents, POLLIN);
    pthread_join(thread, NULL);
    assert_receives(t->b, "late", NULL);
}

static void test_poll_wakes_for_what_comes_either_way(void **state)
{
    struct two t;
    struct peer p;
    two_open(&t);
    peer_open(&p);
    assert_poll_wakes(&t, NULL);
    assert_poll_wakes(&t, &p);
    peer_close(&p);
    two_close(&t);
}

static void test_who_sleeps_in_receive_is_woken(void **state)
{
    struct two t;
    pthread_t thread;
    two_open(&t);
    struct late late = {&t, NULL};
    assert_int_equal(pthread_create(&thread, NULL, send_late, &late), 0);
    assert_receives(t.b, "late", NULL);
    pthread_join(thread, NULL);
    two_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_goes_over_udp_and_tells_the_queue_pair),
        cmocka_unit_test(test_goes_to_the_queue_pair_that_the_peer_answers_with),
        cmocka_unit_test(test_what_comes_over_udp_is_answered_with_a_queue_pair),
        cmocka_unit_test(test_who_is_silent_is_asked_again),
        cmocka_unit_test(test_another_queue_pair_of_the_same_address_takes_the_place),
        cmocka_unit_test(test_other_datagrams_of_udp_are_not_the_programs),
        cmocka_unit_test(test_messages_without_a_header_are_not_the_programs),
        cmocka_unit_test(test_who_is_connected_hears_its_peer_alone),
        cmocka_unit_test(test_each_datagram_is_received_alone_and_in_order),
        cmocka_unit_test(test_connected_ones_send_without_an_address),
        cmocka_unit_test(test_who_is_not_bound_is_given_a_port),
        cmocka_unit_test(test_socket_of_ipv6_has_peers_of_ipv4),
        cmocka_unit_test(test_what_does_not_fit_is_cut_and_said),
        cmocka_unit_test(test_parts_make_one_datagram),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_more_than_there_are_places_for_are_sent_in_turn),
        cmocka_unit_test(test_calls_of_streams_are_refused),
        cmocka_unit_test(test_other_options_are_those_of_its_udp_socket),
        cmocka_unit_test(test_shut_down_it_sends_and_hears_no_more),
        cmocka_unit_test(test_where_no_way_leads_connecting_fails),
        cmocka_unit_test(test_nonblocking_ones_come_again),
        cmocka_unit_test(test_poll_wakes_for_what_comes_either_way),
        cmocka_unit_test(test_who_sleeps_in_receive_is_woken),
    };
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
