// The groups that an interface is in, as messages: IGMP and MLD (wire/membership.h). When which is
// due is net/groups.h's business.
//
// Queries are believed only from the local network. All have one hop and the alert for routers,
// which the first version had not. Over IPv4 one about all comes to 224.0.0.1 (RFC 3376 section
// 9.1), and to an address of ours any comes from who is reached without a gateway (section 4.1.12);
// over IPv6 they come from a link-local address (RFC 3810 section 6.2).

#include <string.h>

#include "base/check.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/groups.h"
#include "net/iface.h"
#include "net/iface_internal.h"
#include "wire/membership.h"

enum {
    HOPS = 1,
    TOS_OF_CONTROL = 0xc0, // RFC 3376 section 4: IP precedence of internetwork control
    HEADERS_MAX = ETH_HEADER_LEN + IPV6_HEADER_LEN + IPV6_ALERT_LEN,
    RECORDS_MAX = 26,
};
STATIC_CHECK(IPV6_HEADER_LEN + IPV6_ALERT_LEN + MLD_OFF_RECORDS + RECORDS_MAX * MLD_RECORD_LEN <=
             NET_MTU_MIN);

static struct net_groups *groups_of(struct net_iface *iface, const struct net_addr *addr)
{
    return &iface->groups[net_addr_is_ipv4(addr) ? NET_GROUPS_IPV4 : NET_GROUPS_IPV6];
}

/* ---- reports --------------------------------------------------------------------------------- */

static const struct net_addr routers[] = {
    [NET_GROUPS_IPV4] = {{[10] = 0xff, 0xff, 224, 0, 0, 2}},
    [NET_GROUPS_IPV6] = {{0xff, 0x02, [15] = 2}},
};
static const struct net_addr hearers_of_records[] = {
    [NET_GROUPS_IPV4] = {{[10] = 0xff, 0xff, 224, 0, 0, 22}},
    [NET_GROUPS_IPV6] = {{0xff, 0x02, [15] = 0x16}},
};

static const struct net_addr *first_of(const struct net_iface *iface,
                                       bool (*is_it)(const struct net_addr *a))
{
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        if (is_it(&iface->config.addrs[i].addr)) {
            return &iface->config.addrs[i].addr;
        }
    }
    return NULL;
}

static struct net_addr source_ipv4(const struct net_iface *iface)
{
    const struct net_addr *own = first_of(iface, net_addr_is_ipv4);
    return own != NULL ? *own : (struct net_addr){{[10] = 0xff, 0xff}};
}

// An address for reports alone, which routers want from a link-local one (RFC 3810 section 5.2.13):
// one of ours, or as it is made of an Ethernet address (RFC 4291 appendix A); else nobody's.
static struct net_addr source_ipv6(const struct net_iface *iface)
{
    const struct net_addr *own = first_of(iface, net_addr_is_link_local);
    const uint8_t *e = iface->config.eth.octets;
    if (own != NULL || !iface->config.has_ethernet) {
        return own != NULL ? *own : (struct net_addr){{0}};
    }
    return (struct net_addr){
        {0xfe, 0x80, [8] = e[0] ^ 2, e[1], e[2], 0xff, 0xfe, e[3], e[4], e[5]}};
}

static struct net_flow flow_to(const struct net_iface *iface, const struct net_addr *to)
{
    return (struct net_flow){
        .local = net_addr_is_ipv4(to) ? source_ipv4(iface) : source_ipv6(iface), .remote = *to};
}

// `message` has HEADERS_MAX octets of room in front.
static void message_send(struct net_iface *iface, const struct net_flow *flow, uint8_t *message,
                         size_t len)
{
    const bool is_ipv6 = !net_addr_is_ipv4(&flow->remote);
    const struct eth_addr to = iface_eth_of_group(&flow->remote);
    const struct iface_headers h = {
        .flow = flow,
        .tos = is_ipv6 ? 0 : TOS_OF_CONTROL,
        .protocol = is_ipv6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_IGMP,
        .hops = HOPS,
        .has_alert = true,
        .body_len = len,
        .to = &to,
    };
    const size_t headers_len = iface_headers_emit(iface, &h, message);
    const struct iovec iov = {message - headers_len, headers_len + len};
    iface->counters.reports_out += iface_send_frame(iface, &iov, 1, is_ipv6);
}

static void records_send(struct net_iface *iface, unsigned family,
                         const struct membership_record *records, unsigned count)
{
    uint8_t room[HEADERS_MAX + MLD_OFF_RECORDS + RECORDS_MAX * MLD_RECORD_LEN];
    uint8_t *const message = room + HEADERS_MAX;
    const struct net_flow flow = flow_to(iface, &hearers_of_records[family]);
    const size_t len =
        family == NET_GROUPS_IPV4
            ? igmp_records_emit(records, count, message)
            : mld_records_emit(records, count, icmp_pseudo_sum(&flow, mld_records_len(count)),
                               message);
    message_send(iface, &flow, message, len);
}

// A report to the group itself, that it has been left to all routers.
static void single_send(struct net_iface *iface, unsigned family, const struct net_groups_say *say)
{
    uint8_t room[HEADERS_MAX + MLD_LEN];
    uint8_t *const message = room + HEADERS_MAX;
    const bool is_left = say->word == NET_GROUP_LEFT;
    const struct net_flow flow = flow_to(iface, is_left ? &routers[family] : &say->group);
    size_t len;
    if (family == NET_GROUPS_IPV4) {
        const uint8_t type = is_left                             ? IGMP_LEAVE
                             : say->dialect == NET_DIALECT_FIRST ? IGMP_REPORT_1
                                                                 : IGMP_REPORT_2;
        len = igmp_message_emit(type, net_addr_ipv4(&say->group), message);
    } else {
        len = mld_message_emit(is_left ? ICMPV6_LISTENER_DONE : ICMPV6_LISTENER_REPORT,
                               say->group.octets, icmp_pseudo_sum(&flow, MLD_LEN), message);
    }
    message_send(iface, &flow, message, len);
}

static struct membership_record record_of(const struct net_groups_say *say, unsigned family)
{
    static const uint8_t kinds[] = {[NET_GROUP_JOINED] = RECORD_TO_EXCLUDE,
                                    [NET_GROUP_LEFT] = RECORD_TO_INCLUDE,
                                    [NET_GROUP_IN] = RECORD_IS_EXCLUDE};
    struct membership_record record = {.kind = kinds[say->word]};
    if (family == NET_GROUPS_IPV4) {
        memcpy(record.group, net_addr_ipv4(&say->group), IPV4_ADDR_LEN);
    } else {
        memcpy(record.group, say->group.octets, IPV6_ADDR_LEN);
    }
    return record;
}

static void family_on_deadline(struct net_iface *iface, unsigned family, instant_ns now)
{
    struct membership_record records[RECORDS_MAX];
    struct net_groups_say say;
    unsigned count = 0;
    while (net_groups_on_deadline(&iface->groups[family], now, &say)) {
        if (say.dialect != NET_DIALECT_RECORDS) {
            single_send(iface, family, &say);
            continue;
        }
        records[count++] = record_of(&say, family);
        if (count == RECORDS_MAX) {
            records_send(iface, family, records, count);
            count = 0;
        }
    }
    if (count > 0) {
        records_send(iface, family, records, count);
    }
}

void iface_groups_on_deadline(struct net_iface *iface, instant_ns now)
{
    for (unsigned family = 0; family < NET_GROUPS_FAMILIES; family++) {
        family_on_deadline(iface, family, now);
    }
}

instant_ns iface_groups_next_deadline(const struct net_iface *iface)
{
    return instant_min(net_groups_next_deadline(&iface->groups[NET_GROUPS_IPV4]),
                       net_groups_next_deadline(&iface->groups[NET_GROUPS_IPV6]));
}

/* ---- queries --------------------------------------------------------------------------------- */

static void query_take(struct net_iface *iface, const struct membership_query *q, bool is_ipv6,
                       instant_ns now)
{
    static const enum net_dialect of_igmp[] = {NET_DIALECT_FIRST, NET_DIALECT_SECOND,
                                               NET_DIALECT_RECORDS};
    static const enum net_dialect of_mld[] = {NET_DIALECT_SECOND, NET_DIALECT_RECORDS};
    const struct net_groups_query query = {
        .dialect = is_ipv6 ? of_mld[q->version - 1] : of_igmp[q->version - 1],
        .group = is_ipv6 ? net_addr_from_ipv6(q->group) : net_addr_from_ipv4(q->group),
        .max_resp_ns = q->max_resp_ms * NS_PER_MS,
        .robustness = q->robustness,
        .interval_ns = q->interval_s * NS_PER_S,
    };
    iface->counters.queries_in++;
    net_groups_on_query(groups_of(iface, &query.group), &query, now);
}

static bool is_igmp_query_believed(const struct net_iface *iface, const struct ip_packet *packet,
                                   const struct membership_query *q)
{
    static const uint8_t all[IPV4_ADDR_LEN] = {0};
    const struct net_addr *to = &packet->flow.local, *from = &packet->flow.remote;
    const bool is_about_all = memcmp(q->group, all, sizeof all) == 0;
    const bool comes_well = net_iface_has_addr(iface, to)
                                ? iface_is_on_link(iface, from)
                                : !is_about_all || net_addr_is_all_hosts(to);
    // Nobody's address is that of a switch that looks on and has none (RFC 4541 section 2.1.1).
    return packet->hops == HOPS && (q->version == 1 || packet->has_alert) && comes_well &&
           !net_addr_is_multicast(from) && !net_iface_has_addr(iface, from);
}

void iface_on_igmp(struct net_iface *iface, const struct ip_packet *packet, instant_ns now)
{
    struct membership_query q;
    switch (igmp_query_parse(packet->body, &q)) {
    case MEMBERSHIP_PARSE_OK:
        if (is_igmp_query_believed(iface, packet, &q)) {
            query_take(iface, &q, false, now);
        } else {
            iface->counters.bad_queries++;
        }
        break;
    case MEMBERSHIP_PARSE_NO_QUERY: // another host's
        iface->counters.of_others++;
        break;
    case MEMBERSHIP_PARSE_CHECKSUM:
        iface->counters.bad_checksums++;
        break;
    default:
        iface->counters.bad_queries++;
    }
}

void iface_on_listener_query(struct net_iface *iface, const struct ip_packet *packet,
                             instant_ns now)
{
    struct membership_query q;
    if (packet->has_alert && packet->hops == HOPS && net_addr_is_link_local(&packet->flow.remote) &&
        mld_query_parse(packet->body, &q) == MEMBERSHIP_PARSE_OK) {
        query_take(iface, &q, true, now);
    } else {
        iface->counters.bad_queries++;
    }
}

/* ---- joining and leaving --------------------------------------------------------------------- */

// Where neighbours are asked for: a switch that looks on keeps that from who has not said so.
static void solicited_nodes_join(struct net_iface *iface)
{
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        const struct net_addr *own = &iface->config.addrs[i].addr;
        if (!net_addr_is_ipv4(own)) {
            const struct net_addr group = iface_solicited_node(own);
            net_groups_join(&iface->groups[NET_GROUPS_IPV6], &group, 0);
        }
    }
}

void iface_groups_init(struct net_iface *iface)
{
    for (unsigned family = 0; family < NET_GROUPS_FAMILIES; family++) {
        net_groups_init(&iface->groups[family], iface->config.seed + family);
    }
    if (iface->config.reports_groups && iface->config.has_ethernet) {
        solicited_nodes_join(iface);
    }
}

bool net_iface_join(struct net_iface *iface, const struct net_addr *group, instant_ns now)
{
    if (!iface->config.reports_groups) {
        return true;
    }
    const bool is_joined = net_groups_join(groups_of(iface, group), group, now);
    iface_groups_on_deadline(iface, now);
    return is_joined;
}

void net_iface_leave(struct net_iface *iface, const struct net_addr *group, instant_ns now)
{
    if (!iface_is_solicited_node(iface, group)) { // that is ours, whoever else was in it
        net_groups_leave(groups_of(iface, group), group, now);
        iface_groups_on_deadline(iface, now);
    }
}
