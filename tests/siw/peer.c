#include "tests/siw/peer.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void peer_die(const char *format, ...)
{
    int error = errno;
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf(error ? ": %s\n" : "\n", strerror(error));
    exit(1);
}

bool peer_is_server(int argc, char **argv)
{
    if (argc < 4 || (strcmp(argv[1], "server") != 0 && strcmp(argv[1], "client") != 0)) {
        fprintf(stderr, "usage: %s server|client ADDR PORT [WORD]\n", argv[0]);
        exit(2);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(PEER_LIMIT_S);
    return strcmp(argv[1], "server") == 0;
}

static struct rdma_cm_id *endpoint_create(char **argv, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP};
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 8,
                .max_recv_wr = PEER_RECEIVE_COUNT,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    struct rdma_addrinfo *where;
    struct rdma_cm_id *id;

    if (rdma_getaddrinfo(argv[2], argv[3], &hints, &where))
        peer_die("rdma_getaddrinfo %s %s", argv[2], argv[3]);
    if (rdma_create_ep(&id, where, NULL, &attr))
        peer_die("rdma_create_ep %s %s", argv[2], argv[3]);
    rdma_freeaddrinfo(where);
    return id;
}

struct rdma_cm_id *peer_listen(char **argv, int backlog)
{
    struct rdma_cm_id *listener = endpoint_create(argv, RAI_PASSIVE);

    if (rdma_listen(listener, backlog))
        peer_die("rdma_listen");
    return listener;
}

static struct peer *peer_create(struct rdma_cm_id *id)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    unsigned i;

    peer->id = id;
    peer->mr =
        ibv_reg_mr(id->pd, peer, sizeof(*peer),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    if (!peer->mr)
        peer_die("ibv_reg_mr");
    for (i = 0; i < PEER_RECEIVE_COUNT; i++) {
        if (rdma_post_recv(id, NULL, &peer->inbox[i], PEER_MESSAGE_LEN, peer->mr))
            peer_die("rdma_post_recv");
    }
    return peer;
}

/* One read at a time each way is all that the programs use; on InfiniBand packets may be lost. */
static struct rdma_conn_param connection_param(void)
{
    return (struct rdma_conn_param){
        .initiator_depth = 1,
        .responder_resources = 1,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
}

struct peer *peer_accept(struct rdma_cm_id *listener)
{
    struct rdma_conn_param param = connection_param();
    struct rdma_cm_id *id;
    struct peer *peer;

    if (rdma_get_request(listener, &id))
        peer_die("rdma_get_request");
    peer = peer_create(id);
    if (rdma_accept(id, &param))
        peer_die("rdma_accept");
    return peer;
}

struct peer *peer_connect(char **argv)
{
    struct rdma_conn_param param = connection_param();
    struct peer *peer = peer_create(endpoint_create(argv, 0));

    if (rdma_connect(peer->id, &param))
        peer_die("rdma_connect");
    return peer;
}

static enum ibv_wc_status send_completion(struct peer *peer)
{
    struct ibv_wc wc;

    if (rdma_get_send_comp(peer->id, &wc) != 1)
        peer_die("rdma_get_send_comp");
    return wc.status;
}

static void message_post(struct peer *peer, const char *text, struct ibv_send_wr *wr)
{
    struct ibv_sge sge = {(uintptr_t)&peer->outbox, PEER_MESSAGE_LEN, peer->mr->lkey};
    struct ibv_send_wr *bad;

    snprintf(peer->outbox.text, sizeof(peer->outbox.text), "%s", text);
    wr->sg_list = &sge;
    wr->num_sge = 1;
    errno = ibv_post_send(peer->id->qp, wr, &bad);
    if (errno)
        peer_die("ibv_post_send \"%s\"", text);
}

static void message_await(struct peer *peer, const char *text)
{
    enum ibv_wc_status status = send_completion(peer);

    if (status != IBV_WC_SUCCESS)
        peer_die("sending \"%s\" completes with status %d", text, status);
}

void peer_send_last(struct peer *peer, const char *text, uint64_t to, uint32_t rkey, uint32_t len)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

    peer->outbox.to = htobe64(to);
    peer->outbox.rkey = htobe32(rkey);
    peer->outbox.len = htobe32(len);
    message_post(peer, text, &wr);
}

void peer_send(struct peer *peer, const char *text, uint64_t to, uint32_t rkey, uint32_t len)
{
    peer_send_last(peer, text, to, rkey, len);
    message_await(peer, text);
}

void peer_send_invalidate(struct peer *peer, const char *text, uint32_t revoked)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV,
                             .send_flags = IBV_SEND_SIGNALED,
                             .invalidate_rkey = revoked};

    /* siw's user library (rdma-core 44) takes the key from here, whatever the operation. */
    wr.wr.rdma.rkey = revoked;
    message_post(peer, text, &wr);
    message_await(peer, text);
}

const struct message *peer_receive(struct peer *peer, const char *text, struct ibv_wc *ret_wc)
{
    struct message *message = &peer->inbox[peer->received++ % PEER_RECEIVE_COUNT];
    struct ibv_wc wc;

    if (rdma_get_recv_comp(peer->id, &wc) != 1)
        peer_die("rdma_get_recv_comp");
    if (wc.status != IBV_WC_SUCCESS)
        peer_die("receiving \"%s\" completes with status %d", text, wc.status);
    if (wc.byte_len != PEER_MESSAGE_LEN || strcmp(message->text, text) != 0)
        peer_die("%u octets, \"%.40s\" in place of \"%s\"", wc.byte_len, message->text, text);
    message->to = be64toh(message->to);
    message->rkey = be32toh(message->rkey);
    message->len = be32toh(message->len);
    if (ret_wc)
        *ret_wc = wc;
    return message;
}

enum ibv_wc_status peer_access(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t to,
                               uint32_t rkey, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)peer->region, len, peer->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = to, .rkey = rkey},
    };
    struct ibv_send_wr *bad;

    errno = ibv_post_send(peer->id->qp, &wr, &bad);
    if (errno)
        peer_die("ibv_post_send of an RDMA operation");
    return send_completion(peer);
}

void peer_await_end(struct peer *peer)
{
    struct rdma_cm_event *event;
    struct ibv_wc wc;

    if (rdma_get_cm_event(peer->id->channel, &event))
        peer_die("rdma_get_cm_event");
    if (event->event != RDMA_CM_EVENT_DISCONNECTED)
        peer_die("%s in place of the connection's end", rdma_event_str(event->event));
    rdma_ack_cm_event(event);
    /* InfiniBand flushes nothing before the program has hung up too. */
    if (peer->id->verbs->device->transport_type == IBV_TRANSPORT_IB)
        rdma_disconnect(peer->id);
    if (rdma_get_recv_comp(peer->id, &wc) != 1)
        peer_die("rdma_get_recv_comp");
    if (wc.status != IBV_WC_WR_FLUSH_ERR)
        peer_die("a receive completes with status %d after the end", wc.status);
}

void peer_end(struct peer *peer)
{
    if (rdma_disconnect(peer->id))
        peer_die("rdma_disconnect");
}

void peer_region_fill(struct peer *peer, uint8_t octet)
{
    memset(peer->region, octet, PEER_REGION_LEN);
}

bool peer_region_is(const struct peer *peer, uint8_t octet)
{
    size_t i;

    for (i = 0; i < PEER_REGION_LEN; i++) {
        if (peer->region[i] != octet)
            return false;
    }
    return true;
}
