// Calls of rdma_cm in any order, with right values and wrong ones: nothing but an errno comes of a
// wrong one, no event is of an id that is gone, and all can be destroyed. SEED=n runs that seed
// alone; with the argument `roce`, on the device of packets alone.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "tests/own_port.h"
#include "tests/seeds.h"

enum {
    SEEDS = 2,
    SEEDS_SOAK = 400,
    STEPS = 600,
    CHANNELS = 2,
    IDS = 24,
    PRIVATE_MAX = 256, // what a length of one octet can say, and one more
    DEPTH = 4,
    RESOLVE_MS = 500,
};

static struct {
    struct prng dice;
    struct rdma_event_channel *channel[CHANNELS];
    struct rdma_cm_id *id[IDS];
    unsigned done, refused; // of all seeds
} w;

static uint8_t private_data[PRIVATE_MAX];

static uint32_t below(uint32_t bound)
{
    return prng_below(&w.dice, bound);
}

static bool one_in(uint32_t count)
{
    return below(count) == 0;
}

static void expect_errno(int answer)
{
    assert_true(answer == 0 || (answer == -1 && errno > 0));
    w.done += answer == 0;
    w.refused += answer != 0;
}

static struct rdma_cm_id **any_slot(bool is_used)
{
    const unsigned start = below(IDS);
    for (unsigned i = 0; i < IDS; i++) {
        struct rdma_cm_id **slot = &w.id[(start + i) % IDS];
        if ((*slot != NULL) == is_used) {
            return slot;
        }
    }
    return NULL;
}

static bool is_there(const struct rdma_cm_id *id)
{
    for (unsigned i = 0; i < IDS; i++) {
        if (w.id[i] == id) {
            return true;
        }
    }
    return false;
}

/* ---- values ---------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static union address any_address(void)
{
    static const char *const hosts[] = {"127.0.0.1", "127.0.0.1",  "127.0.0.2",
                                        "0.0.0.0",   "192.0.2.77", "239.1.1.1"};
    union address address = {.in6 = {.sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    const in_port_t port = one_in(6) ? 0 : htons(own_port());
    if (one_in(6)) {
        address.in6.sin6_family = AF_INET6;
        address.in6.sin6_port = port;
        return address;
    }
    const char *host = hosts[below(one_in(3) ? sizeof hosts / sizeof *hosts : 2)];
    address.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    assert_int_equal(inet_pton(AF_INET, host, &address.in.sin_addr), 1);
    if (one_in(20)) {
        address.any.sa_family = (sa_family_t)below(64);
    }
    return address;
}

static struct rdma_conn_param any_param(void)
{
    const bool is_right = !one_in(4);
    return (struct rdma_conn_param){
        .private_data = private_data,
        .private_data_len = (uint8_t)(is_right ? below(50) : below(PRIVATE_MAX)),
        .responder_resources = (uint8_t)(is_right ? 1 : below(256)),
        .initiator_depth = (uint8_t)(is_right ? 1 : below(256)),
        .flow_control = (uint8_t)below(2),
        .retry_count = (uint8_t)below(9),
        .rnr_retry_count = (uint8_t)below(9),
        .srq = (uint8_t)below(2),
        .qp_num = is_right ? 0 : (uint32_t)prng_next(&w.dice),
    };
}

/* ---- what is done to an id ------------------------------------------------------------------- */

static void bind_it(struct rdma_cm_id *id)
{
    union address address = any_address();
    expect_errno(rdma_bind_addr(id, &address.any));
}

static void listen_with_it(struct rdma_cm_id *id)
{
    expect_errno(rdma_listen(id, one_in(8) ? (int)prng_next(&w.dice) : (int)below(8)));
}

static void resolve_address(struct rdma_cm_id *id)
{
    union address from = any_address(), to = any_address();
    expect_errno(rdma_resolve_addr(id, one_in(4) ? &from.any : NULL, &to.any,
                                   one_in(8) ? (int)prng_next(&w.dice) : RESOLVE_MS));
}

static void resolve_route(struct rdma_cm_id *id)
{
    expect_errno(rdma_resolve_route(id, one_in(8) ? (int)prng_next(&w.dice) : RESOLVE_MS));
}

static void make_queue_pair(struct rdma_cm_id *id)
{
    const bool is_right = !one_in(4);
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = is_right ? DEPTH : (uint32_t)prng_next(&w.dice),
                .max_recv_wr = DEPTH,
                .max_send_sge = 1,
                .max_recv_sge = is_right ? 1 : below(1000)},
        .qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
    };
    if (one_in(10)) {
        attr.qp_type = (enum ibv_qp_type)below(12);
    }
    if (id->qp == NULL) { // else the header's pointers would be lost, here as with rdma-core
        expect_errno(rdma_create_qp(id, NULL, &attr));
    }
}

static void destroy_queue_pair(struct rdma_cm_id *id)
{
    if (id->qp != NULL && one_in(3)) {
        rdma_destroy_qp(id);
    }
}

static void connect_it(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = any_param();
    expect_errno(rdma_connect(id, one_in(8) ? NULL : &param));
}

static void accept_it(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = any_param();
    expect_errno(rdma_accept(id, one_in(8) ? NULL : &param));
}

static void reject_it(struct rdma_cm_id *id)
{
    expect_errno(rdma_reject(id, private_data, (uint8_t)below(PRIVATE_MAX)));
}

static void disconnect_it(struct rdma_cm_id *id)
{
    expect_errno(rdma_disconnect(id));
}

static void migrate_it(struct rdma_cm_id *id)
{
    expect_errno(rdma_migrate_id(id, w.channel[below(CHANNELS)]));
}

static void set_option(struct rdma_cm_id *id)
{
    uint32_t value = (uint32_t)prng_next(&w.dice);
    expect_errno(rdma_set_option(id, (int)below(3), (int)below(6), &value, below(2) ? 1 : 4));
}

static void ask_it(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)below(8)};
    int mask;
    (void)rdma_get_src_port(id);
    (void)rdma_get_dst_port(id);
    expect_errno(rdma_init_qp_attr(id, &attr, &mask));
}

static void establish_it(struct rdma_cm_id *id)
{
    expect_errno(one_in(2) ? rdma_establish(id) : rdma_notify(id, (enum ibv_event_type)below(20)));
}

static void join_or_leave(struct rdma_cm_id *id)
{
    union address group = any_address();
    expect_errno(one_in(2) ? rdma_join_multicast(id, &group.any, id)
                           : rdma_leave_multicast(id, &group.any));
}

/* ---- ids and events -------------------------------------------------------------------------- */

static void make_id(void)
{
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
                                                  RDMA_PS_IPOIB};
    struct rdma_cm_id **slot = any_slot(false);
    if (slot != NULL) {
        const enum rdma_port_space space = one_in(16)
                                               ? (enum rdma_port_space)below(0x200)
                                               : spaces[below(sizeof spaces / sizeof *spaces)];
        const int answer = rdma_create_id(w.channel[below(CHANNELS)], slot, &w, space);
        expect_errno(answer);
        *slot = answer == 0 ? *slot : NULL;
    }
}

static void destroy_id(struct rdma_cm_id **slot)
{
    if ((*slot)->qp != NULL) {
        rdma_destroy_qp(*slot);
    }
    assert_int_equal(rdma_destroy_id(*slot), 0);
    *slot = NULL;
}

// Whose request it is: kept, where there is room, to be accepted or not.
static void keep_request(struct rdma_cm_id *id)
{
    struct rdma_cm_id **slot = any_slot(false);
    if (slot == NULL) {
        assert_int_equal(rdma_destroy_id(id), 0);
        return;
    }
    *slot = id;
    if (one_in(2)) {
        make_queue_pair(id);
        accept_it(id);
    }
}

static bool take_event(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(channel, &event) != 0) {
        assert_int_equal(errno, EAGAIN);
        return false;
    }
    const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    struct rdma_cm_id *id = event->id;
    assert_true(is_there(is_request ? event->listen_id : id));
    assert_string_not_equal(rdma_event_str(event->event), "UNKNOWN EVENT");
    assert_int_equal(rdma_ack_cm_event(event), 0);
    if (is_request) {
        keep_request(id);
    }
    return true;
}

// Waits a moment for one now and then, so that the others' part of a connection has a processor.
static void take_events(void)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        struct pollfd wait = {.fd = w.channel[i]->fd, .events = POLLIN};
        (void)poll(&wait, 1, one_in(4) ? 1 : 0);
        while (take_event(w.channel[i])) {
        }
    }
}

/* ---- what goes well, most of the time -------------------------------------------------------- */

static union address home(void)
{
    return (union address){.in = {.sin_family = AF_INET,
                                  .sin_port = htons(own_port()),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}}};
}

static void serve(struct rdma_cm_id *id)
{
    union address address = home();
    expect_errno(rdma_bind_addr(id, &address.any));
    expect_errno(rdma_listen(id, DEPTH));
}

// What has come meanwhile may have been anything, so each call may be too early or too late.
static void ask(struct rdma_cm_id *id)
{
    union address address = home();
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    expect_errno(rdma_resolve_addr(id, NULL, &address.any, RESOLVE_MS));
    take_events();
    expect_errno(rdma_resolve_route(id, RESOLVE_MS));
    take_events();
    make_queue_pair(id);
    expect_errno(rdma_connect(id, &param));
    take_events();
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void step(void)
{
    static void (*const calls[])(struct rdma_cm_id *) = {serve,
                                                         ask,
                                                         ask,
                                                         ask,
                                                         bind_it,
                                                         listen_with_it,
                                                         resolve_address,
                                                         resolve_address,
                                                         resolve_route,
                                                         resolve_route,
                                                         make_queue_pair,
                                                         make_queue_pair,
                                                         destroy_queue_pair,
                                                         connect_it,
                                                         connect_it,
                                                         accept_it,
                                                         reject_it,
                                                         disconnect_it,
                                                         migrate_it,
                                                         set_option,
                                                         ask_it,
                                                         establish_it,
                                                         join_or_leave};
    struct rdma_cm_id **slot = any_slot(true);
    errno = 0;
    if (slot == NULL || one_in(6)) {
        make_id();
    } else if (one_in(16)) {
        destroy_id(slot);
    } else if (one_in(4)) {
        take_events();
    } else {
        calls[below(sizeof calls / sizeof *calls)](*slot);
    }
}

static void run_seed(uint64_t seed)
{
    printf("# seed %llu\n", (unsigned long long)seed);
    prng_init(&w.dice, seed);
    for (unsigned i = 0; i < CHANNELS; i++) {
        w.channel[i] = rdma_create_event_channel();
        assert_non_null(w.channel[i]);
        assert_int_equal(fcntl(w.channel[i]->fd, F_SETFL, O_NONBLOCK), 0);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    take_events();
    for (unsigned i = 0; i < IDS; i++) {
        if (w.id[i] != NULL) {
            destroy_id(&w.id[i]);
        }
    }
    for (unsigned i = 0; i < CHANNELS; i++) {
        struct rdma_cm_event *event;
        assert_int_equal(rdma_get_cm_event(w.channel[i], &event), -1); // of whom would it be
        rdma_destroy_event_channel(w.channel[i]);
    }
}

static void wrong_calls_come_to_an_errno_and_leave_nothing_behind(void **state)
{
    const struct seeds *seeds = *state;
    seeds_each(state);
    const uint64_t last = seeds->seed - 1;
    if (getenv("SEED") == NULL) { // right and wrong are both there
        assert_true(w.done > 50 * last && w.refused > 50 * last);
    }
}

int main(int argc, char **argv)
{
    struct seeds seeds = {.run = run_seed,
                          .count = getenv("WEFT_SOAK") != NULL ? SEEDS_SOAK : SEEDS};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            wrong_calls_come_to_an_errno_and_leave_nothing_behind, NULL, seeds_name_the_failed,
            &seeds),
    };
    char port[8];
    snprintf(port, sizeof port, "%u", own_port());
    setenv("WEFT_ROCE_PORT", port, 1);
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
