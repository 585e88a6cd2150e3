// The baseline: what the kernel's TCP and UDP do over loopback with nothing on top, and what it
// takes to copy out of another process' memory, or into it.
//
//     bench-raw tcp bw MESSAGE_LEN READ_LEN SECONDS
//     bench-raw udp bw DATAGRAM_LEN SECONDS       in trains (UDP_SEGMENT, UDP_GRO); what arrived
//     bench-raw (tcp|udp) latency COUNT           64 octets there and back, both ends spinning
//     bench-raw (readv|writev) MESSAGE_LEN SECONDS    process_vm_readv, of a message at a time
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"

enum {
    PING_LEN = 64,
    TRAIN_LEN_MAX = 65000,    // octets of datagrams in one system call
    TRAIN_DATAGRAMS_MAX = 64, // of the kernel: UDP_MAX_SEGMENTS
    RECEIVE_BUFFER_LEN = 4 << 20,
};
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static void fail(const char *what)
{
    fprintf(stderr, "bench-raw: %s: %s\n", what, strerror(errno));
    exit(1);
}

// As fast as it gets: without the pacing that BBR has, which weft forgoes within a host, too
// (link/socket.c).
static void tcp_options(int fd)
{
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

// Connected pairs over 127.0.0.1: fds[0] in the parent, fds[1] in the child.
static void tcp_pair(int fds[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&addr, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&addr, &len) != 0) {
        fail("listen");
    }
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fds[0], (struct sockaddr *)&addr, len) != 0) {
        fail("connect");
    }
    fds[1] = accept(listener, NULL, NULL);
    close(listener);
    tcp_options(fds[0]);
    tcp_options(fds[1]);
}

static void udp_pair(int fds[2])
{
    struct sockaddr_in addr[2];
    for (int i = 0; i < 2; i++) {
        int len = RECEIVE_BUFFER_LEN;
        socklen_t addr_len = sizeof addr[i];
        addr[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(fds[i], (struct sockaddr *)&addr[i], addr_len) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&addr[i], &addr_len) != 0) {
            fail("bind");
        }
        if (setsockopt(fds[i], SOL_SOCKET, SO_RCVBUFFORCE, &len, sizeof len) != 0) {
            setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &len, sizeof len);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (connect(fds[i], (struct sockaddr *)&addr[1 - i], sizeof addr[i]) != 0) {
            fail("connect");
        }
    }
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

// The child says that it is ready, and how long its processor was busy until then: to make memory
// is no matter of octets.
static void tell_ready(int fd)
{
    double busy_s = cpu_s(RUSAGE_SELF);
    if (write(fd, &busy_s, sizeof busy_s) != sizeof busy_s) {
        fail("write");
    }
}

static double await_ready(int fd)
{
    double busy_s;
    if (read(fd, &busy_s, sizeof busy_s) != sizeof busy_s) {
        fail("read");
    }
    return cpu_s(RUSAGE_SELF) + busy_s;
}

static void sink(int fd, size_t read_len)
{
    const size_t len = footprint_len();
    uint8_t *memory = footprint(0);
    tell_ready(fd);
    size_t at = 0;
    ssize_t got;
    while ((got = read(fd, memory + at, read_len)) > 0) {
        at = at + (size_t)got + read_len <= len ? at + (size_t)got : 0;
    }
    exit(0);
}

static uint64_t send_octets(int fd, const uint8_t *memory, size_t message_len, double seconds)
{
    const size_t len = footprint_len();
    uint64_t total = 0;
    double end_s = now_s() + seconds;
    for (size_t at = 0; now_s() < end_s; at = at + 2 * message_len <= len ? at + message_len : 0) {
        for (size_t done = 0; done < message_len;) {
            ssize_t put = write(fd, memory + at + done, message_len - done);
            if (put < 0) {
                fail("write");
            }
            done += (size_t)put;
        }
        total += message_len;
    }
    return total;
}

static void tcp_bandwidth(size_t message_len, size_t read_len, double seconds)
{
    int fds[2];
    tcp_pair(fds);
    pid_t child = fork_end();
    if (child == 0) {
        close(fds[0]);
        sink(fds[1], read_len);
    }
    close(fds[1]);
    const uint8_t *memory = footprint(0x5a);
    const double ready_s = await_ready(fds[0]), start_s = now_s();
    uint64_t octets = send_octets(fds[0], memory, message_len, seconds);
    close(fds[0]);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, now_s() - start_s,
                    cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN) - ready_s);
}

// Sends trains of datagrams until it is killed; what finds no room is lost.
static void flood(int fd, size_t datagram_len)
{
    static uint8_t memory[FOOTPRINT_LEN];
    size_t count = TRAIN_LEN_MAX / datagram_len;
    size_t len = datagram_len * (count < TRAIN_DATAGRAMS_MAX ? count : TRAIN_DATAGRAMS_MAX);
    int each = (int)datagram_len;
    if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &each, sizeof each) != 0) {
        fail("UDP_SEGMENT");
    }
    memset(memory, 0x5a, sizeof memory);
    for (size_t at = 0;; at = at + 2 * len <= FOOTPRINT_LEN ? at + len : 0) {
        if (send(fd, memory + at, len, 0) < 0 && errno != ENOBUFS) {
            fail("send");
        }
    }
}

static void udp_bandwidth(size_t datagram_len, double seconds)
{
    static uint8_t memory[FOOTPRINT_LEN];
    int fds[2], one = 1;
    uint64_t octets = 0;
    udp_pair(fds);
    setsockopt(fds[0], IPPROTO_UDP, UDP_GRO, &one, sizeof one);
    pid_t child = fork_end();
    if (child == 0) {
        flood(fds[1], datagram_len);
    }
    double start_s = now_s();
    for (size_t at = 0; now_s() < start_s + seconds;) {
        ssize_t got = recv(fds[0], memory + at, UINT16_MAX, 0);
        if (got < 0) {
            fail("recv");
        }
        octets += (uint64_t)got;
        at = at + (size_t)got + UINT16_MAX <= FOOTPRINT_LEN ? at + (size_t)got : 0;
    }
    double took_s = now_s() - start_s;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, took_s, cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN));
}

/* ---- latency --------------------------------------------------------------------------------- */

static void exchange(int fd, uint8_t *ping, int is_first)
{
    for (int step = 0; step < 2; step++) {
        size_t done = 0;
        int flags = MSG_DONTWAIT;
        while (done < PING_LEN) {
            ssize_t n = (step == 0) == (is_first != 0)
                            ? send(fd, ping + done, PING_LEN - done, flags)
                            : recv(fd, ping + done, PING_LEN - done, flags);
            if (n == 0 || (n < 0 && errno != EAGAIN)) {
                exit(0);
            }
            done += n > 0 ? (size_t)n : 0;
        }
    }
}

static void latency(void (*make_pair)(int fds[2]), unsigned count)
{
    uint8_t ping[PING_LEN] = {0};
    double *us = calloc(count, sizeof *us);
    int fds[2];
    make_pair(fds);
    pid_t child = fork_end();
    if (child == 0) {
        close(fds[0]);
        for (;;) {
            exchange(fds[1], ping, 0);
        }
    }
    close(fds[1]);
    for (unsigned i = 0; i < count; i++) {
        double start_s = now_s();
        exchange(fds[0], ping, 1);
        us[i] = 1e6 * (now_s() - start_s);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_latency(us, count);
}

// Between the memory of this process and that of another, which sleeps.
static void copy_bandwidth(bool is_write, size_t message_len, double seconds)
{
    const size_t len = footprint_len();
    uint64_t octets = 0;
    int fds[2];
    uint8_t *memory = footprint(1);
    if (pipe(fds) != 0) {
        fail("pipe");
    }
    pid_t child = fork_end();
    if (child == 0) {
        memset(memory, 2, len); // pages of its own
        tell_ready(fds[1]);
        for (;;) {
            pause();
        }
    }
    const double ready_s = await_ready(fds[0]), start_s = now_s();
    for (size_t at = 0; now_s() < start_s + seconds;
         at = at + 2 * message_len <= len ? at + message_len : 0) {
        struct iovec place = {memory + at, message_len};
        ssize_t copied = is_write ? process_vm_writev(child, &place, 1, &place, 1, 0)
                                  : process_vm_readv(child, &place, 1, &place, 1, 0);
        if (copied != (ssize_t)message_len) {
            fail("process_vm");
        }
        octets += message_len;
    }
    double took_s = now_s() - start_s;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, took_s, cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN) - ready_s);
}

static size_t number(const char *text)
{
    return strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
    bool is_udp = argc > 2 && strcmp(argv[1], "udp") == 0;
    bool is_tcp = argc > 2 && strcmp(argv[1], "tcp") == 0;
    if (is_tcp && argc == 6 && strcmp(argv[2], "bw") == 0) {
        tcp_bandwidth(number(argv[3]), number(argv[4]), atof(argv[5]));
    } else if (is_udp && argc == 5 && strcmp(argv[2], "bw") == 0) {
        udp_bandwidth(number(argv[3]), atof(argv[4]));
    } else if ((is_tcp || is_udp) && argc == 4 && strcmp(argv[2], "latency") == 0) {
        latency(is_udp ? udp_pair : tcp_pair, (unsigned)number(argv[3]));
    } else if (argc == 4 && (strcmp(argv[1], "readv") == 0 || strcmp(argv[1], "writev") == 0)) {
        copy_bandwidth(strcmp(argv[1], "writev") == 0, number(argv[2]), atof(argv[3]));
    } else {
        fprintf(stderr, "usage: bench-raw tcp bw MESSAGE_LEN READ_LEN SECONDS"
                        " | udp bw DATAGRAM_LEN SECONDS | (tcp|udp) latency COUNT"
                        " | (readv|writev) MESSAGE_LEN SECONDS\n");
        return 2;
    }
    return 0;
}
