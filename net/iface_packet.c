// Packets that leave an interface as they are: their IP header, checksums and all are their
// sender's. A group has an Ethernet address of its own, and nobody is asked for it.

#include "base/check.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/iface.h"
#include "net/iface_internal.h"
#include "wire/eth.h"

enum net_sent net_iface_send_packet(struct net_iface *iface, struct mspan packet,
                                    const struct net_addr *remote, instant_ns now)
{
    const bool is_ipv6 = !net_addr_is_ipv4(remote);
    struct eth_header eth = {.src = iface->config.eth,
                             .type = is_ipv6 ? ETH_TYPE_IPV6 : ETH_TYPE_IPV4};
    size_t eth_len = iface->config.has_ethernet ? ETH_HEADER_LEN : 0;
    CHECK(packet.len <= iface->config.mtu);
    if (net_addr_is_multicast(remote)) {
        eth.dst = iface_eth_of_group(remote);
    } else {
        enum net_sent found = iface_find_neighbour(iface, remote, now, &eth.dst);
        iface->counters.unreachable += found == NET_SENT_UNREACHABLE;
        if (found != NET_SENT) {
            return found;
        }
    }
    if (eth_len > 0) {
        eth_header_emit(&eth, packet.ptr - eth_len);
    }
    const struct iovec iov = {packet.ptr - eth_len, packet.len + eth_len};
    const struct net_frame frame = {.iov = &iov, .iov_count = 1, .is_ipv6 = is_ipv6};
    if (!iface->config.port.send(iface->config.port.ctx, &frame)) {
        return NET_SENT_NO_ROOM;
    }
    iface->counters.frames_out++;
    return NET_SENT;
}
