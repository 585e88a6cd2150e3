// What a wrapper does not care for reaches the one behind it, arguments and answer included, and
// what that one tells reaches the user.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/device/fault.h"
#include "link/fault_model.h"

enum { ANSWER = -77, LEN_MAX = 1234, TOS = 0x28, SCOPE = 7 };

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

static uint32_t on_segment_len_max(struct device *d, struct channel *c, const struct net_flow *f)
{
    note(d, "segment_len_max", c, f == &flow);
    return LEN_MAX;
}

static int on_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                    struct net_addr *ret_local)
{
    *ret_local = *remote;
    return note(d, "route", remote, scope);
}

static bool on_poll(struct device *d, instant_ns now)
{
    note(d, "poll", NULL, now);
    return true;
}

static void on_receive(struct device *d, struct channel *c, size_t max_len)
{
    note(d, "receive", c, max_len);
}

static void on_corrupt(struct device *d, struct fault_model *model)
{
    note(d, "corrupt", model, 0);
}

static void on_wait(struct device *d, duration_ns timeout_ns)
{
    note(d, "wait", NULL, timeout_ns);
}

static void on_wake(struct device *d)
{
    note(d, "wake", NULL, 0);
}

static int on_descriptor(const struct device *d)
{
    note((struct device *)d, "descriptor", NULL, 0);
    return ANSWER;
}

static void on_abandon(struct device *d)
{
    note(d, "abandon", NULL, 0);
}

static void on_destroy(struct device *d)
{
    note(d, "destroy", NULL, 0);
}

static const struct device_event *events; // what the inner device has come by
static unsigned event_count;

static bool on_next(struct device *d, instant_ns now, struct device_event *ret)
{
    if (event_count == 0) {
        return false;
    }
    event_count--;
    *ret = *events++;
    return true;
}

static const struct device_ops inner_ops = {.name = "inner",
                                            .open = on_open,
                                            .connect = on_connect,
                                            .accept = on_accept,
                                            .set_tos = on_set_tos,
                                            .segment_len_max = on_segment_len_max,
                                            .route = on_route,
                                            .poll = on_poll,
                                            .receive = on_receive,
                                            .next = on_next,
                                            .corrupt = on_corrupt,
                                            .wait = on_wait,
                                            .wake = on_wake,
                                            .descriptor = on_descriptor,
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
    assert_int_equal(wrapped->ops->segment_len_max(wrapped, &channel, &flow), LEN_MAX);
    expect("segment_len_max", &channel, true);
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
    assert_int_equal(wrapped->ops->descriptor(wrapped), ANSWER);
    expect("descriptor", NULL, 0);
    wrapped->ops->abandon(wrapped);
    expect("abandon", NULL, 0);
}

static void looks_are_handed_on(void **state)
{
    struct fault_model model;
    assert_true(device_poll(wrapped, 5 * NS_PER_S));
    expect("poll", NULL, 5 * NS_PER_S);
    device_receive(wrapped, &channel, 4711);
    expect("receive", &channel, 4711);
    device_corrupt(wrapped, &model);
    expect("corrupt", &model, 0);
}

/* ---- what the device tells ------------------------------------------------------------------- */

static void what_the_device_has_come_by_reaches_the_user(void **state)
{
    static const uint8_t quoted[8];
    static const struct device_event told[] = {
        {.kind = DEVICE_EVENT_SEGMENT, .channel = &channel, .octets = {(const uint8_t *)"x", 1}},
        {.kind = DEVICE_EVENT_READABLE, .channel = &channel},
        {.kind = DEVICE_EVENT_MORE, .channel = &channel},
        {.kind = DEVICE_EVENT_ROOM},
        {.kind = DEVICE_EVENT_PATH, .quoted = {quoted, 8}, .segment_len_max = LEN_MAX},
        {.kind = DEVICE_EVENT_UNREACHABLE, .quoted = {quoted, 8}, .error = -EHOSTUNREACH},
    };
    struct device_event got;
    events = told;
    event_count = sizeof told / sizeof told[0];
    for (unsigned i = 0; i < sizeof told / sizeof told[0]; i++) {
        memset(&got, 0xff, sizeof got);
        assert_true(device_next(wrapped, 0, &got));
        assert_memory_equal(&got, &told[i], sizeof got);
    }
    assert_false(device_next(wrapped, 0, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_asks_for_channels_is_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_asks_for_facts_is_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sleeping_waking_and_letting_go_are_handed_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(looks_are_handed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_the_device_has_come_by_reaches_the_user, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
