#include "link/pcap/packet.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { HOPS = 64 };

static size_t ip_emit(const struct net_flow *flow, enum ip_ecn ecn, uint16_t id, size_t len,
                      uint8_t *buf)
{
    if (!net_addr_is_ipv4(&flow->local)) {
        struct ipv6_header h = {.traffic_class = ecn,
                                .payload_len = (uint16_t)len,
                                .next_header = IP_PROTOCOL_TCP,
                                .hop_limit = HOPS};
        memcpy(h.src, flow->local.octets, sizeof h.src);
        memcpy(h.dst, flow->remote.octets, sizeof h.dst);
        return ipv6_header_emit(&h, buf);
    }
    struct ipv4_header h = {.tos = ecn,
                            .total_len = (uint16_t)(IPV4_HEADER_LEN + len),
                            .id = id,
                            .ttl = HOPS,
                            .protocol = IP_PROTOCOL_TCP};
    memcpy(h.src, net_addr_ipv4(&flow->local), sizeof h.src);
    memcpy(h.dst, net_addr_ipv4(&flow->remote), sizeof h.dst);
    return ipv4_header_emit(&h, buf);
}

void pcap_packet_put(struct pcap_file *f, const struct net_flow *flow, enum ip_ecn ecn, uint16_t id,
                     const struct net_segment *segment)
{
    uint8_t ip[PCAP_IP_HEADER_MAX], header[TCP_HEADER_MAX_LEN];
    struct iovec iov[1 + NET_SEGMENT_IOV_MAX];
    struct net_segment recorded = {
        .iov = iov + 1, .iov_count = segment->iov_count, .len = segment->len};
    memcpy(iov + 1, segment->iov, segment->iov_count * sizeof *iov);
    memcpy(header, iov[1].iov_base, iov[1].iov_len);
    iov[1].iov_base = header; // the segment's own is still to be sent
    uint64_t sum = net_flow_pseudo_sum(flow, IP_PROTOCOL_TCP, segment->len);
    put_be16(header + TCP_OFF_CHECKSUM, 0);
    put_be16(header + TCP_OFF_CHECKSUM, net_segment_checksum(&recorded, sum));
    iov[0] = (struct iovec){ip, ip_emit(flow, ecn, id, segment->len, ip)};
    pcap_file_put(f, iov, 1 + segment->iov_count);
}
