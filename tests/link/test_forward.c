// What a wrapper does not care for reaches the one behind it, arguments and answer included, and
// what that one tells reaches the user.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/fault.h"
#include "link/fault_model.h"

enum { ANSWER = -77, MSS = 1234, TOS = 0x28, SCOPE = 7 };

static struct inner {
    struct device device;
    const char *called; // the operation that came last
    const void *argument;
    uint64_t number;
} inner;

static struct device *wrapped;
static struct channel channel;
static struct net_flow flow;

static int note(struct device *d, const char *called, const void *argument, uint64_t number)
{
    assert_ptr_equal(d, &inner.device);
    inner.called = called;
    inner.argument = argument;
    inner.number = number;
    return ANSWER;
}

static int on_open(struct device *d, struct net_flow *place, unsigned flags, struct channel **ret)
{
    *ret = &channel;
    return note(d, "open", place, flags);
}

static int on_connect(struct device *d, struct channel *c, struct net_flow *f)
{
    return note(d, "connect", c, f == &flow);
}

static int on_accept(struct device *d, struct channel *listener, const struct net_flow *f,
                     struct channel **ret)
{
    *ret = listener;
    return note(d, "accept", f, 0);
}

static void on_set_tos(struct device *d, struct channel *c, uint8_t tos)
{
    note(d, "set_tos", c, tos);
}

static uint16_t on_mss(struct device *d, struct channel *c, const struct net_flow *f)
{
    note(d, "mss", c, f == &flow);
    return MSS;
}

static int on_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                    struct net_addr *ret_local)
{
    *ret_local = *remote;
    return note(d, "route", remote, scope);
}

static void on_wait(struct device *d, duration_ns timeout_ns)
{
    note(d, "wait", NULL, timeout_ns);
}

static void on_wake(struct device *d)
{
    note(d, "wake", NULL, 0);
}

static void on_abandon(struct device *d)
{
    note(d, "abandon", NULL, 0);
}

static void on_destroy(struct device *d)
{
    note(d, "destroy", NULL, 0);
}

static const struct device_ops inner_ops = {.name = "inner",
                                            .open = on_open,
                                            .connect = on_connect,
                                            .accept = on_accept,
                                            .set_tos = on_set_tos,
                                            .mss = on_mss,
                                            .route = on_route,
                                            .wait = on_wait,
                                            .wake = on_wake,
                                            .abandon = on_abandon,
                                            .destroy = on_destroy};

static int set_up(void **state)
{
    struct fault_config none;
    assert_true(fault_config_parse("", &none));
    inner = (struct inner){.device.ops = &inner_ops};
    return device_fault_wrap(&inner.device, &none, &wrapped);
}

static int tear_down(void **state)
{
    wrapped->ops->destroy(wrapped);
    assert_string_equal(inner.called, "destroy");
    return 0;
}

static void expect(const char *called, const void *argument, uint64_t number)
{
    assert_string_equal(inner.called, called);
    assert_ptr_equal(inner.argument, argument);
    assert_int_equal(inner.number, number);
}

static void what_asks_for_channels_is_handed_on(void **state)
{
    struct channel *got = NULL;
    assert_int_equal(wrapped->ops->open(wrapped, &flow, LINK_BIND_REUSE, &got), ANSWER);
    expect("open", &flow, LINK_BIND_REUSE);
    assert_ptr_equal(got, &channel);
    assert_int_equal(wrapped->ops->connect(wrapped, &channel, &flow), ANSWER);
    expect("connect", &channel, true);
    got = NULL;
    assert_int_equal(wrapped->ops->accept(wrapped, &channel, &flow, &got), ANSWER);
    expect("accept", &flow, 0);
    assert_ptr_equal(got, &channel);
}

static void what_asks_for_facts_is_handed_on(void **state)
{
    struct net_addr local = {{0}}, remote = {{1, 2, 3}};
    assert_int_equal(wrapped->ops->mss(wrapped, &channel, &flow), MSS);
    expect("mss", &channel, true);
    assert_int_equal(wrapped->ops->route(wrapped, &remote, SCOPE, &local), ANSWER);
    expect("route", &remote, SCOPE);
    assert_memory_equal(&local, &remote, sizeof local);
    wrapped->ops->set_tos(wrapped, &channel, TOS);
    expect("set_tos", &channel, TOS);
}

static void sleeping_waking_and_letting_go_are_handed_on(void **state)
{
    wrapped->ops->wait(wrapped, NS_PER_S);
    expect("wait", NULL, NS_PER_S);
    wrapped->ops->wake(wrapped);
    expect("wake", NULL, 0);
    wrapped->ops->abandon(wrapped);
    expect("abandon", NULL, 0);
}

/* ---- what the device tells ------------------------------------------------------------------- */

static struct told {
    const void *whom;
    uint64_t number;
    int what;
} told;

static void readable(void *ctx, struct channel *c)
{
    told = (struct told){.whom = ctx, .what = 1, .number = c == &channel};
}

static void room(void *ctx, struct channel *c)
{
    told = (struct told){.whom = ctx, .what = 2, .number = c == &channel};
}

static void path_mss(void *ctx, const struct net_flow *f, uint32_t quoted_seq, uint16_t mss)
{
    told = (struct told){.whom = f, .what = mss, .number = quoted_seq};
}

static void unreachable(void *ctx, const struct net_flow *f, uint32_t quoted_seq, int error)
{
    told = (struct told){.whom = f, .what = error, .number = quoted_seq};
}

static void what_the_device_tells_reaches_the_user(void **state)
{
    const struct device_up *up = &inner.device.up;
    wrapped->up = (struct device_up){.on_readable = readable,
                                     .on_room = room,
                                     .on_path_mss = path_mss,
                                     .on_unreachable = unreachable,
                                     .ctx = &told};
    up->on_readable(up->ctx, &channel);
    assert_true(told.whom == &told && told.what == 1 && told.number == 1);
    up->on_room(up->ctx, &channel);
    assert_true(told.whom == &told && told.what == 2 && told.number == 1);
    up->on_path_mss(up->ctx, &flow, 99, MSS);
    assert_true(told.whom == &flow && told.what == MSS && told.number == 99);
    up->on_unreachable(up->ctx, &flow, 98, -EHOSTUNREACH);
    assert_true(told.whom == &flow && told.what == -EHOSTUNREACH && told.number == 98);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_asks_for_channels_is_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_asks_for_facts_is_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sleeping_waking_and_letting_go_are_handed_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_the_device_tells_reaches_the_user, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
