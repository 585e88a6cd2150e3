#include "tests/conformance/pair.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/verbs/roce.h"

enum { DEPTH = 128, BURST_MAX = 64 };

struct ends ends;
static uint32_t last_peer_num = 0x000100;

/* ---- the program and its peer's socket ------------------------------------------------------- */

// At a loopback address that nobody else has, and at the port that the device will have too.
static void peer_open(void)
{
    const int dont_fragment = IP_PMTUDISC_DO, yes = 1; // so the identification is 0
    roce_port_of_own();
    ends.peer_at = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons(own_port()),
                                        .sin_addr.s_addr = inet_addr("127.0.0.2")};
    ends.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(ends.fd >= 0);
    setsockopt(ends.fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
    setsockopt(ends.fd, IPPROTO_IP, IP_RECVTOS, &yes, sizeof yes);
    setsockopt(ends.fd, IPPROTO_IP, IP_RECVTTL, &yes, sizeof yes);
    assert_int_equal(bind(ends.fd, (const struct sockaddr *)&ends.peer_at, sizeof ends.peer_at), 0);
}

static int gid_index; // the first of IPv4

int pair_gid_index(void)
{
    return gid_index;
}

static void find_gid(void)
{
    union ibv_gid gid;
    gid_index = 0;
    do {
        assert_int_equal(ibv_query_gid(ends.context, 1, gid_index++, &gid), 0);
    } while (!IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw));
    gid_index--;
    ends.weft_at = ends.peer_at;
    memcpy(&ends.weft_at.sin_addr, gid.raw + 12, 4);
}

int program_setup(void **state)
{
    peer_open();
    ends.context = roce_open();
    find_gid();
    ends.channel = ibv_create_comp_channel(ends.context);
    program_open(ends.context, ends.channel, 4 * DEPTH, MEMORY_LEN);
    return 0;
}

int program_teardown(void **state)
{
    program_close();
    assert_int_equal(ibv_destroy_comp_channel(ends.channel), 0);
    assert_int_equal(ibv_close_device(ends.context), 0);
    close(ends.fd);
    return 0;
}

/* ---- the queue pair -------------------------------------------------------------------------- */

struct pair_attr pair_usual(void)
{
    return (struct pair_attr){
        .type = IBV_QPT_RC,
        .state = IBV_QPS_RTS,
        .rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .depth = 4,
        .retry_count = 7,
        .rnr_retry = 7,
        .min_rnr_timer = 9, // 0.24 ms
        .hop_limit = 64,
    };
}

static struct ibv_ah_attr path_of(const struct pair_attr *attr)
{
    struct ibv_ah_attr path = {
        .is_global = 1,
        .port_num = 1,
        .grh = {.sgid_index = (uint8_t)gid_index,
                .hop_limit = attr->hop_limit,
                .traffic_class = attr->traffic_class,
                .dgid.raw = {[10] = 0xff, [11] = 0xff}},
    };
    memcpy(path.grh.dgid.raw + 12, &ends.peer_at.sin_addr, 4);
    return path;
}

static int mask_of(enum ibv_qp_type type, enum ibv_qp_state state)
{
    static const int reliable[] = {
        [IBV_QPS_RTR] = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        [IBV_QPS_RTS] =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
    };
    static const int connected[] = {
        [IBV_QPS_INIT] = IBV_QP_ACCESS_FLAGS,
        [IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
        [IBV_QPS_RTS] = 0,
    };
    static const int any[] = {
        [IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT,
        [IBV_QPS_RTR] = IBV_QP_STATE,
        [IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN,
    };
    const int of_datagrams = state == IBV_QPS_INIT ? IBV_QP_QKEY : 0;
    return any[state] | (type == IBV_QPT_UD ? of_datagrams : connected[state]) |
           (type == IBV_QPT_RC ? reliable[state] : 0);
}

void pair_open_as(struct pair *p, const struct pair_attr *attr)
{
    struct ibv_qp_init_attr init = {
        .qp_type = attr->type,
        .send_cq = program.cq,
        .recv_cq = program.cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
    };
    *p = (struct pair){.qp = ibv_create_qp(program.pd, &init), .peer_num = ++last_peer_num};
    assert_non_null(p->qp);
    struct ibv_qp_attr to = {
        .port_num = 1,
        .qkey = PAIR_QKEY,
        .qp_access_flags = (unsigned)attr->rights,
        .ah_attr = path_of(attr),
        .path_mtu = IBV_MTU_256,
        .dest_qp_num = p->peer_num,
        .rq_psn = PEER_PSN,
        .sq_psn = WEFT_PSN,
        .max_dest_rd_atomic = attr->depth,
        .max_rd_atomic = attr->depth,
        .min_rnr_timer = attr->min_rnr_timer,
        .timeout = attr->timeout,
        .retry_cnt = attr->retry_count,
        .rnr_retry = attr->rnr_retry,
    };
    for (enum ibv_qp_state state = IBV_QPS_INIT; state <= attr->state; state++) {
        to.qp_state = state;
        assert_int_equal(ibv_modify_qp(p->qp, &to, mask_of(attr->type, state)), 0);
    }
}

void pair_open(struct pair *p)
{
    const struct pair_attr usual = pair_usual();
    pair_open_as(p, &usual);
}

void pair_close(struct pair *p)
{
    struct ibv_wc wc;
    assert_int_equal(ibv_destroy_qp(p->qp), 0);
    while (ibv_poll_cq(program.cq, 1, &wc) > 0) { // of the next test's business none
    }
}

enum ibv_qp_state pair_state(struct pair *p)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(p->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* ---- what the peer says ---------------------------------------------------------------------- */

void say_from(struct pair *p, struct packet *packet, int fd, const struct sockaddr_in *from,
              uint32_t icrc_change)
{
    struct packet out = *packet;
    if (get_be24(out.octets + BTH_DEST_QP) == 0) {
        put_be24(out.octets + BTH_DEST_QP, p->qp->qp_num);
    }
    icrc_put(&out, icrc_of(&out, from, &ends.weft_at, 0) ^ icrc_change);
    assert_int_equal(
        sendto(fd, out.octets, out.len, 0, (struct sockaddr *)&ends.weft_at, sizeof ends.weft_at),
        (ssize_t)out.len);
}

int another_socket(const char *addr, struct sockaddr_in *ret_at)
{
    const int dont_fragment = IP_PMTUDISC_DO;
    socklen_t len = sizeof *ret_at;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *ret_at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(addr)};
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof dont_fragment);
    assert_int_equal(bind(fd, (struct sockaddr *)ret_at, sizeof *ret_at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_at, &len), 0);
    return fd;
}

void say(struct pair *p, struct packet *packet)
{
    say_from(p, packet, ends.fd, &ends.peer_at, 0);
}

void request(struct packet *packet, unsigned operation, unsigned n, const void *octets, size_t len)
{
    static const uint8_t zeros[4 * PMTU];
    packet_begin(packet, operation, peer_psn(n));
    packet->len = headers_len_of(packet);
    memset(packet->octets + BTH_LEN, 0, packet->len - BTH_LEN);
    packet_payload(packet, octets != NULL ? octets : zeros, len);
    packet_ask(packet);
}

void say_send(struct pair *p, unsigned n, const char *text)
{
    struct packet out;
    request(&out, SEND_ONLY, n, text, strlen(text));
    say(p, &out);
}

void say_write(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, const void *octets,
               size_t len)
{
    struct packet out;
    packet_begin(&out, WRITE_ONLY, peer_psn(n));
    packet_reth(&out, va, rkey, (uint32_t)len);
    packet_payload(&out, octets, len);
    packet_ask(&out);
    say(p, &out);
}

void say_read(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, uint32_t len)
{
    struct packet out;
    packet_begin(&out, READ_REQUEST, peer_psn(n));
    packet_reth(&out, va, rkey, len);
    packet_ask(&out);
    say(p, &out);
}

void say_add(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, uint64_t add)
{
    struct packet out;
    packet_begin(&out, FETCH_ADD, peer_psn(n));
    packet_atomiceth(&out, va, rkey, add, 0);
    packet_ask(&out);
    say(p, &out);
}

void say_ack(struct pair *p, unsigned n, uint8_t syndrome, uint32_t msn)
{
    struct packet out;
    packet_begin(&out, ACKNOWLEDGE, weft_psn(n));
    packet_aeth(&out, syndrome, msn);
    say(p, &out);
}

/* ---- what it hears --------------------------------------------------------------------------- */

// The packets of a burst are numbered from 0 by the kernel, a single one is 0.
static bool is_icrc_right(const struct packet *p, const struct sockaddr_in *from, uint32_t icrc)
{
    for (uint16_t id = 0; id < BURST_MAX; id++) {
        if (icrc_of(p, from, &ends.peer_at, id) == icrc) {
            return true;
        }
    }
    return false;
}

static void note_ip(struct packet *packet, struct msghdr *msg, const struct sockaddr_in *from)
{
    packet->source_port = ntohs(from->sin_port);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            packet->tos = *CMSG_DATA(c);
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) {
            packet->ttl = *CMSG_DATA(c);
        }
    }
}

static bool is_readable(int timeout_ms)
{
    struct pollfd readable = {.fd = ends.fd, .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

static void receive(struct packet *packet)
{
    struct sockaddr_in from;
    struct iovec octets = {packet->octets, sizeof packet->octets};
    _Alignas(struct cmsghdr) uint8_t control[128];
    struct msghdr msg = {.msg_name = &from,
                         .msg_namelen = sizeof from,
                         .msg_iov = &octets,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof control};
    assert_true(is_readable(PATIENCE_S * 1000));
    const ssize_t len = recvmsg(ends.fd, &msg, 0);
    assert_true(len >= BTH_LEN + ICRC_LEN);
    packet->len = (size_t)len - ICRC_LEN;
    const uint8_t *at = packet->octets + packet->len;
    const uint32_t icrc =
        (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    assert_true(is_icrc_right(packet, &from, icrc));
    note_ip(packet, &msg, &from);
}

// What was for the queue pair of an earlier test is none of this one's business.
static bool is_for(const struct pair *p, const struct packet *packet)
{
    return get_be24(packet->octets + BTH_DEST_QP) == p->peer_num;
}

void hear(struct pair *p, struct packet *packet)
{
    do {
        receive(packet);
    } while (!is_for(p, packet));
}

bool hear_if_any(struct pair *p, struct packet *packet)
{
    bool is_heard = false;
    while (!is_heard && is_readable(0)) {
        receive(packet);
        is_heard = is_for(p, packet);
    }
    return is_heard;
}

static void hear_answer(struct pair *p, struct packet *in, unsigned operation, unsigned n)
{
    hear(p, in);
    assert_int_equal(opcode_of(in), operation);
    assert_int_equal(psn_of(in), peer_psn(n));
}

void hear_ack(struct pair *p, unsigned n, uint32_t msn)
{
    struct packet in;
    hear_answer(p, &in, ACKNOWLEDGE, n);
    assert_int_equal(syndrome_of(&in) & SYNDROME_KIND, 0);
    assert_int_equal(msn_of(&in), msn);
    assert_int_equal(in.len, BTH_LEN + AETH_LEN);
}

void hear_nak(struct pair *p, unsigned n, uint8_t syndrome)
{
    struct packet in;
    hear_answer(p, &in, ACKNOWLEDGE, n);
    assert_int_equal(syndrome_of(&in), syndrome);
    assert_int_equal(in.len, BTH_LEN + AETH_LEN);
}

void hear_read(struct pair *p, unsigned n, const void *octets, size_t len)
{
    struct packet in;
    hear_answer(p, &in, READ_RESPONSE_ONLY, n);
    assert_int_equal(payload_len_of(&in), len);
    assert_memory_equal(payload_of(&in), octets, len);
}

void hear_atomic(struct pair *p, unsigned n, uint64_t original)
{
    struct packet in;
    hear_answer(p, &in, ATOMIC_ACKNOWLEDGE, n);
    assert_int_equal(in.len, BTH_LEN + AETH_LEN + 8);
    assert_true(get_be64(in.octets + BTH_LEN + AETH_LEN) == original);
}

void hear_request(struct pair *p, struct packet *packet, unsigned operation, unsigned n)
{
    do {
        hear(p, packet);
    } while (((weft_psn(n) - psn_of(packet)) & PSN_BITS) - 1 < PSN_BITS / 2);
    assert_int_equal(psn_of(packet), weft_psn(n));
    assert_int_equal(opcode_of(packet), operation);
}

void expect_withheld(struct pair *p, unsigned n, unsigned weft_n)
{
    struct packet in;
    say_write(p, n, 0, 0, NULL, 0);
    do {
        hear(p, &in);
        assert_true(opcode_of(&in) == ACKNOWLEDGE || psn_of(&in) != weft_psn(weft_n));
    } while (opcode_of(&in) != ACKNOWLEDGE);
}

void expect_silence(struct pair *p, unsigned n, uint32_t msn)
{
    post_receive(p, RECEIVE_LEN);
    say_send(p, n, "next");
    hear_ack(p, n, msn);
    assert_int_equal(poll_one().byte_len, 4); // and it was not taken for what came again
}

void expect_no_word(struct pair *p)
{
    struct pair other;
    struct packet in;
    pair_open(&other);
    say_write(&other, 0, 0, 0, NULL, 0);
    do {
        receive(&in);
        assert_int_not_equal(get_be24(in.octets + BTH_DEST_QP), p->peer_num);
    } while (get_be24(in.octets + BTH_DEST_QP) != other.peer_num);
    pair_close(&other);
}

/* ---- work ------------------------------------------------------------------------------------ */

void post_receive(struct pair *p, uint32_t len)
{
    const unsigned number = p->receive_count++;
    program_post_receive(p->qp, number, RECEIVES_AT + number % 16 * RECEIVE_LEN, len);
}

void post_receives(struct pair *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        post_receive(p, RECEIVE_LEN);
    }
}

void post_wr(struct pair *p, struct ibv_send_wr *wr)
{
    program_post_wr(p->qp, wr);
}

void post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len, uint64_t to)
{
    program_post(p->qp, opcode, offset, len, to);
}

void expect_status(enum ibv_wc_status status)
{
    const struct ibv_wc wc = poll_one();
    assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

void fill(uint8_t *octets, size_t len, uint8_t first)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(first + i * 3);
    }
}
