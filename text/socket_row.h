// The rows of /proc/net/tcp, tcp6, udp and udp6: a socket each.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct text_socket_row {
    struct in6_addr addr; // the local one, IPv4 mapped into IPv6; unspecified: any, of its family
    uint16_t port;
    uint32_t uid;
    uint64_t inode; // of the socket; 0: it is the kernel's own
};

// "  12: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000 0 4711 …".
// False: it is none, as the first line of the file, and `ret` is of no use.
bool text_socket_row_parse(const char *line, struct text_socket_row *ret);

// Whether it takes what comes to this address, at its port.
bool text_socket_row_is_at(const struct text_socket_row *row, const struct in6_addr *addr);
