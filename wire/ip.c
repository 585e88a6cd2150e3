#include "wire/ip.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum {
    IPV4_FLAG_DF = 0x4000,
    IPV4_FRAGMENT_MASK = 0x3fff, // MF and the offset
    IPV4_OPTION_END = 0,
    IPV4_OPTION_NOP = 1,
    IPV4_OPTION_LSRR = 131,
    IPV4_OPTION_SSRR = 137,
    IPV4_OPTION_ALERT = 148,

    IPV6_HOP_BY_HOP = 0,
    IPV6_ROUTING = 43,
    IPV6_FRAGMENT = 44,
    IPV6_DESTINATION = 60,
    IPV6_EXTENSION_UNIT = 8, // octets
    IPV6_FRAGMENT_ATOMIC_MASK = 0xfff9,
    IPV6_OPTION_PAD1 = 0,
    IPV6_OPTION_PADN = 1,
    IPV6_OPTION_ALERT = 5,
    IPV6_ALERT_VALUE_LEN = 2,  // 0: multicast listener discovery
    IPV6_OPTION_ACTION = 0xc0, // what to do when it is not known; 0: pass over it
};

static void ipv4_checksum_put(uint8_t *header)
{
    size_t len = (size_t)(header[0] & 0xf) * 4;
    put_be16(header + IPV4_OFF_CHECKSUM, 0);
    put_be16(header + IPV4_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(0, span_of(header, len))));
}

size_t ipv4_header_emit(const struct ipv4_header *h, uint8_t *buf)
{
    const size_t len = IPV4_HEADER_LEN + (h->has_alert ? IPV4_ALERT_LEN : 0);
    memset(buf, 0, len);
    buf[0] = (uint8_t)(4 << 4 | len / 4);
    buf[IPV4_OFF_TOS] = h->tos;
    put_be16(buf + IPV4_OFF_TOTAL_LEN, h->total_len);
    put_be16(buf + IPV4_OFF_ID, h->id);
    put_be16(buf + IPV4_OFF_FLAGS, IPV4_FLAG_DF);
    buf[IPV4_OFF_TTL] = h->ttl;
    buf[IPV4_OFF_PROTOCOL] = h->protocol;
    memcpy(buf + IPV4_OFF_SRC, h->src, IPV4_ADDR_LEN);
    memcpy(buf + IPV4_OFF_DST, h->dst, IPV4_ADDR_LEN);
    if (h->has_alert) {
        buf[IPV4_HEADER_LEN] = IPV4_OPTION_ALERT;
        buf[IPV4_HEADER_LEN + 1] = IPV4_ALERT_LEN;
    }
    ipv4_checksum_put(buf);
    return len;
}

bool ipv4_mark(uint8_t *packet)
{
    bool heeds = (packet[IPV4_OFF_TOS] & IP_ECN_MASK) != IP_ECN_NOT_ECT;
    if (heeds) {
        packet[IPV4_OFF_TOS] |= IP_ECN_CE;
        ipv4_checksum_put(packet);
    }
    return heeds;
}

// An options header of one unit: the alert, and two octets to fill it up.
static void ipv6_alert_put(uint8_t next_header, uint8_t *buf)
{
    const uint8_t octets[IPV6_ALERT_LEN] = {next_header, 0, IPV6_OPTION_ALERT, IPV6_ALERT_VALUE_LEN,
                                            0,           0, IPV6_OPTION_PADN,  0};
    memcpy(buf, octets, sizeof octets);
}

size_t ipv6_header_emit(const struct ipv6_header *h, uint8_t *buf)
{
    put_be32(buf, 6U << 28 | (uint32_t)h->traffic_class << 20 | (h->flow_label & 0xfffff));
    put_be16(buf + IPV6_OFF_PAYLOAD_LEN, h->payload_len);
    buf[IPV6_OFF_NEXT_HEADER] = h->next_header;
    buf[IPV6_OFF_HOP_LIMIT] = h->hop_limit;
    memcpy(buf + IPV6_OFF_SRC, h->src, IPV6_ADDR_LEN);
    memcpy(buf + IPV6_OFF_DST, h->dst, IPV6_ADDR_LEN);
    if (!h->has_alert) {
        return IPV6_HEADER_LEN;
    }
    buf[IPV6_OFF_NEXT_HEADER] = IPV6_HOP_BY_HOP;
    ipv6_alert_put(h->next_header, buf + IPV6_HEADER_LEN);
    return IPV6_HEADER_LEN + IPV6_ALERT_LEN;
}

/* ---- IPv4, read ------------------------------------------------------------------------------ */

static enum ip_parse_verdict parse_ipv4_options(struct span rest, bool *ret_alert)
{
    while (rest.len > 0 && rest.ptr[0] != IPV4_OPTION_END) {
        if (rest.ptr[0] == IPV4_OPTION_LSRR || rest.ptr[0] == IPV4_OPTION_SSRR) {
            return IP_PARSE_SOURCE_ROUTE;
        }
        if (rest.ptr[0] == IPV4_OPTION_NOP) {
            rest = span_skip(rest, 1);
            continue;
        }
        if (rest.len < 2 || rest.ptr[1] < 2 || rest.ptr[1] > rest.len) {
            return IP_PARSE_EXTENSION;
        }
        *ret_alert |= rest.ptr[0] == IPV4_OPTION_ALERT && rest.ptr[1] == IPV4_ALERT_LEN;
        rest = span_skip(rest, rest.ptr[1]);
    }
    return IP_PARSE_OK;
}

enum ip_parse_verdict ipv4_header_parse(struct span packet, struct ipv4_header *ret,
                                        struct span *ret_body)
{
    if (packet.len < IPV4_HEADER_LEN) {
        return IP_PARSE_TOO_SHORT;
    }
    const uint8_t *p = packet.ptr;
    size_t header_len = (size_t)(p[0] & 0xf) * 4;
    size_t total_len = get_be16(p + IPV4_OFF_TOTAL_LEN);
    if (p[0] >> 4 != 4) {
        return IP_PARSE_VERSION;
    }
    if (header_len < IPV4_HEADER_LEN || total_len < header_len) {
        return IP_PARSE_HEADER_LEN;
    }
    if (packet.len < total_len) {
        return IP_PARSE_TOO_SHORT;
    }
    if (inet_sum_fold(inet_sum_add(0, span_of(p, header_len))) != 0) {
        return IP_PARSE_CHECKSUM;
    }
    if ((get_be16(p + IPV4_OFF_FLAGS) & IPV4_FRAGMENT_MASK) != 0) {
        return IP_PARSE_FRAGMENT;
    }
    *ret = (struct ipv4_header){.tos = p[IPV4_OFF_TOS],
                                .total_len = (uint16_t)total_len,
                                .id = get_be16(p + IPV4_OFF_ID),
                                .ttl = p[IPV4_OFF_TTL],
                                .protocol = p[IPV4_OFF_PROTOCOL]};
    memcpy(ret->src, p + IPV4_OFF_SRC, IPV4_ADDR_LEN);
    memcpy(ret->dst, p + IPV4_OFF_DST, IPV4_ADDR_LEN);
    *ret_body = span_of(p + header_len, total_len - header_len);
    return parse_ipv4_options(span_of(p + IPV4_HEADER_LEN, header_len - IPV4_HEADER_LEN),
                              &ret->has_alert);
}

/* ---- IPv6, read ------------------------------------------------------------------------------ */

// Of a hop-by-hop or destination options header.
static enum ip_parse_verdict parse_ipv6_options(struct span rest, bool *ret_alert)
{
    while (rest.len > 0) {
        if (rest.ptr[0] == IPV6_OPTION_PAD1) {
            rest = span_skip(rest, 1);
            continue;
        }
        if (rest.len < 2 || rest.ptr[1] > rest.len - 2) {
            return IP_PARSE_HEADER_LEN;
        }
        if ((rest.ptr[0] & IPV6_OPTION_ACTION) != 0) {
            return IP_PARSE_EXTENSION;
        }
        *ret_alert |= rest.ptr[0] == IPV6_OPTION_ALERT && rest.ptr[1] == IPV6_ALERT_VALUE_LEN &&
                      get_be16(rest.ptr + 2) == 0;
        rest = span_skip(rest, 2 + (size_t)rest.ptr[1]);
    }
    return IP_PARSE_OK;
}

static enum ip_parse_verdict parse_extension(uint8_t kind, struct span extension, bool *ret_alert)
{
    enum { OFF_SEGMENTS_LEFT = 3, OFF_FRAGMENT = 2 };
    switch (kind) {
    case IPV6_ROUTING:
        return extension.ptr[OFF_SEGMENTS_LEFT] == 0 ? IP_PARSE_OK : IP_PARSE_SOURCE_ROUTE;
    case IPV6_FRAGMENT: // an atomic one is whole (RFC 6946)
        return (get_be16(extension.ptr + OFF_FRAGMENT) & IPV6_FRAGMENT_ATOMIC_MASK) == 0
                   ? IP_PARSE_OK
                   : IP_PARSE_FRAGMENT;
    default:
        return parse_ipv6_options(span_skip(extension, 2), ret_alert);
    }
}

static bool is_extension(uint8_t kind)
{
    return kind == IPV6_HOP_BY_HOP || kind == IPV6_ROUTING || kind == IPV6_FRAGMENT ||
           kind == IPV6_DESTINATION;
}

static enum ip_parse_verdict pass_extensions(uint8_t *kind, struct span *body, bool *ret_alert)
{
    for (unsigned i = 0; is_extension(*kind); i++) {
        if (i == IP_EXTENSIONS_MAX) {
            return IP_PARSE_EXTENSION;
        }
        if (body->len < IPV6_EXTENSION_UNIT) {
            return IP_PARSE_TOO_SHORT;
        }
        size_t len = IPV6_EXTENSION_UNIT;
        if (*kind != IPV6_FRAGMENT) {
            len += (size_t)body->ptr[1] * IPV6_EXTENSION_UNIT;
        }
        if (body->len < len) {
            return IP_PARSE_TOO_SHORT;
        }
        bool has_alert = false;
        enum ip_parse_verdict verdict = parse_extension(*kind, span_first(*body, len), &has_alert);
        if (verdict != IP_PARSE_OK) {
            return verdict;
        }
        *ret_alert |= has_alert && *kind == IPV6_HOP_BY_HOP;
        *kind = body->ptr[0];
        *body = span_skip(*body, len);
    }
    return IP_PARSE_OK;
}

enum ip_parse_verdict ipv6_header_parse(struct span packet, struct ipv6_header *ret,
                                        struct span *ret_body)
{
    if (packet.len < IPV6_HEADER_LEN) {
        return IP_PARSE_TOO_SHORT;
    }
    const uint8_t *p = packet.ptr;
    uint32_t first = get_be32(p);
    size_t len = get_be16(p + IPV6_OFF_PAYLOAD_LEN);
    if (first >> 28 != 6) {
        return IP_PARSE_VERSION;
    }
    if (packet.len - IPV6_HEADER_LEN < len) {
        return IP_PARSE_TOO_SHORT;
    }
    *ret = (struct ipv6_header){.traffic_class = (uint8_t)(first >> 20),
                                .flow_label = first & 0xfffff,
                                .payload_len = (uint16_t)len,
                                .next_header = p[IPV6_OFF_NEXT_HEADER],
                                .hop_limit = p[IPV6_OFF_HOP_LIMIT]};
    memcpy(ret->src, p + IPV6_OFF_SRC, IPV6_ADDR_LEN);
    memcpy(ret->dst, p + IPV6_OFF_DST, IPV6_ADDR_LEN);
    *ret_body = span_of(p + IPV6_HEADER_LEN, len);
    return pass_extensions(&ret->next_header, ret_body, &ret->has_alert);
}

const char *ip_parse_verdict_name(enum ip_parse_verdict verdict)
{
    static const char *const names[IP_PARSE_VERDICT_COUNT] = {
        [IP_PARSE_OK] = "ok",
        [IP_PARSE_TOO_SHORT] = "too short",
        [IP_PARSE_VERSION] = "version",
        [IP_PARSE_HEADER_LEN] = "header length",
        [IP_PARSE_CHECKSUM] = "header checksum",
        [IP_PARSE_FRAGMENT] = "fragment",
        [IP_PARSE_SOURCE_ROUTE] = "source route",
        [IP_PARSE_EXTENSION] = "extension",
    };
    return verdict < IP_PARSE_VERDICT_COUNT ? names[verdict] : "?";
}

/* ---- the checksum ---------------------------------------------------------------------------- */

// Any word length and octet order will do (RFC 1071 section 2): eight octets at a time in the
// machine's order, with the carry added back in, folded and swapped at the end.
uint64_t inet_sum_add(uint64_t sum, struct span octets)
{
    const uint8_t *p = octets.ptr;
    size_t left = octets.len;
    uint64_t words = 0, word;
    for (; left >= sizeof word; p += sizeof word, left -= sizeof word) {
        memcpy(&word, p, sizeof word);
        words += word;
        words += words < word;
    }
    word = 0;
    if (left > 0) { // an empty span may have no address
        memcpy(&word, p, left);
    }
    words += word;
    words += words < word;
    words = (words & UINT32_MAX) + (words >> 32);
    words = (words & UINT16_MAX) + (words >> 16);
    words = (words & UINT16_MAX) + (words >> 16);
    words = (words & UINT16_MAX) + (words >> 16);
    return sum + be16toh((uint16_t)words);
}

uint16_t inet_sum_fold(uint64_t sum)
{
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

uint64_t inet_sum_ipv4(const struct ipv4_header *h, uint32_t len)
{
    uint64_t sum = inet_sum_add(h->protocol + (uint64_t)len, span_of(h->src, IPV4_ADDR_LEN));
    return inet_sum_add(sum, span_of(h->dst, IPV4_ADDR_LEN));
}

uint64_t inet_sum_ipv6(const struct ipv6_header *h, uint32_t len)
{
    uint64_t sum = inet_sum_add(h->next_header + (uint64_t)len, span_of(h->src, IPV6_ADDR_LEN));
    return inet_sum_add(sum, span_of(h->dst, IPV6_ADDR_LEN));
}
