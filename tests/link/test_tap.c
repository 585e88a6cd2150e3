// Our own TCP on a tap device, and the kernel's on the other side of it, in a network namespace.
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/device/fault.h"
#include "link/device/tap.h"
#include "link/packet/packet.h"
#include "tests/link/descriptors.h"
#include "tests/own_network.h"

enum { PORT = 7471, PIECE = 60000 };

static struct link *the_link;
static const char *why_not; // no namespace or no device here

static instant_ns real_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

/* ---- the namespace --------------------------------------------------------------------------- */

static int make_link(const char *device_text, const char *faults_text)
{
    struct device_tap_config tap;
    struct fault_config faults;
    struct device *device;
    assert_true(device_tap_config_parse(device_text, &tap));
    assert_true(fault_config_parse(faults_text, &faults));
    tap.seed = 1;
    struct link_packet_config config = {.tcp = tcp_config_default,
                                        .clock = real_clock,
                                        .secret = "sixteen octets!",
                                        .linger_ns = 10 * NS_PER_S};
    int error = device_tap_create(&tap, &device);
    if (error == 0 && !fault_config_is_none(&faults)) {
        error = device_fault_wrap(device, &faults, &device);
    }
    return error != 0 ? error : link_packet_create(&config, device, &the_link);
}

// We are 10.9.0.2 and fd09::2, the kernel is 10.9.0.1 and fd09::1.
static void begin(const char *device_text, const char *faults_text)
{
    own_network_skip(why_not);
    descriptors_note();
    assert_int_equal(make_link(device_text, faults_text), 0);
    assert_true(own_network_ips("address add 10.9.0.1/24 dev weft0\n"
                                "address add fd09::1/64 dev weft0 nodad\n"
                                "link set weft0 up\n"));
}

static void end(void)
{
    the_link->ops->destroy(the_link); // and with it the interface
    descriptors_check();
}

#define TAP       "tap:weft0,10.9.0.2/24,fd09::2/64"
#define TUN       "tun:weft0,10.9.0.2/24,fd09::2/64"
#define BAD_PATH  "loss=1%,reorder=2%,duplicate=1%,reorder-delay=500us,side=both,seed=2"
#define GOOD_PATH ""

static struct sockaddr_storage addr_of(int family, unsigned host, uint16_t port)
{
    struct sockaddr_storage ret = {.ss_family = (sa_family_t)family};
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&ret;
        v4->sin_port = htons(port);
        v4->sin_addr.s_addr = htonl(0x0a090000 + host);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ret;
        v6->sin6_port = htons(port);
        v6->sin6_addr.s6_addr[0] = 0xfd;
        v6->sin6_addr.s6_addr[1] = 9;
        v6->sin6_addr.s6_addr[15] = (uint8_t)host;
    }
    return ret;
}

static socklen_t len_of(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* ---- a stream between our TCP and the kernel's ----------------------------------------------- */

struct pair {
    struct link_stream *ours;
    int theirs;
};

static void look(void)
{
    struct link_ready ready[4];
    the_link->ops->wait(the_link, NS_PER_MS);
    the_link->ops->poll(the_link, ready, 4);
}

static struct pair connect_to_kernel(int family)
{
    struct pair p = {.theirs = -1};
    struct sockaddr_storage addr = addr_of(family, 1, PORT);
    int listener = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len_of(family)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &p.ours), 0);
    assert_int_equal(the_link->ops->connect(p.ours, (struct sockaddr *)&addr), -EINPROGRESS);
    for (int turn = 0; turn < 20000 && p.theirs < 0; turn++) {
        look();
        p.theirs = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    }
    assert_true(p.theirs >= 0);
    assert_int_equal(the_link->ops->connect_result(p.ours), 0);
    close(listener);
    return p;
}

static struct pair connect_from_kernel(int family)
{
    struct pair p = {0};
    struct link_stream *listener;
    struct sockaddr_storage addr = addr_of(family, 2, PORT);
    assert_int_equal(the_link->ops->bind(the_link, (struct sockaddr *)&addr, 0, NULL, &listener),
                     0);
    assert_int_equal(the_link->ops->listen(listener, 1), 0);
    p.theirs = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(p.theirs, (struct sockaddr *)&addr, len_of(family)), -1);
    assert_int_equal(errno, EINPROGRESS);
    for (int turn = 0; turn < 20000 && p.ours == NULL; turn++) {
        look();
        the_link->ops->accept(listener, &p.ours);
    }
    assert_non_null(p.ours);
    the_link->ops->close(listener, false);
    return p;
}

static uint8_t octet_at(size_t i)
{
    return (uint8_t)(i * 2654435761U >> 23);
}

static const uint8_t *octets_from(size_t from, size_t len)
{
    static uint8_t octets[PIECE];
    for (size_t i = 0; i < len; i++) {
        octets[i] = octet_at(from + i);
    }
    return octets;
}

static size_t less(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t put(struct pair *p, bool is_ours, size_t from, size_t left)
{
    size_t len = less(left, PIECE);
    const uint8_t *octets = octets_from(from, len);
    struct iovec iov = {(void *)octets, len};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    ssize_t taken = is_ours ? the_link->ops->send(p->ours, &tx)
                            : send(p->theirs, octets, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    assert_true(taken > 0 || (is_ours ? taken == -EAGAIN : errno == EAGAIN));
    return taken > 0 ? (size_t)taken : 0;
}

static size_t get(struct pair *p, bool is_ours, size_t from)
{
    static uint8_t octets[PIECE];
    ssize_t got = is_ours ? the_link->ops->recv(p->ours, mspan_of(octets, sizeof octets))
                          : recv(p->theirs, octets, sizeof octets, MSG_DONTWAIT);
    assert_true(got > 0 || (is_ours ? got == -EAGAIN : errno == EAGAIN));
    if (got > 0) {
        assert_memory_equal(octets, octets_from(from, (size_t)got), (size_t)got);
    }
    return got > 0 ? (size_t)got : 0;
}

// The same octets both ways at once.
static void transfer(struct pair *p, size_t len)
{
    size_t sent[2] = {0}, received[2] = {0};
    instant_ns give_up = real_clock(NULL) + 40 * NS_PER_S;
    while (received[0] < len || received[1] < len) {
        for (unsigned i = 0; i < 2; i++) {
            sent[i] += sent[i] < len ? put(p, i == 0, sent[i], len - sent[i]) : 0;
            received[i] += get(p, i == 0, received[i]);
        }
        look();
        assert_true(real_clock(NULL) < give_up);
    }
}

// Each tells the other its end.
static void part(struct pair *p)
{
    uint8_t octet;
    ssize_t end_of_ours = -EAGAIN;
    int end_of_theirs = -1;
    the_link->ops->shutdown(p->ours);
    shutdown(p->theirs, SHUT_WR);
    for (int turn = 0; turn < 20000 && (end_of_ours != 0 || end_of_theirs != 0); turn++) {
        look();
        end_of_ours = the_link->ops->recv(p->ours, mspan_of(&octet, 1));
        end_of_theirs = (int)recv(p->theirs, &octet, 1, MSG_DONTWAIT);
    }
    assert_int_equal(end_of_ours, 0);
    assert_int_equal(end_of_theirs, 0);
    close(p->theirs);
    the_link->ops->close(p->ours, false);
}

static void talk(const char *device_text, const char *faults_text, int family, size_t len)
{
    begin(device_text, faults_text);
    struct pair p = connect_to_kernel(family);
    transfer(&p, len);
    part(&p);
    p = connect_from_kernel(family);
    transfer(&p, len);
    part(&p);
    end();
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void octets_cross_in_ipv4(void **state)
{
    talk(TAP, GOOD_PATH, AF_INET, 3000000);
}

static void octets_cross_in_ipv6(void **state)
{
    talk(TAP, GOOD_PATH, AF_INET6, 3000000);
}

static void octets_cross_without_ethernet(void **state)
{
    talk(TUN, GOOD_PATH, AF_INET, 1000000);
    talk(TUN, GOOD_PATH, AF_INET6, 1000000);
}

static void checksums_of_our_own_are_right(void **state)
{
    talk(TAP ",nooffload", GOOD_PATH, AF_INET, 1000000);
    talk(TAP ",nooffload", GOOD_PATH, AF_INET6, 1000000);
}

static void octets_cross_a_path_that_loses_and_reorders(void **state)
{
    const char *soak = getenv("WEFT_SOAK");
    bool is_soak = soak != NULL && *soak == '1';
    talk(TAP, BAD_PATH, AF_INET, is_soak ? 50000000 : 500000);
    talk(TAP ",nooffload", BAD_PATH, AF_INET6, is_soak ? 50000000 : 500000);
}

static void refusals_cross_both_ways(void **state)
{
    begin(TAP, GOOD_PATH);
    struct sockaddr_storage theirs = addr_of(AF_INET, 1, PORT), ours = addr_of(AF_INET, 2, PORT);
    struct link_stream *s;
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &s), 0);
    assert_int_equal(the_link->ops->connect(s, (struct sockaddr *)&theirs), -EINPROGRESS);
    for (int turn = 0; turn < 20000 && the_link->ops->connect_result(s) == -EINPROGRESS; turn++) {
        look();
    }
    assert_int_equal(the_link->ops->connect_result(s), -ECONNREFUSED);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
    socklen_t len = sizeof error;
    assert_int_equal(connect(fd, (struct sockaddr *)&ours, len_of(AF_INET)), -1);
    for (int turn = 0; turn < 20000 && error == 0; turn++) {
        look();
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
    assert_int_equal(error, ECONNREFUSED);
    close(fd);
    end();
}

static void neighbour_that_is_not_there_is_unreachable(void **state)
{
    begin(TAP, GOOD_PATH);
    struct sockaddr_storage nobody = addr_of(AF_INET, 77, PORT);
    struct link_stream *s;
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &s), 0);
    assert_int_equal(the_link->ops->connect(s, (struct sockaddr *)&nobody), -EINPROGRESS);
    for (int turn = 0; turn < 20000 && the_link->ops->connect_result(s) == -EINPROGRESS; turn++) {
        look();
    }
    assert_int_equal(the_link->ops->connect_result(s), -EHOSTUNREACH);
    end();
}

static void interface_of_another_process_is_busy(void **state)
{
    struct device_tap_config config;
    struct device *second;
    begin(TAP, GOOD_PATH);
    assert_true(device_tap_config_parse(TAP, &config));
    assert_int_equal(device_tap_create(&config, &second), -EBUSY);
    end(); // and nothing of the second is left
}

// Its flags and MTU, as the system says.
static struct ifreq interface_asked(unsigned long what)
{
    struct ifreq request = {.ifr_name = "weft0"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(ioctl(fd, what, &request), 0);
    close(fd);
    return request;
}

static void interface_is_brought_up(void **state)
{
    own_network_skip(why_not);
    assert_int_equal(make_link(TAP, GOOD_PATH), 0);
    assert_true((interface_asked(SIOCGIFFLAGS).ifr_flags & IFF_UP) != 0);
    the_link->ops->destroy(the_link);
}

static void segments_are_as_long_as_the_interface_takes(void **state)
{
    enum { HEADERS = 40, TIMESTAMPS = 12 };
    begin(TAP, GOOD_PATH);
    struct pair p = connect_to_kernel(AF_INET);
    int mtu = interface_asked(SIOCGIFMTU).ifr_mtu;
    assert_int_equal(the_link->ops->emss(p.ours), mtu - HEADERS - TIMESTAMPS);
    part(&p);
    end();
    begin(TAP ",mtu=1280", GOOD_PATH);
    p = connect_to_kernel(AF_INET);
    assert_int_equal(the_link->ops->emss(p.ours), 1280 - HEADERS - TIMESTAMPS);
    part(&p);
    end();
}

static int bind_wildcard(int family, unsigned flags, struct link_stream **ret)
{
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    ((struct sockaddr_in *)&any)->sin_port = htons(PORT); // where sockaddr_in6 has its own too
    return the_link->ops->bind(the_link, (struct sockaddr *)&any, flags, NULL, ret);
}

static void wildcards_of_both_families_share_a_port_only_when_told_so(void **state)
{
    struct link_stream *v6, *v4, *none;
    begin(TAP, GOOD_PATH);
    assert_int_equal(bind_wildcard(AF_INET6, 0, &v6), 0);
    assert_int_equal(bind_wildcard(AF_INET, 0, &none), -EADDRINUSE);
    assert_int_equal(bind_wildcard(AF_INET6, LINK_BIND_V6_ONLY, &none), -EADDRINUSE);
    the_link->ops->close(v6, false);
    assert_int_equal(bind_wildcard(AF_INET, 0, &v4), 0);
    assert_int_equal(bind_wildcard(AF_INET6, 0, &none), -EADDRINUSE);
    assert_int_equal(bind_wildcard(AF_INET6, LINK_BIND_V6_ONLY, &v6), 0);
    end();
}

static void wake_ends_a_wait(void **state)
{
    struct link_ready ready[1];
    begin(TAP, GOOD_PATH);
    the_link->ops->wake(the_link);
    assert_int_equal(the_link->ops->poll(the_link, ready, 1), 0);
    the_link->ops->wait(the_link, INSTANT_NEVER);
    end();
}

static void link_that_nothing_happens_on_has_no_deadline(void **state)
{
    struct link_ready ready[1];
    begin(TAP, GOOD_PATH);
    the_link->ops->poll(the_link, ready, 1);
    assert_true(the_link->ops->next_deadline(the_link) > real_clock(NULL));
    end();
}

static void abandoned_link_holds_no_descriptor(void **state)
{
    int status = -1;
    begin(TAP, GOOD_PATH);
    pid_t child = fork();
    if (child == 0) {
        the_link->ops->abandon(the_link);
        _exit((int)descriptors_more());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end();
}

static void devices_are_read_as_they_are_written(void **state)
{
    struct device_tap_config c;
    assert_true(device_tap_config_parse(
        "tap:eth9,10.0.0.2/24,fd00::2/64,gateway=10.0.0.1,gateway=fd00::1,mtu=9000,ttl=3,"
        "nooffload",
        &c));
    assert_string_equal(c.name, "eth9");
    assert_false(c.is_tun);
    assert_int_equal(c.addr_count, 2);
    assert_int_equal(c.addrs[0].prefix_len, 24);
    assert_true(net_addr_is_ipv4(&c.addrs[0].addr));
    assert_int_equal(c.addrs[1].prefix_len, 64);
    assert_int_equal(c.mtu, 9000);
    assert_int_equal(c.ttl, 3);
    assert_false(c.offloads);
    assert_false(net_addr_is_any(&c.gateway_ipv4));
    assert_false(net_addr_is_any(&c.gateway_ipv6));
    assert_true(device_tap_config_parse("tun:t,1.2.3.4/32", &c));
    assert_true(c.is_tun);
}

static void devices_that_cannot_be_understood_are_refused(void **state)
{
    static const char *const wrong[] = {
        "tap",
        "tap:",
        "tap:weft0",
        "tap:,10.0.0.2/24",
        "tap:weft0,10.0.0.2",
        "tap:weft0,10.0.0.2/33",
        "tap:weft0,10.0.0.2/-1",
        "tap:weft0,0.0.0.0/0",
        "tap:weft0,224.0.0.1/24",
        "tap:weft0,fd00::2/129",
        "tap:weft0,10.0.0.2/24,mtu=100",
        "tap:weft0,10.0.0.2/24,ttl=0",
        "tap:weft0,10.0.0.2/24,ttl=256",
        "tap:weft0,10.0.0.2/24,gateway=x",
        "tap:weft0,10.0.0.2/24,bogus",
        "tap:a-name-of-sixteen,10.0.0.2/24",
    };
    struct device_tap_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(device_tap_config_parse(wrong[i], &c));
    }
}

// Asked without weft: what fails there is no reason to leave these tests out.
static void probe(void)
{
    struct ifreq request = {.ifr_name = "weft0", .ifr_flags = IFF_NO_PI | IFF_VNET_HDR | IFF_TAP};
    int fd = open("/dev/net/tun", O_RDWR);
    if (why_not == NULL && (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)) {
        why_not = "no tap device";
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_read_as_they_are_written),
        cmocka_unit_test(devices_that_cannot_be_understood_are_refused),
        cmocka_unit_test(octets_cross_in_ipv4),
        cmocka_unit_test(octets_cross_in_ipv6),
        cmocka_unit_test(octets_cross_without_ethernet),
        cmocka_unit_test(checksums_of_our_own_are_right),
        cmocka_unit_test(octets_cross_a_path_that_loses_and_reorders),
        cmocka_unit_test(refusals_cross_both_ways),
        cmocka_unit_test(neighbour_that_is_not_there_is_unreachable),
        cmocka_unit_test(interface_of_another_process_is_busy),
        cmocka_unit_test(interface_is_brought_up),
        cmocka_unit_test(segments_are_as_long_as_the_interface_takes),
        cmocka_unit_test(wildcards_of_both_families_share_a_port_only_when_told_so),
        cmocka_unit_test(wake_ends_a_wait),
        cmocka_unit_test(link_that_nothing_happens_on_has_no_deadline),
        cmocka_unit_test(abandoned_link_holds_no_descriptor),
    };
    why_not = own_network_enter();
    probe();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
