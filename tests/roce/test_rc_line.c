// Eight reliable connections share a line whose queue holds a bandwidth-delay product.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/roce/line.h"

enum { RTT_US = 100, QUEUE_LEN = LINE_RATE / 1000000 * RTT_US };

static void open_eight(struct line_config config)
{
    config.flows = 8;
    config.rtt_ns = RTT_US * NS_PER_US;
    config.queue_len = QUEUE_LEN;
    open_line(&config);
}

static void writes_share_the_line(void **state)
{
    open_eight((struct line_config){0});
    const struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    assert_int_equal(o.failed, 0);
    assert_true(o.goodput > 0.8);
    assert_true(o.jain > 0.9);
    close_line();
}

// Their answers are what fills it.
static void reads_share_the_line(void **state)
{
    open_eight((struct line_config){0});
    const struct outcome o = measure(line.far, WQE_RDMA_READ);
    assert_int_equal(o.failed, 0);
    assert_true(o.goodput > 0.85);
    assert_true(o.jain > 0.9);
    close_line();
}

static void marks_keep_the_queue_from_being_full(void **state)
{
    open_eight((struct line_config){.mark_len = QUEUE_LEN / 4});
    const struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    assert_int_equal(o.failed, 0);
    assert_true(o.goodput > 0.8);
    assert_true(datagram_net_marks(line.net) > 0);
    assert_int_equal(datagram_net_overflows(line.net), 0);
    close_line();
}

static void incast_of_thirty_two_carries_on(void **state)
{
    const struct line_config config = {
        .flows = 32, .rtt_ns = RTT_US * NS_PER_US, .queue_len = QUEUE_LEN};
    open_line(&config);
    const struct outcome o = measure(line.near, WQE_RDMA_WRITE);
    assert_int_equal(o.failed, 0); // no retry count is exceeded
    assert_true(o.goodput >= 0.7);
    close_line();
}

static double goodput(enum wqe_opcode opcode, unsigned loss, bool is_plain)
{
    open_eight((struct line_config){.loss = loss, .is_plain = is_plain});
    const struct outcome o = measure(opcode == WQE_RDMA_READ ? line.far : line.near, opcode);
    close_line();
    return o.goodput;
}

// Between weft ends only what is lost leaves again.
static void expect_more(enum wqe_opcode opcode, unsigned loss, double least, double times)
{
    double to_stranger = goodput(opcode, loss, true), to_weft = goodput(opcode, loss, false);
    assert_true(to_weft > least);
    assert_true(to_weft > times * to_stranger);
}

static void losses_cost_strangers_more(void **state)
{
    expect_more(WQE_RDMA_WRITE, 10, 0.92, 1.1);
    expect_more(WQE_RDMA_WRITE, 50, 0.4, 1.5);
    expect_more(WQE_RDMA_READ, 10, 0.9, 1.1);
    expect_more(WQE_RDMA_READ, 50, 0.4, 1.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_share_the_line),
        cmocka_unit_test(reads_share_the_line),
        cmocka_unit_test(marks_keep_the_queue_from_being_full),
        cmocka_unit_test(incast_of_thirty_two_carries_on),
        cmocka_unit_test(losses_cost_strangers_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
