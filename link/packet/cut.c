#include "link/packet/cut.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/ip.h"
#include "wire/tcp.h"

STATIC_CHECK((int)TCP_BATCH_IOV_MAX + 1 <= (int)NET_SEGMENT_IOV_MAX);
STATIC_CHECK((int)TCP_OFF_ACK <= (int)NET_QUOTED_LEN);
STATIC_CHECK((NET_HEADROOM + TCP_HEADER_MAX_LEN + 4) % 8 == 0);

const struct net_transport packet_transport = {
    .protocol = IP_PROTOCOL_TCP, .checksum_off = TCP_OFF_CHECKSUM, .header_len = TCP_HEADER_LEN};

// Where the payload is cut next: behind so many octets of this element.
struct payload {
    const struct iovec *from;
    size_t skip;
};

// The next `len` octets; returns the end of the elements that they stand in.
static struct iovec *payload_take(struct payload *p, size_t len, struct iovec *to)
{
    while (len > 0) {
        size_t left = p->from->iov_len - p->skip;
        size_t taken = left < len ? left : len;
        if (taken > 0) {
            *to++ = (struct iovec){(uint8_t *)p->from->iov_base + p->skip, taken};
        }
        p->skip += taken;
        if (taken == left) {
            p->from++;
            p->skip = 0;
        }
        len -= taken;
    }
    return to;
}

static uint8_t *header_of(struct packet_cut *cut, unsigned i)
{
    return cut->headers[i] + NET_HEADROOM;
}

// The first header is that of all, but for the sequence number, and for FIN and PSH, which only the
// end of the batch says.
static void headers_put(struct packet_cut *cut, const struct tcp_batch *batch, unsigned count,
                        size_t len)
{
    for (unsigned i = 1; i < count; i++) {
        memcpy(header_of(cut, i), header_of(cut, 0), len);
        put_be32(header_of(cut, i) + TCP_OFF_SEQ, batch->header.seq + i * batch->segment_len);
    }
    for (unsigned i = 0; i + 1 < count; i++) {
        header_of(cut, i)[TCP_OFF_FLAGS] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    }
}

const struct net_segments *packet_cut(struct packet_cut *cut, const struct tcp_batch *batch,
                                      bool as_run)
{
    unsigned count = as_run ? 1 : batch->segment_count;
    uint32_t header_len = (uint32_t)tcp_header_emit(&batch->header, header_of(cut, 0));
    struct payload payload = {.from = batch->iov};
    struct iovec *iov = cut->iov;
    uint32_t left = batch->payload_len;
    headers_put(cut, batch, count, header_len);
    for (unsigned i = 0; i < count; i++) {
        uint32_t len = i + 1 == count ? left : batch->segment_len;
        struct net_segment *s = &cut->segments[i];
        *iov = (struct iovec){header_of(cut, i), header_len};
        s->iov = iov;
        iov = payload_take(&payload, len, iov + 1);
        s->iov_count = (unsigned)(iov - s->iov);
        s->len = header_len + len;
        s->part_count = as_run ? batch->segment_count : 1;
        s->part_len = as_run ? batch->segment_len : len;
        left -= len;
    }
    cut->all = (struct net_segments){&packet_transport, cut->segments, count, batch->ecn};
    return &cut->all;
}

uint16_t packet_mss(uint32_t len)
{
    return (uint16_t)(len < TCP_HEADER_LEN + TCP_MSS_MIN ? TCP_MSS_MIN : len - TCP_HEADER_LEN);
}
