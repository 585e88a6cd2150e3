// Commands and their answers on a queue pair. Rooms for PDUs that come are as many as commands may
// be outstanding, and some; each command posts again those that have become free, so that there is
// always one for each answer.

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "initiator/iscsi/agent.h"
#include "initiator/iscsi/iscsi.h"
#include "initiator/iscsi/session.h"

enum { WC_BATCH = 32, ROOM_MAX = ISCSI_INITIATOR_DEPTH_MAX + SPARE_RECEIVES, CHAIN_MAX = 16 };

STATIC_CHECK(ISCSI_INITIATOR_DEPTH_MAX <= 1 << TAG_INDEX_BITS);

// wr_id: a Send, or the room of a receive; the last room is the login's.
static const uint64_t wr_send = UINT64_MAX;

static uint8_t *login_words(const struct iscsi_initiator *initiator)
{
    return initiator->memory;
}

static uint8_t *room_at(const struct iscsi_initiator *initiator, unsigned index)
{
    return initiator->memory + LOGIN_LEN +
           (index < initiator->room_count ? LOGIN_LEN + (size_t)index * ROOM_LEN : 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool iscsi_watch(const struct iscsi_initiator *initiator, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           epoll_ctl(initiator->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void iscsi_lose(struct iscsi_initiator *initiator, const char *format, ...)
{
    va_list arguments;
    if (initiator->state == ISCSI_INITIATOR_LOST) {
        return;
    }
    va_start(arguments, format);
    why_say_args(&initiator->why, format, arguments);
    va_end(arguments);
    initiator->state = ISCSI_INITIATOR_LOST;
    iscsi_queue_end(initiator);
}

static int memory_take(struct iscsi_initiator *initiator)
{
    size_t len = 2 * (size_t)LOGIN_LEN + (size_t)initiator->room_count * ROOM_LEN;
    initiator->memory = calloc(1, len);
    if (initiator->memory == NULL) {
        return -ENOMEM;
    }
    initiator->mr = ibv_reg_mr(initiator->pd, initiator->memory, len, IBV_ACCESS_LOCAL_WRITE);
    return initiator->mr != NULL ? 0 : -errno;
}

static int device_take(struct iscsi_initiator *initiator)
{
    struct ibv_context *verbs = initiator->id->verbs;
    initiator->pd = ibv_alloc_pd(verbs);
    initiator->completions = ibv_create_comp_channel(verbs);
    if (initiator->pd == NULL || initiator->completions == NULL) {
        return -errno;
    }
    initiator->cq =
        ibv_create_cq(verbs, (int)(4 * initiator->room_count), NULL, initiator->completions, 0);
    if (initiator->cq == NULL || !iscsi_watch(initiator, initiator->completions->fd)) {
        return -errno;
    }
    return memory_take(initiator);
}

// Both ends find a command by its task tag, which PDUs have already.
static int oneshot_prepare(struct iscsi_initiator *initiator)
{
    const struct weft_oneshot_field tag = {
        .offset = ISCSI_OFF_ITT, .length = sizeof(uint32_t), .flags = WEFT_ONESHOT_PRESENT};
    const struct weft_oneshot_attr attr = {.max_commands = initiator->depth,
                                           .max_memory = 1,
                                           .request = tag,
                                           .answer = tag,
                                           .stag_offset = ISCSI_HEADER_LEN};
    return weft_oneshot_find(&initiator->oneshot)
               ? -initiator->oneshot.create(initiator->id->qp, &attr)
               : -EOPNOTSUPP;
}

int iscsi_queue_create(struct iscsi_initiator *initiator)
{
    int error = device_take(initiator);
    if (error != 0) {
        return error;
    }
    struct ibv_qp_init_attr attr = {
        .send_cq = initiator->cq,
        .recv_cq = initiator->cq,
        .cap = {.max_send_wr = 2 * initiator->room_count,
                .max_recv_wr = initiator->room_count + 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = COMMAND_LEN},
        .qp_type = IBV_QPT_RC,
    };
    if (rdma_create_qp(initiator->id, initiator->pd, &attr) != 0) {
        return -errno;
    }
    return oneshot_prepare(initiator);
}

void iscsi_queue_end(struct iscsi_initiator *initiator)
{
    if (initiator->id != NULL && initiator->id->qp != NULL) {
        rdma_disconnect(initiator->id);
        rdma_destroy_qp(initiator->id);
    }
}

void iscsi_queue_destroy(struct iscsi_initiator *initiator)
{
    iscsi_queue_end(initiator);
    if (initiator->mr != NULL) {
        ibv_dereg_mr(initiator->mr);
    }
    if (initiator->cq != NULL) {
        ibv_destroy_cq(initiator->cq);
    }
    if (initiator->completions != NULL) {
        ibv_destroy_comp_channel(initiator->completions);
    }
    if (initiator->pd != NULL) {
        ibv_dealloc_pd(initiator->pd);
    }
    free(initiator->memory);
    initiator->mr = NULL;
    initiator->cq = NULL;
    initiator->completions = NULL;
    initiator->pd = NULL;
    initiator->memory = NULL;
}

/* ---- receives -------------------------------------------------------------------------------- */

struct receives {
    struct ibv_recv_wr wrs[CHAIN_MAX];
    struct ibv_sge sges[CHAIN_MAX];
    unsigned count;
};

// A chain of the rooms that are free, so many at a time. NULL: none is.
static struct ibv_recv_wr *receives_fill(const struct iscsi_initiator *initiator,
                                         struct receives *ret)
{
    ret->count = initiator->free_room_count < CHAIN_MAX ? initiator->free_room_count : CHAIN_MAX;
    for (unsigned i = 0; i < ret->count; i++) {
        unsigned room = initiator->free_rooms[initiator->free_room_count - 1 - i];
        ret->sges[i] = (struct ibv_sge){.addr = (uintptr_t)room_at(initiator, room),
                                        .length = ROOM_LEN,
                                        .lkey = initiator->mr->lkey};
        ret->wrs[i] = (struct ibv_recv_wr){.wr_id = room,
                                           .sg_list = &ret->sges[i],
                                           .num_sge = 1,
                                           .next = i + 1 < ret->count ? &ret->wrs[i + 1] : NULL};
    }
    return ret->count > 0 ? ret->wrs : NULL;
}

// All that are free.
static int receives_post(struct iscsi_initiator *initiator)
{
    struct receives receives;
    while (receives_fill(initiator, &receives) != NULL) {
        struct ibv_recv_wr *bad;
        int error = ibv_post_recv(initiator->id->qp, receives.wrs, &bad);
        if (error != 0) {
            return -error;
        }
        initiator->free_room_count -= receives.count;
    }
    return 0;
}

static int login_receive_post(struct iscsi_initiator *initiator)
{
    struct ibv_sge sge = {.addr = (uintptr_t)room_at(initiator, initiator->room_count),
                          .length = LOGIN_LEN,
                          .lkey = initiator->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = initiator->room_count, .sg_list = &sge, .num_sge = 1};
    return -ibv_post_recv(initiator->id->qp, &wr, &bad);
}

/* ---- sends ----------------------------------------------------------------------------------- */

// Every so many Sends, one says when it is done: else the send queue would never empty.
static unsigned send_flags(const struct iscsi_initiator *initiator)
{
    bool is_due = initiator->unsignalled + 1 >= initiator->depth / 2 + 1;
    return is_due ? IBV_SEND_INLINE | IBV_SEND_SIGNALED : IBV_SEND_INLINE;
}

static void sent(struct iscsi_initiator *initiator, unsigned flags)
{
    bool is_signalled = (flags & IBV_SEND_SIGNALED) != 0;
    initiator->unsignalled = is_signalled ? 0 : initiator->unsignalled + 1;
    initiator->counters.sends++;
}

static int send_error(int error)
{
    return error == ENOMEM ? -EAGAIN : -error;
}

static int pdu_send(struct iscsi_initiator *initiator, const uint8_t *pdu, uint32_t len,
                    unsigned flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)pdu, .length = len, .lkey = initiator->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = wr_send,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = flags};
    int error = send_error(ibv_post_send(initiator->id->qp, &wr, &bad));
    if (error == 0) {
        sent(initiator, flags);
    }
    return error;
}

int iscsi_queue_send(struct iscsi_initiator *initiator, const uint8_t *pdu)
{
    return pdu_send(initiator, pdu, ISCSI_HEADER_LEN, send_flags(initiator));
}

int iscsi_queue_login(struct iscsi_initiator *initiator)
{
    uint8_t *words = login_words(initiator);
    uint32_t len = iscsi_session_login_emit(&initiator->session, words, LOGIN_LEN);
    int error = len > 0 ? login_receive_post(initiator) : -EMSGSIZE;
    return error == 0 ? pdu_send(initiator, words, len, IBV_SEND_SIGNALED) : error;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int command_lend(struct iscsi_initiator *initiator, struct iscsi_slot *slot, uint8_t *pdu)
{
    const struct iscsi_request *request = slot->request;
    const struct iovec memory = {request->data, request->data_len};
    bool is_write = request->direction == ISCSI_TO_TARGET;
    struct receives receives;
    struct weft_oneshot_wr *bad,
        wr = {.wr_id = wr_send,
              .send_flags = send_flags(initiator),
              .access = is_write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
              .reference = slot->tag,
              .memory = &memory,
              .memory_count = 1,
              .body = {.addr = (uintptr_t)pdu, .length = initiator->command_len},
              .answer = receives_fill(initiator, &receives)};
    int error = send_error(initiator->oneshot.post(initiator->id->qp, &wr, &bad));
    if (error == 0) {
        initiator->free_room_count -= receives.count;
        slot->stag = wr.stag;
        slot->is_lent = true;
        initiator->counters.oneshots++;
        sent(initiator, wr.send_flags);
    }
    return error;
}

static int command_send(struct iscsi_initiator *initiator, struct iscsi_slot *slot)
{
    static const uint8_t flags[] = {
        [ISCSI_FROM_TARGET] = ISCSI_CMD_READ, [ISCSI_TO_TARGET] = ISCSI_CMD_WRITE};
    const struct iscsi_request *request = slot->request;
    bool has_data = request->direction != ISCSI_NO_DATA && request->data_len > 0;
    uint8_t pdu[COMMAND_LEN] = {0};
    iscsi_session_command_emit(&initiator->session, pdu, slot->tag, request->cdb,
                               has_data ? flags[request->direction] : 0,
                               has_data ? request->data_len : 0);
    if (has_data && request->direction == ISCSI_FROM_TARGET) {
        memset(request->data, 0, request->data_len); // nobody says which octets have come
    }
    if (has_data) {
        return command_lend(initiator, slot, pdu);
    }
    int error = receives_post(initiator);
    return error == 0 ? iscsi_queue_send(initiator, pdu) : error;
}

static void slot_release(struct iscsi_initiator *initiator, struct iscsi_slot *slot)
{
    slot->request = NULL;
    slot->is_lent = false;
    list_push_head(&initiator->free, &slot->link);
}

int iscsi_initiator_submit(struct iscsi_initiator *initiator, struct iscsi_request *request)
{
    if (initiator->state != ISCSI_INITIATOR_READY || initiator->is_logged_out) {
        return -ENOTCONN;
    }
    struct list_link *link =
        iscsi_session_may_send(&initiator->session) ? list_pop_head(&initiator->free) : NULL;
    if (link == NULL) {
        return -EAGAIN;
    }
    struct iscsi_slot *slot = LIST_ENTRY(link, struct iscsi_slot, link);
    slot->request = request;
    slot->tag = (slot->tag + (1 << TAG_INDEX_BITS)) % TAG_RESET; // a late answer is known
    int error = command_send(initiator, slot);
    if (error != 0) {
        slot_release(initiator, slot);
        return error;
    }
    iscsi_session_command_sent(&initiator->session);
    initiator->counters.commands++;
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void slot_revoke(struct iscsi_initiator *initiator, struct iscsi_slot *slot)
{
    if (slot->is_lent) {
        initiator->oneshot.revoke(initiator->id->qp, slot->stag);
        initiator->counters.revokes++;
    }
    slot->is_lent = false;
}

// The slot is given back before the request ends, whose owner may submit at once.
static void slot_end(struct iscsi_initiator *initiator, struct iscsi_slot *slot)
{
    struct iscsi_request *request = slot->request;
    slot_revoke(initiator, slot);
    slot_release(initiator, slot);
    request->on_end(request);
}

// The answer has ended the memory that the command lent. What it left open is taken back before the
// request ends.
static void close_take(struct iscsi_initiator *initiator, struct iscsi_slot *slot,
                       const struct ibv_wc *wc)
{
    uint32_t stag = 0;
    bool closes = initiator->oneshot.wc_closed(wc, &stag);
    if (!closes && (wc->wc_flags & IBV_WC_WITH_INV) != 0) {
        stag = wc->invalidated_rkey;
        closes = true;
    }
    if (slot->is_lent && closes && stag == slot->stag) {
        slot->is_lent = false;
        initiator->counters.closes++;
    }
}

// The command with this tag. NULL: none.
static struct iscsi_slot *slot_of(struct iscsi_initiator *initiator, uint32_t tag)
{
    unsigned index = tag & ((1 << TAG_INDEX_BITS) - 1);
    struct iscsi_slot *slot = index < initiator->depth ? &initiator->slots[index] : NULL;
    return slot != NULL && slot->request != NULL && slot->tag == tag ? slot : NULL;
}

static void answer_take(struct iscsi_initiator *initiator, const struct iscsi_heard *heard,
                        const struct ibv_wc *wc)
{
    struct iscsi_slot *slot = slot_of(initiator, heard->itt);
    if (slot == NULL) {
        initiator->counters.strange++;
        return;
    }
    struct iscsi_request *request = slot->request;
    if (heard->residual > request->data_len) {
        iscsi_lose(initiator, "the target says that more did not move than there was");
        return;
    }
    close_take(initiator, slot, wc);
    request->error = heard->response == 0 ? 0 : -EREMOTEIO;
    request->status = heard->status;
    request->residual = heard->residual;
    request->sense_len = heard->sense_len < SCSI_SENSE_MAX ? heard->sense_len : SCSI_SENSE_MAX;
    if (request->sense_len > 0) {
        memcpy(request->sense, heard->sense, request->sense_len);
    }
    slot_end(initiator, slot);
}

// The target touches the memory of what it has aborted no more.
static void reset_take(struct iscsi_initiator *initiator, const struct iscsi_heard *heard)
{
    void (*on_reset)(void *context, uint8_t response) = initiator->on_reset;
    if (heard->itt != TAG_RESET || on_reset == NULL) {
        initiator->counters.strange++;
        return;
    }
    initiator->on_reset = NULL;
    for (unsigned i = 0; heard->response == ISCSI_TASK_COMPLETE && i < initiator->depth; i++) {
        if (initiator->slots[i].request != NULL) {
            initiator->slots[i].request->error = -ECANCELED;
            slot_end(initiator, &initiator->slots[i]);
        }
    }
    on_reset(initiator->reset_context, heard->response);
}

static void login_take(struct iscsi_initiator *initiator, const struct iscsi_heard *heard)
{
    struct why why;
    if (initiator->state != ISCSI_INITIATOR_BEGINS) {
        initiator->counters.strange++;
        return;
    }
    switch (iscsi_session_login_take(&initiator->session, heard, &why)) {
    case ISCSI_LOGGED_IN:
        if (receives_post(initiator) != 0) {
            iscsi_lose(initiator, "no receives");
        } else {
            initiator->state = ISCSI_INITIATOR_READY;
        }
        break;
    case ISCSI_LOGIN_GOES_ON:
        if (iscsi_queue_login(initiator) != 0) {
            iscsi_lose(initiator, "the login could not go on");
        }
        break;
    default:
        iscsi_lose(initiator, "%s", why.text);
    }
}

static void pdu_take(struct iscsi_initiator *initiator, const struct ibv_wc *wc)
{
    uint8_t pong[ISCSI_HEADER_LEN];
    struct iscsi_heard heard = iscsi_session_hear(
        &initiator->session, room_at(initiator, (unsigned)wc->wr_id), wc->byte_len);
    switch (heard.kind) {
    case ISCSI_HEARD_ANSWER:
        answer_take(initiator, &heard, wc);
        break;
    case ISCSI_HEARD_LOGIN:
        login_take(initiator, &heard);
        break;
    case ISCSI_HEARD_TASK:
        reset_take(initiator, &heard);
        break;
    case ISCSI_HEARD_PING:
        iscsi_session_pong_emit(&initiator->session, pong, heard.at);
        iscsi_queue_send(initiator, pong); // one that finds no room is not missed
        break;
    case ISCSI_HEARD_LOGOUT:
        iscsi_lose(initiator, "logged out");
        break;
    case ISCSI_HEARD_END:
        iscsi_lose(initiator, "the target says that it ends the session");
        break;
    case ISCSI_HEARD_REJECT:
        iscsi_lose(initiator, "the target rejects a PDU, for reason %02x",
                   heard.at[ISCSI_REJECT_OFF_REASON]);
        break;
    case ISCSI_HEARD_NONSENSE:
        iscsi_lose(initiator, "the target says what makes no sense");
        break;
    default:
        break;
    }
}

// The room is given back when what stands in it has been taken.
static void on_receive(struct iscsi_initiator *initiator, const struct ibv_wc *wc)
{
    bool is_answer = initiator->state == ISCSI_INITIATOR_READY;
    pdu_take(initiator, wc);
    if (wc->wr_id < initiator->room_count) {
        initiator->free_rooms[initiator->free_room_count++] = (uint16_t)wc->wr_id;
    }
    // Other PDUs bring no command that would post theirs again.
    if (is_answer && initiator->state == ISCSI_INITIATOR_READY &&
        initiator->free_room_count > SPARE_RECEIVES / 2 && receives_post(initiator) != 0) {
        iscsi_lose(initiator, "no receives");
    }
}

static void on_completion(struct iscsi_initiator *initiator, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR) {
        iscsi_lose(initiator, "the target has ended the connection");
    } else if (wc->status != IBV_WC_SUCCESS) {
        iscsi_lose(initiator, "the connection has ended: %s", ibv_wc_status_str(wc->status));
    } else if (wc->wr_id != wr_send) {
        on_receive(initiator, wc);
    }
}

unsigned iscsi_queue_poll(struct iscsi_initiator *initiator)
{
    struct ibv_wc wc[WC_BATCH];
    int count = ibv_poll_cq(initiator->cq, WC_BATCH, wc);
    for (int i = 0; i < count && initiator->state != ISCSI_INITIATOR_LOST; i++) {
        on_completion(initiator, &wc[i]);
    }
    return count > 0 ? (unsigned)count : 0;
}
