// Queue pairs that are told each other's address and number connect by themselves, in any order,
// and who asks for a queue pair without having been named to it is refused by a name.

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "iwarp/qp.h"
#include "meet/point.h"
#include "tests/rnic/device.h"
#include "tests/rnic/raw.h"
#include "wire/meeting.h"

enum { MESSAGE_LEN = 64 };
static const uint32_t retry_exceeded = 12, flushed = 5; // IBV_WC_*

static struct device device;
static struct end first, second; // the first one connects: its number is the lower one

// 127.0.0.1, as it stands in a GID.
static const struct in6_addr ipv4_here = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static struct in6_addr here;

static void device_up(duration_ns patience_ns)
{
    struct rnic_config config = device_config();
    config.mpa_timeout_ns = patience_ns;
    device_open(&device, &config, 0);
    end_init_addressable(&first, &device);
    end_init_addressable(&second, &device);
    if (first.qp->qp_num > second.qp->qp_num) {
        struct rnic_qp *lower = second.qp;
        second.qp = first.qp;
        first.qp = lower;
    }
}

static int setup(void **state)
{
    here = ipv4_here;
    device_up(20 * NS_PER_S);
    return 0;
}

static int setup_ipv6(void **state)
{
    here = in6addr_loopback;
    device_up(20 * NS_PER_S);
    return 0;
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return has;
}

static int teardown(void **state)
{
    end_fini(&first);
    end_fini(&second);
    device_close(&device);
    return 0;
}

static struct rnic_meeting meeting_with(uint32_t qp_num)
{
    return (struct rnic_meeting){
        .own_addr = here, .peer_addr = here, .peer_qp_num = qp_num, .ird = 4};
}

static int meet(struct end *e, uint32_t qp_num)
{
    const struct rnic_meeting with = meeting_with(qp_num);
    if (rnic_qp_state(e->qp) == QP_RESET) {
        assert_int_equal(rnic_qp_modify(e->qp, QP_INIT), 0);
    }
    return rnic_qp_meet(e->qp, &with);
}

static void tell(struct end *e, const struct end *peer)
{
    assert_int_equal(meet(e, peer->qp->qp_num), 0);
    assert_int_equal(rnic_qp_modify(e->qp, QP_RTS), 0);
}

static void expect_message(struct end *from, struct end *to)
{
    end_post_recv(to, 100, 0, MESSAGE_LEN);
    end_post_send(from, WQE_SEND, 0, MESSAGE_LEN, NULL, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(device_poll(&device).status, 0);
    }
}

static void expect_met(void)
{
    expect_message(&first, &second);
    expect_message(&second, &first);
    assert_int_equal(device_count(&device, "met"), 2);
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void test_number_names_a_port_of_this_host(void **state)
{
    uint16_t port = meeting_port_of(first.qp->qp_num);
    assert_int_equal(port, meeting_port_of(second.qp->qp_num));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), -1);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), -1); // nobody listens yet
    close(fd);
}

static void test_more_queue_pairs_than_one_port_names(void **state)
{
    static struct rnic_qp *qps[MEETING_POINT_NUMBERS];
    const struct rnic_qp_init init = {
        .pd = device.pd, .send_cq = device.cq, .recv_cq = device.cq, .is_addressable = true};
    for (unsigned i = 0; i < MEETING_POINT_NUMBERS; i++) {
        assert_int_equal(rnic_qp_create(device.rnic, &init, &qps[i]), 0);
    }
    assert_int_equal(rnic_live(device.rnic).endpoints, 2); // two ports
    for (unsigned i = 0; i < MEETING_POINT_NUMBERS; i++) {
        rnic_qp_destroy(qps[i]);
    }
    assert_int_equal(rnic_live(device.rnic).endpoints, 1);
}

static void test_who_listens_is_told_first(void **state)
{
    tell(&second, &first);
    tell(&first, &second);
    expect_met();
}

static void test_who_connects_is_told_first(void **state)
{
    tell(&first, &second);
    tell(&second, &first);
    expect_met();
}

static void test_addresses_may_be_of_ipv6(void **state)
{
    if (!has_ipv6()) {
        printf("SKIP: no IPv6 loopback address here\n");
        skip();
    }
    tell(&second, &first);
    tell(&first, &second);
    expect_met();
}

static void test_peer_of_another_address_is_refused(void **state)
{
    if (!has_ipv6()) {
        printf("SKIP: no IPv6 loopback address here\n");
        skip();
    }
    tell(&second, &first); // at ::1
    here = ipv4_here;
    tell(&first, &second);
    assert_true(device_waits_for_count(&device, "refused_other_peer", 1));
    assert_int_equal(device_count(&device, "met"), 0);
}

// The first one's Request is there before the second is told of it: its port listens for others.
static void ask_early(struct end others[2])
{
    for (unsigned i = 0; i < 2; i++) {
        end_init_addressable(&others[i], &device);
    }
    bool is_first = others[0].qp->qp_num < others[1].qp->qp_num;
    tell(&others[is_first], &others[!is_first]);
    tell(&first, &second);
    assert_true(device_waits_for_count(&device, "kept", 1));
}

static void test_request_that_comes_early_is_kept(void **state)
{
    struct end others[2];
    ask_early(others);
    tell(&second, &first);
    expect_met();
    end_fini(&others[0]);
    end_fini(&others[1]);
}

// To be in RTR is enough to be sent to: no later call makes it answer.
static void test_kept_request_is_answered_in_rtr(void **state)
{
    struct end others[2];
    ask_early(others);
    assert_int_equal(meet(&second, first.qp->qp_num), 0);
    assert_int_equal(rnic_qp_state(second.qp), QP_RTR);
    assert_true(device_waits_for_count(&device, "met", 2));
    end_fini(&others[0]);
    end_fini(&others[1]);
}

static void test_what_is_posted_before_waits(void **state)
{
    end_post_recv(&second, 7, 0, MESSAGE_LEN);
    tell(&first, &second);
    end_post_send(&first, WQE_SEND, 0, MESSAGE_LEN, NULL, 0);
    pause_ms(20);
    tell(&second, &first);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(device_poll(&device).status, 0);
    }
}

static void test_reads_are_agreed_on(void **state)
{
    tell(&first, &second);
    tell(&second, &first);
    end_post_send(&first, WQE_RDMA_READ, 0, MESSAGE_LEN, &device, 4096);
    end_post_send(&second, WQE_RDMA_READ, 1024, MESSAGE_LEN, &device, 4096);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(device_poll(&device).status, 0);
    }
    assert_int_equal(qp_query(qp_of_transport(first.qp->transport)).ird, 4);
    assert_int_equal(qp_query(qp_of_transport(first.qp->transport)).ord, 4);
}

static void test_queue_pairs_meet_again_after_a_reset(void **state)
{
    tell(&first, &second);
    tell(&second, &first);
    expect_met();
    struct end *const both[] = {&second, &first};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rnic_qp_modify(both[i]->qp, QP_RESET), 0);
        assert_int_equal(rnic_qp_modify(both[i]->qp, QP_INIT), 0);
    }
    tell(&first, &second);
    tell(&second, &first);
    expect_message(&first, &second);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_end_of_the_peer_is_not_noticed_by_who_asks_nothing(void **state)
{
    tell(&first, &second);
    tell(&second, &first);
    expect_met();
    end_post_recv(&second, 1, 0, MESSAGE_LEN);
    rnic_qp_destroy(first.qp);
    first.qp = NULL;
    pause_ms(50);
    assert_int_equal(rnic_qp_state(second.qp), QP_RTS);
    end_post_send(&second, WQE_RDMA_READ, 0, MESSAGE_LEN, &device, 4096);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_not_equal(device_poll(&device).status, 0);
    }
    assert_int_equal(rnic_qp_state(second.qp), QP_ERR);
}

static atomic_uint said_count;

static void emit(struct trace *trace, enum trace_room room, const char *line)
{
    assert_int_equal(room, TRACE_ERROR);
    assert_non_null(strstr(line, "peer 127.0.0.1:"));
    assert_false(shard_is_held(&device.rnic->shard));
    rnic_live(device.rnic); // would wait for the lock for ever
    said_count++;
}

static void test_farewell_is_said_when_no_lock_is_held(void **state)
{
    struct trace trace = {.rooms = 1U << TRACE_ERROR, .emit = emit};
    said_count = 0;
    device.rnic->trace = &trace;
    tell(&second, &first);
    tell(&first, &second);
    expect_met();
    end_post_send(&first, WQE_RDMA_READ, 0, MESSAGE_LEN, &device, DEVICE_BUF_LEN); // beyond it
    assert_int_not_equal(device_poll(&device).status, 0);
    for (unsigned i = 0; i < 1000 && said_count < 2; i++) {
        pause_ms(10);
    }
    assert_int_equal(said_count, 2); // one of each end
    assert_int_equal(rnic_qp_modify(first.qp, QP_RESET), 0);
    assert_int_equal(rnic_qp_modify(second.qp, QP_RESET), 0);
    device.rnic->trace = NULL;
}

static void test_work_that_waits_in_vain_fails(void **state)
{
    teardown(NULL);
    device_up(50 * NS_PER_MS);
    struct end *const both[] = {&first, &second}; // one of each role
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(meet(both[i], both[i]->qp->qp_num ^ 0x80), 0);
        assert_int_equal(rnic_qp_modify(both[i]->qp, QP_RTS), 0);
        pause_ms(100); // nothing is posted: it may take as long as it likes
        assert_int_equal(rnic_qp_state(both[i]->qp), QP_RTS);
        end_post_send(both[i], WQE_SEND, 0, MESSAGE_LEN, NULL, 0);
        end_post_send(both[i], WQE_SEND, 0, MESSAGE_LEN, NULL, 0);
        assert_int_equal(device_poll(&device).status, retry_exceeded);
        assert_int_equal(device_poll(&device).status, flushed);
        assert_int_equal(rnic_qp_state(both[i]->qp), QP_ERR);
    }
    assert_int_equal(device_count(&device, "gave_up"), 2);
}

static void test_destroying_one_that_waits_leaves_nothing(void **state)
{
    assert_int_equal(meet(&first, second.qp->qp_num), 0);
    assert_int_equal(meet(&second, 77), 0);
    // teardown looks at what is left
}

static void test_error_state_ends_the_waiting(void **state)
{
    assert_int_equal(meet(&first, second.qp->qp_num), 0);
    assert_int_equal(rnic_qp_modify(first.qp, QP_ERR), 0);
    assert_int_equal(meet(&second, first.qp->qp_num), 0);
    assert_int_equal(rnic_live(device.rnic).endpoints, 1); // the port
}

/* ---- wrong calls ----------------------------------------------------------------------------- */

static void test_wrong_calls_are_refused(void **state)
{
    struct end plain;
    end_init(&plain, &device);
    assert_int_equal(meet(&plain, second.qp->qp_num), -EOPNOTSUPP);
    end_fini(&plain);
    assert_int_equal(meet(&first, second.qp->qp_num), 0);
    assert_int_equal(meet(&first, second.qp->qp_num), -EINVAL);
    assert_int_equal(rnic_qp_modify(second.qp, QP_ERR), 0);
    assert_int_equal(meet(&second, first.qp->qp_num), -EINVAL);
}

/* ---- wrong peers ----------------------------------------------------------------------------- */

static void expect_refusal(const void *private_data, size_t len, const char *counter)
{
    const struct mpa_startup_frame frame = {
        .kind = MPA_REQUEST,
        .crc = true,
        .enhanced = true,
        .revision = 2,
        .private_data = span_of(private_data, len),
    };
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(meeting_port_of(second.qp->qp_num)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    uint64_t before = device_count(&device, counter);
    bool has_octets;
    int fd = raw_connect(&at);
    raw_send(fd, octets, mpa_startup_frame_emit(&frame, octets));
    raw_read_end(fd, &has_octets);
    close(fd);
    assert_false(has_octets);
    assert_int_equal(device_count(&device, counter), before + 1);
}

static void expect_refusal_of(uint32_t to, uint32_t from, const char *counter)
{
    const struct meeting_request request = {.to_qp_num = to, .from_qp_num = from};
    uint8_t private_data[MEETING_REQUEST_LEN];
    meeting_request_emit(&request, private_data);
    expect_refusal(private_data, sizeof private_data, counter);
}

static void test_strangers_are_refused_by_name(void **state)
{
    tell(&second, &first);
    uint32_t number = second.qp->qp_num;
    expect_refusal("", 0, "refused_malformed");
    expect_refusal("wqp\2........", MEETING_REQUEST_LEN, "refused_malformed");
    expect_refusal_of(number ^ 0x80, first.qp->qp_num, "refused_no_queue_pair");
    expect_refusal_of(number, first.qp->qp_num ^ 0x80, "refused_other_peer");
    tell(&first, &second);
    expect_met();
    expect_refusal_of(number, first.qp->qp_num, "refused_not_expected"); // they have met
    assert_int_equal(rnic_qp_modify(second.qp, QP_ERR), 0);
    expect_refusal_of(number, first.qp->qp_num, "refused_not_expected");
}

// A queue pair that waits for one that never comes: the port that its number names listens.
static void init_waiting(struct end *e)
{
    end_init_addressable(e, &device);
    assert_int_equal(meet(e, e->qp->qp_num - 1), 0);
}

static void test_strangers_request_is_not_kept_for_ever(void **state)
{
    struct end waiting;
    teardown(NULL);
    device_up(NS_PER_S);
    init_waiting(&waiting);
    expect_refusal_of(second.qp->qp_num, first.qp->qp_num, "kept_in_vain");
    assert_int_equal(device_count(&device, "kept"), 1);
    end_fini(&waiting);
}

// Once somebody was let go and before he asks again: who asks from then on is kept as long as a
// slow machine may take. Both ends have to hear of their meeting while one is kept.
static bool grows_patient(void)
{
    struct rnic *rnic = device.rnic;
    rnic_enter(rnic);
    const struct meeting_counters *counters = &rnic->meeting_counters;
    const bool is_let_go = counters->kept > 0 && counters->kept == counters->kept_in_vain;
    if (is_let_go) {
        rnic->config.mpa_timeout_ns = DEVICE_PATIENCE_NS;
    }
    rnic_leave(rnic, 0);
    return is_let_go;
}

static void test_who_is_let_go_asks_again(void **state)
{
    struct end waiting;
    teardown(NULL);
    device_up(200 * NS_PER_MS);
    init_waiting(&waiting);
    tell(&first, &second);
    while (!grows_patient()) {
        pause_ms(1);
    }
    assert_true(device_waits_for_count(&device, "kept", 2));
    tell(&second, &first);
    assert_true(device_waits_for_count(&device, "met", 2));
    end_fini(&waiting);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_number_names_a_port_of_this_host),
        CASE(test_more_queue_pairs_than_one_port_names),
        CASE(test_who_listens_is_told_first),
        CASE(test_who_connects_is_told_first),
        cmocka_unit_test_setup_teardown(test_addresses_may_be_of_ipv6, setup_ipv6, teardown),
        cmocka_unit_test_setup_teardown(test_peer_of_another_address_is_refused, setup_ipv6,
                                        teardown),
        CASE(test_request_that_comes_early_is_kept),
        CASE(test_kept_request_is_answered_in_rtr),
        CASE(test_what_is_posted_before_waits),
        CASE(test_reads_are_agreed_on),
        CASE(test_queue_pairs_meet_again_after_a_reset),
        CASE(test_end_of_the_peer_is_not_noticed_by_who_asks_nothing),
        CASE(test_farewell_is_said_when_no_lock_is_held),
        CASE(test_work_that_waits_in_vain_fails),
        CASE(test_destroying_one_that_waits_leaves_nothing),
        CASE(test_error_state_ends_the_waiting),
        CASE(test_wrong_calls_are_refused),
        CASE(test_strangers_are_refused_by_name),
        CASE(test_strangers_request_is_not_kept_for_ever),
        CASE(test_who_is_let_go_asks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
