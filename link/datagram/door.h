// The sockets of a local address that processes of one user share.
//
// One for what belongs to management, which all processes read, one for numbers of no slot, which
// nobody reads, and one per slot (link/datagram/slot.h), in that order, as far as slots are taken.
// They are one reuseport group, in which a filter finds the socket by the destination QP of the
// packet: a classic program, which takes no privilege.
//
// The kernel counts sockets in the order of their binding, and puts the last in the place of one
// that is closed. So no place may change while one of the processes lives: each has the first so
// many sockets, and none without those before it; who makes more has all that there are, and gives
// them to the others. Whoever dies, what is closed are the last ones, or nothing.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "link/datagram/share.h"

enum {
    DATAGRAM_DOOR_MANAGEMENT,
    DATAGRAM_DOOR_SINK,
    DATAGRAM_DOOR_SLOTS, // the first of them
    DATAGRAM_DOOR_FDS = DATAGRAM_DOOR_SLOTS + DATAGRAM_SHARE_SLOTS,
};

// The first `count` sockets of an address. All zero: none.
struct datagram_door {
    unsigned count;
    int fds[DATAGRAM_DOOR_FDS];
};

// An address as a socket takes it: of the family that it is of. Returns its length.
socklen_t datagram_sockaddr(const struct in6_addr *addr, uint32_t scope_id, uint16_t port,
                            struct sockaddr_storage *ret);
// And back.
void datagram_addr(const struct sockaddr_storage *from, struct in6_addr *ret,
                   uint32_t *ret_scope_id, uint16_t *ret_port);

// A socket of UDP for the family of the address, IPv6's for that alone, which sends in one piece or
// not at all. A negative errno.
int datagram_socket(const struct in6_addr *addr);

// Makes the sockets of an address, for slots up to and with `slot`. -EADDRINUSE: somebody has the
// port, who does not share it; -EADDRNOTAVAIL; other negative errnos.
int datagram_door_make(struct datagram_door *door, const struct in6_addr *addr, uint32_t scope_id,
                       uint16_t port, unsigned slot);
// Makes those that are missing up to and with that of `slot`, behind all that there are.
int datagram_door_extend(struct datagram_door *door, const struct in6_addr *addr, uint32_t scope_id,
                         uint16_t port, unsigned slot);
// Takes over sockets that stand from place `first` on; those that it has already, or that do not
// follow, are closed.
void datagram_door_take(struct datagram_door *door, unsigned first, const int *fds, unsigned count);
static inline bool datagram_door_has_slot(const struct datagram_door *door, uint32_t slot)
{
    return slot < DATAGRAM_SHARE_SLOTS && DATAGRAM_DOOR_SLOTS + slot < door->count;
}
// The socket of a slot, which the door has.
static inline int datagram_door_slot_fd(const struct datagram_door *door, unsigned slot)
{
    return door->fds[DATAGRAM_DOOR_SLOTS + slot];
}
void datagram_door_close(struct datagram_door *door);

// A process reads at this socket from now on: its buffer grows, it tells what it can, and what came
// before is thrown away.
void datagram_door_enter(int fd, uint32_t rcvbuf_len);
// And from now on not any more: it holds little.
void datagram_door_leave(int fd);

// Octets that are in the buffer of a socket, as the kernel counts them, and how many it holds.
// False: nobody reads there, or it does not tell.
bool datagram_door_fill(int fd, uint32_t *ret_taken, uint32_t *ret_most);
// Drops at the socket for numbers of no slot.
uint64_t datagram_door_sunk(int sink_fd);
