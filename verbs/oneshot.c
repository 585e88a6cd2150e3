// One-shot RDMA for programs: <weft/oneshot.h> on the objects of this room.

#include <endian.h>
#include <string.h>

#include <weft/oneshot.h>

#include "base/check.h"
#include "base/span.h"
#include "verbs/front.h"

// Rights are handed on as they are.
STATIC_CHECK((int)MEM_ACCESS_REMOTE_READ == (int)IBV_ACCESS_REMOTE_READ);
STATIC_CHECK((int)MEM_ACCESS_REMOTE_WRITE == (int)IBV_ACCESS_REMOTE_WRITE);
STATIC_CHECK((int)WC_WITH_INV == (int)IBV_WC_WITH_INV);

enum {
    ACCESS_KNOWN = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    FLAGS_KNOWN = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
    FIELD_FLAGS_KNOWN = WEFT_ONESHOT_LITTLE_ENDIAN | WEFT_ONESHOT_PRESENT,
    STAG_LEN = 4,
};

static struct front_qp *front_of(struct ibv_qp *qp)
{
    return (struct front_qp *)qp;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct oneshot_field field_of(const struct weft_oneshot_field *field)
{
    return (struct oneshot_field){
        .offset = field->offset,
        .len = field->length,
        .is_little_endian = (field->flags & WEFT_ONESHOT_LITTLE_ENDIAN) != 0,
    };
}

int weft_oneshot_create(struct ibv_qp *ibv_qp, const struct weft_oneshot_attr *attr)
{
    struct front_qp *qp = front_of(ibv_qp);
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    if (attr->comp_mask != 0 || ((attr->request.flags | attr->answer.flags) & ~FIELD_FLAGS_KNOWN)) {
        return front_fail(EINVAL);
    }
    const struct oneshot_config config = {
        .command_max = attr->max_commands,
        .element_max = attr->max_memory,
        .request = field_of(&attr->request),
        .answer = field_of(&attr->answer),
    };
    pthread_mutex_lock(&ibv_qp->mutex);
    int error = rnic_oneshot_config(qp->rnic_qp) != NULL ? -EBUSY : 0;
    if (error == 0) {
        // Whoever finds the table finds these.
        qp->oneshot.stag_offset = attr->stag_offset;
        qp->oneshot.request_is_present = (attr->request.flags & WEFT_ONESHOT_PRESENT) != 0;
        qp->oneshot.answer_is_present = (attr->answer.flags & WEFT_ONESHOT_PRESENT) != 0;
        error = rnic_oneshot_create(qp->rnic_qp, &config);
    }
    pthread_mutex_unlock(&ibv_qp->mutex);
    return error != 0 ? front_fail(-error) : 0;
}

int weft_oneshot_agreed(struct ibv_qp *qp)
{
    const struct rnic_oneshot_agreed agreed = rnic_oneshot_agreed(front_of(qp)->rnic_qp);
    if (!agreed.is_known) {
        errno = ENOTCONN;
        return -1;
    }
    return (agreed.has_advertise ? WEFT_ONESHOT_ADVERTISE : 0) |
           (agreed.has_close ? WEFT_ONESHOT_CLOSE : 0);
}

/* ---- the message ----------------------------------------------------------------------------- */

static bool fits(const struct oneshot_field *field, uint64_t reference)
{
    return field->len == ONESHOT_REFERENCE_LEN_MAX || reference >> (8 * field->len) == 0;
}

// The Send's slot, and its body where it may be written to.
static int body_fill(const struct front_qp *qp, struct send_wqe *wqe, unsigned int send_flags,
                     const struct ibv_sge *body, uint8_t **ret_message)
{
    if ((send_flags & ~(unsigned int)FLAGS_KNOWN) != 0 || body->length > rnic_limits.max_msg_len) {
        return EINVAL;
    }
    wqe->opcode = WQE_SEND;
    wqe->flags = send_flags;
    wqe->length = body->length;
    wqe->sge_count = 0;
    *ret_message = (uint8_t *)(uintptr_t)body->addr;
    if (send_flags & IBV_SEND_INLINE) {
        if (body->length > qp->cap.max_inline_data) {
            return EINVAL;
        }
        memcpy(wqe->inline_data, *ret_message, body->length);
        *ret_message = wqe->inline_data;
    } else if (qp->cap.max_send_sge == 0) {
        return EINVAL;
    } else {
        memcpy(wqe->sge, body, sizeof *body);
        wqe->sge_count = 1;
    }
    return 0;
}

// Writes the reference, or finds it there.
static int reference_fill(const struct oneshot_field *field, bool is_present, uint8_t *message,
                          size_t message_len, uint64_t reference)
{
    uint64_t found;
    if (!oneshot_field_read(field, message, message_len, &found) ||
        (is_present && found != reference)) {
        return EINVAL;
    }
    if (!is_present) {
        oneshot_field_write(field, message, reference);
    }
    return 0;
}

static int stag_fill(const struct front_qp *qp, uint8_t *message, size_t message_len, uint32_t stag)
{
    uint32_t offset = qp->oneshot.stag_offset;
    if (rnic_oneshot_agreed(qp->rnic_qp).has_advertise) {
        return 0; // the header has it
    }
    if (offset == WEFT_ONESHOT_NOWHERE) {
        return EOPNOTSUPP;
    }
    if (message_len < STAG_LEN || offset > message_len - STAG_LEN) {
        return EINVAL;
    }
    uint32_t big_endian = htobe32(stag);
    memcpy(message + offset, &big_endian, STAG_LEN);
    return 0;
}

/* ---- posting a command ----------------------------------------------------------------------- */

static int memory_fill(const struct front_qp *qp, struct oneshot_command *command,
                       const struct weft_oneshot_wr *wr, uint32_t element_max,
                       struct mem_known *known)
{
    uint64_t total = 0;
    if (wr->memory_count > element_max) {
        return EINVAL;
    }
    for (uint32_t i = 0; i < wr->memory_count; i++) {
        const struct iovec *e = &wr->memory[i];
        if (e->iov_len > UINT64_MAX - total) {
            return EINVAL;
        }
        total += e->iov_len;
        command->list.elements[i].octets = mspan_of((uint8_t *)e->iov_base, e->iov_len);
    }
    if (wr->offset >= total || wr->length > total - wr->offset) {
        return EINVAL; // nothing to reach, or more than there is
    }
    mem_list_init(&command->list, command->list.elements, wr->memory_count);
    command->offset = wr->offset;
    command->length = wr->length > 0 ? wr->length : total - wr->offset;
    return -rnic_oneshot_probe(qp->rnic_qp, &command->list,
                               (wr->access & IBV_ACCESS_REMOTE_WRITE) != 0, known);
}

// Fills the command and the Send. Nothing is taken yet.
static int command_fill(const struct front_qp *qp, struct oneshot_command *command,
                        struct send_wqe *wqe, const struct weft_oneshot_wr *wr,
                        const struct oneshot_config *config, struct mem_known *known)
{
    uint8_t *message;
    if (wr->access == 0 || (wr->access & ~(unsigned int)ACCESS_KNOWN) != 0 ||
        !fits(&config->request, wr->reference) || !fits(&config->answer, wr->reference)) {
        return EINVAL;
    }
    command->access = wr->access;
    command->reference = wr->reference;
    int error = memory_fill(qp, command, wr, config->element_max, known);
    if (error == 0) {
        error = body_fill(qp, wqe, wr->send_flags, &wr->body, &message);
    }
    if (error == 0) {
        error = reference_fill(&config->request, qp->oneshot.request_is_present, message,
                               wr->body.length, wr->reference);
    }
    if (error == 0) {
        error = stag_fill(qp, message, wr->body.length, command->stag);
    }
    wqe->wr_id = wr->wr_id;
    wqe->imm_or_inv = command->stag;
    return error;
}

static int receives_post(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;
    if (wr == NULL) {
        return 0;
    }
    return ibv_qp->srq != NULL ? front_post_srq_recv(ibv_qp->srq, wr, &bad)
                               : front_post_recv(ibv_qp, wr, &bad);
}

// Fills the next slot, and takes the command.
static int command_post(struct ibv_qp *ibv_qp, struct rnic_sq_cursor *cursor,
                        struct weft_oneshot_wr *wr, const struct oneshot_config *config,
                        struct mem_known *known)
{
    struct front_qp *qp = front_of(ibv_qp);
    struct send_wqe *wqe = rnic_sq_slot(cursor);
    struct oneshot_command *command = rnic_sq_command(cursor);
    if (wqe == NULL || command == NULL) {
        return ENOMEM;
    }
    int error = command_fill(qp, command, wqe, wr, config, known);
    if (error == 0) {
        error = receives_post(ibv_qp, wr->answer);
    }
    if (error == 0) {
        wr->stag = command->stag;
        rnic_sq_take_command(cursor, wqe);
    }
    return error;
}

// What both posts ask for beforehand. NULL: an error, in *ret_error.
static const struct oneshot_config *config_of(struct ibv_qp *ibv_qp, int *ret_error)
{
    const struct rnic_qp *rnic_qp = front_of(ibv_qp)->rnic_qp;
    const struct oneshot_config *config = rnic_oneshot_config(rnic_qp);
    bool is_known = rnic_oneshot_agreed(rnic_qp).is_known;
    *ret_error = !front_is_alive(ibv_qp->context) ? EIO
                 : config == NULL                 ? EINVAL
                 : !is_known                      ? ENOTCONN
                                                  : 0;
    return *ret_error == 0 ? config : NULL;
}

int weft_oneshot_post(struct ibv_qp *ibv_qp, struct weft_oneshot_wr *wr,
                      struct weft_oneshot_wr **bad_wr)
{
    struct rnic_sq_cursor cursor;
    int error;
    const struct oneshot_config *config = config_of(ibv_qp, &error);
    *bad_wr = wr;
    if (config == NULL) {
        return front_fail(error);
    }
    rnic_sq_begin(&cursor, front_of(ibv_qp)->rnic_qp);
    struct mem_known *known = rnic_sq_known(&cursor);
    for (; wr != NULL && error == 0; wr = wr->next) {
        *bad_wr = wr;
        error = command_post(ibv_qp, &cursor, wr, config, known);
        if (error == 0) {
            rnic_sq_commit(&cursor);
        }
    }
    rnic_sq_end(&cursor);
    return error != 0 ? front_fail(error) : 0;
}

/* ---- closing --------------------------------------------------------------------------------- */

static int close_fill(struct front_qp *qp, struct send_wqe *wqe,
                      const struct weft_oneshot_close_wr *wr, const struct oneshot_config *config)
{
    uint8_t *message;
    if (wqe == NULL) {
        return ENOMEM;
    }
    if (!fits(&config->answer, wr->reference)) {
        return EINVAL;
    }
    int error = body_fill(qp, wqe, wr->send_flags, &wr->body, &message);
    if (error == 0) {
        error = reference_fill(&config->answer, qp->oneshot.answer_is_present, message,
                               wr->body.length, wr->reference);
    }
    wqe->wr_id = wr->wr_id;
    wqe->flags |= WQE_CLOSE;
    wqe->imm_or_inv = wr->stag;
    return error;
}

// What goes before it, and the close: all of it or nothing.
static int close_post(struct front_qp *qp, struct rnic_sq_cursor *cursor,
                      const struct weft_oneshot_close_wr *wr, const struct oneshot_config *config)
{
    for (const struct ibv_send_wr *before = wr->before; before != NULL; before = before->next) {
        int error = front_send_fill(qp, rnic_sq_slot(cursor), before);
        if (error != 0) {
            return error;
        }
    }
    int error = close_fill(qp, rnic_sq_slot(cursor), wr, config);
    if (error == 0) {
        rnic_sq_commit(cursor);
    }
    return error;
}

int weft_oneshot_close(struct ibv_qp *ibv_qp, struct weft_oneshot_close_wr *wr,
                       struct weft_oneshot_close_wr **bad_wr)
{
    struct rnic_sq_cursor cursor;
    int error;
    const struct oneshot_config *config = config_of(ibv_qp, &error);
    *bad_wr = wr;
    if (config == NULL) {
        return front_fail(error);
    }
    rnic_sq_begin(&cursor, front_of(ibv_qp)->rnic_qp);
    for (; wr != NULL && error == 0; wr = wr->next) {
        *bad_wr = wr;
        error = close_post(front_of(ibv_qp), &cursor, wr, config);
    }
    rnic_sq_end(&cursor);
    return error != 0 ? front_fail(error) : 0;
}

int weft_oneshot_revoke(struct ibv_qp *qp, uint32_t stag)
{
    if (!front_is_alive(qp->context)) {
        return front_fail(EIO);
    }
    int error = rnic_oneshot_revoke(front_of(qp)->rnic_qp, stag);
    return error != 0 ? front_fail(-error) : 0;
}

/* ---- completions ----------------------------------------------------------------------------- */

bool weft_wc_advertised(const struct ibv_wc *wc, uint32_t *ret_stag)
{
    bool is_advertised = wc->status == IBV_WC_SUCCESS && (wc->wc_flags & WC_ADVERTISED) != 0;
    if (is_advertised) {
        *ret_stag = wc->invalidated_rkey;
    }
    return is_advertised;
}

bool weft_wc_closed(const struct ibv_wc *wc, uint32_t *ret_stag)
{
    bool is_closed = wc->status == IBV_WC_SUCCESS && (wc->wc_flags & WC_CLOSED) != 0;
    if (is_closed) {
        *ret_stag = wc->invalidated_rkey;
    }
    return is_closed;
}

bool weft_wc_reference(const struct ibv_wc *wc, uint64_t *ret_reference)
{
    bool has_reference = wc->status == IBV_WC_SUCCESS && (wc->wc_flags & WC_REFERENCE) != 0;
    if (has_reference) {
        *ret_reference = (uint64_t)wc->vendor_err << 32 | wc->src_qp; // front_wc_fill put it there
    }
    return has_reference;
}

int weft_cq_ex_read_wc(struct ibv_cq_ex *cq, struct ibv_wc *ret)
{
    const struct front_cq *front = (const struct front_cq *)cq;
    if (front->current == NULL) {
        return front_fail(EINVAL);
    }
    front_wc_fill(ret, front->current);
    return 0;
}

int weft_oneshot_request(struct ibv_qp *ibv_qp, const struct ibv_wc *wc, const void *message,
                         uint32_t *ret_stag, uint64_t *ret_reference)
{
    const struct front_qp *qp = front_of(ibv_qp);
    const uint8_t *octets = message;
    uint32_t big_endian;
    if (weft_wc_advertised(wc, ret_stag)) {
        return weft_wc_reference(wc, ret_reference) ? 0 : front_fail(EINVAL); // EINVAL: no table
    }
    int error;
    const struct oneshot_config *config = config_of(ibv_qp, &error);
    if (config == NULL) {
        return front_fail(error);
    }
    uint32_t offset = qp->oneshot.stag_offset;
    if (rnic_oneshot_agreed(qp->rnic_qp).has_advertise || offset == WEFT_ONESHOT_NOWHERE ||
        wc->byte_len < STAG_LEN || offset > wc->byte_len - STAG_LEN ||
        !oneshot_field_read(&config->request, octets, wc->byte_len, ret_reference)) {
        return front_fail(ENOENT);
    }
    memcpy(&big_endian, octets + offset, STAG_LEN);
    *ret_stag = be32toh(big_endian);
    return 0;
}
