// A peer that is no rsocket but speaks as one, and means harm.

#include <malloc.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rsocket/pair.h"
#include "tests/verbs/roce.h"

enum {
    HELLO_LEN = 40,
    LIST_ENTRIES = 2,
    CREDITS = 64,
    DATA_SHIFT = 29,
    CM_TIMEOUT_MS = 2000,
    RETRIES = 7
};

struct stranger {
    struct sockaddr_in addr;
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t places[64]; // where the socket may write what it has read
    int result;
};

// As rsocket/wire.c has it: version 1, credits, and a list of places.
static void hello_fill(const struct stranger *s, uint8_t hello[HELLO_LEN])
{
    const uint64_t addr = htobe64((uintptr_t)s->places);
    const uint32_t key = htobe32(s->mr->rkey), entries = htobe32(LIST_ENTRIES);
    memset(hello, 0, HELLO_LEN);
    hello[0] = 1;
    hello[1] = BYTE_ORDER == BIG_ENDIAN;
    hello[3] = CREDITS;
    memcpy(hello + 8, &addr, sizeof addr);
    memcpy(hello + 16, &key, sizeof key);
    memcpy(hello + 20, &entries, sizeof entries);
}

static void *stranger_connect(void *ctx)
{
    struct stranger *s = ctx;
    uint8_t hello[HELLO_LEN];
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1,
                                    .cap = {.max_send_wr = 8,
                                            .max_recv_wr = 8,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 4}};
    struct rdma_conn_param param = {.private_data = hello,
                                    .private_data_len = sizeof hello,
                                    .initiator_depth = 1,
                                    .responder_resources = 1,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = RETRIES};
    s->result = -1;
    if (rdma_create_id(NULL, &s->id, NULL, RDMA_PS_TCP) == 0 &&
        rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&s->addr, CM_TIMEOUT_MS) == 0 &&
        rdma_resolve_route(s->id, CM_TIMEOUT_MS) == 0 && rdma_create_qp(s->id, NULL, &attr) == 0) {
        s->mr = rdma_reg_write(s->id, s->places, sizeof s->places);
        hello_fill(s, hello);
        s->result = rdma_connect(s->id, &param);
    }
    return NULL;
}

// The socket that such a peer is connected to. Its memory is what others left in the heap.
static int stranger_open(struct stranger *s, int *ret_listener)
{
    pthread_t thread;
    *ret_listener = listener_open(&s->addr);
    assert_int_equal(pthread_create(&thread, NULL, stranger_connect, s), 0);
    mallopt(M_PERTURB, 0x5a);
    int fd = raccept(*ret_listener, NULL, NULL);
    mallopt(M_PERTURB, 0);
    pthread_join(thread, NULL);
    assert_int_equal(s->result, 0);
    assert_true(fd >= 0);
    return fd;
}

// The socket ends first, having waited so long for its last words: the stranger has no receive for
// them.
static void stranger_close(struct stranger *s, int fd, int listener, int linger_s)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = linger_s};
    assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    assert_int_equal(rclose(fd), 0);
    rclose(listener);
    rdma_destroy_qp(s->id);
    ibv_dereg_mr(s->mr);
    rdma_destroy_id(s->id);
}

// Says that so many octets were written, and has written none.
static void tell_of_data(struct stranger *s, uint32_t len)
{
    uint32_t message = len;
    struct ibv_wc wc;
    assert_int_equal(rdma_post_send(s->id, NULL, &message, sizeof message, NULL, IBV_SEND_INLINE),
                     0);
    assert_int_equal(rdma_get_send_comp(s->id, &wc), 1);
}

static void octets_that_never_came_are_zeroes(void **state)
{
    static const uint8_t zeroes[4096];
    static uint8_t data[sizeof zeroes];
    struct stranger s = {0};
    int listener, fd = stranger_open(&s, &listener);
    memset(data, 1, sizeof data);
    tell_of_data(&s, sizeof data);
    assert_int_equal(rrecv(fd, data, sizeof data, MSG_WAITALL), sizeof data);
    assert_memory_equal(data, zeroes, sizeof data);
    stranger_close(&s, fd, listener, 0);
}

static void more_octets_than_there_is_room_for_end_the_connection(void **state)
{
    struct stranger s = {0};
    uint8_t octet;
    int listener, fd = stranger_open(&s, &listener);
    tell_of_data(&s, (1U << DATA_SHIFT) - 1);
    assert_int_equal(rrecv(fd, &octet, 1, 0), -1);
    assert_int_equal(errno, EPROTO);
    stranger_close(&s, fd, listener, 0);
}

/* ---- who sends without end ------------------------------------------------------------------- */

enum { NEVER_ENDING = 100000, WR_OF_NOBODY = 3 };

static int (*real_poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int flood_left;

// What the queue lacks is filled up with completions that move nothing, as a peer's are that says
// the same again and again.
static int flooded_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int has = real_poll_cq(cq, count, wc);
    for (; has >= 0 && has < count && flood_left > 0; has++, flood_left--) {
        wc[has] = (struct ibv_wc){.wr_id = (uint64_t)WR_OF_NOBODY << 32};
    }
    return has;
}

static void a_call_that_does_not_wait_comes_back_from_a_flood(void **state)
{
    struct stranger s = {0};
    uint8_t octet;
    int listener, fd = stranger_open(&s, &listener);
    struct ibv_context *device = s.id->verbs;
    real_poll_cq = device->ops.poll_cq;
    flood_left = NEVER_ENDING;
    device->ops.poll_cq = flooded_poll_cq;
    assert_int_equal(rrecv(fd, &octet, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(flood_left > NEVER_ENDING / 2);
    flood_left = 0;
    device->ops.poll_cq = real_poll_cq;
    stranger_close(&s, fd, listener, 0);
}

// A part of the flood that no event tells of is not slept upon.
static void what_a_look_has_left_is_looked_at_before_a_sleep(void **state)
{
    struct stranger s = {0};
    uint8_t octet;
    int listener, fd = stranger_open(&s, &listener);
    struct ibv_context *device = s.id->verbs;
    real_poll_cq = device->ops.poll_cq;
    flood_left = NEVER_ENDING;
    tell_of_data(&s, 1);
    device->ops.poll_cq = flooded_poll_cq;
    assert_int_equal(rrecv(fd, &octet, 1, 0), 1);
    device->ops.poll_cq = real_poll_cq;
    stranger_close(&s, fd, listener, 0);
}

/* ---- who takes nothing ----------------------------------------------------------------------- */

// Without a bound the socket waits for ever.
static void a_peer_that_takes_nothing_is_waited_for_as_long_as_said(void **state)
{
    struct stranger s = {0};
    int listener, fd = stranger_open(&s, &listener);
    stranger_close(&s, fd, listener, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) { // a variant: the other device
        roce_port_of_own();
        setenv("WEFT_WIRE", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_that_never_came_are_zeroes),
        cmocka_unit_test(more_octets_than_there_is_room_for_end_the_connection),
        cmocka_unit_test(a_call_that_does_not_wait_comes_back_from_a_flood),
        cmocka_unit_test(what_a_look_has_left_is_looked_at_before_a_sleep),
        cmocka_unit_test(a_peer_that_takes_nothing_is_waited_for_as_long_as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
