// Connections over a net that loses, doubles and reorders, by seeds. The oracle: each ends
// established at both ends, then disconnected at both, or refused at both for the same reason; none
// is stuck, and nothing is left.
#include "tests/ibcm/net.h"
#include "tests/seeds.h"

static struct net net;

enum plan { PLAN_ACCEPT, PLAN_REJECT, PLAN_NOBODY, PLAN_DATAGRAM, PLAN_COUNT };

static void each_is_told(unsigned host, enum ibcm_event_type event, unsigned times)
{
    assert_int_equal(net.hosts[host].count[event], times);
}

static void run_accepted(void)
{
    net_connect(&net, 0, 1);
    net_run_for(&net, 120 * NS_PER_S);
    for (unsigned i = 0; i < 2; i++) {
        each_is_told(i, IBCM_EVENT_ESTABLISHED, 1);
        assert_int_equal(ibcm_conn_state(net.hosts[i].conn), IBCM_ESTABLISHED);
    }
    assert_int_equal(net.hosts[0].agreement.sq_psn, net.hosts[1].agreement.rq_psn);
    assert_int_equal(net.hosts[1].agreement.sq_psn, net.hosts[0].agreement.rq_psn);
    unsigned who = prng_below(&net.prng, 3);
    for (unsigned i = 0; i < 2; i++) {
        if (who != i) {
            ibcm_disconnect(net.hosts[i].ibcm, net.hosts[i].conn, net.now);
        }
    }
    net_run(&net, INSTANT_NEVER);
    for (unsigned i = 0; i < 2; i++) {
        each_is_told(i, IBCM_EVENT_DISCONNECTED, 1);
        each_is_told(i, IBCM_EVENT_TIMEWAIT_EXIT, 1);
    }
    each_is_told(1, IBCM_EVENT_CONNECT_REQUEST, 1);
}

static void run_rejected(unsigned reason)
{
    net_connect(&net, 0, 1);
    net_run(&net, INSTANT_NEVER);
    each_is_told(0, IBCM_EVENT_REJECTED, 1);
    assert_int_equal(net.hosts[0].reason, reason);
    each_is_told(1, IBCM_EVENT_ESTABLISHED, 0);
}

static void run_resolved(void)
{
    net_resolve(&net, 0, 1);
    net_run(&net, INSTANT_NEVER);
    each_is_told(0, IBCM_EVENT_ESTABLISHED, 1);
    assert_int_equal(net.hosts[0].peer.qp_num, net.hosts[1].params.qp_num);
}

static void every_connection_comes_to_the_same_end_at_both_ends(uint64_t seed)
{
    net_init(&net, seed);
    net.loss = prng_below(&net.prng, 25);
    net.twice = prng_below(&net.prng, 40);
    net.jitter_ns = prng_below(&net.prng, 2) * 1500 * NS_PER_MS;
    enum plan plan = (enum plan)prng_below(&net.prng, PLAN_COUNT);
    net.hosts[1].answer = plan == PLAN_REJECT ? NET_REJECTS : NET_ACCEPTS;
    switch (plan) {
    case PLAN_ACCEPT:
        run_accepted();
        break;
    case PLAN_REJECT:
        run_rejected(IBCM_REASON_CONSUMER);
        break;
    case PLAN_NOBODY:
        ibcm_unlisten(net.hosts[1].ibcm, &net.hosts[1].listener, net.now);
        run_rejected(IBCM_REASON_INVALID_SERVICE_ID);
        break;
    default:
        run_resolved();
    }
    net_fini(&net);
}

int main(void)
{
    return seeds_main("every_connection_comes_to_the_same_end_at_both_ends",
                      every_connection_comes_to_the_same_end_at_both_ends, 400);
}
