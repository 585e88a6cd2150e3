// A discovery service of NVMe over TCP, announced to the network by mDNS as _nvme-disc._tcp (NVM
// Express, TP 8009), through the system's Avahi: its daemon keeps what is announced for as long as
// somebody is connected to it. Avahi's library and D-Bus are in a module of weft's own,
// weft-mdns.so, which only the process that announces loads.
#pragma once

#include <stdint.h>

struct mdns {
    void *ctx;
    const char *name; // it is called so, or nearly
    uint16_t port;
    // It is announced, by this name; or it is not, for a reason.
    void (*on_announced)(void *ctx, const char *name);
    void (*on_failed)(void *ctx, const char *why);
};

// Announces, until that is no longer possible.
typedef void mdns_announce_fn(const struct mdns *mdns);
#define MDNS_SYMBOL "mdns_announce"
