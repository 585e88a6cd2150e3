// Anything in any order: requests of every shape on a manager of every size, executed, cancelled
// and failed at random, from one seed. In the end every request was told of once, what it says was
// moved was moved, and nothing else was.
#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"
#include "tests/manager/bench.h"

enum { CALLS = 24, STEPS = 120, SEEDS = 300, SEEDS_SOAK = 30000 };

// Octets of the two memories differ until they are moved.
enum { LOCAL_BIT = 0x40, REMOTE_BIT = 0x80 };

struct model {
    struct bench *bench;
    struct prng prng;
    struct call calls[CALLS];
    unsigned submitted;
    size_t local_at, remote_at; // of the next request
    bool may_fail;
    struct ibv_send_wr trailer;
};

static void memory_init(struct bench *bench)
{
    for (unsigned i = 0; i < MEMORY_LEN; i++) {
        bench->local[i] = (uint8_t)(LOCAL_BIT | (i * 7 & 0x3f));
        bench->remote[i] = (uint8_t)(REMOTE_BIT | (i * 11 & 0x3f));
    }
}

static void model_init(struct model *model, struct bench *bench, uint64_t seed)
{
    memset(model, 0, sizeof *model);
    model->bench = bench;
    model->trailer.opcode = IBV_WR_SEND;
    prng_init(&model->prng, seed);
    memory_init(bench);
    struct prng *prng = &model->prng;
    bench->fake.cap.max_send_wr = 1 + prng_below(prng, 16);
    bench->fake.cap.max_send_sge = 1 + prng_below(prng, 4);
    bench->fake.max_sge_rd = 1 + (int)prng_below(prng, 4);
    bench->fake.max_msg_sz = 8 + prng_below(prng, 200);
    bench->fake.sq_sig_all = prng_below(prng, 4) == 0;
    model->may_fail = prng_below(prng, 2) == 0;
    bench_create_with(
        bench, (struct weft_rdma_manager_attr){.descriptor_count = prng_below(prng, 17),
                                               .signal_interval = prng_below(prng, 6),
                                               .quantum_len = prng_below(prng, 300),
                                               .peer_max_len = prng_below(prng, 3) == 0 ? 50 : 0});
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void call_draw(struct model *model, struct call *call)
{
    struct prng *prng = &model->prng;
    call_init(call, model->bench, prng_below(prng, 3) == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
    for (unsigned elements = 1 + prng_below(prng, 5); elements > 0; elements--) {
        model->remote_at += prng_below(prng, 3) == 0 ? 1 + prng_below(prng, 9) : 0;
        chain_element(&call->chain, (uintptr_t)&model->bench->remote[model->remote_at]);
        for (unsigned buffers = 1 + prng_below(prng, 4); buffers > 0; buffers--) {
            unsigned len = 1 + prng_below(prng, 100);
            model->local_at += prng_below(prng, 2) == 0 ? 1 + prng_below(prng, 9) : 0;
            chain_buffer(&call->chain, (uintptr_t)&model->bench->local[model->local_at], len);
            model->local_at += len;
            model->remote_at += len;
        }
    }
    call->request.flags = prng_below(prng, 2) == 0 ? WEFT_RDMA_MAY_COALESCE : 0;
    call->request.max_transfer_len = prng_below(prng, 4) == 0 ? 8 + prng_below(prng, 90) : 0;
    call->request.trailer = prng_below(prng, 4) == 0 ? &model->trailer : NULL;
}

static void step_submit(struct model *model)
{
    struct call *call = &model->calls[model->submitted];
    if (model->submitted == CALLS) {
        return;
    }
    call_draw(model, call);
    enum weft_rdma_refusal refusal = weft_rdma_request_submit(model->bench->manager, &call->request,
                                                              prng_below(&model->prng, 2));
    if (refusal == WEFT_RDMA_ACCEPTED) {
        model->submitted++;
    } else {
        assert_int_equal(refusal, WEFT_RDMA_BROKEN);
        assert_true(model->bench->fake.is_broken);
    }
}

static void step_execute(struct model *model)
{
    struct fake *fake = &model->bench->fake;
    unsigned ready = fake->posted - fake->executed;
    if (ready == 0) {
        return;
    }
    if (model->may_fail && prng_below(&model->prng, 40) == 0) {
        fake_fail(fake, IBV_WC_REM_OP_ERR);
    } else {
        fake_execute(fake, 1 + prng_below(&model->prng, ready));
    }
}

static void step_poll(struct model *model)
{
    struct ibv_wc wc[WC_MAX];
    int count = 1 + (int)prng_below(&model->prng, WC_MAX);
    assert_int_equal(weft_rdma_manager_poll(model->bench->manager, wc, count), 0);
}

static void step_cancel(struct model *model)
{
    if (model->submitted > 0) {
        weft_rdma_request_cancel(&model->calls[prng_below(&model->prng, model->submitted)].request);
    }
}

static void step_refuse_a_post(struct model *model)
{
    struct fake *fake = &model->bench->fake;
    fake->post_error = prng_below(&model->prng, 2) == 0 ? ENOMEM : EINVAL;
    fake->post_error_at = fake->posted + prng_below(&model->prng, 4);
    fake->post_error_times = 1;
}

static void step(struct model *model)
{
    switch (prng_below(&model->prng, 12)) {
    case 0:
    case 1:
    case 2:
        step_submit(model);
        break;
    case 3:
        weft_rdma_manager_post(model->bench->manager);
        break;
    case 4:
        step_cancel(model);
        break;
    case 5:
        step_refuse_a_post(model);
        break;
    case 6:
    case 7:
    case 8:
        step_execute(model);
        break;
    default:
        step_poll(model);
    }
}

/* ---- judging --------------------------------------------------------------------------------- */

// How many of the first octets of a request were moved. All that were are marked as seen.
static uint64_t moved_len(struct bench *bench, const struct call *call)
{
    uint8_t bit = call->request.opcode == IBV_WR_RDMA_READ ? REMOTE_BIT : LOCAL_BIT;
    uint64_t moved = 0;
    bool is_over = false;
    for (const struct weft_rdma_element *e = call->request.elements; e != NULL; e = e->next) {
        uint8_t *remote = (uint8_t *)(uintptr_t)e->remote_addr;
        for (uint32_t b = 0; b < e->buffer_count; b++) {
            uint8_t *local = (uint8_t *)(uintptr_t)e->buffers[b].addr;
            for (uint64_t i = 0; i < e->buffers[b].len; i++, local++, remote++) {
                bool is_moved = *local == *remote && (*local & bit) != 0;
                is_over |= !is_moved;
                moved += !is_over;
                if (is_moved) {
                    *local = LOCAL_BIT;
                    *remote = REMOTE_BIT;
                }
            }
        }
    }
    return moved;
}

static const char *call_fault(struct bench *bench, const struct call *call)
{
    const struct weft_rdma_result *result = &call->request.result;
    struct weft_rdma_request_state state = query(call);
    uint64_t moved = moved_len(bench, call);
    if (call->count != 1 || state.phase != WEFT_RDMA_COMPLETE) {
        return "not told of once";
    }
    switch (result->outcome) {
    case WEFT_RDMA_SUCCESS:
        return state.completed_transfer_count != state.total_transfer_count ? "transfers missing"
               : moved != state.total_len || moved != result->done_len      ? "octets missing"
                                                                            : NULL;
    case WEFT_RDMA_CANCELLED:
        return moved != result->done_len ? "not the octets said" : NULL;
    case WEFT_RDMA_FAILED:
        return moved < result->done_len ? "fewer octets than said" : NULL;
    default:
        return "no outcome";
    }
}

// What no request named, or moved, is as it was.
static const char *memory_fault(const struct bench *bench)
{
    for (unsigned i = 0; i < MEMORY_LEN; i++) {
        if ((bench->local[i] & LOCAL_BIT) == 0 || (bench->remote[i] & REMOTE_BIT) == 0) {
            return "octets written that were not to be";
        }
    }
    return NULL;
}

static const char *model_fault(const struct model *model)
{
    struct weft_rdma_counters seen = counters(model->bench);
    for (unsigned i = 0; i < model->submitted; i++) {
        const char *fault = call_fault(model->bench, &model->calls[i]);
        if (fault != NULL) {
            return fault;
        }
    }
    if (seen.success_count + seen.cancel_count + seen.failure_count != model->submitted) {
        return "the counters do not add up";
    }
    return memory_fault(model->bench);
}

static void any_order_of_anything(void **state)
{
    static struct bench bench;
    static struct model model;
    uint64_t seeds = getenv("WEFT_SOAK") != NULL ? SEEDS_SOAK : SEEDS;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        bench_init(&bench);
        model_init(&model, &bench, seed);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&model);
        }
        bench.fake.post_error_times = 0;
        poll_all(&bench);
        weft_rdma_manager_post(bench.manager);
        run_all(&bench);
        const char *fault = model_fault(&model);
        if (fault != NULL) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, fault);
        }
        bench_fini(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
