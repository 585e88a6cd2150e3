#include "net/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "net/addr.h"
#include "net/path.h"
#include "tcp/isn.h"
#include "tcp/state.h"
#include "wire/ip.h"
#include "wire/tcp.h"

// RFC 9293 section 3.7.1 (MUST-15).
enum { MSS_UNSAID_IPV4 = 536, MSS_UNSAID_IPV6 = 1220 };

struct net_host {
    struct net_config config;
    struct net_flows flows, listeners;
    struct net_paths paths;
    struct deadlines listener_deadlines, connection_deadlines;
    struct list_link due;       // connections that net_output looks at
    struct list_link blocked;   // connections that the port has no room for
    instant_ns resets_since_ns; // reset_count counts from here, for a second
    uint32_t reset_count;
    struct net_counters counters;
};

struct net_host *net_host_create(const struct net_config *config)
{
    struct net_host *host = calloc(1, sizeof *host);
    if (host == NULL) {
        return NULL;
    }
    host->config = *config;
    list_init(&host->due);
    list_init(&host->blocked);
    if (net_flows_init(&host->flows, config->secret) != 0 ||
        net_flows_init(&host->listeners, config->secret) != 0) {
        net_host_destroy(host);
        return NULL;
    }
    return host;
}

void net_host_destroy(struct net_host *host)
{
    CHECK(!deadlines_has_any(&host->listener_deadlines));
    CHECK(!deadlines_has_any(&host->connection_deadlines));
    net_flows_fini(&host->flows);
    net_flows_fini(&host->listeners);
    free(host);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static struct net_listener *listener_at(struct net_host *host, const struct net_addr *local,
                                        uint16_t port)
{
    struct net_flow place = {.local = *local, .local_port = port};
    struct net_flow_entry *entry = net_flows_find(&host->listeners, &place);
    return entry == NULL ? NULL : LIST_ENTRY(&entry->link, struct net_listener, entry.link);
}

// The one at this very address before a wildcard, that of the same family before the other.
static struct net_listener *listener_find(struct net_host *host, const struct net_flow *flow)
{
    static const uint8_t any[IPV4_ADDR_LEN];
    struct net_addr any_ipv4 = net_addr_from_ipv4(any), any_ipv6 = {{0}};
    bool is_ipv4 = net_addr_is_ipv4(&flow->local);
    struct net_listener *found = listener_at(host, &flow->local, flow->local_port);
    if (found == NULL && is_ipv4) {
        found = listener_at(host, &any_ipv4, flow->local_port);
    }
    if (found == NULL) {
        found = listener_at(host, &any_ipv6, flow->local_port);
        found = found != NULL && is_ipv4 && found->is_v6_only ? NULL : found;
    }
    return found;
}

int net_listener_create(struct net_host *host, struct net_listener *listener,
                        const struct tcp_listener_config *config)
{
    struct tcp_listener_config tcp = *config;
    if (listener_at(host, &listener->place.local, listener->place.local_port) != NULL) {
        return -EADDRINUSE;
    }
    tcp.connection.local_port = listener->place.local_port;
    memcpy(tcp.secret, host->config.secret, sizeof tcp.secret);
    listener->connection = tcp.connection;
    listener->deadline = (struct deadline){0};
    listener->tcp = tcp_listener_create(&tcp);
    if (listener->tcp == NULL) {
        return -ENOMEM;
    }
    listener->entry.flow = listener->place;
    listener->entry.flow.scope = 0;
    net_flows_resize(&host->listeners, host->listeners.count + 1); // as for connections
    net_flows_add(&host->listeners, &listener->entry);
    return 0;
}

void net_listener_destroy(struct net_host *host, struct net_listener *listener)
{
    deadline_disarm(&host->listener_deadlines, &listener->deadline);
    net_flows_remove(&host->listeners, &listener->entry);
    tcp_listener_destroy(listener->tcp);
}

/* ---- connections ----------------------------------------------------------------------------- */

struct net_connection *net_find(struct net_host *host, const struct net_flow *flow)
{
    struct net_flow_entry *entry = net_flows_find(&host->flows, flow);
    return entry == NULL ? NULL : LIST_ENTRY(&entry->link, struct net_connection, entry.link);
}

int net_connection_create(struct net_host *host, struct net_connection *c,
                          const struct net_flow *flow, const struct tcp_config *config)
{
    struct tcp_config tcp = *config;
    *c = (struct net_connection){.entry.flow = *flow};
    list_init(&c->entry.link);
    list_init(&c->due_link);
    list_init(&c->blocked_link);
    if (net_find(host, flow) != NULL) {
        return -EADDRINUSE;
    }
    tcp.local_port = flow->local_port;
    tcp.remote_port = flow->remote_port;
    tcp.path_mss = net_paths_mss(&host->paths, &flow->remote);
    tcp.mss_unsaid = net_addr_is_ipv4(&flow->remote) ? MSS_UNSAID_IPV4 : MSS_UNSAID_IPV6;
    c->tcb = tcp_create(&tcp);
    if (c->tcb == NULL) {
        return -ENOMEM;
    }
    net_flows_resize(&host->flows, host->flows.count + 1); // without it the chains only get longer
    net_flows_add(&host->flows, &c->entry);
    return 0;
}

void net_connection_destroy(struct net_host *host, struct net_connection *c)
{
    if (!list_is_empty(&c->entry.link)) { // the next connection is not there in its place
        net_flows_remove(&host->flows, &c->entry);
    }
    list_remove(&c->due_link);
    list_remove(&c->blocked_link);
    deadline_disarm(&host->connection_deadlines, &c->deadline);
    tcp_destroy(c->tcb);
    c->tcb = NULL;
}

uint32_t net_iss(const struct net_host *host, const struct net_connection *c, instant_ns now)
{
    struct tcp_tuple tuple = net_flow_tuple(&c->entry.flow);
    return tcp_isn(host->config.secret, &tuple, now);
}

void net_touch(struct net_host *host, struct net_connection *c)
{
    if (list_is_empty(&c->due_link)) {
        list_push_tail(&host->due, &c->due_link);
    }
}

void net_unblock(struct net_host *host, struct net_connection *c)
{
    list_remove(&c->blocked_link);
    net_touch(host, c);
}

void net_unblock_all(struct net_host *host)
{
    struct list_link *l;
    while ((l = list_pop_head(&host->blocked)) != NULL) {
        net_touch(host, LIST_ENTRY(l, struct net_connection, blocked_link));
    }
}

/* ---- what arrives ---------------------------------------------------------------------------- */

// One more reset this second?
static bool may_reset(struct net_host *host, instant_ns now)
{
    if (now >= instant_after(host->resets_since_ns, NS_PER_S)) {
        host->resets_since_ns = now;
        host->reset_count = 0;
    }
    if (host->reset_count >= host->config.reset_max) {
        host->counters.resets_suppressed++;
        return false;
    }
    host->reset_count++;
    return true;
}

// A segment that has come: of which flow, and the way by which its sender is answered.
struct incoming {
    struct net_flow flow;
    void *via;
    struct tcp_segment segment;
};

static void reset(struct net_host *host, const struct incoming *in, instant_ns now)
{
    struct tcp_header h;
    if (tcp_reset_for(&in->segment, &h) && may_reset(host, now)) {
        host->counters.resets++;
        host->config.port.reply(host->config.port.ctx, &in->flow, in->via, &h);
    }
}

// The peer has completed the handshake of the next connection of these ports: the last one, in
// TIME-WAIT until now, is out of the way, and net_output tells that it is over.
static void supersede(struct net_host *host, const struct net_flow *flow, instant_ns now)
{
    struct net_connection *last = net_find(host, flow);
    if (last != NULL) {
        net_flows_remove(&host->flows, &last->entry);
        tcp_supersede(last->tcb, now);
        net_touch(host, last);
    }
}

static void open_incoming(struct net_host *host, struct net_listener *l, const struct incoming *in,
                          const struct tcp_handshake *handshake, instant_ns now)
{
    const struct net_port *port = &host->config.port;
    supersede(host, &in->flow, now);
    struct net_connection *c = port->on_incoming(port->ctx, l, &in->flow, in->via, &l->connection);
    if (c == NULL) {
        host->counters.refused++;
        reset(host, in, now);
        return;
    }
    tcp_accept(c->tcb, handshake, now);
    tcp_on_segment(c->tcb, &in->segment, now);
    net_touch(host, c);
}

// `last`: the connection of the same flow that is in TIME-WAIT, or NULL.
static void listener_on_segment(struct net_host *host, struct net_listener *l,
                                const struct net_connection *last, const struct incoming *in,
                                instant_ns now)
{
    const struct net_port *port = &host->config.port;
    struct tcp_tuple tuple = net_flow_tuple(&in->flow);
    struct tcp_listen_answer answer;
    if (l->waiting_count >= l->backlog) {
        host->counters.backlog_full++; // the peer sends it again
        return;
    }
    if (last != NULL) {
        uint32_t iss = tcp_unused_number(last->tcb);
        tcp_listener_reopen(l->tcp, &tuple, &in->segment, iss, now, &answer);
    } else {
        tcp_listener_on_segment(l->tcp, &tuple, &in->segment, now, &answer);
    }
    if (answer.has_reply) {
        port->reply(port->ctx, &in->flow, in->via, &answer.reply);
    }
    if (answer.has_handshake) {
        open_incoming(host, l, in, &answer.handshake, now);
    }
    deadline_arm(&host->listener_deadlines, &l->deadline, tcp_listener_next_deadline(l->tcp));
}

// Whether a segment to a connection in TIME-WAIT is of the next one, and for the listener. The last
// goes on until that handshake is complete: should its SYN have been an old one after all, nothing
// has changed (RFC 9293 section 3.6.1, MAY-2).
static bool is_of_next(const struct net_listener *l, const struct net_connection *c,
                       const struct incoming *in)
{
    struct tcp_tuple tuple = net_flow_tuple(&in->flow);
    return l != NULL && (tcp_begins_anew(c->tcb, &in->segment) ||
                         tcp_listener_expects(l->tcp, &tuple, &in->segment));
}

void net_on_segment(struct net_host *host, const struct net_flow *from, void *via,
                    struct span octets, enum ip_ecn ecn, instant_ns now)
{
    struct incoming in = {.flow = *from, .via = via, .segment.ecn = ecn};
    struct tcp_header *header = &in.segment.header;
    size_t header_len;
    host->counters.segments++;
    if (tcp_header_parse(octets, header, &header_len) != TCP_PARSE_OK) {
        host->counters.bad_headers++;
        return;
    }
    in.segment.payload = span_skip(octets, header_len);
    in.flow.local_port = header->dst_port;
    in.flow.remote_port = header->src_port;
    struct net_connection *c = net_find(host, &in.flow);
    bool may_be_next = c == NULL || tcp_get_state(c->tcb) == TCP_STATE_TIME_WAIT;
    struct net_listener *l = may_be_next ? listener_find(host, &in.flow) : NULL;
    if (c != NULL && !is_of_next(l, c, &in)) {
        tcp_on_segment(c->tcb, &in.segment, now);
        net_touch(host, c);
    } else if (l != NULL) {
        listener_on_segment(host, l, c, &in, now);
    } else {
        host->counters.of_nobody++;
        reset(host, &in, now);
    }
}

struct narrowing {
    struct net_host *host;
    const struct net_addr *remote;
    uint16_t mss;
};

// RFC 8201 section 5.2: all connections of a path that has become narrower are told.
static void narrow(void *ctx, struct net_flow_entry *entry)
{
    const struct narrowing *n = ctx;
    struct net_connection *c = LIST_ENTRY(&entry->link, struct net_connection, entry.link);
    if (net_addr_equal(&entry->flow.remote, n->remote)) {
        tcp_take_path_mss(c->tcb, n->mss);
        net_touch(n->host, c);
    }
}

void net_on_path_mss(struct net_host *host, const struct net_flow *flow, uint32_t quoted_seq,
                     uint16_t mss, instant_ns now)
{
    struct net_connection *c = net_find(host, flow);
    if (c == NULL) {
        host->counters.icmp_of_nobody++;
        return;
    }
    if (tcp_on_path_mss(c->tcb, quoted_seq, mss)) {
        struct narrowing narrowing = {host, &flow->remote, mss};
        net_touch(host, c);
        net_paths_note(&host->paths, &flow->remote, mss, now);
        net_flows_each(&host->flows, narrow, &narrowing);
    }
}

struct net_connection *net_on_unreachable(struct net_host *host, const struct net_flow *flow,
                                          uint32_t quoted_seq, int error)
{
    struct net_connection *c = net_find(host, flow);
    if (c == NULL) {
        host->counters.icmp_of_nobody++;
        return NULL;
    }
    if (!tcp_on_unreachable(c->tcb, quoted_seq, error)) {
        return NULL;
    }
    net_touch(host, c);
    return c;
}

/* ---- what leaves, and time ------------------------------------------------------------------- */

struct sender {
    struct net_host *host;
    struct net_connection *c;
};

static unsigned send_batch(void *ctx, const struct tcp_batch *batch)
{
    const struct sender *s = ctx;
    const struct net_port *port = &s->host->config.port;
    return port->send(port->ctx, s->c, batch);
}

// Writes what is due, notes the next deadline, tells what has happened.
static void connection_settle(struct net_host *host, struct net_connection *c, instant_ns now)
{
    struct sender sender = {host, c};
    struct tcp_port port = {.send = send_batch, .ctx = &sender};
    if (list_is_empty(&c->blocked_link) && tcp_wants_output(c->tcb, now) &&
        !tcp_output(c->tcb, &port, now)) {
        list_push_tail(&host->blocked, &c->blocked_link);
    }
    deadline_arm(&host->connection_deadlines, &c->deadline, tcp_next_deadline(c->tcb));
    unsigned events = tcp_take_events(c->tcb);
    if (events != 0) {
        host->config.port.on_events(host->config.port.ctx, c, events);
    }
}

void net_output(struct net_host *host, instant_ns now)
{
    struct list_link *l;
    while ((l = list_pop_head(&host->due)) != NULL) {
        connection_settle(host, LIST_ENTRY(l, struct net_connection, due_link), now);
    }
}

instant_ns net_next_deadline(const struct net_host *host)
{
    if (!list_is_empty(&host->due)) {
        return 0;
    }
    return instant_min(net_paths_next_deadline(&host->paths),
                       instant_min(deadlines_next(&host->listener_deadlines),
                                   deadlines_next(&host->connection_deadlines)));
}

static void listener_on_deadline(struct net_host *host, struct net_listener *l, instant_ns now)
{
    struct tcp_tuple tuple;
    struct tcp_header reply;
    while (tcp_listener_on_deadline(l->tcp, now, &tuple, &reply)) {
        struct net_flow flow = net_flow_of_tuple(&tuple);
        host->config.port.reply(host->config.port.ctx, &flow, l->via, &reply);
    }
    deadline_arm(&host->listener_deadlines, &l->deadline, tcp_listener_next_deadline(l->tcp));
}

void net_on_deadline(struct net_host *host, instant_ns now)
{
    struct deadline *d;
    net_paths_on_deadline(&host->paths, now);
    while ((d = deadlines_take_due(&host->listener_deadlines, now)) != NULL) {
        listener_on_deadline(host, DEADLINE_ENTRY(d, struct net_listener, deadline), now);
    }
    while ((d = deadlines_take_due(&host->connection_deadlines, now)) != NULL) {
        struct net_connection *c = DEADLINE_ENTRY(d, struct net_connection, deadline);
        tcp_on_deadline(c->tcb, now);
        net_touch(host, c);
    }
}

const struct net_counters *net_host_counters(const struct net_host *host)
{
    return &host->counters;
}

void net_host_check(const struct net_host *host)
{
    deadlines_check(&host->listener_deadlines);
    deadlines_check(&host->connection_deadlines);
    for (const struct list_link *l = host->due.next; l != &host->due; l = l->next) {
        tcp_check(LIST_ENTRY(l, const struct net_connection, due_link)->tcb);
    }
}
