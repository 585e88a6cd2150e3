// The WEFT_* environment of this process, read once when its RNIC comes up. The table in
// settings.c is the whole list; programs see it through <weft/settings.h>, weft(7) describes it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "rnic/config.h"

struct host_settings {
    struct rnic_config rnic;
    uint32_t wires;                  // WEFT_WIRE: whose devices are listed (view/wires.h)
    bool view_files;                 // WEFT_VIEW_FILES: they are shown as files (view/place.h)
    uint32_t roce_port;              // WEFT_ROCE_PORT: the UDP port of RoCEv2's packets
    char link[256];                  // WEFT_LINK: what carries connections, see host/link.h
    bool local;                      // WEFT_LOCAL: memory for peers of this host
    bool push;                       // WEFT_PUSH: ... and Writes into their own
    bool pull;                       // WEFT_PULL: ... and Reads out of it
    uint32_t ecn;                    // WEFT_ECN: enum tcp_ecn_wish, of our own TCP
    char fault[256];                 // WEFT_FAULT: how its path is bad; empty: it is not
    duration_ns peer_timeout_ns;     // WEFT_PEER_TIMEOUT: a silent peer is gone after it
    bool read_pressure;              // WEFT_READ_PRESSURE: memory pressure shortens the allotment
    bool errors;                     // WEFT_ERRORS: say on stderr how a connection was lost
    uint32_t sndbuf_len, rcvbuf_len; // WEFT_SNDBUF, WEFT_RCVBUF, octets; 0: the kernel's
    uint32_t trace_rooms;            // WEFT_TRACE: a bit per enum trace_room
    char trace_path[256];            // WEFT_TRACE_FILE; empty: stderr
    char pcap_path[256];             // WEFT_PCAP; %p is the process id
    char stats_path[256];            // WEFT_STATS_FILE: JSON counters at exit
};

// Defaults overlaid with the environment. A value that cannot be understood is named on stderr,
// with what is allowed, and the default stays.
void host_settings_read(struct host_settings *ret);

// Octets may go through memory of both ends within this host: never where somebody asks for the
// wire, by a capture or by faults. A link by name for some peers says so itself (host/link.c).
static inline bool host_settings_may_be_local(const struct host_settings *s)
{
    return s->local && s->pcap_path[0] == '\0' && s->fault[0] == '\0';
}
