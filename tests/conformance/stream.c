#include "tests/conformance/stream.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 60, DEPTH = 64 };

enum role responds = WEFT_RESPONDS, initiates = WEFT_INITIATES;

/* ---- the program ----------------------------------------------------------------------------- */

int program_setup(void **state)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    assert_non_null(devices);
    assert_non_null(devices[0]);
    ibv_free_device_list(devices);
    struct rdma_cm_id *id;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in any = {.sin_family = AF_INET};
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    const char *own = getenv("WEFT_TEST_ADDR");
    any.sin_addr.s_addr = own != NULL ? inet_addr(own) : htonl(INADDR_LOOPBACK);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
    program_open(id->verbs, NULL, 4 * DEPTH, MEMORY_LEN);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
    return 0;
}

int program_teardown(void **state)
{
    program_close();
    return 0;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static struct sockaddr_in address(const char *variable, uint16_t port)
{
    const char *text = getenv(variable);
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = port,
        .sin_addr.s_addr = text != NULL ? inet_addr(text) : htonl(INADDR_LOOPBACK),
    };
}

int peer_segment_len;

static void options_set(int fd)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    if (peer_segment_len > 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &peer_segment_len, sizeof peer_segment_len);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

int peer_listen(uint16_t *ret_port)
{
    struct sockaddr_in addr = address("WEFT_TEST_PEER_ADDR", 0);
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    options_set(fd);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *ret_port = addr.sin_port;
    return fd;
}

static int peer_connect(uint16_t port)
{
    struct sockaddr_in to = address("WEFT_TEST_ADDR", port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    options_set(fd);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

struct rdma_cm_event *stream_event(struct stream *s, enum rdma_cm_event_type type)
{
    struct pollfd readable = {.fd = s->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    assert_int_equal(poll(&readable, 1, PATIENCE_S * 1000), 1);
    assert_int_equal(rdma_get_cm_event(s->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

void stream_expect_event(struct stream *s, enum rdma_cm_event_type type)
{
    rdma_ack_cm_event(stream_event(s, type));
}

static void qp_open(struct stream *s)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = program.cq,
        .recv_cq = program.cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(s->id, program.pd, &attr), 0);
}

static const struct rdma_conn_param usual_param = {.responder_resources = 4, .initiator_depth = 4};

static void begin_connecting(struct stream *s)
{
    struct rdma_conn_param param = usual_param;
    uint16_t port;
    s->listen_fd = peer_listen(&port);
    struct sockaddr_in to = address("WEFT_TEST_PEER_ADDR", port);
    assert_int_equal(rdma_create_id(s->channel, &s->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&to, PATIENCE_S * 1000), 0);
    stream_expect_event(s, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(s->id, PATIENCE_S * 1000), 0);
    stream_expect_event(s, RDMA_CM_EVENT_ROUTE_RESOLVED);
    qp_open(s);
    assert_int_equal(rdma_connect(s->id, &param), 0);
    s->fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s->fd >= 0);
    options_set(s->fd);
}

static void receive_frame(struct stream *s)
{
    peer_receive(s, s->frame, FRAME_HEADER_LEN);
    peer_receive(s, s->frame + FRAME_HEADER_LEN, get_be16(s->frame + FRAME_OFF_PD_LEN));
}

void stream_begin(struct stream *s, enum role role)
{
    memset(s, 0, sizeof *s);
    s->role = role;
    s->fd = s->listen_fd = -1;
    s->channel = rdma_create_event_channel();
    assert_non_null(s->channel);
    if (role == WEFT_INITIATES) {
        begin_connecting(s);
        receive_frame(s);
        return;
    }
    struct sockaddr_in own = address("WEFT_TEST_ADDR", 0);
    assert_int_equal(rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(s->listener, (struct sockaddr *)&own), 0);
    assert_int_equal(rdma_listen(s->listener, 0), 0);
    s->fd = peer_connect(rdma_get_src_port(s->listener));
}

void stream_ask(struct stream *s, const struct startup *request)
{
    uint8_t frame[FRAME_MAX_LEN];
    peer_send(s, frame, frame_put(frame, request));
    struct rdma_cm_event *event = stream_event(s, RDMA_CM_EVENT_CONNECT_REQUEST);
    s->id = event->id;
    rdma_ack_cm_event(event);
}

void stream_accept(struct stream *s, unsigned receive_count)
{
    struct rdma_conn_param param = usual_param;
    qp_open(s);
    for (unsigned i = 0; i < receive_count; i++) {
        post_receive(s, RECEIVE_LEN);
    }
    assert_int_equal(rdma_accept(s->id, &param), 0);
    receive_frame(s);
}

void stream_answer(struct stream *s, const struct startup *reply)
{
    uint8_t frame[FRAME_MAX_LEN];
    peer_send(s, frame, frame_put(frame, reply));
}

void stream_open_as(struct stream *s, void **state, unsigned receive_count,
                    const struct startup *from_peer)
{
    static struct ulpdu first;
    stream_begin(s, *(enum role *)*state);
    if (s->role == WEFT_RESPONDS) {
        stream_ask(s, from_peer);
        stream_accept(s, receive_count);
        stream_expect_event(s, RDMA_CM_EVENT_ESTABLISHED);
        tagged(&first, OP_WRITE, 0, 0, true, NULL, 0);
        peer_say(s, &first);
        return;
    }
    for (unsigned i = 0; i < receive_count; i++) {
        post_receive(s, RECEIVE_LEN);
    }
    stream_answer(s, from_peer);
    stream_expect_event(s, RDMA_CM_EVENT_ESTABLISHED);
}

void stream_open(struct stream *s, void **state, unsigned receive_count)
{
    struct startup usual = startup_usual(*(enum role *)*state == WEFT_INITIATES);
    stream_open_as(s, state, receive_count, &usual);
}

void stream_disconnect(struct stream *s)
{
    assert_int_equal(rdma_disconnect(s->id), 0);
}

void stream_close(struct stream *s)
{
    struct ibv_wc wc;
    if (s->id != NULL) {
        if (s->id->qp != NULL) {
            rdma_destroy_qp(s->id);
        }
        assert_int_equal(rdma_destroy_id(s->id), 0);
    }
    if (s->listener != NULL) {
        assert_int_equal(rdma_destroy_id(s->listener), 0);
    }
    rdma_destroy_event_channel(s->channel);
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->listen_fd >= 0) {
        close(s->listen_fd);
    }
    while (ibv_poll_cq(program.cq, 1, &wc) > 0) { // of the next test's business none
    }
}

/* ---- the peer -------------------------------------------------------------------------------- */

void peer_send(struct stream *s, const void *octets, size_t len)
{
    const uint8_t *from = octets;
    while (len > 0) {
        ssize_t sent = send(s->fd, from, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return; // weft may have closed
        }
        from += sent;
        len -= (size_t)sent;
    }
}

void peer_say(struct stream *s, const struct ulpdu *u)
{
    static uint8_t fpdu[ULPDU_MAX_LEN + 16];
    peer_send(s, fpdu, fpdu_put(fpdu, u->octets, u->len));
}

static bool receive(int fd, void *octets, size_t len)
{
    return len == 0 || recv(fd, octets, len, MSG_WAITALL) == (ssize_t)len;
}

void peer_receive(struct stream *s, void *octets, size_t len)
{
    assert_true(receive(s->fd, octets, len));
}

bool peer_hear(struct stream *s, struct ulpdu *u)
{
    static uint8_t fpdu[ULPDU_MAX_LEN + 16];
    if (!receive(s->fd, fpdu, 2)) {
        return false;
    }
    u->len = get_be16(fpdu);
    size_t len = fpdu_len_of(u->len);
    peer_receive(s, fpdu + 2, len - 2);
    for (size_t i = 2 + u->len; i < len - 4; i++) {
        assert_int_equal(fpdu[i], 0); // the pad: RFC 5044 section 4.1
    }
    uint32_t crc = crc_of(fpdu, len - 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(fpdu[len - 4 + i], (uint8_t)(crc >> (8 * i)));
    }
    memcpy(u->octets, fpdu + 2, u->len);
    return true;
}

void peer_hear_opcode(struct stream *s, struct ulpdu *u, enum opcode opcode)
{
    assert_true(peer_hear(s, u));
    assert_int_equal(opcode_of(u), opcode);
}

bool peer_hears_nothing(struct stream *s)
{
    struct pollfd readable = {.fd = s->fd, .events = POLLIN};
    return poll(&readable, 1, QUIET_MS) == 0;
}

void peer_finish(struct stream *s)
{
    shutdown(s->fd, SHUT_WR);
}

void peer_reset(struct stream *s)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(s->fd);
    s->fd = -1;
}

void peer_expect_end(struct stream *s)
{
    uint8_t octet;
    assert_true(recv(s->fd, &octet, 1, 0) <= 0);
}

void peer_expect_terminate(struct stream *s, unsigned layer, unsigned etype, unsigned code)
{
    static struct ulpdu u;
    do {
        assert_true(peer_hear(s, &u));
    } while (opcode_of(&u) != OP_TERMINATE);
    assert_int_equal(get_be32(u.octets + OFF_QN), 2); // RFC 5040 section 4.8
    assert_int_equal(get_be32(u.octets + OFF_MSN), 1);
    assert_true(is_last(&u));
    const uint8_t *control = u.octets + UNTAGGED_LEN;
    char got[16], expected[16];
    snprintf(got, sizeof got, "%x/%x/%02x", control[0] >> 4, control[0] & 15, control[1]);
    snprintf(expected, sizeof expected, "%x/%x/%02x", layer, etype, code);
    assert_string_equal(got, expected);
    peer_expect_end(s);
}

void expect_refusal(void **state, const struct ulpdu *u, unsigned layer, unsigned etype,
                    unsigned code)
{
    struct stream s;
    stream_open(&s, state, 1);
    peer_say(&s, u);
    peer_expect_terminate(&s, layer, etype, code);
    stream_close(&s);
}

/* ---- work ------------------------------------------------------------------------------------ */

void post_receive(struct stream *s, uint32_t len)
{
    const unsigned number = s->receive_count++;
    program_post_receive(s->id->qp, number, RECEIVES_AT + number % 16 * RECEIVE_LEN, len);
}

void post(struct stream *s, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len, uint64_t to)
{
    program_post(s->id->qp, opcode, offset, len, to);
}

bool polls_nothing(void)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < QUIET_MS; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        if (ibv_poll_cq(program.cq, 1, &wc) > 0) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}
