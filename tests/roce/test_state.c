// The tables of states, every pair of them, against a golden file.
#include "roce/state.h"
#include "tests/golden.h"

enum { TEXT_MAX = 16384 };

static size_t add_changes(char *text, size_t at, enum roce_service service)
{
    for (enum qp_state from = QP_RESET; from < QP_STATE_COUNT; from++) {
        at += (size_t)snprintf(text + at, TEXT_MAX - at, "%s  %-5s ", roce_service_name(service),
                               qp_state_name(from));
        for (enum qp_state to = QP_RESET; to < QP_STATE_COUNT; to++) {
            bool may = roce_state_may_modify(service, from, to);
            at +=
                (size_t)snprintf(text + at, TEXT_MAX - at, " %-5s", may ? qp_state_name(to) : "-");
        }
        enum qp_state after = roce_state_after_failed_send(service, from);
        at +=
            (size_t)snprintf(text + at, TEXT_MAX - at, "  failed send: %s\n", qp_state_name(after));
    }
    return at;
}

static void the_tables_are_the_golden_ones(void **state)
{
    static char text[TEXT_MAX];
    size_t at = 0;
    for (enum roce_service s = ROCE_SERVICE_RC; s < ROCE_SERVICE_COUNT; s++) {
        at = add_changes(text, at, s);
    }
    for (enum qp_state s = QP_RESET; s < QP_STATE_COUNT; s++) {
        const struct roce_state_facts *f = roce_state_facts(s);
        at += (size_t)snprintf(text + at, TEXT_MAX - at,
                               "%-5s  packets %d  answers %d  begins %d  flushes sends %d  "
                               "receives %d\n",
                               qp_state_name(s), f->takes_packets, f->takes_answers,
                               f->begins_sends, f->flushes_sends, f->flushes_receives);
    }
    golden_compare("roce/golden/states.txt", text);
}

static void what_is_no_state_leads_nowhere(void **state)
{
    assert_false(roce_state_may_modify(ROCE_SERVICE_RC, QP_STATE_COUNT, QP_RESET));
    assert_false(roce_state_may_modify(ROCE_SERVICE_RC, QP_RESET, QP_STATE_COUNT));
    assert_string_equal(qp_state_name(QP_STATE_COUNT), "?");
    assert_string_equal(roce_service_name(ROCE_SERVICE_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_are_the_golden_ones),
        cmocka_unit_test(what_is_no_state_leads_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
