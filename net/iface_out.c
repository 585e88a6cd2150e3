// The segments that leave an interface, one by one or a run of them in one large packet.

#include "base/bytes.h"
#include "base/check.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/iface_internal.h"
#include "net/neighbour.h"
#include "net/segment.h"
#include "wire/ip.h"

STATIC_CHECK((int)IFACE_HEADERS_MAX <= (int)NET_HEADROOM);

// The checksum of the segment, or what a device needs to complete it.
static void checksum_put(const struct net_iface *iface, const struct net_flow *flow,
                         const struct net_transport *transport, const struct net_segment *segment)
{
    uint8_t *at = net_segment_header(segment).ptr + transport->checksum_off;
    uint64_t sum = net_flow_pseudo_sum(flow, transport->protocol, segment->len);
    if (iface->config.offloads) {
        put_be16(at, (uint16_t)~inet_sum_fold(sum));
        return;
    }
    put_be16(at, 0); // it may have been sent before
    put_be16(at, net_segment_checksum(segment, sum));
}

// One segment, or a run that the device cuts. `h` lacks the length only.
static bool send_segment(struct net_iface *iface, struct iface_headers *h,
                         const struct net_transport *transport, const struct net_segment *segment)
{
    struct mspan header = net_segment_header(segment);
    h->body_len = segment->len;
    size_t at = iface_headers_emit(iface, h, header.ptr);
    checksum_put(iface, h->flow, transport, segment);
    struct net_frame frame = {.iov = segment->iov,
                              .iov_count = segment->iov_count,
                              .is_ipv6 = !net_addr_is_ipv4(&h->flow->local)};
    if (iface->config.offloads) {
        frame.checksum_at = (uint16_t)at;
        frame.checksum_off = transport->checksum_off;
        frame.segment_len = segment->part_count > 1 ? (uint16_t)segment->part_len : 0;
        frame.header_len = (uint16_t)(at + header.len);
    }
    segment->iov[0] = (struct iovec){header.ptr - at, at + header.len};
    bool is_sent = iface->config.port.send(iface->config.port.ctx, &frame);
    segment->iov[0] = (struct iovec){header.ptr, header.len};
    iface->counters.frames_out += is_sent;
    return is_sent;
}

enum net_sent iface_find_neighbour(struct net_iface *iface, const struct net_addr *remote,
                                   instant_ns now, struct eth_addr *ret)
{
    struct net_addr hop;
    bool is_to_be_asked = false;
    if (!iface_next_hop(iface, remote, &hop)) {
        return NET_SENT_UNREACHABLE;
    }
    if (!iface->config.has_ethernet) {
        return NET_SENT;
    }
    enum net_neighbour_answer answer =
        net_neighbour_use(&iface->neighbours, &hop, now, ret, &is_to_be_asked);
    if (is_to_be_asked) {
        iface_ask(iface, &hop, answer == NET_NEIGHBOUR_KNOWN ? ret : NULL);
    }
    return answer == NET_NEIGHBOUR_KNOWN   ? NET_SENT
           : answer == NET_NEIGHBOUR_ASKED ? NET_SENT_ASKED
                                           : NET_SENT_UNREACHABLE;
}

enum net_sent net_iface_send(struct net_iface *iface, const struct net_flow *flow, uint8_t tos,
                             const struct net_segments *segments, instant_ns now,
                             unsigned *ret_count)
{
    const struct net_transport *transport = segments->transport;
    struct eth_addr to = {{0}};
    struct iface_headers h = {.flow = flow,
                              .tos = tos | segments->ecn,
                              .protocol = transport->protocol,
                              .hops = iface->config.hops,
                              .to = &to};
    enum net_sent found = iface_find_neighbour(iface, &flow->remote, now, &to);
    *ret_count = 0;
    if (found == NET_SENT_UNREACHABLE) {
        iface->counters.unreachable += segments->count;
        *ret_count = segments->count;
    }
    if (found != NET_SENT) {
        return found == NET_SENT_ASKED ? NET_SENT_NO_ROOM : found;
    }
    while (*ret_count < segments->count) {
        if (!send_segment(iface, &h, transport, &segments->at[*ret_count])) {
            return NET_SENT_NO_ROOM;
        }
        ++*ret_count;
    }
    return NET_SENT;
}
