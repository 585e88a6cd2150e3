#include "net/cut.h"

#include "base/check.h"
#include "wire/ip.h"

void net_cut_init(struct net_cut *cut, const struct tcp_batch *batch)
{
    *cut = (struct net_cut){.batch = batch, .iov = batch->iov};
}

static void take(struct net_cut *cut, size_t len, struct net_piece *ret)
{
    while (len > 0) {
        size_t left = cut->iov->iov_len - cut->skip;
        size_t taken = left < len ? left : len;
        if (left == 0) {
            cut->iov++;
            cut->skip = 0;
            continue;
        }
        CHECK(ret->iov_count < TCP_BATCH_IOV_MAX);
        ret->iov[ret->iov_count++] =
            (struct iovec){(uint8_t *)cut->iov->iov_base + cut->skip, taken};
        cut->skip += taken;
        len -= taken;
    }
}

bool net_cut_next(struct net_cut *cut, unsigned count, struct net_piece *ret)
{
    const struct tcp_batch *b = cut->batch;
    unsigned left = b->segment_count - cut->next;
    bool is_last = count >= left;
    if (left == 0) {
        return false;
    }
    uint32_t at = cut->next * b->segment_len;
    ret->segment_count = is_last ? left : count;
    ret->payload_len = is_last ? b->payload_len - at : (size_t)count * b->segment_len;
    ret->iov_count = 0;
    ret->header = b->header;
    ret->header.seq += at;
    if (!is_last) { // the end of the batch says them
        ret->header.flags &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    }
    take(cut, ret->payload_len, ret);
    cut->next += ret->segment_count;
    return true;
}

struct tcp_batch net_piece_batch(const struct net_piece *piece, const struct tcp_batch *of)
{
    return (struct tcp_batch){.header = piece->header,
                              .reason = of->reason,
                              .segment_count = piece->segment_count,
                              .segment_len = of->segment_len,
                              .payload_len = (uint32_t)piece->payload_len,
                              .iov = piece->iov,
                              .iov_count = piece->iov_count};
}

// Behind an odd number of octets the halves of the words change places (RFC 1071 section 2 (B)).
uint16_t net_piece_checksum(const struct net_piece *piece, struct span header, uint64_t pseudo_sum)
{
    uint64_t sum = inet_sum_add(pseudo_sum, header);
    size_t len = 0;
    for (unsigned i = 0; i < piece->iov_count; i++) {
        struct span octets = span_of(piece->iov[i].iov_base, piece->iov[i].iov_len);
        uint16_t part = (uint16_t)~inet_sum_fold(inet_sum_add(0, octets));
        sum += len % 2 == 0 ? part : (uint16_t)(part << 8 | part >> 8);
        len += octets.len;
    }
    return inet_sum_fold(sum);
}
