// Our own TCP between two links over a simulated wire, on virtual time.
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "link/packet/packet.h"
#include "link/wire.h"
#include "tests/link/counted.h"

enum { PORT = 7471, MTU = 1500, HOST_FIRST = 0x0a000001 };

struct world {
    instant_ns now;
    struct wire *wire;
    struct link *link[2];
    struct link_stream *listener, *end[2];
};

static instant_ns clock_of(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static struct sockaddr_in addr_of(unsigned index, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(HOST_FIRST + index)};
}

static struct fault_config faults_of(const char *text)
{
    struct fault_config faults;
    assert_true(fault_config_parse(text, &faults));
    return faults;
}

static void world_make_marking(struct world *w, const char *faults, uint64_t rate,
                               uint32_t queue_len, uint32_t mark_len, const struct tcp_config *tcp)
{
    struct wire_config config = {.clock = clock_of,
                                 .clock_ctx = w,
                                 .faults = faults_of(faults),
                                 .rate = rate,
                                 .queue_len = queue_len,
                                 .mark_len = mark_len,
                                 .mtu = MTU,
                                 .tcp = *tcp,
                                 .linger_ns = 10 * NS_PER_S};
    *w = (struct world){.now = NS_PER_S};
    w->wire = wire_create(&config);
    assert_non_null(w->wire);
    for (unsigned i = 0; i < 2; i++) {
        struct in_addr addr = addr_of(i, 0).sin_addr;
        w->link[i] = wire_attach(w->wire, &addr, 1);
        assert_non_null(w->link[i]);
    }
}

static void world_make_with(struct world *w, const char *faults, uint64_t rate, uint32_t queue_len,
                            const struct tcp_config *tcp)
{
    world_make_marking(w, faults, rate, queue_len, 0, tcp);
}

static void world_make(struct world *w, const char *faults, uint64_t rate, uint32_t queue_len)
{
    world_make_with(w, faults, rate, queue_len, &tcp_config_default);
}

static void world_end(struct world *w)
{
    for (unsigned i = 0; i < 2; i++) {
        w->link[i]->ops->destroy(w->link[i]);
    }
    wire_destroy(w->wire);
}

// Everything that is due, then on to the next instant at which something is. False: nothing will.
static bool world_step(struct world *w)
{
    struct link_ready ready[4];
    instant_ns at_ns;
    wire_advance(w->wire);
    for (unsigned i = 0; i < 2; i++) {
        w->link[i]->ops->poll(w->link[i], ready, 4);
    }
    at_ns = wire_next_event(w->wire);
    for (unsigned i = 0; i < 2; i++) {
        at_ns = instant_min(at_ns, w->link[i]->ops->next_deadline(w->link[i]));
    }
    if (at_ns == INSTANT_NEVER) {
        return false;
    }
    w->now = at_ns > w->now ? at_ns : w->now;
    return true;
}

static void world_listen(struct world *w, unsigned index)
{
    struct sockaddr_in addr = addr_of(index, PORT);
    struct link *l = w->link[index];
    assert_int_equal(l->ops->bind(l, (struct sockaddr *)&addr, 0, NULL, &w->listener), 0);
    assert_int_equal(l->ops->listen(w->listener, 4), 0);
}

// From link 0 to `to`, as far as both ends know of it.
static void world_connect(struct world *w, unsigned to)
{
    struct sockaddr_in addr = addr_of(to, PORT);
    struct link *l = w->link[0];
    world_listen(w, to);
    assert_int_equal(l->ops->bind(l, NULL, 0, NULL, &w->end[0]), 0);
    assert_int_equal(l->ops->connect(w->end[0], (struct sockaddr *)&addr), -EINPROGRESS);
    for (unsigned turn = 0; turn < 1000 && w->end[1] == NULL; turn++) {
        world_step(w);
        w->link[to]->ops->accept(w->listener, &w->end[1]);
    }
    assert_non_null(w->end[1]);
    assert_int_equal(l->ops->connect_result(w->end[0]), 0);
}

static uint8_t octet_at(size_t i)
{
    return (uint8_t)(i * 2654435761U >> 23);
}

static size_t put(struct link_stream *s, size_t from, size_t len)
{
    static uint8_t octets[30000];
    len = len < sizeof octets ? len : sizeof octets;
    for (size_t i = 0; i < len; i++) {
        octets[i] = octet_at(from + i);
    }
    struct iovec iov = {octets, len};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    ssize_t taken = s->link->ops->send(s, &tx);
    assert_true(taken > 0 || taken == -EAGAIN);
    return taken > 0 ? (size_t)taken : 0;
}

static size_t get(struct link_stream *s, size_t from)
{
    static uint8_t octets[20000];
    ssize_t got = s->link->ops->recv(s, mspan_of(octets, sizeof octets));
    assert_true(got > 0 || got == -EAGAIN);
    for (ssize_t i = 0; i < got; i++) {
        assert_int_equal(octets[i], octet_at(from + (size_t)i));
    }
    return got > 0 ? (size_t)got : 0;
}

// Both directions at once. Returns how long it took.
static duration_ns transfer(struct world *w, size_t len)
{
    size_t sent[2] = {0}, received[2] = {0};
    instant_ns begin = w->now;
    while (received[0] < len || received[1] < len) {
        for (unsigned i = 0; i < 2; i++) {
            if (sent[i] < len) {
                sent[i] += put(w->end[i], sent[i], len - sent[i]);
            }
            received[i] += get(w->end[i], received[i]);
        }
        world_step(w);
        assert_true(w->now - begin < 600 * NS_PER_S); // no stall for ever
    }
    return w->now - begin;
}

// What `recv` says when it does not say -EAGAIN any more.
static ssize_t wait_for_end(struct world *w, unsigned index)
{
    uint8_t octet;
    bool goes_on = true;
    for (;;) {
        ssize_t end = w->link[index]->ops->recv(w->end[index], mspan_of(&octet, 1));
        if (end != -EAGAIN || !goes_on) {
            return end;
        }
        goes_on = world_step(w);
    }
}

/* ---- good paths ------------------------------------------------------------------------------ */

static void octets_cross(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    transfer(&w, 300000);
    world_end(&w);
}

static void octets_are_reported_until_they_are_read(void **state)
{
    struct world w;
    struct link_ready ready[4];
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    put(w.end[0], 0, 10);
    w.now += 2 * NS_PER_MS;
    wire_advance(w.wire);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w.link[1]->ops->poll(w.link[1], ready, 4), 1);
        assert_ptr_equal(ready[0].stream, w.end[1]);
        assert_int_equal(ready[0].what, LINK_READY_IN);
    }
    assert_int_equal(get(w.end[1], 0), 10);
    assert_int_equal(w.link[1]->ops->poll(w.link[1], ready, 4), 0);
    world_end(&w);
}

static void octets_cross_between_two_streams_of_one_link(void **state)
{
    struct world w;
    world_make(&w, "", 0, 0);
    world_connect(&w, 0);
    transfer(&w, 300000);
    assert_int_equal(wire_counters(w.wire)->packets, 0);
    world_end(&w);
}

static void rate_is_the_wire_s(void **state)
{
    struct world w;
    world_make(&w, "delay=100us", 10000000, 0);
    world_connect(&w, 1);
    duration_ns took_ns = transfer(&w, 5000000); // half a second, were there no headers
    assert_in_range(took_ns, 500 * NS_PER_MS, 700 * NS_PER_MS);
    world_end(&w);
}

static void short_queue_overflows_and_tcp_fits_itself_in(void **state)
{
    struct world w;
    world_make(&w, "delay=5ms", 10000000, 30000);
    world_connect(&w, 1);
    duration_ns took_ns = transfer(&w, 5000000);
    assert_true(wire_overflows(w.wire) > 0);
    assert_true(took_ns < 2 * NS_PER_S);
    world_end(&w);
}

// The path holds 100,000 octets beside the queue, in which slow start would lose some hundreds of
// packets (below). Marks end it before.
static void queue_that_marks_loses_nothing(void **state)
{
    struct world w;
    struct tcp_config tcp = tcp_config_default;
    tcp.ecn = TCP_ECN_REQUEST;
    world_make_marking(&w, "delay=5ms", 10000000, 400000, 50000, &tcp);
    world_connect(&w, 1);
    duration_ns took_ns = transfer(&w, 5000000);
    assert_true(wire_marks(w.wire) > 0);
    assert_true(tcp_counted(w.link[0], w.end[0], "marks") > 0);
    assert_true(tcp_counted(w.link[0], w.end[0], "reductions_by_marks") > 0);
    assert_int_equal(wire_overflows(w.wire), 0);
    assert_true(took_ns < NS_PER_S);
    world_end(&w);
}

static void who_heeds_no_marks_gets_none(void **state)
{
    struct world w;
    world_make_marking(&w, "delay=5ms", 10000000, 400000, 50000, &tcp_config_default);
    world_connect(&w, 1);
    transfer(&w, 5000000);
    assert_int_equal(wire_marks(w.wire), 0);
    assert_true(wire_overflows(w.wire) > 0);
    world_end(&w);
}

/* ---- bad paths ------------------------------------------------------------------------------- */

static void octets_cross_whatever_the_path_does(void **state)
{
    static const char *const paths[] = {
        "delay=1ms,loss=5%",
        "delay=1ms,loss=5%,burst=4",
        "delay=1ms,reorder=20%",
        "delay=1ms,jitter=2ms",
        "delay=1ms,duplicate=20%",
        "delay=1ms,corrupt=5%",
        "delay=1ms,loss=3%,burst=2,reorder=10%,duplicate=5%,corrupt=2%,jitter=200us",
    };
    const char *soak = getenv("WEFT_SOAK");
    unsigned seeds = soak != NULL && *soak == '1' ? 200 : 3;
    for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        for (unsigned seed = 1; seed <= seeds; seed++) {
            struct world w;
            char faults[200];
            snprintf(faults, sizeof faults, "%s,seed=%u", paths[i], seed);
            world_make(&w, faults, 0, 0);
            world_connect(&w, 1);
            transfer(&w, 400000);
            world_end(&w);
        }
    }
}

static void changed_octets_are_noticed_and_sent_again(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms,corrupt=20%,seed=1", 0, 0);
    world_connect(&w, 1);
    transfer(&w, 400000);
    assert_true(packets_counted(w.link[1], "bad_checksums") > 0);
    world_end(&w);
}

static void same_seed_gives_the_same_run(void **state)
{
    duration_ns took_ns[3];
    for (unsigned i = 0; i < 3; i++) {
        struct world w;
        world_make(&w, i < 2 ? "delay=1ms,loss=5%,seed=1" : "delay=1ms,loss=5%,seed=2", 0, 0);
        world_connect(&w, 1);
        took_ns[i] = transfer(&w, 400000);
        world_end(&w);
    }
    assert_int_equal(took_ns[0], took_ns[1]);
    assert_int_not_equal(took_ns[0], took_ns[2]);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void connection_ends_in_order_though_packets_are_lost(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms,loss=20%,seed=3", 0, 0);
    world_connect(&w, 1);
    size_t sent = put(w.end[0], 0, 5000), got = 0;
    w.link[0]->ops->close(w.end[0], false);
    while (got < sent) {
        got += get(w.end[1], got);
        world_step(&w);
    }
    ssize_t end = wait_for_end(&w, 1);
    assert_int_equal(end, 0);
    w.link[1]->ops->close(w.end[1], false);
    while (world_step(&w)) { // until nothing is left, TIME-WAIT neither
    }
    assert_false(w.link[0]->ops->is_busy(w.link[0]));
    assert_false(w.link[1]->ops->is_busy(w.link[1]));
    world_end(&w);
}

static void silent_peer_is_found_in_time(void **state)
{
    struct world w;
    struct fault_config nothing = faults_of("loss=100%");
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    wire_set_faults(w.wire, &nothing);
    put(w.end[0], 0, 100);
    instant_ns begin = w.now;
    ssize_t end = wait_for_end(&w, 0);
    assert_int_equal(end, -ETIMEDOUT);
    assert_in_range(w.now - begin, tcp_config_default.user_timeout_ns,
                    2 * tcp_config_default.user_timeout_ns);
    world_end(&w);
}

static void lost_tail_between_weft_ends_is_repaired_in_milliseconds(void **state)
{
    struct world w;
    struct tcp_config tcp = tcp_config_default;
    struct fault_config all = faults_of("loss=100%"), none = faults_of("delay=50us");
    size_t got = 0;
    link_packet_tune(&tcp);
    world_make_with(&w, "delay=50us", 0, 0, &tcp);
    world_connect(&w, 1);
    transfer(&w, 100); // a round trip is measured
    instant_ns begin = w.now;
    wire_set_faults(w.wire, &all);
    put(w.end[0], 0, 100);
    world_step(&w);
    wire_set_faults(w.wire, &none);
    while (got < 100) {
        got += get(w.end[1], got);
        world_step(&w);
    }
    assert_true(w.now - begin <= 20 * NS_PER_MS);
    world_end(&w);
}

static void connecting_to_nobody_times_out(void **state)
{
    struct world w;
    struct sockaddr_in nobody = addr_of(77, PORT);
    world_make(&w, "delay=1ms", 0, 0);
    struct link *l = w.link[0];
    assert_int_equal(l->ops->bind(l, NULL, 0, NULL, &w.end[0]), 0);
    assert_int_equal(l->ops->connect(w.end[0], (struct sockaddr *)&nobody), -EINPROGRESS);
    while (l->ops->connect_result(w.end[0]) == -EINPROGRESS && world_step(&w)) {
    }
    assert_int_equal(l->ops->connect_result(w.end[0]), -ETIMEDOUT);
    world_end(&w);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static int bind_at(struct link *l, uint32_t host, uint16_t port, struct link_stream **ret)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(host)};
    return l->ops->bind(l, (struct sockaddr *)&addr, 0, NULL, ret);
}

static void ports_are_not_shared_and_addresses_are_ours(void **state)
{
    struct world w;
    struct link_stream *s[3];
    world_make(&w, "", 0, 0);
    assert_int_equal(bind_at(w.link[0], HOST_FIRST, 99, &s[0]), 0);
    assert_int_equal(bind_at(w.link[0], HOST_FIRST, 99, &s[1]), -EADDRINUSE);
    assert_int_equal(bind_at(w.link[0], INADDR_ANY, 99, &s[1]), -EADDRINUSE);
    assert_int_equal(bind_at(w.link[0], HOST_FIRST + 1, 98, &s[1]), -EADDRNOTAVAIL);
    assert_int_equal(bind_at(w.link[1], HOST_FIRST + 1, 99, &s[1]), 0);
    w.link[0]->ops->close(s[0], false);
    assert_int_equal(bind_at(w.link[0], INADDR_ANY, 99, &s[2]), 0);
    world_end(&w);
}

static void free_ports_are_drawn(void **state)
{
    struct world w;
    uint16_t port[8];
    world_make(&w, "", 0, 0);
    for (unsigned i = 0; i < 8; i++) {
        struct link_stream *s;
        struct sockaddr_storage addr;
        assert_int_equal(bind_at(w.link[0], INADDR_ANY, 0, &s), 0);
        w.link[0]->ops->local_addr(s, &addr);
        port[i] = ntohs(((struct sockaddr_in *)&addr)->sin_port);
        assert_true(port[i] >= 32768);
        assert_true(i == 0 || port[i] != (uint16_t)(port[i - 1] + 1)); // not to be guessed
    }
    world_end(&w);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void holes_and_what_was_sent_again_are_counted(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms,loss=3%,seed=4", 0, 0);
    world_connect(&w, 1);
    transfer(&w, 300000);
    for (unsigned i = 0; i < 2; i++) {
        const struct link *l = w.link[i], *other = w.link[1 - i];
        assert_int_equal(tcp_counted(l, w.end[i], "octets_out"), 300000);
        assert_int_equal(tcp_counted(l, w.end[i], "octets_in"), 300000);
        uint64_t opened = tcp_counted(l, w.end[i], "holes_opened");
        assert_true(opened > 0);
        assert_int_equal(opened, tcp_counted(l, w.end[i], "holes_merged") +
                                     tcp_counted(l, w.end[i], "holes_closed"));
        assert_true(tcp_counted(other, w.end[1 - i], "retransmits") >=
                    tcp_counted(l, w.end[i], "holes_closed"));
        assert_true(tcp_counted(l, w.end[i], "srtt_us") >= 2000);
        assert_true(packets_counted(l, "frames_out") > packets_counted(other, "frames_in"));
    }
    world_end(&w);
}

static void how_a_connection_stands_is_told(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    transfer(&w, 100000);
    const struct link *l = w.link[0];
    uint64_t least = tcp_counted(l, w.end[0], "min_rtt_us");
    assert_in_range(least, 2000, tcp_counted(l, w.end[0], "srtt_us"));
    assert_true(tcp_counted(l, w.end[0], "rto_us") > least);
    assert_true(tcp_counted(l, w.end[0], "cwnd_octets") >= 10 * 1000);
    assert_true(tcp_counted(l, w.end[0], "send_window_octets") > 0);
    assert_true(tcp_counted(l, w.end[0], "receive_window_octets") > 0);
    assert_int_equal(tcp_counted(l, w.end[0], "flight_octets"), 0);
    assert_int_equal(tcp_counted(l, w.end[0], "buffered_octets"), 0);
    assert_int_equal(tcp_counted(l, w.end[0], "ranges"), 0);
    world_end(&w);
}

static void what_a_closed_connection_counted_stays(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    transfer(&w, 100000);
    assert_int_equal(tcp_counted(w.link[0], NULL, "octets_out"), 0);
    for (unsigned i = 0; i < 2; i++) {
        w.link[i]->ops->close(w.end[i], false);
    }
    assert_int_equal(tcp_counted(w.link[0], NULL, "octets_out"), 100000); // it lingers
    while (world_step(&w)) {
    }
    assert_int_equal(tcp_counted(w.link[0], NULL, "octets_out"), 100000); // it is gone
    world_end(&w);
}

static void listener_counts_handshakes(void **state)
{
    struct world w;
    world_make(&w, "delay=1ms", 0, 0);
    world_connect(&w, 1);
    assert_int_equal(tcp_counted(w.link[1], w.listener, "syns"), 1);
    assert_int_equal(tcp_counted(w.link[1], w.listener, "completed"), 1);
    assert_int_equal(tcp_counted(w.link[1], w.listener, "refused.no_syn"), 0);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_cross),
        cmocka_unit_test(octets_are_reported_until_they_are_read),
        cmocka_unit_test(octets_cross_between_two_streams_of_one_link),
        cmocka_unit_test(rate_is_the_wire_s),
        cmocka_unit_test(short_queue_overflows_and_tcp_fits_itself_in),
        cmocka_unit_test(queue_that_marks_loses_nothing),
        cmocka_unit_test(who_heeds_no_marks_gets_none),
        cmocka_unit_test(octets_cross_whatever_the_path_does),
        cmocka_unit_test(changed_octets_are_noticed_and_sent_again),
        cmocka_unit_test(same_seed_gives_the_same_run),
        cmocka_unit_test(connection_ends_in_order_though_packets_are_lost),
        cmocka_unit_test(silent_peer_is_found_in_time),
        cmocka_unit_test(lost_tail_between_weft_ends_is_repaired_in_milliseconds),
        cmocka_unit_test(connecting_to_nobody_times_out),
        cmocka_unit_test(ports_are_not_shared_and_addresses_are_ours),
        cmocka_unit_test(free_ports_are_drawn),
        cmocka_unit_test(holes_and_what_was_sent_again_are_counted),
        cmocka_unit_test(how_a_connection_stands_is_told),
        cmocka_unit_test(what_a_closed_connection_counted_stays),
        cmocka_unit_test(listener_counts_handshakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
