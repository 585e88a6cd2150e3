// Extended completion queues: entries are read in place, between start_poll and end_poll.

#include <time.h>

#include "base/time.h"
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

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    const struct cqe *cqe = front_of(cq)->current;
    return cqe->wc_flags & WC_GRH ? cqe->src_qp : 0;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    const struct cqe *cqe = front_of(cq)->current;
    return cqe->wc_flags & WC_GRH ? (uint8_t)cqe->sl : 0;
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

static uint64_t wallclock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

// How far the wall clock is ahead of the one that stamps completions. The two cannot be read at one
// instant, so a look says between which bounds that is.
struct ahead {
    uint64_t min_ns, max_ns;
};

static struct ahead ahead_look(const struct rnic *rnic)
{
    const uint64_t before_ns = rnic_now(rnic);
    const uint64_t wallclock_ns = wallclock_now();
    return (struct ahead){.min_ns = wallclock_ns - rnic_now(rnic),
                          .max_ns = wallclock_ns - before_ns};
}

// The best of a few looks: this thread may have been stopped in the middle of any.
static uint64_t ahead_measure(const struct rnic *rnic)
{
    struct ahead best = ahead_look(rnic);
    for (int i = 0; i < 8; i++) {
        struct ahead next = ahead_look(rnic);
        best = next.max_ns - next.min_ns < best.max_ns - best.min_ns ? next : best;
    }
    return best.max_ns;
}

// A new value for each completion would put a later one before an earlier. The two clocks run at
// one speed, so a value stays until it cannot be right any more: the wall clock has been set.
static uint64_t wallclock_ahead_ns(struct front_cq *cq)
{
    const uint64_t error_ns = NS_PER_MS; // of a measured value, and more
    const struct rnic *rnic = front_context_of(cq->cq.context)->rnic;
    const struct ahead now = ahead_look(rnic);
    if (cq->wallclock_ahead_ns + error_ns < now.min_ns ||
        cq->wallclock_ahead_ns > now.max_ns + error_ns) {
        cq->wallclock_ahead_ns = ahead_measure(rnic);
    }
    return cq->wallclock_ahead_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
    return read_completion_ts(cq) + wallclock_ahead_ns(front_of(cq));
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
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_zero;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_zero_octet;
    cq->read_completion_ts = read_completion_ts;
    cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    // SINGLE_THREADED is a promise of the caller that this CQ does not need, and a parent domain
    // has nothing for one. A CQ here cannot ignore an overrun.
    const uint32_t present = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    if ((attr->wc_flags & ~(uint64_t)WC_FLAGS_PRESENT) != 0 || (attr->comp_mask & ~present) != 0 ||
        (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) {
        return front_null(EOPNOTSUPP);
    }
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
        (attr->parent_domain == NULL || attr->parent_domain->context != context)) {
        return front_null(EINVAL);
    }
    struct front_cq *cq =
        front_cq_make(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
    if (cq == NULL) {
        return NULL;
    }
    functions_set(&cq->cq_ex);
    return &cq->cq_ex;
}
