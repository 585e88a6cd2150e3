// Finding neighbours, and being found: ARP (RFC 826) and neighbour discovery (RFC 4861).

#include <string.h>

#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/iface_internal.h"
#include "net/neighbour.h"
#include "wire/eth.h"
#include "wire/ip.h"

enum {
    ND_HOPS = 255, // proves that nobody forwarded the message (RFC 4861 section 7.1)
};

/* ---- asking ---------------------------------------------------------------------------------- */

static const struct net_addr *source_for(const struct net_iface *iface, const struct net_addr *addr,
                                         struct net_addr *buf)
{
    return net_iface_route(iface, addr, buf) ? buf : NULL;
}

static void send_arp(struct net_iface *iface, const struct arp_packet *arp,
                     const struct eth_addr *to)
{
    uint8_t frame[ETH_HEADER_LEN + ARP_LEN];
    struct eth_header eth = {.dst = *to, .src = iface->config.eth, .type = ETH_TYPE_ARP};
    struct iovec iov = {.iov_base = frame, .iov_len = sizeof frame};
    arp_packet_emit(arp, frame + eth_header_emit(&eth, frame));
    iface_send_frame(iface, &iov, 1, false);
}

static void ask_by_arp(struct net_iface *iface, const struct net_addr *source,
                       const struct net_addr *addr, const struct eth_addr *known)
{
    struct arp_packet arp = {.operation = ARP_REQUEST, .sender_eth = iface->config.eth};
    memcpy(arp.sender_ip, net_addr_ipv4(source), IPV4_ADDR_LEN);
    memcpy(arp.target_ip, net_addr_ipv4(addr), IPV4_ADDR_LEN);
    send_arp(iface, &arp, known != NULL ? known : &eth_broadcast);
}

static void send_neighbour_message(struct net_iface *iface, const struct net_flow *flow,
                                   const struct nd_message *m, const struct eth_addr *to)
{
    uint8_t message[ND_LEN];
    size_t len = nd_message_emit(m, icmp_pseudo_sum(flow, ND_LEN), message);
    iface_send_message(iface, flow, ND_HOPS, span_of(message, len), (struct span){0}, to);
}

static void ask_by_solicitation(struct net_iface *iface, const struct net_addr *source,
                                const struct net_addr *addr, const struct eth_addr *known)
{
    const struct net_addr group = iface_solicited_node(addr);
    const struct eth_addr group_eth = iface_eth_of_group(&group);
    struct nd_message m = {
        .type = ICMPV6_NEIGHBOUR_SOLICITATION, .has_eth = true, .eth = iface->config.eth};
    memcpy(m.target, addr->octets, IPV6_ADDR_LEN);
    struct net_flow flow = {.local = *source, .remote = known != NULL ? *addr : group};
    send_neighbour_message(iface, &flow, &m, known != NULL ? known : &group_eth);
}

void iface_ask(struct net_iface *iface, const struct net_addr *addr, const struct eth_addr *known)
{
    struct net_addr buf;
    const struct net_addr *source = source_for(iface, addr, &buf);
    if (source == NULL) {
        return;
    }
    iface->counters.questions_out++;
    if (net_addr_is_ipv4(addr)) {
        ask_by_arp(iface, source, addr, known);
    } else {
        ask_by_solicitation(iface, source, addr, known);
    }
}

/* ---- answering and learning ------------------------------------------------------------------ */

static void learn(struct net_iface *iface, const struct net_addr *addr, const struct eth_addr *eth,
                  enum net_neighbour_news news, bool may_add, instant_ns now,
                  struct net_arrival *ret)
{
    struct net_addr hop;
    bool is_neighbour = net_iface_route(iface, addr, &hop) && !eth_addr_is_group(eth);
    if (is_neighbour && net_neighbour_learn(&iface->neighbours, addr, eth, news, may_add, now)) {
        ret->kind = NET_ARRIVAL_ROOM;
    }
}

void iface_on_arp(struct net_iface *iface, struct span body, instant_ns now,
                  struct net_arrival *ret)
{
    struct arp_packet arp;
    if (arp_packet_parse(body, &arp) != ARP_PARSE_OK) {
        iface->counters.bad_icmp++;
        return;
    }
    struct net_addr sender = net_addr_from_ipv4(arp.sender_ip);
    struct net_addr target = net_addr_from_ipv4(arp.target_ip);
    bool is_for_us = net_iface_has_addr(iface, &target);
    bool is_answer = arp.operation == ARP_REPLY && is_for_us;
    learn(iface, &sender, &arp.sender_eth, is_answer ? NET_NEIGHBOUR_ANSWERED : NET_NEIGHBOUR_SAID,
          is_for_us && arp.operation == ARP_REQUEST, now, ret);
    if (is_for_us && arp.operation == ARP_REQUEST) {
        struct arp_packet reply = {
            .operation = ARP_REPLY, .sender_eth = iface->config.eth, .target_eth = arp.sender_eth};
        memcpy(reply.sender_ip, arp.target_ip, IPV4_ADDR_LEN);
        memcpy(reply.target_ip, arp.sender_ip, IPV4_ADDR_LEN);
        iface->counters.questions_in++;
        send_arp(iface, &reply, &arp.sender_eth);
    }
}

static void advertise(struct net_iface *iface, const struct net_addr *own,
                      const struct ip_packet *question)
{
    struct net_flow flow = {.local = *own, .remote = question->flow.remote};
    struct nd_message m = {.type = ICMPV6_NEIGHBOUR_ADVERTISEMENT,
                           .flags = ND_SOLICITED | ND_OVERRIDE,
                           .has_eth = true,
                           .eth = iface->config.eth};
    memcpy(m.target, own->octets, IPV6_ADDR_LEN);
    iface->counters.questions_in++;
    send_neighbour_message(iface, &flow, &m, &question->from_eth);
}

void iface_on_neighbour_message(struct net_iface *iface, const struct ip_packet *packet,
                                instant_ns now, struct net_arrival *ret)
{
    struct nd_message m;
    if (!iface->config.has_ethernet || packet->hops != ND_HOPS ||
        nd_message_parse(packet->body, &m) != ICMP_PARSE_OK) {
        iface->counters.bad_icmp++;
        return;
    }
    struct net_addr target = net_addr_from_ipv6(m.target);
    if (m.type == ICMPV6_NEIGHBOUR_SOLICITATION) {
        if (!net_iface_has_addr(iface, &target)) {
            iface->counters.of_others++;
            return;
        }
        if (m.has_eth) {
            learn(iface, &packet->flow.remote, &m.eth, NET_NEIGHBOUR_SAID, true, now, ret);
        }
        advertise(iface, &target, packet);
    } else if (m.has_eth) {
        bool is_override = (m.flags & ND_OVERRIDE) != 0;
        enum net_neighbour_news news = (m.flags & ND_SOLICITED) != 0 && is_override
                                           ? NET_NEIGHBOUR_ANSWERED
                                       : is_override ? NET_NEIGHBOUR_SAID
                                                     : NET_NEIGHBOUR_HINTED;
        learn(iface, &target, &m.eth, news, false, now, ret);
    }
}
