// Where a queue pair's connection leads, recorded for who asked (base/port_journal.h): records name
// queue pairs by number, and the packets of a stream do not.
#pragma once

#include "base/transport.h"

struct rnic_ep;
struct rnic_qp;

// The stream of the endpoint is its queue pair's from here on.
void journal_stream(const struct rnic_ep *ep);
// The queue pair, which sends packets, took the change.
void journal_packets(const struct rnic_qp *qp, const struct qp_change *change);
