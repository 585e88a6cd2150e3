// A judge of RoCE packets: tshark reads a capture with one of each opcode, and finds the headers
// that it has, in every field what was put there, and nothing malformed. It does not check the ICRC
// (the captures of test_icrc do), but has to find it at the end.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "tests/wire/roce_samples.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum {
    LINKTYPE_RAW = 101,
    PACKET_MAX_LEN = IPV4_HEADER_LEN + UDP_HEADER_LEN + SAMPLE_MAX_LEN + ICRC_LEN,
    LINE_MAX_LEN = 1024,
};

static bool has_tshark(void)
{
    FILE *in = popen("command -v tshark", "r");
    assert_non_null(in);
    bool has_line = fgetc(in) != EOF;
    pclose(in);
    return has_line;
}

/* ---- the capture ----------------------------------------------------------------------------- */

// From IP header to ICRC. Returns the length.
static size_t make_packet(uint8_t opcode, uint8_t *packet)
{
    uint8_t *udp = packet + IPV4_HEADER_LEN, *bth = udp + UDP_HEADER_LEN;
    size_t len = roce_sample_emit(opcode, bth), udp_len = UDP_HEADER_LEN + len + ICRC_LEN;
    const struct ipv4_header ip = {.total_len = (uint16_t)(IPV4_HEADER_LEN + udp_len),
                                   .ttl = 64,
                                   .protocol = IP_PROTOCOL_UDP,
                                   .src = {192, 0, 2, 1},
                                   .dst = {192, 0, 2, 2}};
    uint32_t icrc;
    ipv4_header_emit(&ip, packet);
    put_be16(udp + UDP_OFF_SRC_PORT, 0xc000);
    put_be16(udp + UDP_OFF_DST_PORT, ROCE_UDP_PORT);
    put_be16(udp + UDP_OFF_LEN, (uint16_t)udp_len);
    put_be16(udp + UDP_OFF_CHECKSUM, 0);
    assert_true(icrc_of_packet(span_of(packet, ip.total_len - ICRC_LEN), &icrc));
    icrc_put(bth + len, icrc);
    return ip.total_len;
}

static void write_packet(FILE *out, uint8_t opcode)
{
    uint8_t packet[PACKET_MAX_LEN];
    uint32_t len = (uint32_t)make_packet(opcode, packet);
    const uint32_t record[4] = {0, 0, len, len};
    fwrite(record, sizeof record, 1, out);
    fwrite(packet, len, 1, out);
}

static void write_capture(int fd)
{
    const uint32_t head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, LINKTYPE_RAW};
    FILE *out = fdopen(fd, "w");
    assert_non_null(out);
    fwrite(head, sizeof head, 1, out);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_facts((uint8_t)opcode)->is_known) {
            write_packet(out, (uint8_t)opcode);
        }
    }
    fclose(out);
}

/* ---- what tshark finds ----------------------------------------------------------------------- */

// A field, the headers that have it, and what stands there in every sample that has one of them.
static const struct {
    unsigned headers; // 0: the BTH
    const char *field;
    const char *value;
} questions[] = {
    {0, "bth.p_key", "65535"},
    {0, "bth.destqp", "0x112233"},
    {0, "bth.psn", "4478310"},
    {ROCE_HAS_DETH, "deth.q_key", "0x00000000d1d2d3d4"},
    {ROCE_HAS_DETH, "deth.srcqp", "0x00d5d6d7"},
    {ROCE_HAS_RETH, "reth.dmalen", "58854"},
    {ROCE_HAS_ATOMICETH, "atomiceth.swapdt", "12804494279291877304"},
    {ROCE_HAS_ATOMICETH, "atomiceth.cmpdt", "13961937044701104072"},
    {ROCE_HAS_AETH, "aeth.syndrome", "31"},
    {ROCE_HAS_AETH, "aeth.msn", "15856371"},
    {ROCE_HAS_ATOMICACKETH, "atomicacketh.origremdt", "2387509390608836392"},
    {ROCE_HAS_IMMDT, "immdt", "31323334"},
    {ROCE_HAS_IETH, "ieth", "41424344"},
};

// Of RETH and AtomicETH, which have these under one name, at the end of a line.
static const char *address_of(unsigned headers)
{
    return headers & ROCE_HAS_RETH        ? ",0x0102030405060708,0xe1e2e3e4"
           : headers & ROCE_HAS_ATOMICETH ? ",0x1112131415161718,0xa1a2a3a4"
                                          : ",,";
}

static void ask(const char *path, char *command, size_t len)
{
    int at = snprintf(command, len,
                      "tshark --disable-protocol rpcordma --disable-protocol smb_direct -r %s "
                      "-T fields -E separator=, -E occurrence=f "
                      "-e infiniband.bth.opcode -e infiniband.bth.padcnt",
                      path);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        at += snprintf(command + at, len - (size_t)at, " -e infiniband.%s", questions[i].field);
    }
    snprintf(command + at, len - (size_t)at,
             " -e infiniband.reth.va -e infiniband.reth.r_key -e data -e infiniband.invariant.crc "
             "-e _ws.malformed 2>/dev/null");
}

// The line that tshark has to print for the sample of this opcode.
static void expect(uint8_t opcode, char *line, size_t len)
{
    const struct roce_opcode_facts *facts = roce_opcode_facts(opcode);
    bool has_payload = facts->payload != ROCE_PAYLOAD_NONE;
    uint8_t packet[PACKET_MAX_LEN];
    size_t packet_len = make_packet(opcode, packet);
    int at = snprintf(line, len, "%u,%u", opcode, has_payload ? 3 : 0);
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        bool has = questions[i].headers == 0 || (questions[i].headers & facts->headers) != 0;
        at += snprintf(line + at, len - (size_t)at, ",%s", has ? questions[i].value : "");
    }
    at += snprintf(line + at, len - (size_t)at, "%s", address_of(facts->headers));
    at += snprintf(line + at, len - (size_t)at, ",%s,", has_payload ? "5a5a5a5a5a000000" : "");
    if (facts->kind != ROCE_KIND_CNP) { // of which this tshark does not look for the ICRC
        at += snprintf(line + at, len - (size_t)at, "0x%08x",
                       get_be32(packet + packet_len - ICRC_LEN));
    }
    snprintf(line + at, len - (size_t)at, ",\n");
}

static void tshark_finds_in_each_field_what_was_put_there(void **state)
{
    if (!has_tshark()) {
        print_message("SKIP: no program tshark\n");
        skip();
    }
    char path[] = "/tmp/weft-roce-XXXXXX", command[2048], said[LINE_MAX_LEN];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_capture(fd);
    ask(path, command, sizeof command);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_facts((uint8_t)opcode)->is_known) {
            char expected[LINE_MAX_LEN];
            expect((uint8_t)opcode, expected, sizeof expected);
            assert_non_null(fgets(said, sizeof said, in));
            assert_string_equal(said, expected);
        }
    }
    assert_null(fgets(said, sizeof said, in));
    assert_int_equal(pclose(in), 0);
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tshark_finds_in_each_field_what_was_put_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
