// A stream that leads back to where it began: octets that are sent come back, in order and at once,
// in memory of this process. For a queue pair that is its own peer.
//
// Its link is nobody else's and is never polled: `on_ready` says when recv or send may do something
// that they could not do before. It may be called within any call on the stream, and calls nothing
// of it.
#pragma once

#include "base/port_link.h"

enum { LINK_MIRROR_LEN = 64 * 1024 }; // octets under way at most

struct link_mirror_config {
    void (*on_ready)(void *ctx);
    void *ctx;
    struct sockaddr_storage addr; // what either end is said to have
};

// -ENOMEM. The stream's owner is NULL until the caller sets it; closing it frees all.
int link_mirror_create(const struct link_mirror_config *config, struct link_stream **ret);
