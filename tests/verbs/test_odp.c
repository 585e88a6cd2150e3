// Regions on demand: of memory that need not be there when it is registered, up to the whole
// address space. What is not there when it is used ends the connection, never the process.
#include <errno.h>
#include <sys/mman.h>

#include "tests/verbs/pair.h"

enum {
    LEN = 4096,
    ACCESS = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

static struct pair pair;

static int setup(void **state)
{
    pair_init(&pair);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static struct ibv_mr *whole_address_space(struct bench *b)
{
    struct ibv_mr *mr = ibv_reg_mr(b->pd, NULL, SIZE_MAX, ACCESS);
    assert_non_null(mr);
    return mr;
}

static uint8_t *map(void)
{
    uint8_t *page = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    return page;
}

// Where nothing is mapped, now and while the test runs.
static uint8_t *hole(void)
{
    uint8_t *page = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    return page;
}

static struct ibv_sge sge_of(const uint8_t *addr, uint32_t lkey)
{
    return (struct ibv_sge){.addr = (uintptr_t)addr, .length = LEN, .lkey = lkey};
}

static enum ibv_wc_status status_of(struct bench *b, enum ibv_wr_opcode opcode, struct ibv_sge sge,
                                    const uint8_t *remote, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = opcode,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {.remote_addr = (uintptr_t)remote, .rkey = rkey}},
                       *bad;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)remote;
        wr.wr.atomic.rkey = rkey;
    }
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), 0);
    return bench_poll(b->cq).status;
}

static void device_says_what_it_can(void **state)
{
    struct pair *p = *state;
    struct ibv_device_attr_ex attr;
    const uint32_t rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                        IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
    assert_int_equal(ibv_query_device_ex(p->a.context, NULL, &attr), 0);
    assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps, rc);
    assert_int_equal(attr.odp_caps.per_transport_caps.ud_odp_caps, 0);
}

static void region_may_be_registered_before_its_memory_is_mapped(void **state)
{
    struct pair *p = *state;
    uint8_t *page = hole();
    struct ibv_mr *mr = ibv_reg_mr(p->b.pd, page, LEN, ACCESS);
    assert_non_null(mr);
    assert_int_equal(mprotect(page, LEN, PROT_READ | PROT_WRITE), 0);
    memset(page, 0x5a, LEN);
    assert_int_equal(status_of(&p->a, IBV_WR_RDMA_READ, bench_sge(&p->a, 0, LEN), page, mr->rkey),
                     IBV_WC_SUCCESS);
    assert_memory_equal(p->a.buf, page, LEN);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(page, LEN);
}

static void whole_address_space_takes_every_operation(void **state)
{
    struct pair *p = *state;
    struct ibv_mr *mine = whole_address_space(&p->a), *theirs = whole_address_space(&p->b);
    uint8_t *here = map(), *there = map();
    struct ibv_sge to = sge_of(there, theirs->lkey), word = sge_of(here, mine->lkey);
    struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
    memset(here, 0x11, LEN);
    assert_int_equal(ibv_post_recv(p->b.qp, &recv, &bad), 0);
    assert_int_equal(status_of(&p->a, IBV_WR_SEND, sge_of(here, mine->lkey), NULL, 0),
                     IBV_WC_SUCCESS);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(there, here, LEN);
    memset(here, 0x22, LEN);
    assert_int_equal(
        status_of(&p->a, IBV_WR_RDMA_WRITE, sge_of(here, mine->lkey), there, theirs->rkey),
        IBV_WC_SUCCESS);
    memset(here + LEN / 2, 0, LEN / 2);
    assert_int_equal(
        status_of(&p->a, IBV_WR_RDMA_READ, sge_of(here, mine->lkey), there, theirs->rkey),
        IBV_WC_SUCCESS);
    assert_int_equal(here[LEN - 1], 0x22); // which the Write had brought
    word.length = 8;
    assert_int_equal(status_of(&p->a, IBV_WR_ATOMIC_FETCH_AND_ADD, word, there, theirs->rkey),
                     IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mine), 0);
    assert_int_equal(ibv_dereg_mr(theirs), 0);
    munmap(here, LEN);
    munmap(there, LEN);
}

static enum ibv_wc_status remote_status(struct pair *p, enum ibv_wr_opcode opcode,
                                        const uint8_t *addr)
{
    struct ibv_mr *mr = whole_address_space(&p->b);
    enum ibv_wc_status status = status_of(&p->a, opcode, bench_sge(&p->a, 0, LEN), addr, mr->rkey);
    if (status == IBV_WC_SUCCESS) { // a Write that was handed on: the peer tells by an event
        struct ibv_async_event event;
        assert_int_equal(ibv_get_async_event(p->b.context, &event), 0);
        assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
        ibv_ack_async_event(&event);
    }
    assert_int_equal(ibv_dereg_mr(mr), 0);
    return status;
}

static void read_of_memory_that_is_not_there_is_refused(void **state)
{
    uint8_t *nothing = hole();
    assert_int_equal(remote_status(*state, IBV_WR_RDMA_READ, nothing), IBV_WC_REM_ACCESS_ERR);
    munmap(nothing, LEN);
}

static void write_to_memory_that_is_not_there_is_refused(void **state)
{
    uint8_t *nothing = hole();
    enum ibv_wc_status status = remote_status(*state, IBV_WR_RDMA_WRITE, nothing);
    assert_true(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
    munmap(nothing, LEN);
}

static void write_to_memory_that_cannot_be_written_is_refused(void **state)
{
    uint8_t *page = map();
    assert_int_equal(mprotect(page, LEN, PROT_READ), 0);
    enum ibv_wc_status status = remote_status(*state, IBV_WR_RDMA_WRITE, page);
    assert_true(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
    munmap(page, LEN);
}

static void both_ends_of_the_address_space_are_refused(void **state)
{
    assert_int_equal(remote_status(*state, IBV_WR_RDMA_READ, NULL), IBV_WC_REM_ACCESS_ERR);
}

static void own_memory_that_is_not_there_fails_the_request(void **state)
{
    struct pair *p = *state;
    struct ibv_mr *mr = whole_address_space(&p->a);
    uint8_t *nothing = hole();
    assert_int_equal(
        status_of(&p->a, IBV_WR_RDMA_READ, sge_of(nothing, mr->lkey), p->b.buf, p->b.mr->rkey),
        IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(nothing, LEN);
}

static void receive_into_memory_that_is_not_there_fails(void **state)
{
    struct pair *p = *state;
    struct ibv_mr *mr = whole_address_space(&p->b);
    uint8_t *nothing = hole();
    struct ibv_sge sge = sge_of(nothing, mr->lkey);
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(p->b.qp, &recv, &bad), 0);
    status_of(&p->a, IBV_WR_SEND, bench_sge(&p->a, 0, LEN), NULL, 0);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(nothing, LEN);
}

static void window_on_it_looks_too(void **state)
{
    struct pair *p = *state;
    struct ibv_mr *mr = whole_address_space(&p->b);
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_2);
    uint8_t *nothing = hole();
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = mw->rkey;
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                                     .addr = (uintptr_t)nothing,
                                                     .length = LEN,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    pair_post_send(&p->b, wr, (struct ibv_sge){0});
    assert_int_equal(
        status_of(&p->a, IBV_WR_RDMA_READ, bench_sge(&p->a, 0, LEN), nothing, mw->rkey),
        IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(nothing, LEN);
}

/* ---- advice ---------------------------------------------------------------------------------- */

static int advise(struct bench *b, enum ibv_advise_mr_advice advice, const uint8_t *addr,
                  uint32_t lkey)
{
    struct ibv_sge sge = sge_of(addr, lkey);
    return ibv_advise_mr(b->pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static void advice_is_taken_where_it_can_be_followed(void **state)
{
    struct bench *b = &((struct pair *)*state)->a;
    struct ibv_mr *mr = whole_address_space(b);
    struct ibv_mr *readable = ibv_reg_mr(b->pd, b->buf, LEN, IBV_ACCESS_ON_DEMAND);
    struct ibv_sge sge = sge_of(b->buf, mr->lkey);
    struct ibv_pd *other = ibv_alloc_pd(b->context);
    uint8_t *nothing = hole();
    const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
                                    write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                    present = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
    assert_int_equal(advise(b, read, b->buf, mr->lkey), 0);
    assert_int_equal(advise(b, write, b->buf, mr->lkey), 0);
    assert_int_equal(advise(b, present, nothing, mr->lkey), 0);
    assert_int_equal(advise(b, read, nothing, mr->lkey), EFAULT);
    assert_int_equal(advise(b, read, b->buf + 1, readable->lkey), EFAULT);
    assert_int_equal(advise(b, write, b->buf, readable->lkey), EPERM);
    assert_int_equal(advise(b, read, b->buf, b->mr->lkey), EINVAL); // not on demand
    assert_int_equal(advise(b, read, b->buf, 0xdeadbeef), ENOENT);
    assert_int_equal(ibv_advise_mr(other, read, 0, &sge, 1), EPERM);
    assert_int_equal(ibv_advise_mr(b->pd, read, 2, &sge, 1), EINVAL);
    assert_int_equal(ibv_advise_mr(b->pd, read, 0, &sge, 0), EINVAL);
    assert_int_equal(advise(b, (enum ibv_advise_mr_advice)77, b->buf, mr->lkey), EOPNOTSUPP);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dereg_mr(readable), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(nothing, LEN);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(device_says_what_it_can),
        CASE(region_may_be_registered_before_its_memory_is_mapped),
        CASE(whole_address_space_takes_every_operation),
        CASE(read_of_memory_that_is_not_there_is_refused),
        CASE(write_to_memory_that_is_not_there_is_refused),
        CASE(write_to_memory_that_cannot_be_written_is_refused),
        CASE(both_ends_of_the_address_space_are_refused),
        CASE(own_memory_that_is_not_there_fails_the_request),
        CASE(receive_into_memory_that_is_not_there_fails),
        CASE(window_on_it_looks_too),
        CASE(advice_is_taken_where_it_can_be_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
