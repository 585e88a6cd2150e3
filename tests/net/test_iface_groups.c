// An interface tells its network of groups: the packets octet by octet, and whose queries it
// believes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "net/iface.h"
#include "tests/octets.h"
#include "wire/membership.h"

enum { FRAME_MAX = 1024, FRAMES_MAX = 64, MTU = 1500 };

static struct net_iface iface;
static uint8_t sent[FRAMES_MAX][FRAME_MAX];
static size_t sent_len[FRAMES_MAX];
static unsigned sent_count;
static const instant_ns later_ns = 1000 * NS_PER_S, asked_ns = 1002 * NS_PER_S;

static bool on_send(void *ctx, const struct net_frame *frame)
{
    size_t len = 0;
    assert_true(sent_count < FRAMES_MAX);
    for (unsigned i = 0; i < frame->iov_count; i++) {
        assert_true(len + frame->iov[i].iov_len <= FRAME_MAX);
        memcpy(sent[sent_count] + len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        len += frame->iov[i].iov_len;
    }
    sent_len[sent_count++] = len;
    return true;
}

static struct net_addr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    const uint8_t octets[] = {a, b, c, d};
    return net_addr_from_ipv4(octets);
}

static struct net_addr v6(uint8_t first, uint8_t second, uint8_t last)
{
    return (struct net_addr){{first, second, [15] = last}};
}

// 10.7.0.1/24 and fd00::1/64 at 02:00:00:00:00:01.
static struct net_iface_config config_of(void)
{
    return (struct net_iface_config){.addrs = {{v4(10, 7, 0, 1), 24}, {v6(0xfd, 0, 1), 64}},
                                     .addr_count = 2,
                                     .mtu = MTU,
                                     .has_ethernet = true,
                                     .eth = {{2, 0, 0, 0, 0, 1}},
                                     .reports_groups = true,
                                     .port = {.send = on_send}};
}

// All that is due up to an instant.
static void run_until(instant_ns end)
{
    for (instant_ns at; (at = net_iface_next_deadline(&iface)) <= end;) {
        net_iface_on_deadline(&iface, at);
    }
}

static void make(const struct net_iface_config *config)
{
    net_iface_init(&iface, config);
    run_until(later_ns - NS_PER_S);
    sent_count = 0;
    iface.counters = (struct net_iface_counters){0};
}

static int begin(void **state)
{
    const struct net_iface_config config = config_of();
    make(&config);
    return 0;
}

static void join(struct net_addr group)
{
    assert_true(net_iface_join(&iface, &group, later_ns));
}

static void leave(struct net_addr group)
{
    net_iface_leave(&iface, &group, asked_ns + 20 * NS_PER_S);
}

/* ---- octets as text -------------------------------------------------------------------------- */

static void expect_sent(unsigned index, const char *text)
{
    uint8_t wanted[FRAME_MAX];
    size_t len = octets_of(text, wanted, sizeof wanted);
    assert_true(index < sent_count);
    assert_int_equal(sent_len[index], len);
    assert_memory_equal(sent[index], wanted, len);
}

/* ---- queries --------------------------------------------------------------------------------- */

struct question {
    struct net_addr from, to;
    uint8_t hops;
    bool has_no_alert;
    unsigned version;      // 3 of IGMP, 2 of MLD: the newest; less is older
    struct net_addr about; // all zero: all
    bool is_damaged;
};

static struct question igmp_question(void)
{
    return (struct question){
        .from = v4(10, 7, 0, 9), .to = v4(224, 0, 0, 1), .hops = 1, .version = 3};
}

static struct question mld_question(void)
{
    return (struct question){
        .from = v6(0xfe, 0x80, 9), .to = v6(0xff, 2, 1), .hops = 1, .version = 2};
}

static size_t message_put(const struct question *q, bool is_ipv6, uint8_t *at)
{
    const unsigned newest = is_ipv6 ? 2 : 3;
    const size_t old_len = is_ipv6 ? MLD_LEN : IGMP_LEN;
    const struct net_flow flow = {.local = q->from, .remote = q->to};
    memset(at, 0, MLD_OFF_SOURCES);
    at[0] = is_ipv6 ? ICMPV6_LISTENER_QUERY : IGMP_QUERY;
    if (is_ipv6) {
        at[MLD_OFF_MAX_RESP + 1] = 200;
        memcpy(at + MLD_OFF_GROUP, q->about.octets, IPV6_ADDR_LEN);
    } else {
        at[IGMP_OFF_MAX_RESP] = q->version == 1 ? 0 : 2;
        memcpy(at + IGMP_OFF_GROUP, net_addr_ipv4(&q->about), IPV4_ADDR_LEN);
    }
    const size_t len = old_len + (q->version == newest ? 4 : 0);
    const uint64_t sum =
        is_ipv6 ? net_flow_pseudo_sum(&flow, IP_PROTOCOL_ICMPV6, (uint32_t)len) : 0;
    put_be16(at + 2, inet_sum_fold(inet_sum_add(sum, span_of(at, len))));
    at[2] ^= q->is_damaged;
    return len;
}

static void ask(const struct question *q)
{
    uint8_t message[MLD_OFF_SOURCES], frame[200] = {1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 9};
    const bool is_ipv6 = !net_addr_is_ipv4(&q->to);
    const struct net_flow flow = {.local = q->from, .remote = q->to};
    const size_t len = message_put(q, is_ipv6, message);
    const struct net_packet packet = {.protocol = is_ipv6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_IGMP,
                                      .hops = q->hops,
                                      .has_alert = !q->has_no_alert,
                                      .body_len = len};
    struct net_arrival arrival;
    if (!net_addr_is_multicast(&q->to)) {
        memcpy(frame, iface.config.eth.octets, ETH_ADDR_LEN);
    }
    put_be16(frame + 12, is_ipv6 ? ETH_TYPE_IPV6 : ETH_TYPE_IPV4);
    const size_t headers_len = 14 + net_flow_ip_emit(&flow, &packet, frame + 14);
    memcpy(frame + headers_len, message, len);
    net_iface_on_frame(&iface, span_of(frame, headers_len + len), false, asked_ns, &arrival);
    assert_int_equal(arrival.kind, NET_ARRIVAL_NOTHING);
}

// How many reports an answer has; `sent` is empty before.
static unsigned answers_to(struct question q)
{
    run_until(asked_ns);
    sent_count = 0;
    ask(&q);
    run_until(asked_ns + 20 * NS_PER_S);
    return sent_count;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

// Precedence 6, TTL 1, DF, the alert; to 224.0.0.22. tshark agrees: tests/link/test_tap_groups.c.
#define IGMP_HEADERS "01005e000016 020000000001 0800 46c0 0028 0000 4000 01 02 "

static void joining_is_reported_by_igmp_3(void **state)
{
    const struct net_iface_config config = config_of();
    net_iface_init(&iface, &config); // nothing was sent before: the identification is 0
    sent_count = 0;
    join(v4(239, 1, 2, 3));
    expect_sent(0, IGMP_HEADERS "f9f1 0a070001 e0000016 94040000"
                                "2200 e8f9 0000 0001 04000000 ef010203");
    assert_int_equal(iface.counters.reports_out, 2); // and that of its IPv6 address
}

static void leaving_is_reported_by_igmp_3(void **state)
{
    join(v4(239, 1, 2, 3));
    run_until(later_ns + NS_PER_S);
    sent_count = 0;
    leave(v4(239, 1, 2, 3));
    assert_int_equal(sent_count, 1);
    assert_int_equal(sent[0][14 + 24 + 8], RECORD_TO_INCLUDE);
}

// From the link-local address that is made of the Ethernet one: routers hear no other.
static void joining_is_reported_by_mld_2(void **state)
{
    join(v6(0xff, 0x0e, 9));
    expect_sent(0, "333300000016 020000000001 86dd 60000000 0024 00 01"
                   "fe80000000000000 000000fffe000001 ff020000000000000000000000000016"
                   "3a00 05020000 0100"
                   "8f00 70f5 0000 0001 04000000 ff0e0000000000000000000000000009");
}

static void link_local_address_of_its_own_is_preferred(void **state)
{
    struct net_iface_config config = config_of();
    config.addrs[config.addr_count++] = (struct net_iface_addr){v6(0xfe, 0x80, 7), 64};
    make(&config);
    join(v6(0xff, 0x0e, 9));
    assert_memory_equal(sent[0] + 14 + IPV6_OFF_SRC, v6(0xfe, 0x80, 7).octets, IPV6_ADDR_LEN);
}

static void who_has_no_address_reports_from_nobody_s(void **state)
{
    static const uint8_t nobody[IPV6_ADDR_LEN];
    struct net_iface_config config = config_of();
    config.addr_count = 0;
    config.has_ethernet = false;
    make(&config);
    join(v4(239, 1, 2, 3));
    join(v6(0xff, 0x0e, 9));
    assert_int_equal(sent_count, 2);
    assert_memory_equal(sent[0] + IPV4_OFF_SRC, nobody, IPV4_ADDR_LEN);
    assert_memory_equal(sent[1] + IPV6_OFF_SRC, nobody, IPV6_ADDR_LEN);
}

static void older_queriers_get_older_messages(void **state)
{
    static const struct {
        unsigned version;
        uint8_t report, leave;
    } igmp[] = {{1, IGMP_REPORT_1, 0}, {2, IGMP_REPORT_2, IGMP_LEAVE}};
    for (unsigned i = 0; i < 2; i++) {
        struct question q = igmp_question();
        begin(NULL);
        q.version = igmp[i].version;
        join(v4(239, 1, 2, 3));
        assert_int_equal(answers_to(q), 1);
        assert_int_equal(sent[0][14 + 24], igmp[i].report);
        assert_memory_equal(sent[0] + 14 + IPV4_OFF_DST, "\xef\x01\x02\x03", IPV4_ADDR_LEN);
        assert_memory_equal(sent[0], "\x01\x00\x5e\x01\x02\x03", ETH_ADDR_LEN);
        leave(v4(239, 1, 2, 3));
        assert_int_equal(sent_count, igmp[i].leave != 0 ? 2 : 1);
    }
    assert_int_equal(sent[1][14 + 24], IGMP_LEAVE);
    assert_memory_equal(sent[1] + 14 + IPV4_OFF_DST, "\xe0\x00\x00\x02", IPV4_ADDR_LEN);
}

static void older_queriers_of_ipv6_get_older_messages(void **state)
{
    struct question q = mld_question();
    q.version = 1;
    q.about = v6(0, 0, 0);
    join(v6(0xff, 0x0e, 9));
    assert_int_equal(answers_to(q), 2); // its address's neighbours ask in another
    const unsigned at = sent[0][14 + IPV6_OFF_DST + 1] == 0x0e ? 0 : 1;
    assert_int_equal(sent[at][14 + 48], ICMPV6_LISTENER_REPORT);
    assert_memory_equal(sent[at] + 14 + IPV6_OFF_DST, v6(0xff, 0x0e, 9).octets, IPV6_ADDR_LEN);
    leave(v6(0xff, 0x0e, 9));
    assert_int_equal(sent[2][14 + 48], ICMPV6_LISTENER_DONE);
    assert_memory_equal(sent[2] + 14 + IPV6_OFF_DST, v6(0xff, 2, 2).octets, IPV6_ADDR_LEN);
}

// At 1500 octets, 26 records a packet, whatever the family: they fit the least MTU.
static void many_groups_are_reported_in_few_packets(void **state)
{
    for (uint8_t i = 0; i < 32; i++) {
        join(v6(0xff, 0x0e, i));
    }
    assert_int_equal(answers_to(mld_question()), 2);
    assert_int_equal(get_be16(sent[0] + 14 + 48 + MLD_OFF_RECORD_COUNT), 26);
    assert_int_equal(get_be16(sent[1] + 14 + 48 + MLD_OFF_RECORD_COUNT), 33 - 26);
    assert_true(sent_len[0] <= 14 + NET_MTU_MIN);
}

// A switch that looks on would keep questions for its address from it.
static void where_its_ipv6_address_is_asked_for_is_a_group_that_it_reports(void **state)
{
    const struct net_iface_config config = config_of();
    net_iface_init(&iface, &config);
    sent_count = 0;
    run_until(later_ns);
    assert_int_equal(sent_count, 2); // and again
    assert_memory_equal(sent[0] + sent_len[0] - IPV6_ADDR_LEN,
                        "\xff\x02\0\0\0\0\0\0\0\0\0\x01\xff\0\0\x01", IPV6_ADDR_LEN);
}

static void who_is_not_to_report_is_silent(void **state)
{
    struct net_iface_config config = config_of();
    config.reports_groups = false;
    make(&config);
    join(v4(239, 1, 2, 3));
    assert_int_equal(answers_to(igmp_question()), 0);
    assert_int_equal(iface.counters.other_protocols + iface.counters.of_others, 1);
    struct question q = mld_question();
    q.to = v6(0xfd, 0, 1); // ours
    assert_int_equal(answers_to(q), 0);
    assert_int_equal(iface.counters.queries_in, 0);
    assert_int_equal(net_iface_next_deadline(&iface), INSTANT_NEVER);
}

static void the_group_where_it_is_asked_for_is_left_by_nobody(void **state)
{
    const struct net_addr group = {{0xff, 2, [11] = 1, [12] = 0xff, [15] = 1}};
    join(group);
    leave(group);
    run_until(later_ns + 100 * NS_PER_S);
    assert_int_equal(sent_count, 0);
    assert_int_equal(answers_to(mld_question()), 1);
}

/* ---- who is believed ------------------------------------------------------------------------- */

static void expect_answer(struct question q)
{
    assert_int_equal(answers_to(q), 1);
    assert_int_equal(iface.counters.queries_in, 1);
    assert_int_equal(iface.counters.bad_queries, 0);
}

static void expect_refusal(struct question q, const uint64_t *counter)
{
    const uint64_t before = *counter;
    assert_int_equal(answers_to(q), 0);
    assert_int_equal(*counter, before + 1);
    assert_int_equal(iface.counters.queries_in, 0);
}

static void query_of_igmp_is_answered(void **state)
{
    join(v4(239, 1, 2, 3));
    expect_answer(igmp_question());
    assert_int_equal(sent[0][14 + 24 + 8], RECORD_IS_EXCLUDE);
}

static void query_of_a_switch_without_an_address_is_answered(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.from = v4(0, 0, 0, 0);
    expect_answer(q);
}

static void query_about_one_group_comes_to_it(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.about = q.to = v4(239, 1, 2, 3);
    expect_answer(q);
}

static void query_to_us_is_believed_from_the_link(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.to = v4(10, 7, 0, 1);
    expect_answer(q);
    q.from = v4(10, 9, 0, 9);
    assert_int_equal(answers_to(q), 0);
    assert_int_equal(iface.counters.bad_queries, 1);
}

// It has no alert, and whatever stands where later ones have their group.
static void first_igmp_is_believed_at_no_other_address_either(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.version = 1;
    q.about = q.to = v4(239, 1, 2, 3);
    expect_refusal(q, &iface.counters.bad_queries);
    q.to = v4(10, 7, 0, 1);
    q.from = v4(10, 9, 0, 9);
    expect_refusal(q, &iface.counters.bad_queries);
}

static void igmp_that_was_forwarded_is_not_believed(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.hops = 2;
    expect_refusal(q, &iface.counters.bad_queries);
}

static void igmp_without_the_alert_is_not_believed(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.has_no_alert = true;
    expect_refusal(q, &iface.counters.bad_queries);
    q.version = 2;
    expect_refusal(q, &iface.counters.bad_queries);
    q.version = 1; // which had none
    assert_int_equal(answers_to(q), 1);
}

static void query_about_all_at_another_address_is_not_believed(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.to = v4(239, 1, 2, 3);
    expect_refusal(q, &iface.counters.bad_queries);
}

static void igmp_from_an_impossible_sender_is_not_believed(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.from = v4(10, 7, 0, 1); // ours
    expect_refusal(q, &iface.counters.bad_queries);
    q.from = v4(239, 1, 2, 3);
    expect_refusal(q, &iface.counters.bad_queries);
}

static void damaged_igmp_is_refused(void **state)
{
    struct question q = igmp_question();
    join(v4(239, 1, 2, 3));
    q.is_damaged = true;
    expect_refusal(q, &iface.counters.bad_checksums);
}

static void query_of_mld_is_answered(void **state)
{
    expect_answer(mld_question());
    assert_int_equal(sent[0][14 + 48 + 8], RECORD_IS_EXCLUDE);
}

static void mld_that_may_have_been_forwarded_is_not_believed(void **state)
{
    struct question q = mld_question();
    q.hops = 2;
    expect_refusal(q, &iface.counters.bad_queries);
    q = mld_question();
    q.has_no_alert = true;
    expect_refusal(q, &iface.counters.bad_queries);
    q = mld_question();
    q.from = v6(0xfd, 0, 9);
    expect_refusal(q, &iface.counters.bad_queries);
}

static void damaged_mld_is_refused(void **state)
{
    struct question q = mld_question();
    q.is_damaged = true;
    expect_refusal(q, &iface.counters.bad_checksums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(joining_is_reported_by_igmp_3, begin),
        cmocka_unit_test_setup(leaving_is_reported_by_igmp_3, begin),
        cmocka_unit_test_setup(joining_is_reported_by_mld_2, begin),
        cmocka_unit_test_setup(link_local_address_of_its_own_is_preferred, begin),
        cmocka_unit_test_setup(who_has_no_address_reports_from_nobody_s, begin),
        cmocka_unit_test_setup(older_queriers_get_older_messages, begin),
        cmocka_unit_test_setup(older_queriers_of_ipv6_get_older_messages, begin),
        cmocka_unit_test_setup(many_groups_are_reported_in_few_packets, begin),
        cmocka_unit_test_setup(where_its_ipv6_address_is_asked_for_is_a_group_that_it_reports,
                               begin),
        cmocka_unit_test_setup(who_is_not_to_report_is_silent, begin),
        cmocka_unit_test_setup(the_group_where_it_is_asked_for_is_left_by_nobody, begin),
        cmocka_unit_test_setup(query_of_igmp_is_answered, begin),
        cmocka_unit_test_setup(query_of_a_switch_without_an_address_is_answered, begin),
        cmocka_unit_test_setup(query_about_one_group_comes_to_it, begin),
        cmocka_unit_test_setup(query_to_us_is_believed_from_the_link, begin),
        cmocka_unit_test_setup(first_igmp_is_believed_at_no_other_address_either, begin),
        cmocka_unit_test_setup(igmp_that_was_forwarded_is_not_believed, begin),
        cmocka_unit_test_setup(igmp_without_the_alert_is_not_believed, begin),
        cmocka_unit_test_setup(query_about_all_at_another_address_is_not_believed, begin),
        cmocka_unit_test_setup(igmp_from_an_impossible_sender_is_not_believed, begin),
        cmocka_unit_test_setup(damaged_igmp_is_refused, begin),
        cmocka_unit_test_setup(query_of_mld_is_answered, begin),
        cmocka_unit_test_setup(mld_that_may_have_been_forwarded_is_not_believed, begin),
        cmocka_unit_test_setup(damaged_mld_is_refused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
