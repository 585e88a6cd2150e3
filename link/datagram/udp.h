// Packets of RoCEv2 over plain UDP sockets (base/port_datagram.h), without any privilege.
//
//   udp.c       the link: paths, waiting
//   udp_tx.c    staging, and out: bursts of equal packets in one system call
//   udp_rx.c    in: what came together is parted, checked, and handed on
//   lanes.c     ... to other processes of this host by memory: lanes.h, lanes_out.c, lanes_in.c,
//               lane.h; Writes past them: way.h, lane_gate.c, lane_push.c
//   room.c      whether a receiver on this host has room
//   place.c     local addresses, and who else has them open
//   group.c     multicast groups
//   serve.c     what is served here, for others to find out
//   inlet.c     descriptors that are waited for
//   linger.c    ... and looked at for a while before a sleep
//   door.c      the sockets of an address
//   share.c     which process has which slot, and what processes say to each other
//   holder.c    who has a port that we cannot have
//
// Every packet of a link leaves from one port for each local address, 0xc000 to 0xffff: the port of
// a path is a wish that is not heard. An IPv6 flow label is the kernel's.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "base/trace.h"
#include "base/why.h"
#include "link/fault_model.h"

enum { DATAGRAM_UDP_PORT = 4791 };
#define DATAGRAM_LINGER_NS (50 * NS_PER_US) // a wake-up takes as long

struct datagram_udp_config {
    uint16_t port;                   // 0: DATAGRAM_UDP_PORT
    uint32_t sndbuf_len, rcvbuf_len; // octets; 0: 4 MiB, as far as the system lets us
    bool is_unchecked;               // no ICRC is looked at
    bool is_local;                   // to other processes of this host by memory (lanes.h)
    unsigned rights;                 // enum key_right: ... past them
    // As of struct link_local_config.
    void (*on_long_revocation)(pid_t process, pid_t thread);
    struct fault_config corrupt;    // changes what arrives, before its ICRC is looked at
    bool is_single;                 // each packet in a system call's message of its own
    duration_ns linger_ns;          // who waits looks on for so long, if that pays; 0: never
    instant_ns (*clock)(void *ctx); // ... by this clock, on any thread
    void *clock_ctx;
    struct trace *trace; // may be NULL
};

// Takes a slot of this user's. Returns 0 or a negative errno: -EUSERS: all slots are taken.
int datagram_udp_create(const struct datagram_udp_config *config, struct datagram_link **ret);

// Has another user a name by which the processes of this one share the port (0: DATAGRAM_UDP_PORT)?
// Why a link could not be created (-EUSERS), or an address not opened (-EADDRINUSE).
bool datagram_udp_stranger(uint16_t port, struct why *ret);
// Why an address could not be opened (-EADDRINUSE): who has the port there, as far as the system
// says, and which address of the host is free. `port` 0: DATAGRAM_UDP_PORT.
void datagram_udp_holder(const struct in6_addr *addr, uint16_t port, struct why *ret);
