// One-shot RDMA between two ends that agreed on no marks in the header: the STag stands in the
// message, and Send with Invalidate closes it.
#include <errno.h>
#include <stdlib.h>

#include <weft/oneshot.h>

#include "tests/verbs/pair.h"

enum { BODY_LEN = 64, ARRIVED_AT = 1024, DATA_LEN = 3000, STAG_AT = 40 };

static const uint64_t reference = 0x1234;

// The reference little endian, as NVMe has its numbers.
static const struct weft_oneshot_attr attr = {
    .max_commands = 4,
    .max_memory = 2,
    .request = {.offset = 8, .length = 2, .flags = WEFT_ONESHOT_LITTLE_ENDIAN},
    .answer = {.offset = 16, .length = 4},
    .stag_offset = STAG_AT,
};

static struct pair pair;
static uint8_t data[DATA_LEN]; // registered nowhere
static const struct iovec list = {data, DATA_LEN};

static void open_with(const struct weft_oneshot_attr *with)
{
    pair_init(&pair);
    pair_connect(&pair);
    assert_int_equal(weft_oneshot_create(pair.a.qp, with), 0);
    assert_int_equal(weft_oneshot_create(pair.b.qp, with), 0);
    memset(data, 0, sizeof data);
}

static int setup(void **state)
{
    open_with(&attr);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static int post(struct pair *p, uint32_t body_len, uint32_t *ret_stag)
{
    struct weft_oneshot_wr *bad, wr = {
                                     .access = IBV_ACCESS_REMOTE_WRITE,
                                     .reference = reference,
                                     .memory = &list,
                                     .memory_count = 1,
                                     .body = bench_sge(&p->a, 0, body_len),
                                 };
    int error = weft_oneshot_post(p->a.qp, &wr, &bad);
    *ret_stag = wr.stag;
    return error;
}

// A command that has arrived; its STag as the target reads it.
static uint32_t deliver(struct pair *p, struct ibv_wc *ret_wc)
{
    uint32_t stag, told;
    uint64_t number;
    pair_post_recv(&p->b, 8, ARRIVED_AT, 256);
    memset(p->a.buf, 0x33, BODY_LEN);
    assert_int_equal(post(p, BODY_LEN, &stag), 0);
    *ret_wc = bench_poll(p->b.cq);
    assert_int_equal(ret_wc->status, IBV_WC_SUCCESS);
    assert_false(weft_wc_advertised(ret_wc, &told));
    assert_int_equal(weft_oneshot_request(p->b.qp, ret_wc, p->b.buf + ARRIVED_AT, &told, &number),
                     0);
    assert_int_equal(told, stag);
    assert_int_equal(number, reference);
    return stag;
}

static void nothing_is_agreed(void **state)
{
    struct pair *p = *state;
    assert_int_equal(weft_oneshot_agreed(p->a.qp), 0);
    assert_int_equal(weft_oneshot_agreed(p->b.qp), 0);
}

static void key_and_reference_stand_in_the_message(void **state)
{
    struct pair *p = *state;
    struct ibv_wc wc;
    const uint32_t stag = deliver(p, &wc);
    const uint8_t *arrived = p->b.buf + ARRIVED_AT;
    const uint8_t key[4] = {(uint8_t)(stag >> 24), (uint8_t)(stag >> 16), (uint8_t)(stag >> 8),
                            (uint8_t)stag};
    assert_memory_equal(arrived + STAG_AT, key, sizeof key);
    assert_int_equal(arrived[8], 0x34);
    assert_int_equal(arrived[9], 0x12);
    assert_int_equal(arrived[10], 0x33);
    assert_int_equal(arrived[STAG_AT - 1], 0x33);
    assert_int_equal(arrived[STAG_AT + 4], 0x33);
}

static void answer_closes_what_the_message_named(void **state)
{
    struct pair *p = *state;
    struct ibv_wc wc;
    const uint32_t stag = deliver(p, &wc);
    uint32_t closed;
    memset(p->b.buf, 0x55, 100);
    struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE,
                                .wr.rdma = {.remote_addr = 100, .rkey = stag}};
    pair_post_send(&p->b, write, bench_sge(&p->b, 0, 100));
    pair_post_recv(&p->a, 7, ARRIVED_AT, 256);
    struct weft_oneshot_close_wr *bad, answer = {
                                           .stag = stag,
                                           .reference = reference,
                                           .body = bench_sge(&p->b, 0, BODY_LEN),
                                       };
    assert_int_equal(weft_oneshot_close(p->b.qp, &answer, &bad), 0);
    wc = bench_poll(p->a.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_true(wc.wc_flags & IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, stag);
    assert_true(weft_wc_closed(&wc, &closed));
    assert_int_equal(data[99], 0);
    assert_int_equal(data[100], 0x55);
    assert_int_equal(weft_oneshot_revoke(p->a.qp, stag), EINVAL);
}

static void message_with_no_room_for_the_key_is_refused(void **state)
{
    struct pair *p = *state;
    uint32_t stag;
    assert_int_equal(post(p, STAG_AT + 3, &stag), EINVAL);
    pair_post_recv(&p->b, 8, ARRIVED_AT, 256);
    assert_int_equal(post(p, STAG_AT + 4, &stag), 0);
    bench_poll(p->b.cq);
}

// The target's looks at a message that is shorter than a command.
static void short_message_is_no_command(void **state)
{
    struct pair *p = *state;
    struct ibv_wc wc;
    uint32_t told;
    uint64_t number;
    deliver(p, &wc);
    wc.byte_len = STAG_AT + 4;
    assert_int_equal(weft_oneshot_request(p->b.qp, &wc, p->b.buf + ARRIVED_AT, &told, &number), 0);
    const uint32_t lengths[] = {0, 3, 9, STAG_AT + 3};
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        wc.byte_len = lengths[i];
        assert_int_equal(weft_oneshot_request(p->b.qp, &wc, p->b.buf + ARRIVED_AT, &told, &number),
                         ENOENT);
    }
}

static void without_a_place_for_the_key_nothing_is_posted(void **state)
{
    struct weft_oneshot_attr nowhere = attr;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .byte_len = BODY_LEN};
    uint32_t stag;
    uint64_t number;
    nowhere.stag_offset = WEFT_ONESHOT_NOWHERE;
    open_with(&nowhere);
    assert_int_equal(post(&pair, BODY_LEN, &stag), EOPNOTSUPP);
    assert_int_equal(weft_oneshot_request(pair.b.qp, &wc, pair.b.buf, &stag, &number), ENOENT);
    pair_fini(&pair);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_agreed),
        CASE(key_and_reference_stand_in_the_message),
        CASE(answer_closes_what_the_message_named),
        CASE(message_with_no_room_for_the_key_is_refused),
        CASE(short_message_is_no_command),
        cmocka_unit_test(without_a_place_for_the_key_nothing_is_posted),
    };
    setenv("WEFT_ONESHOT", "off", 1); // before the device is opened
    return cmocka_run_group_tests(tests, NULL, NULL);
}
