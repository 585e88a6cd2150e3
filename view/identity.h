// What a device is to programs, as data: a row per wire. The fronts and the tree (view/tree.h) say
// what stands here and ask nowhere which wire it is.
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/device_wire.h"

enum {
    IDENTITY_PORT_WIDTH_4X = 2,
    IDENTITY_PORT_SPEED_25_GBPS = 32, // of one lane
    IDENTITY_PORT_SPEED = 1000,       // of all lanes, units of 100 Mb/s
    IDENTITY_PORT_LINK_UP = 5,        // the physical state
    IDENTITY_PKEY = 0xffff,           // the one that stands for all
};

struct identity {
    const char *name;      // of the device, as programs choose it
    const char *guid_seed; // the GUID is made of it and the machine's name
    enum ibv_node_type node_type;
    const char *node_type_text; // as sysfs has it
    enum ibv_transport_type transport;
    unsigned device_cap_flags; // beside those that every device here has
    uint32_t port_cap_flags;
    uint8_t port_flags; // IBV_QPF_*
    enum ibv_gid_type gid_type;
    int gid_type_sysfs; // what ibv_query_gid_type says
    const char *gid_type_text;
    bool has_streams;    // the device connects queue pairs by itself; what InfiniBand says of a
                         // connection beyond the peer's address and number is only kept
    uint32_t qp_types;   // one bit per enum ibv_qp_type
    uint32_t max_ah;     // 0: no address handles
    uint32_t max_groups; // multicast groups at a time; 0: no multicast
    uint32_t header_len; // what headers take of a network interface's MTU; 0: a stream's segments
                         // are not the port's business
};

// The row of a wire.
const struct identity *identity_of(enum device_wire wire);

// An EUI-64 that is the same in every process of a host and across its restarts; in host order.
uint64_t identity_guid(const struct identity *identity);

// The largest path MTU of a port whose network interface has this MTU, in octets.
enum ibv_mtu identity_active_mtu(const struct identity *identity, unsigned interface_mtu);
