#include "link/datagram/pcap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/forward.h"
#include "link/datagram/octets.h"
#include "link/pcap/file.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum {
    SOURCE_PORT_DEFAULT = 0xc000,
    IPV4_OFF_IN_MAPPED = 12,
    HEADERS_MAX_LEN = IPV6_HEADER_LEN + UDP_HEADER_LEN,
};

struct datagram_pcap {
    struct datagram_forward forward;
    uint16_t port;
    struct pcap_file file;
    uint8_t packet[HEADERS_MAX_LEN + DATAGRAM_LEN_MAX + ICRC_LEN];
};

// What the headers are made of.
struct outer {
    const struct in6_addr *src, *dst;
    uint32_t flow_label;
    uint16_t src_port;
    uint8_t traffic_class, hop_limit;
    size_t udp_len;
};

static struct datagram_pcap *pcap_of(const struct datagram_link *link)
{
    return (struct datagram_pcap *)link;
}

/* ---- a packet -------------------------------------------------------------------------------- */

static uint64_t ipv4_put(const struct outer *o, uint8_t *p)
{
    struct ipv4_header h = {.tos = o->traffic_class,
                            .total_len = (uint16_t)(IPV4_HEADER_LEN + o->udp_len),
                            .ttl = o->hop_limit,
                            .protocol = IP_PROTOCOL_UDP};
    memcpy(h.src, o->src->s6_addr + IPV4_OFF_IN_MAPPED, sizeof h.src);
    memcpy(h.dst, o->dst->s6_addr + IPV4_OFF_IN_MAPPED, sizeof h.dst);
    ipv4_header_emit(&h, p);
    return inet_sum_ipv4(&h, (uint32_t)o->udp_len);
}

static uint64_t ipv6_put(const struct outer *o, uint8_t *p)
{
    struct ipv6_header h = {.traffic_class = o->traffic_class,
                            .flow_label = o->flow_label,
                            .payload_len = (uint16_t)o->udp_len,
                            .next_header = IP_PROTOCOL_UDP,
                            .hop_limit = o->hop_limit};
    memcpy(h.src, o->src, sizeof h.src);
    memcpy(h.dst, o->dst, sizeof h.dst);
    ipv6_header_emit(&h, p);
    return inet_sum_ipv6(&h, (uint32_t)o->udp_len);
}

static size_t ip_len_of(const struct outer *o)
{
    return IN6_IS_ADDR_V4MAPPED(o->dst) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN;
}

// The headers, in front of octets that stand where they belong; the ICRC and UDP's checksum.
static void packet_record(struct datagram_pcap *p, const struct outer *o)
{
    size_t ip_len = ip_len_of(o), len = ip_len + o->udp_len;
    uint8_t *udp = p->packet + ip_len;
    uint32_t icrc;
    uint64_t sum = ip_len == IPV4_HEADER_LEN ? ipv4_put(o, p->packet) : ipv6_put(o, p->packet);
    put_be16(udp + UDP_OFF_SRC_PORT, o->src_port != 0 ? o->src_port : SOURCE_PORT_DEFAULT);
    put_be16(udp + UDP_OFF_DST_PORT, p->port);
    put_be16(udp + UDP_OFF_LEN, (uint16_t)o->udp_len);
    put_be16(udp + UDP_OFF_CHECKSUM, 0);
    if (icrc_of_packet(span_of(p->packet, len - ICRC_LEN), &icrc)) {
        icrc_put(p->packet + len - ICRC_LEN, icrc);
    }
    uint16_t checksum = inet_sum_fold(inet_sum_add(sum, span_of(udp, o->udp_len)));
    put_be16(udp + UDP_OFF_CHECKSUM, checksum != 0 ? checksum : UINT16_MAX);
    struct iovec iov = {p->packet, len};
    pcap_file_put(&p->file, &iov, 1);
}

static void record_sent(struct datagram_pcap *p, const struct datagram_tx *tx)
{
    const struct datagram_path *path = tx->path;
    struct outer o = {
        .src = &path->local,
        .dst = &path->remote,
        .flow_label = path->flow_label,
        .src_port = path->source_port,
        .traffic_class = path->traffic_class,
        .hop_limit = datagram_hop_limit(&p->forward.base, path),
    };
    datagram_tx_copy(tx, p->packet + ip_len_of(&o) + UDP_HEADER_LEN);
    o.udp_len = UDP_HEADER_LEN + datagram_tx_len(tx) + ICRC_LEN;
    packet_record(p, &o);
}

static void record_received(struct datagram_pcap *p, const struct datagram_rx *rx)
{
    struct outer o = {.src = &rx->remote,
                      .dst = &rx->local,
                      .flow_label = rx->flow_label,
                      .src_port = rx->source_port,
                      .traffic_class = rx->traffic_class,
                      .hop_limit = rx->hop_limit,
                      .udp_len = UDP_HEADER_LEN + rx->octets.len + ICRC_LEN};
    memcpy(p->packet + ip_len_of(&o) + UDP_HEADER_LEN, rx->octets.ptr, rx->octets.len);
    packet_record(p, &o);
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool pcap_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_pcap *p = pcap_of(link);
    bool is_taken = datagram_put(p->forward.inner, tx);
    if (is_taken) {
        record_sent(p, tx);
    }
    return is_taken;
}

static bool pcap_flush(struct datagram_link *link)
{
    struct datagram_pcap *p = pcap_of(link);
    pcap_file_flush(&p->file);
    return datagram_flush(p->forward.inner);
}

static unsigned pcap_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                             instant_ns now)
{
    struct datagram_pcap *p = pcap_of(link);
    unsigned count = datagram_receive(p->forward.inner, ret, max, now);
    for (unsigned i = 0; i < count; i++) {
        record_received(p, &ret[i]);
    }
    pcap_file_flush(&p->file);
    return count;
}

static void pcap_abandon(struct datagram_link *link)
{
    struct datagram_pcap *p = pcap_of(link);
    pcap_file_abandon(&p->file);
    datagram_abandon(p->forward.inner);
}

static void pcap_destroy(struct datagram_link *link)
{
    struct datagram_pcap *p = pcap_of(link);
    pcap_file_flush(&p->file);
    pcap_file_close(&p->file);
    datagram_destroy(p->forward.inner);
    free(p);
}

static const struct datagram_link_ops datagram_pcap_ops = {
    .name = "pcap",
    .open = datagram_forward_open,
    .close = datagram_forward_close,
    .route = datagram_forward_route,
    .len_max = datagram_forward_len_max,
    .join = datagram_forward_join,
    .leave = datagram_forward_leave,
    .serve = datagram_forward_serve,
    .unserve = datagram_forward_unserve,
    .is_served = datagram_forward_is_served,
    .bequeath = datagram_forward_bequeath,
    .revoke = datagram_forward_revoke,
    .has_room = datagram_forward_has_room,
    .put = pcap_put,
    .flush = pcap_flush,
    .look_around = datagram_forward_look_around,
    .poll = datagram_forward_poll,
    .receive = pcap_receive,
    .hand_on = datagram_forward_hand_on,
    .receive_buffer_len = datagram_forward_receive_buffer_len,
    .next_deadline = datagram_forward_next_deadline,
    .may_wait = datagram_forward_may_wait,
    .wait = datagram_forward_wait,
    .wake = datagram_forward_wake,
    .counters = datagram_forward_counters,
    .abandon = pcap_abandon,
    .destroy = pcap_destroy,
};

int datagram_pcap_wrap(struct datagram_link *inner, const char *path, uint16_t port,
                       struct datagram_link **ret)
{
    struct datagram_pcap *p = malloc(sizeof *p);
    if (p == NULL) {
        return -ENOMEM;
    }
    int error = pcap_file_open(&p->file, path);
    if (error != 0) {
        pcap_file_close(&p->file);
        free(p);
        return error;
    }
    datagram_forward_init(&p->forward, &datagram_pcap_ops, inner);
    p->forward.base.journal = pcap_file_journal(&p->file);
    p->port = port;
    *ret = &p->forward.base;
    return 0;
}
