// A link of packets that a test works by hand: what comes of it and what fails is said beforehand,
// and what the device asks of it is written down, in words.
//
// An address is a number: n is 10.0.0.n, from 100 on fe80::n. One with a scope is "n%scope".
#pragma once

#include <netinet/in.h>

#include "base/port_datagram.h"
#include "base/sockaddr.h"

enum { HAND_PACKET_MAX = 64, HAND_LOG_LEN = 4096 };

struct hand_packet {
    struct datagram_path path;
    uint8_t octets[DATAGRAM_LEN_MAX];
    size_t len;
};

struct hand_datagrams {
    struct datagram_link base;
    char log[HAND_LOG_LEN]; // "open 1 close 2%5 join 1 serve 1 hand on 7 …"
    unsigned refused;       // this address can be neither opened nor joined
    int serve_error;
    bool is_receiver_full; // of what is sent once
    size_t room;           // packets that can be put until the next flush ...
    size_t room_per_flush; // ... which makes room for so many
    bool is_stuck;         // nothing leaves by a flush
    bool is_handed_on;     // what hand_on answers
    bool is_served;        // by another process
    bool is_abandoned, is_destroyed;

    struct hand_packet out[HAND_PACKET_MAX];
    unsigned out_count, flush_count;
    struct datagram_rx in[HAND_PACKET_MAX];
    unsigned in_count;
    unsigned said; // enum datagram_ready: told once
};

// For one device at a time.
struct hand_datagrams *hand_datagrams_begin(void);
struct in6_addr hand_addr(unsigned n);
unsigned hand_addr_number(const struct in6_addr *addr);
