// The socket between the UMA and an RTA: unit messages as datagrams, with at most one descriptor.
#pragma once

#include "node/interface/uma_rta.h"

// A pair of connected sockets, neither inherited by programs. 0 or a negative errno.
int channel_pair(int ret_fds[2]);

// 0; -EAGAIN: the other side does not read; -EPIPE: it is gone; or another negative errno.
int channel_send(int fd, const struct unit_message *message, int keepsake);

// 1: a message; 0: the other side is gone; -EAGAIN: nothing is there; -EPROTO: it was no message,
// or one with descriptors that it may not have, which are closed.
int channel_receive(int fd, struct unit_message *ret, int *ret_keepsake);

// Closes a descriptor of the other side's making, without waiting for anything.
void channel_drop(int fd);
