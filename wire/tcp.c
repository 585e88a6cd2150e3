#include "wire/tcp.h"

#include <stdio.h>

#include "base/bytes.h"
#include "wire/ip.h"

enum {
    MSS_LEN = 4,
    SCALE_LEN = 3,
    SACK_PERMITTED_LEN = 2,
    SACK_LEN = 2, // and the blocks
    SACK_BLOCK_LEN = 8,
    TIMESTAMPS_LEN = 10,
};
STATIC_CHECK(TCP_TIMESTAMPS_LEN == TIMESTAMPS_LEN + 2);

static enum tcp_parse_verdict parse_sack(struct span body, struct tcp_options *o)
{
    size_t count = body.len / SACK_BLOCK_LEN;
    if (body.len % SACK_BLOCK_LEN != 0 || count > TCP_SACK_BLOCK_MAX) {
        return TCP_PARSE_OPTION_LEN;
    }
    o->sack_count = (uint8_t)count;
    for (size_t i = 0; i < count; i++) {
        o->sack[i].left = get_be32(body.ptr + i * SACK_BLOCK_LEN);
        o->sack[i].right = get_be32(body.ptr + i * SACK_BLOCK_LEN + 4);
    }
    return TCP_PARSE_OK;
}

// `body`: what follows kind and length.
static enum tcp_parse_verdict parse_option(uint8_t kind, struct span body, struct tcp_options *o)
{
    static const uint8_t len_of[] = {
        [TCP_OPTION_MSS] = MSS_LEN,
        [TCP_OPTION_SCALE] = SCALE_LEN,
        [TCP_OPTION_SACK_PERMITTED] = SACK_PERMITTED_LEN,
        [TCP_OPTION_TIMESTAMPS] = TIMESTAMPS_LEN,
    };
    if (kind < sizeof len_of && len_of[kind] != 0 && body.len + 2 != len_of[kind]) {
        return TCP_PARSE_OPTION_LEN;
    }
    switch (kind) {
    case TCP_OPTION_MSS:
        o->mss = get_be16(body.ptr);
        break;
    case TCP_OPTION_SCALE:
        o->has_scale = true;
        o->scale = body.ptr[0];
        break;
    case TCP_OPTION_SACK_PERMITTED:
        o->sack_permitted = true;
        break;
    case TCP_OPTION_SACK:
        return parse_sack(body, o);
    case TCP_OPTION_TIMESTAMPS:
        o->has_timestamps = true;
        o->ts_value = get_be32(body.ptr);
        o->ts_echo = get_be32(body.ptr + 4);
        break;
    }
    return TCP_PARSE_OK;
}

static enum tcp_parse_verdict parse_options(struct span rest, struct tcp_options *o)
{
    while (rest.len > 0 && rest.ptr[0] != TCP_OPTION_END) {
        if (rest.ptr[0] == TCP_OPTION_NOP) {
            rest = span_skip(rest, 1);
            continue;
        }
        if (rest.len < 2 || rest.ptr[1] < 2 || rest.ptr[1] > rest.len) {
            return TCP_PARSE_OPTION_LEN;
        }
        size_t len = rest.ptr[1];
        enum tcp_parse_verdict verdict =
            parse_option(rest.ptr[0], span_of(rest.ptr + 2, len - 2), o);
        if (verdict != TCP_PARSE_OK) {
            return verdict;
        }
        rest = span_skip(rest, len);
    }
    return TCP_PARSE_OK;
}

enum tcp_parse_verdict tcp_header_parse(struct span segment, struct tcp_header *ret,
                                        size_t *ret_len)
{
    if (segment.len < TCP_HEADER_LEN) {
        return TCP_PARSE_TOO_SHORT;
    }
    const uint8_t *p = segment.ptr;
    size_t len = (size_t)(p[TCP_OFF_DATA_OFFSET] >> 4) * 4;
    if (len < TCP_HEADER_LEN) {
        return TCP_PARSE_DATA_OFFSET;
    }
    if (segment.len < len) {
        return TCP_PARSE_TOO_SHORT;
    }
    *ret = (struct tcp_header){
        .src_port = get_be16(p + TCP_OFF_SRC_PORT),
        .dst_port = get_be16(p + TCP_OFF_DST_PORT),
        .seq = get_be32(p + TCP_OFF_SEQ),
        .ack = get_be32(p + TCP_OFF_ACK),
        .flags = p[TCP_OFF_FLAGS],
        .window = get_be16(p + TCP_OFF_WINDOW),
    };
    *ret_len = len;
    return parse_options(span_of(p + TCP_HEADER_LEN, len - TCP_HEADER_LEN), &ret->options);
}

const char *tcp_parse_verdict_name(enum tcp_parse_verdict verdict)
{
    static const char *const names[TCP_PARSE_VERDICT_COUNT] = {
        [TCP_PARSE_OK] = "ok",
        [TCP_PARSE_TOO_SHORT] = "too short",
        [TCP_PARSE_DATA_OFFSET] = "data offset",
        [TCP_PARSE_OPTION_LEN] = "option length",
    };
    return verdict < TCP_PARSE_VERDICT_COUNT ? names[verdict] : "?";
}

static size_t padded(size_t len)
{
    return (len + 3) & ~(size_t)3;
}

size_t tcp_options_len(const struct tcp_options *o)
{
    return (o->mss != 0 ? MSS_LEN : 0) + (o->has_scale ? padded(SCALE_LEN) : 0) +
           (o->sack_permitted ? padded(SACK_PERMITTED_LEN) : 0) +
           (o->has_timestamps ? padded(TIMESTAMPS_LEN) : 0) +
           (o->sack_count > 0 ? padded(SACK_LEN + (size_t)o->sack_count * SACK_BLOCK_LEN) : 0);
}

// Begins an option behind as many no operations as make it end at a multiple of four; returns where
// its body is to be written. `*at` moves behind it.
static uint8_t *begin_option(uint8_t **at, enum tcp_option_kind kind, size_t len)
{
    for (size_t pad = padded(len) - len; pad > 0; pad--) {
        *(*at)++ = TCP_OPTION_NOP;
    }
    uint8_t *option = *at;
    option[0] = (uint8_t)kind;
    option[1] = (uint8_t)len;
    *at += len;
    return option + 2;
}

static void emit_options(const struct tcp_options *o, uint8_t *at)
{
    if (o->mss != 0) {
        put_be16(begin_option(&at, TCP_OPTION_MSS, MSS_LEN), o->mss);
    }
    if (o->has_scale) {
        *begin_option(&at, TCP_OPTION_SCALE, SCALE_LEN) = o->scale;
    }
    if (o->sack_permitted) {
        begin_option(&at, TCP_OPTION_SACK_PERMITTED, SACK_PERMITTED_LEN);
    }
    if (o->has_timestamps) {
        uint8_t *body = begin_option(&at, TCP_OPTION_TIMESTAMPS, TIMESTAMPS_LEN);
        put_be32(body, o->ts_value);
        put_be32(body + 4, o->ts_echo);
    }
    if (o->sack_count > 0) {
        uint8_t *body =
            begin_option(&at, TCP_OPTION_SACK, SACK_LEN + (size_t)o->sack_count * SACK_BLOCK_LEN);
        for (unsigned i = 0; i < o->sack_count; i++) {
            put_be32(body + i * SACK_BLOCK_LEN, o->sack[i].left);
            put_be32(body + i * SACK_BLOCK_LEN + 4, o->sack[i].right);
        }
    }
}

size_t tcp_header_emit(const struct tcp_header *h, uint8_t *buf)
{
    size_t options_len = tcp_options_len(&h->options);
    CHECK(options_len <= TCP_OPTIONS_MAX_LEN);
    size_t len = TCP_HEADER_LEN + options_len;
    put_be16(buf + TCP_OFF_SRC_PORT, h->src_port);
    put_be16(buf + TCP_OFF_DST_PORT, h->dst_port);
    put_be32(buf + TCP_OFF_SEQ, h->seq);
    put_be32(buf + TCP_OFF_ACK, h->ack);
    buf[TCP_OFF_DATA_OFFSET] = (uint8_t)(len / 4 << 4);
    buf[TCP_OFF_FLAGS] = h->flags;
    put_be16(buf + TCP_OFF_WINDOW, h->window);
    put_be16(buf + TCP_OFF_CHECKSUM, 0);
    put_be16(buf + TCP_OFF_URGENT, 0);
    emit_options(&h->options, buf + TCP_HEADER_LEN);
    return len;
}

const char *tcp_header_format(const struct tcp_header *h, char *buf, size_t len)
{
    static const struct {
        uint8_t bit;
        char letter;
    } letters[] = {{TCP_SYN, 'S'}, {TCP_FIN, 'F'}, {TCP_RST, 'R'}, {TCP_PSH, 'P'},
                   {TCP_ACK, 'A'}, {TCP_ECE, 'E'}, {TCP_CWR, 'W'}};
    char flags[sizeof letters / sizeof letters[0] + 1];
    size_t count = 0;
    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if ((h->flags & letters[i].bit) != 0) {
            flags[count++] = letters[i].letter;
        }
    }
    flags[count] = '\0';
    const struct tcp_options *o = &h->options;
    char options[128] = "";
    int at = 0;
    if (o->mss != 0) {
        at += snprintf(options + at, sizeof options - (size_t)at, " mss %u", o->mss);
    }
    if (o->has_scale) {
        at += snprintf(options + at, sizeof options - (size_t)at, " scale %u", o->scale);
    }
    if (o->sack_permitted) {
        at += snprintf(options + at, sizeof options - (size_t)at, " sack-ok");
    }
    for (unsigned i = 0; i < o->sack_count; i++) {
        at += snprintf(options + at, sizeof options - (size_t)at, " sack %u-%u", o->sack[i].left,
                       o->sack[i].right);
    }
    snprintf(buf, len, "%u > %u %s seq %u ack %u win %u%s", h->src_port, h->dst_port, flags, h->seq,
             h->ack, h->window, options);
    return buf;
}

void tcp_checksum_put(struct mspan header, struct span payload, uint64_t pseudo_sum)
{
    uint64_t sum = inet_sum_add(pseudo_sum, mspan_read(header));
    put_be16(header.ptr + TCP_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(sum, payload)));
}

bool tcp_checksum_is_good(struct span segment, uint64_t pseudo_sum)
{
    return inet_sum_fold(inet_sum_add(pseudo_sum, segment)) == 0;
}
