// Queue pairs that are connected by ibv_modify_qp, as programs for InfiniBand do it.
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "tests/verbs/meet.h"

static struct bench bench;
static struct ibv_qp *peer;
static union ibv_gid gid;

static int setup(void **state)
{
    bench_init(&bench);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    peer = ibv_create_qp(bench.pd, &attr);
    assert_non_null(peer);
    assert_int_equal(ibv_query_gid(bench.context, 1, 0, &gid), 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(ibv_destroy_qp(peer), 0);
    bench_fini(&bench);
    return 0;
}

static void connect_to(struct ibv_qp *qp, uint32_t qp_num, unsigned access)
{
    meet_connect(qp, &gid, qp_num, access, (struct meet_depths){1, 1});
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)bench.buf + 64, .rkey = bench.mr->rkey}};
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void message_goes_between_two_that_know_each_other(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 128, 8);
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    connect_to(bench.qp, peer->qp_num, 0);
    connect_to(peer, bench.qp->qp_num, 0);
    assert_int_equal(ibv_post_recv(peer, &wr, &bad), 0);
    memcpy(bench.buf, "a letter", 8);
    post(bench.qp, IBV_WR_SEND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    }
    assert_memory_equal(bench.buf + 128, "a letter", 8);
}

static void rights_are_those_of_the_queue_pair(void **state)
{
    connect_to(bench.qp, peer->qp_num, 0);
    connect_to(peer, bench.qp->qp_num, IBV_ACCESS_REMOTE_WRITE);
    post(bench.qp, IBV_WR_RDMA_READ); // the region would allow it
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_REM_ACCESS_ERR);
}

static enum ibv_wc_status read_between(struct meet_depths mine, struct meet_depths peers)
{
    meet_connect(bench.qp, &gid, peer->qp_num, MEET_EVERYTHING, mine);
    meet_connect(peer, &gid, bench.qp->qp_num, MEET_EVERYTHING, peers);
    post(bench.qp, IBV_WR_RDMA_READ);
    return bench_poll(bench.cq).status;
}

static void queue_pair_that_may_have_no_read_outstanding_refuses_one(void **state)
{
    assert_int_equal(read_between((struct meet_depths){0, 1}, (struct meet_depths){1, 1}),
                     IBV_WC_LOC_QP_OP_ERR);
}

static void peer_that_serves_no_read_refuses_one(void **state)
{
    assert_int_equal(read_between((struct meet_depths){1, 1}, (struct meet_depths){1, 0}),
                     IBV_WC_REM_INV_REQ_ERR);
}

static void depths_of_the_other_direction_do_not_matter(void **state)
{
    assert_int_equal(read_between((struct meet_depths){1, 0}, (struct meet_depths){0, 1}),
                     IBV_WC_SUCCESS);
}

static void reset_forgets_how_many_reads_were_allowed(void **state)
{
    assert_int_equal(read_between((struct meet_depths){0, 1}, (struct meet_depths){1, 1}),
                     IBV_WC_LOC_QP_OP_ERR);
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_RESET), 0);
    assert_int_equal(bench_modify(peer, IBV_QPS_RESET), 0);
    assert_int_equal(read_between((struct meet_depths){1, 1}, (struct meet_depths){1, 1}),
                     IBV_WC_SUCCESS);
}

static void atomic_on_octets_that_are_not_aligned_is_an_invalid_request(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.atomic = {.rkey = bench.mr->rkey}},
                       *bad;
    wr.wr.atomic.remote_addr = ((uintptr_t)bench.buf + 64) / 8 * 8 + 4;
    connect_to(bench.qp, peer->qp_num, MEET_EVERYTHING);
    connect_to(peer, bench.qp->qp_num, MEET_EVERYTHING);
    assert_int_equal(ibv_post_send(bench.qp, &wr, &bad), 0);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_REM_INV_REQ_ERR);
}

static void destination_is_told_again(void **state)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    connect_to(bench.qp, peer->qp_num, 0);
    assert_int_equal(ibv_query_qp(bench.qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
    assert_int_equal(attr.dest_qp_num, peer->qp_num);
    assert_memory_equal(&attr.ah_attr.grh.dgid, &gid, sizeof gid);
}

static union ibv_gid gid_of_other_family(void)
{
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw);
    return is_ipv4 ? (union ibv_gid){.raw = {0xfd, [15] = 1}}
                   : (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
}

static void destinations_that_cannot_be_are_refused(void **state)
{
    struct ibv_qp_attr good = meet_rtr_to(&gid, peer->qp_num), attr;
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_INIT), 0);
    assert_int_equal(ibv_modify_qp(bench.qp, &good, MEET_MASK_RTR & ~IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_modify_qp(bench.qp, &good, MEET_MASK_RTR & ~IBV_QP_DEST_QPN), EINVAL);
    assert_int_equal(ibv_modify_qp(bench.qp, &good, MEET_MASK_RTR & ~IBV_QP_STATE), EINVAL);
    attr = good;
    attr.ah_attr.is_global = 0; // a LID
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = good;
    attr.ah_attr.port_num = 2;
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = good;
    attr.ah_attr.grh.sgid_index = 1;
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = good;
    attr.ah_attr.grh.dgid.raw[0] = 0xff; // of a group
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr.ah_attr.grh.dgid = (union ibv_gid){.raw = {0xfe, 0x80, [15] = 1}}; // of some link
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr.ah_attr.grh.dgid = (union ibv_gid){0};
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr.ah_attr.grh.dgid = gid_of_other_family();
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    attr = good;
    attr.dest_qp_num = 1 << 24;
    assert_int_equal(ibv_modify_qp(bench.qp, &attr, MEET_MASK_RTR), EINVAL);
    assert_int_equal(ibv_modify_qp(bench.qp, &good, MEET_MASK_RTR), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(message_goes_between_two_that_know_each_other),
        CASE(rights_are_those_of_the_queue_pair),
        CASE(queue_pair_that_may_have_no_read_outstanding_refuses_one),
        CASE(peer_that_serves_no_read_refuses_one),
        CASE(depths_of_the_other_direction_do_not_matter),
        CASE(reset_forgets_how_many_reads_were_allowed),
        CASE(atomic_on_octets_that_are_not_aligned_is_an_invalid_request),
        CASE(destination_is_told_again),
        CASE(destinations_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
