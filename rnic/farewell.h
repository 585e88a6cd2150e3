// What a user must hear of when a connection ends badly: the peer, the queue pair, why, and which
// message was at fault. One line through the trace port, TRACE_ERROR; the host prints it.
#pragma once

#include "qp/qp.h"
#include "rnic/rnic.h"

// Enough for "[address]:port" of either family, with its terminating zero.
enum { ADDRESS_TEXT_LEN = 64 };

// Writes an address as people write it; returns `buf`, ADDRESS_TEXT_LEN octets.
const char *address_format(const struct sockaddr_storage *addr, char *buf);

// Before the QP is told. Says nothing about an orderly end, nor about a reset: that is how programs
// end that do not disconnect.
void farewell_say(const struct rnic_ep *ep, enum qp_close_reason reason);
