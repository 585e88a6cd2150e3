// Which events a program sees, in which order and with what in them.

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

// As rdma-core 57 has it.
static const enum rdma_cm_event_type USER_EVENT =
    (enum rdma_cm_event_type)(RDMA_CM_EVENT_TIMEWAIT_EXIT + 3);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                        uint64_t arg);

// What an event says, by the wire. Of a MAD a program hears all that there is room for, as Linux
// tells it, and a REJ has a reason (volume 1, section 12.6.7.2).
enum { REASON_INVALID_SERVICE_ID = 8, REASON_CONSUMER = 28 };

static const struct telling {
    uint8_t request_len, reply_len, rejection_len; // of 6, 6 and 8 that were said
    uint8_t request_max;
    int rejected, unserved; // statuses of REJECTED
} of_streams = {6, 6, 8, 255, -ECONNREFUSED, -ECONNREFUSED},
  of_packets = {56, 196, 148, 56, REASON_CONSUMER, REASON_INVALID_SERVICE_ID};
static const struct telling *told = &of_streams;

static void test_a_request_is_a_new_id_of_the_listener(void **state)
{
    struct loopback l = {0};
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    struct rdma_conn_param param = {.private_data = "hello",
                                    .private_data_len = 6,
                                    .initiator_depth = 3,
                                    .responder_resources = 5};
    assert_int_equal(rdma_connect(l.active.id, &param), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    assert_ptr_equal(event->listen_id, l.listener.id);
    assert_ptr_not_equal(l.passive, l.listener.id);
    assert_ptr_equal(l.passive->context, &l.listener);
    assert_ptr_equal(l.passive->channel, l.listener.channel);
    assert_ptr_equal(l.passive->verbs, l.active.id->verbs);
    assert_int_equal(event->param.conn.private_data_len, told->request_len);
    assert_string_equal(event->param.conn.private_data, "hello");
    assert_int_equal(event->param.conn.responder_resources, 3);
    assert_int_equal(event->param.conn.initiator_depth, 5);
    assert_int_equal(rdma_get_src_port(l.passive), rdma_get_src_port(l.listener.id));
    assert_int_equal(rdma_get_peer_addr(l.passive)->sa_family, AF_INET);
    rdma_ack_cm_event(event);
    loopback_close(&l);
}

static void test_both_sides_learn_of_the_connection(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_get_src_port(l.active.id), rdma_get_dst_port(l.passive));
    assert_int_equal(rdma_get_dst_port(l.active.id), rdma_get_src_port(l.passive));
    assert_false(event_waits(l.active.channel));
    assert_false(event_waits(l.listener.channel));
    loopback_close(&l);
}

static void test_the_answer_carries_private_data_and_zeros_behind_it(void **state)
{
    static const uint8_t zeros[250];
    struct loopback l;
    loopback_request(&l);
    qp_open(l.passive);
    struct rdma_conn_param param = {.private_data = "abcde", .private_data_len = 6};
    assert_int_equal(rdma_accept(l.passive, &param), 0);
    struct rdma_cm_event *event = event_expect(l.active.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->param.conn.private_data_len, told->reply_len);
    assert_string_equal(event->param.conn.private_data, "abcde");
    assert_memory_equal((const uint8_t *)event->param.conn.private_data + 6, zeros, sizeof zeros);
    rdma_ack_cm_event(event);
    loopback_close(&l);
}

static void test_as_much_private_data_as_there_may_be_arrive(void **state)
{
    uint8_t data[255];
    struct loopback l = {0};
    for (unsigned i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)i;
    }
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = (uint8_t)(told->request_max + 1)};
    if (param.private_data_len > 0) {
        assert_int_equal(rdma_connect(l.active.id, &param), -1);
        assert_int_equal(errno, EINVAL);
    }
    param.private_data_len = told->request_max;
    assert_int_equal(rdma_connect(l.active.id, &param), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    assert_int_equal(event->param.conn.private_data_len, told->request_max);
    assert_memory_equal(event->param.conn.private_data, data, told->request_max);
    rdma_ack_cm_event(event);
    loopback_close(&l);
}

static void test_a_rejection_carries_private_data(void **state)
{
    struct loopback l;
    loopback_request(&l);
    assert_int_equal(rdma_reject(l.passive, "no room", 8), 0);
    struct rdma_cm_event *event = event_expect(l.active.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, told->rejected);
    assert_int_equal(event->param.conn.private_data_len, told->rejection_len);
    assert_string_equal(event->param.conn.private_data, "no room");
    rdma_ack_cm_event(event);
    assert_false(event_waits(l.listener.channel));
    loopback_close(&l);
}

static void test_a_rejection_flushes_what_was_posted(void **state)
{
    struct loopback l;
    struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
    struct ibv_wc wc;
    memset(&l, 0, sizeof l);
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    assert_int_equal(ibv_post_recv(l.active.id->qp, &wr, &bad), 0);
    assert_int_equal(rdma_connect(l.active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_reject(l.passive, NULL, 0), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(ibv_poll_cq(l.active.id->recv_cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 7);
    loopback_close(&l);
}

static void test_nobody_listens(void **state)
{
    struct end bound, active = {0};
    bound_open(&bound);
    active_open(&active, rdma_get_src_port(bound.id));
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    assert_int_equal(event_take(active.channel, RDMA_CM_EVENT_REJECTED), told->unserved);
    assert_false(event_waits(active.channel));
    end_close(&active);
    end_close(&bound);
}

static void test_the_end_is_told_once_on_both_sides(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(l.passive), 0);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    assert_false(event_waits(l.active.channel));
    assert_false(event_waits(l.listener.channel));
    loopback_close(&l);
}

// Before anything of the peer can be here: the two may be told of a beginning then, or not.
static void test_who_accepts_and_disconnects_at_once_hears_of_the_end(void **state)
{
    for (unsigned i = 0; i < 20; i++) {
        struct loopback l;
        loopback_request(&l);
        qp_open(l.passive);
        assert_int_equal(rdma_accept(l.passive, NULL), 0);
        assert_int_equal(rdma_disconnect(l.passive), 0);
        event_take(l.active.channel, RDMA_CM_EVENT_ESTABLISHED);
        event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
        struct rdma_cm_event *event;
        assert_int_equal(rdma_get_cm_event(l.listener.channel, &event), 0);
        const enum rdma_cm_event_type first = event->event;
        rdma_ack_cm_event(event);
        if (first == RDMA_CM_EVENT_ESTABLISHED) {
            event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
        } else {
            assert_int_equal(first, RDMA_CM_EVENT_DISCONNECTED);
        }
        loopback_close(&l);
    }
}

static void test_a_destroyed_end_is_the_other_ones_disconnect(void **state)
{
    struct loopback l;
    loopback_open(&l);
    end_close(&l.active);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    loopback_close(&l);
}

static void test_a_channel_without_events_does_not_block_when_told_so(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rdma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    rdma_destroy_event_channel(channel);
}

static void test_destroying_an_id_withdraws_its_events(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_in addr = loopback_addr(htons(1));
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    assert_true(event_waits(active.channel));
    assert_int_equal(rdma_destroy_id(active.id), 0);
    active.id = NULL;
    assert_false(event_waits(active.channel));
    end_close(&active);
}

static void test_destroying_a_listener_ends_requests_nobody_took(void **state)
{
    struct loopback l = {0};
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    assert_int_equal(rdma_connect(l.active.id, NULL), 0);
    while (!event_waits(l.listener.channel)) {
    }
    assert_int_equal(rdma_destroy_id(l.listener.id), 0);
    l.listener.id = NULL;
    assert_false(event_waits(l.listener.channel));
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(l.active.channel, &event), 0);
    assert_int_not_equal(event->status, 0);
    rdma_ack_cm_event(event);
    loopback_close(&l);
}

static void *acknowledge(void *event)
{
    rdma_ack_cm_event(event);
    return NULL;
}

static void test_destroying_an_id_waits_for_its_acknowledgements(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_in addr = loopback_addr(htons(1));
    pthread_t thread;
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    struct rdma_cm_event *event = event_expect(active.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(pthread_create(&thread, NULL, acknowledge, event), 0);
    end_close(&active); // would free the id under the acknowledging thread, or never return
    pthread_join(thread, NULL);
}

static void test_a_migrated_id_takes_its_events_along(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct rdma_event_channel *other = rdma_create_event_channel();
    struct sockaddr_in addr = loopback_addr(htons(1));
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    assert_int_equal(rdma_migrate_id(active.id, other), 0);
    assert_ptr_equal(active.id->channel, other);
    assert_false(event_waits(active.channel));
    assert_int_equal(event_take(other, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    end_close(&active);
    rdma_destroy_event_channel(other);
}

static void test_a_migrated_listener_takes_its_requests_along(void **state)
{
    struct loopback l = {0};
    struct rdma_event_channel *other = rdma_create_event_channel();
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    assert_int_equal(rdma_connect(l.active.id, NULL), 0);
    while (!event_waits(l.listener.channel)) {
    }
    assert_int_equal(rdma_migrate_id(l.listener.id, other), 0);
    struct rdma_cm_event *event = event_expect(other, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    assert_ptr_equal(l.passive->channel, other);
    rdma_ack_cm_event(event);
    qp_open(l.passive);
    assert_int_equal(rdma_accept(l.passive, NULL), 0);
    assert_int_equal(event_take(other, RDMA_CM_EVENT_ESTABLISHED), 0);
    loopback_close(&l);
    rdma_destroy_event_channel(other);
}

static void *wait_for_event(void *channel)
{
    struct rdma_cm_event *event;
    rdma_get_cm_event(channel, &event);
    return NULL;
}

static void test_a_thread_that_waits_for_events_can_be_cancelled(void **state)
{
    struct end active = {.channel = rdma_create_event_channel()};
    struct sockaddr_in addr = loopback_addr(htons(1));
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, active.channel), 0);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    // It left no lock behind.
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    assert_int_equal(event_take(active.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    end_close(&active);
}

// Waits for the event of this type and destroys the id it is of, whose call may not be back yet.
struct destroyer {
    struct rdma_event_channel *channel;
    enum rdma_cm_event_type type;
};

static void *destroy_id_of_event(void *arg)
{
    const struct destroyer *d = arg;
    struct rdma_cm_event *event = event_expect(d->channel, d->type);
    struct rdma_cm_id *id = event->id;
    rdma_ack_cm_event(event);
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
    return NULL;
}

// ThreadSanitizer sees the calls that look at an id behind its event.
static void test_a_refused_id_may_go_before_connect_is_back(void **state)
{
    struct end nobody, active;
    bound_open(&nobody);
    active_open(&active, rdma_get_src_port(nobody.id));
    struct destroyer destroyer = {active.channel, RDMA_CM_EVENT_REJECTED};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, destroy_id_of_event, &destroyer), 0);
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    pthread_join(thread, NULL);
    rdma_destroy_event_channel(active.channel);
    end_close(&nobody);
}

static void test_an_established_id_may_go_before_accept_is_back(void **state)
{
    struct loopback l;
    loopback_request(&l);
    qp_open(l.passive);
    struct destroyer destroyer = {l.listener.channel, RDMA_CM_EVENT_ESTABLISHED};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, destroy_id_of_event, &destroyer), 0);
    assert_int_equal(rdma_accept(l.passive, NULL), 0);
    pthread_join(thread, NULL);
    end_close(&l.active);
    end_close(&l.listener);
}

static void test_every_event_has_a_name(void **state)
{
#define EXPECT(event) assert_string_equal(rdma_event_str(event), #event)
    EXPECT(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT(RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT(RDMA_CM_EVENT_ROUTE_RESOLVED);
    EXPECT(RDMA_CM_EVENT_ROUTE_ERROR);
    EXPECT(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT(RDMA_CM_EVENT_CONNECT_RESPONSE);
    EXPECT(RDMA_CM_EVENT_CONNECT_ERROR);
    EXPECT(RDMA_CM_EVENT_UNREACHABLE);
    EXPECT(RDMA_CM_EVENT_REJECTED);
    EXPECT(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT(RDMA_CM_EVENT_DISCONNECTED);
    EXPECT(RDMA_CM_EVENT_DEVICE_REMOVAL);
    EXPECT(RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT(RDMA_CM_EVENT_MULTICAST_ERROR);
    EXPECT(RDMA_CM_EVENT_ADDR_CHANGE);
    EXPECT(RDMA_CM_EVENT_TIMEWAIT_EXIT);
#undef EXPECT
    assert_string_equal(rdma_event_str(USER_EVENT), "RDMA_CM_EVENT_USER");
    assert_string_equal(rdma_event_str(USER_EVENT + 1), "UNKNOWN EVENT");
    assert_string_equal(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT");
}

static void test_a_program_writes_events_of_its_own(void **state)
{
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, &end, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_write_cm_event(end.id, USER_EVENT, -7, 0x123456789abcdef0), 0);
    struct rdma_cm_event *event = event_expect(end.channel, USER_EVENT);
    uint64_t arg;
    memcpy(&arg, &event->param, sizeof arg);
    assert_ptr_equal(event->id, end.id);
    assert_int_equal(event->status, -7);
    assert_true(arg == 0x123456789abcdef0);
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_write_cm_event(end.id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_false(event_waits(end.channel));
    end_close(&end);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "roce") == 0) {
        setenv("WEFT_WIRE", "roce", 1);
        roce_port_of_own();
        told = &of_packets;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_a_new_id_of_the_listener),
        cmocka_unit_test(test_both_sides_learn_of_the_connection),
        cmocka_unit_test(test_the_answer_carries_private_data_and_zeros_behind_it),
        cmocka_unit_test(test_as_much_private_data_as_there_may_be_arrive),
        cmocka_unit_test(test_a_rejection_carries_private_data),
        cmocka_unit_test(test_a_rejection_flushes_what_was_posted),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_the_end_is_told_once_on_both_sides),
        cmocka_unit_test(test_who_accepts_and_disconnects_at_once_hears_of_the_end),
        cmocka_unit_test(test_a_destroyed_end_is_the_other_ones_disconnect),
        cmocka_unit_test(test_a_channel_without_events_does_not_block_when_told_so),
        cmocka_unit_test(test_destroying_an_id_withdraws_its_events),
        cmocka_unit_test(test_destroying_a_listener_ends_requests_nobody_took),
        cmocka_unit_test(test_destroying_an_id_waits_for_its_acknowledgements),
        cmocka_unit_test(test_a_migrated_id_takes_its_events_along),
        cmocka_unit_test(test_a_migrated_listener_takes_its_requests_along),
        cmocka_unit_test(test_a_thread_that_waits_for_events_can_be_cancelled),
        cmocka_unit_test(test_a_refused_id_may_go_before_connect_is_back),
        cmocka_unit_test(test_an_established_id_may_go_before_accept_is_back),
        cmocka_unit_test(test_every_event_has_a_name),
        cmocka_unit_test(test_a_program_writes_events_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
