// What the paths to other hosts take, where it is less than our own interface does: what ICMP told
// one connection serves all of the same address, and is forgotten after ten minutes, since paths
// change (RFC 1191 sections 3 and 6.3, RFC 8201 sections 4 and 5.2). A table of fixed size; when it
// is full, what was told longest ago gives way.
#pragma once

#include <stdint.h>

#include "base/time.h"
#include "net/addr.h"

enum { NET_PATH_MAX = 64 };
#define NET_PATH_AGE_NS (600 * NS_PER_S)

struct net_path {
    struct net_addr remote;
    uint16_t mss; // octets behind a TCP header without options
    instant_ns told_at_ns;
};

// The earliest told first.
struct net_paths {
    struct net_path path[NET_PATH_MAX];
    unsigned count;
};

// 0: nothing is known.
uint16_t net_paths_mss(const struct net_paths *paths, const struct net_addr *remote);
void net_paths_note(struct net_paths *paths, const struct net_addr *remote, uint16_t mss,
                    instant_ns now);
// When the next is to be forgotten; INSTANT_NEVER: there is none.
instant_ns net_paths_next_deadline(const struct net_paths *paths);
void net_paths_on_deadline(struct net_paths *paths, instant_ns now);
