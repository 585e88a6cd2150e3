#include "rdmap/terminate.h"

#include <string.h>

#include "wire/ddp.h"
#include "wire/rdmap.h"

static void take_header(struct rdmap_offender *offender, const uint8_t *ddp_header, size_t len,
                        struct span payload)
{
    offender->has_ddp = true;
    offender->ddp_header_len = len;
    memcpy(offender->ddp_header, ddp_header, len);
    bool is_tagged = len == DDP_TAGGED_HEADER_LEN;
    uint8_t opcode = rdmap_control_opcode(ddp_header[DDP_OFF_RSVDULP]);
    if (!is_tagged && opcode == RDMAP_READ_REQUEST && payload.len >= RDMAP_READ_REQUEST_LEN) {
        offender->has_read_request = true;
        memcpy(offender->read_request, payload.ptr, RDMAP_READ_REQUEST_LEN);
    }
}

struct rdmap_offender rdmap_offender_of(struct span ulpdu)
{
    struct rdmap_offender offender = {.segment_len = (uint16_t)ulpdu.len};
    if (ulpdu.len == 0) {
        return offender;
    }
    bool is_tagged = (ulpdu.ptr[DDP_OFF_CONTROL] & DDP_TAGGED) != 0;
    size_t header_len = is_tagged ? DDP_TAGGED_HEADER_LEN : DDP_UNTAGGED_HEADER_LEN;
    if (ulpdu.len >= header_len) {
        take_header(&offender, ulpdu.ptr, header_len, span_skip(ulpdu, header_len));
    }
    return offender;
}

struct rdmap_offender rdmap_offender_of_segment(const struct ddp_segment *segment)
{
    uint8_t header[DDP_HEADER_MAX_LEN];
    size_t header_len = ddp_header_emit(&segment->header, header);
    struct rdmap_offender offender = {
        .segment_len = (uint16_t)(header_len + segment->payload.len),
    };
    take_header(&offender, header, header_len, segment->payload);
    return offender;
}

void rdmap_offender_advance(struct rdmap_offender *offender, uint32_t answered_len)
{
    struct rdmap_read_request request;
    struct span header = span_of(offender->read_request, RDMAP_READ_REQUEST_LEN);
    if (!offender->has_read_request ||
        rdmap_read_request_parse(header, &request) != RDMAP_PARSE_OK) {
        return;
    }
    request.sink_to += answered_len;
    request.src_to += answered_len;
    request.rdmardsz -= answered_len;
    rdmap_read_request_emit(&request, offender->read_request);
}

struct terminate rdmap_terminate_make(enum terminate_cause cause,
                                      const struct rdmap_offender *offender)
{
    struct terminate t = terminate_of(cause);
    const struct terminate_cause_facts *facts = terminate_cause_facts(cause);
    if (offender == NULL || !offender->has_ddp || !facts->takes_ddp) {
        return t;
    }
    t.has_len = true;
    t.has_ddp = true;
    t.ddp_segment_len = offender->segment_len;
    t.ddp_header_len = offender->ddp_header_len;
    memcpy(t.ddp_header, offender->ddp_header, offender->ddp_header_len);
    if (facts->takes_rdmap && offender->has_read_request) {
        t.has_rdmap = true;
        memcpy(t.read_request, offender->read_request, RDMAP_READ_REQUEST_LEN);
    }
    return t;
}

struct rdmap_terminate_read rdmap_terminate_read(struct span message, bool peer_is_siw)
{
    struct rdmap_terminate_read read = {.is_siw = peer_is_siw};
    terminate_parse(message, TERMINATE_ORDER_RFC, &read.rfc);
    terminate_parse(message, TERMINATE_ORDER_SIW, &read.siw);
    if (message.len >= TERMINATE_MIN_LEN) {
        const struct terminate *t = peer_is_siw ? &read.siw : &read.rfc;
        read.cause = terminate_cause_find(t->layer, t->etype, t->code);
    }
    return read;
}

struct rdmap_culprit rdmap_terminate_culprit(const struct terminate *t)
{
    struct rdmap_culprit culprit = {.kind = RDMAP_CULPRIT_UNKNOWN};
    struct ddp_header h;
    size_t len;
    if (!t->has_ddp ||
        ddp_header_parse(span_of(t->ddp_header, t->ddp_header_len), &h, &len) != DDP_PARSE_OK) {
        return culprit;
    }
    culprit.msn = h.msn;
    culprit.stag = h.stag;
    culprit.to = h.to;
    if (h.tagged) {
        culprit.kind = rdmap_control_opcode(h.rsvdulp) == RDMAP_WRITE ? RDMAP_CULPRIT_WRITE
                                                                      : RDMAP_CULPRIT_UNKNOWN;
    } else if (h.qn == DDP_QN_SEND) {
        culprit.kind = RDMAP_CULPRIT_SEND;
    } else if (h.qn == DDP_QN_READ_REQUEST) {
        culprit.kind = RDMAP_CULPRIT_REQUEST;
    }
    return culprit;
}
