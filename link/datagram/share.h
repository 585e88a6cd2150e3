// Processes of one user that share a port at the addresses of this host.
//
// Each has a slot: an abstract Unix socket by its number ("weft-roce.<uid>.<port>.<slot>"), which
// the kernel frees when the process ends, however it ends. By these sockets they ask each other for
// the sockets of an address (link/datagram/door.h), and hand on what came to one and is another's.
// Abstract names are of a network namespace, as ports are.
//
//     ASK  address, how many    who has more of its sockets gives the others
//     GIVE address, descriptors asked for, or made since
//     NONE address
//     PACKET where from and to, octets
//     HERE                      a process has come: who has left a will shows it
//     WILL   two descriptors    what is to be sent when this process has ended (will.c)
//     LANE   two descriptors    memory for packets to the process that gets it (lanes.h)
//     TAKEN  which offer        who was handed a lane has taken it, and may be written to past it
//
// What comes from another user is dropped: the kernel says from whom it is.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/port_datagram.h"
#include "base/time.h"
#include "base/why.h"

enum {
    DATAGRAM_SHARE_SLOTS = 64,
    DATAGRAM_SHARE_FDS = DATAGRAM_SHARE_SLOTS + 2, // of an address, at most
};

struct datagram_share {
    int fd; // -1: none
    unsigned slot;
    uid_t uid;
    uint16_t port;
    uint64_t strangers; // messages of other users, or that make no sense
};

enum datagram_share_kind {
    DATAGRAM_SHARE_NOTHING, // no message is there
    DATAGRAM_SHARE_DROPPED, // one was, and was dropped
    DATAGRAM_SHARE_ASK,
    DATAGRAM_SHARE_GIVE,
    DATAGRAM_SHARE_NONE,
    DATAGRAM_SHARE_PACKET,
    DATAGRAM_SHARE_HERE,
    DATAGRAM_SHARE_WILL,
    DATAGRAM_SHARE_LANE,
    DATAGRAM_SHARE_TAKEN,
};

enum { DATAGRAM_SHARE_WILL_FDS = 2, DATAGRAM_SHARE_LANE_FDS = 2 };

struct datagram_share_message {
    enum datagram_share_kind kind;
    unsigned from;         // slot
    pid_t process;         // who has sent it, as the kernel says
    struct in6_addr addr;  // ASK, GIVE, NONE
    uint32_t scope_id;     // likewise
    unsigned first;        // ASK: how many it has; GIVE: the place of the first descriptor;
                           // LANE, TAKEN: which offer
    unsigned count;        // GIVE: how many were sent; LANE: of which layout
    int *fds;              // GIVE, WILL, LANE: room for DATAGRAM_SHARE_FDS, they are the receiver's
    unsigned fd_count;     // likewise: how many came: fewer, where the process may have no more
    struct datagram_rx rx; // PACKET: its octets lie in `buffer`
    uint8_t buffer[DATAGRAM_LEN_MAX];
};

// Takes the first free slot. 0, -EUSERS: all are taken, or another negative errno.
int datagram_share_init(struct datagram_share *s, uint16_t port);
// The slot is free.
void datagram_share_fini(struct datagram_share *s);

// While a process has this, no other makes sockets of an address. -EAGAIN: another has it. The
// descriptor is the caller's; closed, or with the process, it is let go.
int datagram_share_lock(const struct datagram_share *s);
// It is another user's, who has no business with it: nobody of ours ever has it.
bool datagram_share_is_locked_out(const struct datagram_share *s);
// ... or any name of ours at this port is; why that refuses us.
bool datagram_share_stranger(uint16_t port, struct why *ret);

// A name that says that somebody serves `service` at this address, or at those of a wildcard, for
// as long as the descriptor is open, which is the caller's. -EADDRINUSE: a process of ours has it;
// -EPERM: another user, and nobody of ours can.
int datagram_share_serve(const struct datagram_share *s, uint64_t service,
                         const struct in6_addr *local);
// Is there that name, of a process of ours? True also where it cannot be found out.
bool datagram_share_is_served(const struct datagram_share *s, uint64_t service,
                              const struct in6_addr *local);

// Asks the process in `slot` for what it has beyond the first `has`; -ECONNREFUSED: there is none.
int datagram_share_ask(const struct datagram_share *s, unsigned slot, const struct in6_addr *addr,
                       uint32_t scope_id, unsigned has);
// Gives the process in `slot` sockets of an address, from place `first` on; `count` 0: there are
// none here. 0 or a negative errno, as datagram_share_hand_on.
int datagram_share_give(const struct datagram_share *s, unsigned slot, const struct in6_addr *addr,
                        uint32_t scope_id, unsigned first, const int *fds, unsigned count);
// Says to the process in `slot` that we are here, and shows it our will: 0 or a negative errno, as
// datagram_share_hand_on.
int datagram_share_come(const struct datagram_share *s, unsigned slot);
int datagram_share_show(const struct datagram_share *s, unsigned slot,
                        const int fds[DATAGRAM_SHARE_WILL_FDS]);
// Hands the process in `slot` memory of this layout, and the socket that belongs to it: likewise.
// `offer` is what it answers with, when it has taken them.
int datagram_share_lane(const struct datagram_share *s, unsigned slot, unsigned layout,
                        unsigned offer, const int fds[DATAGRAM_SHARE_LANE_FDS]);
int datagram_share_taken(const struct datagram_share *s, unsigned slot, unsigned offer);
// 0; -ECONNREFUSED: nobody has the slot; -EAGAIN or another: who has it does not read.
int datagram_share_hand_on(const struct datagram_share *s, unsigned slot,
                           const struct datagram_rx *rx);

// Takes a message, waiting for it so long; `ret->fds` is set by the caller, or NULL: then
// descriptors that come are closed.
void datagram_share_receive(struct datagram_share *s, duration_ns timeout_ns,
                            struct datagram_share_message *ret);
// The same within `*left_ns`, of which is taken how long that was.
void datagram_share_await(struct datagram_share *s, duration_ns *left_ns,
                          struct datagram_share_message *ret);
