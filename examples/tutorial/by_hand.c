// 2: two queue pairs of one process, connected by hand, and a message from one to the other.
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>

enum { PORT = 1, GID_INDEX = 0, DEPTH = 4 };

static char memory[2][64] = {"hello by hand"}; // what is sent; where it arrives

static struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    if (qp == NULL) {
        err(1, "ibv_create_qp");
    }
    return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
    errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
    if (errno != 0) {
        err(1, "ibv_modify_qp");
    }
}

// RESET to INIT: may be given receives. To RTR: knows its peer, receives. To RTS: sends.
static void qp_connect(struct ibv_qp *qp, uint32_t peer_qpn, union ibv_gid peer_gid)
{
    modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = PORT},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify(qp,
           (struct ibv_qp_attr){
               .qp_state = IBV_QPS_RTR,
               .path_mtu = IBV_MTU_1024,
               .dest_qp_num = peer_qpn,
               .min_rnr_timer = 12,
               .ah_attr = {.is_global = 1,
                           .port_num = PORT,
                           .grh = {.dgid = peer_gid, .sgid_index = GID_INDEX, .hop_limit = 64}},
           },
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(qp,
           (struct ibv_qp_attr){
               .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7},
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *device = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
    union ibv_gid gid;
    if (device == NULL || ibv_query_gid(device, PORT, GID_INDEX, &gid) != 0) {
        errx(1, "no RDMA device with a GID");
    }
    struct ibv_pd *pd = ibv_alloc_pd(device);
    struct ibv_cq *cq = ibv_create_cq(device, 2 * DEPTH, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp *from = qp_create(pd, cq);
    struct ibv_qp *to = qp_create(pd, cq);
    // Programs on two hosts would tell each other number and GID, over a socket of theirs.
    qp_connect(from, to->qp_num, gid);
    qp_connect(to, from->qp_num, gid);

    // First the receive, then the Send.
    struct ibv_sge sink = {(uintptr_t)memory[1], sizeof memory[1], mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 1, .sg_list = &sink, .num_sge = 1}, *bad_receive;
    struct ibv_sge source = {(uintptr_t)memory[0], sizeof memory[0], mr->lkey};
    struct ibv_send_wr send = {.wr_id = 2, .sg_list = &source, .num_sge = 1}, *bad_send;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED; // without it only a failure would end in a completion
    if (ibv_post_recv(to, &receive, &bad_receive) || ibv_post_send(from, &send, &bad_send)) {
        errx(1, "cannot post");
    }
    // The two completions come in any order, and say by wr_id whose they are.
    struct ibv_wc of[3];
    for (int done = 0; done < 2;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(cq, 1, &wc) > 0) {
            of[wc.wr_id] = wc;
            done++;
        }
    }
    printf("the Send: %s\nthe receive: %s, %u bytes: %s\n", ibv_wc_status_str(of[2].status),
           ibv_wc_status_str(of[1].status), of[1].byte_len, memory[1]);
    return 0;
}
