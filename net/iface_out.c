// The segments that leave an interface, one by one or many in one large packet.

#include <limits.h>
#include <string.h>

#include "base/bytes.h"
#include "net/cut.h"
#include "net/iface_internal.h"

// The checksum of the segment whose header is `tcp`, or what a device needs to complete it.
static void checksum_put(const struct net_iface *iface, const struct net_flow *flow,
                         const struct net_piece *piece, uint8_t *tcp, size_t tcp_len)
{
    size_t len = tcp_len + piece->payload_len;
    uint64_t sum = net_flow_pseudo_sum(flow, IP_PROTOCOL_TCP, (uint32_t)len);
    if (iface->config.offloads) {
        put_be16(tcp + TCP_OFF_CHECKSUM, (uint16_t)~inet_sum_fold(sum));
        return;
    }
    put_be16(tcp + TCP_OFF_CHECKSUM, net_piece_checksum(piece, span_of(tcp, tcp_len), sum));
}

// One segment, or several that the device cuts at `segment_len`. `h` lacks the length only.
static bool send_piece(struct net_iface *iface, struct iface_headers *h,
                       const struct net_piece *piece, uint32_t segment_len)
{
    uint8_t headers[IFACE_HEADERS_MAX];
    struct iovec iov[1 + TCP_BATCH_IOV_MAX];
    size_t tcp_len = TCP_HEADER_LEN + tcp_options_len(&piece->header.options);
    h->body_len = tcp_len + piece->payload_len;
    size_t at = iface_headers_emit(iface, h, headers);
    struct net_frame frame = {.iov = iov,
                              .iov_count = 1 + piece->iov_count,
                              .is_ipv6 = !net_addr_is_ipv4(&h->flow->local)};
    tcp_header_emit(&piece->header, headers + at);
    checksum_put(iface, h->flow, piece, headers + at, tcp_len);
    if (iface->config.offloads) {
        frame.checksum_at = (uint16_t)at;
        frame.checksum_off = TCP_OFF_CHECKSUM;
        frame.segment_len = piece->segment_count > 1 ? (uint16_t)segment_len : 0;
        frame.header_len = (uint16_t)(at + tcp_len);
    }
    iov[0] = (struct iovec){headers, at + tcp_len};
    memcpy(iov + 1, piece->iov, piece->iov_count * sizeof *piece->iov);
    bool is_sent = iface->config.port.send(iface->config.port.ctx, &frame);
    iface->counters.frames_out += is_sent;
    return is_sent;
}

// Who gets the frames, asking if need be.
static enum net_sent find_neighbour(struct net_iface *iface, const struct net_addr *remote,
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
           : answer == NET_NEIGHBOUR_ASKED ? NET_SENT_NO_ROOM
                                           : NET_SENT_UNREACHABLE;
}

enum net_sent net_iface_send(struct net_iface *iface, const struct net_flow *flow, uint8_t tos,
                             const struct tcp_batch *batch, instant_ns now, unsigned *ret_count)
{
    struct eth_addr to = {{0}};
    struct net_cut cut;
    struct net_piece piece;
    struct iface_headers h = {
        .flow = flow, .tos = tos, .protocol = IP_PROTOCOL_TCP, .hops = IFACE_HOPS, .to = &to};
    enum net_sent found = find_neighbour(iface, &flow->remote, now, &to);
    *ret_count = 0;
    if (found == NET_SENT_UNREACHABLE) {
        iface->counters.unreachable += batch->segment_count;
        *ret_count = batch->segment_count;
    }
    if (found != NET_SENT) {
        return found;
    }
    net_cut_init(&cut, batch);
    while (net_cut_next(&cut, iface->config.offloads ? UINT_MAX : 1, &piece)) {
        if (!send_piece(iface, &h, &piece, batch->segment_len)) {
            return NET_SENT_NO_ROOM;
        }
        *ret_count += piece.segment_count;
    }
    return NET_SENT;
}
