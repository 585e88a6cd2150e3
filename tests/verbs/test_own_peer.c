// A queue pair that is connected to itself: what it posts comes back to it. With the argument
// `roce`, on the device of packets.
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/verbs/meet.h"
#include "tests/verbs/roce.h"

static bool is_roce;
static struct bench bench;
static union ibv_gid gid;

static void connect_to_itself(unsigned access)
{
    meet_connect(bench.qp, &gid, bench.qp->qp_num, access, (struct meet_depths){4, 4});
}

static int setup(void **state)
{
    bench_init(&bench);
    assert_int_equal(ibv_query_gid(bench.context, 1, 0, &gid), 0);
    connect_to_itself(MEET_EVERYTHING);
    return 0;
}

static int teardown(void **state)
{
    bench_fini(&bench);
    return 0;
}

static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
    return (struct ibv_send_wr){
        .wr_id = opcode,
        .sg_list = sge,
        .num_sge = sge != NULL,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = (uintptr_t)bench.buf + 1024, .rkey = bench.mr->rkey}};
}

static void post(struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;
    assert_int_equal(ibv_post_send(bench.qp, &wr, &bad), 0);
}

static void post_recv(uint64_t wr_id, uint32_t offset)
{
    struct ibv_sge sge = bench_sge(&bench, offset, 64);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(bench.qp, &wr, &bad), 0);
}

static enum ibv_wc_status status_of(struct ibv_send_wr wr)
{
    post(wr);
    struct ibv_wc wc = bench_poll(bench.cq);
    assert_int_equal(wc.wr_id, wr.wr_id);
    return wc.status;
}

static void carry_out(struct ibv_send_wr wr)
{
    assert_int_equal(status_of(wr), IBV_WC_SUCCESS);
}

/* ---- what works ------------------------------------------------------------------------------ */

static void write_is_in_place_when_it_is_complete(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    for (uint64_t i = 1; i < 1000; i++) {
        memcpy(bench.buf, &i, sizeof i);
        carry_out(request(IBV_WR_RDMA_WRITE, &sge));
        assert_memory_equal(bench.buf + 1024, &i, sizeof i);
    }
}

static void send_takes_a_receive_of_the_same_queue_pair(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, &sge);
    unsigned seen = 0;
    memcpy(bench.buf, "to oneself", 8);
    wr.imm_data = 77;
    post_recv(100, 512);
    post(wr);
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_wc wc = bench_poll(bench.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        seen |= wc.opcode == IBV_WC_RECV ? 1 : 2;
        if (wc.opcode == IBV_WC_RECV) {
            assert_int_equal(wc.wr_id, 100);
            assert_int_equal(wc.byte_len, 8);
            assert_int_equal(wc.imm_data, 77);
        }
    }
    assert_int_equal(seen, 3);
    assert_memory_equal(bench.buf + 512, "to oneself", 8);
}

static void send_waits_for_its_receive(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    uint64_t seen = 0;
    memcpy(bench.buf, "patience", 8);
    post(request(IBV_WR_SEND, &sge));
    post_recv(5, 512);
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_wc wc = bench_poll(bench.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        seen += wc.wr_id;
    }
    assert_int_equal(seen, 5 + IBV_WR_SEND);
    assert_memory_equal(bench.buf + 512, "patience", 8);
}

static void read_is_answered_by_itself(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 16);
    memcpy(bench.buf + 1024, "what was read :)", 16);
    carry_out(request(IBV_WR_RDMA_READ, &sge));
    assert_memory_equal(bench.buf, "what was read :)", 16);
}

static void many_reads_at_a_time_are_all_answered(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 1000);
    memset(bench.buf + 1024, 0xa5, 1000);
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        post(request(IBV_WR_RDMA_READ, &sge));
    }
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    }
    assert_memory_equal(bench.buf, bench.buf + 1024, 1000);
}

static void atomic_acts_once(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
    uint64_t counter = 40;
    wr.wr.atomic.remote_addr = ((uintptr_t)bench.buf + 1024) / 8 * 8;
    wr.wr.atomic.rkey = bench.mr->rkey;
    wr.wr.atomic.compare_add = 2;
    memcpy((void *)(uintptr_t)wr.wr.atomic.remote_addr, &counter, 8);
    carry_out(wr);
    memcpy(&counter, bench.buf, 8);
    assert_int_equal(counter, 40);
    memcpy(&counter, (void *)(uintptr_t)wr.wr.atomic.remote_addr, 8);
    assert_int_equal(counter, 42);
}

static void completion_of_an_empty_write_says_that_all_before_it_is_done(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 512);
    struct ibv_send_wr write = request(IBV_WR_RDMA_WRITE, &sge);
    write.send_flags = 0;
    memset(bench.buf, 0x77, 512);
    for (unsigned i = 0; i + 1 < BENCH_DEPTH; i++) {
        write.wr.rdma.remote_addr = (uintptr_t)bench.buf + 512 + i;
        post(write);
    }
    carry_out(request(IBV_WR_RDMA_WRITE, NULL));
    assert_memory_equal(bench.buf + 512 + BENCH_DEPTH - 2, bench.buf, 512);
}

// What this process answers `weft stat`.
static const char *told(void)
{
    static char text[1 << 16];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int name_len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft.%u.%d",
                            (unsigned)getuid(), (int)getpid());
    socklen_t addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name_len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t got = 0;
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, addr_len), 0);
    assert_int_equal(send(fd, "stat\n", 5, MSG_NOSIGNAL), 5);
    for (ssize_t n; (n = recv(fd, text + got, sizeof text - 1 - got, 0)) > 0;) {
        got += (size_t)n;
    }
    text[got] = '\0';
    close(fd);
    return text;
}

static void what_it_does_is_told(void **state)
{
    char number[32];
    snprintf(number, sizeof number, "\"qp_num\":%u,", bench.qp->qp_num);
    assert_non_null(strstr(told(), number));
}

// More than any buffer on the way has room for.
static void long_message_comes_back_whole(void **state)
{
    enum { LEN = 8 << 20 };
    static uint8_t from[LEN], to[LEN];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_mr *source = ibv_reg_mr(bench.pd, from, LEN, access);
    struct ibv_mr *sink = ibv_reg_mr(bench.pd, to, LEN, access);
    assert_non_null(source);
    assert_non_null(sink);
    for (unsigned i = 0; i < LEN; i++) {
        from[i] = (uint8_t)(i * 7 + (i >> 11));
    }
    struct ibv_sge sge = {.addr = (uintptr_t)from, .length = LEN, .lkey = source->lkey};
    struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge);
    wr.wr.rdma.remote_addr = (uintptr_t)to;
    wr.wr.rdma.rkey = sink->rkey;
    carry_out(wr);
    assert_memory_equal(from, to, LEN);
    memset(from, 0, LEN);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr_id = IBV_WR_RDMA_READ;
    carry_out(wr);
    assert_memory_equal(from, to, LEN);
    assert_int_equal(ibv_dereg_mr(source), 0);
    assert_int_equal(ibv_dereg_mr(sink), 0);
}

/* ---- what does not --------------------------------------------------------------------------- */

static void expect_event(enum ibv_event_type type)
{
    struct ibv_async_event event;
    assert_int_equal(ibv_get_async_event(bench.context, &event), 0);
    assert_int_equal(event.event_type, type);
    assert_ptr_equal(event.element.qp, bench.qp);
    ibv_ack_async_event(&event);
}

static void key_that_is_not_there_fails_the_request_and_flushes_the_rest(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr bad = request(IBV_WR_RDMA_WRITE, &sge);
    bad.wr.rdma.rkey ^= 0x5500;
    post_recv(9, 512);
    post(request(IBV_WR_RDMA_READ, &sge));
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(status_of(bad), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_WR_FLUSH_ERR); // the receive
    assert_int_equal(status_of(request(IBV_WR_RDMA_WRITE, &sge)), IBV_WC_WR_FLUSH_ERR);
    expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void requests_before_the_bad_one_are_successful(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    struct ibv_send_wr wr[3], *bad;
    for (unsigned i = 0; i < 3; i++) {
        wr[i] = request(IBV_WR_RDMA_WRITE, &sge);
        wr[i].next = i < 2 ? &wr[i + 1] : NULL;
    }
    wr[1].wr.rdma.rkey ^= 0x5500;
    assert_int_equal(ibv_post_send(bench.qp, wr, &bad), 0);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_WR_FLUSH_ERR);
    expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void send_that_is_too_long_fails_at_both_ends(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 65);
    unsigned seen = 0;
    post_recv(9, 512);
    post(request(IBV_WR_SEND, &sge));
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_wc wc = bench_poll(bench.cq);
        assert_int_equal(wc.status, wc.wr_id == 9 ? IBV_WC_LOC_LEN_ERR : IBV_WC_REM_INV_REQ_ERR);
        seen |= wc.wr_id == 9 ? 1 : 2;
    }
    assert_int_equal(seen, 3);
}

static void read_without_the_right_is_refused(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_RESET), 0);
    connect_to_itself(IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(status_of(request(IBV_WR_RDMA_READ, &sge)),
                     is_roce ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
    expect_event(IBV_EVENT_QP_ACCESS_ERR);
}

static void local_key_that_is_not_there_fails_that_request_alone(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8), wrong = sge;
    struct ibv_send_wr wr[2] = {request(IBV_WR_RDMA_WRITE, &wrong),
                                request(IBV_WR_RDMA_READ, &sge)},
                       *bad;
    wr[0].next = &wr[1];
    wrong.lkey ^= 0x5500;
    assert_int_equal(ibv_post_send(bench.qp, wr, &bad), 0);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(bench_poll(bench.cq).status, IBV_WC_WR_FLUSH_ERR);
}

/* ---- the end, and again ---------------------------------------------------------------------- */

static void error_state_flushes_what_is_posted(void **state)
{
    post_recv(1, 512);
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_ERR), 0);
    struct ibv_wc wc = bench_poll(bench.cq);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void orderly_end_lets_out_what_was_posted(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 64);
    memset(bench.buf, 0x3c, 64);
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        post(request(IBV_WR_RDMA_WRITE, &sge));
    }
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_SQD), 0);
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        assert_int_equal(bench_poll(bench.cq).status, IBV_WC_SUCCESS);
    }
    assert_memory_equal(bench.buf, bench.buf + 1024, 64);
    if (!is_roce) { // which tells those alone who asked for it
        expect_event(IBV_EVENT_SQ_DRAINED);
    }
}

static void reset_queue_pair_is_connected_again(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    for (unsigned i = 0; i < 20; i++) {
        carry_out(request(IBV_WR_RDMA_WRITE, &sge));
        carry_out(request(IBV_WR_RDMA_READ, &sge));
        assert_int_equal(bench_modify(bench.qp, IBV_QPS_RESET), 0);
        connect_to_itself(MEET_EVERYTHING);
    }
}

static void reset_queue_pair_is_connected_with_another(void **state)
{
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    struct ibv_qp *peer = ibv_create_qp(bench.pd, &attr);
    struct ibv_sge sge = bench_sge(&bench, 0, 8);
    const struct meet_depths depths = {1, 1};
    assert_non_null(peer);
    carry_out(request(IBV_WR_RDMA_WRITE, &sge));
    assert_int_equal(bench_modify(bench.qp, IBV_QPS_RESET), 0);
    meet_connect(bench.qp, &gid, peer->qp_num, MEET_EVERYTHING, depths);
    meet_connect(peer, &gid, bench.qp->qp_num, MEET_EVERYTHING, depths);
    carry_out(request(IBV_WR_RDMA_READ, &sge));
    assert_int_equal(ibv_destroy_qp(peer), 0);
}

static void destroying_it_amid_its_work_leaves_nothing(void **state)
{
    struct ibv_sge sge = bench_sge(&bench, 0, 512);
    struct ibv_wc wc;
    for (unsigned i = 0; i < BENCH_DEPTH; i++) {
        post(request(i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &sge));
    }
    assert_int_equal(ibv_destroy_qp(bench.qp), 0);
    bench.qp = NULL;
    assert_int_equal(ibv_poll_cq(bench.cq, 1, &wc), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    is_roce = argc > 1 && strcmp(argv[1], "roce") == 0;
    if (is_roce) {
        setenv("WEFT_WIRE", "roce", 1);
        roce_port_of_own();
    }
    const struct CMUnitTest tests[] = {
        CASE(write_is_in_place_when_it_is_complete),
        CASE(send_takes_a_receive_of_the_same_queue_pair),
        CASE(send_waits_for_its_receive),
        CASE(read_is_answered_by_itself),
        CASE(many_reads_at_a_time_are_all_answered),
        CASE(atomic_acts_once),
        CASE(what_it_does_is_told),
        CASE(completion_of_an_empty_write_says_that_all_before_it_is_done),
        CASE(long_message_comes_back_whole),
        CASE(key_that_is_not_there_fails_the_request_and_flushes_the_rest),
        CASE(requests_before_the_bad_one_are_successful),
        CASE(send_that_is_too_long_fails_at_both_ends),
        CASE(read_without_the_right_is_refused),
        CASE(local_key_that_is_not_there_fails_that_request_alone),
        CASE(error_state_flushes_what_is_posted),
        CASE(orderly_end_lets_out_what_was_posted),
        CASE(reset_queue_pair_is_connected_again),
        CASE(reset_queue_pair_is_connected_with_another),
        CASE(destroying_it_amid_its_work_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
