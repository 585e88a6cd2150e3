#include "wire/aeth.h"

#include <stdio.h>

#include "base/bytes.h"

enum aeth_kind aeth_kind(uint8_t syndrome)
{
    switch (syndrome & AETH_KIND_MASK) {
    case AETH_ACK:
        return AETH_ACK;
    case AETH_RNR_NAK:
        return AETH_RNR_NAK;
    case AETH_NAK:
        return AETH_NAK;
    default:
        return AETH_RESERVED;
    }
}

duration_ns aeth_rnr_timer_ns(uint8_t code)
{
    static const uint32_t timers_10us[AETH_VALUE_MASK + 1] = {
        [0] = 65536,  [1] = 1,      [2] = 2,     [3] = 3,      [4] = 4,      [5] = 6,
        [6] = 8,      [7] = 12,     [8] = 16,    [9] = 24,     [10] = 32,    [11] = 48,
        [12] = 64,    [13] = 96,    [14] = 128,  [15] = 192,   [16] = 256,   [17] = 384,
        [18] = 512,   [19] = 768,   [20] = 1024, [21] = 1536,  [22] = 2048,  [23] = 3072,
        [24] = 4096,  [25] = 6144,  [26] = 8192, [27] = 12288, [28] = 16384, [29] = 24576,
        [30] = 32768, [31] = 49152,
    };
    return timers_10us[code & AETH_VALUE_MASK] * 10 * NS_PER_US;
}

uint32_t aeth_credits(uint8_t code)
{
    static const uint32_t credits[AETH_VALUE_MASK + 1] = {
        0,    1,    2,    3,     4,     6,     8,     12,
        16,   24,   32,   48,    64,    96,    128,   192,
        256,  384,  512,  768,   1024,  1536,  2048,  3072,
        4096, 6144, 8192, 12288, 16384, 24576, 32768, [AETH_CREDITS_NONE] = UINT32_MAX,
    };
    return credits[code & AETH_VALUE_MASK];
}

// From 2 on each power of two has two codes, the second for half as much again.
uint8_t aeth_syndrome_ack(uint32_t credits)
{
    const uint32_t most = AETH_CREDITS_NONE - 1;
    if (credits < 2) {
        return (uint8_t)(AETH_ACK | credits);
    }
    const uint32_t power = 31 - (uint32_t)__builtin_clz(credits);
    const uint32_t code = 2 * power + (credits >> (power - 1) & 1);
    return (uint8_t)(AETH_ACK | (code < most ? code : most));
}

enum roce_parse_verdict aeth_parse(struct span octets, struct aeth *ret)
{
    if (octets.len < AETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    *ret = (struct aeth){
        .syndrome = octets.ptr[AETH_OFF_SYNDROME],
        .msn = get_be24(octets.ptr + AETH_OFF_MSN),
    };
    return ROCE_PARSE_OK;
}

size_t aeth_emit(const struct aeth *h, uint8_t *buf)
{
    buf[AETH_OFF_SYNDROME] = h->syndrome;
    put_be24(buf + AETH_OFF_MSN, h->msn);
    return AETH_LEN;
}

const char *aeth_nak_name(uint8_t value)
{
    static const char *const names[AETH_NAK_COUNT] = {
        [AETH_NAK_PSN_SEQUENCE] = "PSN sequence error",
        [AETH_NAK_INVALID_REQUEST] = "invalid request",
        [AETH_NAK_REMOTE_ACCESS] = "remote access error",
        [AETH_NAK_REMOTE_OPERATIONAL] = "remote operational error",
        [AETH_NAK_INVALID_RD_REQUEST] = "invalid RD request",
    };
    return value < AETH_NAK_COUNT ? names[value] : "reserved code";
}

const char *aeth_format(const struct aeth *h, char *buf, size_t len)
{
    uint8_t value = aeth_value(h->syndrome);
    switch (aeth_kind(h->syndrome)) {
    case AETH_ACK:
        snprintf(buf, len, "ACK credits=%u msn=%u", value, h->msn);
        break;
    case AETH_RNR_NAK:
        snprintf(buf, len, "RNR NAK timer=%u msn=%u", value, h->msn);
        break;
    case AETH_NAK:
        snprintf(buf, len, "NAK %s msn=%u", aeth_nak_name(value), h->msn);
        break;
    case AETH_RESERVED:
        snprintf(buf, len, "reserved syndrome=0x%02x msn=%u", h->syndrome, h->msn);
        break;
    }
    return buf;
}
