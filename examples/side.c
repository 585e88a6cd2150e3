#include "examples/side.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const way_names[WAY_COUNT] = {"mr", "mr-inv", "mw1", "mw2", "oneshot"};

void side_die(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, error != 0 ? ": %s\n" : "\n", strerror(error));
    exit(1);
}

struct rdma_cm_event *side_event(struct side *side, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(side->channel, &event) != 0) {
        side_die("rdma_get_cm_event");
    }
    if (event->event != type) {
        errno = -event->status;
        side_die("%s in place of %s", rdma_event_str(event->event), rdma_event_str(type));
    }
    return event;
}

bool side_address(const char *host, const char *port, struct sockaddr_in *ret)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return false;
    }
    memcpy(ret, found->ai_addr, sizeof *ret);
    freeaddrinfo(found);
    return true;
}

static void oneshot_prepare(struct side *side)
{
    const struct weft_oneshot_field cmd_sn = {
        .offset = ISCSI_OFF_CMD_SN, .length = ISCSI_NUMBER_LEN, .flags = WEFT_ONESHOT_PRESENT};
    const struct weft_oneshot_field task_tag = {
        .offset = ISCSI_OFF_TASK_TAG, .length = ISCSI_NUMBER_LEN, .flags = WEFT_ONESHOT_PRESENT};
    const struct weft_oneshot_attr attr = {
        .max_commands = side->depth,
        .max_memory = 64,
        .request = cmd_sn,
        .answer = task_tag,
        .stag_offset = MESSAGE_OFF_STAG,
    };
    side->has_oneshot = weft_oneshot_find(&side->oneshot);
    if (side->has_oneshot && side->oneshot.create(side->id->qp, &attr) != 0) {
        if (errno != EOPNOTSUPP) {
            side_die("weft_oneshot_create");
        }
        side->has_oneshot = false; // a queue pair that has no peer to close it
    }
}

void side_prepare(struct side *side, unsigned receive_count, bool has_send_cq)
{
    side->cq = ibv_create_cq(side->id->verbs, (int)(8 * side->depth + 16), NULL, NULL, 0);
    side->send_cq = has_send_cq
                        ? ibv_create_cq(side->id->verbs, (int)(4 * side->depth + 8), NULL, NULL, 0)
                        : side->cq;
    struct ibv_qp_init_attr attr = {
        .send_cq = side->send_cq,
        .recv_cq = side->cq,
        .cap = {.max_send_wr = 4 * side->depth + 8,
                .max_recv_wr = 2 * side->depth,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    if (side->cq == NULL || side->send_cq == NULL || rdma_create_qp(side->id, NULL, &attr) != 0) {
        side_die("a completion queue and a queue pair");
    }
    size_t len = 3 * (size_t)side->depth * MESSAGE_MAX_LEN;
    side->messages = calloc(1, len);
    side->mr = side->messages != NULL
                   ? ibv_reg_mr(side->id->pd, side->messages, len, IBV_ACCESS_LOCAL_WRITE)
                   : NULL;
    if (side->mr == NULL) {
        side_die("room for messages");
    }
    oneshot_prepare(side);
    struct ibv_recv_wr wr;
    struct ibv_sge sge;
    struct receives receives = {.wrs = &wr, .sges = &sge};
    for (unsigned i = 0; i < receive_count; i++) {
        receives_add(side, &receives, i);
        side_receives_post(side, &receives);
    }
}

void side_unprepare(struct side *side)
{
    rdma_destroy_qp(side->id);
    ibv_dereg_mr(side->mr);
    if (side->send_cq != side->cq) {
        ibv_destroy_cq(side->send_cq);
    }
    ibv_destroy_cq(side->cq);
    rdma_destroy_id(side->id);
    free(side->messages);
}

struct ibv_sge side_sge(const struct side *side, const uint8_t *message, uint32_t len)
{
    return (struct ibv_sge){.addr = (uintptr_t)message, .length = len, .lkey = side->mr->lkey};
}

struct ibv_send_wr *chain_add(struct chain *chain)
{
    unsigned i = chain->count++;
    chain->sges[i] = (struct ibv_sge){0};
    chain->wrs[i] = (struct ibv_send_wr){.sg_list = &chain->sges[i], .num_sge = 1};
    if (i > 0) {
        chain->wrs[i - 1].next = &chain->wrs[i];
    }
    return &chain->wrs[i];
}

void side_chain_post(struct side *side, struct chain *chain)
{
    struct ibv_send_wr *bad;
    if (chain->count == 0) {
        return;
    }
    chain->count = 0;
    side->calls++;
    errno = ibv_post_send(side->id->qp, chain->wrs, &bad);
    if (errno != 0) {
        side_die("ibv_post_send");
    }
}

void receives_add(struct side *side, struct receives *receives, uint64_t index)
{
    unsigned i = receives->count++;
    receives->sges[i] = side_sge(side, side_receive_message(side, index), MESSAGE_MAX_LEN);
    receives->wrs[i] =
        (struct ibv_recv_wr){.wr_id = index, .sg_list = &receives->sges[i], .num_sge = 1};
    if (i > 0) {
        receives->wrs[i - 1].next = &receives->wrs[i];
    }
}

void side_receives_post(struct side *side, struct receives *receives)
{
    struct ibv_recv_wr *bad;
    if (receives->count == 0) {
        return;
    }
    receives->count = 0;
    side->calls++;
    errno = ibv_post_recv(side->id->qp, receives->wrs, &bad);
    if (errno != 0) {
        side_die("ibv_post_recv");
    }
}

unsigned side_send_flags(struct side *side)
{
    if (++side->sends < side->depth) {
        return 0;
    }
    side->sends = 0;
    return IBV_SEND_SIGNALED;
}

void message_put_memory(uint8_t *message, struct target_memory memory)
{
    uint32_t stag[2] = {htobe32(memory.stag), 0};
    uint64_t to = htobe64(memory.to);
    memcpy(message + MESSAGE_OFF_STAG, stag, sizeof stag);
    memcpy(message + MESSAGE_OFF_TO, &to, sizeof to);
}

struct target_memory message_get_memory(const uint8_t *message)
{
    uint32_t stag;
    uint64_t to;
    memcpy(&stag, message + MESSAGE_OFF_STAG, sizeof stag);
    memcpy(&to, message + MESSAGE_OFF_TO, sizeof to);
    return (struct target_memory){.stag = be32toh(stag), .to = be64toh(to)};
}
