// The measured side: an ordinary libibverbs/librdmacm program, both ends in processes of their own.
//
//     bench-verbs (write|read|send) MESSAGE_LEN SECONDS [sleep]
//                                                           bandwidth, one direction; the programs
//                                                           spin on their CQs, or sleep until one
//                                                           has something
//     bench-verbs latency (send|write) COUNT                64 octets there and back, both ends
//                                                           spinning: on the CQ, or on memory;
//                                                           COUNT times, or for five seconds
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/ends.h"
#include "bench/measure.h"

enum {
    PING_LEN = 64,
    DEPTH = 128, // messages: of 4 KiB no fewer than raw UDP has on the way (bench/roce.py)
    SIGNAL_EVERY = 8,
    LATENCY_SECONDS = 5, // fewer round trips then: four threads may have two processors
};

// Both ends alike.
static struct bench_end end_of_program(void)
{
    return (struct bench_end){
        .cap = {.max_send_wr = 2 * DEPTH,
                .max_recv_wr = 2 * DEPTH,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = PING_LEN},
        .memory_len = footprint_len(),
    };
}

static struct ibv_sge sge_at(const struct bench_end *end, size_t at, size_t len)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)(end->memory + at), .length = (uint32_t)len, .lkey = end->mr->lkey};
}

static void post_receive(struct bench_end *end, size_t at, size_t len)
{
    struct ibv_sge sge = sge_at(end, at, len);
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(end->id->qp, &wr, &bad) != 0) {
        bench_fail("ibv_post_recv");
    }
}

static void post_send(struct bench_end *end, enum ibv_wr_opcode opcode, size_t at, size_t len,
                      int flags)
{
    struct ibv_sge sge = sge_at(end, at, len);
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = (unsigned)flags},
                       *bad;
    wr.wr.rdma.remote_addr = end->peer.addr + at;
    wr.wr.rdma.rkey = end->peer.rkey;
    if (ibv_post_send(end->id->qp, &wr, &bad) != 0) {
        bench_fail("ibv_post_send");
    }
}

enum { POLL_MAX = 16 };

// Completions found, at most `max`, 0 if there are none now, -1 when the connection is over.
static int poll_cq(struct ibv_cq *cq, int max)
{
    struct ibv_wc wc[POLL_MAX];
    int n = ibv_poll_cq(cq, max, wc);
    for (int i = 0; i < n; i++) {
        if (wc[i].status == IBV_WC_WR_FLUSH_ERR) {
            return -1;
        }
        if (wc[i].status != IBV_WC_SUCCESS) {
            fprintf(stderr, "bench-verbs: completion: %s\n", ibv_wc_status_str(wc[i].status));
            exit(1);
        }
    }
    return n;
}

// The same; if there are none now, those that it finds when something has come to `channel`. NULL:
// it does not wait.
static int next_completions(struct ibv_cq *cq, struct ibv_comp_channel *channel)
{
    int n = poll_cq(cq, POLL_MAX);
    if (n != 0 || channel == NULL) {
        return n;
    }
    if (ibv_req_notify_cq(cq, 0) != 0) {
        bench_fail("ibv_req_notify_cq");
    }
    n = poll_cq(cq, POLL_MAX); // what came before it was armed
    if (n == 0) {
        struct ibv_cq *of;
        void *context;
        if (ibv_get_cq_event(channel, &of, &context) != 0) {
            bench_fail("ibv_get_cq_event");
        }
        ibv_ack_cq_events(of, 1);
        n = poll_cq(cq, POLL_MAX);
    }
    return n;
}

// The target, in the child. `port_fd`: where the requester learns the port.
static void target_connect(struct bench_end *end, int port_fd, unsigned receive_count,
                           size_t receive_len)
{
    end_listen(end, port_fd);
    for (unsigned i = 0; i < receive_count; i++) {
        post_receive(end, (i * receive_len) % end->memory_len, receive_len);
    }
    end_accept(end);
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

struct load {
    enum ibv_wr_opcode opcode;
    size_t message_len;
    double seconds;
    int sleeps;
};

// Posts receives as they are used, until the connection ends.
static void take_sends(struct bench_end *end, const struct load *load)
{
    struct ibv_comp_channel *channel = load->sleeps ? end->id->recv_cq_channel : NULL;
    size_t at = 0;
    int n;
    while ((n = next_completions(end->id->recv_cq, channel)) >= 0) {
        for (; n > 0; n--) {
            post_receive(end, at, load->message_len);
            at = at + 2 * load->message_len <= end->memory_len ? at + load->message_len : 0;
        }
    }
}

// A target of Writes and Reads makes no call at all.
static void bandwidth_target(const struct load *load, int port_fd, int done_fd)
{
    struct bench_end end = end_of_program();
    bool is_send = load->opcode == IBV_WR_SEND;
    char done;
    target_connect(&end, port_fd, is_send ? 2 * DEPTH : 0, load->message_len);
    if (is_send) {
        take_sends(&end, load);
    }
    while (read(done_fd, &done, 1) < 0) {
    }
    exit(0);
}

// How long processors were busy with this process and its child. Both are looked at by the
// requester, while octets move and no longer: what a device shows of itself in the file system, and
// a target that spins until it hears of the end, are no matter of octets.
static double busy_s_of_both(pid_t child)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &t) != 0) {
        bench_fail("the target's clock");
    }
    return cpu_s(RUSAGE_SELF) + (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The requester: octets that were completed within about `load->seconds`.
static uint64_t transfer(struct bench_end *end, const struct load *load)
{
    struct ibv_comp_channel *channel = load->sleeps ? end->id->send_cq_channel : NULL;
    const size_t len = load->message_len;
    uint64_t posted = 0, signalled = 0, completed = 0;
    size_t at = 0;
    double end_s = now_s() + load->seconds;
    for (bool is_over = false; !is_over || completed < signalled;) {
        while (!is_over && posted - completed * SIGNAL_EVERY < DEPTH) {
            bool is_signalled = ++posted % SIGNAL_EVERY == 0;
            signalled += is_signalled;
            post_send(end, load->opcode, at, len, is_signalled ? IBV_SEND_SIGNALED : 0);
            at = at + 2 * len <= end->memory_len ? at + len : 0;
        }
        int n = next_completions(end->id->send_cq, channel);
        if (n < 0) {
            fprintf(stderr, "bench-verbs: the connection ended\n");
            exit(1);
        }
        completed += (uint64_t)n;
        is_over = is_over || now_s() >= end_s;
    }
    return completed * SIGNAL_EVERY * len;
}

static void bandwidth(const struct load *load)
{
    int ports[2], done[2];
    if (pipe(ports) != 0 || pipe(done) != 0) {
        bench_fail("pipe");
    }
    pid_t child = fork_end();
    if (child == 0) {
        close(done[1]);
        bandwidth_target(load, ports[1], done[0]);
    }
    close(ports[1]);
    struct bench_end end = end_of_program();
    end_connect(&end, ports[0]);
    double start_s = now_s(), busy_s = busy_s_of_both(child);
    uint64_t octets = transfer(&end, load);
    double took_s = now_s() - start_s;
    busy_s = busy_s_of_both(child) - busy_s;
    end_disconnect(&end);
    close(done[1]);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, took_s, busy_s);
}

/* ---- latency --------------------------------------------------------------------------------- */

// Waits for one message.
static void spin_cq(struct bench_end *end)
{
    int n;
    while ((n = poll_cq(end->id->recv_cq, 1)) == 0) {
    }
    if (n < 0) {
        exit(0);
    }
}

static void drain_send_cq(struct bench_end *end, unsigned *left)
{
    while (*left >= DEPTH) {
        int n = poll_cq(end->id->send_cq, POLL_MAX);
        if (n < 0) {
            exit(0);
        }
        *left -= (unsigned)n;
    }
}

// One direction of a round trip by Send: post, and wait for the answer on the CQ.
static void ping_send(struct bench_end *end, int is_first)
{
    static unsigned unpolled;
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == (is_first != 0)) {
            post_send(end, IBV_WR_SEND, 0, PING_LEN, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
            unpolled++;
            drain_send_cq(end, &unpolled);
        } else {
            spin_cq(end);
            post_receive(end, PING_LEN, PING_LEN);
        }
    }
}

// The same by Write: the answer is seen as a change of the last octet in memory.
static void ping_write(struct bench_end *end, uint8_t round, int is_first)
{
    static unsigned unpolled;
    volatile uint8_t *last = end->memory + 2 * PING_LEN - 1;
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == (is_first != 0)) {
            struct ibv_sge sge = sge_at(end, 0, PING_LEN);
            struct ibv_send_wr wr = {.sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
                               *bad;
            wr.wr.rdma.remote_addr = end->peer.addr + PING_LEN;
            wr.wr.rdma.rkey = end->peer.rkey;
            end->memory[PING_LEN - 1] = round;
            if (ibv_post_send(end->id->qp, &wr, &bad) != 0) {
                exit(0);
            }
            unpolled++;
            drain_send_cq(end, &unpolled);
        } else {
            while (*last != round) {
            }
        }
    }
}

static void latency(int by_write, unsigned count)
{
    int ports[2];
    double *us = calloc(count, sizeof *us);
    struct bench_end end = end_of_program();
    if (pipe(ports) != 0) {
        bench_fail("pipe");
    }
    pid_t child = fork_end();
    if (child == 0) {
        target_connect(&end, ports[1], 4, PING_LEN);
        // The requester tells where it is with the first message: by a Send in either case.
        spin_cq(&end);
        memcpy(&end.peer, end.memory, sizeof end.peer);
        post_receive(&end, PING_LEN, PING_LEN);
        for (unsigned i = 1;; i++) {
            by_write ? ping_write(&end, (uint8_t)i, 0) : ping_send(&end, 0);
        }
    }
    end_connect(&end, ports[0]);
    for (unsigned i = 0; i < 4; i++) {
        post_receive(&end, PING_LEN, PING_LEN);
    }
    struct bench_target own = {.addr = (uintptr_t)end.memory, .rkey = end.mr->rkey};
    memcpy(end.memory, &own, sizeof own);
    post_send(&end, IBV_WR_SEND, 0, PING_LEN, IBV_SEND_INLINE);
    unsigned done = 0;
    for (double end_s = now_s() + LATENCY_SECONDS; done < count && now_s() < end_s; done++) {
        double start_s = now_s();
        by_write ? ping_write(&end, (uint8_t)(done + 1), 1) : ping_send(&end, 1);
        us[done] = 1e6 * (now_s() - start_s);
    }
    end_disconnect(&end);
    kill(child, SIGKILL); // who spins on memory hears of no end
    waitpid(child, NULL, 0);
    print_latency(us, done);
}

static bool is_operation(const char *word, enum ibv_wr_opcode *ret)
{
    static const struct {
        const char *name;
        enum ibv_wr_opcode opcode;
    } operations[] = {
        {"write", IBV_WR_RDMA_WRITE}, {"read", IBV_WR_RDMA_READ}, {"send", IBV_WR_SEND}};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (strcmp(word, operations[i].name) == 0) {
            *ret = operations[i].opcode;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct load load = {.sleeps = argc == 5 && strcmp(argv[4], "sleep") == 0};
    if (argc == 4 && strcmp(argv[1], "latency") == 0) {
        latency(strcmp(argv[2], "write") == 0, (unsigned)strtoul(argv[3], NULL, 10));
    } else if ((argc == 4 || load.sleeps) && is_operation(argv[1], &load.opcode)) {
        load.message_len = strtoul(argv[2], NULL, 10);
        load.seconds = atof(argv[3]);
        bandwidth(&load);
    } else {
        fprintf(stderr, "usage: bench-verbs (write|read|send) MESSAGE_LEN SECONDS [sleep]"
                        " | latency (send|write) COUNT\n");
        return 2;
    }
    return 0;
}
