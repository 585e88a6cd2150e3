// What a wrapper of links hands on: it stands before a link and is one itself. Its table names
// these where it does not care.
#pragma once

#include "base/port_link.h"
#include "base/time.h"

// A wrapper embeds this first, and the other first in its streams. The owner of an inner stream is
// the wrapper's.
struct link_forward {
    struct link base;
    struct link *inner;
};

struct link_forward_stream {
    struct link_stream base;
    struct link_stream *inner;
};

// The wrapper has the facts of the link behind it, but for placing and lending: those would go past
// it.
void link_forward_init(struct link_forward *f, const struct link_ops *own, struct link *inner);

int link_forward_listen(struct link_stream *stream, int backlog);
int link_forward_connect(struct link_stream *stream, const struct sockaddr *peer);
uint64_t link_forward_unsettled(struct link_stream *stream);
void link_forward_want_out(struct link_stream *stream, bool wanted);
void link_forward_want_in(struct link_stream *stream, bool wanted);
int link_forward_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret);
int link_forward_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret);
uint32_t link_forward_emss(const struct link_stream *stream);
int link_forward_set_tos(struct link_stream *stream, uint8_t tos);
int link_forward_route(struct link *link, const struct sockaddr *peer,
                       struct sockaddr_storage *ret_src);
// Puts the wrapper's streams in place of those that reports of the inner link name, and leaves out
// those that were closed since. Returns how many are left.
int link_forward_reports(struct link_ready *reports, int count);
int link_forward_poll(struct link *link, struct link_ready *ret, unsigned max);
instant_ns link_forward_next_deadline(struct link *link);
bool link_forward_may_wait(struct link *link);
void link_forward_wait(struct link *link, duration_ns timeout_ns);
void link_forward_rise(struct link *link);
void link_forward_wake(struct link *link);
int link_forward_descriptor(const struct link *link);
void link_forward_stream_counters(const struct link *link, const struct link_stream *stream,
                                  counter_each each, void *ctx);
void link_forward_packet_counters(const struct link *link, counter_each each, void *ctx);
bool link_forward_is_busy(struct link *link);
