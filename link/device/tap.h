// A device of the kernel's TUN/TAP interface (Linux Documentation/networking/tuntap.rst): real IP
// packets, in Ethernet frames (tap) or bare (tun). What is on the other side is the machine's own
// network: its kernel, and whoever that bridges or routes to. The interface's end inside this
// process has addresses of its own, and answers for them. How it is named in text is in
// tap_config.c.
//
// Where the kernel can, checksums and the cutting of large packets are left to it, both ways
// (IFF_VNET_HDR): then a system call moves up to 64 KiB.
#pragma once

#include "base/trace.h"
#include "link/device/device.h"
#include "net/iface.h"

enum { TAP_NAME_LEN = 16 };

struct device_tap_config {
    char name[TAP_NAME_LEN]; // of the interface; it is made if it is not there
    bool is_tun;             // packets, no Ethernet
    struct net_iface_addr addrs[NET_IFACE_ADDR_MAX];
    unsigned addr_count;
    struct net_addr gateway_ipv4, gateway_ipv6; // all zero: none
    uint16_t mtu;                               // 0: the interface's
    uint8_t ttl;         // of packets whose path names none; 0: NET_HOPS_DEFAULT
    bool offloads;       // false: every packet whole and by itself
    uint64_t seed;       // of the Ethernet address and of ports
    struct trace *trace; // may be NULL
};

#define TAP_VALUES "tap:NAME,ADDRESS/PREFIX... or tun:NAME,ADDRESS/PREFIX..."

// Reads "tap:weft0,10.0.0.2/24,fd00::2/64,gateway=10.0.0.1,mtu=9000,ttl=4"; "nooffload" may stand
// among them. False: it cannot be understood, or names no address. The seed is left 0.
bool device_tap_config_parse(const char *text, struct device_tap_config *ret);

// Returns 0 or a negative errno (-EPERM, -EBUSY: another process has it …).
int device_tap_create(const struct device_tap_config *config, struct device **ret);
const struct net_iface_counters *device_tap_counters(const struct device *d);
