// What a link answers that has no TCP of its own, and no time: its table names these.
#pragma once

#include "base/port_link.h"
#include "base/time.h"

ssize_t link_none_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut);
void link_none_give_back(struct link_stream *stream, size_t len);
void link_none_set_place(struct link_stream *stream, const struct place_port *port);
void link_none_resume(struct link_stream *stream);
uint64_t link_none_unsettled(struct link_stream *stream);
instant_ns link_none_next_deadline(struct link *link);
bool link_none_may_wait(struct link *link); // always
int link_none_descriptor(const struct link *link);
void link_none_stream_counters(const struct link *link, const struct link_stream *stream,
                               counter_each each, void *ctx);
void link_none_packet_counters(const struct link *link, counter_each each, void *ctx);
bool link_none_is_busy(struct link *link);
