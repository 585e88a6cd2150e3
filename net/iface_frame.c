// Frames that leave an interface: their headers, and small messages whole.

#include <string.h>

#include "net/addr.h"
#include "net/iface_internal.h"
#include "wire/eth.h"
#include "wire/ip.h"

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

size_t iface_headers_emit(struct net_iface *iface, const struct iface_headers *h, uint8_t *end)
{
    bool is_ipv6 = !net_addr_is_ipv4(&h->flow->local);
    size_t len = is_ipv6 ? emit_ipv6(h, end - IPV6_HEADER_LEN)
                         : emit_ipv4(h, iface->ipv4_id++, end - IPV4_HEADER_LEN);
    if (iface->config.has_ethernet) {
        struct eth_header eth = {.dst = *h->to,
                                 .src = iface->config.eth,
                                 .type = is_ipv6 ? ETH_TYPE_IPV6 : ETH_TYPE_IPV4};
        len += ETH_HEADER_LEN;
        eth_header_emit(&eth, end - len);
    }
    return len;
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
    uint8_t *end = headers + sizeof headers;
    size_t len = iface_headers_emit(iface, &h, end);
    const struct iovec iov[] = {
        {.iov_base = end - len, .iov_len = len},
        {.iov_base = (void *)(uintptr_t)header.ptr, .iov_len = header.len},
        {.iov_base = (void *)(uintptr_t)body.ptr, .iov_len = body.len},
    };
    iface_send_frame(iface, iov, 3, is_ipv6);
}
