// The two tables of an id's life, cell by cell.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cm/cm.h"

void cm_lock(void)
{
}

void cm_unlock(void)
{
}

unsigned cm_generation(void)
{
    return 0;
}

static const char *const state_names[CM_STATE_COUNT + 1] = {
    [CM_IDLE] = "idle",
    [CM_BOUND] = "bound",
    [CM_LISTENING] = "listening",
    [CM_ADDR_RESOLVED] = "addr_resolved",
    [CM_ROUTE_RESOLVED] = "route_resolved",
    [CM_CONNECTING] = "connecting",
    [CM_REPLIED] = "replied",
    [CM_REQUESTED] = "requested",
    [CM_ACCEPTING] = "accepting",
    [CM_ESTABLISHED] = "established",
    [CM_DISCONNECTED] = "disconnected",
    [CM_CLOSED] = "closed",
    [CM_STATE_COUNT] = "-",
};

// One row per call or event: the states in which it is legal, each with what follows.
static const char *const call_rows[CM_CALL_COUNT] = {
    [CM_CALL_BIND] = "idle>bound",
    [CM_CALL_RESOLVE_ADDR] = "idle>addr_resolved bound>addr_resolved",
    [CM_CALL_RESOLVE_ROUTE] = "addr_resolved>route_resolved",
    [CM_CALL_LISTEN] = "idle>listening bound>listening",
    [CM_CALL_CONNECT] = "route_resolved>connecting",
    [CM_CALL_ESTABLISH] = "replied>established",
    [CM_CALL_ACCEPT] = "requested>accepting",
    [CM_CALL_REJECT] = "requested>closed",
};

enum { EVENT_COUNT = RDMA_CM_EVENT_TIMEWAIT_EXIT + 1 };

static const char *const event_rows[EVENT_COUNT] = {
    [RDMA_CM_EVENT_CONNECT_REQUEST] = "listening>listening",
    [RDMA_CM_EVENT_CONNECT_RESPONSE] = "connecting>replied",
    [RDMA_CM_EVENT_ESTABLISHED] = "connecting>established accepting>established",
    [RDMA_CM_EVENT_REJECTED] =
        "connecting>closed replied>closed accepting>closed established>closed",
    [RDMA_CM_EVENT_UNREACHABLE] = "connecting>closed accepting>closed",
    [RDMA_CM_EVENT_CONNECT_ERROR] =
        "connecting>closed replied>closed accepting>closed established>closed",
    [RDMA_CM_EVENT_DISCONNECTED] =
        "replied>disconnected accepting>disconnected established>disconnected",
    [RDMA_CM_EVENT_TIMEWAIT_EXIT] = "disconnected>closed",
};

// The row of the table in the same words.
static void row_format(enum cm_state (*next)(enum cm_state state, int input), int input, char *buf,
                       size_t len)
{
    size_t used = 0;
    buf[0] = '\0';
    for (int state = 0; state < CM_STATE_COUNT; state++) {
        enum cm_state to = next((enum cm_state)state, input);
        if (to != CM_STATE_COUNT) {
            used += (size_t)snprintf(buf + used, len - used, "%s%s>%s", used > 0 ? " " : "",
                                     state_names[state], state_names[to]);
        }
    }
}

static enum cm_state after_call(enum cm_state state, int call)
{
    return cm_state_after_call(state, (enum cm_call)call);
}

static enum cm_state after_event(enum cm_state state, int event)
{
    return cm_state_after_event(state, (enum rdma_cm_event_type)event);
}

static void test_calls(void **state)
{
    char row[512];
    for (int call = 0; call < CM_CALL_COUNT; call++) {
        row_format(after_call, call, row, sizeof row);
        assert_string_equal(row, call_rows[call]);
    }
}

static void test_events(void **state)
{
    char row[512];
    for (int event = 0; event < EVENT_COUNT; event++) {
        row_format(after_event, event, row, sizeof row);
        assert_string_equal(row, event_rows[event] != NULL ? event_rows[event] : "");
    }
}

static void test_a_refused_call_leaves_the_id_where_it_is(void **state)
{
    struct cm_id c = {.state = CM_LISTENING};
    enum cm_state before;
    assert_int_equal(cm_id_claim(&c, CM_CALL_CONNECT, &before), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(c.state, CM_LISTENING);
}

static void test_a_failed_call_goes_back(void **state)
{
    struct cm_id c = {.state = CM_BOUND};
    enum cm_state before;
    assert_int_equal(cm_id_claim(&c, CM_CALL_LISTEN, &before), 0);
    assert_int_equal(c.state, CM_LISTENING);
    cm_id_unclaim(&c, CM_CALL_LISTEN, before);
    assert_int_equal(c.state, CM_BOUND);
}

static void test_a_failed_call_does_not_undo_an_event(void **state)
{
    struct cm_id c = {.state = CM_ROUTE_RESOLVED};
    enum cm_state before;
    assert_int_equal(cm_id_claim(&c, CM_CALL_CONNECT, &before), 0);
    c.state = CM_CLOSED;
    cm_id_unclaim(&c, CM_CALL_CONNECT, before);
    assert_int_equal(c.state, CM_CLOSED);
}

static void test_an_id_of_a_parent_process_is_refused(void **state)
{
    struct cm_id c = {.generation = 1};
    enum cm_state before;
    assert_int_equal(cm_id_claim(&c, CM_CALL_BIND, &before), -1);
    assert_int_equal(errno, EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_a_refused_call_leaves_the_id_where_it_is),
        cmocka_unit_test(test_a_failed_call_goes_back),
        cmocka_unit_test(test_a_failed_call_does_not_undo_an_event),
        cmocka_unit_test(test_an_id_of_a_parent_process_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
