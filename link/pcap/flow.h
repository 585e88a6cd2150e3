// One recorded connection: both directions as TCP segments that fit together.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/span.h"
#include "link/pcap/cut.h"
#include "link/pcap/file.h"
#include "net/addr.h"

enum pcap_side { PCAP_LOCAL, PCAP_PEER }; // who sends

struct pcap_direction {
    struct net_flow flow; // as its sender sees it
    uint16_t id;          // identification of the next IPv4 packet
    struct pcap_cut cut;
    uint32_t seq;  // of the next octet to be recorded
    uint8_t *unit; // octets of the unit that has not ended
    size_t unit_len, unit_room;
    bool has_fin;
};

struct pcap_flow {
    struct list_link link; // for the owner
    struct pcap_file *file;
    struct pcap_direction direction[2]; // by enum pcap_side
};

// A flow between these addresses, its handshake recorded; `initiator` sent the SYN. `serial` tells
// connections on the same ports apart. NULL: no memory.
struct pcap_flow *pcap_flow_create(struct pcap_file *file, const struct net_flow *addresses,
                                   enum pcap_side initiator, uint32_t serial);

// What `from` sent. False: no memory; the flow is to be destroyed.
bool pcap_flow_data(struct pcap_flow *flow, enum pcap_side from, struct span octets);
void pcap_flow_fin(struct pcap_flow *flow, enum pcap_side from);
void pcap_flow_reset(struct pcap_flow *flow, enum pcap_side from);
void pcap_flow_destroy(struct pcap_flow *flow);

// Is `other` the same connection seen from its other end?
bool pcap_flow_is_mirror(const struct pcap_flow *flow, const struct net_flow *other);
