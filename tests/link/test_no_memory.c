// Links are made, and connect, while the Nth allocation fails, for every N, and while descriptors
// run out: whoever is asked says so, and what it had taken is given back.
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "link/compound.h"
#include "link/datagram/fault.h"
#include "link/datagram/pcap.h"
#include "link/datagram/sim.h"
#include "link/datagram/udp.h"
#include "link/device/fault.h"
#include "link/device/udp.h"
#include "link/packet/cut.h"
#include "link/packet/packet.h"
#include "link/pcap/pcap.h"
#include "link/sim.h"
#include "link/socket.h"
#include "link/wire.h"
#include "tests/failing_memory.h"
#include "tests/link/descriptors.h"
#include "tests/link/loop.h"
#include "tests/own_port.h"

enum { CALLS_MAX = 200, TURNS_OF_THE_POOR = 20, TURNS = 20000 };

static char path[64]; // of what is recorded

static instant_ns real_clock(void *ctx)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

/* ---- the links ------------------------------------------------------------------------------- */

static int socket_make(struct link **ret)
{
    static const struct link_socket_config config;
    return link_socket_create(&config, ret);
}

static int recorded_socket_make(struct link **ret)
{
    struct link *inner;
    int error = socket_make(&inner);
    if (error == 0) {
        error = link_pcap_wrap(inner, path, ret);
        if (error != 0) {
            inner->ops->destroy(inner);
        }
    }
    return error;
}

static int packet_make(struct device *device, struct link **ret)
{
    const struct link_packet_config config = {.tcp = tcp_config_default,
                                              .clock = real_clock,
                                              .secret = "sixteen octets!",
                                              .linger_ns = NS_PER_S};
    return link_packet_create(&config, device, ret);
}

static int udp_make(struct link **ret)
{
    static const struct device_udp_config udp = {.transport = &packet_transport};
    struct device *device;
    int error = device_udp_create(&udp, &device);
    return error != 0 ? error : packet_make(device, ret);
}

// Every segment is late, and so is held in memory.
static int late_udp_make(struct link **ret)
{
    static const struct device_udp_config udp = {.transport = &packet_transport};
    struct fault_config late;
    struct device *device, *faulty;
    int error = device_udp_create(&udp, &device);
    assert_true(fault_config_parse("delay=100us", &late));
    if (error == 0) {
        error = device_fault_wrap(device, &late, &faulty);
        if (error != 0) {
            device->ops->destroy(device);
        }
    }
    return error != 0 ? error : packet_make(faulty, ret);
}

static int recorded_udp_make(struct link **ret)
{
    static const struct device_udp_config udp = {.transport = &packet_transport};
    struct device *device, *recorded;
    int error = device_udp_create(&udp, &device);
    if (error == 0) {
        error = device_pcap_wrap(device, path, &recorded);
        if (error != 0) {
            device->ops->destroy(device);
        }
    }
    return error != 0 ? error : packet_make(recorded, ret);
}

static int compound_make(struct link **ret)
{
    struct link_compound_config config;
    struct link *members[2];
    assert_true(link_compound_config_parse("127.0.0.1=udp;*=socket", &config));
    int error = udp_make(&members[0]);
    if (error != 0) {
        return error;
    }
    error = socket_make(&members[1]);
    if (error != 0) {
        link_destroy(members[0]);
        return error;
    }
    error = link_compound_create(&config, members, ret);
    for (unsigned i = 0; error != 0 && i < 2; i++) {
        link_destroy(members[i]);
    }
    return error;
}

static int (*const makers[])(struct link **ret) = {
    socket_make, recorded_socket_make, udp_make, late_udp_make, recorded_udp_make, compound_make,
};
enum { KINDS = sizeof makers / sizeof makers[0] };

/* ---- a connection ---------------------------------------------------------------------------- */

// Looks until the call says something else than "not yet". Who has been refused memory once may
// wait for ever: for him a few looks are enough.
static int until_known(struct link *link, int (*ask)(struct loop *), struct loop *l)
{
    struct link_ready ready[4];
    int known = -EAGAIN;
    bool is_poor = false;
    for (unsigned turn = 0; (known == -EAGAIN || known == -EINPROGRESS) &&
                            turn < (is_poor ? TURNS_OF_THE_POOR : TURNS);
         turn++) {
        link->ops->poll(link, ready, 4);
        known = ask(l);
        link->ops->wait(link, NS_PER_MS);
        is_poor = memory_fails_at != 0 && memory_calls >= memory_fails_at;
    }
    return known;
}

static int ask_accept(struct loop *l)
{
    return l->link->ops->accept(l->listener, &l->passive);
}

static int ask_result(struct loop *l)
{
    return l->link->ops->connect_result(l->active);
}

static int ask_octets(struct loop *l)
{
    char got[8];
    ssize_t len = l->link->ops->recv(l->passive, mspan_of(got, sizeof got));
    return len > 0 ? 0 : (int)len;
}

static int connect_and_say(struct link *link)
{
    struct loop l = {.link = link};
    struct sockaddr_storage addr = loopback(AF_INET);
    int error = link->ops->bind(link, addr_of(&addr), 0, NULL, &l.listener);
    error = error != 0 ? error : link->ops->listen(l.listener, 4);
    error = error != 0 ? error : link->ops->local_addr(l.listener, &addr);
    error = error != 0 ? error : link->ops->bind(link, NULL, 0, NULL, &l.active);
    error = error != 0 ? error : link->ops->connect(l.active, addr_of(&addr));
    error = error != 0 && error != -EINPROGRESS ? error : until_known(link, ask_accept, &l);
    error = error != 0 ? error : until_known(link, ask_result, &l);
    if (error == 0) {
        assert_int_equal(send_text(l.active, "octets"), 6);
        error = until_known(link, ask_octets, &l);
    }
    return error;
}

static void is_given_back(int64_t blocks)
{
    assert_int_equal(memory_blocks, blocks);
    descriptors_check();
}

static void links_without_memory_say_so_and_keep_none(void **state)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint64_t call = 0;
        for (bool has_failed = true; has_failed;) {
            struct link *link = NULL;
            int64_t blocks = memory_blocks;
            assert_true(call < CALLS_MAX);
            descriptors_note();
            memory_fail_at(++call);
            int error = makers[kind](&link);
            assert_true(error == 0 ? link != NULL : error == -ENOMEM && link == NULL);
            if (error == 0) {
                error = connect_and_say(link);
                link->ops->destroy(link);
            }
            has_failed = memory_calls >= call;
            assert_true(error == 0 || has_failed);
            memory_fail_at(0);
            is_given_back(blocks);
        }
        assert_true(call > 4); // the link, and the three streams
    }
    unlink(path);
}

static void links_without_descriptors_say_so_and_keep_none(void **state)
{
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rlimit few = before;
        int next = dup(0), error = -EMFILE;
        close(next);
        for (few.rlim_cur = (rlim_t)next; error != 0 && few.rlim_cur < before.rlim_cur;
             few.rlim_cur++) {
            struct link *link = NULL;
            int64_t blocks = memory_blocks;
            descriptors_note();
            setrlimit(RLIMIT_NOFILE, &few);
            error = makers[kind](&link);
            setrlimit(RLIMIT_NOFILE, &before);
            assert_true(error == 0 ? link != NULL : error == -EMFILE && link == NULL);
            if (error == 0) {
                link->ops->destroy(link);
            }
            is_given_back(blocks);
        }
        assert_int_equal(error, 0);
    }
    unlink(path);
}

/* ---- on virtual time ------------------------------------------------------------------------- */

static instant_ns no_time(void *ctx)
{
    return 0;
}

// A link of a net, bound and listening. False: no memory for it.
static bool link_is_used(struct link *link)
{
    const struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    struct link_stream *listener;
    int error = link->ops->bind(link, (const struct sockaddr *)&addr, 0, NULL, &listener);
    error = error != 0 ? error : link->ops->listen(listener, 1);
    assert_true(error == 0 || error == -ENOMEM);
    link->ops->destroy(link);
    return error == 0;
}

static bool sim_is_made(void)
{
    const struct sim_net_config config = {.clock = no_time, .window_len = 1000};
    const struct in_addr addr = {htonl(0x0a000001)};
    struct sim_net *net = sim_net_create(&config);
    struct link *link = net == NULL ? NULL : sim_net_attach(net, &addr, 1);
    bool is_made = link != NULL && link_is_used(link);
    sim_net_destroy(net);
    return is_made;
}

static bool wire_is_made(void)
{
    const struct wire_config config = {.clock = no_time, .mtu = 1500, .tcp = tcp_config_default};
    const struct in_addr addr = {htonl(0x0a000001)};
    struct wire *wire = wire_create(&config);
    struct link *link = wire == NULL ? NULL : wire_attach(wire, &addr, 1);
    bool is_made = link != NULL && link_is_used(link);
    wire_destroy(wire);
    return is_made;
}

static const struct in6_addr packets_addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 9}};

static bool datagram_sim_is_made(void)
{
    const struct datagram_net_config config = {.clock = no_time};
    struct datagram_net *net = datagram_net_create(&config);
    struct datagram_link *link = net == NULL ? NULL : datagram_net_attach(net, &packets_addr, 1);
    if (link != NULL) {
        assert_int_equal(datagram_open(link, &packets_addr, 0), 0);
        datagram_destroy(link);
    }
    datagram_net_destroy(net);
    return link != NULL;
}

static int wrap_packets(struct datagram_link **link)
{
    static const struct fault_config faults;
    int error = datagram_fault_wrap(*link, &faults, link);
    return error != 0 ? error : datagram_pcap_wrap(*link, path, 0, link);
}

static bool datagram_udp_is_made(void)
{
    const struct datagram_udp_config config = {.port = own_port()};
    static const struct in6_addr group = {.s6_addr = {[10] = 0xff, [11] = 0xff, 239, 255, 18, 7}};
    struct datagram_link *link;
    int error = datagram_udp_create(&config, &link);
    if (error == 0) {
        error = wrap_packets(&link);
        error = error != 0 ? error : datagram_open(link, &packets_addr, 0);
        error = error != 0 ? error : datagram_join(link, &group, &packets_addr, 0);
        datagram_destroy(link);
    }
    assert_true(error == 0 || error == -ENOMEM);
    return error == 0;
}

static void nets_without_memory_say_so_and_keep_none(void **state)
{
    bool (*const nets[])(void) = {sim_is_made, wire_is_made, datagram_sim_is_made,
                                  datagram_udp_is_made};
    for (unsigned kind = 0; kind < sizeof nets / sizeof nets[0]; kind++) {
        bool is_made = false;
        uint64_t call = 0;
        int64_t blocks = memory_blocks;
        while (!is_made && call < CALLS_MAX) {
            memory_fail_at(++call);
            is_made = nets[kind]();
            memory_fail_at(0);
            assert_int_equal(memory_blocks, blocks);
        }
        assert_true(is_made);
        assert_true(call >= 3); // the net, a link and a stream
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_without_memory_say_so_and_keep_none),
        cmocka_unit_test(links_without_descriptors_say_so_and_keep_none),
        cmocka_unit_test(nets_without_memory_say_so_and_keep_none),
    };
    own_port(); // while there are descriptors
    snprintf(path, sizeof path, "/tmp/weft-test-no-memory-%d", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
