// A thousand connections at the same time, asked for all at once; messages by one after the other.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

enum { COUNT_MAX = 1000, MESSAGE_COUNT = 200, EMPTY_POLL_COUNT = 100 };

static struct rdma_cm_id *active_ids[COUNT_MAX], *passive_ids[COUNT_MAX];
static struct ibv_cq *cq;

// Two sockets each, and what the process has besides.
static unsigned count_allowed(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur / 2 > COUNT_MAX + 32 ? COUNT_MAX : (unsigned)(limit.rlim_cur / 2 - 32);
}

static void shared_cq_qp_open(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void all_ask(struct rdma_event_channel *channel, uint16_t port, unsigned count)
{
    struct sockaddr_in addr = loopback_addr(port);
    for (unsigned i = 0; i < count; i++) {
        struct rdma_cm_id *id;
        assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 0), 0);
        event_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
        assert_int_equal(rdma_resolve_route(id, 0), 0);
        event_take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
        cq = cq != NULL ? cq : ibv_create_cq(id->verbs, 4 * COUNT_MAX, NULL, NULL, 0);
        shared_cq_qp_open(id);
        active_ids[i] = id;
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(rdma_connect(active_ids[i], NULL), 0);
    }
}

static void all_are_accepted(struct rdma_event_channel *channel, unsigned count)
{
    unsigned requests = 0, established = 0;
    while (established < count) {
        struct rdma_cm_event *event;
        assert_int_equal(rdma_get_cm_event(channel, &event), 0);
        assert_int_equal(event->status, 0);
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            assert_true(requests < count);
            passive_ids[requests++] = event->id;
            shared_cq_qp_open(event->id);
            assert_int_equal(rdma_accept(event->id, NULL), 0);
        } else {
            assert_int_equal(event->event, RDMA_CM_EVENT_ESTABLISHED);
            established++;
        }
        rdma_ack_cm_event(event);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool poll_once(void)
{
    struct ibv_wc wc;
    int count = ibv_poll_cq(cq, 1, &wc);
    assert_true(count == 0 || (count == 1 && wc.status == IBV_WC_SUCCESS));
    return count == 1;
}

// A message without octets, whose receipt is the only completion that comes of it: how many looks
// it takes who spins, and has looked in vain before.
static unsigned looks_until_it_is_there(struct ibv_qp *qp)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    for (unsigned i = 0; i < EMPTY_POLL_COUNT; i++) {
        assert_false(poll_once());
    }
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    unsigned looks = 1;
    while (!poll_once()) {
        looks++;
    }
    return looks;
}

static int by_number(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static void messages_of_a_crowd_are_seen_at_once(unsigned count)
{
    unsigned looks[MESSAGE_COUNT];
    for (unsigned i = 0; i < count; i++) {
        struct ibv_recv_wr wr = {.wr_id = i}, *bad;
        assert_int_equal(ibv_post_recv(passive_ids[i]->qp, &wr, &bad), 0);
    }
    for (unsigned i = 0; i < MESSAGE_COUNT; i++) {
        looks[i] = looks_until_it_is_there(active_ids[i]->qp);
    }
    qsort(looks, MESSAGE_COUNT, sizeof looks[0], by_number);
    assert_in_range(looks[MESSAGE_COUNT / 2], 1, 4);
}

static void all_close(struct rdma_cm_id **ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct end end = {.id = ids[i]};
        end_close(&end);
    }
}

static void test_a_thousand_connections_at_once(void **state)
{
    struct end listener;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    unsigned count = count_allowed();
    listener_open(&listener);
    all_ask(channel, rdma_get_src_port(listener.id), count);
    all_are_accepted(listener.channel, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(event_take(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    }
    assert_true(count >= MESSAGE_COUNT);
    messages_of_a_crowd_are_seen_at_once(count);
    all_close(active_ids, count);
    for (unsigned i = 0; i < count; i++) {
        event_take(listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    }
    all_close(passive_ids, count);
    assert_false(event_waits(listener.channel));
    assert_int_equal(ibv_destroy_cq(cq), 0);
    end_close(&listener);
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    setenv("WEFT_LOCAL", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thousand_connections_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
