#include "wire/bth.h"

#include <stdio.h>

#include "base/bytes.h"

enum roce_parse_verdict bth_parse(struct span packet, struct bth *ret)
{
    if (packet.len < BTH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    const uint8_t *p = packet.ptr;
    uint8_t flags = p[BTH_OFF_FLAGS];
    if ((flags & BTH_TVER_MASK) != 0) {
        return ROCE_PARSE_TVER;
    }
    *ret = (struct bth){
        .opcode = p[BTH_OFF_OPCODE],
        .solicited = (flags & BTH_SE) != 0,
        .mig_req = (flags & BTH_MIG_REQ) != 0,
        .pad_len = (flags & BTH_PAD_MASK) >> BTH_PAD_SHIFT,
        .pkey = get_be16(p + BTH_OFF_PKEY),
        .fecn = (p[BTH_OFF_ECN] & BTH_FECN) != 0,
        .becn = (p[BTH_OFF_ECN] & BTH_BECN) != 0,
        .dest_qp = get_be24(p + BTH_OFF_DEST_QP),
        .ack_req = (p[BTH_OFF_ACK_REQ] & BTH_ACK_REQ) != 0,
        .greeting = p[BTH_OFF_ACK_REQ] & BTH_GREETING_MASK,
        .psn = get_be24(p + BTH_OFF_PSN),
    };
    return ROCE_PARSE_OK;
}

size_t bth_emit(const struct bth *h, uint8_t *buf)
{
    buf[BTH_OFF_OPCODE] = h->opcode;
    buf[BTH_OFF_FLAGS] = (uint8_t)((h->solicited ? BTH_SE : 0) | (h->mig_req ? BTH_MIG_REQ : 0) |
                                   ((h->pad_len << BTH_PAD_SHIFT) & BTH_PAD_MASK));
    put_be16(buf + BTH_OFF_PKEY, h->pkey);
    buf[BTH_OFF_ECN] = (uint8_t)((h->fecn ? BTH_FECN : 0) | (h->becn ? BTH_BECN : 0));
    put_be24(buf + BTH_OFF_DEST_QP, h->dest_qp);
    buf[BTH_OFF_ACK_REQ] =
        (uint8_t)((h->ack_req ? BTH_ACK_REQ : 0) | (h->greeting & BTH_GREETING_MASK));
    put_be24(buf + BTH_OFF_PSN, h->psn);
    return BTH_LEN;
}

const char *bth_format(const struct bth *h, char *buf, size_t len)
{
    snprintf(buf, len, "opcode=0x%02x qp=0x%06x psn=%u pkey=0x%04x%s%s%s%s%s pad=%u", h->opcode,
             h->dest_qp, h->psn, h->pkey, h->solicited ? " se" : "", h->mig_req ? " migreq" : "",
             h->fecn ? " fecn" : "", h->becn ? " becn" : "", h->ack_req ? " ackreq" : "",
             h->pad_len);
    return buf;
}
