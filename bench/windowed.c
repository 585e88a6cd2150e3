// Raw UDP over loopback in one direction, with no more on its way than a window: what a transport
// that loses nothing could have at most. Both ends in processes of their own.
//
//     bench-windowed WAY DATAGRAM_LEN WINDOW_LEN SECONDS      what arrived
//
// WAY: sendto, sendmmsg, gso (UDP_SEGMENT), gso+gro (and UDP_GRO). The receiver says how much it
// has four times in a window. What got lost is not counted, and not sent again.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "bench/measure.h"

enum {
    BATCH = 64,               // datagrams in one system call
    TRAIN_LEN_MAX = 65000,    // octets of datagrams in one message
    TRAIN_DATAGRAMS_MAX = 64, // of the kernel: UDP_MAX_SEGMENTS
    RECEIVE_BUFFER_LEN = 4 << 20,
    LOST_AFTER_MS = 20,
};
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

struct way {
    const char *name;
    unsigned batch; // messages in one system call
    bool has_trains, is_read_whole;
};

static const struct way ways[] = {
    {.name = "sendto", .batch = 1},
    {.name = "sendmmsg", .batch = BATCH},
    {.name = "gso", .batch = BATCH, .has_trains = true},
    {.name = "gso+gro", .batch = BATCH, .has_trains = true, .is_read_whole = true},
};

static uint8_t memory[FOOTPRINT_LEN];

static void fail(const char *what)
{
    fprintf(stderr, "bench-windowed: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void set(int fd, int level, int name, int value)
{
    if (setsockopt(fd, level, name, &value, sizeof value) != 0) {
        fail("setsockopt");
    }
}

// fds[0] receives, fds[1] sends; they are connected.
static void pair_make(int fds[2])
{
    struct sockaddr_in addr[2];
    for (int i = 0; i < 2; i++) {
        socklen_t len = sizeof addr[i];
        addr[i] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(fds[i], (struct sockaddr *)&addr[i], len) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&addr[i], &len) != 0) {
            fail("bind");
        }
        set(fds[i], SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_LEN);
    }
    for (int i = 0; i < 2; i++) {
        if (connect(fds[i], (struct sockaddr *)&addr[1 - i], sizeof addr[i]) != 0) {
            fail("connect");
        }
    }
}

static size_t step(size_t at, size_t len, size_t next_max)
{
    return at + len + next_max <= FOOTPRINT_LEN ? at + len : 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

struct sender {
    int fd;
    const struct way *way;
    size_t datagram_len, window_len, at;
    uint64_t sent, arrived, lost; // octets; of those that arrived it was told
};

static size_t on_the_way(const struct sender *s)
{
    return (size_t)(s->sent - s->arrived - s->lost);
}

// False: nothing has been told, within `timeout_ms`.
static bool take_word(struct sender *s, int timeout_ms)
{
    struct pollfd ready = {.fd = s->fd, .events = POLLIN};
    if (timeout_ms != 0 && poll(&ready, 1, timeout_ms) <= 0) {
        return false;
    }
    return recv(s->fd, &s->arrived, sizeof s->arrived, MSG_DONTWAIT) == sizeof s->arrived;
}

static void wait_for_window(struct sender *s, size_t len)
{
    while (take_word(s, 0)) {
    }
    while (on_the_way(s) + len > s->window_len) {
        if (!take_word(s, LOST_AFTER_MS)) {
            s->lost = s->sent - s->arrived;
        }
    }
}

// As many messages as the window has room for, at most those of one system call; at least one.
static unsigned messages_make(struct sender *s, size_t len, struct iovec *iov, struct mmsghdr *msgs)
{
    size_t room = s->window_len - on_the_way(s);
    unsigned count = 0;
    for (; count < s->way->batch && (count + 1) * len <= room; count++) {
        iov[count] = (struct iovec){memory + s->at, len};
        msgs[count].msg_hdr = (struct msghdr){.msg_iov = &iov[count], .msg_iovlen = 1};
        s->at = step(s->at, len, len);
    }
    return count;
}

static void send_messages(struct sender *s, struct mmsghdr *msgs, unsigned count, size_t len)
{
    for (unsigned done = 0; done < count;) {
        int sent = s->way->batch == 1
                       ? (int)(send(s->fd, msgs[0].msg_hdr.msg_iov->iov_base, len, 0) > 0)
                       : sendmmsg(s->fd, msgs + done, count - done, 0);
        if (sent <= 0 && errno != ENOBUFS) {
            fail("send");
        }
        done += sent > 0 ? (unsigned)sent : 0;
        s->sent += sent > 0 ? (unsigned)sent * len : 0;
    }
}

// A message is a datagram, or a train of them that fits four times into the window.
static size_t message_len(const struct sender *s)
{
    size_t count = TRAIN_LEN_MAX / s->datagram_len, fitting = s->window_len / 4 / s->datagram_len;
    count = count < TRAIN_DATAGRAMS_MAX ? count : TRAIN_DATAGRAMS_MAX;
    count = count < fitting ? count : fitting;
    return s->datagram_len * (s->way->has_trains && count > 0 ? count : 1);
}

// Until it is killed.
static _Noreturn void send_windows(struct sender *s)
{
    struct iovec iov[BATCH];
    struct mmsghdr msgs[BATCH] = {0};
    size_t len = message_len(s);
    if (len > s->datagram_len) {
        set(s->fd, IPPROTO_UDP, UDP_SEGMENT, (int)s->datagram_len);
    }
    memset(memory, 0x5a, sizeof memory);
    for (;;) {
        wait_for_window(s, len);
        send_messages(s, msgs, messages_make(s, len, iov, msgs), len);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

// One system call, into place; octets.
static size_t read_some(int fd, const struct way *way, size_t datagram_len, size_t *at)
{
    struct iovec iov[BATCH];
    struct mmsghdr msgs[BATCH] = {0};
    size_t len = way->is_read_whole ? UINT16_MAX : datagram_len, total = 0;
    unsigned max = way->is_read_whole ? 1 : way->batch;
    for (unsigned i = 0; i < max; i++) {
        iov[i] = (struct iovec){memory + *at, len};
        msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
        *at = step(*at, len, len);
    }
    int got = recvmmsg(fd, msgs, max, MSG_WAITFORONE, NULL);
    if (got < 0) {
        fail("recvmmsg");
    }
    for (int i = 0; i < got; i++) {
        total += msgs[i].msg_len;
    }
    return total;
}

static uint64_t sink(int fd, const struct way *way, size_t datagram_len, size_t window_len,
                     double seconds)
{
    uint64_t octets = 0, told = 0;
    size_t at = 0;
    for (double end_s = now_s() + seconds; now_s() < end_s;) {
        octets += read_some(fd, way, datagram_len, &at);
        if (octets - told >= window_len / 4) {
            told = octets;
            if (send(fd, &octets, sizeof octets, 0) < 0) {
                fail("send");
            }
        }
    }
    return octets;
}

static void bandwidth(const struct way *way, size_t datagram_len, size_t window_len, double seconds)
{
    int fds[2];
    pair_make(fds);
    if (way->is_read_whole) {
        set(fds[0], IPPROTO_UDP, UDP_GRO, 1);
    }
    pid_t child = fork_end();
    if (child == 0) {
        struct sender sender = {
            .fd = fds[1], .way = way, .datagram_len = datagram_len, .window_len = window_len};
        send_windows(&sender);
    }
    double start_s = now_s();
    uint64_t octets = sink(fds[0], way, datagram_len, window_len, seconds);
    double took_s = now_s() - start_s;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_bandwidth(octets, took_s, cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN));
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 5 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argv[1], ways[i].name) == 0) {
            bandwidth(&ways[i], strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                      atof(argv[4]));
            return 0;
        }
    }
    fprintf(stderr, "usage: bench-windowed (sendto|sendmmsg|gso|gso+gro)"
                    " DATAGRAM_LEN WINDOW_LEN SECONDS\n");
    return 2;
}
