#include "net/segment.h"

#include <string.h>

#include "wire/ip.h"

// Behind an odd number of octets the halves of the words change places (RFC 1071 section 2 (B)).
uint16_t net_segment_checksum(const struct net_segment *s, uint64_t pseudo_sum)
{
    uint64_t sum = inet_sum_add(pseudo_sum, mspan_read(net_segment_header(s)));
    size_t len = 0;
    for (unsigned i = 1; i < s->iov_count; i++) {
        struct span octets = span_of(s->iov[i].iov_base, s->iov[i].iov_len);
        uint16_t part = (uint16_t)~inet_sum_fold(inet_sum_add(0, octets));
        sum += len % 2 == 0 ? part : (uint16_t)(part << 8 | part >> 8);
        len += octets.len;
    }
    return inet_sum_fold(sum);
}

bool net_segment_is_good(const struct net_transport *transport, const struct net_flow *flow,
                         struct span octets)
{
    struct net_flow turned = net_flow_turned(flow);
    uint64_t sum = net_flow_pseudo_sum(&turned, transport->protocol, (uint32_t)octets.len);
    return inet_sum_fold(inet_sum_add(sum, octets)) == 0;
}

void net_segment_copy(const struct net_segment *s, uint8_t *buf)
{
    for (unsigned i = 0; i < s->iov_count; i++) {
        memcpy(buf, s->iov[i].iov_base, s->iov[i].iov_len);
        buf += s->iov[i].iov_len;
    }
}
