// The sockets of a local address that processes of one user share.
//
// One per slot (link/datagram_slot.h), in that order; behind them one for what belongs to
// management, which all processes read, and one for numbers of no slot, which nobody reads. They
// are one reuseport group, in which a filter finds the socket by the destination QP of the packet:
// a classic program, which takes no privilege. The kernel counts sockets in the order of their
// binding, and puts the last in the place of one that is closed. So all are made at once, and
// every process has all of them: no place changes while one of the processes lives.
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "link/datagram_share.h"

enum {
    DATAGRAM_DOOR_MANAGEMENT = DATAGRAM_SHARE_SLOTS,
    DATAGRAM_DOOR_SINK,
    DATAGRAM_DOOR_FDS,
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

// Makes the sockets of an address. -EADDRINUSE: somebody has the port, who does not share it;
// -EADDRNOTAVAIL; other negative errnos.
int datagram_door_make(const struct in6_addr *addr, uint32_t scope_id, uint16_t port,
                       int ret_fds[DATAGRAM_DOOR_FDS]);
void datagram_door_close(int fds[DATAGRAM_DOOR_FDS]);

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
