#include "tests/manager/pair.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static void qp_create(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = PAIR_DEPTH,
                .max_recv_wr = 4,
                .max_send_sge = PAIR_SEGMENTS_MAX,
                .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void connect_ends(struct loopback *ends)
{
    struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 4};
    memset(ends, 0, sizeof *ends);
    listener_open(&ends->listener);
    active_resolve(&ends->active, rdma_get_src_port(ends->listener.id));
    qp_create(ends->active.id);
    assert_int_equal(rdma_connect(ends->active.id, &param), 0);
    struct rdma_cm_event *event =
        event_expect(ends->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    ends->passive = event->id;
    rdma_ack_cm_event(event);
    qp_create(ends->passive);
    assert_int_equal(rdma_accept(ends->passive, &param), 0);
    assert_int_equal(event_take(ends->active.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(event_take(ends->listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static struct ibv_mr *memory_open(struct pair *pair, uint8_t **ret_memory)
{
    // iWARP wants a read's sink to be remotely writable.
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    assert_int_equal(posix_memalign((void **)ret_memory, 4096, PAIR_MEMORY_LEN), 0);
    struct ibv_mr *mr = ibv_reg_mr(pair->qp->pd, *ret_memory, PAIR_MEMORY_LEN, access);
    assert_non_null(mr);
    return mr;
}

void pair_open(struct pair *pair, struct weft_rdma_manager_attr attr)
{
    alarm(PAIR_LIMIT_S);
    connect_ends(&pair->ends);
    pair->qp = pair->ends.active.id->qp;
    pair->peer_qp = pair->ends.passive->qp;
    pair->local_mr = memory_open(pair, &pair->local);
    pair->remote_mr = memory_open(pair, &pair->remote);
    for (unsigned i = 0; i < PAIR_MEMORY_LEN; i++) {
        pair->local[i] = (uint8_t)(i * 31 + (i >> 8) + 1);
        pair->remote[i] = (uint8_t)(i * 17 + (i >> 10) + 2);
    }
    attr.qp = pair->qp;
    assert_int_equal(weft_rdma_manager_create(&attr, &pair->manager), 0);
}

void pair_close(struct pair *pair)
{
    assert_int_equal(weft_rdma_manager_destroy(pair->manager), 0);
    rdma_disconnect(pair->ends.active.id);
    rdma_destroy_qp(pair->ends.active.id);
    rdma_destroy_qp(pair->ends.passive);
    ibv_dereg_mr(pair->local_mr);
    ibv_dereg_mr(pair->remote_mr);
    loopback_close(&pair->ends);
    free(pair->local);
    free(pair->remote);
    alarm(0);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void job_on_complete(struct weft_rdma_request *request)
{
    ((struct job *)request->context)->count++;
}

void job_init(struct job *job, struct pair *pair, enum ibv_wr_opcode opcode)
{
    memset(job, 0, sizeof *job);
    job->pair = pair;
    job->request = (struct weft_rdma_request){.opcode = opcode,
                                              .elements = job->chain.elements,
                                              .on_complete = job_on_complete,
                                              .context = job};
}

void job_element(struct job *job, size_t remote_at)
{
    assert_in_range(job->chain.element_count, 0, CHAIN_MAX - 1);
    chain_element(&job->chain, (uintptr_t)&job->pair->remote[remote_at])->rkey =
        job->pair->remote_mr->rkey;
}

void job_buffer(struct job *job, size_t local_at, size_t len)
{
    assert_in_range(job->chain.buffer_count, 0, CHAIN_MAX - 1);
    chain_buffer(&job->chain, (uintptr_t)&job->pair->local[local_at], len)->lkey =
        job->pair->local_mr->lkey;
}

void job_submit(struct job *job, unsigned flags)
{
    assert_int_equal(weft_rdma_request_submit(job->pair->manager, &job->request, flags),
                     WEFT_RDMA_ACCEPTED);
}

void job_wait(struct job *job, void (*on_foreign)(struct pair *pair, const struct ibv_wc *wc))
{
    struct ibv_wc wc[PAIR_WC_MAX];
    while (job->count == 0) {
        int foreign = weft_rdma_manager_poll(job->pair->manager, wc, PAIR_WC_MAX);
        assert_true(foreign >= 0);
        sched_yield(); // on few processors, a software device needs this one
        for (int i = 0; i < foreign; i++) {
            assert_non_null(on_foreign);
            on_foreign(job->pair, &wc[i]);
        }
    }
}

void job_expect_success(const struct job *job)
{
    const struct weft_rdma_result *result = &job->request.result;
    struct weft_rdma_request_state state;
    weft_rdma_request_query(&job->request, &state);
    if (result->outcome != WEFT_RDMA_SUCCESS) {
        fail_msg("%llu octets done, then %s", (unsigned long long)result->done_len,
                 ibv_wc_status_str(result->status));
    }
    assert_int_equal(job->count, 1);
    assert_int_equal(state.remaining_len, 0);
    assert_int_equal(state.completed_transfer_count, state.total_transfer_count);
}

/* ---- sends ----------------------------------------------------------------------------------- */

void pair_post_receive(struct pair *pair)
{
    // Nothing is sent into it, but siw takes no receive without memory.
    struct ibv_sge sge = {
        .addr = (uintptr_t)pair->remote, .length = 1, .lkey = pair->remote_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(pair->peer_qp, &wr, &bad), 0);
}

void pair_post_send(struct pair *pair)
{
    struct ibv_send_wr wr = {
        .wr_id = PAIR_SEND, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(pair->qp, &wr, &bad), 0);
}

static void await_completion(struct ibv_cq *cq, uint64_t wr_id)
{
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
        sched_yield();
    }
    assert_int_equal(count, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, wr_id);
}

void pair_await_receive(struct pair *pair)
{
    await_completion(pair->peer_qp->recv_cq, 1);
}

void pair_settle(struct pair *pair)
{
    pair_post_receive(pair);
    pair_post_send(pair);
    await_completion(pair->qp->send_cq, PAIR_SEND);
    pair_await_receive(pair);
}
