// Wrappers that record what crosses a link, as a capture file that Wireshark reads: of a link whose
// TCP is the kernel's, streams; of the device below our own TCP, its segments.
//
//   pcap.c         the wrapped link: operations go to the inner one, and what they moved is noted
//   flow.c    one connection as TCP segments: handshake, sequence numbers, FIN and RST
//   cut.c     where in a stream a start-up frame or FPDU ends: each has a segment of its own
//   device.c  the wrapped device: segments as TCP made them, whatever order they come in
//   packet.c  a segment as a packet
//   file.c    the file: packets with nanosecond time stamps (LINKTYPE_RAW: IPv4 and IPv6)
//
// Of streams the headers are made up from what they did, and the payload is what was really sent
// and received. Of segments the headers are TCP's own, but for the checksum, which is always filled
// in; IP's are made up, and what a tap device carries beside TCP is not recorded. What the process
// says to itself is recorded once. Everything a call recorded is in the file when the call returns,
// so a crash loses nothing.
#pragma once

#include "base/port_link.h"
#include "link/device/device.h"

// Wraps `inner`, which now belongs to *ret and is destroyed with it; on failure it stays the
// caller's. In `path` "%p" stands for the process id. A file that another process is writing is
// left alone: then ".PID" is appended. Returns 0 or a negative errno.
int link_pcap_wrap(struct link *inner, const char *path, struct link **ret);
// The same of a device, on which nothing has happened yet.
int device_pcap_wrap(struct device *inner, const char *path, struct device **ret);

// 0, or the negative errno with which writing ended (the disk is full); nothing was recorded from
// then on, while the connections went on unharmed.
int link_pcap_flush(struct link *link);
