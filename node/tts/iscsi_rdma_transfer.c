// iSCSI over one-shot RDMA: PDUs as they come, data by the RDMA manager, PDUs as they go.

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "format/iscsi_pdu.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/iscsi/connection.h"
#include "node/loop/loop.h"
#include "node/scsi/device.h"
#include "node/tts/iscsi_rdma_pair.h"

static struct iscsi_task *task_of(struct scsi_task *scsi)
{
    return LIST_ENTRY(scsi, struct iscsi_task, scsi);
}

static struct iscsi_rdma_pair *pair_of(const struct iscsi_task *task)
{
    return iscsi_pair_of_connection(task->connection);
}

static struct iscsi_loan *loan_of(const struct iscsi_task *task)
{
    return &pair_of(task)->loans[task - task->connection->tasks];
}

static instant_ns now_of(const struct iscsi_rdma_pair *cp)
{
    return loop_now(cp->pair.fabric->parts.loop);
}

/* ---- PDUs of ours ---------------------------------------------------------------------------- */

static struct iscsi_post *post_of(struct iscsi_rdma_pair *cp, const struct iscsi_out *out)
{
    size_t place = 0;
    if (out->task != NULL) {
        place = (size_t)(out->task - cp->c.tasks);
    } else {
        const struct iscsi_control *control = LIST_ENTRY(out, struct iscsi_control, out);
        place = ISCSI_TASK_COUNT + (size_t)(control - cp->c.controls);
    }
    return &cp->posts[place];
}

// Header, data and padding, as one piece of registered memory.
static uint32_t post_write(struct iscsi_post *post)
{
    const struct iscsi_out *out = post->out;
    uint32_t len = ISCSI_HEADER_LEN + out->data_len, pad_len = iscsi_pad_of(out->data_len);
    memcpy(post->octets, out->head, ISCSI_HEADER_LEN);
    put_be24(post->octets + ISCSI_OFF_DATA_LEN, out->data_len);
    if (out->data_len > 0) {
        memcpy(post->octets + ISCSI_HEADER_LEN, out->data, out->data_len);
    }
    memset(post->octets + len, 0, pad_len);
    return len + pad_len;
}

// Which memory the PDU closes. NULL: none.
static const struct iscsi_loan *loan_closed_by(const struct iscsi_out *out)
{
    const struct iscsi_loan *loan = out->task != NULL ? loan_of(out->task) : NULL;
    return loan != NULL && loan->is_lent ? loan : NULL;
}

// The PDU as a work request. Its numbers are those of now.
static struct ibv_send_wr *post_fill(struct iscsi_rdma_pair *cp, struct iscsi_out *out)
{
    struct iscsi_post *post = post_of(cp, out);
    const struct iscsi_loan *loan = loan_closed_by(out);
    if (out->task != NULL) {
        iscsi_form_response(out->task);
    } else {
        iscsi_form_control(&cp->c, out);
    }
    out->is_formed = true;
    post->out = out;
    post->sge = (struct ibv_sge){
        .addr = (uintptr_t)post->octets, .length = post_write(post), .lkey = cp->mr->lkey};
    post->wr = (struct ibv_send_wr){
        .wr_id = (uintptr_t)post,
        .sg_list = &post->sge,
        .num_sge = 1,
        .opcode = loan != NULL ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
        .send_flags = loan != NULL && cp->pair.device->has_oneshot ? WEFT_ONESHOT_CLOSES : 0,
        .invalidate_rkey = loan != NULL ? loan->stag : 0};
    cp->rdma->counters.closes += loan != NULL;
    return &post->wr;
}

static void post_over(struct iscsi_rdma_pair *cp, struct iscsi_post *post)
{
    if (post->out->task != NULL) {
        iscsi_task_free(post->out->task);
    } else {
        iscsi_control_free(&cp->c, LIST_ENTRY(post->out, struct iscsi_control, out));
    }
}

// It, and all before it.
void iscsi_pair_on_sent(struct fabric_pair *p, const struct ibv_wc *wc)
{
    struct iscsi_post *last = (struct iscsi_post *)(uintptr_t)wc->wr_id;
    for (struct list_link *l; (l = list_pop_head(&p->sending)) != NULL;) {
        struct iscsi_post *post = LIST_ENTRY(l, struct iscsi_post, link);
        post_over(iscsi_pair_of(p), post);
        if (post == last) {
            return;
        }
    }
}

/* ---- data ------------------------------------------------------------------------------------ */

// The memory of the device's own data, which are few, is registered for as long as they move.
static uint32_t lkey_of(struct iscsi_rdma_pair *cp, struct iscsi_loan *loan,
                        const struct scsi_task *scsi)
{
    struct fabric_device *device = cp->pair.device;
    uint32_t unit = node_pool_unit(&cp->pair.fabric->parts.pool, scsi->data);
    if (unit < NODE_UNIT_COUNT_MAX) {
        return fabric_device_lkey(device, unit);
    }
    loan->mr = ibv_reg_mr(device->pd, scsi->data, scsi->data_len, (int)device->sink_access);
    return loan->mr != NULL ? loan->mr->lkey : 0; // a key of nothing: the transfer fails
}

static bool transfer_submit(struct iscsi_task *task, enum ibv_wr_opcode opcode,
                            const struct ibv_send_wr *trailer,
                            void (*on_complete)(struct weft_rdma_request *request))
{
    struct iscsi_rdma_pair *cp = pair_of(task);
    struct iscsi_loan *loan = loan_of(task);
    loan->buffer = (struct weft_rdma_buffer){.addr = (uintptr_t)task->scsi.data,
                                             .len = task->scsi.data_len,
                                             .lkey = lkey_of(cp, loan, &task->scsi)};
    loan->element =
        (struct weft_rdma_element){.buffers = &loan->buffer, .buffer_count = 1, .rkey = loan->stag};
    loan->request.elements = &loan->element;
    loan->request.opcode = opcode;
    loan->request.trailer = trailer;
    loan->request.on_complete = on_complete;
    loan->request.context = task;
    return fabric_request_submit(&cp->pair, &loan->request);
}

static void transfer_end(struct iscsi_loan *loan)
{
    if (loan->mr != NULL) {
        ibv_dereg_mr(loan->mr);
        loan->mr = NULL;
    }
}

static bool transfer_over(struct iscsi_task *task)
{
    struct iscsi_loan *loan = loan_of(task);
    transfer_end(loan);
    return fabric_request_over(&pair_of(task)->pair, &loan->request, loan->buffer.len);
}

static void on_fetched(struct weft_rdma_request *request)
{
    struct iscsi_task *task = request->context;
    struct iscsi_rdma_pair *cp = pair_of(task);
    bool is_there = transfer_over(task);
    loan_of(task)->is_fetching = false;
    cp->rdma->counters.fetched += is_there ? task->scsi.data_len : 0;
    task_fetched(&task->scsi, is_there, now_of(cp));
}

static void delivered(struct iscsi_task *task, bool is_there)
{
    task_delivered(&task->scsi, is_there, now_of(pair_of(task)));
    iscsi_task_free(task);
}

static void on_delivered(struct weft_rdma_request *request)
{
    struct iscsi_task *task = request->context;
    bool is_there = transfer_over(task);
    pair_of(task)->rdma->counters.delivered += is_there ? task->scsi.data_len : 0;
    delivered(task, is_there);
}

/* ---- what the device calls ------------------------------------------------------------------- */

static void on_fetch(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    struct iscsi_rdma_pair *cp = pair_of(task);
    struct iscsi_loan *loan = loan_of(task);
    bool is_possible = fabric_is_usable(&cp->pair) && loan->is_lent && scsi->data_len > 0;
    loan->is_fetching = is_possible && transfer_submit(task, IBV_WR_RDMA_READ, NULL, on_fetched);
    cp->has_fetches |= loan->is_fetching;
    if (!loan->is_fetching) {
        transfer_end(loan);
        task_fetched(scsi, scsi->data_len == 0, now);
    }
}

// A Read under way cannot be called back: nothing is said to have ended before it has.
static bool on_forget(struct scsi_task *scsi)
{
    return !loan_of(task_of(scsi))->is_fetching;
}

static void on_deliver(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    if (!fabric_is_usable(&pair_of(task)->pair)) {
        delivered(task, false);
    } else if (scsi->data_len > 0) {
        iscsi_task_queue(task, ISCSI_DELIVERS);
    } else { // the initiator wants none of it
        task_delivered(scsi, true, now);
        iscsi_task_queue(task, ISCSI_RESPONDS);
    }
}

static void on_respond(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    if (scsi->is_aborted || !fabric_is_usable(&pair_of(task)->pair)) {
        iscsi_task_free(task);
    } else {
        iscsi_task_queue(task, ISCSI_RESPONDS);
    }
}

const struct scsi_transport iscsi_rdma_transport = {
    .fetch = on_fetch,
    .forget = on_forget,
    .deliver = on_deliver,
    .respond = on_respond,
    .turn = iscsi_task_on_turn,
};

/* ---- out, at the end of a batch -------------------------------------------------------------- */

// The manager refuses nothing that the device has checked, unless it is broken: then the pair fails
// with it.
static void deliver(struct iscsi_rdma_pair *cp, struct iscsi_task *task)
{
    struct ibv_send_wr *trailer = post_fill(cp, &task->out);
    if (!transfer_submit(task, IBV_WR_RDMA_WRITE, trailer, on_delivered)) {
        transfer_end(loan_of(task));
        delivered(task, false);
    }
}

static bool deliveries_submit(struct iscsi_rdma_pair *cp)
{
    struct list_link *outs = &cp->c.outs, *next;
    bool has_some = cp->has_fetches;
    for (struct list_link *l = outs->next; l != outs; l = next) {
        struct iscsi_out *out = LIST_ENTRY(l, struct iscsi_out, link);
        next = l->next;
        if (out->task != NULL && out->task->next == ISCSI_DELIVERS) {
            list_remove(l);
            deliver(cp, out->task);
            has_some = true;
        }
    }
    cp->has_fetches = false;
    if (has_some) {
        weft_rdma_manager_post(cp->pair.manager);
    }
    return has_some;
}

static bool posts_send(struct iscsi_rdma_pair *cp)
{
    struct ibv_send_wr *first = NULL, *last = NULL;
    for (struct list_link *l; (l = list_pop_head(&cp->c.outs)) != NULL;) {
        struct iscsi_out *out = LIST_ENTRY(l, struct iscsi_out, link);
        struct ibv_send_wr *wr = post_fill(cp, out);
        *(first == NULL ? &first : &last->next) = wr;
        last = wr;
        list_push_tail(&cp->pair.sending, &post_of(cp, out)->link);
    }
    if (first != NULL) {
        fabric_send(&cp->pair, first, last);
    }
    return first != NULL;
}

bool iscsi_pair_send(struct fabric_pair *p, instant_ns now)
{
    struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    scsi_target_go_on(cp->c.iscsi->target, now);
    iscsi_units_settle(&cp->c);
    bool has_sent = deliveries_submit(cp);
    has_sent |= posts_send(cp);
    if (cp->c.state == ISCSI_LEAVING) {
        fabric_end(p, "the session is over");
    }
    return has_sent;
}

/* ---- in -------------------------------------------------------------------------------------- */

void iscsi_pair_receives_post(struct fabric_pair *p)
{
    struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    struct ibv_recv_wr wrs[FABRIC_POLL_BATCH], *bad;
    struct ibv_sge sges[FABRIC_POLL_BATCH];
    while (!list_is_empty(&cp->idle)) {
        unsigned count = 0;
        for (struct list_link *l;
             count < FABRIC_POLL_BATCH && (l = list_pop_head(&cp->idle)) != NULL; count++) {
            struct iscsi_receive *r = LIST_ENTRY(l, struct iscsi_receive, link);
            sges[count] = (struct ibv_sge){
                .addr = (uintptr_t)r->octets, .length = ISCSI_RECEIVE_LEN, .lkey = cp->mr->lkey};
            wrs[count] =
                (struct ibv_recv_wr){.wr_id = (uintptr_t)r, .sg_list = &sges[count], .num_sge = 1};
            if (count > 0) {
                wrs[count - 1].next = &wrs[count];
            }
        }
        if (ibv_post_recv(p->id->qp, wrs, &bad) != 0) {
            fabric_fail(p, "its receives cannot be posted");
        }
    }
}

static void malformed(struct iscsi_rdma_pair *cp, const char *why)
{
    iscsi_malformed(&cp->c);
    fabric_fail(&cp->pair, why);
}

void iscsi_pair_on_command(struct iscsi_connection *c, const struct iscsi_header *h,
                           struct iscsi_task *task)
{
    const struct iscsi_receive *r = iscsi_pair_of_connection(c)->now;
    if (task != NULL) {
        *loan_of(task) = (struct iscsi_loan){.is_lent = r->is_advertised, .stag = r->stag};
    }
}

// Is the Send the PDU, but for the STag of a command, whose place this is where no header has it?
static bool length_is_right(struct iscsi_receive *r, const struct iscsi_header *h,
                            enum iscsi_pdu_kind kind)
{
    uint32_t len = ISCSI_HEADER_LEN + h->ahs_len + h->data_len + h->pad_len;
    bool has_stag =
        kind == ISCSI_PDU_COMMAND && !r->is_advertised && r->len == len + ISCSI_STAG_LEN;
    if (has_stag) {
        r->is_advertised = true;
        r->stag = get_be32(r->octets + len);
    }
    return has_stag || r->len == len;
}

static bool lends_enough(const struct iscsi_receive *r, const struct iscsi_header *h,
                         enum iscsi_pdu_kind kind)
{
    return kind != ISCSI_PDU_COMMAND || r->is_advertised ||
           get_be32(h->at + ISCSI_CMD_OFF_EXPECTED_LEN) == 0;
}

static void pdu_take(struct iscsi_rdma_pair *cp, struct iscsi_receive *r,
                     const struct iscsi_header *h, instant_ns now)
{
    struct iscsi_connection *c = &cp->c;
    if (iscsi_is_next(c, h)) {
        cp->now = r;
        enum iscsi_verdict verdict =
            iscsi_take_pdu(c, h, r->octets + ISCSI_HEADER_LEN + h->ahs_len, now);
        cp->now = NULL;
        if (verdict == ISCSI_LEAVES) {
            iscsi_leave(c);
        }
    }
}

// False: it has to wait.
static bool receive_take(struct iscsi_rdma_pair *cp, struct iscsi_receive *r, instant_ns now)
{
    struct iscsi_connection *c = &cp->c;
    struct iscsi_header h = iscsi_header_parse(r->octets);
    enum iscsi_pdu_kind kind = iscsi_pdu_kind(c, h.opcode);
    bool has_room = kind != ISCSI_PDU_COMMAND || !list_is_empty(&c->free);
    bool is_connecting = c->state == ISCSI_REINSTATING || c->state == ISCSI_CONNECTING;
    if (is_connecting || !iscsi_has_room(c) || !has_room) {
        return false;
    }
    if (!length_is_right(r, &h, kind)) {
        malformed(cp, "the initiator sent a PDU whose length is not that of the Send");
    } else if (kind == ISCSI_PDU_UNKNOWN && c->state != ISCSI_OPEN) {
        malformed(cp, "the initiator has not logged in");
    } else if (kind == ISCSI_PDU_UNKNOWN) {
        iscsi_reject(c, &h, ISCSI_REJECT_UNSUPPORTED);
    } else if (!lends_enough(r, &h, kind)) {
        cp->rdma->counters.unlent++;
        fabric_fail(&cp->pair, "the initiator sent a command with data and lent no memory");
    } else {
        pdu_take(cp, r, &h, now);
    }
    return true;
}

void iscsi_pair_retry(struct fabric_pair *p, instant_ns now)
{
    struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    while (!list_is_empty(&cp->waiting)) {
        struct iscsi_receive *r = LIST_ENTRY(cp->waiting.next, struct iscsi_receive, link);
        bool is_wanted = cp->c.state < ISCSI_LEAVING && !why_is_said(&p->why);
        if (is_wanted && !receive_take(cp, r, now)) {
            return;
        }
        list_remove(&r->link);
        list_push_tail(&cp->idle, &r->link);
    }
}

void iscsi_pair_on_received(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now)
{
    struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    struct iscsi_receive *r = (struct iscsi_receive *)(uintptr_t)wc->wr_id;
    const struct fabric_device *device = p->device;
    r->len = wc->byte_len;
    r->is_advertised = device->has_oneshot && device->oneshot.wc_advertised(wc, &r->stag);
    cp->rdma->counters.pdus++;
    cp->rdma->counters.oneshots += r->is_advertised;
    if (r->len < ISCSI_HEADER_LEN) {
        malformed(cp, "the initiator sent less than a header");
    }
    list_push_tail(&cp->waiting, &r->link);
    iscsi_pair_retry(p, now);
}

/* ---- the end --------------------------------------------------------------------------------- */

void iscsi_pair_abandon(struct fabric_pair *p, instant_ns now)
{
    struct iscsi_rdma_pair *cp = iscsi_pair_of(p);
    cp->c.state = ISCSI_ENDED;
    for (struct list_link *l; (l = list_pop_head(&p->sending)) != NULL;) {
        struct iscsi_post *post = LIST_ENTRY(l, struct iscsi_post, link);
        if (post->out->task == NULL) {
            post_over(cp, post);
        }
    }
    iscsi_tasks_abandon(&cp->c, now);
}
