// Socket addresses of IPv4 and IPv6 as people read them; "unknown" for other families and NULL.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

// With the terminator: 45 of an IPv6 number, brackets, a colon, 5 of a port.
enum { TEXT_ADDRESS_MAX = 64 };

// "192.0.2.7:4420", "[2001:db8::1]:4420".
const char *text_address_format(const struct sockaddr *addr, char ret[TEXT_ADDRESS_MAX]);

// The number alone, without brackets. False: the family is another.
bool text_address_host(const struct sockaddr *addr, char ret[TEXT_ADDRESS_MAX]);

// 0 of other families.
uint16_t text_address_port(const struct sockaddr *addr);
