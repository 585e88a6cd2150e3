// Hosts of NVMe/RDMA that are connected and nobody's: ten seconds, however much they say meanwhile,
// and however patient the node is with those that it knows.
#include "tests/node/nvme_host.h"

enum { QUEUE = 16, EARLY_S = 8, PAUSE_US = 2000000 };

static const char no_connect[] = "no Connect has succeeded in time";

static struct node node;

static int start(void **state)
{
    node_start(&node, "ram:1M");
    return 0;
}

static int stop(void **state)
{
    node_stop(&node);
    return 0;
}

// Each of its Connects is refused.
static bool is_refused_again(struct host *host)
{
    uint8_t cqe[NVME_CQE_LEN];
    host_connect_fill(host, "nqn.2026-11.test:nosuch", 0, 31, NVME_CNTLID_DYNAMIC);
    host_send(host, NVME_SQE_LEN);
    if (!host_answer(host, cqe)) {
        return false;
    }
    assert_int_equal(cqe_status(cqe), NVME_CONNECT_INVALID);
    return true;
}

static void who_has_not_connected_after_ten_seconds_is_ended_and_nobody_else(void **state)
{
    struct host silent, refused;
    struct session session;
    struct host_request request = host_request(0, 32);
    time_t began = time(NULL);
    session_begin(&session, &node, QUEUE);
    assert_int_equal(host_meet(&silent, node.port, &request), 0);
    assert_int_equal(host_meet(&refused, node.port, &request), 0);
    while (is_refused_again(&refused)) {
        assert_true(time(NULL) < began + HOST_LIMIT_S);
        host_io(&session.io, NVME_IO_READ, 0, 512);
        assert_int_equal(host_run(&session.io, NVME_SQE_LEN, NULL), NVME_OK);
        usleep(PAUSE_US);
    }
    assert_true(time(NULL) >= began + EARLY_S);
    assert_false(host_wait(&silent));
    node_await(&node, "stalled", 2);
    const char *first = strstr(node_said(&node), no_connect);
    assert_true(first != NULL && strstr(first + 1, no_connect) != NULL);
    host_leave(&silent);
    host_leave(&refused);
    host_io(&session.io, NVME_IO_READ, 0, 512); // as long after its own Connect, too
    assert_int_equal(host_run(&session.io, NVME_SQE_LEN, NULL), NVME_OK);
    session_end(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_not_connected_after_ten_seconds_is_ended_and_nobody_else),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
