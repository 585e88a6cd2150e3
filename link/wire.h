// A simulated wire on virtual time: links with our own TCP (link/packet/packet.h), each with
// addresses of its own, whose packets really cross, as IP packets, with what a bad path does to
// them. The way from each link to each is a queue with a rate; one seed draws everything. The links
// themselves are made in wire_link.c.
//
// Beside it stands link/sim.h, whose streams have no packets: that is the kernel's TCP, simulated.
#pragma once

#include <netinet/in.h>

#include "base/port_link.h"
#include "base/span.h"
#include "base/time.h"
#include "link/fault_model.h"
#include "tcp/tcp.h"

struct device;
struct wire;

enum { WIRE_ADDR_MAX = 4 };

struct wire_config {
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    struct fault_config faults; // its seed draws everything; its sides are not looked at
    uint64_t rate;              // octets of packets in a second out of each link; 0: no limit
    uint32_t queue_len; // octets that wait for that at most, one more packet is lost; 0: no limit
    uint32_t mark_len;  // while more than so many wait, packets are marked whose sender heeds that
                        // (RFC 3168); 0: none is
    uint16_t mtu;
    struct tcp_config tcp;
    duration_ns linger_ns; // see link_packet_config
    struct trace *trace;   // may be NULL
};

// NULL: no memory.
struct wire *wire_create(const struct wire_config *config);
// All links have been destroyed before. NULL is allowed.
void wire_destroy(struct wire *wire);

// A link with these IPv4 addresses, 1..WIRE_ADDR_MAX, of one network 10.0.0.0/8. NULL: no memory.
struct link *wire_attach(struct wire *wire, const struct in_addr *addrs, unsigned count);

// What such a link is made of: its end of the wire, octets drawn from the wire's seed, and what the
// wire was made with.
struct device *wire_end_create(struct wire *wire, const struct in_addr *addrs, unsigned count);
void wire_draw(struct wire *wire, struct mspan ret);
const struct wire_config *wire_config_of(const struct wire *wire);

// When a packet will arrive; INSTANT_NEVER: none is under way.
instant_ns wire_next_event(const struct wire *wire);
// Every packet that is due by now arrives; true if any did.
bool wire_advance(struct wire *wire);

// From now on packets meet this; the seed does not begin anew.
void wire_set_faults(struct wire *wire, const struct fault_config *faults);
const struct fault_counters *wire_counters(const struct wire *wire);
// Packets that the queue had no room for. / That were marked.
uint64_t wire_overflows(const struct wire *wire);
uint64_t wire_marks(const struct wire *wire);
