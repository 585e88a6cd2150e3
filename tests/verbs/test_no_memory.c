// Each object is made while the Nth allocation of the program's thread fails, for every N: who
// asked is told ENOMEM, and what had been taken for it is given back.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/interposed_memory.h"

// Until all is kept that is kept of what has ended: streams (link/rest.h).
enum { WARM_LIVES = 300 };
enum { ALLOCATIONS_MAX = 200, MEMORY_LEN = 4096 };

static struct ibv_context *device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static char memory[MEMORY_LEN];

/* ---- objects: what makes one, and what takes it away ----------------------------------------- */

static void *make_device_list(void)
{
    return ibv_get_device_list(NULL);
}

static int free_device_list(void *object)
{
    ibv_free_device_list(object);
    return 0;
}

static void *make_context(void)
{
    return ibv_open_device(device->device);
}

static int close_context(void *object)
{
    return ibv_close_device(object);
}

static void *make_pd(void)
{
    return ibv_alloc_pd(device);
}

static int free_pd(void *object)
{
    return ibv_dealloc_pd(object);
}

static void *make_parent_domain(void)
{
    struct ibv_parent_domain_init_attr attr = {.pd = pd};
    return ibv_alloc_parent_domain(device, &attr);
}

static void *make_td(void)
{
    struct ibv_td_init_attr attr = {0};
    return ibv_alloc_td(device, &attr);
}

static int free_td(void *object)
{
    return ibv_dealloc_td(object);
}

static void *make_mr(void)
{
    return ibv_reg_mr(pd, memory, MEMORY_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void *make_mr_on_demand(void)
{
    return ibv_reg_mr(pd, memory, MEMORY_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
}

static int free_mr(void *object)
{
    return ibv_dereg_mr(object);
}

static void *make_mw(void)
{
    return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int free_mw(void *object)
{
    return ibv_dealloc_mw(object);
}

static void *make_channel(void)
{
    return ibv_create_comp_channel(device);
}

static int free_channel(void *object)
{
    return ibv_destroy_comp_channel(object);
}

static void *make_cq(void)
{
    return ibv_create_cq(device, 16, NULL, channel, 0);
}

static void *make_cq_ex(void)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
    struct ibv_cq_ex *made = ibv_create_cq_ex(device, &attr);
    return made != NULL ? ibv_cq_ex_to_cq(made) : NULL;
}

static int free_cq(void *object)
{
    return ibv_destroy_cq(object);
}

static void *make_srq(void)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};
    return ibv_create_srq(pd, &attr);
}

static int free_srq(void *object)
{
    return ibv_destroy_srq(object);
}

static void *make_qp(void)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
    };
    return ibv_create_qp(pd, &attr);
}

static void *make_qp_ex(void)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = cq,
        .recv_cq = cq,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
    };
    return ibv_create_qp_ex(device, &attr);
}

static int free_qp(void *object)
{
    return ibv_destroy_qp(object);
}

static const struct kind {
    const char *name;
    void *(*make)(void);
    int (*take_away)(void *object);
} kinds[] = {
    {"list of devices", make_device_list, free_device_list},
    {"context", make_context, close_context},
    {"protection domain", make_pd, free_pd},
    {"parent domain", make_parent_domain, free_pd},
    {"thread domain", make_td, free_td},
    {"region", make_mr, free_mr},
    {"region on demand", make_mr_on_demand, free_mr},
    {"window", make_mw, free_mw},
    {"channel", make_channel, free_channel},
    {"completion queue", make_cq, free_cq},
    {"extended completion queue", make_cq_ex, free_cq},
    {"shared receive queue", make_srq, free_srq},
    {"queue pair", make_qp, free_qp},
    {"extended queue pair", make_qp_ex, free_qp},
};

/* ---- each of them ---------------------------------------------------------------------------- */

static int open_all(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    device = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(device);
    channel = ibv_create_comp_channel(device);
    cq = ibv_create_cq(device, 16, NULL, NULL, 0);
    return pd != NULL && channel != NULL && cq != NULL ? 0 : -1;
}

static int close_all(void **state)
{
    return ibv_destroy_cq(cq) | ibv_destroy_comp_channel(channel) | ibv_dealloc_pd(pd) |
           ibv_close_device(device);
}

static void expect_blocks(const struct kind *kind, int64_t count, unsigned call)
{
    for (unsigned i = 0; i < 2000 && memory_blocks != count; i++) {
        usleep(1000); // what the device's thread gives back comes a moment later
    }
    if (memory_blocks != count) {
        fail_msg("allocation %u of a %s: %d blocks more", call, kind->name,
                 (int)(memory_blocks - count));
    }
}

// Whether an allocation failed.
static bool make_failing(const struct kind *kind, unsigned call)
{
    errno = 0;
    memory_fail_at(call);
    void *object = kind->make();
    const int error = errno;
    const bool was_refused = memory_has_failed();
    memory_fail_at(0);
    if (object == NULL && (!was_refused || error != ENOMEM)) {
        fail_msg("allocation %u of a %s: %s", call, kind->name, strerror(error));
    }
    if (object != NULL) {
        assert_int_equal(kind->take_away(object), 0);
    }
    return was_refused;
}

static void who_gets_no_memory_is_told_and_keeps_none(void **state)
{
    for (const struct kind *k = kinds; k < kinds + sizeof kinds / sizeof *kinds; k++) {
        for (unsigned i = 0; i < WARM_LIVES; i++) {
            make_failing(k, ALLOCATIONS_MAX);
        }
        const int64_t blocks = memory_blocks;
        unsigned call = 1;
        while (make_failing(k, call)) {
            expect_blocks(k, blocks, call++);
        }
        if (call < 2 || call >= ALLOCATIONS_MAX) {
            fail_msg("a %s takes %u allocations", k->name, call - 1);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_gets_no_memory_is_told_and_keeps_none)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
