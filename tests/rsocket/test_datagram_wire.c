// What goes before a datagram, octet by octet.

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "rsocket/datagram.h"

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage addr = {0};
    struct sockaddr_in *a4 = (struct sockaddr_in *)&addr;
    struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&addr;
    if (inet_pton(AF_INET, text, &a4->sin_addr) == 1) {
        a4->sin_family = AF_INET;
        a4->sin_port = htons(port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &a6->sin6_addr), 1);
        a6->sin6_family = AF_INET6;
        a6->sin6_port = htons(port);
    }
    return addr;
}

static const struct rs_udp_header data = {.op = RS_OP_DATA, .qpn = 0x123456};

static const uint8_t udp_4[] = {0x55, 0x55, 0x55, 0x55, 4,  0, 16, 0,
                                0x00, 0x12, 0x34, 0x56, 10, 1, 2,  3};
static const uint8_t datagram_4[] = {4, 8, 0x1c, 0x06, 10, 1, 2, 3};
static const uint8_t datagram_6[] = {6,    24,   0x1c, 0x06, 0, 0, 0, 0, 0xfd, 0x00, 0, 0,
                                     0x00, 0x00, 0x00, 0x00, 0, 0, 0, 0, 0x00, 0x00, 0, 2};

static void test_header_over_udp(void **state)
{
    struct sockaddr_storage own = address_of("10.1.2.3", 7174);
    uint8_t buf[RS_UDP_HEADER_MAX];
    size_t len = rs_udp_header_emit(&data, (struct sockaddr *)&own, buf);
    assert_int_equal(len, sizeof udp_4);
    assert_memory_equal(buf, udp_4, sizeof udp_4);
}

static void test_header_over_udp_comes_back_in_both_families(void **state)
{
    static const char *const texts[] = {"10.1.2.3", "fd00::2"};
    const struct rs_udp_header answer = {.op = RS_OP_CONTROL, .qpn = RS_QPN_MASK};
    for (unsigned i = 0; i < 2; i++) {
        struct sockaddr_storage own = address_of(texts[i], 1);
        struct rs_udp_header parsed;
        uint8_t buf[RS_UDP_HEADER_MAX];
        size_t len = rs_udp_header_emit(&answer, (struct sockaddr *)&own, buf);
        assert_int_equal(rs_udp_header_parse(buf, len, (struct sockaddr *)&own, &parsed), len);
        assert_int_equal(parsed.op, RS_OP_CONTROL);
        assert_int_equal(parsed.qpn, RS_QPN_MASK);
    }
}

static void test_what_is_no_header_over_udp(void **state)
{
    static const struct {
        size_t at;
        uint8_t octet;
    } rows[] = {
        {3, 0x54}, // another tag
        {4, 6},    // of the other family
        {5, 4},    // neither data nor an answer
        {6, 28},   // another length
        {6, 15},
    };
    struct sockaddr_storage sender = address_of("10.1.2.3", 1);
    struct sockaddr *from = (struct sockaddr *)&sender;
    struct rs_udp_header parsed;
    assert_int_equal(rs_udp_header_parse(udp_4, sizeof udp_4 - 1, from, &parsed), 0);
    assert_int_equal(rs_udp_header_parse(udp_4, 0, from, &parsed), 0);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t changed[sizeof udp_4];
        memcpy(changed, udp_4, sizeof changed);
        changed[rows[i].at] = rows[i].octet;
        assert_int_equal(rs_udp_header_parse(changed, sizeof changed, from, &parsed), 0);
    }
}

static void test_header_between_queue_pairs(void **state)
{
    static const struct {
        const char *text;
        const uint8_t *octets;
        size_t len;
    } rows[] = {{"10.1.2.3", datagram_4, sizeof datagram_4},
                {"fd00::2", datagram_6, sizeof datagram_6}};
    for (unsigned i = 0; i < 2; i++) {
        struct sockaddr_storage own = address_of(rows[i].text, 7174), parsed;
        uint8_t buf[RS_DATAGRAM_HEADER_MAX];
        size_t len = rs_datagram_header_emit((struct sockaddr *)&own, buf);
        assert_int_equal(len, rows[i].len);
        assert_memory_equal(buf, rows[i].octets, len);
        assert_int_equal(rs_datagram_header_parse(buf, len, &parsed), len);
        assert_memory_equal(&parsed, &own, sizeof own);
        assert_int_equal(rs_datagram_header_parse(buf, len - 1, &parsed), 0);
    }
}

static void test_what_is_no_header_between_queue_pairs(void **state)
{
    static const uint8_t octets[][8] = {{5, 8}, {4, 24}, {6, 8}, {6, 24}, {0, 0}};
    struct sockaddr_storage parsed;
    for (unsigned i = 0; i < sizeof octets / sizeof octets[0]; i++) {
        assert_int_equal(rs_datagram_header_parse(octets[i], sizeof octets[i], &parsed), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_over_udp),
        cmocka_unit_test(test_header_over_udp_comes_back_in_both_families),
        cmocka_unit_test(test_what_is_no_header_over_udp),
        cmocka_unit_test(test_header_between_queue_pairs),
        cmocka_unit_test(test_what_is_no_header_between_queue_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
