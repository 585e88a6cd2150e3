// Addresses that a TTS listens on.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/why.h"
#include "text/address.h"

// "HOST:PORT", "[HOST]:PORT", "unix:PATH" or "fd:NAME" (listen/passed.h). Without a port it is
// `port`; if that is NULL, there must be one. A listening descriptor, non-blocking; the path, or an
// empty one, in `ret_path`. A socket file that nobody listens at any more is taken over. Or a
// negative errno, with the reason in `ret_why`.
int address_listen(const char *text, const char *port, char *ret_path, size_t path_capacity,
                   struct why *ret_why);

// At the end: takes the file at `path` away, if address_listen has made it for `text`.
void address_unlink(const char *text, const char *path);

// "HOST[:PORT]" or "[HOST][:PORT]", for TTSs that listen by other means; without a port it is
// `port`. 0, or a negative errno with the reason in `ret_why`.
int address_resolve(const char *text, const char *port, struct sockaddr_storage *ret,
                    struct why *ret_why);

// "127.0.0.1:10809", "[::1]:10809"; for a wildcard the loopback address.
void address_of_listener(int fd, char *ret, size_t capacity);

// One end of a connection or of a listener, over IP.
struct address_end {
    char host[TEXT_ADDRESS_MAX]; // without brackets; for a wildcard the loopback address
    char port[8];
    bool is_6;
    bool is_wildcard;
};

// False: it is not over IP.
bool address_end_of(const struct sockaddr *addr, struct address_end *ret);
// This end of a socket.
bool address_of_own_end(int fd, struct address_end *ret);

// The peer's: "192.0.2.7:40312"; "unix" with its process id for a Unix socket; "unknown".
void address_of_peer(int fd, char ret[TEXT_ADDRESS_MAX]);

// Who is at the other end, for shares and limits: "192.0.2.7"; "2001:db8::/64", the network of an
// IPv6 address, since a host may have them all; "unix" for a Unix socket; "unknown".
void address_host_of_peer(int fd, char *ret, size_t capacity);
void address_host(const struct sockaddr *addr, char *ret, size_t capacity);
