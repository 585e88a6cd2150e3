#include "tests/manager/fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct fake *fake_of_context(struct ibv_context *context)
{
    return (struct fake *)((char *)context - offsetof(struct fake, context));
}

/* ---- the ops --------------------------------------------------------------------------------- */

static bool is_signalled(const struct fake *fake, const struct fake_wr *own)
{
    return fake->sq_sig_all || (own->wr.send_flags & IBV_SEND_SIGNALED) != 0;
}

static void cqe_add(struct fake *fake, unsigned number, enum ibv_wc_status status)
{
    CHECK(fake->cqe_count < FAKE_CQ_MAX);
    fake->cqe_of[fake->cqe_count] = number;
    // Of a completion with an error only these are valid.
    fake->cqes[fake->cqe_count++] = (struct ibv_wc){
        .wr_id = fake->log[number].wr.wr_id, .status = status, .vendor_err = status};
}

static void flush(struct fake *fake)
{
    while (fake->executed < fake->posted) {
        cqe_add(fake, fake->executed++, IBV_WC_WR_FLUSH_ERR);
    }
}

static int wr_check(const struct fake *fake, const struct ibv_send_wr *wr)
{
    uint64_t len = 0;
    int segments_max =
        wr->opcode == IBV_WR_RDMA_READ ? fake->max_sge_rd : (int)fake->cap.max_send_sge;
    for (int i = 0; i < wr->num_sge; i++) {
        len += wr->sg_list[i].length;
    }
    return wr->num_sge > segments_max || len > fake->max_msg_sz ? EINVAL : 0;
}

static int post_one(struct fake *fake, const struct ibv_send_wr *wr)
{
    CHECK(fake->posted < FAKE_LOG_MAX);
    struct fake_wr *own = &fake->log[fake->posted];
    int error = wr_check(fake, wr);
    if (fake->post_error_times > 0 && fake->posted == fake->post_error_at) {
        fake->post_error_times--;
        error = fake->post_error;
    } else if (fake->posted - fake->freed + fake->foreign_count == fake->cap.max_send_wr) {
        error = ENOMEM;
    }
    if (error != 0) {
        return error;
    }
    *own = (struct fake_wr){.wr = *wr};
    own->wr.sg_list = own->segments;
    for (int i = 0; i < wr->num_sge; i++) {
        own->segments[i] = wr->sg_list[i];
        own->len += wr->sg_list[i].length;
    }
    fake->posted++;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct fake *fake = fake_of_context(qp->context);
    unsigned before = fake->posted;
    int error = 0;
    for (; wr != NULL && error == 0; wr = error == 0 ? wr->next : wr) {
        error = post_one(fake, wr);
        *bad_wr = wr;
    }
    fake->chain_count += fake->posted > before;
    if (fake->is_broken) {
        flush(fake);
    }
    return error;
}

static int poll_cq(struct ibv_cq *cq, int wc_count, struct ibv_wc *wc)
{
    struct fake *fake = fake_of_context(cq->context);
    int count = 0;
    while (count < wc_count && fake->polled < fake->cqe_count) {
        unsigned number = fake->cqe_of[fake->polled];
        if (number != UINT32_MAX) {
            fake->freed = number + 1;
        }
        wc[count++] = fake->cqes[fake->polled++];
    }
    return count;
}

/* ---- the queries ----------------------------------------------------------------------------- */

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    const struct fake *fake = fake_of_context(qp->context);
    *attr = (struct ibv_qp_attr){.cap = fake->cap};
    *init_attr = (struct ibv_qp_init_attr){.cap = fake->cap, .sq_sig_all = fake->sq_sig_all};
    return fake->query_error;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    *attr = (struct ibv_device_attr){.max_sge_rd = fake_of_context(context)->max_sge_rd};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *port_attr)
{
    ((struct ibv_port_attr *)port_attr)->max_msg_sz = fake_of_context(context)->max_msg_sz;
    return port_num == 1 ? 0 : EINVAL;
}

/* ---- what tests do --------------------------------------------------------------------------- */

void fake_init(struct fake *fake)
{
    *fake = (struct fake){
        .cap = {.max_send_wr = 16, .max_send_sge = 4}, .max_sge_rd = 4, .max_msg_sz = 1024};
    fake->log = calloc(FAKE_LOG_MAX, sizeof *fake->log);
    CHECK(fake->log != NULL);
    fake->context.ops.post_send = post_send;
    fake->context.ops.poll_cq = poll_cq;
    fake->cq.context = &fake->context;
    fake->qp.context = &fake->context;
    fake->qp.send_cq = &fake->cq;
    fake->qp.qp_type = IBV_QPT_RC;
}

void fake_fini(struct fake *fake)
{
    free(fake->log);
}

static void move(const struct fake_wr *own)
{
    uint8_t *remote = (uint8_t *)(uintptr_t)own->wr.wr.rdma.remote_addr;
    bool is_read = own->wr.opcode == IBV_WR_RDMA_READ;
    if (!is_read && own->wr.opcode != IBV_WR_RDMA_WRITE) {
        return;
    }
    for (int i = 0; i < own->wr.num_sge; i++) {
        uint8_t *local = (uint8_t *)(uintptr_t)own->segments[i].addr;
        uint32_t length = own->segments[i].length;
        memcpy(is_read ? local : remote, is_read ? remote : local, length);
        remote += length;
    }
}

void fake_execute(struct fake *fake, unsigned count)
{
    for (; count > 0; count--) {
        CHECK(fake->executed < fake->posted);
        const struct fake_wr *own = &fake->log[fake->executed];
        if (!fake->moves_no_data) {
            move(own);
        }
        if (is_signalled(fake, own)) {
            cqe_add(fake, fake->executed, IBV_WC_SUCCESS);
        }
        fake->executed++;
    }
}

void fake_execute_all(struct fake *fake)
{
    fake_execute(fake, fake->posted - fake->executed);
}

void fake_fail(struct fake *fake, enum ibv_wc_status status)
{
    CHECK(fake->executed < fake->posted);
    cqe_add(fake, fake->executed++, status);
    fake->is_broken = true;
    flush(fake);
}

void fake_complete_foreign(struct fake *fake, uint64_t wr_id)
{
    fake->cqe_of[fake->cqe_count] = UINT32_MAX;
    fake->cqes[fake->cqe_count++] = (struct ibv_wc){.wr_id = wr_id};
}

const struct fake_wr *fake_wr(const struct fake *fake, unsigned number)
{
    CHECK(number < fake->posted);
    return &fake->log[number];
}
