// What a device is told when it is made: how its connections start up and how patient it is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_place.h"
#include "base/time.h"

// How an STag is to stand in the header of a Send (wire/oneshot.h), and which of its meanings is
// wanted. Both ends must want the same encoding.
enum rnic_oneshot { RNIC_ONESHOT_OFF, RNIC_ONESHOT_FLAGS, RNIC_ONESHOT_OPCODE };
enum rnic_oneshot_parts { RNIC_ONESHOT_BOTH, RNIC_ONESHOT_ADVERTISE, RNIC_ONESHOT_CLOSE };

struct rnic_config {
    bool crc;                    // ask for the MPA CRC; the peer may insist on it
    bool crc_within_host;        // ... where octets never leave the host, too
    bool markers;                // ask the peer to insert markers
    bool extensions;             // offer weft's own extensions
    bool peer_to_peer;           // RFC 6581 peer-to-peer start-up
    uint32_t oneshot;            // with extensions: enum rnic_oneshot
    uint32_t oneshot_parts;      // enum rnic_oneshot_parts
    bool write_flush;            // a signalled Write completes behind a zero-length Read
    bool tx_copy;                // copy what Sends and Writes carry before the CRC is taken
    uint32_t placement;          // enum placement, where the link can do that
    uint32_t mpa_revision;       // 1 or 2
    uint32_t rnr_store_len;      // octets per QP for Sends without a receive
    uint32_t read_contexts;      // requests of all QPs that may be out at a time, at least 1
    uint32_t read_allotment_len; // octets that one request may fetch; 0: undivided
    uint32_t read_depth;         // requests of one read at a time; 0: as many as the pipe needs
    uint32_t read_turn_len;      // octets of responses that a queue pair sends before others do;
                                 // 0: a response is sent to its end
    duration_ns read_timeout_ns; // how long an answer may make no progress
    duration_ns rnr_timeout_ns;  // how long such a Send may wait
    duration_ns mpa_timeout_ns;  // how long a start-up frame may take
};
