#include "wire/immdt.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum roce_parse_verdict immdt_parse(struct span octets, struct immdt *ret)
{
    if (octets.len < IMMDT_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    memcpy(&ret->imm_data, octets.ptr, IMMDT_LEN);
    return ROCE_PARSE_OK;
}

enum roce_parse_verdict ieth_parse(struct span octets, struct ieth *ret)
{
    if (octets.len < IETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    ret->rkey = get_be32(octets.ptr);
    return ROCE_PARSE_OK;
}

size_t immdt_emit(const struct immdt *h, uint8_t *buf)
{
    memcpy(buf, &h->imm_data, IMMDT_LEN);
    return IMMDT_LEN;
}

size_t ieth_emit(const struct ieth *h, uint8_t *buf)
{
    put_be32(buf, h->rkey);
    return IETH_LEN;
}

const char *immdt_format(const struct immdt *h, char *buf, size_t len)
{
    snprintf(buf, len, "imm_data=0x%08x", be32toh(h->imm_data));
    return buf;
}

const char *ieth_format(const struct ieth *h, char *buf, size_t len)
{
    snprintf(buf, len, "invalidate rkey=0x%08x", h->rkey);
    return buf;
}
