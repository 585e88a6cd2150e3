// Answers taken one by one, as NVMe/TCP has them, from a carrier of the test's own.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "initiator/agent.h"

static struct initiator_queue queue;
static struct weft_nvme nvme;
static unsigned answers_left;

// The next answer, to a command that nobody sent.
static int take_strange(struct weft_nvme *of, struct initiator_arrival *ret, struct why *ret_why)
{
    *ret = (struct initiator_arrival){.queue = &queue};
    return answers_left > 0 && answers_left-- > 0;
}

static void end(struct initiator_queue *of)
{
}

static const struct initiator_carrier carrier = {.take = take_strange, .end = end};

static int poll_with(unsigned answers)
{
    queue = (struct initiator_queue){.nvme = &nvme};
    nvme = (struct weft_nvme){.carrier = &carrier, .timer_fd = -1};
    answers_left = answers;
    return initiator_poll_by_taking(&nvme);
}

static void a_few_answers_to_nothing_are_counted(void **state)
{
    assert_int_equal(poll_with(3), 0);
    assert_int_equal(nvme.counters.strange, 3);
    assert_false(nvme.is_lost);
}

static void who_sends_nothing_else_is_left(void **state)
{
    assert_int_equal(poll_with(100000), -EPROTO);
    assert_in_range(nvme.counters.strange, 1, 1000);
    assert_non_null(strstr(nvme.lost_why.text, "answers what nobody asked"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_answers_to_nothing_are_counted),
        cmocka_unit_test(who_sends_nothing_else_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
