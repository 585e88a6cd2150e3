// Many connections that wait for an answer at a time, on virtual time: each gives up at its own
// instant, in order.
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/sim.h"
#include "rnic/create.h"

enum { COUNT = 200, PORT = 7471, BACKLOG = 2 * COUNT };

static const duration_ns patience_ns = 1 * NS_PER_S;
static const duration_ns pause_ns = 1 * NS_PER_MS; // between the beginnings of two connections
static const duration_ns travel_ns = 10 * NS_PER_US;

static struct stage {
    instant_ns now;
    struct sim_net *net;
    struct link *silent; // listens, and answers nothing
    struct link_stream *listener;
    struct rnic *rnic;
    struct rnic_ep *ep[COUNT];
    instant_ns begun_at[COUNT], failed_at[COUNT];
    unsigned failed_count;
} stage;

static instant_ns stage_clock(void *ctx)
{
    return stage.now;
}

static struct sockaddr_in address(const char *host)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_pton(AF_INET, host, &addr.sin_addr);
    return addr;
}

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    instant_ns *failed_at = ctx;
    assert_int_equal(event->type, RNIC_EP_UNREACHABLE);
    assert_int_equal(event->status, -ETIMEDOUT);
    *failed_at = stage.now;
    stage.failed_count++;
}

// Until `until`, from one instant at which something happens to the next.
static void run(instant_ns until)
{
    while (stage.now < until) {
        while (sim_net_advance(stage.net) || rnic_step(stage.rnic)) {
        }
        instant_ns next =
            instant_min(sim_net_next_event(stage.net), rnic_next_deadline(stage.rnic));
        stage.now = next > stage.now ? instant_min(next, until) : stage.now + 1;
    }
}

static void stage_open(void)
{
    struct sim_net_config net = {.seed = 1,
                                 .clock = stage_clock,
                                 .delay_max_ns = travel_ns / 4,
                                 .window_len = 1 << 16,
                                 .piece_max_len = 1 << 12,
                                 .emss = 1448,
                                 .peer_timeout_ns = 100 * NS_PER_S};
    struct sockaddr_in silent = address("10.0.0.2"), own = address("10.0.0.1");
    stage = (struct stage){.now = 1, .net = sim_net_create(&net)};
    assert_non_null(stage.net);
    stage.silent = sim_net_attach(stage.net, &silent.sin_addr, 1);
    const struct link_ops *ops = stage.silent->ops;
    assert_int_equal(ops->bind(stage.silent, (struct sockaddr *)&silent, 0, NULL, &stage.listener),
                     0);
    assert_int_equal(ops->listen(stage.listener, BACKLOG), 0);
    struct rnic_parts parts = {.config = {.mpa_timeout_ns = patience_ns,
                                          .mpa_revision = 1,
                                          .read_contexts = 8,
                                          .read_allotment_len = 1 << 16,
                                          .read_depth = 1,
                                          .read_turn_len = 1 << 16},
                               .link = sim_net_attach(stage.net, &own.sin_addr, 1),
                               .clock = stage_clock,
                               .is_simulated = true};
    assert_int_equal(rnic_create(&parts, &stage.rnic), 0);
}

static void stage_close(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_ep_destroy(stage.ep[i]);
    }
    rnic_destroy(stage.rnic);
    stage.silent->ops->close(stage.listener, true);
    stage.silent->ops->destroy(stage.silent);
    sim_net_destroy(stage.net);
}

static void connect_one(unsigned i)
{
    struct sockaddr_in silent = address("10.0.0.2");
    struct rnic_ep_port port = {.on_event = on_event, .ctx = &stage.failed_at[i]};
    struct rnic_ep_params params = {.ird = 1, .ord = 1};
    stage.begun_at[i] = stage.now;
    assert_int_equal(rnic_ep_bind(stage.rnic, NULL, 0, &port, &stage.ep[i]), 0);
    assert_int_equal(rnic_ep_connect(stage.ep[i], (struct sockaddr *)&silent, NULL, &params), 0);
}

static void each_of_many_connections_gives_up_at_its_own_instant(void **state)
{
    stage_open();
    for (unsigned i = 0; i < COUNT; i++) {
        connect_one(i);
        run(stage.now + pause_ns);
    }
    assert_int_equal(stage.failed_count, 0);
    run(stage.begun_at[COUNT - 1] + patience_ns + travel_ns);
    assert_int_equal(stage.failed_count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_in_range(stage.failed_at[i], stage.begun_at[i] + patience_ns,
                        stage.begun_at[i] + patience_ns + travel_ns);
    }
    stage_close();
}

// The first to end leaves the others' deadlines where they are.
static void who_ends_before_its_deadline_leaves_those_of_others(void **state)
{
    stage_open();
    for (unsigned i = 0; i < COUNT; i++) {
        connect_one(i);
        run(stage.now + pause_ns);
    }
    for (unsigned i = 0; i < COUNT; i += 2) {
        rnic_ep_destroy(stage.ep[i]);
        connect_one(i);
    }
    run(stage.begun_at[COUNT - 1] + patience_ns + travel_ns);
    assert_int_equal(stage.failed_count, COUNT / 2);
    run(stage.now + patience_ns);
    assert_int_equal(stage.failed_count, COUNT);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_many_connections_gives_up_at_its_own_instant),
        cmocka_unit_test(who_ends_before_its_deadline_leaves_those_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
