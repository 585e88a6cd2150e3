// Queue pairs on packets: one link (base/port_datagram.h), and the queue pairs of the shard that
// send and take packets over it. Everything here runs under the shard's lock, which conn_api.c and
// group_api.c take for the fronts.
//
//     link --receive--> packet_input --by number--> on_packet  of a transport
//     link <--flush---- packet_settle <--output---- transports of the queue pairs that are due
//
// A queue pair that something has moved is due: before the lock is let go it puts what it has, and
// all of it leaves in one flush. Who had its turn and has more runs again in the next pass; who met
// a full link waits until there is room.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/port_datagram.h"
#include "base/port_packet_push.h"
#include "base/time.h"
#include "congestion/share.h"
#include "rnic/carrier.h"
#include "rnic/packet/cm.h"
#include "rnic/rnic.h"
#include "wire/roce.h"

struct puller;
struct rc_store;
struct shard;

enum { PACKET_HELD_MAX = 16 };

#define PACKET_COUNTERS(X)                                              \
    X(received, "packets that the link gave")                           \
    X(unknown_qp, "packets for a queue pair that there is not")         \
    X(no_group, "packets to a group that no queue pair is attached to") \
    X(too_short, "packets shorter than their first header")             \
    X(room_waits, "times that a queue pair found the link full")        \
    X(receiver_waits, "times that what is sent once found its receiver's buffer full")

struct rnic_packet_counters {
#define X(name, text) uint64_t name;
    PACKET_COUNTERS(X)
#undef X
};

// An acknowledgement that waits.
struct packet_held {
    struct datagram_path path;
    uint8_t head[ROCE_HEAD_MAX_LEN];
    size_t head_len;
};

struct packet_side {
    struct datagram_link *link;
    struct list_link stopped; // queue pairs that wait for room
    struct list_link members; // of multicast groups: struct packet_membership
    struct rnic_qp *turn;     // whose output is asked for
    bool is_full;             // the link took no more; until it has room
    bool is_receiver_full;    // of the queue pair whose turn it is; others go on
    bool has_unsent;          // something was put since the last flush, or is left of it
    bool is_urgent;           // ... and not all of that may wait
    bool is_holding;          // what may wait waits until the next pass, or until something leaves
    unsigned held_count;
    struct packet_held held[PACKET_HELD_MAX];
    uint64_t put_count; // packets
    struct packet_cm cm;
    struct rc_store *store;        // for packets that came too early
    struct congestion_share share; // of what its reliable connections have in the network
    struct rnic_packet_counters counters;
};

extern const struct carrier_ops packet_carrier;
extern const struct carrier_link_ops packet_carrier_link;

/* ---- store.c --------------------------------------------------------------------------------- */

int packet_store_init(struct packet_side *p);  // -ENOMEM
void packet_store_fini(struct packet_side *p); // harmless when it was not made
/* ---- port.c ---------------------------------------------------------------------------------- */

// Opens the addresses of a new device. A negative errno: it cannot have the first.
int packet_port_open(struct shard *shard, const struct rnic_port *port);
// Addresses of the host may have come or gone. Lock held.
void packet_port_follow(struct shard *shard);

/* ---- link.c ---------------------------------------------------------------------------------- */

// The link's addresses are open: what hangs on them. A negative errno.
int packet_begin(struct shard *shard, const uint8_t *key);

/* ---- create.c -------------------------------------------------------------------------------- */

// As carrier_ops has it.
int packet_create_qp(struct rnic_qp *qp, const struct rnic_qp_init *init);

/* ---- carrier.c ------------------------------------------------------------------------------- */

// Takes all that has come, and tells what the connection manager made of it; a bounded number of
// packets.
void packet_take_in(struct shard *shard, instant_ns now);

/* ---- input.c --------------------------------------------------------------------------------- */

// Takes what has come, a bounded number of packets; how many.
unsigned packet_input(struct shard *shard, instant_ns now);

/* ---- put.c ----------------------------------------------------------------------------------- */

// As datagram_sink has it; `ctx` is the packet_side. What the link took leaves with the next
// packet_settle.
bool packet_put(void *ctx, const struct datagram_tx *tx);
// Puts what waits, behind all else: who spins for the answer is not to look at its acknowledgement
// first. False: there is no room.
bool packet_put_held(struct packet_side *p);

/* ---- output.c -------------------------------------------------------------------------------- */

// Puts and sends what all that are due have, and notes when they have something to do again.
void packet_settle(struct shard *shard, instant_ns now);
// In a pass that had so many packets: acknowledgements may wait for the next one.
void packet_hold(struct shard *shard, unsigned input_count);
// The link has room again.
void packet_on_room(struct shard *shard);

/* ---- push.c ---------------------------------------------------------------------------------- */

// What the queue pair lets its peer do past packets is as it says now.
void packet_gate_follow(struct rnic_qp *qp);
// It goes. Its peer is out, or a leaver (qp->pull.leaver). Harmless when nothing is open.
void packet_gate_close(struct rnic_qp *qp);
// As datagram_sink has it, for who has his turn.
enum past_answer packet_push(void *ctx, const struct packet_push *push);
// As carrier_ops has `on_pulled`.
void packet_on_pushed(struct rnic_qp *qp, const struct puller *puller, unsigned count,
                      instant_ns now);

/* ---- agenda.c -------------------------------------------------------------------------------- */

// Something has moved the queue pair, `ctx` (as wq_config.on_runnable has it): it is settled before
// the lock is let go.
void packet_due(void *ctx);
// As carrier_ops has it.
bool packet_may_gather(struct rnic_qp *qp);
// Something was posted to it, or what was posted before may go now.
void packet_posted(struct rnic_qp *qp, instant_ns now);
// It had its turn and has more.
void packet_run_again(struct rnic_qp *qp);
// It waits for room.
void packet_stop(struct rnic_qp *qp);
// When it has something to do by itself, not later than `latest_ns`.
void packet_arm(struct rnic_qp *qp, instant_ns latest_ns);
// Out of every list.
void packet_unlist(struct rnic_qp *qp);
