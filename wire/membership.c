#include "wire/membership.h"

#include <string.h>

#include "base/bytes.h"

enum {
    ROBUSTNESS_MASK = 7,
    OFF_INTERVAL = 1, // from the robustness variable on, as what follows
    OFF_SOURCE_COUNT = 2,
    OFF_SOURCES = 4,
    IGMP_1_RESP_MS = 10000, // RFC 3376 section 7.2.1: what a query of version 1 means
    IGMP_RESP_UNIT_MS = 100,
};

// A number that is itself below `1 << bits`, and above that a mantissa of `bits - 3` bits, whose
// first one is left out, with an exponent of three (RFC 3376 section 4.1.1, RFC 3810 section
// 5.1.3).
static uint32_t number_of(uint32_t code, unsigned bits)
{
    const unsigned mantissa_bits = bits - 3;
    const uint32_t mantissa = code & ((1U << mantissa_bits) - 1);
    const uint32_t exponent = code >> mantissa_bits & 7;
    return code < 1U << bits ? code : (mantissa | 1U << mantissa_bits) << (exponent + 3);
}

enum { OCTET_CODE_BITS = 7, PAIR_CODE_BITS = 15 };

/* ---- queries --------------------------------------------------------------------------------- */

// What the newest versions say behind the group. False: it is not all there.
static bool newest_parse(struct span message, size_t off, size_t addr_len,
                         struct membership_query *ret)
{
    enum { LEN = OFF_SOURCES };
    const uint8_t *p = message.ptr + off;
    if (message.len < off + LEN ||
        message.len - off - LEN < get_be16(p + OFF_SOURCE_COUNT) * addr_len) {
        return false;
    }
    ret->robustness = p[0] & ROBUSTNESS_MASK;
    ret->interval_s = number_of(p[OFF_INTERVAL], OCTET_CODE_BITS);
    return true;
}

enum membership_parse_verdict igmp_query_parse(struct span message, struct membership_query *ret)
{
    if (message.len < IGMP_LEN) {
        return MEMBERSHIP_PARSE_LEN;
    }
    if (inet_sum_fold(inet_sum_add(0, message)) != 0) {
        return MEMBERSHIP_PARSE_CHECKSUM;
    }
    if (message.ptr[IGMP_OFF_TYPE] != IGMP_QUERY) {
        return MEMBERSHIP_PARSE_NO_QUERY;
    }
    const uint8_t code = message.ptr[IGMP_OFF_MAX_RESP];
    *ret = (struct membership_query){.version = message.len > IGMP_LEN ? 3 : code != 0 ? 2 : 1};
    if (ret->version > 1) { // RFC 1112 appendix I: else whatever stands there
        memcpy(ret->group, message.ptr + IGMP_OFF_GROUP, IPV4_ADDR_LEN);
    }
    if (ret->version < 3) {
        ret->max_resp_ms = code != 0 ? code * IGMP_RESP_UNIT_MS : IGMP_1_RESP_MS;
        return MEMBERSHIP_PARSE_OK;
    }
    ret->max_resp_ms = number_of(code, OCTET_CODE_BITS) * IGMP_RESP_UNIT_MS;
    return newest_parse(message, IGMP_OFF_ROBUSTNESS, IPV4_ADDR_LEN, ret) ? MEMBERSHIP_PARSE_OK
                                                                          : MEMBERSHIP_PARSE_LEN;
}

enum membership_parse_verdict mld_query_parse(struct span message, struct membership_query *ret)
{
    if (message.len < MLD_LEN) {
        return MEMBERSHIP_PARSE_LEN;
    }
    if (message.ptr[ICMP_OFF_TYPE] != ICMPV6_LISTENER_QUERY) {
        return MEMBERSHIP_PARSE_NO_QUERY;
    }
    const uint16_t code = get_be16(message.ptr + MLD_OFF_MAX_RESP);
    *ret = (struct membership_query){.version = message.len > MLD_LEN ? 2 : 1, .max_resp_ms = code};
    memcpy(ret->group, message.ptr + MLD_OFF_GROUP, IPV6_ADDR_LEN);
    if (ret->version < 2) {
        return MEMBERSHIP_PARSE_OK;
    }
    ret->max_resp_ms = number_of(code, PAIR_CODE_BITS);
    return newest_parse(message, MLD_OFF_ROBUSTNESS, IPV6_ADDR_LEN, ret) ? MEMBERSHIP_PARSE_OK
                                                                         : MEMBERSHIP_PARSE_LEN;
}

/* ---- reports --------------------------------------------------------------------------------- */

static size_t finish(uint8_t *buf, size_t len, uint64_t pseudo_sum)
{
    put_be16(buf + IGMP_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(pseudo_sum, span_of(buf, len))));
    return len;
}

static void records_put(const struct membership_record *records, unsigned count, size_t addr_len,
                        uint8_t *at)
{
    for (unsigned i = 0; i < count; i++) {
        memset(at, 0, RECORD_OFF_GROUP);
        at[RECORD_OFF_KIND] = records[i].kind;
        memcpy(at + RECORD_OFF_GROUP, records[i].group, addr_len);
        at += RECORD_OFF_GROUP + addr_len;
    }
}

size_t igmp_message_emit(uint8_t type, const uint8_t group[IPV4_ADDR_LEN], uint8_t *buf)
{
    memset(buf, 0, IGMP_LEN);
    buf[IGMP_OFF_TYPE] = type;
    memcpy(buf + IGMP_OFF_GROUP, group, IPV4_ADDR_LEN);
    return finish(buf, IGMP_LEN, 0);
}

size_t igmp_records_emit(const struct membership_record *records, unsigned count, uint8_t *buf)
{
    memset(buf, 0, IGMP_OFF_RECORDS);
    buf[IGMP_OFF_TYPE] = IGMP_RECORDS;
    put_be16(buf + IGMP_OFF_RECORD_COUNT, (uint16_t)count);
    records_put(records, count, IPV4_ADDR_LEN, buf + IGMP_OFF_RECORDS);
    return finish(buf, igmp_records_len(count), 0);
}

size_t mld_message_emit(uint8_t type, const uint8_t group[IPV6_ADDR_LEN], uint64_t pseudo_sum,
                        uint8_t *buf)
{
    memset(buf, 0, MLD_LEN);
    buf[ICMP_OFF_TYPE] = type;
    memcpy(buf + MLD_OFF_GROUP, group, IPV6_ADDR_LEN);
    return finish(buf, MLD_LEN, pseudo_sum);
}

size_t mld_records_emit(const struct membership_record *records, unsigned count,
                        uint64_t pseudo_sum, uint8_t *buf)
{
    memset(buf, 0, MLD_OFF_RECORDS);
    buf[ICMP_OFF_TYPE] = ICMPV6_LISTENER_RECORDS;
    put_be16(buf + MLD_OFF_RECORD_COUNT, (uint16_t)count);
    records_put(records, count, IPV6_ADDR_LEN, buf + MLD_OFF_RECORDS);
    return finish(buf, mld_records_len(count), pseudo_sum);
}
