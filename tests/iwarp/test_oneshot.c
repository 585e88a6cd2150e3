// The command table: one post opens and advertises, one Send closes; with each half of it, and with
// a peer that has none.
#include "tests/iwarp/oneshot.h"

/* ---- the two passes -------------------------------------------------------------------------- */

static const uint8_t encodings[] = {FLAGS, OPCODE};

static void one_post_advertises_and_one_send_closes(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pair(encodings[i], 0);
        assert_int_equal(qp_oneshot_agreed(p->a.qp), encodings[i]);
        assert_int_equal(qp_oneshot_agreed(p->b.qp), encodings[i]);
        uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
        pair_run(p);
        expect_advertised(p, stag, reference);
        pair_expect_none(p->a.send_cq); // nothing is to be waited for
        post_close(p, &p->b, stag, reference);
        pair_run(p);
        expect_closed(p, stag, reference);
        pair_expect_none(p->a.send_cq);
        assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_advertised, 1);
        assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_closed, 1);
        assert_int_equal(qp_counters(p->b.qp)->oneshot_received, 1);
        assert_int_equal(qp_counters(p->b.qp)->oneshot_answered, 1);
        pair_close(p);
    }
}

static void the_mark_stands_in_the_header_of_every_segment(void **state)
{
    static const uint8_t control[2][2] = {{0x51, 0x43}, {0x41, 0x48}};
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pair(encodings[i], 0);
        uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
        struct span ulpdu = pair_peek(p, &p->a);
        assert_memory_equal(ulpdu.ptr, control[i], 2);
        uint32_t on_wire;
        memcpy(&on_wire, ulpdu.ptr + 2, 4);
        assert_int_equal(be32toh(on_wire), stag);
        pair_close(p);
    }
}

static void the_reference_is_found_wherever_segments_are_cut(void **state)
{
    // Headers of 18 octets: segments of 110, and a reference that begins in one and goes on.
    struct oneshot_config far = config;
    far.request.offset = far.answer.offset = 105;
    struct pair_options options = {.weft = true, .oneshot = FLAGS, .mulpdu = 128};
    struct pair *p = pair_open(&options);
    wq_oneshot_create(qp_wq(p->a.qp), &far);
    wq_oneshot_create(qp_wq(p->b.qp), &far);
    pair_run(p);
    for (unsigned posted_late = 0; posted_late < 2; posted_late++) {
        struct oneshot_command *command = wq_oneshot_slot(qp_wq(p->a.qp));
        fill_list(&p->a, command, DATA_LEN);
        command->reference = reference + posted_late;
        command->access = MEM_ACCESS_REMOTE_READ;
        struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_SEND, WQE_INLINE);
        memset(wqe->inline_data, 0, 300);
        oneshot_field_write(&far.request, wqe->inline_data, command->reference);
        wqe->length = 300;
        wq_oneshot_commit(qp_wq(p->a.qp), wqe);
        if (!posted_late) {
            pair_post_receive(p, &p->b, 2, 0, 300);
        }
        pair_post(p, &p->a);
        pair_run(p);
        if (posted_late) { // it waits in the store
            pair_expect_none(p->b.recv_cq);
            pair_post_receive(p, &p->b, 2, 0, 300);
        }
        struct cqe cqe = pair_poll(p->b.recv_cq);
        assert_int_equal(cqe.wc_flags, WC_ADVERTISED | WC_REFERENCE);
        assert_true(cqe.reference == reference + posted_late);
    }
    pair_close(p);
}

static void the_target_writes_and_reads_a_scattered_list(void **state)
{
    // Elements far smaller than a segment, more of them than a work request has.
    static const uint32_t element_lens[] = {DATA_LEN, 4096, 101};
    for (unsigned i = 0; i < 3; i++) {
        struct pair *p = open_pair(FLAGS, 9000);
        uint32_t element_len = element_lens[i];
        uint32_t stag = post_command(p, &p->a, reference, element_len);
        pair_run(p);
        pair_fill(&p->b, DATA_AT, DATA_LEN, 5);
        post_access(p, &p->b, WQE_RDMA_WRITE, stag, 0, DATA_LEN);
        pair_run(p);
        for (uint32_t at = 0; at < DATA_LEN; at++) {
            uint32_t there = 2 * (at / element_len) * element_len + at % element_len;
            assert_int_equal(p->a.memory[DATA_AT + there], p->b.memory[DATA_AT + at]);
        }
        memset(p->b.memory + DATA_AT, 0, DATA_LEN);
        post_access(p, &p->b, WQE_RDMA_READ, stag, 0, DATA_LEN);
        pair_run(p);
        pair_expect_filled(&p->b, DATA_AT, DATA_LEN, 5);
        pair_expect(p->b.send_cq, 901, WC_SUCCESS);
        pair_expect(p->b.send_cq, 901, WC_SUCCESS);
        pair_close(p);
    }
}

static void many_commands_are_closed_in_any_order(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stags[COMMAND_MAX];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < COMMAND_MAX; i++) {
            stags[i] = post_command(p, &p->a, i, 1000);
        }
        assert_null(wq_oneshot_slot(qp_wq(p->a.qp))); // the table is full
        pair_run(p);
        for (unsigned i = 0; i < COMMAND_MAX; i++) {
            expect_advertised(p, stags[i], i);
            pair_post_receive(p, &p->b, 200, 0, 256);
        }
        for (unsigned i = COMMAND_MAX; i-- > 0;) {
            post_close(p, &p->b, stags[i], i);
            pair_run(p);
            expect_closed(p, stags[i], i);
            pair_post_receive(p, &p->a, 100, 0, 256);
            assert_non_null(wq_oneshot_slot(qp_wq(p->a.qp)));
        }
    }
    pair_close(p);
}

// ... so that not every post asks the kernel, and none believes what it said long ago.
static void what_is_known_of_memory_holds_for_a_millisecond(void **state)
{
    struct pair *p = open_pair(EXTENSION_ONESHOT_FLAGS, 0);
    struct wq *wq = qp_wq(p->a.qp);
    const instant_ns since_ns = 5 * NS_PER_S;
    *wq_oneshot_known(wq, since_ns) = (struct mem_known){mspan_of(p->a.memory, DATA_LEN), true};
    assert_int_equal(wq_oneshot_known(wq, since_ns + NS_PER_MS - 1)->mapped.len, DATA_LEN);
    const struct mem_known *known = wq_oneshot_known(wq, since_ns + NS_PER_MS);
    assert_int_equal(known->mapped.len, 0);
    assert_false(known->is_writable);
    pair_close(p);
}

static void an_stag_does_not_come_back_with_its_command(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t former[8] = {0};
    for (unsigned i = 0; i < 8; i++) {
        former[i] = post_command(p, &p->a, i, DATA_LEN);
        for (unsigned k = 0; k < i; k++) {
            assert_int_not_equal(former[i], former[k]);
        }
        pair_run(p);
        post_close(p, &p->b, former[i], i);
        pair_run(p);
    }
    pair_close(p);
}

static void data_in_front_of_the_close_lands(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    pair_fill(&p->b, DATA_AT, DATA_LEN, 6);
    post_access(p, &p->b, WQE_RDMA_WRITE, stag, 0, DATA_LEN);
    post_close(p, &p->b, stag, reference);
    pair_run(p);
    expect_closed(p, stag, reference);
    pair_expect_filled(&p->a, DATA_AT, DATA_LEN, 6);
    pair_close(p);
}

// The close has come, but the message waits for its receive: the memory is free all the same.
static void a_close_without_a_receive_acts_at_delivery(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stags[9];
    for (unsigned i = 0; i < 9; i++) { // the ninth finds no receive
        stags[i] = post_command(p, &p->a, i, DATA_LEN);
        pair_run(p);
        pair_post_receive(p, &p->b, 200, 0, 256);
        post_close(p, &p->b, stags[i], i);
        pair_run(p);
    }
    assert_int_equal(pair_poll_count(p->a.recv_cq), 8);
    assert_int_equal(qp_counters(p->a.qp)->rnr_stored, 1);
    assert_int_equal(qp_counters(p->a.qp)->wq.oneshot_closed, 9);
    assert_false(mem_is_oneshot(p->a.mem, stags[8]));
    pair_post_receive(p, &p->a, 100, 0, 256);
    expect_closed(p, stags[8], 8);
    pair_close(p);
}

static void references_of_any_width_and_order(void **state)
{
    static const struct {
        struct oneshot_field field;
        uint8_t octets[8];
        uint64_t number;
    } cases[] = {
        {{0, 8, false}, {1, 2, 3, 4, 5, 6, 7, 8}, 0x0102030405060708},
        {{0, 8, true}, {1, 2, 3, 4, 5, 6, 7, 8}, 0x0807060504030201},
        {{2, 4, false}, {0, 0, 1, 2, 3, 4}, 0x01020304}, // an iSCSI number
        {{2, 2, true}, {0, 0, 1, 2}, 0x0201},            // an NVMe command identifier
        {{7, 1, false}, {[7] = 9}, 9},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct oneshot_field *field = &cases[i].field;
        uint8_t message[8] = {0};
        uint64_t number;
        oneshot_field_write(field, message, cases[i].number);
        assert_memory_equal(message, cases[i].octets, 8);
        assert_true(oneshot_field_read(field, message, field->offset + field->len, &number));
        assert_true(number == cases[i].number);
        assert_false(oneshot_field_read(field, message, field->offset + field->len - 1, &number));
    }
}

// An iSCSI command has its number elsewhere than the response has the tag.
static void request_and_answer_have_fields_of_their_own(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .oneshot = FLAGS});
    struct oneshot_config iscsi = config;
    iscsi.request = (struct oneshot_field){.offset = 24, .len = 4};
    iscsi.answer = (struct oneshot_field){.offset = 16, .len = 4};
    wq_oneshot_create(qp_wq(p->a.qp), &iscsi);
    wq_oneshot_create(qp_wq(p->b.qp), &iscsi);
    pair_post_receive(p, &p->a, 1, 0, 256);
    pair_post_receive(p, &p->b, 2, 0, 256);
    uint32_t stag = post_command_as(p, &p->a, &iscsi, 0xfffffffe, DATA_LEN);
    pair_run(p);
    expect_advertised(p, stag, 0xfffffffe);
    post_close_as(p, &p->b, &iscsi, stag, 0xfffffffe);
    pair_run(p);
    expect_closed(p, stag, 0xfffffffe);
    pair_close(p);
}

/* ---- with half of it, and without ------------------------------------------------------------ */

static void without_the_extension_the_body_alone_has_the_stag(void **state)
{
    struct pair *p = open_pair(0, 0);
    assert_int_equal(qp_oneshot_agreed(p->a.qp), 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    struct span ulpdu = pair_peek(p, &p->a);
    static const uint8_t plain[6] = {0x41, 0x43};
    assert_memory_equal(ulpdu.ptr, plain, sizeof plain);
    pair_run(p);
    assert_int_equal(pair_poll(p->b.recv_cq).wc_flags, 0);
    post_access(p, &p->b, WQE_RDMA_WRITE, stag, 0, DATA_LEN);
    post_close(p, &p->b, stag, reference);
    pair_output(p, &p->b);
    pair_run(p);
    expect_closed(p, stag, reference);
    assert_int_equal(qp_counters(p->b.qp)->out[RDMAP_SEND_INV].messages, 1);
    pair_close(p);
}

static void send_with_invalidate_closes_where_the_extension_is_agreed_too(void **state)
{
    struct pair *p = open_pair(FLAGS, 0);
    uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
    pair_run(p);
    struct send_wqe *wqe = pair_send_slot(&p->b, 1, WQE_SEND_WITH_INV, WQE_INLINE);
    wqe->imm_or_inv = stag;
    memset(wqe->inline_data, 0, BODY_LEN);
    oneshot_field_write(&config.answer, wqe->inline_data, reference);
    wqe->length = BODY_LEN;
    pair_post(p, &p->b);
    pair_run(p);
    expect_closed(p, stag, reference);
    pair_close(p);
}

static void each_part_works_without_the_other(void **state)
{
    static const uint8_t parts[] = {EXTENSION_ONESHOT_ADVERTISE, EXTENSION_ONESHOT_CLOSE};
    for (unsigned i = 0; i < 4; i++) {
        bool is_close = i % 2 == 1;
        uint8_t encoding = i < 2 ? EXTENSION_ONESHOT_FLAGS : EXTENSION_ONESHOT_OPCODE;
        struct pair *p = open_pair(encoding | parts[i % 2], 0);
        uint32_t stag = post_command(p, &p->a, reference, DATA_LEN);
        pair_run(p);
        assert_int_equal(pair_poll(p->b.recv_cq).wc_flags,
                         is_close ? 0 : WC_ADVERTISED | WC_REFERENCE);
        post_close(p, &p->b, stag, reference);
        pair_run(p);
        expect_closed(p, stag, reference);
        assert_int_equal(qp_counters(p->b.qp)->out[RDMAP_SEND_INV].messages, !is_close);
        pair_close(p);
    }
}

static void the_opcode_encoding_displaces_rfc_7306(void **state)
{
    static const enum wqe_opcode displaced[] = {WQE_RDMA_WRITE_WITH_IMM, WQE_ATOMIC_CMP_AND_SWP,
                                                WQE_ATOMIC_FETCH_AND_ADD};
    for (unsigned i = 0; i < 3; i++) {
        struct pair *p = open_pair(OPCODE, 0);
        assert_int_equal(qp_may_post(p->a.qp, displaced[i]), -EOPNOTSUPP);
        assert_int_equal(qp_may_post(p->a.qp, WQE_RDMA_WRITE), 0);
        assert_int_equal(qp_may_post(p->a.qp, WQE_SEND_WITH_IMM), 0);
        pair_post_op(p, &p->a, 1, displaced[i], WQE_SIGNALED, 0, 8, 0); // posted in good time
        pair_output(p, &p->a);
        pair_expect(p->a.send_cq, 1, WC_LOC_QP_OP_ERR);
        pair_close(p);
        p = open_pair(FLAGS, 0);
        assert_int_equal(qp_may_post(p->a.qp, displaced[i]), 0);
        pair_close(p);
    }
}

static void until_the_first_message_a_responder_does_not_know(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .oneshot = FLAGS});
    assert_int_equal(qp_oneshot_agreed(p->a.qp), FLAGS);
    assert_int_equal(qp_oneshot_agreed(p->b.qp), -ENOTCONN);
    pair_run(p);
    assert_int_equal(qp_oneshot_agreed(p->b.qp), FLAGS);
    pair_close(p);
}

static void an_initiator_that_takes_nothing_leaves_the_rfc_s_form(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .oneshot = FLAGS});
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 4);
    pair_inject(p, &p->b, c.octets, c.len);
    assert_int_equal(qp_oneshot_agreed(p->b.qp), 0);
    pair_close(p);
}

static void a_choice_that_was_not_offered_ends_the_stream(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .oneshot = FLAGS});
    const struct extension_message choices = {.kind = EXTENSION_CHOICES, .encoding = OPCODE};
    uint8_t octets[EXTENSION_MESSAGE_LEN];
    extension_message_emit(&choices, octets);
    struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, octets, sizeof octets);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_EXTENSION_MALFORMED], 1);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_post_advertises_and_one_send_closes),
        cmocka_unit_test(the_mark_stands_in_the_header_of_every_segment),
        cmocka_unit_test(the_reference_is_found_wherever_segments_are_cut),
        cmocka_unit_test(the_target_writes_and_reads_a_scattered_list),
        cmocka_unit_test(many_commands_are_closed_in_any_order),
        cmocka_unit_test(what_is_known_of_memory_holds_for_a_millisecond),
        cmocka_unit_test(an_stag_does_not_come_back_with_its_command),
        cmocka_unit_test(data_in_front_of_the_close_lands),
        cmocka_unit_test(a_close_without_a_receive_acts_at_delivery),
        cmocka_unit_test(references_of_any_width_and_order),
        cmocka_unit_test(request_and_answer_have_fields_of_their_own),
        cmocka_unit_test(without_the_extension_the_body_alone_has_the_stag),
        cmocka_unit_test(send_with_invalidate_closes_where_the_extension_is_agreed_too),
        cmocka_unit_test(each_part_works_without_the_other),
        cmocka_unit_test(the_opcode_encoding_displaces_rfc_7306),
        cmocka_unit_test(until_the_first_message_a_responder_does_not_know),
        cmocka_unit_test(an_initiator_that_takes_nothing_leaves_the_rfc_s_form),
        cmocka_unit_test(a_choice_that_was_not_offered_ends_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
