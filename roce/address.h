// To whom a datagram goes: what the poster leaves in the address of each send entry of a UD queue
// pair (wq_send_address; wq_config.address_len is the length of this struct). It is a copy of the
// address handle and of what the work request says, so that the handle may be destroyed at once.
#pragma once

#include <stdint.h>

#include "base/port_datagram.h"

enum {
    ROCE_QPN_CM = 1,               // the queue pair of connection managers
    ROCE_QPN_MULTICAST = 0xffffff, // those attached to the group that the packet went to
};

// Of a work request's Q_Key: the queue pair's own goes out instead.
#define ROCE_QKEY_CONTROLLED 0x80000000U

struct roce_address {
    struct datagram_path path; // local: the address behind the GID index. source_port 0: as
                               // roce_source_port has it
    uint32_t qpn;              // the peer's, or ROCE_QPN_MULTICAST
    uint32_t qkey;             // the peer's; with ROCE_QKEY_CONTROLLED: as that says
};

// The UDP source port of what a queue pair sends to another, 0xc000 to 0xffff: from the flow label
// (20 bits), or, if that is 0, from both numbers, so that each way through a net with several keeps
// its order. As rdma_flow_label_to_udp_sport and rdma_calc_flow_label of rdma-core have it.
uint16_t roce_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);
