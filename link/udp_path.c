// What fits the path of a UDP channel.

#include <netinet/in.h>

#include "link/udp_channel.h"
#include "wire/udp.h"

enum { MSS_MAX = TCP_BATCH_LEN_MAX };

uint32_t udp_path_mtu(const struct udp_channel *c)
{
    int mtu = UDP_MTU_DEFAULT;
    bool is_ipv4 = net_addr_is_ipv4(&c->place.remote);
    sys_getsockopt_int(c->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MTU : IPV6_MTU,
                       &mtu);
    return (uint32_t)mtu;
}

uint16_t udp_mss_of_mtu(uint32_t mtu, const struct net_flow *flow)
{
    uint32_t headers = UDP_HEADER_LEN + TCP_HEADER_LEN +
                       (net_addr_is_ipv4(&flow->remote) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
    uint32_t mss = mtu > headers + TCP_MSS_MIN ? mtu - headers : TCP_MSS_MIN;
    return (uint16_t)(mss < MSS_MAX ? mss : MSS_MAX);
}
