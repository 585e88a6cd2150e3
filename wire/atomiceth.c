#include "wire/atomiceth.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"

enum roce_parse_verdict atomiceth_parse(struct span octets, struct atomiceth *ret)
{
    if (octets.len < ATOMICETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    *ret = (struct atomiceth){
        .va = get_be64(octets.ptr + ATOMICETH_OFF_VA),
        .rkey = get_be32(octets.ptr + ATOMICETH_OFF_RKEY),
        .swap_add = get_be64(octets.ptr + ATOMICETH_OFF_SWAP_ADD),
        .compare = get_be64(octets.ptr + ATOMICETH_OFF_COMPARE),
    };
    return ROCE_PARSE_OK;
}

enum roce_parse_verdict atomicacketh_parse(struct span octets, struct atomicacketh *ret)
{
    if (octets.len < ATOMICACKETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    ret->original = get_be64(octets.ptr + ATOMICACKETH_OFF_ORIGINAL);
    return ROCE_PARSE_OK;
}

size_t atomiceth_emit(const struct atomiceth *h, uint8_t *buf)
{
    put_be64(buf + ATOMICETH_OFF_VA, h->va);
    put_be32(buf + ATOMICETH_OFF_RKEY, h->rkey);
    put_be64(buf + ATOMICETH_OFF_SWAP_ADD, h->swap_add);
    put_be64(buf + ATOMICETH_OFF_COMPARE, h->compare);
    return ATOMICETH_LEN;
}

size_t atomicacketh_emit(const struct atomicacketh *h, uint8_t *buf)
{
    put_be64(buf + ATOMICACKETH_OFF_ORIGINAL, h->original);
    return ATOMICACKETH_LEN;
}

const char *atomiceth_format(const struct atomiceth *h, char *buf, size_t len)
{
    snprintf(buf, len, "va=0x%" PRIx64 " rkey=0x%08x swap_add=0x%" PRIx64 " compare=0x%" PRIx64,
             h->va, h->rkey, h->swap_add, h->compare);
    return buf;
}

const char *atomicacketh_format(const struct atomicacketh *h, char *buf, size_t len)
{
    snprintf(buf, len, "original=0x%" PRIx64, h->original);
    return buf;
}
