// <weft/oneshot.h> on two queue pairs of this process, and what its calls refuse.
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/oneshot.h>

#include "tests/verbs/pair.h"

enum { BODY_LEN = 64, BODY_AT = 0, ANSWER_AT = 1024, DATA_LEN = 3000, MAX_COMMANDS = 2 };

static const uint64_t reference = 0xabcdef0123456789;

static const struct weft_oneshot_attr attr = {
    .max_commands = MAX_COMMANDS,
    .max_memory = 4,
    .request = {.offset = 8, .length = 8},
    .answer = {.offset = 16, .length = 8},
    .stag_offset = 40,
};

static struct pair pair;
static uint8_t data[2][DATA_LEN]; // registered nowhere

static int setup(void **state)
{
    pair_init(&pair);
    pair_connect(&pair);
    assert_int_equal(weft_oneshot_create(pair.a.qp, &attr), 0);
    assert_int_equal(weft_oneshot_create(pair.b.qp, &attr), 0);
    memset(data, 0, sizeof data);
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static const struct iovec list[2] = {{data[0], DATA_LEN}, {data[1], DATA_LEN}};

// A right one, for tests to spoil.
static struct weft_oneshot_wr command_of(const struct pair *p)
{
    return (struct weft_oneshot_wr){
        .wr_id = 1,
        .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
        .reference = reference,
        .memory = list,
        .memory_count = 2,
        .body = bench_sge(&p->a, BODY_AT, BODY_LEN),
    };
}

static struct weft_oneshot_close_wr close_of(const struct pair *p, uint32_t stag)
{
    return (struct weft_oneshot_close_wr){
        .wr_id = 2,
        .send_flags = IBV_SEND_SIGNALED,
        .stag = stag,
        .reference = reference,
        .body = bench_sge(&p->b, BODY_AT, BODY_LEN),
    };
}

static void expect_refused(struct pair *p, struct weft_oneshot_wr wr, int error)
{
    struct weft_oneshot_wr *bad;
    errno = 0;
    assert_int_equal(weft_oneshot_post(p->a.qp, &wr, &bad), error);
    assert_int_equal(errno, error);
    assert_ptr_equal(bad, &wr);
}

// Posts a right one; its STag.
static uint32_t post(struct pair *p, struct weft_oneshot_wr wr)
{
    struct weft_oneshot_wr *bad;
    assert_int_equal(weft_oneshot_post(p->a.qp, &wr, &bad), 0);
    return wr.stag;
}

static int close_by(struct pair *p, struct weft_oneshot_close_wr wr)
{
    struct weft_oneshot_close_wr *bad;
    return weft_oneshot_close(p->b.qp, &wr, &bad);
}

// Posts a command with a receive for its answer, and takes it at the other end.
static uint32_t deliver_command(struct pair *p)
{
    struct ibv_sge answer_sge = bench_sge(&p->a, ANSWER_AT, 256);
    struct ibv_recv_wr answer = {.wr_id = 7, .sg_list = &answer_sge, .num_sge = 1};
    struct weft_oneshot_wr wr = command_of(p);
    uint32_t stag, advertised;
    uint64_t number;
    wr.answer = &answer;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    memset(p->a.buf, 0x33, BODY_LEN);
    stag = post(p, wr);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, BODY_LEN);
    assert_true(weft_wc_advertised(&wc, &advertised));
    assert_int_equal(advertised, stag);
    assert_true(weft_wc_reference(&wc, &number));
    assert_true(number == reference);
    assert_false(weft_wc_closed(&wc, &advertised));
    assert_int_equal(weft_oneshot_request(p->b.qp, &wc, p->b.buf + ANSWER_AT, &advertised, &number),
                     0);
    assert_true(advertised == stag && number == reference);
    return stag;
}

static void a_command_from_post_to_close(void **state)
{
    struct pair *p = *state;
    const int both = WEFT_ONESHOT_ADVERTISE | WEFT_ONESHOT_CLOSE;
    assert_int_equal(weft_oneshot_agreed(p->a.qp), both);
    assert_int_equal(weft_oneshot_agreed(p->b.qp), both);
    uint32_t stag = deliver_command(p), closed;
    static const uint8_t big_endian[8] = {0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89};
    assert_memory_equal(p->b.buf + ANSWER_AT + 8, big_endian, 8);
    assert_int_equal(p->b.buf[ANSWER_AT + 40], 0x33); // the STag is not in the message

    // Over the boundary of the two elements, offset 0 being the first octet of the first.
    memset(p->b.buf, 0x55, 100);
    struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE,
                                .wr.rdma = {.remote_addr = DATA_LEN - 50, .rkey = stag}};
    pair_post_send(&p->b, write, bench_sge(&p->b, 0, 100));
    struct weft_oneshot_close_wr wr = close_of(p, stag);
    assert_int_equal(close_by(p, wr), 0);
    struct ibv_wc wc = bench_poll(p->a.cq);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    uint64_t number;
    assert_true(weft_wc_closed(&wc, &closed) && weft_wc_reference(&wc, &number));
    assert_true(closed == stag && number == reference);
    assert_false(weft_wc_advertised(&wc, &closed));
    assert_true((wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == stag);
    assert_int_equal(data[0][DATA_LEN - 51], 0);
    assert_int_equal(data[0][DATA_LEN - 50], 0x55);
    assert_int_equal(data[1][49], 0x55);
    assert_int_equal(data[1][50], 0);
    assert_int_equal(bench_poll(p->b.cq).wr_id, 2);    // the close was signalled
    assert_int_equal(ibv_poll_cq(p->a.cq, 1, &wc), 0); // the command was not
}

static void a_signalled_command_completes_as_a_send(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    uint32_t stag;
    uint64_t number;
    wr.send_flags = IBV_SEND_SIGNALED;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    stag = post(p, wr);
    struct ibv_wc wc = bench_poll(p->a.cq);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
    assert_false(weft_wc_advertised(&wc, &stag) || weft_wc_reference(&wc, &number));
}

static void only_the_named_part_is_reached(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    uint32_t stag;
    wr.offset = DATA_LEN - 10;
    wr.length = 20;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    stag = post(p, wr);
    bench_poll(p->b.cq);
    memset(p->b.buf, 0x66, 20);
    struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.rkey = stag}};
    pair_post_send(&p->b, write, bench_sge(&p->b, 0, 20));
    struct ibv_send_wr read = {.opcode = IBV_WR_RDMA_READ, .wr.rdma = {.rkey = stag}};
    pair_post_send(&p->b, read, bench_sge(&p->b, 100, 20)); // the Write has landed
    assert_memory_equal(p->b.buf + 100, p->b.buf, 20);
    assert_int_equal(data[0][DATA_LEN - 11], 0);
    assert_int_equal(data[0][DATA_LEN - 10], 0x66);
    assert_int_equal(data[1][9], 0x66);
    assert_int_equal(data[1][10], 0);
    write.wr.rdma.remote_addr = 20;
    write.send_flags = IBV_SEND_SIGNALED;
    struct ibv_sge sge = bench_sge(&p->b, 0, 1);
    write.sg_list = &sge;
    write.num_sge = 1;
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(p->b.qp, &write, &bad), 0);
    PAIR_WAIT(p, p->disconnected_count == 2); // one octet too far
}

static void the_table_holds_as_many_commands_as_it_was_made_for(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    uint32_t stag[MAX_COMMANDS];
    for (unsigned i = 0; i < MAX_COMMANDS; i++) {
        pair_post_recv(&p->b, 8, ANSWER_AT, 256);
        stag[i] = post(p, wr);
    }
    expect_refused(p, wr, ENOMEM);
    bench_poll(p->b.cq);
    assert_int_equal(weft_oneshot_revoke(p->a.qp, stag[0]), 0);
    assert_int_equal(weft_oneshot_revoke(p->a.qp, stag[0]), EINVAL);
    post(p, wr);
}

static void a_write_and_its_close_leave_with_one_call(void **state)
{
    struct pair *p = *state;
    uint32_t stag = deliver_command(p), closed;
    struct ibv_sge sge = bench_sge(&p->b, 2048, 100);
    struct ibv_send_wr write = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {.rkey = stag}};
    struct weft_oneshot_close_wr wr = close_of(p, stag);
    memset(p->b.buf + 2048, 0x44, 100);
    wr.before = &write;
    write.opcode = IBV_WR_TSO; // no such thing: then the close is not posted either
    assert_int_equal(close_by(p, wr), EINVAL);
    write.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(close_by(p, wr), 0);
    struct ibv_wc wc = bench_poll(p->a.cq);
    assert_true(weft_wc_closed(&wc, &closed));
    assert_int_equal(closed, stag);
    assert_int_equal(data[0][99], 0x44);
    assert_int_equal(data[0][100], 0);
}

static void of_a_list_all_up_to_the_wrong_one_are_posted(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr[3] = {command_of(p), command_of(p), command_of(p)};
    struct weft_oneshot_wr *bad;
    uint32_t advertised;
    wr[0].next = &wr[1];
    wr[1].next = &wr[2];
    wr[1].access = 0;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    assert_int_equal(weft_oneshot_post(p->a.qp, wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr[1]);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_true(weft_wc_advertised(&wc, &advertised));
    assert_int_equal(advertised, wr[0].stag);

    wr[2].next = NULL;
    wr[2].reference = 77;
    pair_post_recv(&p->b, 9, ANSWER_AT, 256);
    assert_int_equal(weft_oneshot_post(p->a.qp, &wr[2], &bad), 0);
    bench_poll(p->b.cq);
    struct weft_oneshot_close_wr close[2] = {close_of(p, wr[2].stag), close_of(p, wr[0].stag)};
    struct weft_oneshot_close_wr *bad_close;
    close[0].next = &close[1];
    close[0].reference = 77;
    close[1].body = bench_sge(&p->b, 512, BODY_LEN);
    pair_post_recv(&p->a, 1, ANSWER_AT, 256);
    pair_post_recv(&p->a, 2, ANSWER_AT + 256, 256);
    assert_int_equal(weft_oneshot_close(p->b.qp, close, &bad_close), 0);
    for (unsigned i = 0; i < 2; i++) {
        wc = bench_poll(p->a.cq);
        assert_true(weft_wc_closed(&wc, &advertised));
        assert_int_equal(advertised, wr[i == 0 ? 2 : 0].stag);
    }
}

// Both queue pairs anew, with room for a body inline.
static void reopen_with_inline(struct pair *p, const struct weft_oneshot_attr *with)
{
    pair_fini(p);
    pair_init(p);
    struct bench *ends[] = {&p->a, &p->b};
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_init_attr qp_attr = bench_qp_attr(ends[i]->cq);
        qp_attr.cap.max_inline_data = BODY_LEN;
        assert_int_equal(ibv_destroy_qp(ends[i]->qp), 0);
        ends[i]->qp = ibv_create_qp(ends[i]->pd, &qp_attr);
        assert_non_null(ends[i]->qp);
    }
    pair_connect(p);
    assert_int_equal(weft_oneshot_create(p->a.qp, with), 0);
    assert_int_equal(weft_oneshot_create(p->b.qp, with), 0);
}

static void a_present_reference_is_compared_and_not_written(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_attr present = attr;
    present.request = (struct weft_oneshot_field){
        .offset = 2, .length = 2, .flags = WEFT_ONESHOT_PRESENT | WEFT_ONESHOT_LITTLE_ENDIAN};
    reopen_with_inline(p, &present);
    struct weft_oneshot_wr wr = command_of(p);
    uint64_t number;
    wr.reference = 0x1234;
    wr.send_flags = IBV_SEND_INLINE;
    p->a.buf[2] = 0x34;
    p->a.buf[3] = 0x13;
    expect_refused(p, wr, EINVAL); // the capsule says 0x1334
    p->a.buf[3] = 0x12;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    post(p, wr);
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_true(weft_wc_reference(&wc, &number));
    assert_int_equal(number, 0x1234);
    assert_memory_equal(p->b.buf + ANSWER_AT, p->a.buf, BODY_LEN); // to the octet
}

static void an_answer_with_its_reference_present_is_not_written_to(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_attr present = attr;
    present.answer = (struct weft_oneshot_field){
        .offset = 2, .length = 2, .flags = WEFT_ONESHOT_PRESENT | WEFT_ONESHOT_LITTLE_ENDIAN};
    reopen_with_inline(p, &present);
    struct weft_oneshot_wr wr = command_of(p);
    uint64_t number;
    wr.reference = 0x1234;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    pair_post_recv(&p->a, 7, ANSWER_AT, 256);
    struct weft_oneshot_close_wr answer = close_of(p, post(p, wr));
    bench_poll(p->b.cq);
    answer.reference = 0x1234;
    p->b.buf[BODY_AT + 2] = 0x34;
    p->b.buf[BODY_AT + 3] = 0x13;
    assert_int_equal(close_by(p, answer), EINVAL); // the answer says 0x1334
    p->b.buf[BODY_AT + 3] = 0x12;
    assert_int_equal(close_by(p, answer), 0);
    struct ibv_wc wc = bench_poll(p->a.cq);
    assert_true(weft_wc_reference(&wc, &number));
    assert_int_equal(number, 0x1234);
    assert_memory_equal(p->a.buf + ANSWER_AT, p->b.buf + BODY_AT, BODY_LEN);
}

static void an_inline_body_is_not_written_to(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    wr.send_flags = IBV_SEND_INLINE;
    expect_refused(p, wr, EINVAL); // this queue pair has no inline data
    assert_int_equal(p->a.buf[8], 0);
}

/* ---- what a post refuses --------------------------------------------------------------------- */

static void memory_that_is_not_there_is_refused(void **state)
{
    struct pair *p = *state;
    long page = sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * (size_t)page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec wrong = {pages, (size_t)page};
    struct weft_oneshot_wr wr = command_of(p);
    assert_ptr_not_equal(pages, MAP_FAILED);
    wr.memory = &wrong;
    wr.memory_count = 1;
    expect_refused(p, wr, EFAULT); // the peer may write, the program may not
    munmap(pages + page, (size_t)page);
    wr.access = IBV_ACCESS_REMOTE_READ;
    wrong.iov_len = 2 * (size_t)page;
    expect_refused(p, wr, EFAULT);
    munmap(pages, (size_t)page);
}

static void a_command_that_cannot_be_right_is_refused(void **state)
{
    struct pair *p = *state;
    struct iovec many[5] = {list[0], list[0], list[0], list[0], list[0]};
    struct weft_oneshot_wr wrong[12];
    for (unsigned i = 0; i < 12; i++) {
        wrong[i] = command_of(p);
    }
    wrong[0].access = 0; // advertised without rights
    wrong[1].access = IBV_ACCESS_REMOTE_ATOMIC;
    wrong[2].memory_count = 0;
    wrong[3].memory = many;
    wrong[3].memory_count = 5;
    wrong[4].offset = 2 * DATA_LEN;
    wrong[5].offset = 1;
    wrong[5].length = 2 * DATA_LEN;
    wrong[6].body.length = 15; // ends inside the reference
    wrong[7].send_flags = 1U << 20;
    wrong[8].length = UINT64_MAX;
    many[1].iov_len = SIZE_MAX;
    wrong[9].memory = many;
    wrong[10].offset = UINT64_MAX;
    wrong[11].body.length = UINT32_MAX; // more than one message
    for (unsigned i = 0; i < 12; i++) {
        expect_refused(p, wrong[i], EINVAL);
    }
    deliver_command(p); // and nothing of them is left behind
}

static void a_receive_that_is_refused_refuses_the_command(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    struct ibv_sge sges[3] = {0};
    struct ibv_recv_wr answer = {.sg_list = sges, .num_sge = 3}; // two are allowed
    wr.answer = &answer;
    expect_refused(p, wr, EINVAL);
    for (unsigned i = 0; i < MAX_COMMANDS; i++) {
        deliver_command(p);
    }
}

static void a_close_that_cannot_be_right_is_refused(void **state)
{
    struct pair *p = *state;
    uint32_t stag = deliver_command(p);
    struct weft_oneshot_close_wr wrong[3] = {close_of(p, stag), close_of(p, stag),
                                             close_of(p, stag)};
    wrong[0].body.length = 23;
    wrong[1].send_flags = 1U << 17;
    wrong[2].body.length = UINT32_MAX;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(close_by(p, wrong[i]), EINVAL);
    }
}

static void a_wrong_close_ends_the_connection(void **state)
{
    struct pair *p = *state;
    uint32_t stag = deliver_command(p);
    struct weft_oneshot_close_wr wr = close_of(p, stag);
    wr.reference++;
    assert_int_equal(close_by(p, wr), 0);
    PAIR_WAIT(p, p->disconnected_count == 2);
    assert_int_equal(bench_poll(p->a.cq).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(weft_oneshot_revoke(p->a.qp, stag), EINVAL); // detached by now
}

static void without_a_table_nothing_can_be_posted(void **state)
{
    struct pair *p = *state;
    struct weft_oneshot_wr wr = command_of(p);
    struct weft_oneshot_attr wrong[3] = {attr, attr, attr};
    struct weft_oneshot_wr *bad;
    struct ibv_qp_init_attr qp_attr = bench_qp_attr(p->a.cq);
    struct ibv_qp *fresh = ibv_create_qp(p->a.pd, &qp_attr);
    struct weft_oneshot_close_wr close = close_of(p, 1), *bad_close;
    assert_int_equal(weft_oneshot_post(fresh, &wr, &bad), EINVAL);
    assert_int_equal(weft_oneshot_close(fresh, &close, &bad_close), EINVAL);
    assert_ptr_equal(bad_close, &close);
    wrong[0].comp_mask = 1;
    wrong[1].request.flags = 4;
    wrong[2].answer.length = 0;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(weft_oneshot_create(fresh, &wrong[i]), EINVAL);
    }
    assert_int_equal(weft_oneshot_create(fresh, &attr), 0);
    assert_int_equal(weft_oneshot_create(fresh, &attr), EBUSY);
    assert_int_equal(weft_oneshot_post(fresh, &wr, &bad), ENOTCONN);
    errno = 0;
    assert_int_equal(weft_oneshot_agreed(fresh), -1);
    assert_int_equal(errno, ENOTCONN);
    assert_int_equal(ibv_destroy_qp(fresh), 0);
}

static void an_ordinary_message_advertises_nothing(void **state)
{
    struct pair *p = *state;
    uint32_t stag;
    uint64_t number;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    pair_post_send(&p->a, (struct ibv_send_wr){.opcode = IBV_WR_SEND},
                   bench_sge(&p->a, 0, BODY_LEN));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_false(weft_wc_advertised(&wc, &stag) || weft_wc_closed(&wc, &stag) ||
                 weft_wc_reference(&wc, &number));
    assert_int_equal(weft_oneshot_request(p->b.qp, &wc, p->b.buf + ANSWER_AT, &stag, &number),
                     ENOENT);
}

static void an_extended_queue_shows_the_same(void **state)
{
    struct pair *p = *state;
    struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16};
    struct ibv_poll_cq_attr poll_attr = {0};
    pair_fini(p);
    pair_init(p);
    struct ibv_cq_ex *cq = ibv_create_cq_ex(p->b.context, &cq_attr);
    struct ibv_qp_init_attr qp_attr = bench_qp_attr(p->b.cq);
    struct ibv_wc wc;
    assert_int_equal(ibv_destroy_qp(p->b.qp), 0);
    qp_attr.recv_cq = ibv_cq_ex_to_cq(cq);
    p->b.qp = ibv_create_qp(p->b.pd, &qp_attr);
    pair_connect(p);
    assert_int_equal(weft_oneshot_create(p->a.qp, &attr), 0);
    assert_int_equal(weft_oneshot_create(p->b.qp, &attr), 0);
    assert_int_equal(weft_cq_ex_read_wc(cq, &wc), EINVAL); // nothing is being read
    struct weft_oneshot_wr wr = command_of(p);
    uint32_t stag, advertised;
    uint64_t number;
    pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    stag = post(p, wr);
    while (ibv_start_poll(cq, &poll_attr) == ENOENT) {
    }
    assert_int_equal(weft_cq_ex_read_wc(cq, &wc), 0);
    assert_true(weft_wc_advertised(&wc, &advertised) && weft_wc_reference(&wc, &number));
    assert_true(advertised == stag && number == reference);
    ibv_end_poll(cq);
    assert_int_equal(ibv_destroy_qp(p->b.qp), 0);
    p->b.qp = NULL;
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

enum { THREADED_COMMANDS = 1000 };

// Answers every command. No assertions in threads: cmocka's leave the function.
static void *serve(void *arg)
{
    struct pair *p = arg;
    for (unsigned i = 0; i < THREADED_COMMANDS; i++) {
        struct ibv_wc wc = bench_poll(p->b.cq);
        struct weft_oneshot_close_wr wr = close_of(p, 0), *bad;
        if (!weft_wc_advertised(&wc, &wr.stag) || !weft_wc_reference(&wc, &wr.reference)) {
            return (void *)"no command";
        }
        wr.send_flags = IBV_SEND_INLINE;
        pair_post_recv(&p->b, 8, ANSWER_AT, 256);
        int error;
        while ((error = weft_oneshot_close(p->b.qp, &wr, &bad)) == ENOMEM) {
            sched_yield();
        }
        if (error != 0) {
            return (void *)"a close is refused";
        }
    }
    return NULL;
}

static void *take_answers(void *arg)
{
    struct pair *p = arg;
    for (unsigned i = 0; i < THREADED_COMMANDS; i++) {
        struct ibv_wc wc = bench_poll(p->a.cq);
        uint32_t stag;
        if (wc.status != IBV_WC_SUCCESS || !weft_wc_closed(&wc, &stag)) {
            return (void *)"an answer that does not close";
        }
    }
    return NULL;
}

static void commands_are_posted_and_closed_by_different_threads(void **state)
{
    struct pair *p = *state;
    pthread_t server, taker;
    void *said[2];
    reopen_with_inline(p, &attr);
    for (unsigned i = 0; i < MAX_COMMANDS; i++) {
        pair_post_recv(&p->b, 8, ANSWER_AT, 256);
    }
    assert_int_equal(pthread_create(&server, NULL, serve, p), 0);
    assert_int_equal(pthread_create(&taker, NULL, take_answers, p), 0);
    for (unsigned i = 0; i < THREADED_COMMANDS; i++) {
        struct ibv_sge sge = bench_sge(&p->a, ANSWER_AT, 256);
        struct ibv_recv_wr answer = {.sg_list = &sge, .num_sge = 1};
        struct weft_oneshot_wr wr = command_of(p), *bad;
        int error;
        wr.reference = i;
        wr.send_flags = IBV_SEND_INLINE;
        wr.answer = &answer;
        while ((error = weft_oneshot_post(p->a.qp, &wr, &bad)) == ENOMEM) {
            sched_yield(); // to who takes answers
        }
        assert_int_equal(error, 0);
    }
    assert_int_equal(pthread_join(server, &said[0]), 0);
    assert_int_equal(pthread_join(taker, &said[1]), 0);
    for (unsigned i = 0; i < 2; i++) {
        if (said[i] != NULL) {
            fail_msg("%s", (const char *)said[i]);
        }
    }
}

static void the_calls_are_found_at_run_time(void **state)
{
    struct weft_oneshot_calls calls;
    assert_true(weft_oneshot_find(&calls));
    assert_ptr_equal(calls.post, &weft_oneshot_post);
    assert_ptr_equal(calls.cq_ex_read_wc, &weft_cq_ex_read_wc);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_command_from_post_to_close),
        CASE(a_signalled_command_completes_as_a_send),
        CASE(only_the_named_part_is_reached),
        CASE(the_table_holds_as_many_commands_as_it_was_made_for),
        CASE(a_write_and_its_close_leave_with_one_call),
        CASE(of_a_list_all_up_to_the_wrong_one_are_posted),
        CASE(a_present_reference_is_compared_and_not_written),
        CASE(an_answer_with_its_reference_present_is_not_written_to),
        CASE(an_inline_body_is_not_written_to),
        CASE(memory_that_is_not_there_is_refused),
        CASE(a_command_that_cannot_be_right_is_refused),
        CASE(a_receive_that_is_refused_refuses_the_command),
        CASE(a_close_that_cannot_be_right_is_refused),
        CASE(a_wrong_close_ends_the_connection),
        CASE(without_a_table_nothing_can_be_posted),
        CASE(an_ordinary_message_advertises_nothing),
        CASE(an_extended_queue_shows_the_same),
        CASE(commands_are_posted_and_closed_by_different_threads),
        CASE(the_calls_are_found_at_run_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
