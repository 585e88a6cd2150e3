// The cursor by which everybody posts: what is committed leaves, in order, and nothing else; one
// poster at a time has the queue.

#include <sched.h>

#include "rnic/post.h"
#include "tests/rnic/device.h"

struct stage {
    struct device device;
    struct end active, passive, listener;
};

static void stage_open(struct stage *s)
{
    const struct rnic_config config = device_config();
    struct sockaddr_in addr;
    device_open(&s->device, &config, 0);
    end_listen(&s->listener, &s->device, &addr);
    end_init(&s->active, &s->device);
    end_init(&s->passive, &s->device);
    ends_connect(&s->active, &s->passive, &s->listener, &addr);
}

static void stage_close(struct stage *s)
{
    end_fini(&s->active);
    end_fini(&s->passive);
    end_fini(&s->listener);
    device_close(&s->device);
}

// A Write of the first octet of `active` to the second.
static void fill_write(const struct stage *s, struct send_wqe *wqe, uint64_t wr_id)
{
    wqe->wr_id = wr_id;
    wqe->opcode = WQE_RDMA_WRITE;
    wqe->flags = WQE_SIGNALED;
    wqe->imm_or_inv = 0;
    wqe->rkey = s->device.stag;
    wqe->remote_addr = (uintptr_t)s->device.buf + 1;
    wqe->sge_count = 1;
    wqe->length = 1;
    wqe->sge[0] =
        (struct sge){.addr = (uintptr_t)s->device.buf, .length = 1, .lkey = s->device.stag};
}

static void expect_completion(struct stage *s, uint64_t wr_id)
{
    const struct cqe cqe = device_poll(&s->device);
    assert_int_equal(cqe.status, 0);
    assert_int_equal(cqe.wr_id, wr_id);
}

static void what_is_committed_is_posted_in_order(void **state)
{
    struct stage s;
    struct rnic_sq_cursor cursor;
    stage_open(&s);
    rnic_sq_begin(&cursor, s.active.qp);
    fill_write(&s, rnic_sq_slot(&cursor), 1);
    fill_write(&s, rnic_sq_slot(&cursor), 2);
    rnic_sq_commit(&cursor);
    fill_write(&s, rnic_sq_slot(&cursor), 3);
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    for (uint64_t wr_id = 1; wr_id <= 3; wr_id++) {
        expect_completion(&s, wr_id);
    }
    stage_close(&s);
}

static void what_was_filled_behind_the_last_commit_stays_free(void **state)
{
    struct stage s;
    struct rnic_sq_cursor cursor;
    stage_open(&s);
    rnic_sq_begin(&cursor, s.active.qp);
    fill_write(&s, rnic_sq_slot(&cursor), 1);
    rnic_sq_commit(&cursor);
    struct send_wqe *dropped = rnic_sq_slot(&cursor);
    fill_write(&s, dropped, 2);
    rnic_sq_end(&cursor);
    expect_completion(&s, 1);

    rnic_sq_begin(&cursor, s.active.qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_ptr_equal(wqe, dropped);
    fill_write(&s, wqe, 3);
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    expect_completion(&s, 3);
    stage_close(&s);
}

static void a_full_queue_has_no_slot_and_posts_what_it_took(void **state)
{
    struct stage s;
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe;
    uint32_t count = 0;
    stage_open(&s);
    rnic_sq_begin(&cursor, s.active.qp);
    while ((wqe = rnic_sq_slot(&cursor)) != NULL) {
        fill_write(&s, wqe, ++count);
        rnic_sq_commit(&cursor);
    }
    assert_null(rnic_sq_slot(&cursor)); // and asking again takes nothing
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    assert_int_equal(count, rnic_qp_caps(s.active.qp).max_send_wr);
    for (uint64_t wr_id = 1; wr_id <= count; wr_id++) {
        expect_completion(&s, wr_id);
    }
    stage_close(&s);
}

static void the_end_of_a_cursor_without_a_queue_does_nothing(void **state)
{
    struct stage s;
    struct rnic_sq_cursor cursor;
    struct rnic_rq_cursor receives = {0};
    stage_open(&s);
    rnic_sq_begin(&cursor, s.active.qp);
    fill_write(&s, rnic_sq_slot(&cursor), 1);
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
    rnic_sq_end(&cursor); // it was given back above
    rnic_rq_end(&receives);
    expect_completion(&s, 1);
    rnic_sq_begin(&cursor, s.active.qp); // the queue is nobody's
    rnic_sq_end(&cursor);
    stage_close(&s);
}

static struct recv_wqe *fill_receive(struct rnic_rq_cursor *cursor, uint64_t wr_id)
{
    struct recv_wqe *wqe = rnic_rq_slot(cursor);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 0;
    return wqe;
}

static void receives_are_posted_up_to_the_last_commit(void **state)
{
    struct stage s;
    struct rnic_rq_cursor cursor;
    stage_open(&s);
    rnic_rq_begin(&cursor, s.passive.qp);
    fill_receive(&cursor, 7);
    rnic_rq_commit(&cursor);
    struct recv_wqe *dropped = fill_receive(&cursor, 8);
    rnic_rq_end(&cursor);
    rnic_rq_begin(&cursor, s.passive.qp);
    assert_ptr_equal(fill_receive(&cursor, 9), dropped);
    rnic_rq_end(&cursor);
    end_post_send(&s.active, WQE_SEND, 0, 0, NULL, 0);
    const struct cqe first = device_poll(&s.device), second = device_poll(&s.device);
    assert_int_equal(first.status, 0);
    assert_int_equal(second.status, 0);
    assert_true(first.wr_id == 7 || second.wr_id == 7);
    stage_close(&s);
}

static void a_shared_queue_is_posted_to_by_the_same_cursor(void **state)
{
    struct device device;
    struct rnic_srq *srq;
    struct rnic_rq_cursor cursor;
    const struct rnic_config config = device_config();
    const struct rnic_async_port deaf = {0};
    device_open(&device, &config, 0);
    assert_int_equal(rnic_srq_create(device.rnic, device.pd, 4, 1, &deaf, &srq), 0);
    rnic_srq_begin(&cursor, srq);
    fill_receive(&cursor, 1);
    fill_receive(&cursor, 2);
    rnic_rq_commit(&cursor);
    fill_receive(&cursor, 3);
    rnic_rq_end(&cursor);
    assert_int_equal(srq_posted_count(srq->srq), 2);
    assert_int_equal(rnic_srq_destroy(srq), 0);
    device_close(&device);
}

/* ---- one poster at a time -------------------------------------------------------------------- */

enum { RIVAL_COUNT = 3, PAIRS_EACH = 200 };

struct rival {
    struct stage *stage;
    pthread_t thread;
    uint64_t wr_id; // of the first of each pair; the second has the next
};

// Pairs of entries, with time for others between the two.
static void *post_pairs(void *arg)
{
    const struct rival *r = arg;
    for (unsigned i = 0; i < PAIRS_EACH;) {
        struct rnic_sq_cursor cursor;
        rnic_sq_begin(&cursor, r->stage->active.qp);
        struct send_wqe *first = rnic_sq_slot(&cursor);
        sched_yield();
        struct send_wqe *second = rnic_sq_slot(&cursor);
        if (first != NULL && second != NULL) {
            fill_write(r->stage, first, r->wr_id);
            fill_write(r->stage, second, r->wr_id + 1);
            rnic_sq_commit(&cursor);
            i++;
        }
        rnic_sq_end(&cursor);
    }
    return NULL;
}

static void what_one_poster_commits_is_not_mixed_with_anothers(void **state)
{
    struct stage s;
    struct rival rivals[RIVAL_COUNT];
    stage_open(&s);
    for (unsigned i = 0; i < RIVAL_COUNT; i++) {
        rivals[i] = (struct rival){.stage = &s, .wr_id = 10 * (i + 1)};
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, post_pairs, &rivals[i]), 0);
    }
    for (unsigned i = 0; i < RIVAL_COUNT * PAIRS_EACH; i++) {
        const struct cqe first = device_poll(&s.device), second = device_poll(&s.device);
        assert_int_equal(first.wr_id % 10, 0);
        assert_int_equal(second.wr_id, first.wr_id + 1);
    }
    for (unsigned i = 0; i < RIVAL_COUNT; i++) {
        pthread_join(rivals[i].thread, NULL);
    }
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_committed_is_posted_in_order),
        cmocka_unit_test(what_was_filled_behind_the_last_commit_stays_free),
        cmocka_unit_test(a_full_queue_has_no_slot_and_posts_what_it_took),
        cmocka_unit_test(the_end_of_a_cursor_without_a_queue_does_nothing),
        cmocka_unit_test(receives_are_posted_up_to_the_last_commit),
        cmocka_unit_test(a_shared_queue_is_posted_to_by_the_same_cursor),
        cmocka_unit_test(what_one_poster_commits_is_not_mixed_with_anothers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
