#include "tests/conformance/program.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct program program;

/* ---- memory ---------------------------------------------------------------------------------- */

void program_open(struct ibv_context *context, struct ibv_comp_channel *channel, int cq_len,
                  size_t memory_len)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    program.pd = ibv_alloc_pd(context);
    program.foreign_pd = ibv_alloc_pd(context);
    program.cq = ibv_create_cq(context, cq_len, NULL, channel, 0);
    program.memory = calloc(1, memory_len);
    program.mr = ibv_reg_mr(program.pd, program.memory, memory_len, all);
    program.closed = ibv_reg_mr(program.pd, program.memory, memory_len, IBV_ACCESS_LOCAL_WRITE);
    program.foreign = ibv_reg_mr(program.foreign_pd, program.memory, memory_len, all);
    assert_non_null(program.foreign);
}

void program_close(void)
{
    assert_int_equal(ibv_dereg_mr(program.foreign), 0);
    assert_int_equal(ibv_dereg_mr(program.closed), 0);
    assert_int_equal(ibv_dereg_mr(program.mr), 0);
    assert_int_equal(ibv_destroy_cq(program.cq), 0);
    assert_int_equal(ibv_dealloc_pd(program.foreign_pd), 0);
    assert_int_equal(ibv_dealloc_pd(program.pd), 0);
    free(program.memory);
}

/* ---- work ------------------------------------------------------------------------------------ */

void program_post_receive(struct ibv_qp *qp, uint64_t wr_id, uint32_t offset, uint32_t len)
{
    struct ibv_sge sge = {.addr = at(offset), .length = len, .lkey = program.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
}

struct ibv_send_wr work(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t to)
{
    struct ibv_send_wr wr = {.opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = sge,
                             .num_sge = 1,
                             .imm_data = htonl(0x12345678)};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = to;
        wr.wr.atomic.rkey = PEER_KEY;
        wr.wr.atomic.compare_add = 0x1122334455667788;
        wr.wr.atomic.swap = 0x99aabbccddeeff00;
    } else {
        wr.wr.rdma.remote_addr = to;
        wr.wr.rdma.rkey = PEER_KEY;
    }
    if (opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = PEER_KEY;
    }
    return wr;
}

void program_post_wr(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(qp, wr, &bad), 0);
}

void program_post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len,
                  uint64_t to)
{
    struct ibv_sge sge = {.addr = at(offset), .length = len, .lkey = program.mr->lkey};
    struct ibv_send_wr wr = work(opcode, &sge, to);
    program_post_wr(qp, &wr);
}

struct ibv_wc poll_one(void)
{
    struct ibv_wc wc;
    const time_t until = time(NULL) + PATIENCE_S;
    while (ibv_poll_cq(program.cq, 1, &wc) == 0) {
        assert_true(time(NULL) < until);
        usleep(100); // others wait for the processor too
    }
    return wc;
}

void expect_success(enum ibv_wc_opcode opcode)
{
    const struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
}
