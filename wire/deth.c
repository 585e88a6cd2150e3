#include "wire/deth.h"

#include <stdio.h>

#include "base/bytes.h"

enum roce_parse_verdict deth_parse(struct span octets, struct deth *ret)
{
    if (octets.len < DETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    *ret = (struct deth){
        .qkey = get_be32(octets.ptr + DETH_OFF_QKEY),
        .src_qp = get_be24(octets.ptr + DETH_OFF_SRC_QP),
    };
    return ROCE_PARSE_OK;
}

size_t deth_emit(const struct deth *h, uint8_t *buf)
{
    put_be32(buf + DETH_OFF_QKEY, h->qkey);
    buf[DETH_OFF_RESERVED] = 0;
    put_be24(buf + DETH_OFF_SRC_QP, h->src_qp);
    return DETH_LEN;
}

const char *deth_format(const struct deth *h, char *buf, size_t len)
{
    snprintf(buf, len, "qkey=0x%08x src_qp=0x%06x", h->qkey, h->src_qp);
    return buf;
}
