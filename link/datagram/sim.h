// A net for datagrams on virtual time: links (base/port_datagram.h) with addresses of their own,
// for tests and the simulator. Each link is sent to through one queue with a rate, as behind the
// port of a switch: what is too much for it is dropped there, or marked (RFC 3168). One seed draws
// what a bad path does.
//
//     put, flush -> leaves at `send_rate` -> faults -> queue, `rate` -> receive buffer -> receive
#pragma once

#include <netinet/in.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "link/fault_model.h"

struct datagram_net;

enum { DATAGRAM_SIM_ADDR_MAX = 4, DATAGRAM_SIM_LINK_MAX = 255 };

struct datagram_net_config {
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    struct fault_config faults; // its seed draws everything; its sides are not looked at
    uint32_t mtu;               // octets of an IP packet; 0: 4200
    uint64_t rate;              // octets of IP packets in a second to each link; 0: no limit
    uint32_t queue_len;         // octets that wait for that at most; 0: no limit
    uint32_t mark_len;  // a packet that finds so many waiting, and allows it, is marked; 0: none is
    uint64_t send_rate; // octets in a second out of each link; 0: no limit
    uint32_t send_buffer_len;    // octets that wait for that at most; 0: no limit
    uint32_t receive_buffer_len; // octets that wait to be received at most; 0: no limit
    bool is_unchecked; // nobody can check an ICRC: what was changed under way is handed up
};

#define DATAGRAM_SIM_COUNTERS(X)                                 \
    X(packets_out, "packets sent")                               \
    X(packets_in, "packets received")                            \
    X(icrc_wrong, "packets dropped that were changed under way") \
    X(buffer_overflows, "packets that the receive buffer had no room for")

// NULL: no memory.
struct datagram_net *datagram_net_create(const struct datagram_net_config *config);
// All links have been destroyed before. NULL is allowed.
void datagram_net_destroy(struct datagram_net *net);

// A link with these addresses (an IPv4 one is mapped), 1..DATAGRAM_SIM_ADDR_MAX. Links may have the
// same address, as processes of a host: a packet is for the one whose slot its queue pair is in.
// NULL: no memory, or all slots are taken.
struct datagram_link *datagram_net_attach(struct datagram_net *net, const struct in6_addr *addrs,
                                          unsigned count);

// When a packet moves next; INSTANT_NEVER: none is under way. What a link was given to send and has
// not been told to (`flush`) is not under way.
instant_ns datagram_net_next_event(const struct datagram_net *net);
// Every packet that is due by now moves; true if any did.
bool datagram_net_advance(struct datagram_net *net);

// A copy of a packet that is under way, the `which`th of them and around, as somebody on the line
// has it: `octets` has room for DATAGRAM_LEN_MAX. Returns its length; 0: none is under way.
size_t datagram_net_overhear(const struct datagram_net *net, uint32_t which, uint8_t *ret_octets,
                             struct datagram_path *ret_path);

// From now on packets meet this; the seed does not begin anew.
void datagram_net_set_faults(struct datagram_net *net, const struct fault_config *faults);
const struct fault_counters *datagram_net_counters(const struct datagram_net *net);
// Packets that a queue had no room for, or that it marked.
uint64_t datagram_net_overflows(const struct datagram_net *net);
uint64_t datagram_net_marks(const struct datagram_net *net);
