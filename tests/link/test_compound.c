// A link of several, over loopback: by the kernel's TCP and by our own in UDP datagrams, each for
// its peers.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/link.h"
#include "host/link_kind.h"
#include "link/compound.h"
#include "link/sim.h"
#include "link/socket.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"
#include "tests/link/stranger.h"

/* ---- in text --------------------------------------------------------------------------------- */

static void prefixes_and_their_links_are_read(void **state)
{
    struct link_compound_config c;
    assert_true(link_compound_config_parse(
        "10.1.0.0/16=tap:weft0,10.1.0.2/16,gateway=10.1.0.1; fe80::/10=udp;10.2.0.7=udp;*=socket",
        &c));
    assert_int_equal(c.rule_count, 4);
    assert_int_equal(c.rules[0].prefix_len, 16);
    assert_true(net_addr_is_ipv4(&c.rules[0].prefix));
    assert_int_equal(c.rules[1].prefix_len, 10);
    assert_false(net_addr_is_ipv4(&c.rules[1].prefix));
    assert_int_equal(c.rules[2].prefix_len, 32);
    assert_true(c.rules[3].is_rest);
    assert_int_equal(c.member_count, 3);
    assert_int_equal(c.rules[1].member, c.rules[2].member);
    assert_string_equal(c.members[0].text, "tap:weft0,10.1.0.2/16,gateway=10.1.0.1");
    assert_string_equal(c.members[0].name, "tap.weft0");
    assert_string_equal(c.members[1].name, "udp");
    assert_string_equal(c.members[2].text, "socket");
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "socket",
        "*=",
        "=udp",
        "*=udp;",
        "10.1.0.0/33=udp",
        "fe80::/129=udp",
        "10.1.0.0/x=udp",
        "10.1/16=udp",
        "*=udp;*=socket",
        "10.1.0.0/16=udp;10.1.2.3/16=socket", // the same peers
        "*=10.0.0.0/8=udp",                   // a compound of compounds
        "10.0.0.0/8=*=udp",
        "1.0.0.0/8=a;2.0.0.0/8=b;3.0.0.0/8=c;4.0.0.0/8=d;5.0.0.0/8=e",
    };
    struct link_compound_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(link_compound_config_parse(wrong[i], &c));
        assert_false(*wrong[i] != 's' && host_link_is_known(wrong[i]));
    }
    assert_true(host_link_is_known("10.1.0.0/16=udp;*=socket"));
    assert_false(host_link_is_known("10.1.0.0/16=udp;*=pigeons"));
}

static int member_for(const struct link_compound_config *c, int family, const char *peer)
{
    struct sockaddr_storage addr = {.ss_family = (sa_family_t)family};
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&addr)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr;
    assert_int_equal(inet_pton(family, peer, at), 1);
    return link_compound_member_for(c, (const struct sockaddr *)&addr);
}

// Wherever it stands among the others.
static void longest_prefix_of_a_peer_has_it(void **state)
{
    const struct sockaddr unknown = {.sa_family = AF_UNIX};
    struct link_compound_config c;
    assert_true(link_compound_config_parse(
        "10.1.0.0/16=b;10.1.2.0/24=c;*=a;10.0.0.0/8=b;fe80::/10=c;::/0=d;10.1.2.3=d", &c));
    enum { B, C, A, D }; // in the order of their coming
    assert_int_equal(member_for(&c, AF_INET, "10.1.2.3"), D);
    assert_int_equal(member_for(&c, AF_INET, "10.1.2.4"), C);
    assert_int_equal(member_for(&c, AF_INET, "10.1.3.4"), B);
    assert_int_equal(member_for(&c, AF_INET, "11.1.2.3"), A); // no IPv6 prefix is for it
    assert_int_equal(member_for(&c, AF_INET6, "::ffff:10.1.2.3"), D);
    assert_int_equal(member_for(&c, AF_INET6, "fe80::1"), C);
    assert_int_equal(member_for(&c, AF_INET6, "fd00::1"), D);
    assert_int_equal(link_compound_member_for(&c, &unknown), -EAFNOSUPPORT);
    assert_true(link_compound_config_parse("10.0.0.0/8=a", &c));
    assert_int_equal(member_for(&c, AF_INET, "11.0.0.1"), -ENETUNREACH);
    assert_int_equal(member_for(&c, AF_INET6, "fd00::1"), -ENETUNREACH);
}

/* ---- links ----------------------------------------------------------------------------------- */

static struct link *link_of(const char *text)
{
    struct host_settings settings;
    struct link *link = NULL;
    host_settings_read(&settings);
    snprintf(settings.link, sizeof settings.link, "%s", text);
    assert_int_equal(host_link_create(&settings, NULL, &link), 0);
    return link;
}

// Members as the tests of the contract make them: they do not tell what is settled.
static int begin_with(const char *text)
{
    static const struct link_socket_config socket_config = {.peer_timeout_ns = 10 * NS_PER_S};
    struct link_compound_config config;
    struct link *members[LINK_COMPOUND_MEMBER_MAX];
    l = (struct loop){0};
    descriptors_note();
    assert_true(link_compound_config_parse(text, &config));
    for (unsigned i = 0; i < config.member_count; i++) {
        bool is_udp = strcmp(config.members[i].text, "udp") == 0;
        assert_int_equal(is_udp ? udp_link_make(&members[i])
                                : link_socket_create(&socket_config, &members[i]),
                         0);
    }
    return link_compound_create(&config, members, &the_link);
}

static int begin_udp(void **state)
{
    return begin_with("127.0.0.0/8=udp;*=socket");
}

static int begin_socket(void **state)
{
    return begin_with("127.0.0.0/8=socket;*=udp");
}

// As a process makes it. One address of loopback has another link than all others.
static int begin_both(void **state)
{
    l = (struct loop){0};
    descriptors_note();
    the_link = link_of("127.0.0.0/8=socket;127.0.0.2=udp");
    return 0;
}

static int end(void **state)
{
    link_destroy(the_link);
    descriptors_check();
    return 0;
}

static struct sockaddr_storage addr_at(const char *text, const struct link_stream *port_of)
{
    struct sockaddr_storage addr = {.ss_family = AF_INET}, local;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
    assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    if (port_of != NULL) {
        assert_int_equal(link_local_addr(port_of, &local), 0);
        v4->sin_port = ((struct sockaddr_in *)&local)->sin_port;
    }
    return addr;
}

static struct link_stream *bound_at(struct link *link, const char *text)
{
    struct sockaddr_storage addr = addr_at(text, NULL);
    struct link_stream *stream;
    assert_int_equal(link_bind(link, addr_of(&addr), 0, NULL, &stream), 0);
    return stream;
}

// Whoever listens at this place of `link` accepts; both ends come back.
static void connect_at(const char *text, struct link_stream *listener, struct link_stream *ret[2])
{
    struct sockaddr_storage addr = addr_at(text, listener);
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &ret[0]), 0);
    assert_int_equal(link_connect(ret[0], addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(the_link, listener) & LINK_READY_IN);
    assert_int_equal(link_accept(listener, &ret[1]), 0);
    assert_true(ready_of(the_link, ret[0]) & LINK_READY_OUT);
    assert_int_equal(link_connect_result(ret[0]), 0);
}

static void talk(struct link_stream *const ends[2], const char *text)
{
    char got[32];
    ssize_t len = (ssize_t)strlen(text);
    assert_int_equal(send_text(ends[0], text), len);
    assert_int_equal(recv_some(ends[1], got, sizeof got), len);
    assert_memory_equal(got, text, strlen(text));
}

static void process_speaks_with_one_peer_by_socket_and_with_another_by_udp(void **state)
{
    struct link_stream *by_socket[2], *by_udp[2];
    l.listener = bound_at(the_link, "0.0.0.0");
    assert_int_equal(link_listen(l.listener, 8), 0);
    connect_at("127.0.0.1", l.listener, by_socket);
    connect_at("127.0.0.2", l.listener, by_udp);
    uint64_t before = packets_counted(the_link, "udp.packets_in");
    talk(by_socket, "by the kernel");
    assert_int_equal(packets_counted(the_link, "udp.packets_in"), before);
    talk(by_udp, "by our own");
    assert_true(packets_counted(the_link, "udp.packets_in") > before);
    talk((struct link_stream *[]){by_socket[1], by_socket[0]}, "back");
    talk((struct link_stream *[]){by_udp[1], by_udp[0]}, "back");
    for (unsigned i = 0; i < 2; i++) { // both ends of each
        assert_int_equal(by_socket[i]->facts, 0);
        assert_true((by_udp[i]->facts & LINK_HAS_PLACES) != 0);
        assert_ptr_equal(by_udp[i]->link, the_link);
    }
    assert_true((the_link->facts & LINK_HAS_PLACES) != 0);
}

static void what_streams_count_is_asked_of_who_carries_them(void **state)
{
    struct link_stream *by_socket[2], *by_udp[2];
    struct counted c = {.name = "octets_out"};
    l.listener = bound_at(the_link, "0.0.0.0");
    assert_int_equal(link_listen(l.listener, 8), 0);
    connect_at("127.0.0.1", l.listener, by_socket);
    connect_at("127.0.0.2", l.listener, by_udp);
    talk(by_socket, "kernel");
    talk(by_udp, "own");
    link_stream_counters(the_link, by_socket[0], counted_take, &c);
    assert_int_equal(c.found, 0);
    assert_int_equal(tcp_counted(the_link, by_udp[0], "octets_out"), 3);
    link_close(by_udp[0], true);
    assert_int_equal(tcp_counted(the_link, NULL, "octets_out"), 3);
}

static void port_is_taken_on_all_members_until_one_carries(void **state)
{
    struct link *plain[] = {link_of("socket"), link_of("udp")};
    struct link_stream *second, *stream = bound_at(the_link, "127.0.0.1");
    struct sockaddr_storage addr = addr_at("127.0.0.1", stream);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(link_bind(plain[i], addr_of(&addr), 0, NULL, &second), -EADDRINUSE);
    }
    l.listener = bound_at(the_link, "127.0.0.1");
    assert_int_equal(link_listen(l.listener, 1), 0);
    struct sockaddr_storage to = addr_at("127.0.0.1", l.listener);
    assert_int_equal(link_connect(stream, addr_of(&to)), -EINPROGRESS); // by socket
    assert_int_equal(link_bind(plain[0], addr_of(&addr), 0, NULL, &second), -EADDRINUSE);
    assert_int_equal(link_bind(plain[1], addr_of(&addr), 0, NULL, &second), 0);
    link_destroy(plain[0]);
    link_destroy(plain[1]);
}

static void port_that_one_member_has_not_is_refused(void **state)
{
    enum { TRIES = 10 }; // a port that is drawn for UDP somebody else may have for TCP
    struct link *plain = link_of("udp");
    int error = -EADDRINUSE;
    for (unsigned i = 0; i < TRIES && error == -EADDRINUSE; i++) {
        struct link_stream *stream, *other = bound_at(plain, "127.0.0.1");
        struct sockaddr_storage addr = addr_at("127.0.0.1", other);
        assert_int_equal(link_bind(the_link, addr_of(&addr), 0, NULL, &stream), -EADDRINUSE);
        link_close(other, true);
        error = link_bind(the_link, addr_of(&addr), 0, NULL, &stream);
    }
    assert_int_equal(error, 0);
    link_destroy(plain);
}

// Both have something to report all the time, and there is room for one report.
static void members_are_looked_at_in_turn(void **state)
{
    struct link_stream *by_socket[2], *by_udp[2];
    struct link_ready ready[1];
    unsigned seen[2] = {0};
    l.listener = bound_at(the_link, "0.0.0.0");
    assert_int_equal(link_listen(l.listener, 8), 0);
    connect_at("127.0.0.1", l.listener, by_socket);
    connect_at("127.0.0.2", l.listener, by_udp);
    link_want_out(by_socket[0], true);
    link_want_out(by_udp[0], true);
    for (unsigned i = 0; i < 20; i++) {
        if (link_poll(the_link, ready, 1) == 1) {
            seen[0] += ready[0].stream == by_socket[0];
            seen[1] += ready[0].stream == by_udp[0];
        }
    }
    assert_in_range(seen[0], 8, 12);
    assert_in_range(seen[1], 8, 12);
}

static void peer_that_no_prefix_has_is_not_reached(void **state)
{
    struct sockaddr_storage addr = loopback(AF_INET6), from;
    ((struct sockaddr_in6 *)&addr)->sin6_port = htons(1);
    assert_int_equal(link_bind(the_link, NULL, 0, NULL, &l.active), 0);
    assert_int_equal(link_connect(l.active, addr_of(&addr)), -ENETUNREACH);
    assert_int_equal(link_route(the_link, addr_of(&addr), &from), -ENETUNREACH);
}

static void tos_is_told_to_whoever_will_carry_it(void **state)
{
    struct link_stream *ends[2];
    l.listener = bound_at(the_link, "0.0.0.0");
    assert_int_equal(link_set_tos(l.listener, 0x48), 0);
    assert_int_equal(link_listen(l.listener, 8), 0);
    connect_at("127.0.0.2", l.listener, ends);
    assert_int_equal(link_set_tos(ends[0], 0x48), 0);
    talk(ends, "marked");
}

/* ---- members that are not as others ---------------------------------------------------------- */

static struct link_ops picky_ops;
static const struct link_ops *plain_ops;
static unsigned refusals_left;
static int refusal;

static int picky_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                      struct link_stream **ret)
{
    if (addr != NULL && refusals_left > 0) {
        refusals_left--;
        return refusal;
    }
    return plain_ops->bind(link, addr, flags, owner, ret);
}

// Of a socket link, and of one more that refuses so many places with this error.
static int begin_picky(unsigned refusals, int error)
{
    struct link_compound_config config;
    descriptors_note();
    struct link *members[] = {link_of("socket"), link_of("udp")};
    assert_true(link_compound_config_parse("127.0.0.1=socket;*=udp", &config));
    plain_ops = members[1]->ops;
    picky_ops = *plain_ops;
    picky_ops.bind = picky_bind;
    members[1]->ops = &picky_ops;
    refusals_left = refusals;
    refusal = error;
    return link_compound_create(&config, members, &the_link);
}

static void address_that_a_member_has_not_is_left_to_the_others(void **state)
{
    assert_int_equal(begin_picky(2, -EADDRNOTAVAIL), 0);
    l.listener = bound_at(the_link, "127.0.0.1");
    assert_int_equal(link_listen(l.listener, 1), 0);
    l.active = bound_at(the_link, "127.0.0.1");
    struct sockaddr_storage of_other = addr_at("127.0.0.2", l.listener);
    struct sockaddr_storage own = addr_at("127.0.0.1", l.listener);
    assert_int_equal(link_connect(l.active, addr_of(&of_other)), -EADDRNOTAVAIL);
    assert_int_equal(link_connect(l.active, addr_of(&own)), -EINPROGRESS);
    end(NULL);
}

static void free_port_is_looked_for_until_all_members_have_it(void **state)
{
    struct link_stream *stream;
    struct sockaddr_storage any = addr_at("127.0.0.1", NULL);
    assert_int_equal(begin_picky(3, -EADDRINUSE), 0);
    assert_int_equal(link_bind(the_link, addr_of(&any), 0, NULL, &stream), 0);
    assert_int_equal(refusals_left, 0);
    refusals_left = 1000;
    assert_int_equal(link_bind(the_link, addr_of(&any), 0, NULL, &stream), -EADDRINUSE);
    assert_true(refusals_left > 900); // there is an end to it
    end(NULL);
}

static void member_without_a_descriptor_is_refused(void **state)
{
    static const struct sim_net_config net_config = {.window_len = 1000};
    const struct in_addr addr = {htonl(0x0a000001)};
    struct sim_net *net = sim_net_create(&net_config);
    struct link *member = sim_net_attach(net, &addr, 1), *link = NULL;
    struct link_compound_config config;
    assert_true(link_compound_config_parse("*=sim", &config));
    descriptors_note();
    assert_int_equal(link_compound_create(&config, &member, &link), -EOPNOTSUPP);
    assert_null(link);
    descriptors_check();
    link_destroy(member);
    sim_net_destroy(net);
}

int main(void)
{
#define TEST_OF(name, begin) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)              TEST_OF(name, begin_udp),
#define Y(name)              {#name "_by_socket", name, begin_socket, end, NULL},
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_and_their_links_are_read),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(longest_prefix_of_a_peer_has_it),
        CONTRACT_TESTS(X) CONTRACT_TESTS(Y)
            TEST_OF(process_speaks_with_one_peer_by_socket_and_with_another_by_udp, begin_both),
        TEST_OF(what_streams_count_is_asked_of_who_carries_them, begin_both),
        TEST_OF(port_is_taken_on_all_members_until_one_carries, begin_both),
        TEST_OF(port_that_one_member_has_not_is_refused, begin_both),
        TEST_OF(members_are_looked_at_in_turn, begin_both),
        TEST_OF(peer_that_no_prefix_has_is_not_reached, begin_both),
        TEST_OF(tos_is_told_to_whoever_will_carry_it, begin_both),
        cmocka_unit_test(address_that_a_member_has_not_is_left_to_the_others),
        cmocka_unit_test(free_port_is_looked_for_until_all_members_have_it),
        cmocka_unit_test(member_without_a_descriptor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
