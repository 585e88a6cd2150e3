// What the files of the UDP device share.
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "link/device/udp.h"
#include "link/fault_model.h"
#include "link/rest.h"
#include "link/sys.h"
#include "net/segment.h"
#include "wire/ip.h"

enum {
    UDP_BATCH = 4,               // datagrams, or trains of them, in one system call
    UDP_DATAGRAM_MAX = 64 << 10, // octets; a train that comes together is no longer
    UDP_REPORTS_MAX = 64,        // of epoll, at a look
    UDP_MTU_DEFAULT = 1500,
};

#define UDP_COUNTERS(X)                                                 \
    X(packets_in, "datagrams received")                                 \
    X(packets_out, "datagrams sent")                                    \
    X(trains_in, "messages received, each a datagram or several alike") \
    X(trains_out, "messages sent, likewise")                            \
    X(bad_checksums, "datagrams whose segment's checksum was wrong")    \
    X(bad_ports, "datagrams whose segment has other ports than they")   \
    X(waits, "times that the socket had no room")                       \
    X(not_sent, "datagrams that the system would not send")             \
    X(icmp_errors, "ICMP messages about what was sent")

struct udp_counters {
#define X(name, text) uint64_t name;
    UDP_COUNTERS(X)
#undef X
};

// What a datagram, or a train of them, came with.
struct udp_arrival {
    struct net_flow flow; // ports filled in
    enum ip_ecn ecn;      // of their packets
    size_t datagram_len;  // of each but the last
    struct mspan left;    // of its octets: not handed up yet
};

// Where the device is with handing up: in the order of the fields, from below to above, what is
// nearest to its end goes first.
struct udp_input {
    struct epoll_event reports[UDP_REPORTS_MAX]; // of the present look
    unsigned report_count, report_at;
    struct udp_channel *errors_of;  // whose ICMP messages are read, when its datagrams have been,
    unsigned errors_left;           // so many at most
    struct udp_channel *reading;    // whose datagrams are; NULL: nobody's
    size_t reads_left;              // messages
    bool is_drained;                // the last system call found less than it asked for
    uint8_t quoted[NET_QUOTED_LEN]; // by the ICMP message that is told
    struct udp_arrival arrivals[UDP_BATCH];
    unsigned arrival_count, arrival_at;
    uint8_t *buffers; // UDP_BATCH of UDP_DATAGRAM_MAX octets
};

struct udp_device {
    struct device base;
    struct device_udp_config config;
    int epoll_fd;
    int wake_fd; // eventfd; its report carries a NULL channel
    struct list_link channels;
    struct rest rest;
    bool has_gso;
    struct fault_model *faults; // changes what arrives; NULL: nobody does
    struct udp_counters counters;
    struct udp_input in;
    // What a system call found out beside its result, told when it is safe to.
    struct {
        struct net_flow flow;
        uint8_t quoted[NET_QUOTED_LEN];
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
    uint8_t tos;           // of the socket
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
static inline int udp_watch(struct udp_device *d, struct udp_channel *c, bool wants_out)
{
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
    c->wants_out = wants_out;
    return sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

// udp_path.c

// Octets of an IP packet on a connected channel's path; on no path in particular the usual.
uint32_t udp_path_mtu(const struct udp_channel *c);
// Octets of a segment that a packet of `mtu` octets has room for.
uint32_t udp_segment_len_of_mtu(uint32_t mtu, const struct net_flow *flow);

// udp_io.c, as in struct device_ops
unsigned udp_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                  const struct net_segments *segments, instant_ns now);
bool udp_poll(struct device *d, instant_ns now);
void udp_receive(struct device *d, struct channel *channel, size_t max_len);
bool udp_next(struct device *d, instant_ns now, struct device_event *ret);
// The channel is closed: nothing more of it is handed up.
void udp_input_forget(struct udp_input *in, const struct udp_channel *c);
