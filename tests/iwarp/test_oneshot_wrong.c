// The command table when the peer errs, and when the stream ends.
#include "tests/iwarp/oneshot.h"

/* ---- bad input ------------------------------------------------------------------------------- */

// b does what it must not do; a refuses it in this way.
static void expect_refused(struct pair *p, enum rdmap_refusal refusal, enum terminate_cause cause)
{
    pair_run(p);
    assert_int_equal(qp_counters(p->a.qp)->refusals[refusal], 1);
    assert_int_equal(qp_counters(p->a.qp)->terminates_out[cause], 1);
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    pair_close(p);
}

static void a_close_with_another_reference(void **state)
{
    for (unsigned by_invalidate = 0; by_invalidate < 2; by_invalidate++) {
        struct pair *p = open_pair(by_invalidate ? 0 : FLAGS, 0);
        uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
        post_command(p, &p->a, reference + 1, DATA_LEN); // ... of a command that is under way
        pair_run(p);
        post_close(p, &p->b, stag, reference + 1);
        expect_refused(p, RDMAP_REFUSED_CLOSE_REFERENCE, TERM_RDMAP_CATASTROPHIC_STREAM);
    }
}

static void a_second_close(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    post_close(p, &p->b, stag, reference);
    post_close(p, &p->b, stag, reference);
    expect_refused(p, RDMAP_REFUSED_CLOSE_INVALID_STAG, TERM_RDMAP_INVALID_STAG);
}

static void a_close_of_what_was_never_advertised(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = wq_oneshot_slot(qp_wq(p->a.qp))->stag; // allotted, but not told to anybody
    post_close(p, &p->b, stag, 0);
    expect_refused(p, RDMAP_REFUSED_CLOSE_INVALID_STAG, TERM_RDMAP_INVALID_STAG);
}

static void a_close_of_memory_that_is_no_one_shot_region(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    post_close(p, &p->b, p->a.stag, reference);
    expect_refused(p, RDMAP_REFUSED_CLOSE_NOT_ONESHOT, TERM_RDMAP_PROTECTION_INVALIDATE);
}

// Another queue pair's region, in the same domain or another.
static void a_close_of_another_connection_s_region(void **state)
{
    for (unsigned is_other_pd = 0; is_other_pd < 2; is_other_pd++) {
        struct pair *p = open_pair(FLAGS, 0);
        struct mem_asker other = {.pd = p->a.pd, .qp_num = 0x99};
        struct mem_element element = {mspan_of(p->a.memory, 100)};
        struct mem_list list;
        uint32_t stag;
        if (is_other_pd) {
            assert_int_equal(mem_pd_alloc(p->a.mem, &other.pd), 0);
        }
        mem_list_init(&list, &element, 1);
        assert_int_equal(mem_oneshot_alloc(p->a.mem, other, &stag), 0);
        mem_oneshot_open(p->a.mem, stag,
                         &(struct mem_oneshot){&list, 0, 100, MEM_ACCESS_REMOTE_WRITE, 0});
        post_close(p, &p->b, stag, 0);
        pair_run(p);
        mem_oneshot_free(p->a.mem, stag);
        expect_refused(p, RDMAP_REFUSED_CLOSE_STREAM, TERM_RDMAP_STREAM);
    }
}

static void a_close_too_short_for_its_reference(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    struct send_wqe *wqe = pair_send_slot(&p->b, 1, WQE_SEND, WQE_INLINE | WQE_CLOSE);
    wqe->imm_or_inv = stag;
    memset(wqe->inline_data, 0, BODY_LEN);
    wqe->length = REFERENCE_AT + 7;
    pair_post(p, &p->b);
    expect_refused(p, RDMAP_REFUSED_ONESHOT_SHORT, TERM_RDMAP_OPERATION_UNSPECIFIED);
}

static void an_advertisement_too_short_for_its_reference(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    struct ddp_header h = {
        .last = true, .rsvd = EXTENSION_RSVD_ADVERTISE, .rsvdulp = 0x43, .msn = 1};
    struct craft c = craft_of(&h, NULL, REFERENCE_AT);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
    expect_refused(p, RDMAP_REFUSED_ONESHOT_SHORT, TERM_RDMAP_OPERATION_UNSPECIFIED);
}

static void marks_that_cannot_be(void **state)
{
    static const struct {
        uint8_t agreed, rsvd, rsvdulp;
        enum rdmap_refusal refusal;
    } cases[] = {
        {FLAGS, 0xc, 0x43, RDMAP_REFUSED_ONESHOT_BOTH},
        {FLAGS, 0x4, 0x44, RDMAP_REFUSED_ONESHOT_STAG_TAKEN},
        {FLAGS, 0x8, 0x46, RDMAP_REFUSED_ONESHOT_STAG_TAKEN},
        {FLAGS & ~EXTENSION_ONESHOT_CLOSE, 0x8, 0x43, RDMAP_REFUSED_ONESHOT_UNAGREED},
        {OPCODE & ~EXTENSION_ONESHOT_ADVERTISE, 0, 0x48, RDMAP_REFUSED_ONESHOT_UNAGREED},
        {OPCODE, 0, 0x49, RDMAP_REFUSED_OPCODE},
        {FLAGS, 0, 0x4c, RDMAP_REFUSED_OPCODE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair *p = open_pair(cases[i].agreed, 0);
        struct ddp_header h = {
            .last = true, .rsvd = cases[i].rsvd, .rsvdulp = cases[i].rsvdulp, .msn = 1};
        struct craft c = craft_of(&h, NULL, BODY_LEN);
        assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
        expect_refused(p, cases[i].refusal, TERM_RDMAP_OPCODE);
    }
}

static void access_beyond_the_rights_that_were_advertised(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    struct oneshot_command *command = wq_oneshot_slot(qp_wq(p->a.qp));
    uint32_t stag = command->stag;
    fill_list(&p->a, command, DATA_LEN);
    command->access = MEM_ACCESS_REMOTE_WRITE;
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_SEND, WQE_INLINE);
    memset(wqe->inline_data, 0, BODY_LEN);
    wqe->length = BODY_LEN;
    wq_oneshot_commit(qp_wq(p->a.qp), wqe);
    pair_post(p, &p->a);
    pair_run(p);
    post_access(p, &p->b, WQE_RDMA_READ, stag, 0, 100);
    expect_refused(p, RDMAP_REFUSED_REMOTE_ACCESS, TERM_RDMAP_ACCESS);
}

static void access_behind_the_close(void **state)
{
    static const struct {
        enum wqe_opcode opcode;
        enum rdmap_refusal refusal;
        enum terminate_cause cause;
    } cases[] = {
        {WQE_RDMA_READ, RDMAP_REFUSED_REMOTE_INVALID_STAG, TERM_RDMAP_INVALID_STAG},
        {WQE_RDMA_WRITE, RDMAP_REFUSED_DDP_INVALID_STAG, TERM_DDP_INVALID_STAG},
    };
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pair(FLAGS, 0);
        uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
        pair_run(p);
        pair_fill(&p->b, DATA_AT, 100, 9);
        post_close(p, &p->b, stag, reference);
        post_access(p, &p->b, cases[i].opcode, stag, 0, 100);
        pair_run(p);
        expect_closed(p, stag, reference);
        assert_int_equal(p->a.memory[DATA_AT], 0);
        expect_refused(p, cases[i].refusal, cases[i].cause);
    }
}

// A Read that was asked for in front of the close, and is not answered when it comes.
static void a_close_in_the_middle_of_its_own_read(void **state)
{
    struct pair *p = open_pair(FLAGS, 1000);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    p->a.room = 2; // units: the response does not leave at once
    post_access(p, &p->b, WQE_RDMA_READ, stag, 0, DATA_LEN);
    post_close(p, &p->b, stag, reference);
    pair_output(p, &p->b);
    while (pair_hand(p, &p->b)) {
    }
    pair_deliver(p, &p->b);
    pair_output(p, &p->a); // the first segments
    pair_deliver(p, &p->b);
    p->a.room = PAIR_UNIT_MAX;
    expect_refused(p, RDMAP_REFUSED_REMOTE_INVALID_STAG, TERM_RDMAP_INVALID_STAG);
}

static void an_answer_that_does_not_close_leaves_the_region_open(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    pair_post_op(p, &p->b, 1, WQE_SEND, 0, 0, BODY_LEN, 0);
    pair_run(p);
    assert_int_equal(pair_poll(p->a.recv_cq).wc_flags, 0);
    post_access(p, &p->b, WQE_RDMA_WRITE, stag, 0, 100); // it may still be written to
    pair_run(p);
    assert_int_equal(qp_state_of(p->a.qp), QP_RTS);
    assert_int_equal(wq_oneshot_revoke(qp_wq(p->a.qp), stag), 0); // until the program takes it back
    assert_int_equal(wq_oneshot_revoke(qp_wq(p->a.qp), stag), -EINVAL);
    assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_revoked, 1);
    post_access(p, &p->b, WQE_RDMA_WRITE, stag, 0, 100);
    expect_refused(p, RDMAP_REFUSED_DDP_INVALID_STAG, TERM_DDP_INVALID_STAG);
}

/* ---- the end of the stream ------------------------------------------------------------------- */

// Notes, when the first flushed completion or event comes, whether anything is still open.
static void expect_detached(struct pair *p, const uint32_t *stags, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_false(mem_is_oneshot(p->a.mem, stags[i]));
    }
}

static void a_lost_connection_detaches_before_it_is_told(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stags[3];
    for (unsigned i = 0; i < 2; i++) {
        stags[i] = post_command(p, &p->a, i, 1000);
    }
    pair_run(p);
    stags[2] = post_command(p, &p->a, 2, 1000); // did not leave
    qp_on_llp_closed(p->a.qp, QP_CLOSE_RESET, p->now);
    expect_detached(p, stags, 2);
    assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_detached, 2);
    assert_int_equal(pair_poll(p->a.send_cq).status, WC_WR_FLUSH_ERR);
    assert_non_null(wq_oneshot_slot(qp_wq(p->a.qp))); // all commands are free again
    pair_close(p);
}

static unsigned open_at_event;

static void note_open(void *ctx, enum qp_event event)
{
    (void)event;
    struct end *e = ctx;
    open_at_event += e->qp->wq.oneshot_open_count;
}

static void a_refused_peer_finds_the_memory_detached_before_the_event(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    open_at_event = 0;
    p->a.qp->config.port.on_event = note_open;
    struct craft c = craft_untagged(RDMAP_IMMEDIATE, 77, 0, true, NULL, 8);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(open_at_event, 0);
    expect_detached(p, &stag, 1);
    pair_close(p);
}

static void reset_gives_every_command_back(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    post_command(p, &p->a, 1, 1000);
    pair_run(p);
    p->a.room = 0;
    for (unsigned i = 2; i <= COMMAND_MAX; i++) {
        post_command(p, &p->a, i, 1000);
    }
    assert_null(wq_oneshot_slot(qp_wq(p->a.qp)));
    assert_int_equal(qp_modify(p->a.qp, QP_RESET, p->now), 0);
    for (unsigned i = 0; i < COMMAND_MAX; i++) {
        assert_non_null(wq_oneshot_slot(qp_wq(p->a.qp)));
        struct send_wqe *wqe = pair_send_slot(&p->a, i, WQE_SEND, WQE_INLINE);
        wq_oneshot_commit(qp_wq(p->a.qp), wqe);
        wq_send_commit(qp_wq(p->a.qp), 1);
    }
    assert_null(wq_oneshot_slot(qp_wq(p->a.qp)));
    assert_true(qp_check(p->a.qp));
    pair_close(p);
}

// An unsignalled command stays in the send queue behind a Read that is not answered; its region may
// be closed, and its entry in the table used again, before the work request ends.
static void an_old_work_request_does_not_free_another_s_command(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    p->b.room = 0; // b's response does not leave, its closes neither
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 30000, 100, 30000);
    uint32_t stag = post_command(p, &p->a, 1, 1000);
    pair_run(p);
    struct ddp_header h = {.last = true,
                           .rsvd = EXTENSION_RSVD_CLOSE,
                           .rsvdulp = 0x43,
                           .rsvdulp_stag = stag,
                           .msn = 1};
    uint8_t body[BODY_LEN] = {[REFERENCE_AT + 7] = 1};
    struct craft c = craft_of(&h, body, sizeof body);
    pair_inject(p, &p->a, c.octets, c.len);
    expect_closed(p, stag, 1);
    for (unsigned i = 0; i < COMMAND_MAX; i++) {
        post_command(p, &p->a, 10 + i, 1000); // the first one's entry is among them
    }
    p->b.room = PAIR_UNIT_MAX;
    pair_run(p); // the Read completes, and the old work request behind it
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_null(wq_oneshot_slot(qp_wq(p->a.qp)));
    assert_true(qp_check(p->a.qp));
    pair_close(p);
}

static void a_command_whose_body_is_unusable_is_free_again(void **state)
{
    struct pair *p = open_pair(FLAGS, 128);
    struct oneshot_command *command = wq_oneshot_slot(qp_wq(p->a.qp));
    fill_list(&p->a, command, 1000);
    struct send_wqe *wqe = pair_send_slot(&p->a, 7, WQE_SEND, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 1000);
    wqe->sge[0].lkey ^= 1;
    wq_oneshot_commit(qp_wq(p->a.qp), wqe);
    pair_post(p, &p->a);
    pair_output(p, &p->a);
    pair_expect(p->a.send_cq, 7, WC_LOC_PROT_ERR);
    assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_advertised, 0);
    unsigned count = 0;
    while (wq_oneshot_slot(qp_wq(p->a.qp)) != NULL) {
        wq_oneshot_commit(qp_wq(p->a.qp), pair_send_slot(&p->a, 8, WQE_SEND, WQE_INLINE));
        wq_send_commit(qp_wq(p->a.qp), 1);
        count++;
    }
    assert_int_equal(count, COMMAND_MAX);
    pair_close(p);
}

static void a_table_is_made_once_and_with_right_numbers(void **state)
{
    struct pair *p = pair_open(NULL);
    const struct oneshot_field none = {.len = 0}, long_one = {.len = 9};
    struct oneshot_config wrong[] = {config, config, config, config, config, config};
    wrong[0].command_max = 0;
    wrong[1].command_max = ONESHOT_COMMAND_MAX + 1;
    wrong[2].element_max = 0;
    wrong[3].element_max = ONESHOT_ELEMENT_MAX + 1;
    wrong[4].request = none;
    wrong[5].answer = long_one;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(wq_oneshot_create(qp_wq(p->a.qp), &wrong[i]), -EINVAL);
    }
    assert_null(wq_oneshot_config(qp_wq(p->a.qp)));
    assert_int_equal(wq_oneshot_create(qp_wq(p->a.qp), &config), 0);
    assert_int_equal(wq_oneshot_create(qp_wq(p->a.qp), &config), -EBUSY);
    assert_int_equal(mem_table_live(p->a.mem).oneshots, COMMAND_MAX);
    struct oneshot_config many = config;
    many.command_max = 60000; // the memory table of these tests holds 4096 objects
    assert_int_equal(wq_oneshot_create(qp_wq(p->b.qp), &many), -ENOSPC);
    assert_int_equal(mem_table_live(p->b.mem).oneshots, 0);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_close_with_another_reference),
        cmocka_unit_test(a_second_close),
        cmocka_unit_test(a_close_of_what_was_never_advertised),
        cmocka_unit_test(a_close_of_memory_that_is_no_one_shot_region),
        cmocka_unit_test(a_close_of_another_connection_s_region),
        cmocka_unit_test(a_close_too_short_for_its_reference),
        cmocka_unit_test(an_advertisement_too_short_for_its_reference),
        cmocka_unit_test(marks_that_cannot_be),
        cmocka_unit_test(access_beyond_the_rights_that_were_advertised),
        cmocka_unit_test(access_behind_the_close),
        cmocka_unit_test(a_close_in_the_middle_of_its_own_read),
        cmocka_unit_test(an_answer_that_does_not_close_leaves_the_region_open),
        cmocka_unit_test(a_lost_connection_detaches_before_it_is_told),
        cmocka_unit_test(a_refused_peer_finds_the_memory_detached_before_the_event),
        cmocka_unit_test(reset_gives_every_command_back),
        cmocka_unit_test(an_old_work_request_does_not_free_another_s_command),
        cmocka_unit_test(a_command_whose_body_is_unusable_is_free_again),
        cmocka_unit_test(a_table_is_made_once_and_with_right_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
