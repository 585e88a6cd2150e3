// 3: a connection by rdma_cm, and messages both ways: the server, or with HOST TEXT its client.
#include <ctype.h>
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_LEN = 64 };

static char incoming[MESSAGE_LEN], outgoing[MESSAGE_LEN];
static struct ibv_qp_init_attr queues = {
    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    .sq_sig_all = 1, // each work request ends in a completion
};

// An id is to connections what a socket is to TCP. This one has a queue pair.
static struct rdma_cm_id *id_create(const char *host, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *where;
    struct rdma_cm_id *id;
    if (rdma_getaddrinfo(host, "7471", &hints, &where) != 0) {
        err(1, "rdma_getaddrinfo");
    }
    if (rdma_create_ep(&id, where, NULL, &queues) != 0) {
        err(1, "rdma_create_ep");
    }
    rdma_freeaddrinfo(where);
    return id;
}

// Before there is a connection, so that no message can come too early.
static void receive_post(struct rdma_cm_id *id)
{
    struct ibv_mr *mr = rdma_reg_msgs(id, incoming, MESSAGE_LEN);
    if (mr == NULL || rdma_post_recv(id, NULL, incoming, MESSAGE_LEN, mr) != 0) {
        err(1, "rdma_post_recv");
    }
}

static void receive_await(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    if (rdma_get_recv_comp(id, &wc) <= 0 || wc.status != IBV_WC_SUCCESS) {
        errx(1, "nothing received");
    }
    printf("received %u bytes: %s\n", wc.byte_len, incoming);
}

static void send_and_await(struct rdma_cm_id *id)
{
    struct ibv_mr *mr = rdma_reg_msgs(id, outgoing, MESSAGE_LEN);
    struct ibv_wc wc;
    if (mr == NULL || rdma_post_send(id, NULL, outgoing, strlen(outgoing) + 1, mr, 0) != 0) {
        err(1, "rdma_post_send");
    }
    // The memory is the device's until the completion; only then may it be used again.
    if (rdma_get_send_comp(id, &wc) <= 0 || wc.status != IBV_WC_SUCCESS) {
        errx(1, "not sent");
    }
}

static void serve(void)
{
    struct rdma_cm_id *listener = id_create(NULL, RAI_PASSIVE), *id;
    if (rdma_listen(listener, 1) != 0 || rdma_get_request(listener, &id) != 0) {
        err(1, "rdma_listen");
    }
    receive_post(id);
    if (rdma_accept(id, NULL) != 0) {
        err(1, "rdma_accept");
    }
    receive_await(id);
    for (int i = 0; i < MESSAGE_LEN; i++) {
        outgoing[i] = (char)toupper(incoming[i]);
    }
    send_and_await(id);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        serve();
        return 0;
    }
    struct rdma_cm_id *id = id_create(argv[1], 0);
    snprintf(outgoing, sizeof outgoing, "%s", argv[2]);
    receive_post(id);
    if (rdma_connect(id, NULL) != 0) {
        err(1, "rdma_connect");
    }
    send_and_await(id);
    receive_await(id);
    rdma_disconnect(id);
    return 0;
}
