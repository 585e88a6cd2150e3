// The whole table, every state with every input, as a file that a reader can look at.
#include "ibcm/state.h"
#include "tests/golden.h"

static char text[1 << 16];

static const char *const timers[] = {
    [IBCM_TIMER_NONE] = "",
    [IBCM_TIMER_RESPONSE] = ", until an answer is due",
    [IBCM_TIMER_SERVICE] = ", as long as the peer asked for",
    [IBCM_TIMER_PAUSE] = ", for a moment",
    [IBCM_TIMER_TIMEWAIT] = ", until its packets are gone",
    [IBCM_TIMER_REPEATS] = ", until nobody asks again",
};

static void every_state_and_input_is_as_written_down(void **state)
{
    size_t at = 0;
    for (unsigned s = IBCM_IDLE; s < IBCM_STATE_COUNT; s++) {
        const struct ibcm_state_facts *facts = ibcm_state_facts((enum ibcm_state)s);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s%s%s\n", facts->name,
                               timers[facts->timer], facts->is_half_open ? ", half-open" : "",
                               facts->has_peer_qp ? ", has the peer's queue pair" : "");
        for (unsigned i = 0; i < IBCM_INPUT_COUNT; i++) {
            const struct ibcm_edge *e = ibcm_state_edge((enum ibcm_state)s, (enum ibcm_input)i);
            if (e->next == IBCM_NO_STATE) {
                continue;
            }
            at += (size_t)snprintf(text + at, sizeof text - at, "    %-18s %-14s %-9s %s\n",
                                   ibcm_input_name((enum ibcm_input)i),
                                   ibcm_state_facts((enum ibcm_state)e->next)->name,
                                   ibcm_send_name((enum ibcm_send)e->send),
                                   ibcm_event_name((enum ibcm_event_type)e->event));
        }
    }
    golden_compare("ibcm/golden/states.txt", text);
}

static void an_owner_can_let_go_in_every_state_that_it_can_meet(void **state)
{
    for (unsigned s = IBCM_IDLE + 1; s < IBCM_STATE_COUNT; s++) {
        assert_int_not_equal(ibcm_state_edge((enum ibcm_state)s, IBCM_IN_DROP)->next,
                             IBCM_NO_STATE);
        assert_int_not_equal(ibcm_state_edge((enum ibcm_state)s, IBCM_IN_DISCONNECT)->next,
                             IBCM_NO_STATE);
    }
}

static void every_state_with_a_time_knows_what_to_do_when_it_is_over(void **state)
{
    for (unsigned s = IBCM_IDLE; s < IBCM_STATE_COUNT; s++) {
        enum ibcm_timer timer = ibcm_state_facts((enum ibcm_state)s)->timer;
        bool repeats = timer == IBCM_TIMER_RESPONSE || timer == IBCM_TIMER_SERVICE;
        const struct ibcm_edge *due = ibcm_state_edge((enum ibcm_state)s, IBCM_IN_DEADLINE);
        const struct ibcm_edge *end = ibcm_state_edge((enum ibcm_state)s, IBCM_IN_EXHAUSTED);
        assert_int_equal(due->next != IBCM_NO_STATE, timer != IBCM_TIMER_NONE);
        assert_int_equal(end->next != IBCM_NO_STATE, repeats);
        assert_int_equal(due->send == IBCM_SEND_AGAIN, repeats || timer == IBCM_TIMER_PAUSE);
    }
}

static void what_is_half_open_can_be_evicted(void **state)
{
    for (unsigned s = IBCM_IDLE; s < IBCM_STATE_COUNT; s++) {
        const struct ibcm_edge *e = ibcm_state_edge((enum ibcm_state)s, IBCM_IN_EVICTED);
        assert_int_equal(e->next == IBCM_OVER, ibcm_state_facts((enum ibcm_state)s)->is_half_open);
    }
}

// By messages and time alone, however the owners behave: those that wait for the owner aside.
static void every_state_leads_to_the_end(void **state)
{
    bool ends[IBCM_STATE_COUNT] = {[IBCM_OVER] = true};
    for (unsigned round = 0; round < IBCM_STATE_COUNT; round++) {
        for (unsigned s = IBCM_IDLE + 1; s < IBCM_STATE_COUNT; s++) {
            for (unsigned i = 0; i < IBCM_INPUT_COUNT; i++) {
                unsigned next = ibcm_state_edge((enum ibcm_state)s, (enum ibcm_input)i)->next;
                ends[s] = ends[s] || (next != IBCM_NO_STATE && ends[next]);
            }
        }
    }
    for (unsigned s = IBCM_IDLE + 1; s < IBCM_STATE_COUNT; s++) {
        assert_true(ends[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_and_input_is_as_written_down),
        cmocka_unit_test(an_owner_can_let_go_in_every_state_that_it_can_meet),
        cmocka_unit_test(every_state_with_a_time_knows_what_to_do_when_it_is_over),
        cmocka_unit_test(what_is_half_open_can_be_evicted),
        cmocka_unit_test(every_state_leads_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
