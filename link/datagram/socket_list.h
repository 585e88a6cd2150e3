// Sockets of this network namespace, as the kernel lists them for whoever asks (sock_diag(7)). It
// holds each chain of its table still meanwhile; /proc/net, which is read page by page, leaves a
// socket out, or has it twice, where another before it closes or opens between two pages.
#pragma once

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>

// Puts `request`, a SOCK_DIAG_BY_FAMILY dump, and hands on each socket of the answer, of which
// `socket_len` octets behind the header are there at least. False: the system does not list such
// sockets, or not all of them.
bool socket_list_each(const struct nlmsghdr *request, size_t socket_len,
                      void (*each)(void *ctx, const struct nlmsghdr *socket), void *ctx);
