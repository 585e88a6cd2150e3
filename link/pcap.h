// A wrapper that records what crosses a link, as a capture file that Wireshark reads.
//
//   pcap.c        the wrapped link: operations go to the inner one, and what they moved is noted
//   pcap_flow.c   one connection as TCP segments: handshake, sequence numbers, FIN and RST
//   pcap_cut.c    where in a stream a start-up frame or FPDU ends, so that each has its own segment
//   pcap_file.c   the file: packets with nanosecond time stamps (LINKTYPE_RAW: IPv4 and IPv6)
//
// The headers are made up from what the stream did; the payload is what was really sent and
// received. A connection of the process with itself is recorded once, as its first end saw it.
// Everything a call recorded is in the file when the call returns, so a crash loses nothing.
#pragma once

#include "base/port_link.h"

// Wraps `inner`, which now belongs to *ret and is destroyed with it; on failure it stays the
// caller's. In `path` "%p" stands for the process id. A file that another process is writing is
// left alone: then ".PID" is appended. Returns 0 or a negative errno.
int link_pcap_wrap(struct link *inner, const char *path, struct link **ret);

// 0, or the negative errno with which writing ended (the disk is full); nothing was recorded from
// then on, while the connections went on unharmed.
int link_pcap_flush(struct link *link);
