#include "ddp/rx.h"

#include <string.h>

#include "base/serial.h"

// The header is copied out before it is looked at: where another process can write to the octets,
// each of them must be read once.
enum ddp_verdict ddp_segment_parse(struct span ulpdu, struct ddp_segment *ret)
{
    size_t header_len;
    uint8_t header[DDP_HEADER_MAX_LEN];
    size_t len = ulpdu.len < sizeof header ? ulpdu.len : sizeof header;
    memcpy(header, ulpdu.ptr, len);
    __asm__("" : "+m"(header)); // the copy is made, and what follows is its
    switch (ddp_header_parse(span_of(header, len), &ret->header, &header_len)) {
    case DDP_PARSE_OK:
        ret->payload = span_skip(ulpdu, header_len);
        return DDP_OK;
    case DDP_PARSE_VERSION_TAGGED:
        return DDP_REFUSED_TAGGED_VERSION;
    case DDP_PARSE_VERSION_UNTAGGED:
        return DDP_REFUSED_UNTAGGED_VERSION;
    case DDP_PARSE_TOO_SHORT:
        break;
    }
    return DDP_REFUSED_TOO_SHORT;
}

void ddp_untagged_queue_init(struct ddp_untagged_queue *queue)
{
    *queue = (struct ddp_untagged_queue){.msn = DDP_FIRST_MSN};
}

enum ddp_verdict ddp_untagged_check(const struct ddp_untagged_queue *queues, uint32_t queue_count,
                                    const struct ddp_segment *segment)
{
    const struct ddp_header *h = &segment->header;
    if (h->qn >= queue_count) {
        return DDP_REFUSED_QN;
    }
    if (h->msn != queues[h->qn].msn) {
        return DDP_REFUSED_MSN_RANGE;
    }
    return h->mo == queues[h->qn].mo ? DDP_OK : DDP_REFUSED_MO;
}

enum ddp_verdict ddp_untagged_check_early(const struct ddp_untagged_queue *queues,
                                          uint32_t queue_count, const struct ddp_segment *segment)
{
    const struct ddp_header *h = &segment->header;
    if (h->qn >= queue_count) {
        return DDP_REFUSED_QN;
    }
    const struct ddp_untagged_queue *queue = &queues[h->qn];
    if (serial_before(h->msn, queue->msn)) {
        return DDP_REFUSED_MSN_RANGE;
    }
    return h->msn == queue->msn && h->mo < queue->mo ? DDP_REFUSED_MO : DDP_OK;
}

void ddp_untagged_accept(struct ddp_untagged_queue *queues, const struct ddp_segment *segment)
{
    struct ddp_untagged_queue *queue = &queues[segment->header.qn];
    if (segment->header.last) {
        queue->msn++;
        queue->mo = 0;
    } else {
        queue->mo += segment->payload.len;
    }
}
