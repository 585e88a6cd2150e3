// Agents on a net of virtual time: messages take 1 ms, or, by a seed, longer, and may be lost,
// doubled and overtaken. What the owners do is a few words per host.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/check.h"
#include "base/prng.h"
#include "ibcm/ibcm.h"
#include "wire/ibcm.h"

enum { NET_HOSTS = 3, NET_PACKETS = 512, NET_EVENTS = 64, NET_PORT = 7471 };

struct net;

struct net_host {
    struct net *net;
    struct ibcm *ibcm;
    struct in6_addr address;
    struct ibcm_listener listener;
    struct ibcm_listener datagrams;

    // What the owner does.
    enum { NET_ACCEPTS, NET_REJECTS, NET_WAITS } answer;
    bool waits_to_establish; // establish is the test's
    bool drops_at_end;       // lets go when a connection is over
    struct ibcm_params params;

    // What it was told.
    struct ibcm_conn *conn; // the last that an event was about
    void *ctx;              // that the last event had
    unsigned count[IBCM_EVENT_COUNT];
    enum ibcm_event_type last;
    unsigned reason; // of the last REJECTED
    bool is_silent;  // as the last event said
    struct ibcm_peer peer;
    struct ibcm_agreement agreement; // when it established or accepted
    size_t data_len;
    uint8_t data[IBCM_SIDR_REQ_PRIVATE_LEN];
};

struct net_packet {
    instant_ns at_ns;      // INSTANT_NEVER: no packet
    struct ibcm_ends ends; // as the receiver sees them
    uint8_t mad[MAD_LEN];
};

struct net {
    struct prng prng;
    instant_ns now;
    struct net_host hosts[NET_HOSTS];
    struct net_packet packets[NET_PACKETS];

    bool is_full;         // the link takes nothing
    unsigned loss, twice; // percent
    duration_ns jitter_ns;
    // The first `lost_count` messages of a kind are lost, too.
    enum ibcm_kind lost_kind;
    unsigned lost_count;
    unsigned sent[IBCM_KIND_COUNT];
    struct net_packet last[IBCM_KIND_COUNT]; // the last of each kind, to be sent by hand again
};

static inline struct in6_addr net_address(unsigned number)
{
    struct in6_addr address = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, (uint8_t)number}};
    return address;
}

static inline void net_put(struct net *net, const struct ibcm_ends *ends, const uint8_t *mad,
                           duration_ns delay_ns)
{
    for (size_t i = 0; i < NET_PACKETS; i++) {
        if (net->packets[i].at_ns == INSTANT_NEVER) {
            net->packets[i].at_ns = net->now + delay_ns;
            net->packets[i].ends = *ends;
            memcpy(net->packets[i].mad, mad, MAD_LEN);
            return;
        }
    }
    fail_msg("the net is full");
}

static inline duration_ns net_delay(struct net *net)
{
    uint32_t jitter = (uint32_t)(net->jitter_ns / NS_PER_US);
    return NS_PER_MS + (jitter > 0 ? prng_below(&net->prng, jitter) * NS_PER_US : 0);
}

static inline bool net_sink(void *ctx, const struct ibcm_ends *ends, const uint8_t *mad)
{
    struct net_host *host = ctx;
    struct net *net = host->net;
    struct ibcm_message m;
    const struct ibcm_ends theirs = {.local = ends->remote, .remote = ends->local};
    assert_int_equal(ibcm_message_parse(span_of(mad, MAD_LEN), &m), IBCM_PARSE_OK);
    assert_memory_equal(&ends->local, &host->address, sizeof host->address);
    if (net->is_full) {
        return false;
    }
    net->sent[m.kind]++;
    net->last[m.kind] = (struct net_packet){.ends = theirs};
    memcpy(net->last[m.kind].mad, mad, MAD_LEN);
    if (m.kind == net->lost_kind && net->lost_count > 0) {
        net->lost_count--;
        return true;
    }
    if (prng_below(&net->prng, 100) < net->loss) {
        return true;
    }
    net_put(net, &theirs, mad, net_delay(net));
    if (prng_below(&net->prng, 100) < net->twice) {
        net_put(net, &theirs, mad, net_delay(net));
    }
    return true;
}

/* ---- what owners do -------------------------------------------------------------------------- */

static inline void net_on_request(struct net_host *host, const struct ibcm_event *e)
{
    static int owner;
    ibcm_conn_set_ctx(e->conn, &owner);
    if (host->answer == NET_ACCEPTS) {
        assert_int_equal(ibcm_accept(host->ibcm, e->conn, &host->params, host->net->now), 0);
        host->agreement = ibcm_conn_agreement(e->conn);
    } else if (host->answer == NET_REJECTS) {
        unsigned reason =
            e->is_datagram ? (unsigned)IBCM_SIDR_REJECTED : (unsigned)IBCM_REASON_CONSUMER;
        assert_int_equal(ibcm_reject(host->ibcm, e->conn, reason, span_of("no", 2), host->net->now),
                         0);
    }
}

static inline void net_on_event(struct net_host *host, const struct ibcm_event *e)
{
    host->count[e->type]++;
    host->is_silent = e->is_silent;
    host->last = e->type;
    host->conn = e->conn;
    host->ctx = e->ctx;
    host->peer = *e->peer;
    host->data_len = e->private_data.len;
    memcpy(host->data, e->private_data.ptr, e->private_data.len);
    if (e->type == IBCM_EVENT_CONNECT_REQUEST) {
        net_on_request(host, e);
    } else if (e->type == IBCM_EVENT_CONNECT_RESPONSE && !host->waits_to_establish) {
        host->agreement = ibcm_conn_agreement(e->conn);
        assert_int_equal(ibcm_establish(host->ibcm, e->conn, host->net->now), 0);
    } else if (e->type == IBCM_EVENT_REJECTED) {
        host->reason = e->reason;
    }
    bool is_over = e->type >= IBCM_EVENT_REJECTED && e->type != IBCM_EVENT_TIMEWAIT_EXIT;
    if (host->drops_at_end && is_over) {
        ibcm_drop(host->ibcm, e->conn, host->net->now);
        host->conn = NULL;
    }
}

static inline void net_settle(struct net *net)
{
    struct ibcm_event e;
    for (size_t i = 0; i < NET_HOSTS; i++) {
        while (ibcm_next_event(net->hosts[i].ibcm, &e)) {
            net_on_event(&net->hosts[i], &e);
        }
        ibcm_check(net->hosts[i].ibcm);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

static inline struct net_packet *net_first_packet(struct net *net)
{
    struct net_packet *first = &net->packets[0];
    for (size_t i = 1; i < NET_PACKETS; i++) {
        if (net->packets[i].at_ns < first->at_ns) {
            first = &net->packets[i];
        }
    }
    return first;
}

static inline instant_ns net_next(struct net *net)
{
    instant_ns next = net_first_packet(net)->at_ns;
    for (size_t i = 0; i < NET_HOSTS; i++) {
        next = instant_min(next, ibcm_next_deadline(net->hosts[i].ibcm));
    }
    return next;
}

static inline void net_deliver(struct net *net, const struct ibcm_ends *ends, const uint8_t *mad)
{
    for (size_t i = 0; i < NET_HOSTS; i++) {
        struct net_host *host = &net->hosts[i];
        if (memcmp(&host->address, &ends->local, sizeof host->address) == 0) {
            ibcm_on_mad(host->ibcm, ends, span_of(mad, MAD_LEN), false, net->now);
        }
    }
    net_settle(net);
}

// Runs until nothing is on its way or due any more, or until then.
static inline void net_run(struct net *net, instant_ns until)
{
    instant_ns next;
    net_settle(net);
    while ((next = net_next(net)) <= until && next != INSTANT_NEVER) {
        net->now = next;
        struct net_packet *p = net_first_packet(net);
        if (p->at_ns == next) {
            struct net_packet packet = *p;
            p->at_ns = INSTANT_NEVER;
            net_deliver(net, &packet.ends, packet.mad);
        } else {
            for (size_t i = 0; i < NET_HOSTS; i++) {
                ibcm_on_deadline(net->hosts[i].ibcm, next);
            }
            net_settle(net);
        }
    }
    net->now = until != INSTANT_NEVER ? until : net->now;
}

static inline void net_run_for(struct net *net, duration_ns duration)
{
    net_run(net, net->now + duration);
}

// Long enough for all that was sent to be answered, not for anything to be sent again.
static inline void net_exchange(struct net *net)
{
    net_run_for(net, 20 * NS_PER_MS);
}

// Longer than somebody who is asked where nobody listens is asked again.
static inline void net_exchange_unserved(struct net *net)
{
    net_run_for(net, 100 * NS_PER_MS);
}

// The last message of a kind that was sent.
static inline struct ibcm_message net_last(const struct net *net, enum ibcm_kind kind)
{
    struct ibcm_message m;
    const struct span mad = span_of(net->last[kind].mad, MAD_LEN);
    assert_int_equal(ibcm_message_parse(mad, &m), IBCM_PARSE_OK);
    return m;
}

/* ---- set up ---------------------------------------------------------------------------------- */

static inline struct ibcm_params net_params(uint32_t qp_num)
{
    return (struct ibcm_params){
        .transport = IBCM_TRANSPORT_RC,
        .qp_num = qp_num,
        .qkey = IP_CM_QKEY,
        .responder_resources = 8,
        .initiator_depth = 4,
        .retry_count = 7,
        .rnr_retry_count = 6,
        .path_mtu = 3,
        .private_data = span_of("hello", 5),
    };
}

// Each host listens, and accepts.
static inline void net_init_with(struct net *net, uint64_t seed, const struct ibcm_config *config)
{
    memset(net, 0, sizeof *net);
    prng_init(&net->prng, seed);
    net->now = NS_PER_S;
    for (size_t i = 0; i < NET_PACKETS; i++) {
        net->packets[i].at_ns = INSTANT_NEVER;
    }
    for (unsigned i = 0; i < NET_HOSTS; i++) {
        struct net_host *host = &net->hosts[i];
        struct ibcm_config c = *config;
        c.key[0] = (uint8_t)(i + 1);
        c.key[1] = (uint8_t)seed;
        c.key[2] = (uint8_t)(seed >> 8);
        c.ca_guid = i + 1;
        c.id_slot = 5;
        c.sink = (struct ibcm_sink){net_sink, host};
        c.will.ctx = host;
        *host = (struct net_host){.net = net, .address = net_address(i + 1)};
        host->ibcm = ibcm_create(&c);
        assert_non_null(host->ibcm);
        host->params = net_params(0x10000 * (i + 1) + 7);
        assert_int_equal(
            ibcm_listen(host->ibcm, &host->listener, IP_CM_PS_TCP, NET_PORT, &in6addr_any, 0, host),
            0);
        assert_int_equal(ibcm_listen(host->ibcm, &host->datagrams, IP_CM_PS_UDP, NET_PORT,
                                     &in6addr_any, 0, host),
                         0);
    }
}

static inline struct ibcm_config net_config(void)
{
    struct ibcm_config c = ibcm_config_default();
    c.conn_max = 64;
    c.half_open_max = 32;
    c.source_max = 16;
    return c;
}

static inline void net_init(struct net *net, uint64_t seed)
{
    const struct ibcm_config c = net_config();
    net_init_with(net, seed, &c);
}

static inline void net_fini(struct net *net)
{
    for (size_t i = 0; i < NET_HOSTS; i++) {
        ibcm_destroy(net->hosts[i].ibcm);
    }
}

static inline struct ibcm_target net_target(const struct net_host *from, const struct net_host *to)
{
    return (struct ibcm_target){
        .ends = {.local = from->address, .remote = to->address},
        .ps = IP_CM_PS_TCP,
        .port = NET_PORT,
        .source_port = 40000,
    };
}

static inline struct ibcm_conn *net_connect(struct net *net, unsigned from, unsigned to)
{
    struct net_host *host = &net->hosts[from];
    const struct ibcm_target target = net_target(host, &net->hosts[to]);
    int error;
    struct ibcm_conn *conn =
        ibcm_connect(host->ibcm, &target, &host->params, host, net->now, &error);
    assert_non_null(conn);
    host->conn = conn;
    return conn;
}

static inline struct ibcm_conn *net_resolve(struct net *net, unsigned from, unsigned to)
{
    struct net_host *host = &net->hosts[from];
    struct ibcm_target target = net_target(host, &net->hosts[to]);
    int error;
    target.ps = IP_CM_PS_UDP;
    struct ibcm_conn *conn =
        ibcm_resolve(host->ibcm, &target, span_of("who", 3), host, net->now, &error);
    assert_non_null(conn);
    host->conn = conn;
    return conn;
}

static inline uint64_t net_refusals(const struct net_host *host, enum ibcm_refusal refusal)
{
    return ibcm_counters(host->ibcm)->refusals[refusal];
}
