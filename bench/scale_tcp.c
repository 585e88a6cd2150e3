// Raw TCP: what a program does that has one epoll for all of its connections.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/scale.h"

enum { EVENT_MAX = 64 };

static int poller = -1;
static int *sockets; // by the connection's number

static void fail(const char *what)
{
    fprintf(stderr, "bench-scale: tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void add_to_poller(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    const int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail("epoll_ctl");
    }
}

static void create_poller(void)
{
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0) {
        fail("epoll_create1");
    }
}

// Takes a message whole from each socket that has one; how many. `is_server` sends them back.
static unsigned take_messages(bool is_server)
{
    struct epoll_event events[EVENT_MAX];
    const int count = epoll_wait(poller, events, EVENT_MAX, 0);
    unsigned taken = 0;
    for (int i = 0; i < count; i++) {
        char message[SCALE_DEPTH * SCALE_REQUEST_LEN];
        const ssize_t len = recv(events[i].data.fd, message, sizeof message, 0);
        if (len <= 0) {
            fail("recv");
        }
        if (is_server && send(events[i].data.fd, message, (size_t)len, 0) != len) {
            fail("send");
        }
        taken += (unsigned)(len / SCALE_REQUEST_LEN);
    }
    return taken;
}

static void serve(unsigned count, int port_fd)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t addr_len = sizeof addr;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&addr, addr_len) != 0 ||
        listen(listener, SOMAXCONN) != 0 ||
        getsockname(listener, (struct sockaddr *)&addr, &addr_len) != 0 ||
        write(port_fd, &addr.sin_port, sizeof addr.sin_port) != sizeof addr.sin_port) {
        fail("listen");
    }
    create_poller();
    for (unsigned i = 0; i < count; i++) {
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            fail("accept");
        }
        add_to_poller(fd);
    }
    for (;;) {
        take_messages(true);
    }
}

static void connect_all(unsigned count, int port_fd)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sockets = calloc(count, sizeof *sockets);
    if (sockets == NULL || read(port_fd, &addr.sin_port, sizeof addr.sin_port) < 0) {
        fail("read");
    }
    create_poller();
    for (unsigned i = 0; i < count; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (sockets[i] < 0 || connect(sockets[i], (struct sockaddr *)&addr, sizeof addr) != 0) {
            fail("connect");
        }
        add_to_poller(sockets[i]);
    }
}

static void request(unsigned connection)
{
    static const char message[SCALE_REQUEST_LEN];
    if (send(sockets[connection], message, sizeof message, 0) != sizeof message) {
        fail("send");
    }
}

static unsigned answers(void)
{
    return take_messages(false);
}

const struct scale_carrier scale_tcp = {
    .name = "tcp", .serve = serve, .connect = connect_all, .request = request, .answers = answers};
