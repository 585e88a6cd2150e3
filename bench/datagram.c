// Packets of RoCE over UDP sockets with no transport on top, between two processes over loopback.
//
//     bench-datagram bw PAYLOAD_LEN SECONDS [unchecked]   floods; what arrived
//     bench-datagram latency COUNT                        64 octets there and back, both spinning
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "bench/measure.h"
#include "link/datagram/udp.h"

enum { HEAD_LEN = 12, BURST = 60, PING_LEN = 64, RECEIVES = 64, PORT = 34791 };

static uint8_t memory[FOOTPRINT_LEN];

static void fail(const char *what, int error)
{
    fprintf(stderr, "bench-datagram: %s: %s\n", what, strerror(-error));
    exit(1);
}

static struct in6_addr address(uint8_t host)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, host}};
}

// Each end has an address, and so the first slot of its own only by the order of coming; the
// parent waits for the child's number on a pipe.
static struct datagram_link *end_make(uint8_t host, bool is_unchecked)
{
    struct datagram_udp_config config = {.port = PORT, .is_unchecked = is_unchecked};
    struct in6_addr local = address(host);
    struct datagram_link *link;
    int error = datagram_udp_create(&config, &link);
    if (error == 0) {
        error = datagram_open(link, &local, 0);
    }
    if (error != 0) {
        fail("open", error);
    }
    return link;
}

static uint32_t exchange_numbers(const struct datagram_link *link, int in, int out)
{
    uint32_t number = link->qp_num_first;
    if (write(out, &number, sizeof number) != sizeof number ||
        read(in, &number, sizeof number) != sizeof number) {
        fail("pipe", -errno);
    }
    return number;
}

static bool put(struct datagram_link *link, const struct datagram_path *path, uint32_t qp_num,
                const uint8_t *octets, size_t len)
{
    uint8_t head[HEAD_LEN] = {0x64};
    struct span payload = span_of(octets, len);
    put_be32(head + 4, qp_num);
    struct datagram_tx tx = {.path = path,
                             .head = span_of(head, sizeof head),
                             .pieces = &payload,
                             .piece_count = 1,
                             .pad_len = -len & 3};
    return datagram_put(link, &tx);
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

static void flood(struct datagram_link *link, uint32_t qp_num, size_t len)
{
    struct datagram_path path = {.local = address(3), .remote = address(2)};
    for (size_t at = 0;; at = at + 2 * len <= FOOTPRINT_LEN ? at + len : 0) {
        for (unsigned i = 0; i < BURST; i++) {
            if (!put(link, &path, qp_num, memory + at, len)) {
                datagram_wait(link, NS_PER_MS);
                datagram_poll(link, 0);
            }
        }
        datagram_flush(link);
    }
}

static uint64_t sink(struct datagram_link *link, double seconds)
{
    struct datagram_rx rx[RECEIVES];
    uint64_t octets = 0;
    size_t at = 0;
    for (double end_s = now_s() + seconds; now_s() < end_s;) {
        if ((datagram_poll(link, 0) & DATAGRAM_READY_IN) == 0) {
            datagram_wait(link, NS_PER_MS);
            continue;
        }
        unsigned count = datagram_receive(link, rx, RECEIVES, 0);
        for (unsigned i = 0; i < count; i++) {
            size_t len = rx[i].octets.len - HEAD_LEN;
            at = at + len <= FOOTPRINT_LEN ? at : 0;
            memcpy(memory + at, rx[i].octets.ptr + HEAD_LEN, len); // where it belongs
            at += len;
            octets += len;
        }
    }
    return octets;
}

/* ---- latency --------------------------------------------------------------------------------- */

static void ping_take(struct datagram_link *link)
{
    struct datagram_rx rx;
    while ((datagram_poll(link, 0) & DATAGRAM_READY_IN) == 0 ||
           datagram_receive(link, &rx, 1, 0) == 0) {
    }
}

static void ping_put(struct datagram_link *link, const struct datagram_path *path, uint32_t qp_num)
{
    put(link, path, qp_num, memory, PING_LEN);
    datagram_flush(link);
}

static _Noreturn void echo(struct datagram_link *link, uint32_t qp_num)
{
    struct datagram_path path = {.local = address(3), .remote = address(2)};
    for (;;) {
        ping_take(link);
        ping_put(link, &path, qp_num);
    }
}

static void latency(struct datagram_link *link, uint32_t qp_num, unsigned count)
{
    struct datagram_path path = {.local = address(2), .remote = address(3)};
    double *us = calloc(count, sizeof *us);
    for (unsigned i = 0; i < count; i++) {
        double start_s = now_s();
        ping_put(link, &path, qp_num);
        ping_take(link);
        us[i] = 1e6 * (now_s() - start_s);
    }
    print_latency(us, count);
}

int main(int argc, char **argv)
{
    bool is_bandwidth = argc >= 4 && strcmp(argv[1], "bw") == 0;
    bool is_unchecked = argc == 5 && strcmp(argv[4], "unchecked") == 0;
    int to_child[2], to_parent[2];
    if (!is_bandwidth && !(argc == 3 && strcmp(argv[1], "latency") == 0)) {
        fprintf(stderr, "usage: bench-datagram bw PAYLOAD_LEN SECONDS [unchecked]"
                        " | latency COUNT\n");
        return 2;
    }
    if (pipe(to_child) != 0 || pipe(to_parent) != 0) {
        fail("pipe", -errno);
    }
    memset(memory, 0x5a, sizeof memory);
    pid_t child = fork_end();
    struct datagram_link *link = end_make(child == 0 ? 3 : 2, is_unchecked);
    uint32_t qp_num = exchange_numbers(link, child == 0 ? to_child[0] : to_parent[0],
                                       child == 0 ? to_parent[1] : to_child[1]);
    if (child == 0 && is_bandwidth) {
        flood(link, qp_num, strtoul(argv[2], NULL, 10));
    } else if (child == 0) {
        echo(link, qp_num);
    }
    if (is_bandwidth) {
        double start_s = now_s();
        uint64_t octets = sink(link, atof(argv[3]));
        double took_s = now_s() - start_s;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        print_bandwidth(octets, took_s, cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN));
    } else {
        latency(link, qp_num, (unsigned)strtoul(argv[2], NULL, 10));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    datagram_destroy(link);
    return 0;
}
