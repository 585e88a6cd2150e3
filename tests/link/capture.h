// A capture file read back packet by packet.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/span.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { CAPTURE_BEGIN = 24 }; // behind the file's header

static uint8_t capture[1 << 20];
static size_t capture_len;

struct packet {
    int family;
    struct tcp_header tcp;
    struct span payload;
};

static inline void capture_read(const char *path)
{
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    capture_len = fread(capture, 1, sizeof capture, in);
    fclose(in);
    assert_true(capture_len >= CAPTURE_BEGIN);
    uint32_t magic;
    memcpy(&magic, capture, 4);
    assert_int_equal(magic, 0xa1b23c4d);
}

static inline uint64_t pseudo_sum_of(const uint8_t *ip, size_t len)
{
    struct ipv4_header v4 = {.protocol = IP_PROTOCOL_TCP};
    struct ipv6_header v6 = {.next_header = IP_PROTOCOL_TCP};
    memcpy(v4.src, ip + IPV4_OFF_SRC, 4);
    memcpy(v4.dst, ip + IPV4_OFF_DST, 4);
    memcpy(v6.src, ip + IPV6_OFF_SRC, 16);
    memcpy(v6.dst, ip + IPV6_OFF_DST, 16);
    return ip[0] >> 4 == 4 ? inet_sum_ipv4(&v4, (uint32_t)len) : inet_sum_ipv6(&v6, (uint32_t)len);
}

// The packet at *at, its lengths and checksums proven; false at the end.
static inline bool packet_next(size_t *at, struct packet *ret)
{
    uint32_t record[4];
    if (*at == capture_len) {
        return false;
    }
    assert_true(capture_len - *at >= sizeof record);
    memcpy(record, capture + *at, sizeof record);
    const uint8_t *ip = capture + *at + sizeof record;
    *at += sizeof record + record[2];
    assert_int_equal(record[2], record[3]);
    assert_true(*at <= capture_len);

    bool is_v4 = ip[0] >> 4 == 4;
    size_t ip_len = is_v4 ? IPV4_HEADER_LEN : IPV6_HEADER_LEN, len = record[2] - ip_len;
    if (is_v4) {
        assert_int_equal(get_be16(ip + IPV4_OFF_TOTAL_LEN), record[2]);
        assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(ip, ip_len))), 0);
    } else {
        assert_int_equal(get_be16(ip + IPV6_OFF_PAYLOAD_LEN), len);
    }
    const uint8_t *tcp = ip + ip_len;
    uint64_t sum = inet_sum_add(pseudo_sum_of(ip, len), span_of(tcp, len));
    assert_int_equal(inet_sum_fold(sum), 0);
    size_t tcp_len = (size_t)(tcp[TCP_OFF_DATA_OFFSET] >> 4) * 4;
    *ret = (struct packet){.family = is_v4 ? AF_INET : AF_INET6,
                           .tcp = {.src_port = get_be16(tcp + TCP_OFF_SRC_PORT),
                                   .seq = get_be32(tcp + TCP_OFF_SEQ),
                                   .ack = get_be32(tcp + TCP_OFF_ACK),
                                   .flags = tcp[TCP_OFF_FLAGS]},
                           .payload = span_of(tcp + tcp_len, len - tcp_len)};
    return true;
}
