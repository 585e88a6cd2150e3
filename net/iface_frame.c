// Frames that leave an interface: their headers, and small messages whole.

#include "net/addr.h"
#include "net/iface_internal.h"
#include "wire/eth.h"
#include "wire/ip.h"

// RFC 1112 section 6.4, RFC 2464 section 7. All hosts of a network hear its broadcasts.
struct eth_addr iface_eth_of_group(const struct net_addr *group)
{
    const uint8_t *g = group->octets + IPV6_ADDR_LEN - IPV4_ADDR_LEN;
    if (!net_addr_is_ipv4(group)) {
        return (struct eth_addr){{0x33, 0x33, g[0], g[1], g[2], g[3]}};
    }
    if (g[0] == 0xff) {
        return (struct eth_addr){{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    }
    return (struct eth_addr){{0x01, 0x00, 0x5e, g[1] & 0x7f, g[2], g[3]}};
}

size_t iface_headers_emit(struct net_iface *iface, const struct iface_headers *h, uint8_t *end)
{
    bool is_ipv6 = !net_addr_is_ipv4(&h->flow->local);
    struct net_packet packet = {.tos = h->tos,
                                .protocol = h->protocol,
                                .hops = h->hops,
                                .ipv4_id = is_ipv6 ? 0 : iface->ipv4_id++,
                                .body_len = h->body_len,
                                .has_alert = h->has_alert};
    size_t len = is_ipv6 ? IPV6_HEADER_LEN + (h->has_alert ? IPV6_ALERT_LEN : 0)
                         : IPV4_HEADER_LEN + (h->has_alert ? IPV4_ALERT_LEN : 0);
    net_flow_ip_emit(h->flow, &packet, end - len);
    if (iface->config.has_ethernet) {
        struct eth_header eth = {.dst = *h->to,
                                 .src = iface->config.eth,
                                 .type = is_ipv6 ? ETH_TYPE_IPV6 : ETH_TYPE_IPV4};
        len += ETH_HEADER_LEN;
        eth_header_emit(&eth, end - len);
    }
    return len;
}

bool iface_send_frame(struct net_iface *iface, const struct iovec *iov, unsigned count,
                      bool is_ipv6)
{
    struct net_frame frame = {.iov = iov, .iov_count = count, .is_ipv6 = is_ipv6};
    const bool is_sent = iface->config.port.send(iface->config.port.ctx, &frame);
    iface->counters.frames_out += is_sent;
    return is_sent;
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
    uint8_t *end = headers + sizeof headers;
    size_t len = iface_headers_emit(iface, &h, end);
    const struct iovec iov[] = {
        {.iov_base = end - len, .iov_len = len},
        {.iov_base = (void *)(uintptr_t)header.ptr, .iov_len = header.len},
        {.iov_base = (void *)(uintptr_t)body.ptr, .iov_len = body.len},
    };
    iface_send_frame(iface, iov, 3, is_ipv6);
}
