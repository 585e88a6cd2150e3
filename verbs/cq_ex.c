// Extended completion queues: entries are read in place, between start_poll and end_poll.

#include <time.h>

#include "verbs/front.h"

enum {
    // All that a completion here can say, or truthfully say 0 to.
    WC_FLAGS_PRESENT = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};

static struct front_cq *front_of(struct ibv_cq_ex *cq)
{
    return (struct front_cq *)cq;
}

// The oldest entry becomes the current one. 0; ENOENT: there is none; EIO: nor will there be, and
// some were lost.
static int advance(struct front_cq *cq)
{
    cq->current = rnic_cq_peek(cq->rnic_cq);
    if (cq->current == NULL) {
        return rnic_cq_has_overrun(cq->rnic_cq) ? EIO : ENOENT;
    }
    cq->cq_ex.wr_id = cq->current->wr_id;
    cq->cq_ex.status = (enum ibv_wc_status)cq->current->status;
    return 0;
}

// After success the caller owes an end_poll; after a failure none.
static int start_poll(struct ibv_cq_ex *ibv_cq, struct ibv_poll_cq_attr *attr)
{
    struct front_cq *cq = front_of(ibv_cq);
    if (attr->comp_mask != 0) {
        return EINVAL;
    }
    if (!front_is_alive(ibv_cq->context)) {
        return EIO;
    }
    rnic_cq_poll_begin(cq->rnic_cq);
    int error = advance(cq);
    if (error != 0) {
        rnic_cq_poll_end(cq->rnic_cq);
    }
    return error;
}

static int next_poll(struct ibv_cq_ex *ibv_cq)
{
    struct front_cq *cq = front_of(ibv_cq);
    if (cq->current != NULL) {
        rnic_cq_pop(cq->rnic_cq);
    }
    return advance(cq);
}

static void end_poll(struct ibv_cq_ex *ibv_cq)
{
    struct front_cq *cq = front_of(ibv_cq);
    if (cq->current != NULL) {
        rnic_cq_pop(cq->rnic_cq);
        cq->current = NULL;
    }
    rnic_cq_poll_end(cq->rnic_cq);
}

/* ---- what can be read of the current entry --------------------------------------------------- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return (enum ibv_wc_opcode)front_of(cq)->current->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->byte_len;
}

// Also ibv_wc_read_invalidated_rkey.
static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->qp_num;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->wc_flags;
}

// Addresses of an InfiniBand subnet: 0, as in ibv_wc.
static uint32_t read_zero(struct ibv_cq_ex *cq)
{
    return 0;
}

static uint8_t read_zero_octet(struct ibv_cq_ex *cq)
{
    return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
    return front_of(cq)->current->timestamp_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t wallclock_ns = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
    uint64_t age_ns = rnic_now(front_of(cq)->rnic_cq->rnic) - read_completion_ts(cq);
    return wallclock_ns - age_ns;
}

static void functions_set(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_zero;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_zero;
    cq->read_sl = read_zero_octet;
    cq->read_dlid_path_bits = read_zero_octet;
    cq->read_completion_ts = read_completion_ts;
    cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    // SINGLE_THREADED is a promise of the caller that this CQ does not need. A CQ here cannot
    // ignore an overrun, and there are no parent domains.
    const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    if ((attr->wc_flags & ~(uint64_t)WC_FLAGS_PRESENT) != 0 ||
        (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ||
        (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) {
        return front_null(EOPNOTSUPP);
    }
    struct front_cq *cq =
        front_cq_make(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (cq == NULL) {
        return NULL;
    }
    functions_set(&cq->cq_ex);
    return &cq->cq_ex;
}
