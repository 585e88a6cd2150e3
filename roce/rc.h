// A queue pair of reliable connections (RC): the program's work queues on one side, packets of
// RoCEv2 to one peer on the other.
//
//   program side   wq/filling.h on rc_wq                    lock-free against the engine
//   engine side    rc_ops (base/transport.h); serialised by the caller (a shard's lock)
//
// What is asked for leaves from the memory of its work request, again as often as the peer needs
// it; what the peer asks for is answered from memory, again as often as it asks. Nothing here
// locks, blocks, or allocates after rc_create. A packet is copied by the sink before it returns, so
// that nothing that was put is referenced any more.
//
// How much may be on its way, and how fast, says congestion/window.h; the answers to Reads count.
// Reads of one work request are divided into requests that each take half of the window, at most
// the data allotment, as the read scheduler hands out its contexts (wq/read_sched.h); to the peer
// each is a Read of its own. With an allotment of 0 a Read keeps its contexts until it is complete.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "base/transport.h"
#include "roce/rc_counters.h"
#include "wq/wq.h"

struct congestion_share;
struct rc;
struct rc_store; // roce/rc_store.h

enum {
    RC_REMEMBERED_MAX = 128, // Reads and atomics of the peer's that can be answered again
    RC_TURN_PACKETS = 60,    // of answers, before others have their turn: what leaves together
};

struct rc_config {
    struct wq_config wq; // on_runnable: has_output became true
    struct qp_event_port port;
    uint32_t allotment_len;         // octets that one Read of ours asks for at most; 0: undivided
    uint32_t remembered_max;        // most that max_dest_rd_atomic will be, up to RC_REMEMBERED_MAX
    struct rc_store *store;         // for what comes beyond a hole; NULL: payload is not kept
    struct congestion_share *share; // the device's; NULL: its windows need not fit together
    duration_ns ack_timeout_min_ns; // who waits for an acknowledgement waits no less than this
    bool is_plain;                  // InfiniBand's RC and nothing else, towards weft ends too
};

extern const struct transport_ops rc_ops;

// -EINVAL: a capability out of range; -ENOMEM; what mem_sinks_reserve says. The PD is the caller's
// to hold. The new queue pair is in QP_RESET and grants no rights.
int rc_create(const struct rc_config *config, struct rc **ret);

struct transport *rc_transport(struct rc *rc);
struct wq *rc_wq(struct rc *rc);
const struct rc_counters *rc_counters(const struct rc *rc);
