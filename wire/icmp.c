#include "wire/icmp.h"

#include <string.h>

#include "base/bytes.h"

enum {
    ND_OPTION_UNIT = 8,
    ND_OPTION_SOURCE_ADDR = 1,
    ND_OPTION_TARGET_ADDR = 2,
};

static void checksum_put(uint8_t *message, size_t len, struct span body, uint64_t pseudo_sum)
{
    put_be16(message + ICMP_OFF_CHECKSUM, 0);
    uint64_t sum = inet_sum_add(inet_sum_add(pseudo_sum, span_of(message, len)), body);
    put_be16(message + ICMP_OFF_CHECKSUM, inet_sum_fold(sum));
}

enum icmp_parse_verdict icmp_header_parse(struct span message, uint64_t pseudo_sum,
                                          struct icmp_header *ret, struct span *ret_body)
{
    if (message.len < ICMP_HEADER_LEN) {
        return ICMP_PARSE_TOO_SHORT;
    }
    if (inet_sum_fold(inet_sum_add(pseudo_sum, message)) != 0) {
        return ICMP_PARSE_CHECKSUM;
    }
    *ret = (struct icmp_header){.type = message.ptr[ICMP_OFF_TYPE],
                                .code = message.ptr[ICMP_OFF_CODE],
                                .rest = get_be32(message.ptr + ICMP_OFF_REST)};
    *ret_body = span_skip(message, ICMP_HEADER_LEN);
    return ICMP_PARSE_OK;
}

static uint8_t addr_option_of(uint8_t type)
{
    return type == ICMPV6_NEIGHBOUR_SOLICITATION ? ND_OPTION_SOURCE_ADDR : ND_OPTION_TARGET_ADDR;
}

enum icmp_parse_verdict nd_message_parse(struct span message, struct nd_message *ret)
{
    if (message.len < ND_OFF_OPTIONS) {
        return ICMP_PARSE_TOO_SHORT;
    }
    *ret = (struct nd_message){.type = message.ptr[ICMP_OFF_TYPE],
                               .flags = get_be32(message.ptr + ICMP_OFF_REST)};
    memcpy(ret->target, message.ptr + ND_OFF_TARGET, IPV6_ADDR_LEN);
    struct span rest = span_skip(message, ND_OFF_OPTIONS);
    while (rest.len > 0) {
        size_t len = rest.len < 2 ? 0 : (size_t)rest.ptr[1] * ND_OPTION_UNIT;
        if (len == 0 || len > rest.len) {
            return ICMP_PARSE_OPTION;
        }
        if (rest.ptr[0] == addr_option_of(ret->type) && len == ND_OPTION_LEN) {
            ret->has_eth = true;
            memcpy(ret->eth.octets, rest.ptr + 2, ETH_ADDR_LEN);
        }
        rest = span_skip(rest, len);
    }
    return ICMP_PARSE_OK;
}

size_t icmp_header_emit(const struct icmp_header *h, struct span body, uint64_t pseudo_sum,
                        uint8_t *buf)
{
    buf[ICMP_OFF_TYPE] = h->type;
    buf[ICMP_OFF_CODE] = h->code;
    put_be32(buf + ICMP_OFF_REST, h->rest);
    checksum_put(buf, ICMP_HEADER_LEN, body, pseudo_sum);
    return ICMP_HEADER_LEN;
}

size_t nd_message_emit(const struct nd_message *m, uint64_t pseudo_sum, uint8_t *buf)
{
    size_t len = m->has_eth ? ND_LEN : ND_OFF_OPTIONS;
    memset(buf, 0, len);
    buf[ICMP_OFF_TYPE] = m->type;
    put_be32(buf + ICMP_OFF_REST, m->flags);
    memcpy(buf + ND_OFF_TARGET, m->target, IPV6_ADDR_LEN);
    if (m->has_eth) {
        buf[ND_OFF_OPTIONS] = addr_option_of(m->type);
        buf[ND_OFF_OPTIONS + 1] = ND_OPTION_LEN / ND_OPTION_UNIT;
        memcpy(buf + ND_OFF_OPTIONS + 2, m->eth.octets, ETH_ADDR_LEN);
    }
    checksum_put(buf, len, (struct span){0}, pseudo_sum);
    return len;
}
