// The baseline: what kernel TCP does over loopback with nothing on top.
//
//     bench-tcp bw MESSAGE_LEN READ_LEN SECONDS
//     bench-tcp latency COUNT                    64 octets there and back, both ends spinning
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"

enum { PING_LEN = 64 };

static void fail(const char *what)
{
    fprintf(stderr, "bench-tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

// A connected pair over 127.0.0.1: fds[0] in the parent, fds[1] in the child.
static void connected_pair(int fds[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int one = 1;
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
    for (int i = 0; i < 2; i++) {
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
}

static void sink(int fd, size_t read_len)
{
    static uint8_t memory[FOOTPRINT_LEN];
    size_t at = 0;
    ssize_t got;
    while ((got = read(fd, memory + at, read_len)) > 0) {
        at = at + (size_t)got + read_len <= FOOTPRINT_LEN ? at + (size_t)got : 0;
    }
    exit(0);
}

static uint64_t source(int fd, size_t message_len, double seconds)
{
    static uint8_t memory[FOOTPRINT_LEN];
    uint64_t total = 0;
    double end_s = now_s() + seconds;
    memset(memory, 0x5a, sizeof memory);
    for (size_t at = 0; now_s() < end_s;
         at = at + 2 * message_len <= FOOTPRINT_LEN ? at + message_len : 0) {
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

static void bandwidth(size_t message_len, size_t read_len, double seconds)
{
    int fds[2];
    connected_pair(fds);
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        sink(fds[1], read_len);
    }
    close(fds[1]);
    double start_s = now_s();
    uint64_t octets = source(fds[0], message_len, seconds);
    close(fds[0]);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, now_s() - start_s, cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN));
}

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

static void latency(unsigned count)
{
    uint8_t ping[PING_LEN] = {0};
    double *us = calloc(count, sizeof *us);
    int fds[2];
    connected_pair(fds);
    pid_t child = fork();
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
    close(fds[0]);
    waitpid(child, NULL, 0);
    print_latency(us, count);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "bw") == 0) {
        bandwidth(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), atof(argv[4]));
    } else if (argc == 3 && strcmp(argv[1], "latency") == 0) {
        latency((unsigned)strtoul(argv[2], NULL, 10));
    } else {
        fprintf(stderr, "usage: bench-tcp bw MESSAGE_LEN READ_LEN SECONDS | latency COUNT\n");
        return 2;
    }
    return 0;
}
