// What a wrapper of links hands on. It stands before a link and is one itself; its table names the
// operations that it cares for, and those that it leaves out go to the one behind it.
#pragma once

#include "base/port_link.h"

// A wrapper of links embeds this first, and the other first in its streams. The owner of an inner
// stream is the wrapper's.
struct link_forward {
    struct link base;
    struct link_ops ops; // what the inner link has not, it has not either
    struct link *inner;
};

struct link_forward_stream {
    struct link_stream base;
    struct link_stream *inner;
};

// `own` has at least what begins and ends links and streams and what moves octets: bind, accept,
// connect_result, recv, send, shutdown, close, abandon, destroy. Placing is never handed on: it
// would go past the wrapper.
void link_forward_init(struct link_forward *f, const struct link_ops *own, struct link *inner);
