// Any octets as a RoCE packet: what parses is emitted as it was, but for reserved bits; every
// header is as long as its opcode says; each line of text ends.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/roce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Takes away what is reserved: it is not kept.
static void mask_reserved(const struct roce_opcode_facts *facts, uint8_t *head)
{
    head[BTH_OFF_ECN] &= BTH_FECN | BTH_BECN;
    if (facts->headers & ROCE_HAS_DETH) {
        head[BTH_LEN + DETH_OFF_RESERVED] = 0;
    }
    if (facts->headers & ROCE_HAS_CNP) {
        memset(head + BTH_LEN, 0, CNP_RESERVED_LEN);
    }
}

static void on_packet(struct span in, const struct roce_packet *p)
{
    const struct roce_opcode_facts *facts = p->facts;
    uint8_t expected[ROCE_HEAD_MAX_LEN], out[ROCE_HEAD_MAX_LEN];
    char line[400];
    CHECK(facts->is_known && facts->header_len <= ROCE_HEAD_MAX_LEN);
    CHECK(facts->header_len + p->payload.len + p->bth.pad_len == in.len);
    CHECK(p->payload.ptr == in.ptr + facts->header_len);
    CHECK(facts->kind != ROCE_KIND_CNP || in.len % 4 == 0);
    memcpy(expected, in.ptr, facts->header_len);
    mask_reserved(facts, expected);
    CHECK(roce_head_emit(p, out) == facts->header_len);
    CHECK(memcmp(out, expected, facts->header_len) == 0);
    for (size_t room = 1; room <= sizeof line; room += 133) {
        CHECK(strlen(roce_packet_format(p, line, room)) < room);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roce_packet p;
    memset(&p, 0, sizeof p);
    enum roce_parse_verdict verdict = roce_packet_parse(span_of(data, size), &p);
    CHECK(roce_parse_verdict_name(verdict) != NULL);
    if (verdict == ROCE_PARSE_OK) {
        on_packet(span_of(data, size), &p);
    } else if (verdict == ROCE_PARSE_OPCODE) {
        CHECK(size >= BTH_LEN && p.bth.opcode == data[0]);
    }
    return 0;
}
