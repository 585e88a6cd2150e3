// What the files of the UDP device share.
#pragma once

#include "base/list.h"
#include "link/rest.h"
#include "link/udp.h"

enum {
    UDP_BATCH = 4,               // datagrams, or trains of them, in one system call
    UDP_DATAGRAM_MAX = 64 << 10, // octets; a train that comes together is no longer
};

#define UDP_COUNTERS(X)                                                 \
    X(packets_in, "datagrams received")                                 \
    X(packets_out, "datagrams sent")                                    \
    X(trains_in, "messages received, each a datagram or several alike") \
    X(trains_out, "messages sent, likewise")                            \
    X(bad_checksums, "datagrams whose TCP checksum was wrong")          \
    X(bad_ports, "datagrams whose segment has other ports than they")   \
    X(waits, "times that the socket had no room")                       \
    X(not_sent, "datagrams that the system would not send")             \
    X(icmp_errors, "ICMP messages about what was sent")

struct udp_counters {
#define X(name, text) uint64_t name;
    UDP_COUNTERS(X)
#undef X
};

struct udp_device {
    struct device base;
    struct device_udp_config config;
    int epoll_fd;
    int wake_fd; // eventfd; its report carries a NULL channel
    struct list_link channels;
    struct rest rest;
    bool has_gso;
    struct udp_counters counters;
    uint8_t *buffers; // UDP_BATCH of UDP_DATAGRAM_MAX octets
    // What a system call found out beside its result, told when it is safe to.
    struct {
        struct net_flow flow;
        uint32_t seq;
        uint32_t mtu;
        int error; // 0: nothing
    } trouble;
};

struct udp_channel {
    struct channel base;
    struct list_link link; // in `channels`, or at rest
    int fd;                // -1: closed, or abandoned
    int family;
    bool is_connected;
    bool wants_out;
    struct net_flow place; // local end, zero where it may be any; connected: both
};

static inline struct udp_device *udp_device_of(const struct device *d)
{
    return (struct udp_device *)d;
}

static inline struct udp_channel *udp_channel_of(const struct channel *c)
{
    return (struct udp_channel *)c;
}

static inline socklen_t udp_sockaddr_len(int family)
{
    return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

// Which events of the socket the device hears of.
int udp_watch(struct udp_device *d, struct udp_channel *c, bool wants_out);

// Octets of an IP packet on a connected channel's path; on no path in particular the usual.
uint32_t udp_path_mtu(const struct udp_channel *c);
uint16_t udp_mss_of_mtu(uint32_t mtu, const struct net_flow *flow);

// udp_io.c, as in struct device_ops
unsigned udp_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                  const struct tcp_batch *batch, instant_ns now);
bool udp_receive(struct device *d, struct channel *channel, size_t max_len, instant_ns now);
void udp_poll(struct device *d, instant_ns now);
