// What carries packets of RoCE for this process, and what is said when it cannot be had.
#pragma once

#include "base/port_datagram.h"
#include "base/trace.h"
#include "host/settings.h"
#include "rnic/rnic.h"

// 0 or a negative errno. Where the link has addresses of its own, `port` has them behind this, in
// place of the host's.
int host_datagram_link_create(const struct host_settings *settings, struct trace *trace,
                              struct rnic_port *port, struct datagram_link **ret);

// No packets can come to this port (rnic_create's error): why, on stderr.
void host_port_say_refused(const struct host_settings *settings, const struct rnic_port *port,
                           int error);
