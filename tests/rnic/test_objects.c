// Queues, memory and reads of a device through rnic/rnic.h: what each call does, and what it leaves
// behind when it is refused.
#include <errno.h>

#include "rnic/reads.h"
#include "tests/rnic/device.h"

static struct device device;

static int setup(void **state)
{
    const struct rnic_config config = device_config();
    device_open(&device, &config, 0);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(rnic_live(device.rnic).srqs, 0);
    device_close(&device);
    return 0;
}

// Events of objects, by kind.
struct heard {
    atomic_uint counts[RNIC_EVENT_SRQ_LIMIT_REACHED + 1];
};

static void on_async(void *ctx, enum rnic_async_event event)
{
    atomic_fetch_add(&((struct heard *)ctx)->counts[event], 1);
}

static void wait_heard(struct heard *heard, enum rnic_async_event event)
{
    for (unsigned i = 0; i < 5000 && atomic_load(&heard->counts[event]) == 0; i++) {
        pause_ms(1);
    }
    assert_int_equal(atomic_load(&heard->counts[event]), 1);
}

// Heard of that event, and of none but that.
static void expect_only(struct heard *heard, enum rnic_async_event event)
{
    wait_heard(heard, event);
    for (int i = 0; i <= RNIC_EVENT_SRQ_LIMIT_REACHED; i++) {
        assert_int_equal(atomic_load(&heard->counts[i]), i == (int)event);
    }
}

static struct rnic_qp_init qp_init_of(struct rnic_srq *srq, struct heard *heard)
{
    return (struct rnic_qp_init){
        .pd = device.pd,
        .send_cq = device.cq,
        .recv_cq = device.cq,
        .srq = srq,
        .max_send_wr = DEVICE_DEPTH,
        .max_recv_wr = DEVICE_DEPTH,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .async = {.on_event = heard != NULL ? on_async : NULL, .ctx = heard},
    };
}

static struct rnic_qp *qp_of(struct rnic_srq *srq, struct heard *heard)
{
    const struct rnic_qp_init init = qp_init_of(srq, heard);
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(device.rnic, &init, &qp), 0);
    return qp;
}

/* ---- completion queues ----------------------------------------------------------------------- */

static void completion_queue_of_no_or_too_many_entries_is_refused(void **state)
{
    const struct cq_port quiet = {0};
    const uint32_t most = rnic_limits.max_cqe;
    struct rnic_cq *cq = NULL;
    assert_int_equal(rnic_cq_create(device.rnic, 0, &quiet, &cq), -EINVAL);
    assert_int_equal(rnic_cq_create(device.rnic, most + 1, &quiet, &cq), -EINVAL);
    assert_null(cq);
    assert_int_equal(rnic_live(device.rnic).cqs, 1);
    assert_int_equal(rnic_cq_create(device.rnic, 1, &quiet, &cq), 0);
    assert_int_equal(rnic_live(device.rnic).cqs, 2);
    assert_int_equal(rnic_cq_resize(cq, 0), -EINVAL);
    assert_int_equal(rnic_cq_resize(cq, most + 1), -EINVAL);
    assert_int_equal(rnic_cq_resize(cq, 100), 0);
    assert_true(rnic_cq_capacity(cq) >= 100);
    assert_int_equal(rnic_cq_destroy(cq), 0);
}

static void completion_queue_in_use_stays_however_often_it_is_used(void **state)
{
    const struct cq_port quiet = {0};
    struct rnic_cq *other;
    assert_int_equal(rnic_cq_create(device.rnic, 4, &quiet, &other), 0);
    struct rnic_qp_init init = qp_init_of(NULL, NULL);
    struct rnic_qp *qp[2];
    init.send_cq = other;
    assert_int_equal(rnic_qp_create(device.rnic, &init, &qp[0]), 0);
    init.send_cq = device.cq;
    init.recv_cq = other;
    assert_int_equal(rnic_qp_create(device.rnic, &init, &qp[1]), 0);
    assert_int_equal(rnic_cq_destroy(other), -EBUSY);
    rnic_qp_destroy(qp[0]);
    assert_int_equal(rnic_cq_destroy(other), -EBUSY);
    rnic_qp_destroy(qp[1]);
    assert_int_equal(rnic_cq_destroy(other), 0);
}

static void completions_can_be_looked_at_before_they_are_taken(void **state)
{
    struct end end;
    end_init(&end, &device);
    rnic_cq_poll_begin(device.cq);
    assert_null(rnic_cq_peek(device.cq));
    rnic_cq_poll_end(device.cq);
    end_post_recv(&end, 11, 0, 8);
    end_post_recv(&end, 12, 0, 8);
    assert_int_equal(rnic_qp_modify(end.qp, QP_ERR), 0);
    rnic_cq_poll_begin(device.cq);
    assert_int_equal(rnic_cq_peek(device.cq)->wr_id, 11);
    assert_int_equal(rnic_cq_peek(device.cq)->wr_id, 11);
    rnic_cq_pop(device.cq);
    assert_int_equal(rnic_cq_peek(device.cq)->wr_id, 12);
    rnic_cq_pop(device.cq);
    assert_null(rnic_cq_peek(device.cq));
    rnic_cq_poll_end(device.cq);
    assert_false(rnic_cq_has_overrun(device.cq));
    end_fini(&end);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void queue_pair_is_found_by_its_number_and_no_other(void **state)
{
    struct rnic_qp *qp = qp_of(NULL, NULL);
    const uint32_t num = qp->qp_num;
    assert_true(num > 1 && num < 1U << 24);
    assert_ptr_equal(rnic_qp_find(device.rnic, num), qp);
    assert_null(rnic_qp_find(device.rnic, num + 1));
    assert_null(rnic_qp_find(device.rnic, num ^ 1U << 20)); // its slot, another number
    struct rnic_qp *other = qp_of(NULL, NULL);
    assert_int_not_equal(other->qp_num, num);
    assert_int_equal(rnic_live(device.rnic).qps, 2);
    rnic_qp_destroy(qp);
    assert_null(rnic_qp_find(device.rnic, num));
    assert_int_equal(rnic_live(device.rnic).qps, 1);
    rnic_qp_destroy(other);
}

static void queue_pair_of_no_domain_leaves_nothing(void **state)
{
    struct rnic_qp_init init = qp_init_of(NULL, NULL);
    struct rnic_qp *qp = NULL;
    init.pd = device.pd + 1000;
    assert_int_not_equal(rnic_qp_create(device.rnic, &init, &qp), 0);
    assert_null(qp);
    assert_int_equal(rnic_live(device.rnic).qps, 0);
}

static void domain_of_a_queue_stays(void **state)
{
    const struct rnic_async_port deaf = {0};
    struct rnic_qp_init init = qp_init_of(NULL, NULL);
    struct rnic_srq *srq;
    struct rnic_qp *qp;
    uint32_t pd;
    assert_int_equal(rnic_pd_alloc(device.rnic, &pd), 0);
    init.pd = pd;
    assert_int_equal(rnic_qp_create(device.rnic, &init, &qp), 0);
    assert_int_equal(rnic_pd_dealloc(device.rnic, pd), -EBUSY);
    rnic_qp_destroy(qp);
    assert_int_equal(rnic_srq_create(device.rnic, pd, 4, 1, &deaf, &srq), 0);
    assert_int_equal(rnic_pd_dealloc(device.rnic, pd), -EBUSY);
    assert_int_equal(rnic_srq_destroy(srq), 0);
    assert_int_equal(rnic_pd_dealloc(device.rnic, pd), 0);
}

static void program_hears_what_happens_to_a_queue_pair(void **state)
{
    struct heard active = {0}, passive = {0};
    struct sockaddr_in addr;
    struct end listener, ends[2];
    end_listen(&listener, &device, &addr);
    end_init(&ends[0], &device);
    end_init(&ends[1], &device);
    rnic_qp_destroy(ends[0].qp);
    rnic_qp_destroy(ends[1].qp);
    ends[0].qp = qp_of(NULL, &active);
    ends[1].qp = qp_of(NULL, &passive);
    ends_connect(&ends[0], &ends[1], &listener, &addr);
    assert_int_equal(rnic_qp_state(ends[0].qp), QP_RTS);
    assert_int_equal(rnic_qp_modify(ends[0].qp, QP_SQD), 0);
    expect_only(&active, RNIC_EVENT_SQ_DRAINED);
    end_take(&ends[0], RNIC_EP_DISCONNECTED);
    end_take(&ends[1], RNIC_EP_DISCONNECTED);
    end_fini(&ends[0]);
    end_fini(&ends[1]);
    end_fini(&listener);
}

/* ---- shared receive queues ------------------------------------------------------------------- */

static void srq_post(struct rnic_srq *srq, uint64_t wr_id, uint32_t offset)
{
    pthread_mutex_lock(&srq->lock);
    struct recv_wqe *wqe = srq_slot(srq->srq, 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] =
        (struct sge){.addr = (uintptr_t)device.buf + offset, .length = 64, .lkey = device.stag};
    srq_commit(srq->srq, 1);
    pthread_mutex_unlock(&srq->lock);
    rnic_srq_ring(srq);
}

static void shared_queues_are_counted_and_stay_while_in_use(void **state)
{
    const struct rnic_async_port deaf = {0};
    struct rnic_srq *srq[2];
    assert_int_equal(rnic_srq_create(device.rnic, device.pd, 5, 1, &deaf, &srq[0]), 0);
    assert_int_equal(rnic_srq_create(device.rnic, device.pd, 1, 1, &deaf, &srq[1]), 0);
    assert_int_equal(rnic_live(device.rnic).srqs, 2);
    assert_true(rnic_srq_max_wr(srq[0]) >= 5);
    struct rnic_qp *qp[2] = {qp_of(srq[0], NULL), qp_of(srq[0], NULL)};
    assert_int_equal(rnic_srq_destroy(srq[1]), 0);
    assert_int_equal(rnic_srq_destroy(srq[0]), -EBUSY);
    rnic_qp_destroy(qp[0]);
    assert_int_equal(rnic_srq_destroy(srq[0]), -EBUSY);
    rnic_qp_destroy(qp[1]);
    assert_int_equal(rnic_srq_destroy(srq[0]), 0);
    assert_int_equal(rnic_live(device.rnic).srqs, 0);
}

static void shared_queue_of_no_domain_leaves_nothing(void **state)
{
    const struct rnic_async_port deaf = {0};
    struct rnic_srq *srq = NULL;
    assert_true(rnic_srq_create(device.rnic, device.pd + 1000, 4, 1, &deaf, &srq) < 0);
    assert_null(srq);
    assert_int_equal(rnic_live(device.rnic).srqs, 0);
}

// Three connections: two wait at one shared queue, one at another.
static void receive_in_a_shared_queue_goes_to_who_waits_there(void **state)
{
    const struct rnic_async_port deaf = {0};
    struct rnic_srq *srq[2];
    struct sockaddr_in addr;
    struct end listener, active[3], passive[3];
    end_listen(&listener, &device, &addr);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rnic_srq_create(device.rnic, device.pd, 4, 1, &deaf, &srq[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        end_init(&active[i], &device);
        end_init(&passive[i], &device);
        rnic_qp_destroy(passive[i].qp);
        passive[i].qp = qp_of(srq[i / 2], NULL);
        ends_connect(&active[i], &passive[i], &listener, &addr);
        device.buf[1024 + i] = (uint8_t)('a' + i);
        end_post_send(&active[i], WQE_SEND, (uint32_t)(1024 + i), 1, NULL, 0);
        assert_int_equal(device_poll(&device).wr_id, WQE_SEND);
        pause_ms(5); // it waits for a receive by now, mostly
    }
    srq_post(srq[1], 21, 0);
    struct cqe cqe = device_poll(&device);
    assert_int_equal(cqe.wr_id, 21);
    assert_int_equal(cqe.qp_num, passive[2].qp->qp_num);
    assert_int_equal(device.buf[0], 'c');
    srq_post(srq[0], 11, 0);
    srq_post(srq[0], 12, 64);
    assert_int_equal(device_poll(&device).wr_id, 11);
    assert_int_equal(device_poll(&device).wr_id, 12);
    assert_int_equal(device.buf[0] + device.buf[64], 'a' + 'b');
    for (int i = 0; i < 3; i++) {
        end_fini(&active[i]);
        end_fini(&passive[i]);
    }
    end_fini(&listener);
    assert_int_equal(rnic_srq_destroy(srq[0]), 0);
    assert_int_equal(rnic_srq_destroy(srq[1]), 0);
}

// Who waited for a receive and is gone gets none: it is for the next.
static void receive_is_not_kept_for_who_is_gone(void **state)
{
    const struct rnic_async_port deaf = {0};
    struct rnic_srq *srq;
    struct sockaddr_in addr;
    struct end listener, active[3], passive[3];
    end_listen(&listener, &device, &addr);
    assert_int_equal(rnic_srq_create(device.rnic, device.pd, 4, 1, &deaf, &srq), 0);
    for (int i = 0; i < 3; i++) {
        end_init(&active[i], &device);
        end_init(&passive[i], &device);
        rnic_qp_destroy(passive[i].qp);
        passive[i].qp = qp_of(srq, NULL);
        ends_connect(&active[i], &passive[i], &listener, &addr);
        end_post_send(&active[i], WQE_SEND, (uint32_t)(1024 + i), 1, NULL, 0);
        assert_int_equal(device_poll(&device).wr_id, WQE_SEND);
        pause_ms(5); // it waits for a receive by now, mostly
    }
    end_fini(&passive[0]); // the queue pair first
    rnic_ep_destroy(passive[1].ep);
    passive[1].ep = NULL;
    end_fini(&active[0]);
    end_fini(&active[1]);
    srq_post(srq, 5, 0);
    struct cqe cqe = device_poll(&device);
    assert_int_equal(cqe.wr_id, 5);
    assert_int_equal(cqe.qp_num, passive[2].qp->qp_num);
    end_fini(&passive[1]);
    end_fini(&active[2]);
    end_fini(&passive[2]);
    end_fini(&listener);
    assert_int_equal(rnic_srq_destroy(srq), 0);
}

static void shared_queue_below_its_limit_tells_once(void **state)
{
    struct heard heard = {0};
    const struct rnic_async_port port = {.on_event = on_async, .ctx = &heard};
    struct sockaddr_in addr;
    struct end listener, active, passive;
    struct rnic_srq *srq;
    end_listen(&listener, &device, &addr);
    assert_int_equal(rnic_srq_create(device.rnic, device.pd, 4, 1, &port, &srq), 0);
    assert_int_equal(rnic_srq_set_limit(srq, rnic_srq_max_wr(srq) + 1), -EINVAL);
    assert_int_equal(rnic_srq_set_limit(srq, rnic_srq_max_wr(srq)), 0);
    end_init(&active, &device);
    end_init(&passive, &device);
    rnic_qp_destroy(passive.qp);
    passive.qp = qp_of(srq, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        srq_post(srq, i, 0);
    }
    ends_connect(&active, &passive, &listener, &addr);
    atomic_store(&heard.counts[RNIC_EVENT_SRQ_LIMIT_REACHED], 0); // the empty queue told as well
    assert_int_equal(rnic_srq_set_limit(srq, 2), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&heard.counts[RNIC_EVENT_SRQ_LIMIT_REACHED]), i > 1);
        end_post_send(&active, WQE_SEND, 1024, 8, NULL, 0);
        device_poll(&device);
        device_poll(&device);
    }
    expect_only(&heard, RNIC_EVENT_SRQ_LIMIT_REACHED);
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
    assert_int_equal(rnic_srq_destroy(srq), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void region_keeps_or_changes_its_key_as_it_is_reregistered(void **state)
{
    uint32_t stag, now;
    assert_int_equal(rnic_region_register(device.rnic, device.pd, device.buf, 64,
                                          (uintptr_t)device.buf, MEM_ACCESS_LOCAL_WRITE, &stag),
                     0);
    assert_int_equal(rnic_region_reregister(device.rnic, stag, MEM_CHANGE_ACCESS, 0, NULL, 0,
                                            MEM_ACCESS_REMOTE_READ, &now),
                     0);
    assert_int_equal(now, stag);
    assert_int_equal(rnic_region_reregister(device.rnic, stag, MEM_CHANGE_TRANSLATION, 0,
                                            device.buf + 128, 64, 0, &now),
                     0);
    assert_int_not_equal(now, stag);
    assert_int_equal(rnic_region_reregister(device.rnic, now, 1U << 10, 0, NULL, 0, 0, &now),
                     -EINVAL);
    assert_int_equal(rnic_region_deregister(device.rnic, stag), -EINVAL);
    assert_int_equal(rnic_live(device.rnic).regions, 2);
    assert_int_equal(rnic_region_deregister(device.rnic, now), 0);
    assert_int_equal(rnic_live(device.rnic).regions, 1);
}

static void windows_are_counted(void **state)
{
    uint32_t rkey[2];
    assert_int_equal(rnic_window_alloc(device.rnic, device.pd, 1, &rkey[0]), 0);
    assert_int_equal(rnic_window_alloc(device.rnic, device.pd, 2, &rkey[1]), 0);
    assert_int_equal(rnic_live(device.rnic).windows, 2);
    assert_true(rnic_window_alloc(device.rnic, device.pd + 1000, 1, &rkey[1]) < 0);
    assert_int_equal(rnic_window_dealloc(device.rnic, rkey[0]), 0);
    assert_true(rnic_window_dealloc(device.rnic, rkey[0]) < 0);
    assert_int_equal(rnic_live(device.rnic).windows, 1);
    assert_int_equal(rnic_window_dealloc(device.rnic, rkey[1]), 0);
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void operator_sets_the_allotment_until_it_is_released(void **state)
{
    const uint32_t usual = device_config().read_allotment_len;
    struct report_reads reads = rnic_reads(device.rnic);
    assert_int_equal(reads.allotment_len, usual);
    assert_int_equal(reads.allotment_base_len, usual);
    assert_int_equal(reads.context_count, 128);
    assert_int_equal(reads.contexts_in_use, 0);
    assert_int_equal(reads.waiting_count, 0);
    assert_int_equal(reads.connection_count, 0);
    rnic_reads_set_allotment(device.rnic, 64 * 1024);
    reads = rnic_reads(device.rnic);
    assert_int_equal(reads.allotment_len, 64 * 1024);
    assert_int_equal(reads.changes[ALLOTMENT_OPERATOR], 1);
    rnic_reads_set_allotment(device.rnic, 64 * 1024);
    assert_int_equal(rnic_reads(device.rnic).changes[ALLOTMENT_OPERATOR], 1);
    rnic_reads_release_allotment(device.rnic);
    reads = rnic_reads(device.rnic);
    assert_int_equal(reads.allotment_len, usual);
    assert_int_equal(reads.changes[ALLOTMENT_OPERATOR], 2);
}

static void memory_is_short_as_long_as_one_source_says_so(void **state)
{
    struct rnic *rnic = device.rnic;
    const uint32_t usual = rnic_reads(rnic).allotment_len;
    assert_false(rnic_reads(rnic).is_memory_short);
    rnic_reads_set_memory(rnic, RNIC_MEMORY_TOLD, true);
    assert_true(rnic_reads(rnic).is_memory_short);
    assert_int_equal(rnic_reads(rnic).allotment_len, usual / 4);
    rnic_reads_set_memory(rnic, RNIC_MEMORY_SENSED, true);
    rnic_reads_set_memory(rnic, RNIC_MEMORY_TOLD, false);
    assert_true(rnic_reads(rnic).is_memory_short);
    assert_int_equal(rnic_reads(rnic).allotment_len, usual / 4);
    rnic_reads_set_memory(rnic, RNIC_MEMORY_SENSED, false);
    assert_false(rnic_reads(rnic).is_memory_short);
    assert_int_equal(rnic_reads(rnic).allotment_len, usual);
    assert_int_equal(rnic_reads(rnic).changes[ALLOTMENT_MEMORY], 2);
}

static void connections_follow_the_allotment(void **state)
{
    struct sockaddr_in addr;
    struct end listener, active, passive;
    end_listen(&listener, &device, &addr);
    end_init(&active, &device);
    end_init(&passive, &device);
    ends_connect(&active, &passive, &listener, &addr);
    end_post_recv(&passive, 1, 0, 64);
    end_post_send(&active, WQE_SEND, 1024, 8, NULL, 0);
    device_poll(&device);
    device_poll(&device);
    rnic_reads_set_allotment(device.rnic, 8192);
    instant_ns deadline_ns = rnic_now(device.rnic) + DEVICE_PATIENCE_NS;
    struct report_reads reads;
    do {
        pause_ms(1);
        reads = rnic_reads(device.rnic);
    } while (reads.in_force_max_len != 8192 && rnic_now(device.rnic) < deadline_ns);
    assert_int_equal(reads.connection_count, 2);
    assert_int_equal(reads.in_force_min_len, 8192);
    assert_int_equal(reads.in_force_max_len, 8192);
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(completion_queue_of_no_or_too_many_entries_is_refused),
        CASE(completion_queue_in_use_stays_however_often_it_is_used),
        CASE(completions_can_be_looked_at_before_they_are_taken),
        CASE(queue_pair_is_found_by_its_number_and_no_other),
        CASE(queue_pair_of_no_domain_leaves_nothing),
        CASE(domain_of_a_queue_stays),
        CASE(program_hears_what_happens_to_a_queue_pair),
        CASE(shared_queues_are_counted_and_stay_while_in_use),
        CASE(shared_queue_of_no_domain_leaves_nothing),
        CASE(receive_in_a_shared_queue_goes_to_who_waits_there),
        CASE(receive_is_not_kept_for_who_is_gone),
        CASE(shared_queue_below_its_limit_tells_once),
        CASE(region_keeps_or_changes_its_key_as_it_is_reregistered),
        CASE(windows_are_counted),
        CASE(operator_sets_the_allotment_until_it_is_released),
        CASE(memory_is_short_as_long_as_one_source_says_so),
        CASE(connections_follow_the_allotment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
