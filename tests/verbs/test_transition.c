// The tables of changes of state, every pair of states for every kind of queue pair, against a
// golden file: what must come along, and what may.
#include <errno.h>

#include "tests/golden.h"
#include "verbs/transition.h"

enum { STATE_COUNT = IBV_QPS_ERR + 1, ATTRIBUTE_COUNT = 21 };

static const char *const states[STATE_COUNT] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const char *const attributes[ATTRIBUTE_COUNT] = {
    [1] = "CUR_STATE",    [2] = "EN_SQD_ASYNC_NOTIFY",
    [3] = "ACCESS_FLAGS", [4] = "PKEY_INDEX",
    [5] = "PORT",         [6] = "QKEY",
    [7] = "AV",           [8] = "PATH_MTU",
    [9] = "TIMEOUT",      [10] = "RETRY_CNT",
    [11] = "RNR_RETRY",   [12] = "RQ_PSN",
    [13] = "MAX_RD_ATOM", [14] = "ALT_PATH",
    [15] = "MIN_RNR",     [16] = "SQ_PSN",
    [17] = "MAX_DEST_RD", [18] = "PATH_MIG_STATE",
    [19] = "CAP",         [20] = "DEST_QPN",
};

static const struct kind {
    const char *name;
    bool is_stream;
    enum ibv_qp_type type;
} kinds[] = {
    {"RC on a stream", true, IBV_QPT_RC},
    {"RC", false, IBV_QPT_RC},
    {"UC", false, IBV_QPT_UC},
    {"UD", false, IBV_QPT_UD},
};

struct text {
    char octets[1 << 14];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    t->len += (size_t)vsnprintf(t->octets + t->len, sizeof t->octets - t->len, format, args);
    va_end(args);
    assert_true(t->len < sizeof t->octets);
}

static void say_mask(struct text *t, const char *what, int mask)
{
    say(t, "  %s", what);
    for (int bit = 0; bit < ATTRIBUTE_COUNT; bit++) {
        if (mask & 1 << bit) {
            say(t, " %s", attributes[bit]);
        }
    }
}

// Asks for every set of attributes that some row takes.
static void say_change(struct text *t, const struct kind *kind, int from, int to)
{
    const int never = 1 << 0 | 1 << 14 | 1 << 19;
    int always = -1, ever = 0;
    bool is_allowed = false;
    for (int mask = 0; mask < 1 << ATTRIBUTE_COUNT; mask++) {
        if (!(mask & never) &&
            transition_check(kind->is_stream, kind->type, (enum ibv_qp_state)from,
                             (enum ibv_qp_state)to, mask | IBV_QP_STATE) == 0) {
            is_allowed = true;
            always &= mask;
            ever |= mask;
        }
    }
    if (is_allowed) {
        say(t, "%s -> %s\n", states[from], states[to]);
        if (always != 0) {
            say_mask(t, "must:", always);
            say(t, "\n");
        }
        if (ever != always) {
            say_mask(t, "may:", ever & ~always);
            say(t, "\n");
        }
    }
}

static void tables_are_the_golden_ones(void **state)
{
    static struct text text;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        say(&text, "%s%s\n\n", i > 0 ? "\n" : "", kinds[i].name);
        for (int from = 0; from < STATE_COUNT; from++) {
            for (int to = 0; to < STATE_COUNT; to++) {
                say_change(&text, &kinds[i], from, to);
            }
        }
    }
    golden_compare("verbs/golden/transitions.txt", text.octets);
}

static void state_that_is_none_is_refused(void **state)
{
    assert_int_equal(transition_check(false, IBV_QPT_UD, IBV_QPS_INIT, (enum ibv_qp_state)7, 0),
                     EINVAL);
    assert_int_equal(transition_check(false, IBV_QPT_UD, IBV_QPS_INIT, (enum ibv_qp_state) - 1, 0),
                     EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_the_golden_ones),
        cmocka_unit_test(state_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
