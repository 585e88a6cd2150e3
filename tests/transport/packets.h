// The product's transports over packets (base/transport.h), between ends in this process: what one
// puts lies in a queue of its own until a step carries the oldest to whom it names, in order. So
// many fit into the queue before the sink has no room.
#pragma once

#include "base/transport.h"
#include "tests/transport/transport.h"

enum {
    PACKETS_ROOM = 4,
    PACKETS_MTU = 2048,   // of datagrams
    PACKETS_UC_MTU = 512, // of connections
};

// A packet on its way, or one that a test makes up.
struct carried {
    struct datagram_path path;
    size_t len;
    uint8_t octets[DATAGRAM_LEN_MAX];
};

struct packets {
    struct end *end;
    struct transport *t;
    struct datagram_sink sink;
    unsigned room; // PACKETS_ROOM; a test may change it
    unsigned count;
    struct carried queue[PACKETS_ROOM];
    unsigned events[QP_EVENT_COUNT]; // how many there were
};

struct packets *packets_of(const struct end *end);

// The address of the end with this index: ::ffff:10.0.0.x, or fd00::x.
struct in6_addr packets_address(unsigned index);
struct in6_addr packets_address6(unsigned index);
// Of a group that a test may use.
struct in6_addr packets_group(void);

// The oldest of what an end has put, which leaves its queue. There is one.
struct carried packets_take(struct end *end);
// It arrives at an end.
void packets_arrive(struct end *end, const struct carried *packet);

// As transports have it.
void packets_change(struct end *end, const struct qp_change *change); // succeeds
void packets_modify(struct end *end, enum qp_state to);               // succeeds
uint64_t packets_counter(const struct end *end, const char *name);    // "refused.qkey"
