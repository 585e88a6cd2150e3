// A datagram link that stands before another and records what crosses it, as a capture file that
// Wireshark reads. The octets from BTH to pad are what was sent and received; the headers before
// them are made up from the path: hop limit, class and addresses are those of the packet, the
// identification is 0, a source port that is the kernel's is the path's, and the ICRC is that of
// the packet in the file.
#pragma once

#include "base/port_datagram.h"

// Wraps `inner`, which now belongs to *ret and is destroyed with it; on failure it stays the
// caller's. `port`: of the datagrams, Wireshark knows 4791. `path` and errors as in
// link/pcap/pcap.h.
int datagram_pcap_wrap(struct datagram_link *inner, const char *path, uint16_t port,
                       struct datagram_link **ret);
