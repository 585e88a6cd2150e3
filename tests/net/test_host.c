// Two hosts whose segments go to a queue, as octets: each test moves them, or loses them.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "link/packet/cut.h"
#include "net/host.h"
#include "tcp/isn.h"

enum { QUEUE_MAX = 64, SEGMENT_MAX = 2000, CONNECTIONS = 4, PORT = 7471, RESET_MAX = 3 };

struct octets {
    uint8_t octets[SEGMENT_MAX];
    size_t len;
    struct net_flow flow; // as its receiver sees it, without ports
    void *via;
};

struct end {
    struct net_host *host;
    struct net_connection connection[CONNECTIONS];
    unsigned connection_count;
    struct net_listener listener;
    unsigned events[CONNECTIONS];
    struct octets out[QUEUE_MAX];
    unsigned out_count;
    bool has_room, takes_incoming, is_stalled;
    uint8_t got[SEGMENT_MAX];
    size_t got_len;
};

static struct end end[2]; // 10.0.0.1 and 10.0.0.2
static instant_ns now;

static struct net_addr addr_of(unsigned index)
{
    const uint8_t octets[] = {10, 0, 0, (uint8_t)(index + 1)};
    return net_addr_from_ipv4(octets);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void put_out(struct end *e, const struct net_flow *flow, void *via,
                    const struct net_segment *segment)
{
    struct octets *o = &e->out[e->out_count++];
    assert_true(e->out_count < QUEUE_MAX);
    o->flow = net_flow_turned(flow);
    o->flow.local_port = o->flow.remote_port = 0;
    o->via = via;
    o->len = segment->len;
    net_segment_copy(segment, o->octets);
}

static unsigned on_send(void *ctx, struct net_connection *c, const struct tcp_batch *batch)
{
    static struct packet_cut cut;
    const struct net_segments *segments = packet_cut(&cut, batch, false);
    struct end *e = ctx;
    unsigned i = 0;
    while (e->has_room && i < segments->count) {
        put_out(e, &c->entry.flow, NULL, &segments->at[i++]);
    }
    return i;
}

static void on_reply(void *ctx, const struct net_flow *flow, void *via, const struct tcp_header *h)
{
    static struct packet_cut cut;
    struct tcp_batch batch = {.header = *h, .segment_count = 1};
    put_out(ctx, flow, via, packet_cut(&cut, &batch, false)->at);
}

static void on_events(void *ctx, struct net_connection *c, unsigned events)
{
    struct end *e = ctx;
    e->events[c - e->connection] |= events;
}

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    struct end *e = ctx;
    if (offer->order == PLACE_BEYOND_HOLE || e->is_stalled) {
        return PLACE_BUFFER;
    }
    memcpy(e->got + e->got_len, offer->octets.ptr, offer->octets.len);
    e->got_len += offer->octets.len;
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t last,
                       const struct place_counts *counts)
{
    (void)ctx;
    (void)position;
    (void)last;
    (void)counts;
    return true;
}

static struct net_connection *make_connection(struct end *e, const struct net_flow *flow,
                                              const struct tcp_config *config)
{
    struct tcp_config tcp = *config;
    struct net_connection *c = &e->connection[e->connection_count];
    tcp.place = (struct place_port){.place = on_place, .on_advance = on_advance, .ctx = e};
    assert_true(e->connection_count < CONNECTIONS);
    assert_int_equal(net_connection_create(e->host, c, flow, &tcp), 0);
    e->connection_count++;
    return c;
}

static struct net_connection *on_incoming(void *ctx, struct net_listener *listener,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config)
{
    struct end *e = ctx;
    (void)via;
    assert_ptr_equal(listener, &e->listener);
    if (!e->takes_incoming) {
        return NULL;
    }
    listener->waiting_count++;
    return make_connection(e, flow, config);
}

/* ---- what tests do --------------------------------------------------------------------------- */

static int setup(void **state)
{
    now = NS_PER_S;
    for (unsigned i = 0; i < 2; i++) {
        struct net_config config = {.secret = {7},
                                    .reset_max = RESET_MAX,
                                    .port = {.send = on_send,
                                             .reply = on_reply,
                                             .on_events = on_events,
                                             .on_incoming = on_incoming,
                                             .ctx = &end[i]}};
        end[i] = (struct end){.has_room = true, .takes_incoming = true};
        end[i].host = net_host_create(&config);
        assert_non_null(end[i].host);
    }
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        net_host_check(end[i].host);
        for (unsigned c = 0; c < end[i].connection_count; c++) {
            net_connection_destroy(end[i].host, &end[i].connection[c]);
        }
        if (end[i].listener.tcp != NULL) {
            net_listener_destroy(end[i].host, &end[i].listener);
        }
        net_host_destroy(end[i].host);
    }
    return 0;
}

static void listen_with_window(struct net_addr local, unsigned backlog, uint32_t window_len)
{
    struct tcp_listener_config config = {
        .connection = tcp_config_default, .half_open_max = 8, .syn_ack_retries = 3};
    config.connection.window_len = config.connection.buffer_len = window_len;
    end[1].listener = (struct net_listener){
        .place = {.local = local, .local_port = PORT}, .backlog = backlog, .via = &end[1]};
    assert_int_equal(net_listener_create(end[1].host, &end[1].listener, &config), 0);
}

static void listen_at(struct net_addr local, unsigned backlog)
{
    listen_with_window(local, backlog, tcp_config_default.window_len);
}

static struct net_connection *connect_to(struct net_addr remote, uint16_t port)
{
    struct net_flow flow = {
        .local = addr_of(0), .remote = remote, .local_port = port, .remote_port = PORT};
    struct net_connection *c = make_connection(&end[0], &flow, &tcp_config_default);
    tcp_connect(c->tcb, net_iss(end[0].host, c, now), now);
    net_touch(end[0].host, c);
    net_output(end[0].host, now);
    return c;
}

static struct net_connection *connect_from(uint16_t port)
{
    return connect_to(addr_of(1), port);
}

// Gives the other end all that `from` has sent.
static void deliver(unsigned from)
{
    struct end *e = &end[from];
    for (unsigned i = 0; i < e->out_count; i++) {
        struct octets *o = &e->out[i];
        net_on_segment(end[1 - from].host, &o->flow, e, span_of(o->octets, o->len), IP_ECN_NOT_ECT,
                       now);
    }
    e->out_count = 0;
    net_output(end[1 - from].host, now);
}

static void talk(void)
{
    for (unsigned i = 0; i < 20 && end[0].out_count + end[1].out_count > 0; i++) {
        deliver(0);
        deliver(1);
    }
}

static void wait_until(unsigned index, instant_ns at_ns)
{
    now = at_ns;
    net_on_deadline(end[index].host, now);
    net_output(end[index].host, now);
}

static struct tcp_header last_sent(const struct end *e)
{
    struct tcp_header h;
    size_t len;
    const struct octets *o = &e->out[e->out_count - 1];
    assert_true(e->out_count > 0);
    assert_int_equal(tcp_header_parse(span_of(o->octets, o->len), &h, &len), TCP_PARSE_OK);
    return h;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void connections_are_made_and_carry_octets(void **state)
{
    listen_at(addr_of(1), 4);
    struct net_connection *c = connect_from(40000);
    talk();
    assert_true(end[0].events[0] & TCP_EVENT_ESTABLISHED);
    assert_true(end[1].events[0] & TCP_EVENT_ESTABLISHED);
    struct iovec iov = {(void *)"through", 7};
    assert_int_equal(tcp_send(c->tcb, &iov, 1, 0), 7);
    net_touch(end[0].host, c);
    net_output(end[0].host, now);
    talk();
    assert_int_equal(end[1].got_len, 7);
    assert_memory_equal(end[1].got, "through", 7);
}

static void flow_has_one_connection(void **state)
{
    listen_at(addr_of(1), 4);
    struct net_connection *c = connect_from(40000), second;
    struct tcp_config config = tcp_config_default;
    config.place = (struct place_port){.place = on_place, .on_advance = on_advance};
    assert_int_equal(net_connection_create(end[0].host, &second, &c->entry.flow, &config),
                     -EADDRINUSE);
    assert_ptr_equal(net_find(end[0].host, &c->entry.flow), c);
}

// RFC 6528: nobody who does not know the host's secret guesses where either side begins.
static void both_sides_begin_at_numbers_of_the_hosts_secret(void **state)
{
    static const uint8_t secret[TCP_SECRET_LEN] = {7};
    listen_at(addr_of(1), 4);
    struct net_flow flow = connect_from(40000)->entry.flow, turned = net_flow_turned(&flow);
    struct tcp_tuple tuple = net_flow_tuple(&flow), turned_tuple = net_flow_tuple(&turned);
    assert_int_equal(last_sent(&end[0]).seq, tcp_isn(secret, &tuple, now));
    deliver(0);
    assert_int_equal(last_sent(&end[1]).seq, tcp_isn(secret, &turned_tuple, now));
    talk();
}

static void close_connection(unsigned index, unsigned connection)
{
    struct net_connection *c = &end[index].connection[connection];
    tcp_close(c->tcb, now);
    net_touch(end[index].host, c);
    net_output(end[index].host, now);
    talk();
}

// RFC 6191: the peer need not wait for the end of our TIME-WAIT.
static void next_connection_takes_the_place_of_one_in_time_wait(void **state)
{
    listen_at(addr_of(1), 4);
    struct net_connection *c = connect_from(40000);
    talk();
    close_connection(1, 0);
    close_connection(0, 0);
    struct net_connection *last = &end[1].connection[0];
    assert_int_equal(tcp_get_state(last->tcb), TCP_STATE_TIME_WAIT);
    net_connection_destroy(end[0].host, c);
    end[0].connection_count = 0;
    now += NS_PER_S;
    connect_from(40000);
    talk();
    assert_int_equal(end[1].connection_count, 2);
    struct net_connection *next = &end[1].connection[1];
    assert_ptr_equal(net_find(end[1].host, &next->entry.flow), next);
    assert_int_equal(tcp_get_state(next->tcb), TCP_STATE_ESTABLISHED);
    assert_true(end[1].events[0] & TCP_EVENT_OVER);
}

static void wildcard_takes_every_address_of_its_family(void **state)
{
    static const uint8_t any[IPV4_ADDR_LEN];
    listen_at(net_addr_from_ipv4(any), 4);
    connect_from(40000);
    talk();
    assert_int_equal(end[1].connection_count, 1);
}

static void ipv6_wildcard_takes_ipv4_unless_told_not_to(void **state)
{
    listen_at((struct net_addr){{0}}, 4);
    connect_from(40000);
    talk();
    assert_int_equal(end[1].connection_count, 1);
    end[1].listener.is_v6_only = true;
    connect_from(40001);
    talk();
    assert_int_equal(end[1].connection_count, 1);
    assert_true(end[0].events[1] & TCP_EVENT_OVER);
}

static void second_listener_at_a_place_is_refused(void **state)
{
    struct tcp_listener_config config = {.connection = tcp_config_default, .half_open_max = 1};
    listen_at(addr_of(1), 4);
    struct net_listener second = {.place = end[1].listener.place};
    assert_int_equal(net_listener_create(end[1].host, &second, &config), -EADDRINUSE);
}

enum { LISTENERS = 10000, LISTENER_PORT = 10000 };

static struct net_listener many[LISTENERS];

static void listen_many(unsigned from, unsigned to)
{
    struct tcp_listener_config config = {.connection = tcp_config_default, .half_open_max = 1};
    for (unsigned i = from; i < to; i++) {
        many[i] = (struct net_listener){
            .place = {.local = addr_of(1), .local_port = (uint16_t)(LISTENER_PORT + i)},
            .backlog = 1};
        assert_int_equal(net_listener_create(end[1].host, &many[i], &config), 0);
    }
}

// What a SYN to the first listener costs, the least of several tries: the machine has other work.
static double syn_cost_s(void)
{
    enum { TRIES = 7, SYNS = 2000 };
    struct net_flow flow = {.local = addr_of(1), .remote = addr_of(0)};
    struct tcp_header syn = {
        .src_port = 40000, .dst_port = LISTENER_PORT, .seq = 1, .flags = TCP_SYN};
    uint8_t octets[TCP_HEADER_MAX_LEN];
    size_t len = tcp_header_emit(&syn, octets);
    double least_s = 1e9;
    for (unsigned try = 0; try < TRIES; try++) {
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (unsigned i = 0; i < SYNS; i++) {
            net_on_segment(end[1].host, &flow, NULL, span_of(octets, len), IP_ECN_NOT_ECT, now);
            end[1].out_count = 0;
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
        least_s = s < least_s ? s : least_s;
    }
    return least_s;
}

static void syn_costs_the_same_with_ten_thousand_listeners(void **state)
{
    listen_many(0, 1);
    double with_one_s = syn_cost_s();
    listen_many(1, LISTENERS);
    double with_all_s = syn_cost_s();
    for (unsigned i = 0; i < LISTENERS; i++) {
        net_listener_destroy(end[1].host, &many[i]);
    }
    assert_true(with_all_s < 10 * with_one_s); // one after the other: hundreds of times
}

static void full_backlog_makes_the_peer_try_again(void **state)
{
    listen_at(addr_of(1), 1);
    connect_from(40000);
    talk();
    connect_from(40001);
    talk();
    assert_int_equal(end[1].connection_count, 1);
    assert_true(net_host_counters(end[1].host)->backlog_full > 0);
    end[1].listener.waiting_count = 0; // accepted
    wait_until(0, net_next_deadline(end[0].host));
    talk();
    assert_int_equal(end[1].connection_count, 2);
    assert_true(end[0].events[1] & TCP_EVENT_ESTABLISHED);
}

static void handshake_that_nobody_takes_is_reset(void **state)
{
    listen_at(addr_of(1), 4);
    end[1].takes_incoming = false;
    connect_from(40000);
    talk();
    assert_true(end[0].events[0] & TCP_EVENT_OVER);
    assert_int_equal(net_host_counters(end[1].host)->refused, 1);
}

static void lost_syn_ack_is_sent_again_through_the_listener(void **state)
{
    listen_at(addr_of(1), 4);
    connect_from(40000);
    deliver(0);
    end[1].out_count = 0; // the SYN,ACK is lost
    wait_until(1, net_next_deadline(end[1].host));
    assert_int_equal(end[1].out_count, 1);
    assert_ptr_equal(end[1].out[0].via, &end[1]);
    assert_int_equal(last_sent(&end[1]).flags, TCP_SYN | TCP_ACK);
}

static void lost_segment_is_sent_again(void **state)
{
    connect_from(40000);
    end[0].out_count = 0;
    wait_until(0, net_next_deadline(end[0].host));
    assert_int_equal(last_sent(&end[0]).flags & TCP_SYN, TCP_SYN);
}

static void full_port_is_tried_again_when_it_has_room(void **state)
{
    end[0].has_room = false;
    struct net_connection *c = connect_from(40000);
    assert_int_equal(end[0].out_count, 0);
    net_touch(end[0].host, c);
    net_output(end[0].host, now);
    assert_int_equal(end[0].out_count, 0);
    end[0].has_room = true;
    net_unblock_all(end[0].host);
    net_output(end[0].host, now);
    assert_int_equal(end[0].out_count, 1);
}

static void one_alone_may_be_told_of_room(void **state)
{
    end[0].has_room = false;
    struct net_connection *c = connect_from(40000);
    connect_from(40001);
    end[0].has_room = true;
    net_unblock(end[0].host, c);
    assert_int_equal(net_next_deadline(end[0].host), 0); // it is to be looked at, at once
    net_output(end[0].host, now);
    assert_int_equal(end[0].out_count, 1);
    assert_int_equal(last_sent(&end[0]).src_port, 40000);
}

static void one_that_is_destroyed_waits_for_no_room(void **state)
{
    end[0].has_room = false;
    struct net_connection *c = connect_from(40000);
    net_connection_destroy(end[0].host, c);
    end[0].connection_count = 0;
    end[0].has_room = true;
    net_unblock_all(end[0].host);
    net_output(end[0].host, now);
    assert_int_equal(end[0].out_count, 0);
}

/* ---- shut windows ---------------------------------------------------------------------------- */

enum { SMALL_WINDOW = 1500, WAIT_MAX = 100 };

static struct net_connection *connect_to_small_window(void)
{
    listen_with_window(addr_of(1), 4, SMALL_WINDOW);
    struct net_connection *c = connect_from(40000);
    talk();
    return c;
}

static void send_zeros(struct net_connection *c, size_t len)
{
    static uint8_t octets[SEGMENT_MAX];
    struct iovec iov = {octets, len};
    assert_int_equal(tcp_send(c->tcb, &iov, 1, 0), len);
    net_touch(end[0].host, c);
    net_output(end[0].host, now);
}

// Whatever the two ends' timers bring about, until there are none or `len` octets have arrived.
static void wait_for_octets(size_t len)
{
    for (unsigned i = 0; i < WAIT_MAX && end[1].got_len < len; i++) {
        instant_ns at = instant_min(net_next_deadline(end[0].host), net_next_deadline(end[1].host));
        assert_int_not_equal(at, INSTANT_NEVER);
        now = at > now ? at : now;
        for (unsigned k = 0; k < 2; k++) {
            net_on_deadline(end[k].host, now);
            net_output(end[k].host, now);
        }
        talk();
    }
    assert_int_equal(end[1].got_len, len);
}

static void lost_window_update_is_asked_for(void **state)
{
    struct net_connection *c = connect_to_small_window();
    end[1].is_stalled = true;
    send_zeros(c, SMALL_WINDOW + 200);
    talk();
    end[1].is_stalled = false;
    tcp_resume(end[1].connection[0].tcb, now);
    net_touch(end[1].host, &end[1].connection[0]);
    net_output(end[1].host, now);
    end[1].out_count = 0; // the window update is lost
    wait_for_octets(SMALL_WINDOW + 200);
}

static void sliver_of_a_window_is_used_after_a_while(void **state)
{
    struct net_connection *c = connect_to_small_window();
    end[1].is_stalled = true;
    send_zeros(c, SMALL_WINDOW - 100);
    talk();
    send_zeros(c, 200);
    assert_int_equal(end[0].out_count, 0); // 100 are not worth a segment
    wait_until(0, net_next_deadline(end[0].host));
    talk();
    assert_int_equal(tcp_acked_position(c->tcb), SMALL_WINDOW);
}

static void silent_peer_with_a_shut_window_is_given_up(void **state)
{
    struct net_connection *c = connect_to_small_window();
    end[1].is_stalled = true;
    send_zeros(c, SMALL_WINDOW + 200);
    talk();
    instant_ns begin = now;
    while (net_next_deadline(end[0].host) != INSTANT_NEVER) {
        wait_until(0, net_next_deadline(end[0].host));
        end[0].out_count = 0;
    }
    assert_true(end[0].events[0] & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(c->tcb), -ETIMEDOUT);
    assert_true(now - begin >= tcp_config_default.user_timeout_ns);
}

/* ---- nobody ---------------------------------------------------------------------------------- */

static void segment_of_nobody_is_answered_with_a_reset(void **state)
{
    connect_from(40000);
    deliver(0);
    assert_int_equal(end[1].out_count, 1);
    assert_ptr_equal(end[1].out[0].via, &end[0]);
    assert_int_equal(last_sent(&end[1]).flags, TCP_RST | TCP_ACK);
    deliver(1);
    assert_int_equal(tcp_status(end[0].connection[0].tcb), -ECONNREFUSED);
    assert_int_equal(end[0].out_count, 0); // nobody answers a reset
    assert_int_equal(net_host_counters(end[1].host)->of_nobody, 1);
    assert_int_equal(net_host_counters(end[1].host)->segments, 1);
}

static void resets_are_limited_in_a_second(void **state)
{
    connect_from(40000);
    for (unsigned i = 0; i < RESET_MAX + 2; i++) {
        net_on_segment(end[1].host, &end[0].out[0].flow, NULL,
                       span_of(end[0].out[0].octets, end[0].out[0].len), IP_ECN_NOT_ECT, now);
    }
    assert_int_equal(end[1].out_count, RESET_MAX);
    assert_int_equal(net_host_counters(end[1].host)->resets, RESET_MAX);
    assert_int_equal(net_host_counters(end[1].host)->resets_suppressed, 2);
    now += NS_PER_S;
    deliver(0);
    assert_int_equal(end[1].out_count, RESET_MAX + 1);
}

static void broken_headers_are_counted_and_not_answered(void **state)
{
    connect_from(40000);
    struct octets *o = &end[0].out[0];
    net_on_segment(end[1].host, &o->flow, NULL, span_of(o->octets, TCP_HEADER_LEN - 1),
                   IP_ECN_NOT_ECT, now);
    assert_int_equal(net_host_counters(end[1].host)->bad_headers, 1);
    assert_int_equal(end[1].out_count, 0);
}

/* ---- ICMP ------------------------------------------------------------------------------------ */

static void network_is_believed_about_segments_outstanding_only(void **state)
{
    struct net_connection *c = connect_from(40000);
    uint32_t seq = last_sent(&end[0]).seq;
    assert_null(net_on_unreachable(end[0].host, &c->entry.flow, seq + 100, -EHOSTUNREACH));
    assert_int_equal(tcp_get_state(c->tcb), TCP_STATE_SYN_SENT);
    assert_ptr_equal(net_on_unreachable(end[0].host, &c->entry.flow, seq, -EHOSTUNREACH), c);
    net_output(end[0].host, now);
    assert_true(end[0].events[0] & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(c->tcb), -EHOSTUNREACH);
}

static void narrower_path_is_that_of_one_address(void **state)
{
    static const uint8_t any[IPV4_ADDR_LEN];
    struct iovec iov = {(void *)"x", 1};
    listen_at(net_addr_from_ipv4(any), 4);
    struct net_connection *c = connect_to(addr_of(1), 40000);
    struct net_connection *other = connect_to(addr_of(2), 40001);
    talk();
    uint32_t emss = tcp_emss(other->tcb);
    tcp_send(c->tcb, &iov, 1, 0);
    net_touch(end[0].host, c);
    net_output(end[0].host, now);
    net_on_path_mss(end[0].host, &c->entry.flow, last_sent(&end[0]).seq, 500, now);
    assert_int_equal(tcp_emss(c->tcb), 500 - TCP_TIMESTAMPS_LEN);
    assert_int_equal(tcp_emss(other->tcb), emss);
    talk();
}

static void messages_about_no_connection_are_counted(void **state)
{
    struct net_flow flow = {.local = addr_of(0), .remote = addr_of(1)};
    assert_null(net_on_unreachable(end[0].host, &flow, 1, -EHOSTUNREACH));
    net_on_path_mss(end[0].host, &flow, 1, 500, now);
    assert_int_equal(net_host_counters(end[0].host)->icmp_of_nobody, 2);
}

int main(void)
{
#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON(connections_are_made_and_carry_octets),
        ON(flow_has_one_connection),
        ON(wildcard_takes_every_address_of_its_family),
        ON(ipv6_wildcard_takes_ipv4_unless_told_not_to),
        ON(second_listener_at_a_place_is_refused),
        ON(syn_costs_the_same_with_ten_thousand_listeners),
        ON(full_backlog_makes_the_peer_try_again),
        ON(handshake_that_nobody_takes_is_reset),
        ON(lost_syn_ack_is_sent_again_through_the_listener),
        ON(lost_segment_is_sent_again),
        ON(full_port_is_tried_again_when_it_has_room),
        ON(lost_window_update_is_asked_for),
        ON(sliver_of_a_window_is_used_after_a_while),
        ON(silent_peer_with_a_shut_window_is_given_up),
        ON(segment_of_nobody_is_answered_with_a_reset),
        ON(resets_are_limited_in_a_second),
        ON(both_sides_begin_at_numbers_of_the_hosts_secret),
        ON(next_connection_takes_the_place_of_one_in_time_wait),
        ON(one_alone_may_be_told_of_room),
        ON(one_that_is_destroyed_waits_for_no_room),
        ON(broken_headers_are_counted_and_not_answered),
        ON(network_is_believed_about_segments_outstanding_only),
        ON(narrower_path_is_that_of_one_address),
        ON(messages_about_no_connection_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
