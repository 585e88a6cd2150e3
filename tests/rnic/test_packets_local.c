// Queue pairs on packets between processes of one host, whose packets go through memory of both:
// what becomes of the others when one of them is stopped, or killed.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/clock.h"
#include "link/datagram/udp.h"
#include "rnic/post.h"
#include "tests/own_port.h"
#include "tests/rnic/device.h"
#include "tests/rnic/packet_qp.h"
#include "wq/status.h"

enum { CHILDREN = 3, MTU = 1024, DEPTH = 64, LEN = 60000 };

// A queue pair, and where its process may be written to.
struct told {
    uint32_t qp_num, stag;
    uint8_t *buf;
};

// What a child is asked for, once it is connected.
enum question { ASK_PACKETS_IN, ASK_SEQUENCE, ASK_COUNT };

struct child {
    pid_t process;
    int fd;
    struct told told;
};

static struct child children[CHILDREN];
static struct device device;
static struct rnic_qp *qps[CHILDREN];
static uint16_t port;

/* ---- both sides ------------------------------------------------------------------------------ */

static void open_device(void)
{
    const struct datagram_udp_config config = {
        .port = port, .is_local = true, .linger_ns = DATAGRAM_LINGER_NS, .clock = host_clock};
    struct rnic_parts parts = {
        .config = device_config(),
        .clock = host_clock,
        .port = {.addrs = {{.addr = loopback()}}, .addr_count = 1, .path_mtu = MTU},
    };
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    assert_int_equal(datagram_udp_create(&config, &parts.datagrams), 0);
    device_open_parts(&device, &parts);
}

static void say(int fd, const void *what, size_t len)
{
    assert_int_equal(write(fd, what, len), len);
}

static void hear(int fd, void *ret, size_t len)
{
    assert_int_equal(read(fd, ret, len), len);
}

/* ---- a child --------------------------------------------------------------------------------- */

// Is written to by its device's thread, and answers what is asked, until nobody asks any more.
static void live(int fd, enum rnic_qp_type type)
{
    static const char *const names[ASK_COUNT] = {
        [ASK_PACKETS_IN] = "local_packets_in", [ASK_SEQUENCE] = "sequence"};
    enum question question;
    uint32_t peer;
    hear(fd, &peer, sizeof peer);
    open_device();
    struct rnic_qp *qp = packet_qp_open(&device, type, DEPTH);
    const struct told told = {.qp_num = qp->qp_num, .stag = device.stag, .buf = device.buf};
    say(fd, &told, sizeof told);
    hear(fd, &peer, sizeof peer);
    packet_qp_connect(qp, peer, MTU);
    say(fd, &peer, sizeof peer);
    while (read(fd, &question, sizeof question) == sizeof question) {
        const uint64_t answer = device_count(&device, names[question]);
        say(fd, &answer, sizeof answer);
    }
    _exit(0);
}

static uint64_t ask(unsigned i, enum question question)
{
    uint64_t answer;
    say(children[i].fd, &question, sizeof question);
    hear(children[i].fd, &answer, sizeof answer);
    return answer;
}

// While this process has no thread yet.
static void child_begin(unsigned i, enum rnic_qp_type type)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    children[i].process = fork();
    if (children[i].process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned other = 0; other < i; other++) {
            close(children[other].fd);
        }
        close(ends[0]);
        live(ends[1], type);
    }
    close(ends[1]);
    children[i].fd = ends[0];
}

static void child_connect(unsigned i, enum rnic_qp_type type)
{
    struct child *c = &children[i];
    uint32_t any = 0;
    say(c->fd, &any, sizeof any);
    hear(c->fd, &c->told, sizeof c->told);
    qps[i] = packet_qp_open(&device, type, DEPTH);
    say(c->fd, &qps[i]->qp_num, sizeof qps[i]->qp_num);
    hear(c->fd, &any, sizeof any);
    packet_qp_connect(qps[i], c->told.qp_num, MTU);
}

static void child_end(unsigned i, int signal)
{
    int status;
    kill(children[i].process, signal);
    close(children[i].fd);
    assert_int_equal(waitpid(children[i].process, &status, 0), children[i].process);
    children[i].process = 0;
}

static int begin_with(enum rnic_qp_type type)
{
    port = own_port();
    for (unsigned i = 0; i < CHILDREN; i++) {
        child_begin(i, type);
    }
    open_device();
    child_connect(0, type);
    child_connect(1, type);
    return 0;
}

static int begin(void **state)
{
    return begin_with(RNIC_QP_RC);
}

static int begin_unreliable(void **state)
{
    return begin_with(RNIC_QP_UC);
}

static int end(void **state)
{
    for (unsigned i = 0; i < CHILDREN; i++) {
        if (qps[i] != NULL) {
            rnic_qp_destroy(qps[i]);
            qps[i] = NULL;
        }
        if (children[i].process != 0) {
            child_end(i, SIGKILL);
        }
    }
    device_close(&device);
    return 0;
}

/* ---- traffic --------------------------------------------------------------------------------- */

static void post_write(unsigned i)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, qps[i]);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = i;
    wqe->opcode = WQE_RDMA_WRITE;
    wqe->flags = WQE_SIGNALED;
    wqe->rkey = children[i].told.stag;
    wqe->remote_addr = (uintptr_t)children[i].told.buf;
    wqe->sge_count = 1;
    wqe->length = LEN;
    wqe->sge[0] = (struct sge){.addr = (uintptr_t)device.buf, .length = LEN, .lkey = device.stag};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void write_done(unsigned i, enum wc_status status)
{
    const struct cqe cqe = device_poll(&device);
    assert_int_equal(cqe.wr_id, i);
    assert_int_equal(cqe.status, status);
}

// Whose it was.
static unsigned any_done(void)
{
    const struct cqe cqe = device_poll(&device);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_in_range(cqe.wr_id, 0, 1);
    return (unsigned)cqe.wr_id;
}

static void write_many(unsigned i, unsigned count)
{
    for (unsigned n = 0; n < count; n++) {
        post_write(i);
        write_done(i, WC_SUCCESS);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void writes_go_through_memory(void **state)
{
    write_many(0, 200);
    const uint64_t by_memory = device_count(&device, "local_packets_out");
    assert_true(by_memory > 200 * LEN / MTU - 1000);
    assert_true(device_count(&device, "trains_out") < 100); // by UDP
    assert_in_range(ask(0, ASK_PACKETS_IN), by_memory - 1000, by_memory);
}

// Where the way changes nothing overtakes anything else.
static void no_message_of_an_unreliable_connection_is_lost(void **state)
{
    write_many(0, 500);
    pause_ms(100);
    assert_true(device_count(&device, "local_packets_out") > 500);
    assert_int_equal(ask(0, ASK_SEQUENCE), 0);
}

// Once it has: what is posted from then on is not answered.
static void child_stop(unsigned i)
{
    kill(children[i].process, SIGSTOP);
    assert_int_equal(waitpid(children[i].process, NULL, WUNTRACED), children[i].process);
}

// All that goes to the other is done before who waits for the one that is stopped gives it up.
static void process_that_is_stopped_holds_up_no_other(void **state)
{
    write_many(0, 20);
    write_many(1, 20);
    child_stop(0);
    for (unsigned n = 0; n < DEPTH; n++) {
        post_write(0);
    }
    unsigned done[2] = {0};
    for (unsigned n = 0; n < 100; n++) {
        post_write(1);
        for (unsigned before = done[1]; done[1] == before;) {
            done[any_done()]++; // before it stopped, too
        }
    }
    assert_true(done[0] < DEPTH);
    kill(children[0].process, SIGCONT);
    for (; done[0] < DEPTH; done[0]++) {
        assert_int_equal(any_done(), 0);
    }
}

// ... and who has its slot behind it gets packets through memory as well.
static void process_that_is_killed_ends_its_own_connection_alone(void **state)
{
    write_many(0, 20);
    write_many(1, 20);
    child_stop(0);
    const struct qp_change soon = {.mask = QP_CHANGE_TIMEOUT, .timeout = 14};
    assert_int_equal(rnic_qp_change(qps[0], &soon), 0);
    for (unsigned n = 0; n < 16; n++) {
        post_write(0);
    }
    child_end(0, SIGKILL);
    bool has_failed = false;
    for (unsigned n = 0; n < 16; n++) {
        const struct cqe cqe = device_poll(&device);
        assert_true(!has_failed || cqe.status == WC_WR_FLUSH_ERR);
        has_failed = has_failed || cqe.status != WC_SUCCESS;
    }
    assert_true(has_failed);
    write_many(1, 100);
    const uint64_t made = device_count(&device, "local_lanes_made");
    child_connect(2, RNIC_QP_RC);
    pause_ms(1100); // none is made to a slot more than once in a second
    write_many(2, 100);
    assert_int_equal(device_count(&device, "local_lanes_made"), made + 1);
    assert_true(ask(2, ASK_PACKETS_IN) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_go_through_memory, begin, end),
        cmocka_unit_test_setup_teardown(no_message_of_an_unreliable_connection_is_lost,
                                        begin_unreliable, end),
        cmocka_unit_test_setup_teardown(process_that_is_stopped_holds_up_no_other, begin, end),
        cmocka_unit_test_setup_teardown(process_that_is_killed_ends_its_own_connection_alone, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
