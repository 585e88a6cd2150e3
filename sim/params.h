// What a seed draws before anything runs. All of it is printed first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"

enum { SIM_NODE_MAX = 3, SIM_PAIR_MAX = 4, SIM_SGE_MAX = 16, SIM_SRQ_POSTED_MAX = 16 };

enum sim_wire { SIM_WIRE_IWARP, SIM_WIRE_ROCE };

// What a seed draws beside all else where the wire is RoCEv2.
struct sim_roce_params {
    bool has_ipv6;
    uint32_t by_hand;  // connections without a manager, of 1024
    uint32_t path_mtu; // of the devices; by hand it may be less
    uint32_t corrupt;  // millionths
    bool is_unchecked; // ... and nobody sees that a packet was changed; never drawn
    uint64_t rate;     // octets in a second into and out of each node; 0: no limit
    uint32_t queue_len, mark_len, send_buffer_len, receive_buffer_len; // 0: no limit
    uint8_t timeout, min_rnr_timer;
    uint32_t flows;     // of the unreliable services, beside the connections
    uint32_t strangers; // per 1024 looks of a program, as below
};

struct sim_params {
    uint64_t seed;
    enum sim_wire wire;
    // The house.
    uint32_t nodes, pairs; // pairs: connections at a time
    uint32_t connections;  // in all
    uint32_t ops;          // work requests of one end of a connection
    uint32_t block_len, message_max_len;
    duration_ns think_max_ns; // between two looks of the programs
    // The net.
    duration_ns delay_max_ns;
    uint32_t window_len, piece_max_len, emss;
    // Or packets, with our own TCP.
    bool has_packets;
    uint32_t packet_loss, packet_reorder, packet_duplicate; // millionths
    uint32_t packet_mtu, packet_window_len, packet_buffer_len, packet_range_max;
    uint32_t placement; // enum placement
    // The devices.
    bool crc[SIM_NODE_MAX], markers[SIM_NODE_MAX], extensions[SIM_NODE_MAX];
    bool peer_to_peer, write_flush, tx_copy;
    uint32_t mpa_revision, rnr_store_len;
    uint32_t read_contexts, read_allotment_len, read_depth, read_turn_len;
    uint32_t oneshot, oneshot_parts; // enum rnic_oneshot, rnic_oneshot_parts
    uint32_t retunes; // per 1024 looks: an operator changes the allotment of a device
    // The queue pairs.
    uint32_t sq_len, rq_len, sge_max, inline_max_len, reads; // reads: IRD and ORD
    uint32_t recvs; // posted at a time on one queue at most
    bool sq_sig_all, use_srq;
    struct sim_roce_params roce;
    // What goes wrong, per 1024 looks of a program: 0 in half of the seeds.
    uint32_t faults;   // of the net
    uint32_t mistakes; // wrong work requests of programs
    uint32_t turmoil;  // objects that go away while they are in use, disconnects
    uint32_t refusals; // connections that are not to be, per 1024
};

void sim_params_draw(struct sim_params *ret, uint64_t seed, enum sim_wire wire);
// Several lines.
void sim_params_print(const struct sim_params *p, char *into, size_t len);
