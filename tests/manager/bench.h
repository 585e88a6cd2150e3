// A manager on the fake provider, memory on both sides, and requests to be filled in.
#pragma once

#include "tests/manager/chain.h"
#include "tests/manager/fake.h"

enum { MEMORY_LEN = 1 << 16, WC_MAX = 32 };

struct bench {
    struct fake fake;
    struct weft_rdma_manager *manager;
    uint8_t local[MEMORY_LEN], remote[MEMORY_LEN];
};

// A request with a chain of its own, and how often it was called back.
struct call {
    struct weft_rdma_request request;
    struct chain chain;
    unsigned count;
    struct bench *bench;
};

static inline void bench_init(struct bench *bench)
{
    fake_init(&bench->fake);
    for (unsigned i = 0; i < MEMORY_LEN; i++) {
        bench->local[i] = (uint8_t)(i * 31 + (i >> 8) + 1);
        bench->remote[i] = 0;
    }
    bench->manager = NULL;
}

static inline void bench_create_with(struct bench *bench, struct weft_rdma_manager_attr attr)
{
    attr.qp = &bench->fake.qp;
    assert_int_equal(weft_rdma_manager_create(&attr, &bench->manager), 0);
}

// A manager with every default, on the queue pair as it is described by now.
static inline void bench_create(struct bench *bench)
{
    bench_create_with(bench, (struct weft_rdma_manager_attr){0});
}

static inline void bench_fini(struct bench *bench)
{
    if (bench->manager != NULL) {
        assert_int_equal(weft_rdma_manager_destroy(bench->manager), 0);
    }
    fake_fini(&bench->fake);
}

static inline int bench_setup(void **state)
{
    static struct bench bench;
    bench_init(&bench);
    *state = &bench;
    return 0;
}

static inline int bench_teardown(void **state)
{
    bench_fini(*state);
    return 0;
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, bench_setup, bench_teardown)

/* ---- requests -------------------------------------------------------------------------------- */

static inline void call_on_complete(struct weft_rdma_request *request)
{
    ((struct call *)request->context)->count++;
}

static inline void call_init(struct call *call, struct bench *bench, enum ibv_wr_opcode opcode)
{
    memset(call, 0, sizeof *call);
    call->bench = bench;
    call->request = (struct weft_rdma_request){.opcode = opcode,
                                               .elements = call->chain.elements,
                                               .on_complete = call_on_complete,
                                               .context = call};
}

// A further element of one buffer: octets at these places of the two memories.
static inline void call_add(struct call *call, size_t remote_at, size_t local_at, size_t len)
{
    chain_add(&call->chain, (uintptr_t)&call->bench->remote[remote_at],
              (uintptr_t)&call->bench->local[local_at], len);
}

// A write of one element and one buffer.
static inline void call_write(struct call *call, struct bench *bench, size_t remote_at,
                              size_t local_at, size_t len)
{
    call_init(call, bench, IBV_WR_RDMA_WRITE);
    call_add(call, remote_at, local_at, len);
}

static inline void submit(struct call *call, unsigned flags)
{
    assert_int_equal(weft_rdma_request_submit(call->bench->manager, &call->request, flags),
                     WEFT_RDMA_ACCEPTED);
}

static inline struct weft_rdma_request_state query(const struct call *call)
{
    struct weft_rdma_request_state state;
    weft_rdma_request_query(&call->request, &state);
    return state;
}

static inline struct weft_rdma_counters counters(const struct bench *bench)
{
    struct weft_rdma_counters counters;
    weft_rdma_manager_counters(bench->manager, &counters);
    return counters;
}

/* ---- progress -------------------------------------------------------------------------------- */

// Shows the manager all completions there are; none is anybody else's.
static inline void poll_all(struct bench *bench)
{
    struct ibv_wc wc[WC_MAX];
    while (bench->fake.polled < bench->fake.cqe_count) {
        assert_int_equal(weft_rdma_manager_poll(bench->manager, wc, WC_MAX), 0);
    }
}

// Executes and polls until nothing is left to do.
static inline void run_all(struct bench *bench)
{
    while (bench->fake.executed < bench->fake.posted) {
        fake_execute_all(&bench->fake);
        poll_all(bench);
    }
}

static inline void expect_success(const struct call *call, uint64_t len)
{
    struct weft_rdma_request_state state = query(call);
    assert_int_equal(call->count, 1);
    assert_int_equal(call->request.result.outcome, WEFT_RDMA_SUCCESS);
    assert_int_equal(call->request.result.done_len, len);
    assert_int_equal(state.phase, WEFT_RDMA_COMPLETE);
    assert_int_equal(state.remaining_len, 0);
    assert_int_equal(state.completed_transfer_count, state.total_transfer_count);
    assert_null(state.current.element);
}

// Octets of the remote memory are those of the local one.
static inline void expect_moved(const struct bench *bench, size_t remote_at, size_t local_at,
                                size_t len)
{
    assert_memory_equal(&bench->remote[remote_at], &bench->local[local_at], len);
}
