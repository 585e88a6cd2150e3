// What other processes are given of packets that are theirs (share.h), and has to wait: the socket
// by which they get it holds ten (net.unix.max_dgram_qlen), and a hundred who connect at a time
// send more, and RTU and DREQ of each if they leave at once. Messages of connection managers are
// kept here, so many for each process, in their order, and given when it reads; what else comes has
// its own sender to send it again, and is lost.
#pragma once

#include "base/port_datagram.h"
#include "base/time.h"
#include "link/datagram/share.h"

enum {
    DATAGRAM_ONWARD_MAX = 1024,       // of all processes
    DATAGRAM_ONWARD_SLOT_MAX = 512,   // of one: who is stopped takes no room from the others
    DATAGRAM_ONWARD_PACKET_LEN = 512, // octets: a MAD and its headers
};

struct datagram_onward_packet {
    unsigned slot;
    struct datagram_rx rx; // its octets lie in `octets`
    uint8_t octets[DATAGRAM_ONWARD_PACKET_LEN];
};

struct datagram_onward {
    struct datagram_onward_packet *packets; // the oldest first
    unsigned count;
    unsigned counts[DATAGRAM_SHARE_SLOTS];
    instant_ns retry_at; // INSTANT_NEVER: nothing is kept
    duration_ns patience_ns;
};

int datagram_onward_init(struct datagram_onward *o); // -ENOMEM
void datagram_onward_fini(struct datagram_onward *o);

// As datagram_share_hand_on, to a slot that there is; 0 too if it is kept.
int datagram_onward_put(struct datagram_onward *o, const struct datagram_share *s, unsigned slot,
                        const struct datagram_rx *rx, instant_ns now);
// When `retry_at` has come: gives what its processes take, and drops what nobody is there for.
void datagram_onward_retry(struct datagram_onward *o, const struct datagram_share *s,
                           instant_ns now);
