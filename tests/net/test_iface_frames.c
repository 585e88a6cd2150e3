// The frames that an interface sends, octet by octet: questions to neighbours, answers, segments.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/time.h"
#include "link/packet/cut.h"
#include "net/iface.h"
#include "tests/octets.h"
#include "wire/tcp.h"

enum { FRAME_MAX = 256, FRAMES_MAX = 8, MTU = 1500 };

static struct net_iface iface;
static uint8_t sent[FRAMES_MAX][FRAME_MAX];
static size_t sent_len[FRAMES_MAX];
static unsigned sent_count;

static bool on_send(void *ctx, const struct net_frame *frame)
{
    size_t len = 0;
    assert_true(sent_count < FRAMES_MAX);
    for (unsigned i = 0; i < frame->iov_count; i++) {
        assert_true(len + frame->iov[i].iov_len <= FRAME_MAX);
        if (frame->iov[i].iov_len > 0) {
            memcpy(sent[sent_count] + len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        }
        len += frame->iov[i].iov_len;
    }
    sent_len[sent_count++] = len;
    return true;
}

static struct net_addr v4(uint8_t last)
{
    const uint8_t octets[] = {10, 7, 0, last};
    return net_addr_from_ipv4(octets);
}

static struct net_addr v6(uint8_t last)
{
    return (struct net_addr){{0xfd, [15] = last}};
}

// 10.7.0.1/24 and fd00::1/64 at 02:00:00:00:00:01.
static int begin(void **state)
{
    const struct net_iface_config config = {.addrs = {{v4(1), 24}, {v6(1), 64}},
                                            .addr_count = 2,
                                            .mtu = MTU,
                                            .has_ethernet = true,
                                            .eth = {{2, 0, 0, 0, 0, 1}},
                                            .port = {.send = on_send}};
    sent_count = 0;
    net_iface_init(&iface, &config);
    return 0;
}

/* ---- octets as text -------------------------------------------------------------------------- */

static enum net_arrival_kind give(const char *text)
{
    static uint8_t frame[FRAME_MAX];
    struct net_arrival arrival;
    size_t len = octets_of(text, frame, sizeof frame);
    net_iface_on_frame(&iface, span_of(frame, len), false, 0, &arrival);
    return arrival.kind;
}

static void expect_sent(unsigned index, const char *text)
{
    uint8_t wanted[FRAME_MAX];
    size_t len = octets_of(text, wanted, sizeof wanted);
    assert_true(index < sent_count);
    assert_int_equal(sent_len[index], len);
    assert_memory_equal(sent[index], wanted, len);
}

static enum net_sent send_segment(struct net_addr local, struct net_addr remote)
{
    const struct net_flow flow = {
        .local = local, .remote = remote, .local_port = 7471, .remote_port = 40000};
    struct iovec iov = {"abc", 3};
    struct tcp_batch batch = {
        .header = {.src_port = 7471, .dst_port = 40000, .seq = 5, .flags = TCP_ACK},
        .segment_count = 1,
        .segment_len = 3,
        .payload_len = 3,
        .iov = &iov,
        .iov_count = 1};
    static struct packet_cut cut;
    unsigned count;
    return net_iface_send(&iface, &flow, 8, packet_cut(&cut, &batch, false), 0, &count);
}

// MUST-49 of RFC 9293: it can be set. That of neighbour discovery is 255 always.
static void lifetime_of_packets_is_the_interface_s(void **state)
{
    const uint8_t set[] = {0, 5}, found[] = {NET_HOPS_DEFAULT, 5};
    for (unsigned i = 0; i < 2; i++) {
        struct net_iface_config config = iface.config;
        config.hops = set[i];
        config.has_ethernet = false;
        sent_count = 0;
        net_iface_init(&iface, &config);
        assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT);
        assert_int_equal(send_segment(v6(1), v6(2)), NET_SENT);
        assert_int_equal(sent[0][IPV4_OFF_TTL], found[i]);
        assert_int_equal(sent[1][IPV6_OFF_HOP_LIMIT], found[i]);
    }
}

/* ---- ARP ------------------------------------------------------------------------------------- */

#define ARP_ANSWER                                                               \
    "020000000001 020000000002 0806 0001 0800 06 04 0002 020000000002 0a070002 " \
    "020000000001 0a070001"
#define ARP_QUESTION                                                             \
    "ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a070002 " \
    "000000000000 0a070001"

static void question_by_arp_is_to_everybody(void **state)
{
    assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT_NO_ROOM);
    assert_int_equal(sent_count, 1);
    expect_sent(0, "ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a070001 "
                   "000000000000 0a070002");
    assert_int_equal(iface.counters.frames_out, 1);
}

static void question_by_arp_is_answered_to_who_asked(void **state)
{
    assert_int_equal(give(ARP_QUESTION), NET_ARRIVAL_ROOM);
    assert_int_equal(sent_count, 1);
    expect_sent(0, "020000000002 020000000001 0806 0001 0800 06 04 0002 020000000001 0a070001 "
                   "020000000002 0a070002");
}

// Known by an answer for 30 s; then asked itself, and no longer everybody.
static void neighbour_that_was_known_is_asked_itself(void **state)
{
    send_segment(v4(1), v4(2));
    assert_int_equal(give(ARP_ANSWER), NET_ARRIVAL_ROOM);
    assert_false(net_iface_on_deadline(&iface, 1 * NS_PER_S)); // that of the question
    assert_int_equal(net_iface_next_deadline(&iface), 30 * NS_PER_S);
    assert_false(net_iface_on_deadline(&iface, 30 * NS_PER_S));
    sent_count = 0;
    assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT);
    assert_int_equal(sent_count, 2);
    expect_sent(0, "020000000002 020000000001 0806 0001 0800 06 04 0001 020000000001 0a070001 "
                   "000000000000 0a070002");
}

static void arp_that_makes_no_sense_is_counted(void **state)
{
    assert_int_equal(give("ffffffffffff 020000000002 0806 0002 0800 06 04 0001 020000000002 "
                          "0a070002 000000000000 0a070001"),
                     NET_ARRIVAL_NOTHING);
    assert_int_equal(iface.counters.bad_icmp, 1);
    assert_int_equal(sent_count, 0);
}

// A group has no station of its own: who says so is not believed.
static void neighbour_with_the_address_of_a_group_is_not_learned(void **state)
{
    send_segment(v4(1), v4(2));
    assert_int_equal(give("020000000001 020000000002 0806 0001 0800 06 04 0002 010000000002 "
                          "0a070002 020000000001 0a070001"),
                     NET_ARRIVAL_NOTHING);
    assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT_NO_ROOM);
}

/* ---- neighbour discovery --------------------------------------------------------------------- */

#define IP6_TO_US "fd000000000000000000000000000002 fd000000000000000000000000000001 "
#define ADVERTISEMENT                                                                     \
    "020000000001 020000000002 86dd 60000000 0020 3a ff " IP6_TO_US "8800 1c9a 60000000 " \
    "fd000000000000000000000000000002 0201 020000000002"

static void solicitation_is_to_the_group_of_the_address(void **state)
{
    assert_int_equal(send_segment(v6(1), v6(2)), NET_SENT_NO_ROOM);
    assert_int_equal(sent_count, 1);
    expect_sent(0, "3333ff000002 020000000001 86dd 60000000 0020 3a ff "
                   "fd000000000000000000000000000001 ff0200000000000000000001ff000002 8700 7d97 "
                   "00000000 fd000000000000000000000000000002 0101 020000000001");
}

static void solicitation_of_a_neighbour_that_was_known_is_to_itself(void **state)
{
    send_segment(v6(1), v6(2));
    assert_int_equal(give(ADVERTISEMENT), NET_ARRIVAL_ROOM);
    net_iface_on_deadline(&iface, 30 * NS_PER_S);
    sent_count = 0;
    assert_int_equal(send_segment(v6(1), v6(2)), NET_SENT);
    expect_sent(0, "020000000002 020000000001 86dd 60000000 0020 3a ff "
                   "fd000000000000000000000000000001 fd000000000000000000000000000002 8700 7e9b "
                   "00000000 fd000000000000000000000000000002 0101 020000000001");
}

static void solicitation_is_answered(void **state)
{
    assert_int_equal(give("3333ff000001 020000000002 86dd 60000000 0020 3a ff "
                          "fd000000000000000000000000000002 ff0200000000000000000001ff000001 8700 "
                          "7d97 00000000 fd000000000000000000000000000001 0101 020000000002"),
                     NET_ARRIVAL_ROOM);
    assert_int_equal(sent_count, 1);
    expect_sent(0, "020000000002 020000000001 86dd 60000000 0020 3a ff "
                   "fd000000000000000000000000000001 fd000000000000000000000000000002 8800 1c9c "
                   "60000000 fd000000000000000000000000000001 0201 020000000001");
    assert_int_equal(iface.counters.questions_in, 1);
}

// The group of our address is also that of others.
static void solicitation_of_another_address_of_the_group_is_counted(void **state)
{
    assert_int_equal(give("3333ff000001 020000000002 86dd 60000000 0020 3a ff "
                          "fd000000000000000000000000000002 ff0200000000000000000001ff000001 8700 "
                          "7d96 00000000 fd010000000000000000000000000001 0101 020000000002"),
                     NET_ARRIVAL_NOTHING);
    assert_int_equal(sent_count, 0);
    assert_int_equal(iface.counters.of_others, 1);
}

// Nor is the group of no address ours, though places of the configuration have none.
static void solicitation_in_the_group_of_no_address_of_ours_is_counted(void **state)
{
    assert_int_equal(give("3333ff000000 020000000002 86dd 60000000 0020 3a ff "
                          "fd000000000000000000000000000002 ff0200000000000000000001ff000000 8700 "
                          "7d98 00000000 fd000000000000000000000000000001 0101 020000000002"),
                     NET_ARRIVAL_NOTHING);
    assert_int_equal(sent_count, 0);
    assert_int_equal(iface.counters.of_others, 1);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void segments_have_numbers_that_count_up(void **state)
{
    send_segment(v4(1), v4(2));
    give(ARP_ANSWER);
    sent_count = 0;
    assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT);
    assert_int_equal(send_segment(v4(1), v4(2)), NET_SENT);
    expect_sent(0, "020000000002 020000000001 0800 4508 002b 0000 4000 40 06 26b5 0a070001 "
                   "0a070002 1d2f 9c40 00000005 00000000 5010 0000 1dea 0000 616263");
    expect_sent(1, "020000000002 020000000001 0800 4508 002b 0001 4000 40 06 26b4 0a070001 "
                   "0a070002 1d2f 9c40 00000005 00000000 5010 0000 1dea 0000 616263");
}

static void segment_over_ipv6_has_its_length_and_class(void **state)
{
    send_segment(v6(1), v6(2));
    give(ADVERTISEMENT);
    sent_count = 0;
    assert_int_equal(send_segment(v6(1), v6(2)), NET_SENT);
    expect_sent(0, "020000000002 020000000001 86dd 60800000 0017 06 40 "
                   "fd000000000000000000000000000001 fd000000000000000000000000000002 1d2f 9c40 "
                   "00000005 00000000 5010 0000 37f6 0000 616263");
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lifetime_of_packets_is_the_interface_s),
        TEST(question_by_arp_is_to_everybody),
        TEST(question_by_arp_is_answered_to_who_asked),
        TEST(neighbour_that_was_known_is_asked_itself),
        TEST(arp_that_makes_no_sense_is_counted),
        TEST(neighbour_with_the_address_of_a_group_is_not_learned),
        TEST(solicitation_is_to_the_group_of_the_address),
        TEST(solicitation_of_a_neighbour_that_was_known_is_to_itself),
        TEST(solicitation_is_answered),
        TEST(solicitation_of_another_address_of_the_group_is_counted),
        TEST(solicitation_in_the_group_of_no_address_of_ours_is_counted),
        TEST(segments_have_numbers_that_count_up),
        TEST(segment_over_ipv6_has_its_length_and_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
