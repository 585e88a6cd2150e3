// The link over UDP sockets that is tested, `the_link`, and peers of it that are sockets of the
// test and write their segments by hand.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_link.h"
#include "link/device/udp.h"
#include "wire/tcp.h"

extern struct device_udp_config udp_link_config; // the least unless a test says otherwise
extern instant_ns udp_link_ahead_ns;             // of the real clock

int udp_link_make(struct link **ret);
int udp_link_make_settling(bool settles_when_acknowledged, struct link **ret);

// Before and behind each test.
int udp_link_begin(void **state);
int udp_link_end(void **state);

extern uint16_t stranger_window; // that its segments offer

int stranger_socket(uint16_t *ret_port);
// A segment in a datagram to the listener's port.
void stranger_sends(int fd, const struct tcp_header *h);
void stranger_sends_syn(int fd, uint16_t src_port);
struct tcp_header stranger_hears(int fd);
// How many datagrams wait in this socket; they are taken.
unsigned stranger_datagrams(int fd);
// The link looks until so many segments have come to it.
void stranger_was_heard(uint64_t segment_count);
// l.passive is connected with `fd`, a stranger who says no more. Returns what it acknowledges.
uint32_t stranger_connects(int fd, uint16_t port);
// Likewise, with more flags in its SYN. Returns the SYN,ACK.
struct tcp_header stranger_connects_asking(int fd, uint16_t port, uint8_t flags);
