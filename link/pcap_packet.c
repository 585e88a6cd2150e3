#include "link/pcap_packet.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { HOPS = 64 };

static size_t ip_emit(const struct net_flow *flow, uint16_t id, size_t len, uint8_t *buf)
{
    if (!net_addr_is_ipv4(&flow->local)) {
        struct ipv6_header h = {
            .payload_len = (uint16_t)len, .next_header = IP_PROTOCOL_TCP, .hop_limit = HOPS};
        memcpy(h.src, flow->local.octets, sizeof h.src);
        memcpy(h.dst, flow->remote.octets, sizeof h.dst);
        return ipv6_header_emit(&h, buf);
    }
    struct ipv4_header h = {.total_len = (uint16_t)(IPV4_HEADER_LEN + len),
                            .id = id,
                            .ttl = HOPS,
                            .protocol = IP_PROTOCOL_TCP};
    memcpy(h.src, net_addr_ipv4(&flow->local), sizeof h.src);
    memcpy(h.dst, net_addr_ipv4(&flow->remote), sizeof h.dst);
    return ipv4_header_emit(&h, buf);
}

void pcap_packet_put(struct pcap_file *f, const struct net_flow *flow, uint16_t id,
                     struct mspan header, const struct net_piece *piece)
{
    uint8_t ip[PCAP_IP_HEADER_MAX];
    struct iovec iov[TCP_BATCH_IOV_MAX + 2];
    size_t len = header.len + piece->payload_len;
    uint64_t sum = net_flow_pseudo_sum(flow, IP_PROTOCOL_TCP, (uint32_t)len);
    put_be16(header.ptr + TCP_OFF_CHECKSUM, 0);
    put_be16(header.ptr + TCP_OFF_CHECKSUM, net_piece_checksum(piece, mspan_read(header), sum));
    iov[0] = (struct iovec){ip, ip_emit(flow, id, len, ip)};
    iov[1] = (struct iovec){header.ptr, header.len};
    memcpy(iov + 2, piece->iov, piece->iov_count * sizeof *piece->iov);
    pcap_file_put(f, iov, 2 + piece->iov_count);
}
