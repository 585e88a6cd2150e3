// Packets of the path MTU that are made as long as the first of their message, between weft ends.
#include "roce/packet.h"
#include "tests/roce/rc_end.h"
#include "wire/greeting.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234, MET = RC_END_PSN + RC_END_GREETINGS };

static const uint64_t remote = 0x100000;

// BTH to pad, as it left.
static size_t left_len(struct rc_end *e, uint8_t operation, uint32_t psn)
{
    return rc_end_left(e, operation, psn)->len;
}

static void packets_of_a_write_are_as_long_as_the_first(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_meet(e);
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 3 * PMTU, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, PMTU + 4, remote, REMOTE_KEY);
    size_t len = BTH_LEN + RETH_LEN + PMTU;
    assert_int_equal(left_len(e, ROCE_WRITE_FIRST, RC_END_PSN), len);
    assert_int_equal(left_len(e, ROCE_WRITE_MIDDLE, RC_END_PSN + 1), len);
    assert_int_equal(left_len(e, ROCE_WRITE_LAST, RC_END_PSN + 2), len);
    assert_int_equal(left_len(e, ROCE_WRITE_FIRST, RC_END_PSN + 3), len);
    assert_int_equal(left_len(e, ROCE_WRITE_LAST, RC_END_PSN + 4), BTH_LEN + 4);
    rc_end_close(e);
}

static void packets_of_an_answer_are_as_long_as_the_first(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_meet(e);
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, MET);
    p.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = 3 * PMTU};
    rc_end_take(e, &p, "", 0);
    size_t len = BTH_LEN + AETH_LEN + PMTU;
    assert_int_equal(left_len(e, ROCE_READ_RESPONSE_FIRST, MET), len);
    assert_int_equal(left_len(e, ROCE_READ_RESPONSE_MIDDLE, MET + 1), len);
    assert_int_equal(left_len(e, ROCE_READ_RESPONSE_LAST, MET + 2), len);
    rc_end_close(e);
}

static void strangers_get_what_infiniband_says(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_RDMA_WRITE, 0, 3 * PMTU, remote, REMOTE_KEY);
    assert_int_equal(left_len(e, ROCE_WRITE_FIRST, RC_END_PSN), BTH_LEN + RETH_LEN + PMTU);
    assert_int_equal(left_len(e, ROCE_WRITE_MIDDLE, RC_END_PSN + 1), BTH_LEN + PMTU);
    assert_int_equal(left_len(e, ROCE_WRITE_LAST, RC_END_PSN + 2), BTH_LEN + PMTU);
    rc_end_close(e);
}

// A Write of two packets, the second of which has so much payload.
static void take_write(struct rc_end *e, uint32_t psn, size_t second_len)
{
    uint8_t payload[2 * PMTU];
    struct roce_packet first = rc_end_make(ROCE_WRITE_FIRST, psn);
    struct roce_packet last = rc_end_make(ROCE_WRITE_LAST, psn + 1);
    memset(payload, 0x5a, sizeof payload);
    first.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = 2 * PMTU};
    last.bth.ack_req = true;
    rc_end_take(e, &first, payload, PMTU);
    rc_end_take(e, &last, payload, second_len);
}

static void what_stands_behind_the_payload_is_not_placed(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_meet(e);
    take_write(e, MET, PMTU + RETH_LEN);
    rc_end_left_ack(e, MET + 1, AETH_SYNDROME_ACK);
    assert_int_equal(e->memory[2 * PMTU - 1], 0x5a);
    assert_int_equal(e->memory[2 * PMTU], 0);
    rc_end_close(e);
}

static void a_payload_that_is_longer_by_something_else_is_refused(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_meet(e);
    take_write(e, MET, PMTU + RETH_LEN - 4);
    assert_int_equal(rc_end_counters(e)->refusals[RC_REFUSED_LENGTH], 1);
    rc_end_close(e);
}

static void a_payload_of_strangers_that_is_as_long_is_refused(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    take_write(e, RC_END_PSN, PMTU + RETH_LEN);
    assert_int_equal(rc_end_counters(e)->refusals[RC_REFUSED_LENGTH], 1);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_a_write_are_as_long_as_the_first),
        cmocka_unit_test(packets_of_an_answer_are_as_long_as_the_first),
        cmocka_unit_test(strangers_get_what_infiniband_says),
        cmocka_unit_test(what_stands_behind_the_payload_is_not_placed),
        cmocka_unit_test(a_payload_that_is_longer_by_something_else_is_refused),
        cmocka_unit_test(a_payload_of_strangers_that_is_as_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
