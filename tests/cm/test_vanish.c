// A program that has seen its completions may end without a word, over our own TCP on a bad path
// too: what it has sent arrives.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

enum { COUNT = 32, LEN = 32 << 10, LIMIT_S = 50 };

static uint8_t memory[COUNT][LEN];

static struct ibv_mr *prepare(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = COUNT, .max_recv_wr = COUNT, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1};
    if (rdma_create_qp(id, NULL, &attr) != 0) {
        return NULL;
    }
    return ibv_reg_mr(id->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
}

static struct ibv_sge piece(unsigned i, const struct ibv_mr *mr)
{
    return (struct ibv_sge){.addr = (uintptr_t)memory[i], .length = LEN, .lkey = mr->lkey};
}

// Waits for so many completions; false: one is not a success.
static bool poll_all(struct ibv_cq *cq, unsigned count)
{
    while (count > 0) {
        struct ibv_wc wc;
        int got = ibv_poll_cq(cq, 1, &wc);
        if (got != 0 && (got < 0 || wc.status != IBV_WC_SUCCESS)) {
            return false;
        }
        count -= (unsigned)got;
    }
    return true;
}

// In the child: is told the port, sends everything, sees it complete, and is gone.
static void send_and_vanish(int port_pipe)
{
    struct end end;
    uint16_t port;
    if (read(port_pipe, &port, sizeof port) != sizeof port) {
        _exit(4);
    }
    active_resolve(&end, port);
    struct ibv_mr *mr = prepare(end.id);
    struct rdma_conn_param param = {0};
    if (mr == NULL || rdma_connect(end.id, &param) != 0 ||
        event_take(end.channel, RDMA_CM_EVENT_ESTABLISHED) != 0) {
        _exit(1);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        struct ibv_sge sge = piece(i, mr);
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
        memset(memory[i], (int)i + 1, LEN);
        if (ibv_post_send(end.id->qp, &wr, &bad) != 0) {
            _exit(2);
        }
    }
    _exit(poll_all(end.id->send_cq, COUNT) ? 0 : 3);
}

static void post_receives(struct rdma_cm_id *id, const struct ibv_mr *mr)
{
    for (unsigned i = 0; i < COUNT; i++) {
        struct ibv_sge sge = piece(i, mr);
        struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
        assert_int_equal(ibv_post_recv(id->qp, &wr, &bad), 0);
    }
}

// The child is made before the device, whose threads may be inside an allocator that does not care
// for forks (AddressSanitizer's of GCC 12).
static void what_has_completed_arrives_though_its_process_is_gone(void **state)
{
    struct end listener;
    struct rdma_conn_param param = {0};
    int status, port_pipe[2];
    alarm(LIMIT_S);
    assert_int_equal(pipe(port_pipe), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        send_and_vanish(port_pipe[0]);
    }
    listener_open(&listener);
    uint16_t port = rdma_get_src_port(listener.id);
    assert_int_equal(write(port_pipe[1], &port, sizeof port), sizeof port);
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    rdma_ack_cm_event(event);
    struct ibv_mr *mr = prepare(id);
    assert_non_null(mr);
    post_receives(id, mr);
    assert_int_equal(rdma_accept(id, &param), 0);
    assert_true(poll_all(id->recv_cq, COUNT));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(memory[i][0], i + 1);
        assert_int_equal(memory[i][LEN - 1], i + 1);
    }
    rdma_destroy_qp(id);
    ibv_dereg_mr(mr);
    rdma_destroy_id(id);
    end_close(&listener);
    close(port_pipe[0]);
    close(port_pipe[1]);
}

int main(void)
{
    setenv("WEFT_LINK", "udp", 1);
    setenv("WEFT_FAULT", "loss=5%,delay=2ms,seed=3", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_completed_arrives_though_its_process_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
