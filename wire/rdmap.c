#include "wire/rdmap.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "wire/ddp.h"
#include "wire/extension.h"

static const struct rdmap_opcode_facts facts_of_opcode[RDMAP_OPCODE_COUNT] = {
    [RDMAP_WRITE] = {"RDMA Write", .is_known = true, .is_tagged = true, .carries_payload = true},
    [RDMAP_READ_REQUEST] = {"RDMA Read Request", .is_known = true, .qn = DDP_QN_READ_REQUEST,
                            .fixed_len = RDMAP_READ_REQUEST_LEN},
    [RDMAP_READ_RESPONSE] = {"RDMA Read Response", .is_known = true, .is_tagged = true,
                             .carries_payload = true},
    [RDMAP_SEND] = {"Send", .is_known = true, .carries_payload = true, .qn = DDP_QN_SEND},
    [RDMAP_SEND_INV] = {"Send with Invalidate", .is_known = true, .carries_payload = true,
                        .invalidates = true, .qn = DDP_QN_SEND},
    [RDMAP_SEND_SE] = {"Send with SE", .is_known = true, .carries_payload = true, .solicits = true,
                       .qn = DDP_QN_SEND},
    [RDMAP_SEND_SE_INV] = {"Send with SE and Invalidate", .is_known = true, .carries_payload = true,
                           .invalidates = true, .solicits = true, .qn = DDP_QN_SEND},
    [RDMAP_TERMINATE] = {"Terminate", .is_known = true, .qn = DDP_QN_TERMINATE},
    [RDMAP_IMMEDIATE] = {"Immediate Data", .is_known = true, .qn = DDP_QN_SEND,
                         .fixed_len = RDMAP_IMMEDIATE_LEN},
    [RDMAP_IMMEDIATE_SE] = {"Immediate Data with SE", .is_known = true, .solicits = true,
                            .qn = DDP_QN_SEND, .fixed_len = RDMAP_IMMEDIATE_LEN},
    [RDMAP_ATOMIC_REQUEST] = {"Atomic Request", .is_known = true, .qn = DDP_QN_READ_REQUEST,
                              .fixed_len = RDMAP_ATOMIC_REQUEST_LEN},
    [RDMAP_ATOMIC_RESPONSE] = {"Atomic Response", .is_known = true, .qn = DDP_QN_ATOMIC_RESPONSE,
                               .fixed_len = RDMAP_ATOMIC_RESPONSE_LEN},
    [0xC] = {"Reserved"},
    [0xD] = {"Reserved"},
    [RDMAP_EXTENSION] = {"Extension", .is_known = true, .qn = DDP_QN_EXTENSION,
                         .fixed_len = EXTENSION_MESSAGE_LEN},
    [0xF] = {"Reserved"},
};

const struct rdmap_opcode_facts *rdmap_opcode_facts(uint8_t opcode)
{
    return &facts_of_opcode[opcode & RDMAP_OPCODE_MASK];
}

const char *rdmap_parse_verdict_name(enum rdmap_parse_verdict verdict)
{
    static const char *const names[] = {
        [RDMAP_PARSE_OK] = "ok",
        [RDMAP_PARSE_TOO_SHORT] = "message ends inside the RDMAP header",
        [RDMAP_PARSE_TOO_LONG] = "octets behind an RDMAP header that carries no payload",
    };
    return names[verdict];
}

static enum rdmap_parse_verdict check_exact_len(struct span header, size_t header_len)
{
    if (header.len < header_len) {
        return RDMAP_PARSE_TOO_SHORT;
    }
    return header.len > header_len ? RDMAP_PARSE_TOO_LONG : RDMAP_PARSE_OK;
}

enum rdmap_parse_verdict rdmap_read_request_parse(struct span header,
                                                  struct rdmap_read_request *ret)
{
    enum rdmap_parse_verdict verdict = check_exact_len(header, RDMAP_READ_REQUEST_LEN);
    if (verdict != RDMAP_PARSE_OK) {
        return verdict;
    }
    const uint8_t *p = header.ptr;
    *ret = (struct rdmap_read_request){
        .sink_stag = get_be32(p + RDMAP_READ_REQUEST_OFF_SINK_STAG),
        .sink_to = get_be64(p + RDMAP_READ_REQUEST_OFF_SINK_TO),
        .rdmardsz = get_be32(p + RDMAP_READ_REQUEST_OFF_RDMARDSZ),
        .src_stag = get_be32(p + RDMAP_READ_REQUEST_OFF_SRC_STAG),
        .src_to = get_be64(p + RDMAP_READ_REQUEST_OFF_SRC_TO),
    };
    return RDMAP_PARSE_OK;
}

size_t rdmap_read_request_emit(const struct rdmap_read_request *r, uint8_t *buf)
{
    put_be32(buf + RDMAP_READ_REQUEST_OFF_SINK_STAG, r->sink_stag);
    put_be64(buf + RDMAP_READ_REQUEST_OFF_SINK_TO, r->sink_to);
    put_be32(buf + RDMAP_READ_REQUEST_OFF_RDMARDSZ, r->rdmardsz);
    put_be32(buf + RDMAP_READ_REQUEST_OFF_SRC_STAG, r->src_stag);
    put_be64(buf + RDMAP_READ_REQUEST_OFF_SRC_TO, r->src_to);
    return RDMAP_READ_REQUEST_LEN;
}

const char *rdmap_read_request_format(const struct rdmap_read_request *r, char *buf, size_t len)
{
    snprintf(buf, len,
             "sink_stag=0x%08x sink_to=0x%" PRIx64 " rdmardsz=%u src_stag=0x%08x src_to=0x%" PRIx64,
             r->sink_stag, r->sink_to, r->rdmardsz, r->src_stag, r->src_to);
    return buf;
}

enum rdmap_parse_verdict rdmap_atomic_request_parse(struct span header,
                                                    struct rdmap_atomic_request *ret)
{
    enum rdmap_parse_verdict verdict = check_exact_len(header, RDMAP_ATOMIC_REQUEST_LEN);
    if (verdict != RDMAP_PARSE_OK) {
        return verdict;
    }
    const uint8_t *p = header.ptr;
    *ret = (struct rdmap_atomic_request){
        .opcode = get_be32(p + RDMAP_ATOMIC_REQUEST_OFF_OPCODE) & 0x0f,
        .request_id = get_be32(p + RDMAP_ATOMIC_REQUEST_OFF_REQUEST_ID),
        .stag = get_be32(p + RDMAP_ATOMIC_REQUEST_OFF_STAG),
        .to = get_be64(p + RDMAP_ATOMIC_REQUEST_OFF_TO),
        .add_swap = get_be64(p + RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP),
        .add_swap_mask = get_be64(p + RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP_MASK),
        .compare = get_be64(p + RDMAP_ATOMIC_REQUEST_OFF_COMPARE),
        .compare_mask = get_be64(p + RDMAP_ATOMIC_REQUEST_OFF_COMPARE_MASK),
    };
    return RDMAP_PARSE_OK;
}

size_t rdmap_atomic_request_emit(const struct rdmap_atomic_request *r, uint8_t *buf)
{
    put_be32(buf + RDMAP_ATOMIC_REQUEST_OFF_OPCODE, r->opcode & 0x0f);
    put_be32(buf + RDMAP_ATOMIC_REQUEST_OFF_REQUEST_ID, r->request_id);
    put_be32(buf + RDMAP_ATOMIC_REQUEST_OFF_STAG, r->stag);
    put_be64(buf + RDMAP_ATOMIC_REQUEST_OFF_TO, r->to);
    put_be64(buf + RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP, r->add_swap);
    put_be64(buf + RDMAP_ATOMIC_REQUEST_OFF_ADD_SWAP_MASK, r->add_swap_mask);
    put_be64(buf + RDMAP_ATOMIC_REQUEST_OFF_COMPARE, r->compare);
    put_be64(buf + RDMAP_ATOMIC_REQUEST_OFF_COMPARE_MASK, r->compare_mask);
    return RDMAP_ATOMIC_REQUEST_LEN;
}

const char *rdmap_atomic_request_format(const struct rdmap_atomic_request *r, char *buf, size_t len)
{
    static const char *const names[16] = {
        [RDMAP_ATOMIC_FETCH_ADD] = "FetchAdd",
        [RDMAP_ATOMIC_CMP_SWAP] = "CmpSwap",
    };
    const char *name = names[r->opcode & 0x0f];
    snprintf(buf, len,
             "%s(%u) request_id=%u stag=0x%08x to=0x%" PRIx64 " add_swap=0x%" PRIx64 "/0x%" PRIx64
             " compare=0x%" PRIx64 "/0x%" PRIx64,
             name != NULL ? name : "AOpCode", r->opcode, r->request_id, r->stag, r->to, r->add_swap,
             r->add_swap_mask, r->compare, r->compare_mask);
    return buf;
}

enum rdmap_parse_verdict rdmap_atomic_response_parse(struct span header,
                                                     struct rdmap_atomic_response *ret)
{
    enum rdmap_parse_verdict verdict = check_exact_len(header, RDMAP_ATOMIC_RESPONSE_LEN);
    if (verdict != RDMAP_PARSE_OK) {
        return verdict;
    }
    *ret = (struct rdmap_atomic_response){
        .request_id = get_be32(header.ptr + RDMAP_ATOMIC_RESPONSE_OFF_REQUEST_ID),
        .original = get_be64(header.ptr + RDMAP_ATOMIC_RESPONSE_OFF_ORIGINAL),
    };
    return RDMAP_PARSE_OK;
}

size_t rdmap_atomic_response_emit(const struct rdmap_atomic_response *r, uint8_t *buf)
{
    put_be32(buf + RDMAP_ATOMIC_RESPONSE_OFF_REQUEST_ID, r->request_id);
    put_be64(buf + RDMAP_ATOMIC_RESPONSE_OFF_ORIGINAL, r->original);
    return RDMAP_ATOMIC_RESPONSE_LEN;
}

const char *rdmap_atomic_response_format(const struct rdmap_atomic_response *r, char *buf,
                                         size_t len)
{
    snprintf(buf, len, "request_id=%u original=0x%" PRIx64, r->request_id, r->original);
    return buf;
}
