// A stretch of the network between a host and the node, for tests: it carries the octets of one
// TCP connection, slowly if it is to, until it is told to hold those that go to the host. Then
// neither end hears that anything is wrong.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/node/nvme_host.h"

enum { RELAY_LEN = 1 << 16, RELAY_SLICE_LEN = 1 << 20, RELAY_LOOK_MS = 5 };

struct relay {
    int listener, host, node;
    uint16_t port;        // where the host connects to
    uint16_t node_port;   // where that leads
    atomic_bool holds;    // what the node sends stays in the network
    atomic_uint pause_us; // behind RELAY_SLICE_LEN octets to the node
    atomic_bool ends;
    pthread_t thread;
};

// How many octets; 0: an end has gone.
static inline size_t relay_carry(int from, int to)
{
    static __thread uint8_t octets[RELAY_LEN];
    ssize_t got = recv(from, octets, sizeof octets, 0);
    for (ssize_t sent = 0; sent < got;) {
        ssize_t part = send(to, octets + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (part <= 0) {
            return 0;
        }
        sent += part;
    }
    return got > 0 ? (size_t)got : 0;
}

static inline bool relay_connect(struct relay *relay)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(relay->node_port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int little = 1 << 16; // a network does not hold much
    relay->host = accept(relay->listener, NULL, NULL);
    relay->node = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(relay->node, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    return relay->host >= 0 && connect(relay->node, (struct sockaddr *)&addr, sizeof addr) == 0;
}

static inline void *relay_run(void *ctx)
{
    struct relay *relay = ctx;
    bool lives = relay_connect(relay);
    size_t carried = 0;
    while (lives && !relay->ends) {
        struct pollfd fds[] = {{.fd = relay->host, .events = POLLIN},
                               {.fd = relay->holds ? -1 : relay->node, .events = POLLIN}};
        poll(fds, 2, RELAY_LOOK_MS);
        if (fds[0].revents != 0) {
            size_t len = relay_carry(relay->host, relay->node);
            lives = len > 0;
            carried += len;
        }
        if (carried >= RELAY_SLICE_LEN) {
            carried -= RELAY_SLICE_LEN;
            usleep(relay->pause_us);
        }
        lives &= fds[1].revents == 0 || relay_carry(relay->node, relay->host) > 0;
    }
    shutdown(relay->host, SHUT_RDWR);
    shutdown(relay->node, SHUT_RDWR);
    return NULL;
}

static inline void relay_start(struct relay *relay, const struct node *node)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    *relay = (struct relay){.node_port = node->port, .host = -1, .node = -1};
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(relay->listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(relay->listener, 1), 0);
    assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&addr, &len), 0);
    relay->port = ntohs(addr.sin_port);
    assert_int_equal(pthread_create(&relay->thread, NULL, relay_run, relay), 0);
}

static inline void relay_stop(struct relay *relay)
{
    relay->ends = true;
    pthread_join(relay->thread, NULL);
    close(relay->listener);
    close(relay->host);
    close(relay->node);
}
