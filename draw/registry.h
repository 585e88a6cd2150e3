// The connections of a capture: which packet is of which, who began it, and what it came to.
//
// A TCP connection is RDMA's when either side begins with an MPA start-up frame, or, where the
// capture began later, with a whole FPDU whose CRC is right. A packet of RoCE names only the queue
// pair that it is for: the other one is told by the connection manager's messages, or, where those
// were not captured, taken to be the one whose packets it answers.
//
// Numbers go to connections of RDMA, from 1, in the order in which they show that they are.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "base/time.h"
#include "draw/capture.h"
#include "draw/frame.h"

enum { REGISTRY_CONNECTION_MAX = 1 << 16 };

enum registry_wire {
    REGISTRY_TCP, // shows nothing of RDMA
    REGISTRY_IWARP,
    REGISTRY_RC,
    REGISTRY_UC,
    REGISTRY_UD,
    REGISTRY_WIRE_COUNT,
};
// "iWARP", "RoCE RC" …
const char *registry_wire_name(enum registry_wire wire);

// Of the two sides, 0 is the one whose packet came first in the capture.
struct registry_connection {
    enum registry_wire wire;
    uint32_t number; // 0: of no RDMA, as far as was seen
    struct frame_end end[2];
    uint32_t qp[2];     // RoCE: of each end; 0: not known
    unsigned initiator; // the side that asked for the connection, or 0
    bool has_start;     // its asking was captured
    uint64_t packet_count, payload_len;
    uint64_t first_packet;
    instant_ns first, last;

    bool has_syn, has_data[2];
    uint32_t syn_seq;
    uint32_t psn[2]; // RoCE: the last of each side's requests
    bool has_psn[2];
    uint32_t cm_id[2];
};

struct registry_slot;

struct registry {
    uint8_t key[SIPHASH_KEY_LEN];
    struct registry_connection *connection; // in the order of their first packets
    struct registry_slot *slot;
    uint32_t connection_count;
    uint32_t slot_count; // in use
    uint32_t number_count;
    uint64_t packets_left_out; // of connections beyond REGISTRY_CONNECTION_MAX
};

// False: no memory. `key` is random: strangers chose what is looked up.
bool registry_create(struct registry *r, const uint8_t key[SIPHASH_KEY_LEN]);
void registry_destroy(struct registry *r);

struct registry_sighting {
    uint32_t index; // of the connection
    unsigned side;  // that sent the packet
};

// The connection of a packet, begun if it is the first. False: it is of none, or there is no room.
bool registry_see(struct registry *r, const struct capture_packet *packet, const struct frame *f,
                  struct registry_sighting *ret);

// The connection with this number; NULL: there is none.
const struct registry_connection *registry_find(const struct registry *r, uint32_t number,
                                                uint32_t *ret_index);
// The number of the connection that makes a good picture without anybody's choice: of those whose
// start was captured, else of all, the one with the most octets. 0: there is none.
uint32_t registry_choice(const struct registry *r);
