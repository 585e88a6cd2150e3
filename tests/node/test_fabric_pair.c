// One connection over RDMA from its making to the last of what was under way on it, before verbs of
// the test's.

#include "tests/node/fabric_stage.h"

static const struct fabric_shape shape = {
    .receive_count = 7, .descriptor_count = 16, .send_count = 3, .quantum_len = 99};

static struct fabric_device device;
static struct fabric_pair *pair;

static struct fabric_pair *pair_create(const char *host)
{
    struct fabric_pair *p = calloc(1, sizeof *p);
    at.alive++;
    p->device = &device;
    p->id = stage_id(host);
    return p;
}

static void pair_free(struct fabric_pair *p)
{
    at.alive -= 2;
    free(p->id);
    free(p);
}

static void begin(void)
{
    stage_begin(0);
    device = (struct fabric_device){.fabric = &fabric, .verbs = &at.verbs};
}

// A pair at rest, with both queues armed for what they are armed for.
static int begin_at_rest(void **state)
{
    begin();
    pair = pair_create("10.0.0.1");
    assert_true(fabric_pair_init(pair, &shape));
    assert_true(fabric_pair_accept(pair, NULL));
    list_init(&pair->dirty_link);
    list_init(&fabric.dirty);
    pair->state = FABRIC_UP;
    assert_false(fabric_pair_update(pair, at.now));
    at.log[0] = '\0';
    return 0;
}

static int end(void **state)
{
    stage_end();
    return 0;
}

static void wc_add(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
    struct stage_cq *c = (struct stage_cq *)cq;
    c->wcs[c->wc_count++] = (struct ibv_wc){.wr_id = wr_id, .status = status};
}

static bool is_dirty(void)
{
    return !list_is_empty(&fabric.dirty);
}

/* ---- made ------------------------------------------------------------------------------------ */

static void a_pair_has_room_for_all_that_may_be_posted(void **state)
{
    begin();
    struct fabric_pair *p = pair_create("10.0.0.1");
    assert_true(fabric_pair_init(p, &shape));
    assert_log("cq7 cq19 qp19/7/1/1/1 manager16/99 ");
    assert_ptr_equal(p->fabric, &fabric);
    assert_true(p->silent_until_ns == INSTANT_NEVER);
    assert_true(list_is_empty(&p->sending) && list_is_empty(&p->link));
    assert_ptr_equal(p->recv_cq->cq_context, p);
    assert_ptr_equal(p->send_cq->cq_context, p);
    fabric_pair_fini(p);
    assert_log("-qp flush -manager -cq7 -cq19 ");
    pair_free(p);
    stage_end();
}

static void what_there_is_of_a_pair_goes_again(void **state)
{
    static const struct {
        const char *fails;
        unsigned fails_at;
        const char *made, *gone;
    } cases[] = {
        {"cq", 0, "cq7 cq19 ", ""},
        {"cq", 1, "cq7 cq19 ", "-cq7 "},
        {"qp", 0, "cq7 cq19 qp19/7/1/1/1 ", "-cq7 -cq19 "},
        {"manager", 0, "cq7 cq19 qp19/7/1/1/1 manager16/99 ", "-qp -cq7 -cq19 "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        struct fabric_pair *p = pair_create("10.0.0.1");
        at.fails = cases[i].fails;
        at.fails_at = cases[i].fails_at;
        assert_false(fabric_pair_init(p, &shape));
        assert_int_equal(errno, ENOSPC);
        assert_log(cases[i].made);
        fabric_pair_fini(p);
        assert_log(cases[i].gone);
        pair_free(p);
        stage_end();
    }
}

static void who_is_accepted_is_one_of_the_servers(void **state)
{
    begin();
    struct fabric_pair *p = pair_create("10.0.0.1");
    assert_true(fabric_pair_init(p, &shape));
    at.log[0] = '\0';
    why_say(&p->why, "no");
    assert_false(fabric_pair_accept(p, NULL));
    assert_log(""); // it was not answered
    p->why = (struct why){""};
    at.fails = "accept";
    assert_false(fabric_pair_accept(p, NULL));
    assert_log("accept ");
    assert_int_equal(fabric.pair_count, 0);
    assert_true(list_is_empty(&fabric.pairs) && !is_dirty());
    assert_null(p->id->context);
    at.fails = NULL;
    assert_true(fabric_pair_accept(p, NULL));
    assert_int_equal(fabric.pair_count, 1);
    assert_int_equal(fabric.counters.accepted, 1);
    assert_string_equal(p->host, "10.0.0.1");
    assert_ptr_equal(p->id->context, p);
    assert_true(is_dirty());
    assert_int_equal(p->state, FABRIC_ACCEPTING);
    list_init(&fabric.dirty); // it alone is there
    list_push_tail(&fabric.dirty, &p->dirty_link);
    stage_end(); // it goes with the server
    assert_false(is_dirty());
    assert_non_null(strstr(at.log, "disconnect -qp close flush abandon flush -manager "));
}

static void one_address_has_half_of_the_connections(void **state)
{
    static const struct {
        unsigned pair_max, mine, others;
        const char *why;
    } cases[] = {
        {0, 0, 0, NULL}, // the protocol's 6
        {0, 2, 0, NULL},
        {0, 2, 3, NULL},
        {0, 3, 0, "too many connections come from there"},
        {0, 2, 4, "there are too many connections"},
        {0, 3, 3, "there are too many connections"},
        {0, 0, 6, "there are too many connections"},
        {8, 3, 4, NULL},
        {8, 4, 0, "too many connections come from there"},
        {8, 0, 8, "there are too many connections"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fabric_pair pairs[8] = {0};
        stage_begin(cases[i].pair_max);
        struct rdma_cm_id *id = stage_id("10.0.0.1");
        for (unsigned n = 0; n < cases[i].mine + cases[i].others; n++) {
            snprintf(pairs[n].host, sizeof pairs[n].host, "10.0.0.1%s",
                     n < cases[i].mine ? "" : "1");
            list_push_tail(&fabric.pairs, &pairs[n].link);
            fabric.pair_count++;
        }
        const char *why = fabric_pair_limit(&fabric, id);
        assert_string_equal(why != NULL ? why : "", cases[i].why != NULL ? cases[i].why : "");
        list_init(&fabric.pairs);
        rdma_destroy_id(id);
        stage_end();
    }
}

/* ---- at work --------------------------------------------------------------------------------- */

static void a_pair_at_rest_is_armed_once_and_looked_at_once_more(void **state)
{
    begin();
    pair = pair_create("10.0.0.1");
    assert_true(fabric_pair_init(pair, &shape));
    assert_true(fabric_pair_accept(pair, NULL));
    at.log[0] = '\0';
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send arm7 post retry send await ");
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send await ");
    pair->is_recv_armed = false; // an event
    pair->transfer_count = 1;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send arm7 arm19 post retry send await ");
    pair->is_send_armed = false;
    pair->transfer_count = 0;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send await "); // nothing is out
    struct list_link one;
    list_push_tail(&pair->sending, &one);
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send arm19 post retry send await ");
    stage_end();
}

static void sends_are_taken_before_what_has_come(void **state)
{
    struct list_link one, two;
    list_push_tail(&pair->sending, &one);
    list_push_tail(&pair->sending, &two);
    pair->is_send_armed = true;
    wc_add(pair->recv_cq, 5, IBV_WC_SUCCESS);
    wc_add(pair->send_cq, 1, IBV_WC_SUCCESS);
    wc_add(pair->send_cq, STAGE_MANAGERS, IBV_WC_SUCCESS);
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("sent1 post received5 retry send post retry send await ");
}

static void sends_are_not_looked_for_where_none_is_out(void **state)
{
    wc_add(pair->send_cq, 1, IBV_WC_SUCCESS);
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send await ");
    pair->transfer_count = 1;
    pair->is_send_armed = true;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("sent1 post retry send post retry send await ");
}

static void other_pairs_have_their_turn(void **state)
{
#define ROUND "post retry send "
    at.has_more = true;
    assert_true(fabric_pair_update(pair, at.now));
    assert_log(ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND); // nothing is awaited yet
#undef ROUND
}

// Who waits for answers has work to do by the first of them.
static void what_has_come_is_answered_before_all_of_it_is_taken(void **state)
{
    for (uint64_t i = 0; i < 20; i++) {
        wc_add(pair->recv_cq, i, IBV_WC_SUCCESS);
    }
    assert_false(fabric_pair_update(pair, at.now));
    for (unsigned last = 3; last < 20; last += 4) {
        char batch_end[64];
        snprintf(batch_end, sizeof batch_end, "received%u retry send post ", last);
        assert_non_null(strstr(at.log, batch_end));
    }
    at.log[0] = '\0';
}

/* ---- what is awaited ------------------------------------------------------------------------- */

static void a_pair_ends_when_what_is_awaited_does_not_come(void **state)
{
    enum { NEVER = -1 };
    static const struct {
        int silent_s;   // from now
        int transfer_s; // since one is under way; NEVER: none is
        int due_s;      // NEVER: nothing is; 0: over
        const char *why;
    } cases[] = {
        {NEVER, NEVER, NEVER, NULL},
        {5, NEVER, 5, NULL},
        {NEVER, 0, 30, NULL},
        {5, 0, 5, NULL},
        {40, 10, 20, NULL},
        {0, NEVER, 0, "it says nothing"},
        {0, 10, 0, "it says nothing"},
        {NEVER, 30, 0, "its data did not move for too long (patience)"},
        {5, 30, 0, "its data did not move for too long (patience)"},
        {0, 30, 0, "it says nothing"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_at_rest(NULL);
        if (cases[i].transfer_s != NEVER) {
            pair->transfer_count = 1;
            assert_false(fabric_pair_update(pair, at.now));
            at.now += (instant_ns)cases[i].transfer_s * NS_PER_S;
        }
        if (cases[i].silent_s != NEVER) {
            pair->silent_until_ns = at.now + (instant_ns)cases[i].silent_s * NS_PER_S;
        }
        at.log[0] = '\0';
        fabric_pair_update(pair, at.now);
        assert_string_equal(pair->why.text, cases[i].why != NULL ? cases[i].why : "");
        assert_int_equal(fabric.counters.stalled, cases[i].why != NULL);
        if (cases[i].why == NULL) {
            assert_true(deadline_at(&pair->deadline) ==
                        (cases[i].due_s == NEVER ? INSTANT_NEVER
                                                 : at.now + (instant_ns)cases[i].due_s * NS_PER_S));
            assert_true(fabric.member.next_deadline(fabric.member.ctx) ==
                        deadline_at(&pair->deadline));
        } else {
            assert_int_equal(pair->state, FABRIC_LEAVING);
            assert_non_null(strstr(at.said, cases[i].why));
        }
        stage_end();
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void what_completes_badly_ends_the_pair(void **state)
{
    static const struct {
        bool is_sent;
        enum ibv_wc_status status;
        const char *why;
        unsigned broken;
    } cases[] = {
        {true, IBV_WC_REM_ACCESS_ERR, "remote access error", 1},
        {false, IBV_WC_LOC_LEN_ERR, "another status", 1},
        {true, IBV_WC_WR_FLUSH_ERR, "", 0},
        {false, IBV_WC_WR_FLUSH_ERR, "", 0},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_at_rest(NULL);
        at.is_over = false;
        pair->transfer_count = 1;
        pair->is_send_armed = true;
        struct ibv_cq *cq = cases[i].is_sent ? pair->send_cq : pair->recv_cq;
        wc_add(cq, 1, cases[i].status);
        wc_add(cq, 2, cases[i].status); // the first counts
        assert_false(fabric_pair_update(pair, at.now));
        assert_string_equal(pair->why.text, cases[i].why);
        assert_int_equal(fabric.counters.broken, cases[i].broken);
        assert_null(strstr(at.log, "sent"));
        assert_null(strstr(at.log, "received"));
        bool is_flushed = cases[i].status == IBV_WC_WR_FLUSH_ERR;
        assert_int_equal(pair->state, is_flushed ? FABRIC_ENDED : FABRIC_LEAVING);
        assert_int_equal(pair->is_disconnected, is_flushed);
        stage_end();
    }
}

static void a_queue_that_fails_ends_the_pair(void **state)
{
    static const char cannot_poll[] = "its completion queue cannot be polled";
    static const struct {
        int send, receive;
        bool arms;
        const char *why;
    } cases[] = {
        {-1, 0, true, cannot_poll},
        {0, -1, true, cannot_poll},
        {0, 0, false, "its completions cannot be waited for"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_at_rest(NULL);
        pair->transfer_count = 1;
        ((struct stage_cq *)pair->send_cq)->polls = cases[i].send;
        ((struct stage_cq *)pair->recv_cq)->polls = cases[i].receive;
        at.fails = cases[i].arms ? NULL : "arm";
        wc_add(cases[i].send != 0 ? pair->recv_cq : pair->send_cq, 3, IBV_WC_SUCCESS);
        fabric_pair_update(pair, at.now);
        assert_string_equal(pair->why.text, cases[i].why);
        assert_non_null(strstr(at.said, cases[i].why));
        assert_int_equal(pair->state, FABRIC_LEAVING);
        stage_end();
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void who_leaves_lets_arrive_what_was_posted(void **state)
{
    struct list_link one;
    list_push_tail(&pair->sending, &one);
    pair->is_send_armed = true;
    fabric_end(pair, "enough");
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send send close post ");
    assert_int_equal(pair->state, FABRIC_LEAVING);
    assert_true(deadline_at(&pair->deadline) == at.now + 2 * NS_PER_S);
    wc_add(pair->recv_cq, 4, IBV_WC_SUCCESS); // nothing is taken any more
    wc_add(pair->send_cq, 1, IBV_WC_SUCCESS);
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("sent1 post post disconnect ");
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post "); // said once
    at.descriptors = 40;
    pair->is_disconnected = true;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("-qp flush abandon over? flush -manager -cq7 -cq19 destroy -id ");
    assert_int_equal(fabric.counters.descriptors, 40);
    assert_int_equal(fabric.pair_count, 0);
    assert_true(list_is_empty(&fabric.pairs));
    assert_true(fabric.member.next_deadline(fabric.member.ctx) == INSTANT_NEVER);
}

static void who_does_not_leave_in_time_is_cut(void **state)
{
    struct list_link one;
    list_push_tail(&pair->sending, &one);
    pair->is_send_armed = true;
    at.is_over = false;
    fabric_end(pair, "enough");
    fabric_pair_update(pair, at.now);
    at.log[0] = '\0';
    list_init(&fabric.dirty);
    list_init(&pair->dirty_link);
    at.now += 2 * NS_PER_S - 1;
    fabric.member.on_deadline(fabric.member.ctx, at.now);
    assert_false(is_dirty());
    at.now++;
    fabric.member.on_deadline(fabric.member.ctx, at.now);
    assert_true(is_dirty());
    fabric.member.on_batch_end(fabric.member.ctx, at.now);
    assert_log("post disconnect -qp flush abandon over? ");
    assert_int_equal(pair->state, FABRIC_ENDED);
    assert_false(fabric_pair_update(pair, at.now)); // something is under way yet
    assert_log("over? ");
    at.is_over = true;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("over? flush -manager -cq7 -cq19 destroy -id ");
}

static void who_is_gone_is_severed_at_once(void **state)
{
    at.is_over = false;
    pair->is_disconnected = true;
    pair->silent_until_ns = at.now + NS_PER_S;
    assert_false(fabric_pair_update(pair, at.now));
    assert_log("post retry send await disconnect -qp close flush abandon over? ");
    assert_false(deadline_is_armed(&pair->deadline));
    assert_non_null(pair->manager);
    assert_null(pair->id->qp);
    fabric_pair_destroy(pair, at.now);
    assert_log("flush -manager -cq7 -cq19 destroy -id ");
}

static void a_pair_is_destroyed_as_it_is(void **state)
{
    fabric_pair_destroy(pair, at.now);
    assert_log("disconnect -qp close flush abandon flush -manager -cq7 -cq19 destroy -id ");
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void a_request_that_the_manager_refuses_fails_the_pair(void **state)
{
    struct weft_rdma_request request = {0};
    assert_true(fabric_request_submit(pair, &request));
    assert_int_equal(pair->transfer_count, 1);
    assert_true(is_dirty());
    at.refusal = WEFT_RDMA_BUSY;
    list_init(&fabric.dirty);
    list_init(&pair->dirty_link);
    assert_false(fabric_request_submit(pair, &request));
    assert_int_equal(pair->transfer_count, 1);
    assert_int_equal(fabric.counters.bad_transfers, 1);
    assert_true(is_dirty());
    assert_string_equal(pair->why.text, "refused so");
    assert_string_equal(at.said,
                        "[10.0.0.1] proto: 10.0.0.1:77: the connection ends: refused so\n");
    fabric_fail(pair, "another"); // the first reason holds, and is said once
    fabric_end(pair, "a third");
    assert_string_equal(pair->why.text, "refused so");
    assert_int_equal(strlen(at.said), strlen("[10.0.0.1] proto: 10.0.0.1:77: the connection ends: "
                                             "refused so\n"));
}

static void data_that_move_are_progress_and_others_end_the_pair(void **state)
{
    struct weft_rdma_request request = {.result.outcome = WEFT_RDMA_SUCCESS};
    pair->transfer_count = 3;
    assert_false(fabric_pair_update(pair, at.now));
    instant_ns due = deadline_at(&pair->deadline);
    at.now += NS_PER_S;
    assert_true(fabric_request_over(pair, &request, PROGRESS_LEN - 1));
    assert_int_equal(pair->transfer_count, 2);
    assert_true(progress_deadline(&pair->moving) == due);
    assert_true(fabric_request_over(pair, &request, 1));
    assert_true(progress_deadline(&pair->moving) == due + NS_PER_S);
    request.result.outcome = WEFT_RDMA_FAILED;
    request.result.status = IBV_WC_REM_ACCESS_ERR;
    assert_false(fabric_request_over(pair, &request, PROGRESS_LEN));
    assert_int_equal(pair->transfer_count, 0);
    assert_int_equal(fabric.counters.bad_transfers, 1);
    assert_int_equal(fabric.counters.broken, 1);
    assert_string_equal(pair->why.text, "remote access error");
    fabric_on_bad_completion(pair, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(fabric.counters.broken, 1); // once
    list_init(&fabric.dirty);
    list_init(&pair->dirty_link);
    fabric_on_bad_completion(pair, IBV_WC_WR_FLUSH_ERR);
    assert_true(is_dirty());
    list_init(&fabric.dirty);
    list_init(&pair->dirty_link);
    fabric_end(pair, "again");
    assert_true(is_dirty());
}

static void who_was_touched_has_its_turn_once_and_in_order(void **state)
{
    struct fabric_pair others[2] = {{.fabric = &fabric}, {.fabric = &fabric}};
    list_init(&others[0].dirty_link);
    list_init(&others[1].dirty_link);
    fabric_touch(&others[1]);
    fabric_touch(&others[0]);
    fabric_touch(&others[1]);
    assert_ptr_equal(fabric.dirty.next, &others[1].dirty_link);
    assert_ptr_equal(fabric.dirty.next->next, &others[0].dirty_link);
    assert_ptr_equal(fabric.dirty.prev, &others[0].dirty_link);
    list_init(&fabric.dirty);
}

static void the_last_of_a_chain_stands_for_all(void **state)
{
    struct ibv_send_wr last = {.wr_id = 2}, first = {.wr_id = 1, .next = &last};
    fabric_send(pair, &first, &last);
    assert_log("wr1 wr2! ");
    assert_string_equal(pair->why.text, "");
    at.fails = "post";
    fabric_send(pair, &first, &last);
    assert_string_equal(pair->why.text, "its responses cannot be sent");
    at.log[0] = '\0';
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_has_room_for_all_that_may_be_posted),
        cmocka_unit_test(what_there_is_of_a_pair_goes_again),
        cmocka_unit_test(who_is_accepted_is_one_of_the_servers),
        cmocka_unit_test(one_address_has_half_of_the_connections),
        cmocka_unit_test(a_pair_at_rest_is_armed_once_and_looked_at_once_more),
        cmocka_unit_test_setup_teardown(sends_are_taken_before_what_has_come, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(sends_are_not_looked_for_where_none_is_out, begin_at_rest,
                                        end),
        cmocka_unit_test_setup_teardown(other_pairs_have_their_turn, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(what_has_come_is_answered_before_all_of_it_is_taken,
                                        begin_at_rest, end),
        cmocka_unit_test(a_pair_ends_when_what_is_awaited_does_not_come),
        cmocka_unit_test(what_completes_badly_ends_the_pair),
        cmocka_unit_test(a_queue_that_fails_ends_the_pair),
        cmocka_unit_test_setup_teardown(who_leaves_lets_arrive_what_was_posted, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(who_does_not_leave_in_time_is_cut, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(who_is_gone_is_severed_at_once, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(a_pair_is_destroyed_as_it_is, begin_at_rest, end),
        cmocka_unit_test_setup_teardown(a_request_that_the_manager_refuses_fails_the_pair,
                                        begin_at_rest, end),
        cmocka_unit_test_setup_teardown(data_that_move_are_progress_and_others_end_the_pair,
                                        begin_at_rest, end),
        cmocka_unit_test_setup_teardown(who_was_touched_has_its_turn_once_and_in_order,
                                        begin_at_rest, end),
        cmocka_unit_test_setup_teardown(the_last_of_a_chain_stands_for_all, begin_at_rest, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
