#include "rdmap/rx.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/sge.h"
#include "ddp/verdict.h"
#include "mem/table.h"
#include "wire/ddp.h"

static bool is_opcode_allowed(const struct rdmap_stream *stream, uint8_t opcode)
{
    return rdmap_opcode_facts(opcode)->is_known &&
           (opcode != RDMAP_EXTENSION || stream->extensions_may_come);
}

// The message must be one segment of exactly the length that its opcode fixes.
static enum rdmap_refusal check_fixed_len(const struct ddp_segment *s, uint32_t fixed_len)
{
    if (s->header.mo + s->payload.len > fixed_len) {
        return RDMAP_REFUSED_OVERLONG;
    }
    return s->payload.len < fixed_len || !s->header.last ? RDMAP_REFUSED_TRUNCATED : RDMAP_ACCEPTED;
}

// What the control word says where one-shot RDMA is agreed.
static enum rdmap_refusal read_mark(const struct rdmap_stream *stream, const struct ddp_header *h,
                                    struct oneshot_send *ret)
{
    static const enum rdmap_refusal refusals[] = {
        [ONESHOT_OK] = RDMAP_ACCEPTED,
        [ONESHOT_BOTH] = RDMAP_REFUSED_ONESHOT_BOTH,
        [ONESHOT_STAG_TAKEN] = RDMAP_REFUSED_ONESHOT_STAG_TAKEN,
        [ONESHOT_UNAGREED] = RDMAP_REFUSED_ONESHOT_UNAGREED,
        [ONESHOT_RFC7306] = RDMAP_REFUSED_OPCODE,
    };
    if (rdmap_control_version(h->rsvdulp) != RDMAP_VERSION) {
        return RDMAP_REFUSED_VERSION;
    }
    return refusals[oneshot_read(stream->oneshot, h, ret)];
}

static enum rdmap_refusal check_opcode(const struct rdmap_stream *stream, uint8_t opcode,
                                       const struct ddp_segment *s)
{
    const struct ddp_header *h = &s->header;
    if (!is_opcode_allowed(stream, opcode)) {
        return RDMAP_REFUSED_OPCODE;
    }
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
    if (facts->is_tagged != h->tagged) {
        return RDMAP_REFUSED_OPCODE_LAYOUT;
    }
    if (!h->tagged && facts->qn != h->qn) {
        return RDMAP_REFUSED_OPCODE_QUEUE;
    }
    return facts->fixed_len > 0 ? check_fixed_len(s, facts->fixed_len) : RDMAP_ACCEPTED;
}

// RFC 7306 section 6.2: eight octets, of which the verbs know four; they come first.
static void read_immediate(const struct rdmap_stream *stream, struct rdmap_arrival *a)
{
    const struct ddp_header *h = &a->segment.header;
    if (a->opcode == RDMAP_IMMEDIATE || a->opcode == RDMAP_IMMEDIATE_SE) {
        a->has_immediate = true;
        a->immediate = htobe32(get_be32(a->payload.ptr));
        a->written_len = get_be32(a->payload.ptr + sizeof a->immediate);
    } else if ((a->opcode == RDMAP_SEND || a->opcode == RDMAP_SEND_SE) &&
               stream->extensions_agreed && (h->rsvd & EXTENSION_RSVD_IMMEDIATE) != 0) {
        a->has_immediate = true;
        a->immediate = htobe32(h->rsvdulp_stag);
    }
}

// The segment of `ret` stands where it may.
static enum rdmap_refusal check_operation(const struct rdmap_stream *stream,
                                          struct rdmap_arrival *ret)
{
    struct ddp_segment *s = &ret->segment;
    const struct ddp_header *h = &s->header;
    struct oneshot_send send;
    enum rdmap_refusal refusal = read_mark(stream, h, &send);
    if (refusal == RDMAP_ACCEPTED) {
        refusal = check_opcode(stream, (uint8_t)send.opcode, s);
    }
    if (refusal != RDMAP_ACCEPTED) {
        return refusal;
    }
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts((uint8_t)send.opcode);
    ret->opcode = send.opcode;
    ret->mark = send.mark;
    ret->is_first = !h->tagged && h->mo == 0;
    ret->is_last = h->last;
    ret->is_solicited = facts->solicits;
    ret->invalidates = facts->invalidates;
    ret->send_stag = h->rsvdulp_stag;
    ret->msn = h->msn;
    ret->mo = h->mo;
    ret->stag = h->stag;
    ret->to = h->to;
    ret->written_len = 0;
    ret->payload = s->payload;
    ret->has_immediate = ret->has_reference = false;
    ret->immediate = 0;
    ret->reference = 0;
    read_immediate(stream, ret);
    return RDMAP_ACCEPTED;
}

// The extension message has a queue of its own, which an RFC peer does not know.
static uint32_t queue_count(const struct rdmap_stream *stream)
{
    return stream->extensions_may_come ? DDP_QN_COUNT : DDP_QN_EXTENSION;
}

enum rdmap_refusal rdmap_rx_check(const struct rdmap_stream *stream, struct span ulpdu,
                                  struct rdmap_arrival *ret)
{
    struct ddp_segment *s = &ret->segment;
    enum ddp_verdict verdict = ddp_segment_parse(ulpdu, s);
    if (verdict == DDP_OK && !s->header.tagged) {
        verdict = ddp_untagged_check(stream->rx, queue_count(stream), s);
    }
    return verdict != DDP_OK ? rdmap_refusal_of_ddp(verdict) : check_operation(stream, ret);
}

enum rdmap_refusal rdmap_rx_check_early(const struct rdmap_stream *stream, struct span ulpdu,
                                        struct rdmap_arrival *ret)
{
    struct ddp_segment *s = &ret->segment;
    enum ddp_verdict verdict = ddp_segment_parse(ulpdu, s);
    if (verdict == DDP_OK && !s->header.tagged) {
        verdict = ddp_untagged_check_early(stream->rx, queue_count(stream), s);
    }
    return verdict != DDP_OK ? rdmap_refusal_of_ddp(verdict) : check_operation(stream, ret);
}

void rdmap_rx_accept(struct rdmap_stream *stream, struct rdmap_arrival *a)
{
    if (a->opcode == RDMAP_WRITE) {
        stream->written_len = a->payload.len + (stream->is_write_open ? stream->written_len : 0);
        stream->is_write_open = !a->is_last;
    }
    if (a->segment.header.tagged) {
        return;
    }
    ddp_untagged_accept(stream->rx, &a->segment);
    if (a->segment.header.qn == DDP_QN_SEND && a->is_last) {
        if (!stream->extensions_agreed) { // else the message says it
            a->written_len = stream->written_len;
        }
        stream->written_len = 0;
    }
}

enum rdmap_refusal rdmap_place_write(struct rdmap_stream *stream, const struct rdmap_arrival *a)
{
    return rdmap_refusal_of_ddp(ddp_place_tagged(stream->mem, stream->asker, a->stag, a->to,
                                                 a->payload, MEM_ACCESS_REMOTE_WRITE));
}

enum rdmap_refusal rdmap_place_response(struct rdmap_stream *stream, const struct rdmap_arrival *a,
                                        const struct rdmap_expected_response *expected)
{
    uint32_t left = expected->length - expected->arrived_len;
    bool is_empty = a->payload.len == 0; // nothing is looked up for it (RFC 5041 section 5.2)
    if (!is_empty && a->stag != expected->sink_stag) {
        return RDMAP_REFUSED_RESPONSE_STAG;
    }
    if (!is_empty && a->to != expected->sink_to + expected->arrived_len) {
        return RDMAP_REFUSED_RESPONSE_TO;
    }
    if (a->payload.len > left) {
        return RDMAP_REFUSED_RESPONSE_LENGTH;
    }
    if (a->is_last && a->payload.len < left && expected->least_len == expected->length) {
        return RDMAP_REFUSED_RESPONSE_LAST;
    }
    if (a->is_last && expected->arrived_len + a->payload.len < expected->least_len) {
        return RDMAP_REFUSED_RESPONSE_SHORT;
    }
    enum ddp_verdict verdict =
        ddp_place_sink(stream->mem, stream->asker, a->stag, a->to, a->payload);
    return verdict == DDP_REFUSED_LOCAL ? RDMAP_REFUSED_SINK_LOCAL : rdmap_refusal_of_ddp(verdict);
}

enum rdmap_refusal rdmap_request_memory(const struct rdmap_stream *stream, uint32_t stag,
                                        uint64_t to, uint64_t len, struct mspan *ret_pieces,
                                        unsigned *ret_count)
{
    return rdmap_refusal_of_request(mem_resolve(stream->mem, stream->asker, stag, to, len,
                                                MEM_ACCESS_REMOTE_READ, ret_pieces, SGE_COUNT_MAX,
                                                ret_count));
}

enum rdmap_refusal rdmap_invalidate(const struct rdmap_stream *stream, uint32_t stag)
{
    return rdmap_refusal_of_invalidate(mem_invalidate(stream->mem, stream->asker, stag, true));
}

struct rdmap_read_request rdmap_read_request_of(const struct rdmap_arrival *a)
{
    struct rdmap_read_request request;
    enum rdmap_parse_verdict verdict = rdmap_read_request_parse(a->payload, &request);
    CHECK(verdict == RDMAP_PARSE_OK);
    return request;
}

struct rdmap_atomic_request rdmap_atomic_request_of(const struct rdmap_arrival *a)
{
    struct rdmap_atomic_request request;
    enum rdmap_parse_verdict verdict = rdmap_atomic_request_parse(a->payload, &request);
    CHECK(verdict == RDMAP_PARSE_OK);
    return request;
}

struct rdmap_atomic_response rdmap_atomic_response_of(const struct rdmap_arrival *a)
{
    struct rdmap_atomic_response response;
    enum rdmap_parse_verdict verdict = rdmap_atomic_response_parse(a->payload, &response);
    CHECK(verdict == RDMAP_PARSE_OK);
    return response;
}

bool rdmap_extension_of(const struct rdmap_arrival *a, struct extension_message *ret)
{
    return extension_message_parse(a->payload, ret) == EXTENSION_MESSAGE_OK;
}
