// The state tables, every pair of them, against a golden file.
#include "iwarp/state.h"
#include "tests/golden.h"

enum { TEXT_MAX = 16384 };

static size_t add(char *text, size_t at, const char *from, const char *by, const char *to)
{
    return at + (size_t)snprintf(text + at, TEXT_MAX - at, "%-9s  %-16s  %s\n", from, by, to);
}

static void write_tables(char *text)
{
    size_t at = 0;
    at = add(text, at, "state", "modify to", "answer");
    for (int from = 0; from < QP_STATE_COUNT; from++) {
        for (int to = 0; to < QP_STATE_COUNT; to++) {
            at = add(text, at, qp_state_name((enum qp_state)from), qp_state_name((enum qp_state)to),
                     qp_state_may_modify((enum qp_state)from, (enum qp_state)to) ? "yes" : "no");
        }
    }
    at = add(text, at, "\nstream", "event", "next");
    for (int s = 0; s < QP_STREAM_STATE_COUNT; s++) {
        for (int e = 0; e < QP_STREAM_EVENT_COUNT; e++) {
            enum qp_stream_state next =
                qp_stream_next((enum qp_stream_state)s, (enum qp_stream_event)e);
            at = add(text, at, qp_stream_state_name((enum qp_stream_state)s),
                     qp_stream_event_name((enum qp_stream_event)e), qp_stream_state_name(next));
        }
    }
}

static void the_tables_are_the_golden_ones(void **state)
{
    static char text[TEXT_MAX];
    write_tables(text);
    golden_compare("iwarp/golden/states.txt", text);
}

static void what_is_over_stays_over_until_a_reset(void **state)
{
    for (int e = 0; e < QP_STREAM_EVENT_COUNT; e++) {
        enum qp_stream_state next = qp_stream_next(QP_STREAM_ERROR, (enum qp_stream_event)e);
        assert_int_equal(next, e == QP_STREAM_ON_RESET ? QP_STREAM_IDLE : QP_STREAM_ERROR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_are_the_golden_ones),
        cmocka_unit_test(what_is_over_stays_over_until_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
