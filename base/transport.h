// What the device asks of a transport, whichever it is: the table that iwarp/ and roce/ fill, and
// that rnic/ calls. base/port_transport.h is the other side of a transport, towards its work
// queues.
//
//     rnic/ --posted, changes, deadlines--> transport --output--> a sink, or a stream's own calls
//           --on_packet------------------>
//
// A transport embeds `struct transport` first in a queue pair of its own, which it makes in a call
// of its own: what it must be told at birth nobody else needs. What a stream has beside this table
// (iwarp/qp.h) is known to those in rnic/ who have a stream.
//
// All calls are serialised by the device, but `may_post`, which posters call. Nothing here blocks,
// and nothing is called back but where events go.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/allotment_event.h"
#include "base/counter.h"
#include "base/gate_mirror.h"
#include "base/port_datagram.h"
#include "base/qp_state.h"
#include "base/time.h"

struct transport_ops;

struct transport {
    const struct transport_ops *ops;
};

// What a program changes of a queue pair; bits of enum qp_change_mask say which fields count. A
// transport takes what it knows and leaves the rest.
struct qp_change {
    uint32_t mask;
    enum qp_state state, current;
    uint32_t rights;             // what the peer may do to registered memory: MEM_ACCESS_REMOTE_*
    uint32_t qkey;               // of datagrams
    struct datagram_path path;   // to the peer; source_port 0: the transport takes one
    uint32_t path_mtu;           // octets of payload in a packet: 256, 512 … 4096
    uint32_t dest_qp_num;        // the peer's
    uint32_t rq_psn, sq_psn;     // the first that comes, that leaves
    uint32_t max_rd_atomic;      // reads and atomics of ours outstanding at most
    uint32_t max_dest_rd_atomic; // ... of the peer's
    uint8_t timeout;             // of an acknowledgement: 4.096 us * 2^timeout; 0: for ever
    uint8_t retry_count;         // 0..7
    uint8_t rnr_retry_count;     // 0..6; 7: for ever
    uint8_t min_rnr_timer;       // what the peer is told to wait for: a code of the AETH, 0..31
    bool tells_drained;          // QP_EVENT_SQ_DRAINED is wanted
};

// Values of IBV_QP_*, which verbs/ asserts.
enum qp_change_mask {
    QP_CHANGE_STATE = 1 << 0,
    QP_CHANGE_CURRENT = 1 << 1,
    QP_CHANGE_TELLS_DRAINED = 1 << 2,
    QP_CHANGE_RIGHTS = 1 << 3,
    QP_CHANGE_QKEY = 1 << 6,
    QP_CHANGE_PATH = 1 << 7,
    QP_CHANGE_PATH_MTU = 1 << 8,
    QP_CHANGE_TIMEOUT = 1 << 9,
    QP_CHANGE_RETRY_COUNT = 1 << 10,
    QP_CHANGE_RNR_RETRY_COUNT = 1 << 11,
    QP_CHANGE_RQ_PSN = 1 << 12,
    QP_CHANGE_MAX_RD_ATOMIC = 1 << 13,
    QP_CHANGE_MIN_RNR_TIMER = 1 << 15,
    QP_CHANGE_SQ_PSN = 1 << 16,
    QP_CHANGE_MAX_DEST_RD_ATOMIC = 1 << 17,
    QP_CHANGE_DEST_QP_NUM = 1 << 20,
};

// What a queue pair is at now.
struct qp_attributes {
    enum qp_state state;
    bool is_draining;     // in SQD: what was posted before, or has begun, is not over yet
    const char *phase;    // what its connection does; NULL: it has none
    uint16_t ird, ord;    // in force; 0: not connected
    uint32_t segment_len; // octets that leave in one segment at most
    uint32_t sq_count;    // posted and not complete
    uint32_t rq_count;    // posted and not consumed
    uint32_t reads_outstanding, reads_due; // ours, the peer's
    uint32_t request_len, answer_len;      // octets that one may hold at most; 0: no bound
    // The last refusal: what it has refused its peer for good, what the peer has refused it, in
    // words; NULL: nothing on this connection.
    const char *refused, *refused_by_peer;
    // Of packets that are acknowledged: the PSN that begins next, the one that is expected, packets
    // that came beyond a hole, and those that are out.
    bool has_psns;
    uint32_t sq_psn, rq_psn, held_count, in_flight_count;
};

// Where events go, from within calls; must not call back.
struct qp_event_port {
    void (*on_event)(void *ctx, enum qp_event event); // NULL: not wanted
    void *ctx;
};

struct transport_ops {
    const char *name;       // "iwarp", "rc", "uc", "ud"
    const char *total_name; // of what all its queue pairs have counted: "rc_total"
    // What `segment_len` is called: "mulpdu", "path_mtu".
    const char *segment_name;
    // Octets of address in each entry of the send queue (wq_send_address); 0: it goes to the peer.
    uint32_t address_len;

    // About to be destroyed: no completion and no event from here on, whatever ends.
    void (*silence)(struct transport *t);
    // Drops everything without completions; the completion queues are purged by the caller.
    void (*destroy)(struct transport *t);

    enum qp_state (*state)(const struct transport *t);
    // 0; -EINVAL: the state table forbids it; -ENOMEM; then nothing has changed. To QP_RESET: the
    // receive CQ's poller is kept out.
    int (*modify)(struct transport *t, const struct qp_change *change, instant_ns now);
    struct qp_attributes (*query)(const struct transport *t);
    // What it has been told since RESET, by whomever: `mask` says what. NULL: it does not keep it,
    // or nobody but the program tells it anything.
    void (*told)(const struct transport *t, struct qp_change *ret);

    // 0, or -EOPNOTSUPP: this `enum wqe_opcode` cannot be carried. From any thread.
    int (*may_post)(const struct transport *t, unsigned opcode);
    // What was agreed about one-shot RDMA: EXTENSION_ONESHOT_ bits; -ENOTCONN: nothing yet. From
    // any thread. NULL: the transport has none.
    int (*oneshot_agreed)(const struct transport *t);
    // A doorbell rang.
    void (*on_send_posted)(struct transport *t, instant_ns now);
    void (*on_receive_posted)(struct transport *t, instant_ns now);
    // Must a receive that is posted be told at once? A message waits for one, or it is flushed.
    bool (*wants_receive)(const struct transport *t);

    // Is there something to put? Never no when there is.
    bool (*has_output)(const struct transport *t);
    // Datagrams alone (NULL with a stream). Puts packets until none may leave now, the sink has no
    // room or others have their turn: has_output says whether to call again.
    void (*output)(struct transport *t, const struct datagram_sink *sink, instant_ns now);
    // ... A packet for this queue pair: its BTH names the number, nothing else has been looked at.
    void (*on_packet)(struct transport *t, const struct datagram_rx *rx, instant_ns now);
    // ... The packets that came in one go, with nothing between, are over: what follows from them
    // all happens once. Called before anything else is. NULL: nothing is put off until then.
    void (*on_packets_over)(struct transport *t, instant_ns now);

    // ... Packets to a multicast group are for this queue pair too, as often as it is attached; an
    // IPv4 address is mapped. -EINVAL: not a group, not attached; -ENOMEM. NULL: it takes none.
    int (*attach)(struct transport *t, const struct in6_addr *group);
    int (*detach)(struct transport *t, const struct in6_addr *group);

    instant_ns (*next_deadline)(const struct transport *t); // INSTANT_NEVER: none
    void (*on_deadline)(struct transport *t, instant_ns now);

    // The wish for the octets of one read request is another (wq/allotment.h). NULL: it has none.
    void (*wish_allotment)(struct transport *t, uint32_t allotment_len, bool may_follow,
                           enum allotment_event event, instant_ns now);

    // ... Is the queue pair open for Writes that come past its packets, and how does it look to its
    // peer? NULL: never.
    bool (*gate)(const struct transport *t, struct gate *ret);
    // ... The Write that its `push` has begun is in the peer's memory, or has to go by packets.
    void (*on_pushed)(struct transport *t, bool is_done, instant_ns now);

    // What it has counted: a struct of its own, all of it uint64_t, which it can add to those of
    // another and tell one by one.
    size_t counters_len;
    const void *(*counters)(const struct transport *t);
    void (*counters_add)(void *total, const void *counters);
    void (*counters_each)(const void *counters, counter_each each, void *ctx);

    // Verifies the invariants; false when one is broken.
    bool (*check)(const struct transport *t);
    // One line without a newline, cut at `len`; returns `buf`.
    const char *(*format)(const struct transport *t, char *buf, size_t len);
};

static inline void transport_packets_over(struct transport *t, instant_ns now)
{
    if (t->ops->on_packets_over != NULL) {
        t->ops->on_packets_over(t, now);
    }
}

// A packet that came alone.
static inline void transport_take_packet(struct transport *t, const struct datagram_rx *rx,
                                         instant_ns now)
{
    t->ops->on_packet(t, rx, now);
    transport_packets_over(t, now);
}
