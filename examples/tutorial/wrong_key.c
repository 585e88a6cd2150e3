// 5: waiting without polling, and what an error looks like: a client for the server of write_read
// that names a key of its own invention.
#include <endian.h>
#include <err.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

struct offer {
    uint64_t address;
    uint32_t rkey;
} __attribute__((packed));

static struct offer offer;
static char memory[64];
static struct ibv_qp_init_attr queues = {
    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    .sq_sig_all = 1,
};

static void must(int result, const char *what)
{
    if (result != 0) {
        err(1, "%s", what);
    }
}

// One completion. The descriptor is readable when there is one, so a program can wait for it
// together with its sockets and timers; the loop is what rdma_get_send_comp has inside.
static enum ibv_wc_status completion_await(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
    struct ibv_wc wc;
    void *context;
    must(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    while (ibv_poll_cq(cq, 1, &wc) == 0) { // after arming: nothing can slip through between
        struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
        if (poll(&readable, 1, 5000) <= 0) {
            errx(1, "no completion within 5 s");
        }
        must(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        must(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
    }
    return wc.status;
}

static const char *state_of(struct ibv_qp *qp)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return names[attr.qp_state];
}

static void completion_print(const char *what, struct rdma_cm_id *id)
{
    enum ibv_wc_status status = completion_await(id->send_cq, id->send_cq_channel);
    printf("%s: %s; the queue pair: %s\n", what, ibv_wc_status_str(status), state_of(id->qp));
}

int main(int argc, char **argv)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *where;
    struct rdma_cm_id *id;
    must(rdma_getaddrinfo(argc > 1 ? argv[1] : "127.0.0.1", "7471", &hints, &where), "address");
    must(rdma_create_ep(&id, where, NULL, &queues), "rdma_create_ep");
    struct ibv_mr *offered = rdma_reg_msgs(id, &offer, sizeof offer);
    struct ibv_mr *mr = rdma_reg_write(id, memory, sizeof memory);
    must(rdma_post_recv(id, NULL, &offer, sizeof offer, offered), "rdma_post_recv");
    must(rdma_connect(id, NULL), "rdma_connect");
    completion_await(id->recv_cq, id->recv_cq_channel);

    uint64_t address = be64toh(offer.address);
    uint32_t rkey = be32toh(offer.rkey), wrong = rkey ^ 0x5a5a5a00;
    must(rdma_post_read(id, NULL, memory, sizeof memory, mr, 0, address, wrong), "post");
    completion_print("Read by the wrong key", id);
    must(rdma_post_read(id, NULL, memory, sizeof memory, mr, 0, address, rkey), "post");
    completion_print("Read by the right key", id); // too late
    return 0;
}
