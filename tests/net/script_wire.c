#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tests/net/script.h"
#include "wire/icmp.h"

enum { HOPS = 64, PACKET_MAX = 65535 };

static uint32_t now_ms(const struct script_host *h, instant_ns at_ns)
{
    return (uint32_t)(at_ns / NS_PER_MS - h->began_ns / NS_PER_MS);
}

/* ---- from the peer --------------------------------------------------------------------------- */

static size_t ip_emit(const struct net_flow *flow, enum ip_ecn ecn, uint8_t protocol, size_t len,
                      uint8_t *buf)
{
    const struct net_packet packet = {
        .tos = ecn, .protocol = protocol, .hops = HOPS, .body_len = len};
    return net_flow_ip_emit(flow, &packet, buf);
}

static size_t put_numbers(uint8_t *p, uint8_t kind, uint32_t a, uint32_t b)
{
    p[0] = kind;
    p[1] = 10;
    put_be32(p + 2, a);
    put_be32(p + 6, b);
    return 10;
}

static size_t put_option(const struct script_connection *c, const struct script_option *o,
                         uint8_t *p)
{
    switch (o->kind) {
    case SCRIPT_OPTION_MSS:
        p[0] = TCP_OPTION_MSS;
        p[1] = 4;
        put_be16(p + 2, (uint16_t)o->a);
        return 4;
    case SCRIPT_OPTION_SCALE:
        p[0] = TCP_OPTION_SCALE;
        p[1] = 3;
        p[2] = (uint8_t)o->a;
        return 3;
    case SCRIPT_OPTION_SACK_OK:
        p[0] = TCP_OPTION_SACK_PERMITTED;
        p[1] = 2;
        return 2;
    case SCRIPT_OPTION_TIMESTAMPS:
        return put_numbers(p, TCP_OPTION_TIMESTAMPS, o->a,
                           o->b == 0 ? 0 : c->timestamp_base + o->b);
    case SCRIPT_OPTION_SACK: // the option's head is there
        put_be32(p, c->iss + o->a);
        put_be32(p + 4, c->iss + o->b);
        return 8;
    default:
        memcpy(p, o->octets, o->len);
        return o->len;
    }
}

// In the order of the script, padded with the end of the list.
static size_t put_options(const struct script_connection *c, const struct script_segment *s,
                          uint8_t *buf)
{
    size_t len = 0, head = 0;
    for (unsigned i = 0; i < s->option_count; i++) {
        bool is_sack = s->option[i].kind == SCRIPT_OPTION_SACK;
        if (is_sack && head == 0) {
            head = len + 1;
            buf[len] = TCP_OPTION_SACK;
            buf[len + 1] = 2;
            len += 2;
        }
        size_t one = put_option(c, &s->option[i], buf + len);
        if (is_sack) {
            buf[head] = (uint8_t)(buf[head] + one);
        }
        len += one;
    }
    while (len % 4 != 0) {
        buf[len++] = TCP_OPTION_END;
    }
    return len;
}

static void send_one(struct script_host *h, struct script_connection *c,
                     const struct script_segment *s, uint32_t seq, uint32_t len, uint8_t flags)
{
    static uint8_t packet[PACKET_MAX + TCP_HEADER_MAX_LEN];
    struct net_flow flow = net_flow_turned(&c->flow);
    flow.local = s->has_from ? net_addr_from_ipv4(s->from) : flow.local;
    flow.remote = s->has_to ? net_addr_from_ipv4(s->to) : flow.remote;
    uint8_t options[SCRIPT_OPTIONS_MAX * TCP_OPTIONS_MAX_LEN];
    size_t options_len = put_options(c, s, options);
    size_t body_len = TCP_HEADER_LEN + options_len + len;
    uint8_t *p = packet + ip_emit(&flow, s->ecn, IP_PROTOCOL_TCP, body_len, packet), *payload;
    struct tcp_header header = {.src_port = flow.local_port,
                                .dst_port = flow.remote_port,
                                .seq = c->irs + seq,
                                .ack = (flags & TCP_ACK) != 0 || s->ack != 0 ? c->iss + s->ack : 0,
                                .flags = flags,
                                .window = s->has_window ? s->window : c->window};
    c->window = header.window;
    CHECK(options_len <= TCP_OPTIONS_MAX_LEN);
    tcp_header_emit(&header, p);
    p[TCP_OFF_DATA_OFFSET] = (uint8_t)((TCP_HEADER_LEN + options_len) / 4 << 4);
    put_be16(p + TCP_OFF_URGENT, s->urgent);
    if (s->data_offset != 0) {
        p[TCP_OFF_DATA_OFFSET] = (uint8_t)(s->data_offset << 4);
    }
    memcpy(p + TCP_HEADER_LEN, options, options_len);
    payload = p + TCP_HEADER_LEN + options_len;
    for (uint32_t i = 0; i < len; i++) {
        payload[i] = script_octet((uint64_t)seq + i - ((flags & TCP_SYN) == 0));
    }
    tcp_checksum_put(mspan_of(p, TCP_HEADER_LEN + options_len), span_of(payload, len),
                     net_flow_pseudo_sum(&flow, IP_PROTOCOL_TCP, (uint32_t)body_len));
    p[TCP_OFF_CHECKSUM] ^= s->has_bad_checksum;
    script_host_on_packet(h, packet, (size_t)(p - packet) + body_len);
}

void script_wire_send(struct script_host *h, struct script_connection *c,
                      const struct script_segment *s)
{
    uint32_t each = (s->len + s->count - 1) / s->count;
    for (uint32_t i = 0, at = 0; i < s->count; i++, at += each) {
        bool is_last = i + 1 == s->count;
        uint8_t flags = is_last ? s->flags : s->flags & (uint8_t) ~(TCP_FIN | TCP_PSH);
        send_one(h, c, s, s->seq + at, is_last ? s->len - at : each, flags);
    }
}

void script_wire_send_icmp(struct script_host *h, const struct script_connection *c, uint8_t type,
                           uint8_t code, uint32_t rest, uint32_t seq)
{
    enum { QUOTED_TCP_LEN = 8 };
    uint8_t packet[256], quoted[128];
    struct net_flow flow = net_flow_turned(&c->flow);
    bool is_ipv4 = net_addr_is_ipv4(&flow.local);
    uint8_t protocol = is_ipv4 ? IP_PROTOCOL_ICMP : IP_PROTOCOL_ICMPV6;
    struct icmp_header icmp = {.type = type, .code = code, .rest = rest};
    size_t at = ip_emit(&c->flow, IP_ECN_NOT_ECT, IP_PROTOCOL_TCP, TCP_HEADER_LEN, quoted);
    put_be16(quoted + at + TCP_OFF_SRC_PORT, c->flow.local_port);
    put_be16(quoted + at + TCP_OFF_DST_PORT, c->flow.remote_port);
    put_be32(quoted + at + TCP_OFF_SEQ, c->iss + seq);
    struct span body = span_of(quoted, at + QUOTED_TCP_LEN);
    size_t message_len = ICMP_HEADER_LEN + body.len;
    uint64_t sum = is_ipv4 ? 0 : net_flow_pseudo_sum(&flow, protocol, (uint32_t)message_len);
    size_t len = ip_emit(&flow, IP_ECN_NOT_ECT, protocol, message_len, packet);
    len += icmp_header_emit(&icmp, body, sum, packet + len);
    memcpy(packet + len, body.ptr, body.len);
    script_host_on_packet(h, packet, len + body.len);
}

/* ---- from us --------------------------------------------------------------------------------- */

// Who a packet goes to, and its segment. False: IP says something that it should not.
static bool ip_read(const struct script_packet *p, struct net_flow *flow, enum ip_ecn *ret_ecn,
                    struct span *ret_body)
{
    struct span packet = span_of(p->octets, p->len);
    if (p->octets[0] >> 4 == 4) {
        struct ipv4_header ip;
        if (ipv4_header_parse(packet, &ip, ret_body) != IP_PARSE_OK ||
            ip.protocol != IP_PROTOCOL_TCP) {
            return false;
        }
        *ret_ecn = ip.tos & IP_ECN_MASK;
        flow->local = net_addr_from_ipv4(ip.src);
        flow->remote = net_addr_from_ipv4(ip.dst);
        return true;
    }
    struct ipv6_header ip;
    if (ipv6_header_parse(packet, &ip, ret_body) != IP_PARSE_OK ||
        ip.next_header != IP_PROTOCOL_TCP) {
        return false;
    }
    *ret_ecn = ip.traffic_class & IP_ECN_MASK;
    flow->local = net_addr_from_ipv6(ip.src);
    flow->remote = net_addr_from_ipv6(ip.dst);
    return true;
}

// A SYN that left tells where our numbers begin; and the first timestamp, where our clock does.
static void learn(struct script_host *h, const struct script_seen *seen, instant_ns at_ns)
{
    struct script_connection *c = seen->connection;
    if ((seen->flags & TCP_SYN) != 0 && !c->has_iss) {
        c->has_iss = true;
        c->iss = seen->header.seq;
    }
    if (seen->header.options.has_timestamps && !c->has_timestamps) {
        c->has_timestamps = true;
        c->timestamp_base = seen->header.options.ts_value - now_ms(h, at_ns);
    }
}

bool script_wire_read(struct script_error *e, struct script_host *h, const struct script_packet *p,
                      struct script_seen *ret)
{
    struct net_flow flow = {.scope = 0};
    struct span body;
    size_t header_len;
    if (!ip_read(p, &flow, &ret->ecn, &body) ||
        tcp_header_parse(body, &ret->header, &header_len) != TCP_PARSE_OK ||
        !tcp_checksum_is_good(body,
                              net_flow_pseudo_sum(&flow, IP_PROTOCOL_TCP, (uint32_t)body.len))) {
        return script_fail(e, "a packet left that is no TCP segment, or has a wrong checksum");
    }
    flow.local_port = ret->header.src_port;
    flow.remote_port = ret->header.dst_port;
    ret->connection = script_host_find(h, &flow);
    if (ret->connection == NULL || memcmp(&ret->connection->flow, &flow, sizeof flow) != 0) {
        return script_fail(e, "a segment left for somebody that the script does not know");
    }
    ret->flags = body.ptr[TCP_OFF_FLAGS];
    learn(h, ret, p->at_ns);
    ret->len = (uint32_t)(body.len - header_len);
    ret->is_payload_right = true;
    uint32_t position = ret->header.seq - ret->connection->iss - 1;
    for (uint32_t i = 0; i < ret->len; i++) {
        ret->is_payload_right &= body.ptr[header_len + i] == script_octet(position + i);
    }
    struct script_connection *c = ret->connection; // everything from here on is relative
    struct tcp_options *o = &ret->header.options;
    bool has_ack = (ret->flags & TCP_ACK) != 0;
    ret->header.seq -= c->iss;
    ret->header.ack -= has_ack ? c->irs : 0;
    o->ts_value -= o->has_timestamps ? c->timestamp_base : 0;
    for (unsigned i = 0; i < o->sack_count; i++) {
        o->sack[i].left -= c->irs;
        o->sack[i].right -= c->irs;
    }
    return true;
}

const char *script_seen_format(const struct script_seen *seen, char *buf, size_t len)
{
    const struct tcp_header *h = &seen->header;
    const struct tcp_options *o = &h->options;
    static const char *const ecn[] = {"", "[ect1] ", "[ect0] ", "[ce] "}; // of enum ip_ecn
    char flags[16], options[256] = "", ack[32] = "";
    size_t at = 0;
    if ((seen->flags & TCP_ACK) != 0) {
        snprintf(ack, sizeof ack, " ack %u", h->ack);
    }
#define ADD(...) at += (size_t)snprintf(options + at, sizeof options - at, __VA_ARGS__)
    if (o->mss != 0) {
        ADD(",mss %u", o->mss);
    }
    if (o->sack_permitted) {
        ADD(",sackOK");
    }
    if (o->has_timestamps) {
        ADD(",TS val %u ecr %u", o->ts_value, o->ts_echo);
    }
    if (o->has_scale) {
        ADD(",wscale %u", o->scale);
    }
    for (unsigned i = 0; i < o->sack_count; i++) {
        ADD("%s %u:%u", i == 0 ? ",sack" : "", o->sack[i].left, o->sack[i].right);
    }
#undef ADD
    snprintf(buf, len, "%s%s %u:%u(%u)%s win %u%s%s%s%s", ecn[seen->ecn],
             script_flags_format(seen->flags, flags), h->seq, h->seq + seen->len, seen->len, ack,
             h->window, at > 0 ? " <" : "", at > 0 ? options + 1 : "", at > 0 ? ">" : "",
             seen->is_payload_right ? "" : " (with wrong octets)");
    return buf;
}

static bool is_number(const struct script_option *wanted, uint32_t value, bool is_there)
{
    return is_there && (wanted->is_any_a || wanted->a == value);
}

// Whether they say the same, in whatever order; SACK blocks in theirs.
static bool options_are(const struct tcp_options *o, const struct script_segment *wanted)
{
    unsigned sack = 0, there = (o->mss != 0) + o->has_scale + o->sack_permitted +
                               o->has_timestamps + o->sack_count;
    for (unsigned i = 0; i < wanted->option_count; i++) {
        const struct script_option *w = &wanted->option[i];
        bool is_it = false;
        switch (w->kind) {
        case SCRIPT_OPTION_MSS:
            is_it = is_number(w, o->mss, o->mss != 0);
            break;
        case SCRIPT_OPTION_SCALE:
            is_it = is_number(w, o->scale, o->has_scale);
            break;
        case SCRIPT_OPTION_SACK_OK:
            is_it = o->sack_permitted;
            break;
        case SCRIPT_OPTION_TIMESTAMPS:
            is_it =
                is_number(w, o->ts_value, o->has_timestamps) && (w->is_any_b || w->b == o->ts_echo);
            break;
        case SCRIPT_OPTION_SACK:
            is_it =
                sack < o->sack_count && w->a == o->sack[sack].left && w->b == o->sack[sack].right;
            sack++;
            break;
        case SCRIPT_OPTION_RAW: // padding is not looked at
            is_it = true;
            there++;
            break;
        }
        if (!is_it) {
            return false;
        }
    }
    return there == wanted->option_count;
}

bool script_seen_is(const struct script_seen *seen, const struct script_segment *wanted,
                    unsigned index)
{
    const struct tcp_header *h = &seen->header;
    uint32_t each = (wanted->len + wanted->count - 1) / wanted->count;
    bool is_last = index + 1 == wanted->count;
    uint8_t flags = is_last ? wanted->flags : wanted->flags & (uint8_t) ~(TCP_FIN | TCP_PSH);
    return seen->flags == flags && seen->ecn == wanted->ecn &&
           h->seq == wanted->seq + index * each &&
           seen->len == (is_last ? wanted->len - index * each : each) &&
           ((flags & TCP_ACK) == 0 || h->ack == wanted->ack) &&
           (!wanted->has_window || h->window == wanted->window) &&
           (wanted->has_any_options || options_are(&h->options, wanted)) && seen->is_payload_right;
}
