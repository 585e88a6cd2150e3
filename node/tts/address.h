// Addresses that a TTS listens on, for TTSs over stream sockets.
#pragma once

#include <stddef.h>

enum { ADDRESS_WHY_MAX = 128 };

// "HOST:PORT", "[HOST]:PORT" or "unix:PATH". A listening descriptor, non-blocking; the path, or an
// empty one, in `ret_path`. A socket file that nobody listens at any more is taken over. Or a
// negative errno, with the reason in `ret_why` (ADDRESS_WHY_MAX octets).
int address_listen(const char *text, char *ret_path, size_t path_capacity, char *ret_why);

// "127.0.0.1:10809", "[::1]:10809"; for a wildcard the loopback address.
void address_of_listener(int fd, char *ret, size_t capacity);

// The peer's; "unix" with its process id for a Unix socket.
void address_of_peer(int fd, char *ret, size_t capacity);
