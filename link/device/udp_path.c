// What fits the path of a UDP channel.

#include <netinet/in.h>

#include "link/device/udp_channel.h"
#include "link/sys.h"
#include "net/addr.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum { SEGMENT_LEN_MAX = 64020 }; // of a train: see udp_io.c

uint32_t udp_path_mtu(const struct udp_channel *c)
{
    int mtu = UDP_MTU_DEFAULT;
    bool is_ipv4 = net_addr_is_ipv4(&c->place.remote);
    sys_getsockopt_int(c->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_MTU : IPV6_MTU,
                       &mtu);
    return (uint32_t)mtu;
}

uint32_t udp_segment_len_of_mtu(uint32_t mtu, const struct net_flow *flow)
{
    uint32_t headers =
        UDP_HEADER_LEN + (net_addr_is_ipv4(&flow->remote) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
    uint32_t len = mtu > headers ? mtu - headers : 0;
    return len < SEGMENT_LEN_MAX ? len : SEGMENT_LEN_MAX;
}
