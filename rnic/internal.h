// What the files of this room share: the RNIC itself. One of them lives in a process; a simulation
// holds many, each on a link and a clock of its own and without a thread.
//
//   the device    create.c, device.c    made and ended; whose it is, what time it is
//                 port.c                addresses that packets leave from
//                 reads.c, reads_api.c  the allotment, as events and operators change it
//                 stat.c, snapshot.c    what it tells of itself
//                 flush.c               the end of the process
//   its shard     shard.h               what stands in it
//                 lock.c                the lock, and what who lets go of it does for others
//                 pass.c, agenda.c      one pass, and what is to be done in the next
//                 thread.c, drive.c     who drives: the background thread, loops of programs
//   calls of      memory.c, cq.c, srq.c regions, completion queues, shared receive queues
//   the fronts    post.c                work requests
//                 qp/qp.c               queue pairs: creation (qp/create.c), states, doorbells
//                                       (qp/doorbell.c), events (qp/port.c), who waits for
//                                       receives (qp/waits.c), meetings (qp/meeting.h)
//                 ep/api.c              connections of streams
//                 packet/conn_api.c     ... of packets; and groups (packet/group_api.c)
//   carriers      carrier_stream.c      streams: what the shard asks of endpoints (ep/), and of
//                                       the link (carrier_stream_link.c)
//                 packet/carrier.c      packets
//   of both       batch.c, carry.c, gathering.c, events.c, pull.c, puller.c, journal.c, point.c
#pragma once

#include "base/deadlines.h"
#include "base/port_ulpdu.h"
#include "base/qp_state.h"
#include "base/trace.h"
#include "conn/conn.h"
#include "conn/listener.h"
#include "meet/meeting.h"
#include "mem/table.h"
#include "mpa/placer.h"
#include "mpa/rx.h"
#include "mpa/tx.h"
#include "rnic/config.h"
#include "rnic/qp/number.h"
#include "rnic/rnic.h"
#include "rnic/shard.h"
#include "wq/allotment_policy.h"
#include "wq/latency.h"
#include "wq/read_sched.h"

enum {
    RNIC_QP_NUM_MAX = 1 << 24,
    RNIC_TRANSPORT_MAX = 4, // transports that a device has
};

// What all queue pairs of a transport have counted that are gone.
struct qp_total {
    const struct transport_ops *ops;
    void *counters;
};

// What a process that exits asks of the background thread; written before it is told to end.
struct rnic_flush {
    bool is_wanted;
    duration_ns handing_ns, acking_ns;
    atomic_uint turn_count; // grows while it gets on
};

struct rnic {
    struct rnic_config config;
    struct rnic_port port; // guarded by the shard's lock
    struct shard shard;
    struct mem_table *mem;
    uint64_t revoking; // generation of a key by which somebody may be in; 0: none was withdrawn
    struct read_sched *read_sched;
    struct allotment_policy allotment;
    unsigned memory_short_by;    // enum rnic_memory_source, or-ed
    instant_ns reads_sampled_ns; // when the policy was asked last
    struct conn_gate gate;
    struct conn_counters conn_counters;
    struct meeting_counters meeting_counters;
    struct mpa_rx_counters mpa_in_total; // of connections that have ended
    struct mpa_placer_counters mpa_early_total;
    struct mpa_tx_counters mpa_out_total;
    struct qp_total totals[RNIC_TRANSPORT_MAX]; // of queue pairs that were destroyed
    unsigned total_count;
    uint64_t closes[QP_CLOSE_REASON_COUNT]; // streams in full operation that ended
    struct latency latency;                 // of all queue pairs, guarded by the shard's lock
    struct trace *trace;
    struct journal *journal; // the link's; NULL: nobody has asked
    const char *name;
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    atomic_bool is_orphan; // left behind by a fork
    struct rnic_flush flush;

    // Guarded by the shard's lock.
    struct rnic_qp **qps;     // by the lower bits of the number
    struct list_link all_qps; // those that there are: no walk over empty slots under the lock
    uint32_t qp_slot_count, qp_count;
    struct qp_numbers numbers;
    uint32_t cq_count, srq_count;
    struct list_link points; // of struct point
    struct list_link port_watches;
    struct deadlines meeting_deadlines; // of struct qp_meeting
};

// The shard's lock around a call on the RNIC's objects; `rnic_leave` hands `result` through.
static inline void rnic_enter(struct rnic *rnic)
{
    shard_lock(&rnic->shard);
    shard_serve_waiting(&rnic->shard);
}

static inline int rnic_leave(struct rnic *rnic, int result)
{
    shard_unlock(&rnic->shard);
    return result;
}

// Lock held. The QP's doorbell was served: receives were posted, sends wait. (qp/doorbell.c)
void rnic_qp_on_doorbell(struct rnic_qp *qp, instant_ns now);
// Lock held. After anything that may have made the QP wait for receives, or stop doing so.
// (qp/waits.c)
void rnic_qp_note_state(struct rnic_qp *qp, instant_ns now);
// What a new queue pair of any transport is told of its work queues. (qp/create.c)
struct wq_config qp_wq_config(struct rnic_qp *qp, const struct rnic_qp_init *init,
                              void (*on_runnable)(void *ctx));
// Lock held. Where queue pairs of this transport leave their counters; NULL: no memory.
// (qp/create.c)
void *qp_total_of(struct rnic *rnic, const struct transport_ops *ops);
// Lock held. The queue pair of that number; NULL: none.
static inline struct rnic_qp *rnic_qp_of(const struct rnic *rnic, uint32_t qp_num)
{
    struct rnic_qp *qp = rnic->qps[qp_num % rnic->qp_slot_count];
    return qp != NULL && qp->qp_num == qp_num ? qp : NULL;
}
// Lock held. What the engine tells of a queue pair, `ctx`. (qp/port.c)
void qp_port_on_event(void *ctx, enum qp_event event);
void qp_port_on_runnable(void *ctx);
void qp_port_on_sampled(void *ctx, enum wqe_opcode opcode, instant_ns posted_at_ns);
// Behind posting a receive: does somebody wait for it? Written as an exchange (false for false, or
// a look), so that it has its place among those of who begins to wait.
static inline bool rnic_is_receive_wanted(atomic_bool *flag)
{
    bool expected = false;
    return !atomic_compare_exchange_strong_explicit(flag, &expected, false, memory_order_acq_rel,
                                                    memory_order_acquire);
}
// What rnic_flush waits for.
void rnic_flush_in_thread(struct rnic *rnic);
// Anything of any connection that has not reached the link yet?
bool rnic_has_output(struct rnic *rnic);
