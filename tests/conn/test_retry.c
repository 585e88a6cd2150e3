// A refused connection, on virtual time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conn/retry.h"

static struct conn_retry retry;
static const instant_ns begin_ns = 3 * NS_PER_S;

static int setup(void **state)
{
    conn_retry_init(&retry);
    return 0;
}

static void nothing_is_due_before_a_refusal(void **state)
{
    assert_int_equal(retry.again_at_ns, INSTANT_NEVER);
    assert_false(conn_retry_take_due(&retry, begin_ns));
}

static void refused_connection_is_due_again_once_after_the_pause(void **state)
{
    assert_true(conn_retry_on_refused(&retry, begin_ns));
    assert_int_equal(retry.again_at_ns, begin_ns + CONN_RETRY_PAUSE_NS);
    assert_false(conn_retry_take_due(&retry, begin_ns + CONN_RETRY_PAUSE_NS - 1));
    assert_true(conn_retry_take_due(&retry, begin_ns + CONN_RETRY_PAUSE_NS));
    assert_false(conn_retry_take_due(&retry, begin_ns + CONN_RETRY_PAUSE_NS));
}

static void patience_counts_from_the_first_refusal(void **state)
{
    instant_ns now = begin_ns;
    unsigned count = 0;
    while (conn_retry_on_refused(&retry, now)) {
        now = retry.again_at_ns;
        assert_true(conn_retry_take_due(&retry, now));
        count++;
    }
    assert_int_equal(now, begin_ns + CONN_RETRY_PATIENCE_NS);
    assert_int_equal(count, CONN_RETRY_PATIENCE_NS / CONN_RETRY_PAUSE_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_due_before_a_refusal, setup),
        cmocka_unit_test_setup(refused_connection_is_due_again_once_after_the_pause, setup),
        cmocka_unit_test_setup(patience_counts_from_the_first_refusal, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
