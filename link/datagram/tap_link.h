// What the files of the tap link share.
#pragma once

#include <string.h>

#include "base/list.h"
#include "base/port_datagram.h"
#include "base/time.h"
#include "link/datagram/alone.h"
#include "link/datagram/tap.h"
#include "link/device/tap_interface.h"
#include "link/fault_model.h"
#include "net/addr.h"
#include "net/iface.h"
#include "wire/eth.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

enum {
    TAP_PACKETS_MAX = 512, // staged, waiting or looped at a time
    TAP_WAITING_MAX = 192, // of them, for neighbours that are asked for
    TAP_FRAMES_MAX = 32,   // handed out at a time
    TAP_PACKET_LEN_MAX = IPV6_HEADER_LEN + UDP_HEADER_LEN + DATAGRAM_LEN_MAX + ICRC_LEN,
    TAP_FRAME_LEN_MAX = ETH_HEADER_LEN + TAP_PACKET_LEN_MAX,
};

// A packet of ours, from its IP header on, with room for Ethernet's in front.
struct tap_packet {
    struct list_link link;
    struct datagram_path path;
    size_t len;
    size_t head_len; // of IP and UDP
    uint8_t room[ETH_HEADER_LEN];
    uint8_t octets[TAP_PACKET_LEN_MAX];
};

struct datagram_tap {
    struct datagram_alone alone;
    struct datagram_tap_config config;
    struct tap_interface interface;
    struct net_iface iface;
    struct fault_model faults;
    struct list_link unused;
    struct list_link staged;  // put, and to be flushed
    struct list_link waiting; // for neighbours that are asked for
    unsigned waiting_count;
    struct list_link looped, taken; // to be received; handed out by the last `receive`
    bool has_frames;                // as far as the last look saw
    bool is_blocked;                // the interface has no room
    bool was_full;                  // something was not taken, or has not left
    struct {
#define X(name, text) uint64_t name;
        DATAGRAM_TAP_COUNTERS(X)
#undef X
    } counters;
    struct tap_packet packets[TAP_PACKETS_MAX];
    uint8_t frames[TAP_FRAMES_MAX][TAP_FRAME_LEN_MAX];
};

static inline struct datagram_tap *datagram_tap_of(const struct datagram_link *link)
{
    return (struct datagram_tap *)link;
}

static inline instant_ns datagram_tap_now(const struct datagram_tap *t)
{
    return t->config.clock(t->config.clock_ctx);
}

static inline struct net_addr datagram_tap_addr(const struct in6_addr *a)
{
    return net_addr_from_ipv6(a->s6_addr);
}

// For who was told that there is none.
static inline bool datagram_tap_has_room_again(const struct datagram_tap *t)
{
    return t->was_full && !t->is_blocked && !list_is_empty(&t->unused);
}

static inline uint32_t datagram_tap_headers_len(const struct in6_addr *remote)
{
    return UDP_HEADER_LEN + (IN6_IS_ADDR_V4MAPPED(remote) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
}

// tap_io.c: as in struct datagram_link_ops.
bool datagram_tap_put(struct datagram_link *link, const struct datagram_tx *tx);
bool datagram_tap_flush(struct datagram_link *link);
unsigned datagram_tap_poll(struct datagram_link *link, instant_ns now);
unsigned datagram_tap_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                              instant_ns now);
