// A program's loop drives the RNIC, and what becomes of what it leaves.
#include <errno.h>
#include <poll.h>
#include <time.h>

#include <weft/drive.h>

#include "base/time.h"
#include "tests/verbs/pair.h"
#include "tests/verbs/roce.h"

enum { LEN = 64, MESSAGES = 200, SOME_MESSAGES = 10, PATIENCE_MS = 20000, SPIN_MS = 10 };

static struct pair pair;

static int setup(void **state)
{
    pair_init(&pair);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static int begin(struct bench *b)
{
    int fd = weft_drive_begin(b->channel);
    assert_true(fd >= 0);
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
    return fd;
}

// A message from a to b, of which only b hears.
static void send_one(struct pair *p)
{
    struct ibv_sge sge = bench_sge(&p->a, 0, LEN);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    pair_post_recv(&p->b, 1, 0, LEN);
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
}

static void expect_event_of(struct bench *b, struct ibv_cq *cq, const void *context)
{
    assert_ptr_equal(cq, b->cq);
    assert_ptr_equal(context, b);
    ibv_ack_cq_events(cq, 1);
}

// Turns of a loop until there is an event. True: a pass of it has brought that.
static bool loop_has_event(struct bench *b, int fd)
{
    struct ibv_cq *cq;
    void *context;
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = b->channel->fd, .events = POLLIN}};
    while (weft_drive_event(b->channel, &cq, &context) != 0) {
        assert_int_equal(errno, EAGAIN);
        if (weft_drive_may_wait(b->channel)) {
            assert_true(poll(fds, 2, PATIENCE_MS) > 0);
        }
        if ((fds[1].revents & POLLIN) != 0) {
            assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
            expect_event_of(b, cq, context);
            return false;
        }
        weft_drive_pass(b->channel);
    }
    expect_event_of(b, cq, context);
    return true;
}

// Now and then it is the thread, where this one was kept from its processor for long.
static void a_loop_that_drives_has_its_events_without_the_channel(void **state)
{
    struct pair *p = *state;
    unsigned own_count = 0;
    int fd = begin(&p->b);
    for (unsigned i = 0; i < MESSAGES; i++) {
        send_one(p);
        own_count += loop_has_event(&p->b, fd);
        assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
        assert_int_equal(ibv_req_notify_cq(p->b.cq, 0), 0);
    }
    assert_true(own_count > MESSAGES / 10);
    assert_false(is_readable(p->b.channel->fd, 0));
    weft_drive_end(p->b.channel);
}

static void fall_asleep(struct bench *b)
{
    while (!weft_drive_may_wait(b->channel)) {
        weft_drive_pass(b->channel);
    }
}

// What comes while the loop is awake for something else makes the descriptor readable in the end,
// but is found before, where that costs no system call.
static void a_loop_that_was_woken_elsewhere_finds_what_has_come(void **state)
{
    struct pair *p = *state;
    int fd = begin(&p->b);
    for (unsigned i = 0; i < SOME_MESSAGES; i++) {
        fall_asleep(&p->b);
        weft_drive_rise(p->b.channel);
        weft_drive_pass(p->b.channel);
        send_one(p);
        weft_drive_rise(p->b.channel);
        weft_drive_pass(p->b.channel);
        loop_has_event(&p->b, fd);
        assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
        assert_int_equal(ibv_req_notify_cq(p->b.cq, 0), 0);
    }
    weft_drive_end(p->b.channel);
}

static void take_by_channel(struct bench *b)
{
    struct ibv_cq *cq;
    void *context;
    assert_true(is_readable(b->channel->fd, PATIENCE_MS));
    assert_int_equal(ibv_get_cq_event(b->channel, &cq, &context), 0);
    expect_event_of(b, cq, context);
    assert_int_equal(bench_poll(b->cq).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_req_notify_cq(b->cq, 0), 0);
}

static void a_loop_that_does_not_wake_up_is_stood_in_for(void **state)
{
    struct pair *p = *state;
    begin(&p->b);
    fall_asleep(&p->b);
    for (unsigned i = 0; i < SOME_MESSAGES; i++) {
        send_one(p);
        take_by_channel(&p->b);
    }
    weft_drive_end(p->b.channel);
}

static void a_loop_that_never_waits_is_stood_in_for(void **state)
{
    struct pair *p = *state;
    begin(&p->b);
    weft_drive_pass(p->b.channel);
    send_one(p);
    take_by_channel(&p->b);
    weft_drive_end(p->b.channel);
}

static void events_of_other_channels_come_as_ever(void **state)
{
    struct pair *p = *state;
    begin(&p->a);
    assert_int_equal(ibv_req_notify_cq(p->b.cq, 0), 0);
    for (unsigned i = 0; i < SOME_MESSAGES; i++) {
        send_one(p);
        weft_drive_pass(p->a.channel);
        take_by_channel(&p->b);
    }
    weft_drive_end(p->a.channel);
}

static void what_was_told_is_raised_at_the_end(void **state)
{
    struct pair *p = *state;
    struct ibv_cq *cq;
    void *context;
    struct ibv_wc wc;
    begin(&p->b);
    send_one(p);
    do {
        weft_drive_pass(p->b.channel);
    } while (ibv_poll_cq(p->b.cq, 1, &wc) == 0);
    weft_drive_end(p->b.channel);
    assert_true(is_readable(p->b.channel->fd, PATIENCE_MS));
    assert_int_equal(ibv_get_cq_event(p->b.channel, &cq, &context), 0);
    expect_event_of(&p->b, cq, context);
}

// The loop sleeps without a time-out: what is due is the thread's.
static void a_deadline_is_kept_while_the_loop_sleeps(void **state)
{
    struct pair *p = *state;
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                      .moderate = {.cq_count = 8, .cq_period = 50000}};
    assert_int_equal(ibv_modify_cq(p->b.cq, &attr), 0);
    begin(&p->b);
    send_one(p);
    fall_asleep(&p->b);
    assert_true(is_readable(p->b.channel->fd, PATIENCE_MS));
    weft_drive_end(p->b.channel);
}

static unsigned yield_count;

int sched_yield(void) // before libc's
{
    yield_count++;
    return 0;
}

static instant_ns now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

// Polls an empty queue for so long. True: it has given its processor away, as who spins does.
static bool yields_within(struct bench *b, duration_ns limit_ns, bool drives)
{
    struct ibv_wc wc;
    const instant_ns until = instant_after(now_ns(), limit_ns);
    yield_count = 0;
    while (yield_count == 0 && now_ns() < until) {
        if (drives) {
            weft_drive_pass(b->channel);
        }
        assert_int_equal(ibv_poll_cq(b->cq, 1, &wc), 0);
    }
    return yield_count > 0;
}

// It sleeps where there is nothing to do: nobody waits for its processor.
static void who_drives_gives_no_processor_away_between_looks(void **state)
{
    struct bench *b = &((struct pair *)*state)->b;
    assert_true(yields_within(b, PATIENCE_MS * NS_PER_MS, false));
    begin(b);
    assert_false(yields_within(b, SPIN_MS * NS_PER_MS, true));
}

static void a_channel_drives_once(void **state)
{
    struct pair *p = *state;
    begin(&p->a);
    assert_int_equal(weft_drive_begin(p->a.channel), -1);
    assert_int_equal(errno, EBUSY);
    weft_drive_end(p->a.channel);
    assert_true(weft_drive_begin(p->a.channel) >= 0); // until it is destroyed
}

static void roce_has_no_descriptor_to_drive_by(void **state)
{
    struct ibv_context *context = roce_open();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    assert_int_equal(weft_drive_begin(channel), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_program_finds_the_calls(void **state)
{
    struct weft_drive_calls calls;
    assert_true(weft_drive_find(&calls));
    assert_ptr_equal(calls.may_wait, weft_drive_may_wait);
}

int main(void)
{
    roce_port_of_own();
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_loop_that_drives_has_its_events_without_the_channel),
        TEST(a_loop_that_was_woken_elsewhere_finds_what_has_come),
        TEST(a_loop_that_does_not_wake_up_is_stood_in_for),
        TEST(a_loop_that_never_waits_is_stood_in_for),
        TEST(events_of_other_channels_come_as_ever),
        TEST(what_was_told_is_raised_at_the_end),
        TEST(a_deadline_is_kept_while_the_loop_sleeps),
        TEST(who_drives_gives_no_processor_away_between_looks),
        TEST(who_drives_gives_no_processor_away_between_looks),
        TEST(a_channel_drives_once),
        cmocka_unit_test(roce_has_no_descriptor_to_drive_by),
        cmocka_unit_test(a_program_finds_the_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
