// The UDP device's datagrams.

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_name.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/control_message.h"
#include "link/device/device.h"
#include "link/device/udp_channel.h"
#include "link/fault_model.h"
#include "link/sys.h"
#include "net/addr.h"
#include "net/segment.h"
#include "wire/ip.h"

// The second needs struct timespec, and does not say so.
// clang-format off
#include <time.h>
#include <linux/errqueue.h>
// clang-format on

enum {
    TRAIN_SEGMENTS_MAX = 64, // of the kernel: UDP_MAX_SEGMENTS
    TRAIN_LEN_MAX = 65000,   // octets, headers included
    READS_MAX = 32,          // datagrams, or trains, of one channel at a look
    ERRORS_MAX = 16,         // ICMP messages of one channel at a look
    CONTROL_LEN = 256,
};
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* ---- control messages ------------------------------------------------------------------------ */

struct control {
    _Alignas(struct cmsghdr) uint8_t octets[CONTROL_LEN];
};

// From which of our addresses, where the socket has not just one.
static void control_add_source(struct msghdr *msg, const struct udp_channel *c,
                               const struct net_flow *flow)
{
    if (c->family == AF_INET) {
        struct in_pktinfo info = {0};
        memcpy(&info.ipi_spec_dst, net_addr_ipv4(&flow->local), IPV4_ADDR_LEN);
        control_message_add(msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else {
        struct in6_pktinfo info = {.ipi6_ifindex = flow->scope};
        memcpy(&info.ipi6_addr, flow->local.octets, IPV6_ADDR_LEN);
        control_message_add(msg, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

// Packets that may be marked, where those of the socket may not.
static void control_add_ecn(struct msghdr *msg, const struct udp_channel *c,
                            const struct net_flow *flow, enum ip_ecn ecn)
{
    bool is_ipv4 = net_addr_is_ipv4(&flow->remote);
    int tos = c->tos | (int)ecn;
    control_message_add(msg, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
                        &tos, sizeof tos);
}

/* ---- out ------------------------------------------------------------------------------------- */

// Several segments alike, as datagrams of one system call: all but the last are as long as the
// first, and the last is no longer.
struct train {
    const struct net_segment *at;
    unsigned segment_count, iov_count;
    enum ip_ecn ecn;
};

static void checksums_put(const struct net_flow *flow, const struct net_segments *segments)
{
    const struct net_transport *transport = segments->transport;
    for (unsigned i = 0; i < segments->count; i++) {
        const struct net_segment *s = &segments->at[i];
        uint8_t *at = net_segment_header(s).ptr + transport->checksum_off;
        put_be16(at, 0); // it may have been sent before
        uint64_t sum = net_flow_pseudo_sum(flow, transport->protocol, s->len);
        uint16_t checksum = net_segment_checksum(s, sum);
        put_be16(at, checksum == 0 ? UINT16_MAX : checksum);
    }
}

// The segments of the next system call, from this on.
static struct train train_make(const struct udp_device *d, const struct net_segments *segments,
                               unsigned first)
{
    const struct net_segment *at = &segments->at[first];
    unsigned left = segments->count - first;
    struct train t = {.at = at, .ecn = segments->ecn};
    do {
        t.iov_count += at[t.segment_count].iov_count;
    } while (++t.segment_count < left && d->has_gso && t.segment_count < TRAIN_SEGMENTS_MAX &&
             at[t.segment_count - 1].len == at->len && at[t.segment_count].len <= at->len &&
             (t.segment_count + 1) * (size_t)at->len <= TRAIN_LEN_MAX);
    return t;
}

static ssize_t train_send(const struct udp_channel *c, const struct net_flow *flow,
                          const struct train *t)
{
    struct control control;
    struct sockaddr_storage to;
    struct msghdr msg = {
        .msg_iov = t->at->iov, .msg_iovlen = t->iov_count, .msg_control = control.octets};
    if (t->segment_count > 1) {
        uint16_t len = (uint16_t)t->at->len;
        control_message_add(&msg, IPPROTO_UDP, UDP_SEGMENT, &len, sizeof len);
    }
    if (t->ecn != IP_ECN_NOT_ECT) {
        control_add_ecn(&msg, c, flow, t->ecn);
    }
    if (!c->is_connected) {
        net_addr_to_sockaddr(&flow->remote, flow->remote_port, flow->scope, c->family, &to);
        msg.msg_name = &to;
        msg.msg_namelen = udp_sockaddr_len(c->family);
        control_add_source(&msg, c, flow);
    }
    return sys_sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum fate { FATE_SENT, FATE_AGAIN, FATE_NO_ROOM, FATE_NO_TRAINS, FATE_LOST };

// What an error of a system call means for its segments.
static enum fate fate_of(int error)
{
    switch (error) {
    case -EAGAIN:
        return FATE_NO_ROOM;
    case -EINVAL:
    case -EIO:
        return FATE_NO_TRAINS;
    case -ECONNREFUSED: // of an earlier datagram: it is in the error queue as well
    case -EINTR:
        return FATE_AGAIN;
    default:
        return FATE_LOST;
    }
}

// Sends one train; false: there is no room.
static bool train_dispatch(struct udp_device *d, struct udp_channel *c, const struct net_flow *flow,
                           const struct train *t)
{
    enum { TRIES = 3 };
    enum fate fate = FATE_AGAIN;
    ssize_t error = 0;
    for (unsigned i = 0; i < TRIES && fate == FATE_AGAIN; i++) {
        error = train_send(c, flow, t);
        fate = error >= 0 ? FATE_SENT : fate_of((int)error);
    }
    if (fate == FATE_NO_TRAINS) {
        TRACE(d->config.trace, TRACE_LINK, "no UDP_SEGMENT here: %s", errno_name((int)-error));
        d->has_gso = false; // these come again, each alone
    } else if (fate == FATE_LOST) {
        d->trouble.flow = *flow;
        memcpy(d->trouble.quoted, net_segment_header(t->at).ptr, NET_QUOTED_LEN);
        d->trouble.error = (int)error;
        d->trouble.mtu = error == -EMSGSIZE ? udp_path_mtu(c) : 0;
    }
    d->counters.trains_out += fate == FATE_SENT;
    d->counters.packets_out += fate == FATE_SENT ? t->segment_count : 0;
    d->counters.waits += fate == FATE_NO_ROOM;
    d->counters.not_sent += fate == FATE_LOST ? t->segment_count : 0;
    return fate != FATE_NO_ROOM;
}

unsigned udp_send(struct device *device, struct channel *channel, const struct net_flow *flow,
                  const struct net_segments *segments, instant_ns now)
{
    struct udp_device *d = udp_device_of(device);
    struct udp_channel *c = udp_channel_of(channel);
    unsigned taken = 0;
    if (d->config.checksums) {
        checksums_put(flow, segments);
    }
    while (taken < segments->count) {
        struct train train = train_make(d, segments, taken);
        if (!train_dispatch(d, c, flow, &train)) {
            udp_watch(d, c, true);
            break;
        }
        taken += train.segment_count;
    }
    return taken;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void arrival_read(const struct udp_channel *c, struct msghdr *msg, size_t len,
                         struct udp_arrival *ret)
{
    *ret = (struct udp_arrival){
        .flow = c->place, .datagram_len = len, .left = mspan_of(msg->msg_iov->iov_base, len)};
    net_addr_from_sockaddr(msg->msg_name, &ret->flow.remote, &ret->flow.remote_port,
                           &ret->flow.scope);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at != NULL; at = CMSG_NXTHDR(msg, at)) {
        if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO) {
            int each;
            memcpy(&each, CMSG_DATA(at), sizeof each);
            ret->datagram_len = each > 0 ? (size_t)each : len;
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(at), sizeof info);
            ret->flow.local = net_addr_from_ipv4((const uint8_t *)&info.ipi_addr);
        } else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(at), sizeof info);
            ret->flow.local = net_addr_from_ipv6(info.ipi6_addr.s6_addr);
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
            ret->ecn = *CMSG_DATA(at) & IP_ECN_MASK;
        } else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_TCLASS) {
            int class;
            memcpy(&class, CMSG_DATA(at), sizeof class);
            ret->ecn = class & IP_ECN_MASK;
        }
    }
}

// A checksum of 0 is none.
static bool is_segment_good(const struct net_transport *transport, const struct net_flow *flow,
                            struct span octets)
{
    return octets.len < transport->header_len ||
           get_be16(octets.ptr + transport->checksum_off) == 0 ||
           net_segment_is_good(transport, flow, octets);
}

// A segment's ports, its header's first fields, are UDP's: who writes others into it wants the
// answer sent to somebody else.
static bool is_from_its_port(const struct net_transport *transport, const struct net_flow *flow,
                             struct span octets)
{
    return octets.len < transport->header_len || (get_be16(octets.ptr) == flow->remote_port &&
                                                  get_be16(octets.ptr + 2) == flow->local_port);
}

// The next datagram of what one message brought.
static struct mspan datagram_take(struct udp_device *d, struct udp_arrival *a)
{
    size_t len = a->left.len < a->datagram_len ? a->left.len : a->datagram_len;
    struct mspan datagram = mspan_of(a->left.ptr, len);
    a->left = mspan_of(a->left.ptr + len, a->left.len - len);
    d->counters.packets_in++;
    if (d->faults != NULL) {
        fault_model_corrupt(d->faults, datagram);
    }
    return datagram;
}

static bool is_datagram_good(struct udp_device *d, const struct net_flow *flow,
                             struct span datagram)
{
    if (!is_segment_good(d->config.transport, flow, datagram)) {
        d->counters.bad_checksums++;
        TRACE(d->config.trace, TRACE_LINK, "datagram of %zu octets: wrong checksum", datagram.len);
        return false;
    }
    if (!is_from_its_port(d->config.transport, flow, datagram)) {
        d->counters.bad_ports++;
        TRACE(d->config.trace, TRACE_LINK, "datagram of %zu octets: ports of another",
              datagram.len);
        return false;
    }
    return true;
}

// Of what was read; false: nothing is left of that.
static bool next_datagram(struct udp_device *d, struct device_event *ret)
{
    struct udp_input *in = &d->in;
    while (in->arrival_at < in->arrival_count) {
        struct udp_arrival *a = &in->arrivals[in->arrival_at];
        if (a->left.len == 0) {
            in->arrival_at++;
            continue;
        }
        struct span datagram = mspan_read(datagram_take(d, a));
        if (is_datagram_good(d, &a->flow, datagram)) {
            *ret = (struct device_event){.kind = DEVICE_EVENT_SEGMENT,
                                         .channel = &in->reading->base,
                                         .flow = a->flow,
                                         .octets = datagram,
                                         .ecn = a->ecn};
            return true;
        }
    }
    return false;
}

// One system call. How many messages came, or a negative errno.
static int read_some(struct udp_device *d, struct udp_channel *c, unsigned count)
{
    struct mmsghdr msgs[UDP_BATCH];
    struct iovec iov[UDP_BATCH];
    struct control control[UDP_BATCH];
    struct sockaddr_storage from[UDP_BATCH];
    for (unsigned i = 0; i < count; i++) {
        iov[i] = (struct iovec){d->in.buffers + (size_t)i * UDP_DATAGRAM_MAX, UDP_DATAGRAM_MAX};
        msgs[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
                                          .msg_namelen = sizeof from[i],
                                          .msg_iov = &iov[i],
                                          .msg_iovlen = 1,
                                          .msg_control = control[i].octets,
                                          .msg_controllen = sizeof control[i]};
    }
    int got = sys_recvmmsg(c->fd, msgs, count, MSG_DONTWAIT);
    for (int i = 0; i < got; i++) {
        d->counters.trains_in++;
        arrival_read(c, &msgs[i].msg_hdr, msgs[i].msg_len, &d->in.arrivals[i]);
    }
    return got;
}

static void reading_end(struct udp_input *in)
{
    in->reading = NULL;
    in->reads_left = in->arrival_count = in->arrival_at = 0;
}

// Reads on; true: as much as was wanted was read, and more may be there.
static bool read_on(struct udp_device *d, struct device_event *ret)
{
    struct udp_input *in = &d->in;
    struct udp_channel *c = in->reading;
    unsigned count = in->reads_left < UDP_BATCH ? (unsigned)in->reads_left : UDP_BATCH;
    if (in->is_drained) {
        reading_end(in);
        return false;
    }
    if (count == 0) {
        in->errors_of = NULL; // what came before them first
        reading_end(in);
        *ret = (struct device_event){.kind = DEVICE_EVENT_MORE, .channel = &c->base};
        return true;
    }
    int got = read_some(d, c, count);
    in->arrival_at = 0;
    in->arrival_count = got > 0 ? (unsigned)got : 0;
    in->reads_left -= count;
    if (got < (int)count && got != -ECONNREFUSED) { // that of an earlier datagram
        in->is_drained = true;
    }
    return false;
}

void udp_receive(struct device *device, struct channel *channel, size_t max_len)
{
    struct udp_input *in = &udp_device_of(device)->in;
    size_t reads = max_len / UDP_DATAGRAM_MAX;
    reading_end(in);
    in->reading = udp_channel_of(channel);
    in->reads_left = reads > READS_MAX ? READS_MAX : reads < 1 ? 1 : reads;
    in->is_drained = false;
}

void udp_input_forget(struct udp_input *in, const struct udp_channel *c)
{
    if (in->reading == c) {
        reading_end(in);
    }
    if (in->errors_of == c) {
        in->errors_of = NULL;
    }
}

/* ---- what the network says ------------------------------------------------------------------- */

// The report of an ICMP message: which error, and how large a packet may be (0: not said).
static bool error_read(struct msghdr *msg, int *ret_error, uint32_t *ret_mtu)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at != NULL; at = CMSG_NXTHDR(msg, at)) {
        if ((at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_RECVERR) ||
            (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_RECVERR)) {
            struct sock_extended_err e;
            memcpy(&e, CMSG_DATA(at), sizeof e);
            *ret_error = -(int)e.ee_errno;
            *ret_mtu = e.ee_errno == EMSGSIZE ? e.ee_info : 0;
            return e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6;
        }
    }
    return false;
}

// False: it is nobody's business.
static bool tell(const struct net_flow *flow, const uint8_t *quoted, int error, uint32_t mtu,
                 struct device_event *ret)
{
    *ret = (struct device_event){.flow = *flow, .quoted = span_of(quoted, NET_QUOTED_LEN)};
    if (mtu != 0) {
        ret->kind = DEVICE_EVENT_PATH;
        ret->segment_len_max = udp_segment_len_of_mtu(mtu, flow);
    } else {
        ret->kind = DEVICE_EVENT_UNREACHABLE;
        ret->error = error;
    }
    return mtu != 0 || error != -EMSGSIZE;
}

// Each message quotes the datagram that it is about: the beginning of its segment is there. False:
// nothing to tell.
static bool next_error(struct udp_device *d, struct device_event *ret)
{
    struct udp_channel *c = d->in.errors_of;
    struct control control;
    struct sockaddr_storage to;
    struct iovec iov = {d->in.quoted, sizeof d->in.quoted};
    struct msghdr msg = {.msg_name = &to,
                         .msg_namelen = sizeof to,
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.octets,
                         .msg_controllen = sizeof control};
    ssize_t len =
        d->in.errors_left == 0 ? -EAGAIN : sys_recvmsg(c->fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);
    int error;
    uint32_t mtu;
    if (len < 0) {
        d->in.errors_of = NULL;
        return false;
    }
    d->in.errors_left--;
    d->counters.icmp_errors++;
    return c->is_connected && len >= NET_QUOTED_LEN && error_read(&msg, &error, &mtu) &&
           tell(&c->place, d->in.quoted, error, mtu, ret);
}

static bool next_trouble(struct udp_device *d, struct device_event *ret)
{
    int error = d->trouble.error;
    d->trouble.error = 0;
    return error != 0 && tell(&d->trouble.flow, d->trouble.quoted, error, d->trouble.mtu, ret);
}

/* ---- the look -------------------------------------------------------------------------------- */

bool udp_poll(struct device *device, instant_ns now)
{
    struct udp_device *d = udp_device_of(device);
    int count = sys_epoll_wait(d->epoll_fd, d->in.reports, UDP_REPORTS_MAX, 0);
    d->in.report_count = count < 0 ? 0 : (unsigned)count;
    d->in.report_at = 0;
    return count > 0 || d->trouble.error != 0;
}

// A peer that is gone said something before: that comes first.
static void heed_errors(struct udp_device *d, struct udp_channel *c)
{
    udp_receive(&d->base, &c->base, SIZE_MAX);
    d->in.errors_of = c;
    d->in.errors_left = ERRORS_MAX;
}

// One thing that a report says. False: nothing for those above, or not yet.
static bool next_report(struct udp_device *d, struct device_event *ret)
{
    struct epoll_event *report = &d->in.reports[d->in.report_at];
    struct udp_channel *c = report->data.ptr;
    uint32_t says = c == NULL || c->fd < 0 ? 0 : report->events; // a wake; or closed since
    *ret = (struct device_event){.channel = c == NULL ? NULL : &c->base};
    if ((says & EPOLLERR) != 0) {
        report->events &= ~(uint32_t)EPOLLERR;
        heed_errors(d, c);
        return false;
    }
    if ((says & EPOLLOUT) != 0 && c->wants_out) {
        report->events &= ~(uint32_t)EPOLLOUT;
        udp_watch(d, c, false);
        ret->kind = DEVICE_EVENT_ROOM;
        return true;
    }
    d->in.report_at++;
    ret->kind = DEVICE_EVENT_READABLE;
    return (says & EPOLLIN) != 0;
}

bool udp_next(struct device *device, instant_ns now, struct device_event *ret)
{
    struct udp_device *d = udp_device_of(device);
    struct udp_input *in = &d->in;
    for (;;) {
        bool is_event;
        if (d->trouble.error != 0) {
            is_event = next_trouble(d, ret);
        } else if (in->reading != NULL) {
            is_event = next_datagram(d, ret) || read_on(d, ret);
        } else if (in->errors_of != NULL) {
            is_event = next_error(d, ret);
        } else if (in->report_at < in->report_count) {
            is_event = next_report(d, ret);
        } else {
            return false;
        }
        if (is_event) {
            return true;
        }
    }
}
