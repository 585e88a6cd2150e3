// Calls of rdma-core 60 and later that older headers do not have: declared here, as they have them.

#include <stdlib.h>
#include <unistd.h>

#include "verbs/front.h"

/* ---- registration ---------------------------------------------------------------------------- */

enum {
    REG_MR_IOVA = 1 << 0, // which of the members below are filled in
    REG_MR_ADDR = 1 << 1,
    REG_MR_BUF = 1 << 5,
};

// Memory that the device has chosen: any will do.
struct ibv_buf {
    struct ibv_pd *pd;
    char *addr;
    size_t length;
};

struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    struct ibv_dmah *dmah;
    struct ibv_buf *buf;
};

static bool buf_holds(const struct ibv_buf *buf, const struct ibv_pd *pd, const char *addr,
                      size_t length)
{
    return front_pd_is_same(pd, buf->pd) && addr >= buf->addr &&
           (size_t)(addr - buf->addr) <= buf->length &&
           length <= buf->length - (size_t)(addr - buf->addr);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr)
{
    if (attr->comp_mask & ~(uint64_t)(REG_MR_IOVA | REG_MR_ADDR | REG_MR_BUF)) {
        return front_null(EOPNOTSUPP);
    }
    if (!(attr->comp_mask & REG_MR_ADDR)) {
        return front_null(EINVAL);
    }
    if (attr->comp_mask & REG_MR_BUF && !buf_holds(attr->buf, pd, attr->addr, attr->length)) {
        return front_null(EINVAL);
    }
    const uint64_t iova =
        attr->comp_mask & REG_MR_IOVA ? attr->iova : (uint64_t)(uintptr_t)attr->addr;
    return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned)attr->access);
}

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **ret)
{
    struct ibv_buf *buf = malloc(sizeof *buf);
    if (buf == NULL) {
        return front_null(ENOMEM);
    }
    void *addr;
    int error = posix_memalign(&addr, (size_t)sysconf(_SC_PAGESIZE), size);
    if (error != 0) {
        free(buf);
        return front_null(error);
    }
    *buf = (struct ibv_buf){.pd = pd, .addr = addr, .length = size};
    *ret = buf;
    return addr;
}

void ibv_free_buf(struct ibv_buf *buf)
{
    free(buf->addr);
    free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access)
{
    struct mr_init_attr attr = {.length = length,
                                .access = access,
                                .comp_mask = REG_MR_ADDR | REG_MR_BUF,
                                .addr = addr,
                                .buf = buf};
    return ibv_reg_mr_ex(pd, &attr);
}

// No descriptor stands for it.
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
    errno = ENODATA;
    return -1;
}

/* ---- the port -------------------------------------------------------------------------------- */

// What the port carries, in units of 100 Mb/s.
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
    if (port_num != FRONT_PORT_NUM) {
        return front_fail(EINVAL);
    }
    *port_speed = IDENTITY_PORT_SPEED;
    return 0;
}

/* ---- counters of completions: no device here has them ---------------------------------------- */

int _ibv_query_comp_cntr_caps(struct ibv_context *context, void *caps, size_t caps_size)
{
    return front_fail(EOPNOTSUPP);
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct comp_cntr_attr *attr)
{
    return front_null(EOPNOTSUPP);
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
                            struct comp_cntr_attr *attr)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
    return front_fail(EOPNOTSUPP);
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value)
{
    return front_fail(EOPNOTSUPP);
}
