// What leaves an interface: segments, one by one or many in one large packet, and small messages.

#include <limits.h>
#include <string.h>

#include "base/bytes.h"
#include "net/cut.h"
#include "net/iface_internal.h"

/* ---- headers --------------------------------------------------------------------------------- */

static size_t emit_ipv6(const struct iface_headers *from, uint8_t *buf)
{
    struct ipv6_header h = {.traffic_class = from->tos,
                            .payload_len = (uint16_t)from->body_len,
                            .next_header = from->protocol,
                            .hop_limit = from->hops};
    memcpy(h.src, from->flow->local.octets, IPV6_ADDR_LEN);
    memcpy(h.dst, from->flow->remote.octets, IPV6_ADDR_LEN);
    return ipv6_header_emit(&h, buf);
}

static size_t emit_ipv4(const struct iface_headers *from, uint16_t id, uint8_t *buf)
{
    struct ipv4_header h = {.tos = from->tos,
                            .total_len = (uint16_t)(IPV4_HEADER_LEN + from->body_len),
                            .id = id,
                            .ttl = from->hops,
                            .protocol = from->protocol};
    memcpy(h.src, net_addr_ipv4(&from->flow->local), IPV4_ADDR_LEN);
    memcpy(h.dst, net_addr_ipv4(&from->flow->remote), IPV4_ADDR_LEN);
    return ipv4_header_emit(&h, buf);
}

size_t iface_headers_emit(struct net_iface *iface, const struct iface_headers *h, uint8_t *buf)
{
    bool is_ipv6 = !net_addr_is_ipv4(&h->flow->local);
    size_t at = 0;
    if (iface->config.has_ethernet) {
        struct eth_header eth = {.dst = *h->to,
                                 .src = iface->config.eth,
                                 .type = is_ipv6 ? ETH_TYPE_IPV6 : ETH_TYPE_IPV4};
        at = eth_header_emit(&eth, buf);
    }
    return at + (is_ipv6 ? emit_ipv6(h, buf + at) : emit_ipv4(h, iface->ipv4_id++, buf + at));
}

void iface_send_frame(struct net_iface *iface, const struct iovec *iov, unsigned count,
                      bool is_ipv6)
{
    struct net_frame frame = {.iov = iov, .iov_count = count, .is_ipv6 = is_ipv6};
    iface->counters.frames_out += iface->config.port.send(iface->config.port.ctx, &frame);
}

void iface_send_message(struct net_iface *iface, const struct net_flow *flow, uint8_t hops,
                        struct span header, struct span body, const struct eth_addr *to)
{
    uint8_t headers[IFACE_HEADERS_MAX];
    bool is_ipv6 = !net_addr_is_ipv4(&flow->local);
    struct iface_headers h = {.flow = flow,
                              .protocol = is_ipv6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_ICMP,
                              .hops = hops,
                              .body_len = header.len + body.len,
                              .to = to};
    size_t len = iface_headers_emit(iface, &h, headers);
    const struct iovec iov[] = {
        {.iov_base = headers, .iov_len = len},
        {.iov_base = (void *)(uintptr_t)header.ptr, .iov_len = header.len},
        {.iov_base = (void *)(uintptr_t)body.ptr, .iov_len = body.len},
    };
    iface_send_frame(iface, iov, 3, is_ipv6);
}

/* ---- segments -------------------------------------------------------------------------------- */

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
