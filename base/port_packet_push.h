// The port by which short RDMA Writes go past packets: their octets are put into the memory of the
// peer's process, and its queue pair takes no part in that: no packet, no PSN. Implemented by a
// link of datagrams that has such peers (link/datagram/), driven by rnic/packet/; a link without
// has none (struct datagram_link in base/port_datagram.h). base/port_push.h is the same of streams.
//
// Keys of a peer are known from its mirror (base/key_mirror.h), and so are its queue pairs
// (base/gate_mirror.h). What is not sure goes by packets, where whatever is wrong is found out.
//
// Threads: as for struct datagram_link_ops, but for `put`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/gate_mirror.h"
#include "base/key_mirror.h"
#include "base/port_push.h"
#include "base/time.h"

struct datagram_link;

// A Write, and the queue pair that it leaves. All that left it before has been acknowledged.
struct packet_push {
    struct push write;
    struct gate from; // as this end sees it; `psn`: that its packet would have
    // The one before it was a Write alone too: its peer looks at memory, and takes it from there
    // whether or not its thread is awake.
    bool is_writer;
    instant_ns now;
};

struct packet_push_ops {
    // ---- whose memory it is

    // Where this process shows its keys; NULL: there is no memory for it. As long as the link.
    struct key_mirror *(*mirror)(struct datagram_link *link);
    // Behind the withdrawal of a key, and again until it says true: no peer writes by it any more.
    bool (*revoke)(struct datagram_link *link, uint64_t generation);
    // Opens the queue pair's gate; NULL: it stays closed, and everything comes by packets. `*ret`:
    // the opening.
    struct gate_entry *(*open)(struct datagram_link *link, const struct gate *gate, uint64_t *ret);
    // Closes it. True: nobody writes by that opening any more. False: a peer has not come out of
    // the call for long.
    bool (*close)(struct datagram_link *link, struct gate_entry *entry, uint64_t opening);
    // As `revoke`: nobody is in by that opening.
    bool (*has_left)(struct datagram_link *link, uint64_t opening);

    // ---- who writes

    // PAST_BEGUN: it may go there; `put` and `conclude` follow. PAST_REFUSED: it goes by packets.
    enum past_answer (*aim)(struct datagram_link *link, const struct packet_push *push,
                            struct push_aimed *ret);
    // As of struct push_ops.
    bool (*put)(const struct push_aimed *push);
    void (*conclude)(const struct push_aimed *push, bool is_done);
};
