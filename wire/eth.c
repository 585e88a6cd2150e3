#include "wire/eth.h"

#include <string.h>

#include "base/bytes.h"

enum { ARP_HARDWARE_ETHERNET = 1 };

const struct eth_addr eth_broadcast = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

bool eth_addr_equal(const struct eth_addr *a, const struct eth_addr *b)
{
    return memcmp(a->octets, b->octets, ETH_ADDR_LEN) == 0;
}

bool eth_header_parse(struct span frame, struct eth_header *ret, struct span *ret_body)
{
    if (frame.len < ETH_HEADER_LEN) {
        return false;
    }
    memcpy(ret->dst.octets, frame.ptr + ETH_OFF_DST, ETH_ADDR_LEN);
    memcpy(ret->src.octets, frame.ptr + ETH_OFF_SRC, ETH_ADDR_LEN);
    ret->type = get_be16(frame.ptr + ETH_OFF_TYPE);
    *ret_body = span_skip(frame, ETH_HEADER_LEN);
    return true;
}

size_t eth_header_emit(const struct eth_header *h, uint8_t *buf)
{
    memcpy(buf + ETH_OFF_DST, h->dst.octets, ETH_ADDR_LEN);
    memcpy(buf + ETH_OFF_SRC, h->src.octets, ETH_ADDR_LEN);
    put_be16(buf + ETH_OFF_TYPE, h->type);
    return ETH_HEADER_LEN;
}

enum arp_parse_verdict arp_packet_parse(struct span body, struct arp_packet *ret)
{
    const uint8_t *p = body.ptr;
    if (body.len < ARP_LEN) {
        return ARP_PARSE_TOO_SHORT;
    }
    if (get_be16(p + ARP_OFF_HARDWARE) != ARP_HARDWARE_ETHERNET ||
        get_be16(p + ARP_OFF_PROTOCOL) != ETH_TYPE_IPV4 ||
        p[ARP_OFF_HARDWARE_LEN] != ETH_ADDR_LEN || p[ARP_OFF_PROTOCOL_LEN] != IPV4_ADDR_LEN) {
        return ARP_PARSE_KIND;
    }
    ret->operation = get_be16(p + ARP_OFF_OPERATION);
    memcpy(ret->sender_eth.octets, p + ARP_OFF_SENDER_ETH, ETH_ADDR_LEN);
    memcpy(ret->sender_ip, p + ARP_OFF_SENDER_IP, IPV4_ADDR_LEN);
    memcpy(ret->target_eth.octets, p + ARP_OFF_TARGET_ETH, ETH_ADDR_LEN);
    memcpy(ret->target_ip, p + ARP_OFF_TARGET_IP, IPV4_ADDR_LEN);
    return ARP_PARSE_OK;
}

size_t arp_packet_emit(const struct arp_packet *p, uint8_t *buf)
{
    put_be16(buf + ARP_OFF_HARDWARE, ARP_HARDWARE_ETHERNET);
    put_be16(buf + ARP_OFF_PROTOCOL, ETH_TYPE_IPV4);
    buf[ARP_OFF_HARDWARE_LEN] = ETH_ADDR_LEN;
    buf[ARP_OFF_PROTOCOL_LEN] = IPV4_ADDR_LEN;
    put_be16(buf + ARP_OFF_OPERATION, p->operation);
    memcpy(buf + ARP_OFF_SENDER_ETH, p->sender_eth.octets, ETH_ADDR_LEN);
    memcpy(buf + ARP_OFF_SENDER_IP, p->sender_ip, IPV4_ADDR_LEN);
    memcpy(buf + ARP_OFF_TARGET_ETH, p->target_eth.octets, ETH_ADDR_LEN);
    memcpy(buf + ARP_OFF_TARGET_IP, p->target_ip, IPV4_ADDR_LEN);
    return ARP_LEN;
}
