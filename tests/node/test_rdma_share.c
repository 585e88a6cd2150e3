// Connections over RDMA that an address may have: half of all, so that nobody shuts the others out;
// and how many all are, the operator says.

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "tests/node/rdma_node.h"

enum { SHARE = 256, SHARE_WISHED = 2, TIMEOUT_MS = 5000 };

static struct rdma_cm_id *ids[SHARE + 2];
static struct ibv_cq *cq;

static struct sockaddr_in address(const char *host, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, host, &addr.sin_addr), 1);
    return addr;
}

// One more, from there. False: it was rejected.
static bool connect_from(const char *host, uint16_t port, struct rdma_cm_id **ret)
{
    struct sockaddr_in from = address(host, 0), to = address("127.0.0.1", port);
    struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
    assert_int_equal(rdma_create_id(NULL, ret, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_resolve_addr(*ret, (struct sockaddr *)&from, (struct sockaddr *)&to, TIMEOUT_MS), 0);
    assert_int_equal(rdma_resolve_route(*ret, TIMEOUT_MS), 0);
    cq = cq != NULL ? cq : ibv_create_cq((*ret)->verbs, 1024, NULL, NULL, 0);
    assert_non_null(cq);
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    assert_int_equal(rdma_create_qp(*ret, NULL, &attr), 0);
    return rdma_connect(*ret, &param) == 0;
}

static void leave_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rdma_destroy_qp(ids[i]);
        rdma_destroy_id(ids[i]);
    }
    ibv_destroy_cq(cq);
    cq = NULL;
}

// A node with that option, of whose connections an address has so many.
static void expect_share(const char *option, unsigned share)
{
    struct node node = {0};
    node_spawn(&node, "--iscsi-rdma=127.0.0.1:0", "iscsi+rdma://127.0.0.1:", "ram:1M", option);
    for (unsigned i = 0; i < share; i++) {
        if (!connect_from("127.0.0.1", node.port, &ids[i])) {
            fail_msg("connection %u of %u: %s", i + 1, share, strerror(errno));
        }
    }
    assert_false(connect_from("127.0.0.1", node.port, &ids[share]));
    assert_true(connect_from("127.0.0.2", node.port, &ids[share + 1]));
    leave_all(share + 2);
    node_stop(&node);
}

static void an_address_has_half_of_the_connections(void **state)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_share(NULL, SHARE);
}

static void the_operator_says_how_many_there_are(void **state)
{
    expect_share("--rdma-connections=4", SHARE_WISHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_half_of_the_connections),
        cmocka_unit_test(the_operator_says_how_many_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
