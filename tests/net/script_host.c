#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "link/packet/cut.h"
#include "tests/net/script.h"

enum { LOOKS_MAX = 100000, BEGAN_S = 1000 };

/* ---- what the host sends --------------------------------------------------------------------- */

static bool on_frame(void *ctx, const struct net_frame *frame)
{
    struct script_host *h = ctx;
    size_t len = 0;
    if (!h->has_room) {
        return false;
    }
    for (unsigned i = 0; i < frame->iov_count; i++) {
        len += frame->iov[i].iov_len;
    }
    struct script_packet *p = malloc(sizeof *p + len);
    CHECK(p != NULL);
    p->at_ns = h->now_ns;
    p->len = 0;
    for (unsigned i = 0; i < frame->iov_count; i++) {
        if (frame->iov[i].iov_len > 0) {
            memcpy(p->octets + p->len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        }
        p->len += frame->iov[i].iov_len;
    }
    list_push_tail(&h->sent, &p->link);
    return true;
}

static unsigned on_send(void *ctx, struct net_connection *c, const struct tcp_batch *batch)
{
    struct script_host *h = ctx;
    static struct packet_cut cut;
    const struct net_segments *segments = packet_cut(&cut, batch, false);
    unsigned count;
    net_iface_send(&h->iface, &c->entry.flow, 0, segments, h->now_ns, &count);
    return count;
}

static void on_reply(void *ctx, const struct net_flow *flow, void *via,
                     const struct tcp_header *header)
{
    struct script_host *h = ctx;
    struct tcp_batch batch = {.header = *header, .segment_count = 1};
    static struct packet_cut cut;
    const struct net_segments *segments = packet_cut(&cut, &batch, false);
    unsigned count;
    (void)via;
    net_iface_send(&h->iface, flow, 0, segments, h->now_ns, &count);
}

/* ---- what the program is --------------------------------------------------------------------- */

static bool is_right(struct span octets, uint64_t position)
{
    for (size_t i = 0; i < octets.len; i++) {
        if (octets.ptr[i] != script_octet(position + i)) {
            return false;
        }
    }
    return true;
}

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    struct script_connection *c = ctx;
    if (offer->order == PLACE_BEYOND_HOLE) {
        return c->beyond;
    }
    if (c->handed >= c->read_max) {
        return PLACE_BUFFER;
    }
    uint64_t room = c->read_max - c->handed;
    answer->len = answer->len < room ? answer->len : room;
    c->is_wrong |= offer->position != c->handed ||
                   !is_right(span_of(offer->octets.ptr, answer->len), offer->position);
    c->handed += answer->len;
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct script_connection *c = ctx;
    (void)counts;
    c->is_wrong |= position != c->handed;
    c->handed = end;
    return true;
}

static bool connection_make(struct script_host *h, struct script_connection *c,
                            const struct tcp_config *config)
{
    struct tcp_config tcp = *config;
    tcp.mss = packet_mss(net_iface_segment_len_max(&h->iface, &c->flow.remote));
    tcp.place = (struct place_port){.place = on_place, .on_advance = on_advance, .ctx = c};
    c->handed = 0;
    c->read_max = UINT64_MAX;
    c->has_fin = c->is_wrong = false;
    c->beyond = h->settings.beyond;
    c->exists = net_connection_create(h->host, &c->connection, &c->flow, &tcp) == 0;
    c->was_there |= c->exists;
    return c->exists;
}

static struct script_connection *connection_of(struct script_host *h, struct net_connection *c)
{
    struct script_connection *found = script_host_find(h, &c->entry.flow);
    CHECK(found != NULL && &found->connection == c);
    return found;
}

static void on_events(void *ctx, struct net_connection *connection, unsigned events)
{
    struct script_host *h = ctx;
    struct script_connection *c = connection_of(h, connection);
    c->has_fin |= (events & TCP_EVENT_FIN) != 0;
    if ((events & TCP_EVENT_OVER) != 0) { // as link/ does
        script_host_end(h, c);
    }
}

static struct net_connection *on_incoming(void *ctx, struct net_listener *listener,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config)
{
    struct script_host *h = ctx;
    struct script_connection *c = script_host_find(h, flow);
    (void)via;
    if (c != NULL && c->exists) { // the one before, in TIME-WAIT until now
        script_host_end(h, c);
    }
    if (!h->takes_incoming || c == NULL || h->waiting_count == SCRIPT_WAITING_MAX ||
        !connection_make(h, c, config)) {
        return NULL;
    }
    h->waiting[h->waiting_count++] = c;
    listener->waiting_count++;
    return &c->connection;
}

struct script_connection *script_host_find(struct script_host *h, const struct net_flow *flow)
{
    unsigned index = (unsigned)flow->remote_port - SCRIPT_PEER_PORT;
    return index <= SCRIPT_CONNECTIONS_MAX ? &h->connection[index] : NULL;
}

void script_connection_info(const struct script_connection *c, struct tcp_info *ret,
                            enum tcp_state *ret_state)
{
    *ret = c->info;
    *ret_state = c->state;
    if (c->exists) {
        tcp_get_info(c->connection.tcb, ret);
        *ret_state = tcp_get_state(c->connection.tcb);
    }
}

void script_host_end(struct script_host *h, struct script_connection *c)
{
    script_connection_info(c, &c->info, &c->state);
    c->counters = *c->info.counters;
    c->info.counters = &c->counters;
    c->status = tcp_status(c->connection.tcb);
    c->exists = false;
    net_connection_destroy(h->host, &c->connection);
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct net_addr addr_of(const struct script_host *h, uint8_t last)
{
    const uint8_t ipv4[] = {10, 0, 0, last};
    return h->settings.family == 4 ? net_addr_from_ipv4(ipv4)
                                   : (struct net_addr){{0xfd, 0, [15] = last}};
}

bool script_host_init(struct script_host *h)
{
    struct net_config config = {.secret = {7},
                                .reset_max = h->settings.reset_max,
                                .port = {.send = on_send,
                                         .reply = on_reply,
                                         .on_events = on_events,
                                         .on_incoming = on_incoming,
                                         .ctx = h}};
    struct net_iface_config iface = {
        .addrs = {{addr_of(h, 1), (uint8_t)(h->settings.family == 4 ? 24 : 64)}},
        .addr_count = 1,
        .mtu = (uint16_t)h->settings.mtu,
        .port = {.send = on_frame, .ctx = h}};
    list_init(&h->sent);
    h->began_ns = h->now_ns = BEGAN_S * NS_PER_S;
    h->has_room = h->takes_incoming = true;
    for (unsigned i = 0; i <= SCRIPT_CONNECTIONS_MAX; i++) {
        h->connection[i] = (struct script_connection){
            .flow = {.local = addr_of(h, 1),
                     .remote = addr_of(h, 2),
                     .local_port = SCRIPT_PORT,
                     .remote_port = (uint16_t)(SCRIPT_PEER_PORT + i)},
            .irs = h->settings.peer_isn,
            .window = UINT16_MAX,
        };
    }
    net_iface_init(&h->iface, &iface);
    h->host = net_host_create(&config);
    return h->host != NULL;
}

void script_host_drop_sent(struct script_host *h)
{
    struct script_packet *p;
    while ((p = script_host_take(h)) != NULL) {
        free(p);
    }
}

void script_host_fini(struct script_host *h)
{
    if (h->host == NULL) {
        return;
    }
    net_host_check(h->host);
    for (unsigned i = 0; i <= SCRIPT_CONNECTIONS_MAX; i++) {
        if (h->connection[i].exists) {
            net_connection_destroy(h->host, &h->connection[i].connection);
        }
    }
    script_host_unlisten(h);
    net_host_destroy(h->host);
    script_host_drop_sent(h);
}

/* ---- looking, and time ----------------------------------------------------------------------- */

struct script_packet *script_host_take(struct script_host *h)
{
    struct list_link *l = list_pop_head(&h->sent);
    return l == NULL ? NULL : LIST_ENTRY(l, struct script_packet, link);
}

void script_host_look(struct script_host *h)
{
    net_on_deadline(h->host, h->now_ns);
    net_output(h->host, h->now_ns);
    net_host_check(h->host);
}

bool script_host_wait(struct script_host *h, instant_ns at_ns, bool until_sent)
{
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        instant_ns next_ns = net_next_deadline(h->host);
        if (until_sent && !list_is_empty(&h->sent)) {
            return true;
        }
        if (next_ns > at_ns) {
            h->now_ns = h->now_ns > at_ns ? h->now_ns : at_ns;
            return true;
        }
        h->now_ns = next_ns > h->now_ns ? next_ns : h->now_ns;
        script_host_look(h);
    }
    return false;
}

void script_host_on_packet(struct script_host *h, const uint8_t *octets, size_t len)
{
    struct net_arrival a;
    net_iface_on_frame(&h->iface, span_of(octets, len), false, h->now_ns, &a);
    switch (a.kind) {
    case NET_ARRIVAL_SEGMENT:
        net_on_segment(h->host, &a.flow, NULL, a.segment, a.ecn, h->now_ns);
        break;
    case NET_ARRIVAL_PATH:
        net_on_path_mss(h->host, &a.flow, get_be32(a.quoted.ptr + TCP_OFF_SEQ),
                        packet_mss(a.segment_len_max), h->now_ns);
        break;
    case NET_ARRIVAL_UNREACHABLE:
        net_on_unreachable(h->host, &a.flow, get_be32(a.quoted.ptr + TCP_OFF_SEQ), a.error);
        break;
    case NET_ARRIVAL_DATAGRAM: // nobody takes such here
    case NET_ARRIVAL_ROOM:
    case NET_ARRIVAL_NOTHING:
        break;
    }
}

/* ---- what the program calls ------------------------------------------------------------------ */

static void settle(struct script_host *h, struct script_connection *c)
{
    net_touch(h->host, &c->connection);
    script_host_look(h);
}

bool script_host_connect(struct script_host *h, struct script_connection *c)
{
    if (!connection_make(h, c, &h->settings.tcp)) {
        return false;
    }
    uint32_t iss =
        h->settings.has_isn ? h->settings.isn : net_iss(h->host, &c->connection, h->now_ns);
    tcp_connect(c->connection.tcb, iss, h->now_ns);
    settle(h, c);
    return true;
}

int script_host_listen(struct script_host *h, unsigned backlog, unsigned half_open,
                       unsigned retries, bool answers_once)
{
    struct tcp_listener_config config = {.connection = h->settings.tcp,
                                         .half_open_max = (uint16_t)half_open,
                                         .syn_ack_retries = retries,
                                         .answers_once = answers_once};
    config.connection.mss =
        packet_mss(net_iface_segment_len_max(&h->iface, &h->connection[1].flow.remote));
    config.connection.place =
        (struct place_port){.place = on_place, .on_advance = on_advance, .ctx = h};
    h->listener = (struct net_listener){
        .place = {.local = h->connection[1].flow.local, .local_port = SCRIPT_PORT},
        .backlog = backlog};
    int error = net_listener_create(h->host, &h->listener, &config);
    h->is_listening = error == 0;
    return error;
}

void script_host_unlisten(struct script_host *h)
{
    if (h->is_listening) {
        net_listener_destroy(h->host, &h->listener);
        h->is_listening = false;
    }
}

void script_host_read(struct script_host *h, struct script_connection *c, uint64_t max)
{
    c->read_max = max;
    if (c->exists) {
        tcp_resume(c->connection.tcb, h->now_ns);
        settle(h, c);
    }
}

size_t script_host_write(struct script_host *h, struct script_connection *c, uint32_t len,
                         uint32_t records)
{
    uint8_t *octets = malloc(len + 1);
    uint64_t position = tcp_sent_position(c->connection.tcb);
    uint32_t piece = records > 0 ? len / records : len;
    size_t taken = 0;
    CHECK(octets != NULL);
    for (uint32_t i = 0; i < len; i++) {
        octets[i] = script_octet(position + i);
    }
    for (uint32_t at = 0; at < len; at += piece) {
        struct iovec iov = {octets + at, piece < len - at ? piece : len - at};
        taken += tcp_send(c->connection.tcb, &iov, 1, records > 0 ? TCP_SEND_RECORD : 0);
    }
    free(octets);
    settle(h, c);
    return taken;
}
