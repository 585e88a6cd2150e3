// An interface, and what arrives there.

#include <string.h>

#include "base/check.h"
#include "base/time.h"
#include "net/iface.h"
#include "net/iface_internal.h"
#include "net/neighbour.h"
#include "wire/ip.h"
#include "wire/tcp.h"

void net_iface_init(struct net_iface *iface, const struct net_iface_config *config)
{
    CHECK(config->addr_count <= NET_IFACE_ADDR_MAX && config->mtu >= NET_MTU_MIN);
    *iface = (struct net_iface){.config = *config};
    net_neighbours_init(&iface->neighbours);
}

/* ---- packets --------------------------------------------------------------------------------- */

static bool packet_parse(struct net_iface *iface, struct span in, struct ip_packet *ret)
{
    enum ip_parse_verdict verdict;
    if (in.len > 0 && in.ptr[0] >> 4 == 6) {
        struct ipv6_header h;
        verdict = ipv6_header_parse(in, &h, &ret->body);
        ret->flow = (struct net_flow){.local = net_addr_from_ipv6(h.dst),
                                      .remote = net_addr_from_ipv6(h.src)};
        ret->protocol = h.next_header;
        ret->hops = h.hop_limit;
        ret->ecn = h.traffic_class & IP_ECN_MASK;
        ret->is_ipv6 = true;
    } else {
        struct ipv4_header h;
        verdict = ipv4_header_parse(in, &h, &ret->body);
        ret->flow = (struct net_flow){.local = net_addr_from_ipv4(h.dst),
                                      .remote = net_addr_from_ipv4(h.src)};
        ret->protocol = h.protocol;
        ret->hops = h.ttl;
        ret->ecn = h.tos & IP_ECN_MASK;
    }
    iface->counters.fragments += verdict == IP_PARSE_FRAGMENT;
    iface->counters.bad_packets += verdict != IP_PARSE_OK && verdict != IP_PARSE_FRAGMENT;
    return verdict == IP_PARSE_OK;
}

// To the group of the nodes that may have one of our IPv6 addresses (RFC 4291 section 2.7.1), where
// neighbours are asked for.
static bool is_solicited_node(const struct net_iface *iface, const struct net_addr *group)
{
    static const struct net_addr prefix = {{0xff, 0x02, [11] = 1, [12] = 0xff}};
    enum { PREFIX_BITS = 104, SUFFIX_LEN = 3 };
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        const struct net_addr *own = &iface->config.addrs[i].addr;
        if (net_addr_has_prefix(group, &prefix, PREFIX_BITS) &&
            memcmp(group->octets + IPV6_ADDR_LEN - SUFFIX_LEN,
                   own->octets + IPV6_ADDR_LEN - SUFFIX_LEN, SUFFIX_LEN) == 0) {
            return true;
        }
    }
    return false;
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

static void on_packet(struct net_iface *iface, struct ip_packet *packet, bool is_checked,
                      instant_ns now, struct net_arrival *ret)
{
    bool is_ours = net_iface_has_addr(iface, &packet->flow.local);
    bool is_tcp = packet->protocol == IP_PROTOCOL_TCP;
    if ((!is_ours && !is_solicited_node(iface, &packet->flow.local)) ||
        (is_tcp && packet->was_for_many)) { // RFC 1122 section 3.3.6
        iface->counters.of_others++;
    } else if (is_from_nobody(iface, &packet->flow.remote)) {
        iface->counters.bad_senders++;
    } else if (is_tcp && is_ours) {
        on_tcp(iface, packet, is_checked, ret);
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
    return net_neighbours_next_deadline(&iface->neighbours);
}

bool net_iface_on_deadline(struct net_iface *iface, instant_ns now)
{
    const struct net_neighbour *n;
    bool has_failed = false;
    while (net_neighbours_on_deadline(&iface->neighbours, now, &n)) {
        if (n->state == NET_NEIGHBOUR_FAILED) {
            has_failed = true;
        } else {
            iface_ask(iface, &n->addr, n->state == NET_NEIGHBOUR_PROBE ? &n->eth : NULL);
        }
    }
    return has_failed;
}
