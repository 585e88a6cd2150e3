// A wrapper of links that does nothing itself: every operation reaches the link behind it, with the
// inner stream in place of the wrapper's, and what that one answers reaches the user.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/link_forward.h"
#include "link/link_none.h"

enum { ANSWER = -77, EMSS = 1234, UNSETTLED = 4321, DEADLINE_NS = 5000 };

static struct inner {
    struct link link;
    const char *called; // the operation that came last
    const void *whose;  // link or stream
    const void *argument;
    uint64_t number;
} inner;

static struct link_stream inner_stream;
static struct link_forward wrapper;
static struct link_forward_stream stream;
static struct sockaddr_storage addr;
static int ready_count;

static int note(const char *called, const void *whose, const void *argument, uint64_t number)
{
    inner.called = called;
    inner.whose = whose;
    inner.argument = argument;
    inner.number = number;
    return ANSWER;
}

static int on_listen(struct link_stream *s, int backlog)
{
    return note("listen", s, NULL, (uint64_t)backlog);
}

static int on_connect(struct link_stream *s, const struct sockaddr *peer)
{
    return note("connect", s, peer, 0);
}

static uint64_t on_unsettled(struct link_stream *s)
{
    note("unsettled", s, NULL, 0);
    return UNSETTLED;
}

static void on_want_out(struct link_stream *s, bool wanted)
{
    note("want_out", s, NULL, wanted);
}

static void on_want_in(struct link_stream *s, bool wanted)
{
    note("want_in", s, NULL, wanted);
}

static int on_local_addr(const struct link_stream *s, struct sockaddr_storage *ret)
{
    return note("local_addr", s, ret, 0);
}

static int on_peer_addr(const struct link_stream *s, struct sockaddr_storage *ret)
{
    return note("peer_addr", s, ret, 0);
}

static uint32_t on_emss(const struct link_stream *s)
{
    note("emss", s, NULL, 0);
    return EMSS;
}

static int on_set_tos(struct link_stream *s, uint8_t tos)
{
    return note("set_tos", s, NULL, tos);
}

static int on_route(struct link *l, const struct sockaddr *peer, struct sockaddr_storage *ret)
{
    note("route", l, peer, ret == &addr);
    return ANSWER;
}

static int on_poll(struct link *l, struct link_ready *ret, unsigned max)
{
    static struct link_stream closed; // whose owner is gone
    note("poll", l, ret, max);
    if (ready_count > 0) {
        ret[0] = (struct link_ready){&closed, LINK_READY_IN};
        ret[1] = (struct link_ready){&inner_stream, LINK_READY_OUT};
    }
    return ready_count;
}

static instant_ns on_next_deadline(struct link *l)
{
    note("next_deadline", l, NULL, 0);
    return DEADLINE_NS;
}

static bool on_may_wait(struct link *l)
{
    note("may_wait", l, NULL, 0);
    return true;
}

static void on_wait(struct link *l, duration_ns timeout_ns)
{
    note("wait", l, NULL, timeout_ns);
}

static void on_rise(struct link *l)
{
    note("rise", l, NULL, 0);
}

static void on_wake(struct link *l)
{
    note("wake", l, NULL, 0);
}

static int on_descriptor(const struct link *l)
{
    note("descriptor", l, NULL, 0);
    return 7;
}

static void on_stream_counters(const struct link *l, const struct link_stream *s, counter_each each,
                               void *ctx)
{
    note("stream_counters", l, s, ctx == &inner);
}

static void on_packet_counters(const struct link *l, counter_each each, void *ctx)
{
    note("packet_counters", l, NULL, ctx == &inner);
}

static bool on_is_busy(struct link *l)
{
    note("is_busy", l, NULL, 0);
    return true;
}

static const struct link_ops inner_ops = {
    .name = "inner",
    .listen = on_listen,
    .connect = on_connect,
    .unsettled = on_unsettled,
    .want_out = on_want_out,
    .want_in = on_want_in,
    .local_addr = on_local_addr,
    .peer_addr = on_peer_addr,
    .emss = on_emss,
    .set_tos = on_set_tos,
    .route = on_route,
    .poll = on_poll,
    .next_deadline = on_next_deadline,
    .may_wait = on_may_wait,
    .wait = on_wait,
    .rise = on_rise,
    .wake = on_wake,
    .descriptor = on_descriptor,
    .stream_counters = on_stream_counters,
    .packet_counters = on_packet_counters,
    .is_busy = on_is_busy,
};

static const struct link_ops own_ops = {
    .name = "wrapper",
    .listen = link_forward_listen,
    .connect = link_forward_connect,
    .unsettled = link_forward_unsettled,
    .want_out = link_forward_want_out,
    .want_in = link_forward_want_in,
    .local_addr = link_forward_local_addr,
    .peer_addr = link_forward_peer_addr,
    .emss = link_forward_emss,
    .set_tos = link_forward_set_tos,
    .route = link_forward_route,
    .poll = link_forward_poll,
    .next_deadline = link_forward_next_deadline,
    .may_wait = link_forward_may_wait,
    .wait = link_forward_wait,
    .rise = link_forward_rise,
    .wake = link_forward_wake,
    .descriptor = link_forward_descriptor,
    .stream_counters = link_forward_stream_counters,
    .packet_counters = link_forward_packet_counters,
    .is_busy = link_forward_is_busy,
};

static void make(unsigned facts)
{
    inner = (struct inner){.link = {&inner_ops, facts}};
    wrapper = (struct link_forward){.inner = NULL};
    link_forward_init(&wrapper, &own_ops, &inner.link);
    inner_stream = (struct link_stream){.link = &inner.link, .owner = &stream};
    stream = (struct link_forward_stream){.base.link = &wrapper.base, .inner = &inner_stream};
    ready_count = 0;
}

static const struct link_ops *ops(void)
{
    return wrapper.base.ops;
}

static void expect(const char *called, const void *argument, uint64_t number)
{
    assert_string_equal(inner.called, called);
    assert_ptr_equal(inner.argument, argument);
    assert_int_equal(inner.number, number);
}

static void expect_of_stream(const char *called, const void *argument, uint64_t number)
{
    expect(called, argument, number);
    assert_ptr_equal(inner.whose, &inner_stream);
}

static void expect_of_link(const char *called, const void *argument, uint64_t number)
{
    expect(called, argument, number);
    assert_ptr_equal(inner.whose, &inner.link);
}

static void what_is_asked_of_a_stream_is_handed_on(void **state)
{
    make(0);
    struct link_stream *s = &stream.base;
    const struct sockaddr *peer = (const struct sockaddr *)&addr;
    assert_int_equal(ops()->listen(s, 5), ANSWER);
    expect_of_stream("listen", NULL, 5);
    assert_int_equal(ops()->connect(s, peer), ANSWER);
    expect_of_stream("connect", peer, 0);
    assert_int_equal(ops()->unsettled(s), UNSETTLED);
    expect_of_stream("unsettled", NULL, 0);
    ops()->want_out(s, true);
    expect_of_stream("want_out", NULL, true);
    ops()->want_in(s, false);
    expect_of_stream("want_in", NULL, false);
    assert_int_equal(ops()->local_addr(s, &addr), ANSWER);
    expect_of_stream("local_addr", &addr, 0);
    assert_int_equal(ops()->peer_addr(s, &addr), ANSWER);
    expect_of_stream("peer_addr", &addr, 0);
    assert_int_equal(ops()->emss(s), EMSS);
    expect_of_stream("emss", NULL, 0);
    assert_int_equal(ops()->set_tos(s, 0x28), ANSWER);
    expect_of_stream("set_tos", NULL, 0x28);
}

static void what_is_asked_of_a_link_is_handed_on(void **state)
{
    make(0);
    struct link *l = &wrapper.base;
    assert_string_equal(ops()->name, "wrapper");
    assert_int_equal(ops()->route(l, (const struct sockaddr *)&addr, &addr), ANSWER);
    expect_of_link("route", &addr, true);
    assert_int_equal(ops()->next_deadline(l), DEADLINE_NS);
    expect_of_link("next_deadline", NULL, 0);
    assert_true(ops()->may_wait(l));
    expect_of_link("may_wait", NULL, 0);
    ops()->wait(l, 99);
    expect_of_link("wait", NULL, 99);
    ops()->rise(l);
    expect_of_link("rise", NULL, 0);
    ops()->wake(l);
    expect_of_link("wake", NULL, 0);
    assert_int_equal(ops()->descriptor(l), 7);
    expect_of_link("descriptor", NULL, 0);
    ops()->stream_counters(l, &stream.base, NULL, &inner);
    expect_of_link("stream_counters", &inner_stream, true);
    ops()->stream_counters(l, NULL, NULL, &inner);
    expect_of_link("stream_counters", NULL, true);
    ops()->packet_counters(l, NULL, &inner);
    expect_of_link("packet_counters", NULL, true);
    assert_true(ops()->is_busy(l));
    expect_of_link("is_busy", NULL, 0);
}

// The user knows the wrapper's streams; one that was closed since it became ready is nobody's.
static void what_is_ready_is_named_by_the_wrappers_streams(void **state)
{
    struct link_ready ready[4];
    make(0);
    ready_count = 2;
    assert_int_equal(ops()->poll(&wrapper.base, ready, 4), 1);
    expect_of_link("poll", ready, 4);
    assert_ptr_equal(ready[0].stream, &stream.base);
    assert_int_equal(ready[0].what, LINK_READY_OUT);
    ready_count = ANSWER;
    assert_int_equal(ops()->poll(&wrapper.base, ready, 4), ANSWER);
}

// Octets that were placed would go past the wrapper.
static void facts_of_the_link_are_the_wrappers_but_for_placing(void **state)
{
    make(LINK_HAS_SEGMENTS | LINK_HAS_PLACES);
    assert_int_equal(wrapper.base.facts, LINK_HAS_SEGMENTS);
    make(LINK_IS_OF_PROCESS);
    assert_int_equal(wrapper.base.facts, LINK_IS_OF_PROCESS);
}

static void what_a_link_has_not_is_answered_by_nothing(void **state)
{
    assert_int_equal(link_none_unsettled(&stream.base), 0);
    assert_int_equal(link_none_next_deadline(&wrapper.base), INSTANT_NEVER);
    assert_false(link_none_is_busy(&wrapper.base));
    link_none_stream_counters(&wrapper.base, NULL, NULL, NULL); // counts nothing
    link_none_packet_counters(&wrapper.base, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_of_a_stream_is_handed_on),
        cmocka_unit_test(what_is_asked_of_a_link_is_handed_on),
        cmocka_unit_test(what_is_ready_is_named_by_the_wrappers_streams),
        cmocka_unit_test(facts_of_the_link_are_the_wrappers_but_for_placing),
        cmocka_unit_test(what_a_link_has_not_is_answered_by_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
