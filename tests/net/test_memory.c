// What connections take of the memory of the machine: pages that were touched, not those that were
// asked for.
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "net/host.h"

enum { HAS_SHADOW = IS_SANITIZED };

enum { CONNECTIONS = 2000, PORT = 7471, IDLE_MAX = 8 << 10, USED_MAX = 32 << 10 };

static struct net_host *host;
static struct net_listener listener;
static struct net_connection connection[CONNECTIONS];
static unsigned connection_count;
static struct tcp_header last_reply;
static uint32_t iss[CONNECTIONS];
static uint32_t last_sent_end; // of the last segment that left: the number behind it

/* ---- the host -------------------------------------------------------------------------------- */

static unsigned on_send(void *ctx, struct net_connection *c, const struct tcp_batch *batch)
{
    (void)ctx;
    (void)c;
    last_sent_end = batch->header.seq + batch->payload_len;
    return batch->segment_count;
}

static void on_reply(void *ctx, const struct net_flow *flow, void *via, const struct tcp_header *h)
{
    (void)ctx;
    (void)flow;
    (void)via;
    last_reply = *h;
}

static void on_events(void *ctx, struct net_connection *c, unsigned events)
{
    (void)ctx;
    (void)c;
    (void)events;
}

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    (void)ctx;
    (void)answer;
    return offer->order == PLACE_BEYOND_HOLE ? PLACE_BUFFER : PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    (void)ctx;
    (void)position;
    (void)end;
    (void)counts;
    return true;
}

static struct net_connection *on_incoming(void *ctx, struct net_listener *l,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config)
{
    (void)ctx;
    (void)l;
    (void)via;
    struct net_connection *c = &connection[connection_count++];
    assert_int_equal(net_connection_create(host, c, flow, config), 0);
    return c;
}

static struct net_addr addr_of(uint8_t last)
{
    const uint8_t octets[] = {10, 0, 0, last};
    return net_addr_from_ipv4(octets);
}

static int begin(void **state)
{
    struct net_config config = {.secret = {7},
                                .port = {.send = on_send,
                                         .reply = on_reply,
                                         .on_events = on_events,
                                         .on_incoming = on_incoming}};
    struct tcp_listener_config listen = {.connection = tcp_config_default, .half_open_max = 4};
    listen.connection.place = (struct place_port){.place = on_place, .on_advance = on_advance};
    connection_count = 0;
    mallopt(M_PERTURB, 0); // who runs the test may have asked for octets in all that is taken
    host = net_host_create(&config);
    listener = (struct net_listener){.place = {.local = addr_of(1), .local_port = PORT},
                                     .backlog = CONNECTIONS};
    return host == NULL || net_listener_create(host, &listener, &listen) != 0;
}

static void connections_end(void)
{
    while (connection_count > 0) {
        net_connection_destroy(host, &connection[--connection_count]);
    }
}

static int end(void **state)
{
    connections_end();
    net_listener_destroy(host, &listener);
    net_host_destroy(host);
    return 0;
}

/* ---- the peers ------------------------------------------------------------------------------- */

static void peer_sends(unsigned index, uint8_t flags, uint32_t seq, uint32_t ack, size_t len)
{
    struct net_flow flow = {.local = addr_of(1), .remote = addr_of(2)};
    struct tcp_header h = {.src_port = (uint16_t)(10000 + index),
                           .dst_port = PORT,
                           .seq = seq,
                           .ack = ack,
                           .flags = flags,
                           .window = UINT16_MAX,
                           .options = {.mss = (flags & TCP_SYN) != 0 ? 1000 : 0}};
    static uint8_t octets[4096];
    size_t header_len = tcp_header_emit(&h, octets);
    net_on_segment(host, &flow, NULL, span_of(octets, header_len + len), IP_ECN_NOT_ECT, NS_PER_S);
    net_output(host, NS_PER_S);
}

static void connect_all(void)
{
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        peer_sends(i, TCP_SYN, 1000, 0, 0);
        iss[i] = last_reply.seq;
        peer_sends(i, TCP_ACK, 1001, iss[i] + 1, 0);
        assert_int_equal(connection_count, i + 1);
        assert_int_equal(tcp_get_state(connection[i].tcb), TCP_STATE_ESTABLISHED);
    }
}

// A request and an answer.
static void exchange(unsigned index, unsigned times)
{
    static const uint8_t answer[200];
    for (unsigned i = 0; i < times; i++) {
        uint32_t ack = last_sent_end;
        struct iovec iov = {(void *)answer, sizeof answer};
        assert_int_equal(tcp_send(connection[index].tcb, &iov, 1, 0), sizeof answer);
        net_touch(host, &connection[index]);
        peer_sends(index, TCP_ACK | TCP_PSH, 1001 + 100 * i, ack, 100);
        peer_sends(index, TCP_ACK, 1001 + 100 * (i + 1), last_sent_end, 0);
        assert_int_equal(tcp_acked_position(connection[index].tcb), (i + 1) * sizeof answer);
    }
}

static size_t resident_len(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void skip_under_sanitizers(void)
{
    if (HAS_SHADOW) {
        print_message("SKIP: a sanitizer's shadow is resident too\n");
        skip();
    }
}

static void idle_connection_takes_two_pages(void **state)
{
    skip_under_sanitizers();
    memset(connection, 0, sizeof connection);
    size_t before = resident_len();
    connect_all();
    size_t each = (resident_len() - before) / CONNECTIONS;
    print_message("# %zu octets each\n", each);
    assert_true(each <= IDLE_MAX);
}

static void connection_that_was_used_takes_a_few(void **state)
{
    skip_under_sanitizers();
    memset(connection, 0, sizeof connection);
    size_t before = resident_len();
    connect_all();
    for (unsigned i = 0; i < CONNECTIONS; i++) { // 1 MiB of answers to some of them
        last_sent_end = iss[i] + 1;
        exchange(i, i % 100 == 0 ? 6000 : 10);
    }
    size_t each = (resident_len() - before) / CONNECTIONS;
    print_message("# %zu octets each\n", each);
    assert_true(each <= USED_MAX);
}

static void memory_of_connections_that_ended_is_given_back(void **state)
{
    skip_under_sanitizers();
    size_t before = resident_len();
    for (unsigned round = 0; round < 5; round++) {
        connect_all();
        connections_end();
    }
    assert_true(resident_len() < before + CONNECTIONS * IDLE_MAX);
}

int main(void)
{
#define ON(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        ON(idle_connection_takes_two_pages),
        ON(connection_that_was_used_takes_a_few),
        ON(memory_of_connections_that_ended_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
