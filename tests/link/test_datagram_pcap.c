// The capture of packets, read back octet by octet; with tshark on this machine, read by it too.
// And all that a datagram link does, through it.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/datagram/pcap.h"
#include "tests/link/capture.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/datagram_sim_pair.h"
#include "wire/icrc.h"
#include "wire/udp_header.h"

enum { ROCE_PORT = 4791, RECORD_LEN = 16 };

static char path[64];
static struct got got[2];
static uint8_t payload[300];

static int begin(void **state)
{
    net_make((struct datagram_net_config){.mtu = 0}, "");
    snprintf(path, sizeof path, "/tmp/weft-test-datagrams-%d", (int)getpid());
    for (unsigned i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)i;
    }
    return datagram_pcap_wrap(pair.link[0], path, ROCE_PORT, &pair.link[0]);
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    datagram_net_destroy(net);
    return unlink(path);
}

static void cross(int family, uint32_t psn, size_t len)
{
    struct datagram_path way = pair_path(family);
    way.traffic_class = 0x6a;
    way.hop_limit = 7;
    way.flow_label = 0x12345;
    assert_true(pair_put(&way, psn, span_of(payload, len)));
    assert_true(datagram_flush(pair.link[0]));
    assert_int_equal(pair_take(1, got, 1), 1);
}

// The packet that is next in the capture, without its record.
static struct span next_packet(size_t *at)
{
    uint32_t record[4];
    assert_true(*at + RECORD_LEN <= capture_len);
    memcpy(record, capture + *at, sizeof record);
    struct span packet = span_of(capture + *at + RECORD_LEN, record[2]);
    *at += RECORD_LEN + record[2];
    assert_true(*at <= capture_len);
    return packet;
}

static void capture_read_after_flush(void)
{
    datagram_flush(pair.link[0]);
    capture_read(path);
}

static void sent_packet_is_in_the_file_with_its_headers(void **state)
{
    size_t at = CAPTURE_BEGIN;
    uint32_t icrc;
    struct ipv4_header ip;
    struct span body;
    pair_open();
    cross(AF_INET, 5, 101);
    capture_read(path);
    struct span packet = next_packet(&at);
    assert_int_equal(at, capture_len);
    assert_int_equal(ipv4_header_parse(packet, &ip, &body), IP_PARSE_OK);
    assert_int_equal(ip.tos, 0x6a);
    assert_int_equal(ip.ttl, 7);
    assert_memory_equal(ip.dst, pair.ipv4[1].s6_addr + 12, sizeof ip.dst);
    assert_int_equal(get_be16(body.ptr + UDP_OFF_SRC_PORT), PAIR_SOURCE_PORT);
    assert_int_equal(get_be16(body.ptr + UDP_OFF_DST_PORT), ROCE_PORT);
    assert_int_equal(get_be16(body.ptr + UDP_OFF_LEN), body.len);
    assert_int_equal(body.len, UDP_HEADER_LEN + got[0].rx.octets.len + ICRC_LEN);
    assert_memory_equal(body.ptr + UDP_HEADER_LEN, got[0].octets, got[0].rx.octets.len);
    assert_true(icrc_of_packet(span_of(packet.ptr, packet.len - ICRC_LEN), &icrc));
    assert_int_equal(icrc_get(packet.ptr + packet.len - ICRC_LEN), icrc);
    assert_int_equal(inet_sum_fold(inet_sum_add(inet_sum_ipv4(&ip, (uint32_t)body.len), body)), 0);
}

static void packets_of_ipv6_have_a_right_checksum(void **state)
{
    size_t at = CAPTURE_BEGIN;
    struct ipv6_header ip;
    struct span body;
    pair_open();
    cross(AF_INET6, 5, 64);
    capture_read(path);
    assert_int_equal(ipv6_header_parse(next_packet(&at), &ip, &body), IP_PARSE_OK);
    assert_int_equal(ip.traffic_class, 0x6a);
    assert_int_equal(ip.hop_limit, 7);
    assert_int_equal(ip.flow_label, 0x12345);
    assert_memory_equal(ip.src, &pair.ipv6[0], sizeof ip.src);
    assert_memory_equal(ip.dst, &pair.ipv6[1], sizeof ip.dst);
    assert_int_equal(inet_sum_fold(inet_sum_add(inet_sum_ipv6(&ip, (uint32_t)body.len), body)), 0);
}

static void received_packets_are_in_the_file_too(void **state)
{
    struct datagram_path way = {
        .local = pair.ipv4[1], .remote = pair.ipv4[0], .source_port = PAIR_SOURCE_PORT};
    uint8_t head[PAIR_HEAD_LEN];
    size_t at = CAPTURE_BEGIN;
    pair_open();
    pair_head(head, 0, 77);
    struct datagram_tx tx = {.path = &way, .head = span_of(head, sizeof head)};
    assert_true(datagram_put(pair.link[1], &tx));
    datagram_flush(pair.link[1]);
    assert_int_equal(pair_take(0, got, 1), 1);
    capture_read(path);
    struct span packet = next_packet(&at);
    assert_memory_equal(packet.ptr + IPV4_OFF_SRC, pair.ipv4[1].s6_addr + 12, IPV4_ADDR_LEN);
    assert_memory_equal(packet.ptr + IPV4_HEADER_LEN + UDP_HEADER_LEN, head, sizeof head);
}

// What a path leaves to the link stands in the file as the link has it.
static void packet_without_a_port_or_hop_limit_has_the_usual_ones(void **state)
{
    struct datagram_path way = pair_path(AF_INET);
    size_t at = CAPTURE_BEGIN;
    struct ipv4_header ip;
    struct span body;
    way.source_port = 0;
    way.hop_limit = 0;
    pair.link[0]->hops.ipv4 = 4;
    pair_open();
    assert_true(pair_put(&way, 5, span_of(payload, 8)));
    capture_read_after_flush();
    assert_int_equal(ipv4_header_parse(next_packet(&at), &ip, &body), IP_PARSE_OK);
    assert_int_equal(ip.ttl, 4);
    assert_int_equal(get_be16(body.ptr + UDP_OFF_SRC_PORT), 0xc000);
}

static void pieces_and_padding_of_a_packet_are_in_the_file(void **state)
{
    struct datagram_path way = pair_path(AF_INET);
    uint8_t head[PAIR_HEAD_LEN];
    struct span pieces[] = {span_of(payload + 100, 10), span_of(payload + 50, 3)};
    size_t at = CAPTURE_BEGIN;
    pair_open();
    pair_head(head, 1, 5);
    struct datagram_tx tx = {.path = &way,
                             .head = span_of(head, sizeof head),
                             .pieces = pieces,
                             .piece_count = 2,
                             .pad_len = 3};
    assert_true(datagram_put(pair.link[0], &tx));
    capture_read_after_flush();
    struct span packet = next_packet(&at);
    const uint8_t *body = packet.ptr + IPV4_HEADER_LEN + UDP_HEADER_LEN;
    assert_int_equal(packet.len,
                     IPV4_HEADER_LEN + UDP_HEADER_LEN + PAIR_HEAD_LEN + 10 + 3 + 3 + ICRC_LEN);
    assert_memory_equal(body, head, PAIR_HEAD_LEN);
    assert_memory_equal(body + PAIR_HEAD_LEN, payload + 100, 10);
    assert_memory_equal(body + PAIR_HEAD_LEN + 10, payload + 50, 3);
    assert_memory_equal(body + PAIR_HEAD_LEN + 13, ((uint8_t[]){0, 0, 0}), 3);
}

static void what_was_not_taken_is_not_recorded(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    datagram_net_destroy(net);
    net_make((struct datagram_net_config){.send_rate = 1000, .send_buffer_len = 1}, "");
    assert_int_equal(datagram_pcap_wrap(pair.link[0], path, ROCE_PORT, &pair.link[0]), 0);
    struct datagram_path way = pair_path(AF_INET);
    size_t at = CAPTURE_BEGIN;
    pair_open();
    assert_true(pair_put(&way, 0, span_of(payload, 8)));
    assert_false(pair_put(&way, 1, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    capture_read(path);
    next_packet(&at);
    assert_int_equal(at, capture_len);
}

static bool has_tshark(void)
{
    FILE *out = popen("command -v tshark", "r");
    assert_non_null(out);
    bool is_found = fgetc(out) == '/';
    pclose(out);
    return is_found;
}

static void wireshark_reads_it(void **state)
{
    char command[256], line[256] = "";
    if (!has_tshark()) {
        print_message("SKIP: no tshark on this machine\n");
        skip();
    }
    pair_open();
    cross(AF_INET, 0xabcdef, 101);
    snprintf(command, sizeof command,
             "tshark -r %s -T fields -E separator=, -e udp.dstport -e infiniband.bth.opcode"
             " -e infiniband.bth.psn -e infiniband.invariant.crc 2>/dev/null",
             path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(line, sizeof line, out));
    pclose(out);
    capture_read(path);
    char expected[64];
    snprintf(expected, sizeof expected, "4791,100,%u,0x%08x\n", 0xabcdef,
             get_be32(capture + capture_len - ICRC_LEN));
    assert_string_equal(line, expected);
}

static void file_that_cannot_be_written_is_named(void **state)
{
    struct datagram_link *wrapped = NULL;
    assert_int_equal(datagram_pcap_wrap(pair.link[1], "/nowhere/at/all", ROCE_PORT, &wrapped),
                     -ENOENT);
    assert_null(wrapped);
}

int main(void)
{
#define PCAP_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)         PCAP_TEST(name),
    const struct CMUnitTest tests[] = {
        DATAGRAM_CONTRACT_TESTS(X) PCAP_TEST(sent_packet_is_in_the_file_with_its_headers),
        PCAP_TEST(packets_of_ipv6_have_a_right_checksum),
        PCAP_TEST(received_packets_are_in_the_file_too),
        PCAP_TEST(packet_without_a_port_or_hop_limit_has_the_usual_ones),
        PCAP_TEST(pieces_and_padding_of_a_packet_are_in_the_file),
        PCAP_TEST(what_was_not_taken_is_not_recorded),
        PCAP_TEST(wireshark_reads_it),
        PCAP_TEST(file_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
