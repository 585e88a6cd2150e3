// Each message lost, once and several times: the same end as if it had not been.
#include "tests/ibcm/net.h"

static struct net net;
#define A (&net.hosts[0])
#define B (&net.hosts[1])

enum way {
    ESTABLISHED_AND_ENDED,
    REJECTED,
    RESPONSE_REJECTED,
    DELAYED,
    GIVEN_UP,
    RESOLVED,
};

static const struct {
    const char *name;
    enum way way;
    enum ibcm_kind kind;
} cases[] = {
    {"a lost REQ is sent again", ESTABLISHED_AND_ENDED, IBCM_REQ},
    {"a lost REP is sent again", ESTABLISHED_AND_ENDED, IBCM_REP},
    {"a lost RTU is sent again when the REP comes again", ESTABLISHED_AND_ENDED, IBCM_RTU},
    {"a lost DREQ is sent again", ESTABLISHED_AND_ENDED, IBCM_DREQ},
    {"a lost DREP is sent again when the DREQ comes again", ESTABLISHED_AND_ENDED, IBCM_DREP},
    {"a lost REJ of a REQ is sent again when the REQ comes again", REJECTED, IBCM_REJ},
    {"a lost REJ of a REP is sent again when the REP comes again", RESPONSE_REJECTED, IBCM_REJ},
    {"a lost MRA is sent again when the REQ comes again", DELAYED, IBCM_MRA},
    {"a lost REJ of who gave up is sent again when the REP comes", GIVEN_UP, IBCM_REJ},
    {"a lost SIDR_REQ is sent again", RESOLVED, IBCM_SIDR_REQ},
    {"a lost SIDR_REP is sent again when the SIDR_REQ comes again", RESOLVED, IBCM_SIDR_REP},
};

static void go(enum way way)
{
    struct ibcm_conn *conn;
    B->answer = way == REJECTED ? NET_REJECTS : way == DELAYED ? NET_WAITS : NET_ACCEPTS;
    A->waits_to_establish = way == RESPONSE_REJECTED;
    conn = way == RESOLVED ? net_resolve(&net, 0, 1) : net_connect(&net, 0, 1);
    if (way == GIVEN_UP) {
        ibcm_drop(A->ibcm, conn, net.now);
    }
    net_run_for(&net, 12 * NS_PER_S);
    if (way == ESTABLISHED_AND_ENDED) {
        assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
        assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
        ibcm_disconnect(B->ibcm, B->conn, net.now);
    } else if (way == RESPONSE_REJECTED) {
        ibcm_reject(A->ibcm, conn, IBCM_REASON_CONSUMER, span_of("no", 2), net.now);
    } else if (way == DELAYED) {
        assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    }
    net_run(&net, INSTANT_NEVER);
}

static void check_end(enum way way)
{
    assert_int_equal(net.lost_count, 0); // it was said, and lost
    switch (way) {
    case ESTABLISHED_AND_ENDED:
        assert_int_equal(A->last, IBCM_EVENT_TIMEWAIT_EXIT);
        assert_int_equal(B->last, IBCM_EVENT_TIMEWAIT_EXIT);
        assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 1);
        assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
        break;
    case REJECTED:
        assert_int_equal(A->reason, IBCM_REASON_CONSUMER);
        assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
        break;
    case RESPONSE_REJECTED:
        assert_int_equal(B->reason, IBCM_REASON_CONSUMER);
        assert_int_equal(B->count[IBCM_EVENT_REJECTED], 1);
        break;
    case DELAYED:
        assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
        assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
        assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
        break;
    case GIVEN_UP:
        assert_int_equal(B->reason, IBCM_REASON_TIMEOUT);
        break;
    case RESOLVED:
        assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
        assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
        break;
    }
}

static void a_message_that_is_lost_changes_nothing(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned lost = 0; lost <= 2; lost++) {
            net_init(&net, i);
            net.lost_kind = cases[i].kind;
            net.lost_count = lost;
            print_message("# %s: lost %u times\n", cases[i].name, lost);
            go(cases[i].way);
            check_end(cases[i].way);
            net_fini(&net);
        }
    }
}

// Whoever hears nothing any more comes to an end by itself, whatever was lost.
static void a_line_that_is_cut_at_any_message_leaves_nobody_waiting(void **state)
{
    for (unsigned cut = 0; cut < 6; cut++) {
        net_init(&net, cut);
        net_connect(&net, 0, 1);
        for (unsigned i = 0; i < cut; i++) {
            net_run(&net, net_next(&net));
        }
        net.loss = 100;
        for (unsigned i = 0; i < 2; i++) {
            struct net_host *host = &net.hosts[i];
            if (host->conn != NULL) {
                ibcm_disconnect(host->ibcm, host->conn, net.now);
            }
        }
        net_run(&net, INSTANT_NEVER);
        for (unsigned i = 0; i < 2; i++) {
            struct net_host *host = &net.hosts[i];
            if (host->conn != NULL) {
                assert_int_equal(ibcm_conn_state(host->conn), IBCM_OVER);
            }
        }
        net_fini(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_lost_changes_nothing),
        cmocka_unit_test(a_line_that_is_cut_at_any_message_leaves_nobody_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
