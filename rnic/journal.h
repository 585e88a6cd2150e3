// What is recorded of connections for who asked (base/port_journal.h): where a queue pair's leads,
// since records name queue pairs by number and the packets of a stream do not; and the holes of its
// stream.
#pragma once

#include "base/port_place.h"
#include "base/transport.h"

struct rnic_ep;
struct rnic_qp;

// The stream of the endpoint is its queue pair's from here on.
void journal_stream(const struct rnic_ep *ep);
// The port with who records the holes of that stream, where anybody asked; `ctx` is the endpoint.
void journal_holes(const struct rnic_ep *ep, struct place_port *port);
// The queue pair, which sends packets, took the change.
void journal_packets(const struct rnic_qp *qp, const struct qp_change *change);
