#include "tests/initiator/iscsi_target.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/oneshot.h>

#include "base/bytes.h"
#include "base/check.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"

enum { DEPTH = 64, PDU_LEN = ISCSI_HEADER_LEN + 1024, SPARE_LEN = 4096, MOVE_TRIES = 20000 };

struct iscsi_target {
    struct iscsi_target_wish wish;
    struct iscsi_target_counters counters;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id; // the connection of now
    struct weft_oneshot_calls oneshot;
    char port[8];
    uint8_t *disk, *memory; // PDUs that come, then one that goes
    struct ibv_mr *disk_mr, *mr;
    struct ibv_cq *recv_cq, *send_cq;
    uint32_t statsn, expcmdsn;
    bool is_gone;
    uint32_t held_tag, held_stag;
    pthread_t thread;
    atomic_bool is_stopping;
    atomic_uint strays;
};

static const char yes[] = "HeaderDigest=None\0DataDigest=None\0ImmediateData=No\0"
                          "X-invalid.weft.oneshot=Yes";

/* ---- PDUs that go ---------------------------------------------------------------------------- */

static uint8_t *pdu_out(struct iscsi_target *t, enum iscsi_opcode opcode, uint8_t flags,
                        uint32_t tag)
{
    uint8_t *pdu = t->memory + (size_t)DEPTH * PDU_LEN;
    memset(pdu, 0, PDU_LEN);
    iscsi_header_emit(pdu, opcode, flags, tag);
    put_be32(pdu + ISCSI_OFF_STATSN, t->statsn++);
    put_be32(pdu + ISCSI_OFF_EXPCMDSN, t->expcmdsn);
    put_be32(pdu + ISCSI_OFF_MAXCMDSN, t->expcmdsn + DEPTH / 2);
    return pdu;
}

static uint32_t data_put(uint8_t *pdu, const void *data, uint32_t len)
{
    put_be24(pdu + ISCSI_OFF_DATA_LEN, len);
    memcpy(pdu + ISCSI_HEADER_LEN, data, len);
    return ISCSI_HEADER_LEN + len + iscsi_pad_of(len);
}

static void is_posted(struct iscsi_target *t, int error)
{
    struct ibv_wc wc;
    for (unsigned i = 0; error == 0 && i < MOVE_TRIES && !atomic_load(&t->is_stopping); i++) {
        if (ibv_poll_cq(t->send_cq, 1, &wc) != 0) {
            t->is_gone |= wc.status != IBV_WC_SUCCESS;
            return;
        }
        poll(NULL, 0, i > 100);
    }
}

static void pdu_send(struct iscsi_target *t, uint8_t *pdu, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)pdu, .length = len, .lkey = t->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    is_posted(t, ibv_post_send(t->id->qp, &wr, &bad));
}

static void pdu_close(struct iscsi_target *t, uint8_t *pdu, uint32_t len, uint32_t stag)
{
    struct weft_oneshot_close_wr *bad,
        wr = {.send_flags = IBV_SEND_SIGNALED,
              .stag = stag,
              .reference = get_be32(pdu + ISCSI_OFF_ITT),
              .body = {.addr = (uintptr_t)pdu, .length = len, .lkey = t->mr->lkey}};
    is_posted(t, t->oneshot.close(t->id->qp, &wr, &bad));
}

/* ---- commands -------------------------------------------------------------------------------- */

static void move(struct iscsi_target *t, const uint8_t *pdu, uint32_t stag)
{
    bool is_read = (pdu[ISCSI_OFF_FLAGS] & ISCSI_CMD_READ) != 0;
    uint64_t at = get_be64(pdu + ISCSI_CMD_OFF_CDB + SCSI_CDB_LBA) * DISK_BLOCK_LEN;
    uint32_t len = get_be32(pdu + ISCSI_CMD_OFF_EXPECTED_LEN);
    struct ibv_sge sge = {.addr = (uintptr_t)t->disk + at,
                          .length = len + (is_read ? t->wish.spare_octets : 0),
                          .lkey = t->disk_mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = is_read ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {.rkey = stag}};
    is_posted(t, ibv_post_send(t->id->qp, &wr, &bad));
}

static void answer(struct iscsi_target *t, uint32_t tag, uint32_t stag)
{
    static const uint8_t sense[] = {0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0};
    bool has_stag = stag != 0;
    uint8_t *pdu = pdu_out(t, ISCSI_SCSI_RESPONSE, ISCSI_FINAL, tag);
    uint32_t len = ISCSI_HEADER_LEN;
    pdu[ISCSI_RSP_OFF_RESPONSE] = t->wish.response;
    pdu[ISCSI_RSP_OFF_STATUS] = t->wish.status;
    if (t->wish.residual != 0) {
        pdu[ISCSI_OFF_FLAGS] |= ISCSI_UNDERFLOW;
        put_be32(pdu + ISCSI_RSP_OFF_RESIDUAL, t->wish.residual);
    }
    if (t->wish.status != 0) {
        len = data_put(pdu, sense, sizeof sense);
    }
    len -= t->wish.cuts_short ? 4 : 0;
    if (has_stag && !t->wish.leaves_open && t->wish.wrong_tag == 0) {
        pdu_close(t, pdu, len, stag);
    } else {
        put_be32(pdu + ISCSI_OFF_ITT, tag + t->wish.wrong_tag);
        pdu_send(t, pdu, len);
    }
}

// Of two commands: the answer to the second closes what the first lent.
static bool is_crossed(struct iscsi_target *t, uint32_t tag, uint32_t stag)
{
    if (!t->wish.closes_another) {
        return false;
    }
    if (t->held_stag == 0) {
        t->held_tag = tag;
        t->held_stag = stag;
    } else {
        answer(t, tag, t->held_stag);
    }
    return true;
}

static void command(struct iscsi_target *t, const struct ibv_wc *wc, const uint8_t *pdu)
{
    uint32_t stag = 0, tag = get_be32(pdu + ISCSI_OFF_ITT);
    bool has_data = get_be32(pdu + ISCSI_CMD_OFF_EXPECTED_LEN) > 0;
    t->counters.commands++;
    t->counters.last_cmdsn = get_be32(pdu + ISCSI_OFF_CMDSN);
    t->expcmdsn = t->counters.last_cmdsn + 1;
    if (has_data && !t->oneshot.wc_advertised(wc, &stag)) {
        CHECK(wc->byte_len == ISCSI_HEADER_LEN + 4);
        stag = get_be32(pdu + ISCSI_HEADER_LEN);
    } else if (has_data) {
        CHECK(wc->byte_len == ISCSI_HEADER_LEN);
        t->counters.advertised++;
    }
    if (t->wish.ends) {
        uint8_t *message = pdu_out(t, ISCSI_ASYNC_MESSAGE, ISCSI_FINAL, ISCSI_NO_TAG);
        message[ISCSI_ASYNC_OFF_EVENT] = ISCSI_ASYNC_DROPS_ALL;
        pdu_send(t, message, ISCSI_HEADER_LEN);
        return;
    }
    if (t->wish.silent_after != 0 && t->counters.commands > t->wish.silent_after) {
        return;
    }
    if (has_data && !t->wish.closes_another && !t->wish.moves_nothing) {
        move(t, pdu, stag);
    }
    while (atomic_load(&t->strays) < t->wish.strays) {
        pdu_send(t, pdu_out(t, ISCSI_SCSI_RESPONSE, ISCSI_FINAL, 0x3fffff00), ISCSI_HEADER_LEN);
        atomic_fetch_add(&t->strays, 1);
    }
    if (t->wish.pings) {
        uint8_t *ping = pdu_out(t, ISCSI_NOP_IN, ISCSI_FINAL, ISCSI_NO_TAG);
        put_be32(ping + ISCSI_OFF_TTT, 77);
        t->statsn--;
        pdu_send(t, ping, ISCSI_HEADER_LEN);
    }
    if (!is_crossed(t, tag, stag)) {
        answer(t, tag, stag);
    }
}

/* ---- what else comes ------------------------------------------------------------------------- */

// Without that a session is not one over one-shot RDMA, and is refused (docs/iscsi.md).
static bool is_offered(const uint8_t *pdu)
{
    static const char key[] = "X-invalid.weft.oneshot=Yes";
    uint32_t len = get_be24(pdu + ISCSI_OFF_DATA_LEN);
    CHECK(len <= PDU_LEN - ISCSI_HEADER_LEN);
    return memmem(pdu + ISCSI_HEADER_LEN, len, key, sizeof key) != NULL;
}

static void login(struct iscsi_target *t, const uint8_t *pdu)
{
    t->statsn = get_be32(pdu + ISCSI_OFF_EXPSTATSN);
    t->expcmdsn = get_be32(pdu + ISCSI_OFF_CMDSN);
    uint8_t *out = pdu_out(t, ISCSI_LOGIN_RESPONSE, pdu[ISCSI_OFF_FLAGS], 0);
    bool is_own = t->wish.keys != NULL;
    put_be16(out + ISCSI_LOGIN_OFF_STATUS,
             is_offered(pdu) ? t->wish.login_status : ISCSI_MISSING_PARAMETER);
    t->counters.logins++;
    pdu_send(t, out,
             data_put(out, is_own ? t->wish.keys : yes, is_own ? t->wish.keys_len : sizeof yes));
}

static void on_pdu(struct iscsi_target *t, const struct ibv_wc *wc, const uint8_t *pdu)
{
    uint32_t tag = get_be32(pdu + ISCSI_OFF_ITT);
    switch (pdu[ISCSI_OFF_OPCODE] & ISCSI_OPCODE_MASK) {
    case ISCSI_LOGIN_REQUEST:
        login(t, pdu);
        break;
    case ISCSI_SCSI_COMMAND:
        command(t, wc, pdu);
        break;
    case ISCSI_TASK_REQUEST:
        t->counters.resets++;
        pdu_send(t, pdu_out(t, ISCSI_TASK_RESPONSE, ISCSI_FINAL, tag), ISCSI_HEADER_LEN);
        break;
    case ISCSI_LOGOUT_REQUEST:
        t->counters.logouts++;
        pdu_send(t, pdu_out(t, ISCSI_LOGOUT_RESPONSE, ISCSI_FINAL, tag), ISCSI_HEADER_LEN);
        break;
    case ISCSI_NOP_OUT:
        CHECK(get_be32(pdu + ISCSI_OFF_TTT) == 77);
        t->counters.pongs++;
        break;
    }
}

/* ---- the connection -------------------------------------------------------------------------- */

static void receive_post(struct iscsi_target *t, uint64_t index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)t->memory + index * PDU_LEN, .length = PDU_LEN, .lkey = t->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};
    ibv_post_recv(t->id->qp, &wr, &bad);
}

static void connection_close(struct iscsi_target *t)
{
    if (t->id == NULL) {
        return;
    }
    rdma_disconnect(t->id);
    rdma_destroy_qp(t->id);
    ibv_dereg_mr(t->mr);
    ibv_dereg_mr(t->disk_mr);
    ibv_destroy_cq(t->recv_cq);
    ibv_destroy_cq(t->send_cq);
    rdma_destroy_id(t->id);
    t->id = NULL;
}

static void connection_open(struct iscsi_target *t, struct rdma_cm_id *id)
{
    const struct weft_oneshot_field tag = {
        .offset = ISCSI_OFF_ITT, .length = 4, .flags = WEFT_ONESHOT_PRESENT};
    const struct weft_oneshot_attr oneshot = {.max_commands = DEPTH,
                                              .max_memory = 1,
                                              .request = tag,
                                              .answer = tag,
                                              .stag_offset = ISCSI_HEADER_LEN};
    connection_close(t);
    t->id = id;
    t->is_gone = false;
    t->recv_cq = ibv_create_cq(id->verbs, DEPTH + 1, NULL, NULL, 0);
    t->send_cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .recv_cq = t->recv_cq,
        .send_cq = t->send_cq,
        .cap = {.max_recv_wr = DEPTH, .max_send_wr = DEPTH, .max_recv_sge = 1, .max_send_sge = 1},
        .qp_type = IBV_QPT_RC};
    CHECK(rdma_create_qp(id, NULL, &attr) == 0);
    t->mr = ibv_reg_mr(id->pd, t->memory, (size_t)(DEPTH + 1) * PDU_LEN, IBV_ACCESS_LOCAL_WRITE);
    t->disk_mr = ibv_reg_mr(id->pd, t->disk, DISK_LEN + SPARE_LEN,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(t->mr != NULL && t->disk_mr != NULL && t->oneshot.create(id->qp, &oneshot) == 0);
    for (unsigned i = 0; i < DEPTH; i++) {
        receive_post(t, i);
    }
    struct rdma_conn_param param = {.initiator_depth = 16};
    CHECK(rdma_accept(id, &param) == 0);
}

static bool events_take(struct iscsi_target *t)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(t->channel, &event) != 0) {
        return false;
    }
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        struct rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        connection_open(t, id);
        return true;
    }
    t->is_gone |= event->event == RDMA_CM_EVENT_DISCONNECTED && event->id == t->id;
    rdma_ack_cm_event(event);
    return true;
}

static void *run(void *arg)
{
    struct iscsi_target *t = arg;
    while (!atomic_load(&t->is_stopping)) {
        struct ibv_wc wc;
        bool is_idle = !events_take(t);
        if (t->id != NULL && !t->is_gone && ibv_poll_cq(t->recv_cq, 1, &wc) > 0) {
            is_idle = false;
            t->is_gone |= wc.status != IBV_WC_SUCCESS;
            uint8_t pdu[PDU_LEN]; // the receive is posted before the initiator may send more
            memcpy(pdu, t->memory + wc.wr_id * PDU_LEN, sizeof pdu);
            if (!t->is_gone) {
                receive_post(t, wc.wr_id);
                on_pdu(t, &wc, pdu);
            }
        }
        poll(NULL, 0, is_idle);
    }
    return NULL;
}

struct iscsi_target *iscsi_target_start(const struct iscsi_target_wish *wish)
{
    struct iscsi_target *t = calloc(1, sizeof *t);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0x7f000001)};
    CHECK(t != NULL && weft_oneshot_find(&t->oneshot));
    t->wish = *wish;
    t->disk = calloc(1, DISK_LEN + SPARE_LEN);
    t->memory = calloc(DEPTH + 1, PDU_LEN);
    t->channel = rdma_create_event_channel();
    CHECK(t->disk != NULL && t->memory != NULL && t->channel != NULL);
    CHECK(fcntl(t->channel->fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(rdma_create_id(t->channel, &t->listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(t->listener, (struct sockaddr *)&address) == 0);
    CHECK(rdma_listen(t->listener, 4) == 0);
    snprintf(t->port, sizeof t->port, "%u", be16toh(rdma_get_src_port(t->listener)));
    CHECK(pthread_create(&t->thread, NULL, run, t) == 0);
    return t;
}

void iscsi_target_stop(struct iscsi_target *t)
{
    atomic_store(&t->is_stopping, true);
    pthread_join(t->thread, NULL);
    connection_close(t);
    rdma_destroy_id(t->listener);
    rdma_destroy_event_channel(t->channel);
    free(t->disk);
    free(t->memory);
    free(t);
}

const char *iscsi_target_port(const struct iscsi_target *t)
{
    return t->port;
}

unsigned iscsi_target_strays(const struct iscsi_target *t)
{
    return atomic_load(&t->strays);
}

uint8_t *iscsi_target_disk(struct iscsi_target *t)
{
    return t->disk;
}

const struct iscsi_target_counters *iscsi_target_counters(const struct iscsi_target *t)
{
    return &t->counters;
}
