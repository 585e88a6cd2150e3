#include "link/pcap/packet.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { HOPS = 64 };

void pcap_packet_put(struct pcap_file *f, const struct net_flow *flow, enum ip_ecn ecn, uint16_t id,
                     const struct net_segment *segment)
{
    const struct net_packet packet = {.tos = ecn,
                                      .protocol = IP_PROTOCOL_TCP,
                                      .hops = HOPS,
                                      .ipv4_id = id,
                                      .body_len = segment->len};
    uint8_t ip[NET_IP_HEADER_MAX], header[TCP_HEADER_MAX_LEN];
    struct iovec iov[1 + NET_SEGMENT_IOV_MAX];
    struct net_segment recorded = {
        .iov = iov + 1, .iov_count = segment->iov_count, .len = segment->len};
    memcpy(iov + 1, segment->iov, segment->iov_count * sizeof *iov);
    memcpy(header, iov[1].iov_base, iov[1].iov_len);
    iov[1].iov_base = header; // the segment's own is still to be sent
    uint64_t sum = net_flow_pseudo_sum(flow, IP_PROTOCOL_TCP, segment->len);
    put_be16(header + TCP_OFF_CHECKSUM, 0);
    put_be16(header + TCP_OFF_CHECKSUM, net_segment_checksum(&recorded, sum));
    iov[0] = (struct iovec){ip, net_flow_ip_emit(flow, &packet, ip)};
    pcap_file_put(f, iov, 1 + segment->iov_count);
}
