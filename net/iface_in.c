// An interface, and what arrives there.

#include "base/bytes.h"
#include "base/check.h"
#include "base/span.h"
#include "base/time.h"
#include "net/iface.h"
#include "net/iface_internal.h"
#include "net/neighbour.h"
#include "wire/ip.h"
#include "wire/tcp.h"
#include "wire/udp_header.h"

void net_iface_init(struct net_iface *iface, const struct net_iface_config *config)
{
    CHECK(config->addr_count <= NET_IFACE_ADDR_MAX && config->mtu >= NET_MTU_MIN);
    *iface = (struct net_iface){.config = *config};
    iface->config.hops = config->hops != 0 ? config->hops : NET_HOPS_DEFAULT;
    net_neighbours_init(&iface->neighbours);
    iface_groups_init(iface);
}

/* ---- packets --------------------------------------------------------------------------------- */

static enum ip_parse_verdict ipv4_take(struct span in, struct ip_packet *ret)
{
    struct ipv4_header h;
    enum ip_parse_verdict verdict = ipv4_header_parse(in, &h, &ret->body);
    if (verdict == IP_PARSE_OK) {
        ret->flow = (struct net_flow){.local = net_addr_from_ipv4(h.dst),
                                      .remote = net_addr_from_ipv4(h.src)};
        ret->protocol = h.protocol;
        ret->hops = h.ttl;
        ret->tos = h.tos;
        ret->has_alert = h.has_alert;
    }
    return verdict;
}

static enum ip_parse_verdict ipv6_take(struct span in, struct ip_packet *ret)
{
    struct ipv6_header h;
    enum ip_parse_verdict verdict = ipv6_header_parse(in, &h, &ret->body);
    if (verdict == IP_PARSE_OK) {
        ret->flow = (struct net_flow){.local = net_addr_from_ipv6(h.dst),
                                      .remote = net_addr_from_ipv6(h.src)};
        ret->protocol = h.next_header;
        ret->hops = h.hop_limit;
        ret->tos = h.traffic_class;
        ret->flow_label = h.flow_label;
        ret->has_alert = h.has_alert;
        ret->is_ipv6 = true;
    }
    return verdict;
}

static bool packet_parse(struct net_iface *iface, struct span in, struct ip_packet *ret)
{
    bool is_6 = in.len > 0 && in.ptr[0] >> 4 == 6;
    enum ip_parse_verdict verdict = is_6 ? ipv6_take(in, ret) : ipv4_take(in, ret);
    if (verdict != IP_PARSE_OK) {
        bool is_fragment = verdict == IP_PARSE_FRAGMENT;
        iface->counters.fragments += is_fragment;
        iface->counters.bad_packets += !is_fragment;
        return false;
    }
    ret->ecn = ret->tos & IP_ECN_MASK;
    // What a lower layer padded is none of it.
    ret->whole = span_of(in.ptr, (size_t)(ret->body.ptr - in.ptr) + ret->body.len);
    return true;
}

static bool is_from_nobody(const struct net_iface *iface, const struct net_addr *remote)
{
    return iface_is_no_host(iface, remote) || net_iface_has_addr(iface, remote);
}

static void on_tcp(struct net_iface *iface, const struct ip_packet *packet, bool is_checked,
                   struct net_arrival *ret)
{
    struct net_flow turned = net_flow_turned(&packet->flow);
    uint64_t sum = net_flow_pseudo_sum(&turned, IP_PROTOCOL_TCP, (uint32_t)packet->body.len);
    if (!is_checked && !tcp_checksum_is_good(packet->body, sum)) {
        iface->counters.bad_checksums++;
        return;
    }
    ret->kind = NET_ARRIVAL_SEGMENT;
    ret->flow = packet->flow;
    ret->segment = packet->body;
    ret->ecn = packet->ecn;
}

// Without a checksum too: over IPv4 that is allowed (RFC 768), and RoCEv2 has none over IPv6 either
// (RFC 6935).
static void on_udp(struct net_iface *iface, const struct ip_packet *packet, bool is_checked,
                   struct net_arrival *ret)
{
    const size_t len =
        packet->body.len >= UDP_HEADER_LEN ? get_be16(packet->body.ptr + UDP_OFF_LEN) : 0;
    if (len < UDP_HEADER_LEN || len > packet->body.len) {
        iface->counters.bad_packets++;
        return;
    }
    const struct span datagram = span_of(packet->body.ptr, len);
    const bool has_checksum = get_be16(datagram.ptr + UDP_OFF_CHECKSUM) != 0;
    uint64_t sum = net_flow_pseudo_sum(&packet->flow, IP_PROTOCOL_UDP, (uint32_t)len);
    if (has_checksum && !is_checked && inet_sum_fold(inet_sum_add(sum, datagram)) != 0) {
        iface->counters.bad_checksums++;
        return;
    }
    *ret = (struct net_arrival){
        .kind = NET_ARRIVAL_DATAGRAM,
        .flow = packet->flow,
        .segment = datagram,
        .packet = span_of(packet->whole.ptr, packet->whole.len - (packet->body.len - len)),
        .flow_label = packet->flow_label,
        .tos = packet->tos,
        .hops = packet->hops,
    };
}

// What IGMP and MLD say goes to groups, of which not all are ours.
static bool is_about_groups(const struct net_iface *iface, const struct ip_packet *packet)
{
    const struct span body = packet->body;
    return iface->config.reports_groups &&
           (packet->is_ipv6 ? packet->protocol == IP_PROTOCOL_ICMPV6 && body.len > 0 &&
                                  body.ptr[ICMP_OFF_TYPE] == ICMPV6_LISTENER_QUERY
                            : packet->protocol == IP_PROTOCOL_IGMP) &&
           (net_addr_is_multicast(&packet->flow.local) ||
            net_iface_has_addr(iface, &packet->flow.local));
}

static bool is_for_us(const struct net_iface *iface, const struct ip_packet *packet)
{
    const struct net_addr *local = &packet->flow.local;
    return net_iface_has_addr(iface, local) || iface_is_solicited_node(iface, local) ||
           (iface->config.takes_datagrams && packet->protocol == IP_PROTOCOL_UDP &&
            net_addr_is_multicast(local));
}

// A datagram to one host in a frame to many (RFC 1122 section 3.3.6): whoever sends such has it
// seen by all, and would be answered by each whose address is wrong.
static bool is_astray(const struct net_iface *iface, const struct ip_packet *packet)
{
    return packet->was_for_many &&
           (packet->protocol == IP_PROTOCOL_TCP || net_iface_has_addr(iface, &packet->flow.local));
}

static void on_packet(struct net_iface *iface, struct ip_packet *packet, bool is_checked,
                      instant_ns now, struct net_arrival *ret)
{
    bool is_tcp = packet->protocol == IP_PROTOCOL_TCP;
    const bool is_groups = is_about_groups(iface, packet);
    if ((!is_groups && !is_for_us(iface, packet)) || is_astray(iface, packet)) {
        iface->counters.of_others++;
    } else if (is_groups && !packet->is_ipv6) {
        iface_on_igmp(iface, packet, now);
    } else if (is_from_nobody(iface, &packet->flow.remote)) {
        iface->counters.bad_senders++;
    } else if (is_tcp && net_iface_has_addr(iface, &packet->flow.local)) {
        on_tcp(iface, packet, is_checked, ret);
    } else if (packet->protocol == IP_PROTOCOL_UDP && iface->config.takes_datagrams) {
        on_udp(iface, packet, is_checked, ret);
    } else if (packet->protocol == (packet->is_ipv6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_ICMP)) {
        iface_on_icmp(iface, packet, now, ret);
    } else {
        iface->counters.other_protocols++;
    }
}

static bool is_frame_ours(const struct net_iface *iface, const struct eth_header *eth)
{
    return (eth_addr_is_group(&eth->dst) || eth_addr_equal(&eth->dst, &iface->config.eth)) &&
           !eth_addr_is_group(&eth->src);
}

void net_iface_on_frame(struct net_iface *iface, struct span frame, bool is_checked, instant_ns now,
                        struct net_arrival *ret)
{
    struct ip_packet packet = {0};
    struct eth_header eth = {.type = ETH_TYPE_IPV4};
    ret->kind = NET_ARRIVAL_NOTHING;
    iface->counters.frames_in++;
    if (iface->config.has_ethernet) {
        if (!eth_header_parse(frame, &eth, &frame) || !is_frame_ours(iface, &eth)) {
            iface->counters.of_others++;
            return;
        }
        if (eth.type == ETH_TYPE_ARP) {
            iface_on_arp(iface, frame, now, ret);
            return;
        }
        packet.from_eth = eth.src;
        packet.was_for_many = eth_addr_is_group(&eth.dst);
    }
    if (eth.type != ETH_TYPE_IPV4 && eth.type != ETH_TYPE_IPV6) {
        iface->counters.other_protocols++;
    } else if (packet_parse(iface, frame, &packet)) {
        on_packet(iface, &packet, is_checked, now, ret);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns net_iface_next_deadline(const struct net_iface *iface)
{
    return instant_min(net_neighbours_next_deadline(&iface->neighbours),
                       iface_groups_next_deadline(iface));
}

bool net_iface_on_deadline(struct net_iface *iface, instant_ns now)
{
    const struct net_neighbour *n;
    bool has_failed = false;
    iface_groups_on_deadline(iface, now);
    while (net_neighbours_on_deadline(&iface->neighbours, now, &n)) {
        if (n->state == NET_NEIGHBOUR_FAILED) {
            has_failed = true;
        } else {
            iface_ask(iface, &n->addr, n->state == NET_NEIGHBOUR_PROBE ? &n->eth : NULL);
        }
    }
    return has_failed;
}
