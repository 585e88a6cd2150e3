// The names that counters are told under.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/counter.h"
#include "base/qp_state.h"

struct told {
    char name[128];
    uint64_t value;
    unsigned count;
};

static void note(void *ctx, const char *name, uint64_t value)
{
    struct told *told = ctx;
    snprintf(told->name, sizeof told->name, "%s", name);
    told->value = value;
    told->count++;
}

static void a_name_is_put_together_and_one_word(void **state)
{
    static const struct {
        const char *prefix, *words, *suffix, *name;
    } table[] = {
        {"in.", "RDMA Read Request", "", "in.rdma_read_request"},
        {"", "AZ[@`az{09", "", "az[@`az{09"},
        {"a.", "B C", ".d E", "a.b_c.d_e"},
        {"", "", "", ""},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct told told = {.count = 0};
        counter_tell(note, &told, table[i].prefix, table[i].words, table[i].suffix, 7 + i);
        assert_string_equal(told.name, table[i].name);
        assert_int_equal(told.value, 7 + i);
        assert_int_equal(told.count, 1);
    }
}

static void a_name_that_is_too_long_is_cut(void **state)
{
    char words[200];
    struct told told;
    memset(words, 'A', sizeof words);
    words[sizeof words - 1] = '\0';
    counter_tell(note, &told, "in.", words, "", 1);
    assert_int_equal(strlen(told.name), 95);
    assert_int_equal(strspn(told.name + 3, "a"), 92);
}

static void states_and_events_have_names_of_their_own(void **state)
{
    for (unsigned i = 0; i < QP_STATE_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(qp_state_name(i), qp_state_name(j));
        }
    }
    assert_string_equal(qp_state_name(QP_RTS), "RTS");
    assert_string_equal(qp_state_name(QP_STATE_COUNT), "?");
    for (unsigned i = 0; i < QP_EVENT_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(qp_event_name(i), qp_event_name(j));
        }
    }
    assert_string_equal(qp_event_name(QP_EVENT_SQ_DRAINED), "send queue drained");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_put_together_and_one_word),
        cmocka_unit_test(a_name_that_is_too_long_is_cut),
        cmocka_unit_test(states_and_events_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
