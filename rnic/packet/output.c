// Packets to the link: of each queue pair that is due, as long as the link has room; then they are
// sent, all in one.

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/transport.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"

enum {
    PACKET_FLUSHES_PER_TURN = 4, // of one queue pair
    PACKET_STREAM_MIN = 8,       // packets in one pass
};

static const duration_ns receiver_wait_ns = 50 * NS_PER_US; // who reads takes in 50 KB meanwhile

static void flush(struct packet_side *p)
{
    if (p->has_unsent) {
        const bool is_put = packet_put_held(p);
        p->has_unsent = p->is_full = !datagram_flush(p->link) || !is_put;
        p->is_urgent = p->has_unsent;
    }
}

// Until it has no more, has had its turn, or the link has no room even after a flush.
static void put_all(struct packet_side *p, struct rnic_qp *qp, instant_ns now)
{
    const struct datagram_sink sink = {.put = packet_put, .push = packet_push, .ctx = p};
    const struct transport_ops *ops = qp->transport->ops;
    p->turn = qp;
    for (unsigned i = 0; i < PACKET_FLUSHES_PER_TURN && !p->is_full; i++) {
        ops->output(qp->transport, &sink, now);
        if (!p->is_full) {
            return;
        }
        flush(p);
    }
}

// It has more. When it is to be asked again by itself; INSTANT_NEVER: something else sees to that.
static instant_ns wait_for_more(struct packet_side *p, struct rnic_qp *qp, bool has_put,
                                instant_ns now)
{
    if (p->is_full) {
        p->counters.room_waits++;
        packet_stop(qp);
    } else if (p->is_receiver_full) { // nobody tells when it has read
        p->counters.receiver_waits++;
        return instant_after(now, receiver_wait_ns);
    } else if (has_put) { // otherwise something else holds it back
        packet_run_again(qp);
    }
    return INSTANT_NEVER;
}

// Whoever sees an acknowledgement that leaves here finds the gate as it says.
static void settle_one(struct packet_side *p, struct rnic_qp *qp, instant_ns now)
{
    const struct transport_ops *ops = qp->transport->ops;
    const uint64_t put_before = p->put_count;
    instant_ns again_ns = INSTANT_NEVER;
    p->is_receiver_full = false;
    packet_gate_follow(qp);
    if (ops->has_output(qp->transport)) {
        put_all(p, qp, now);
        if (ops->has_output(qp->transport)) {
            again_ns = wait_for_more(p, qp, p->put_count > put_before, now);
        }
        packet_gate_follow(qp);
    }
    rnic_qp_note_state(qp, now);
    packet_arm(qp, again_ns);
}

void packet_settle(struct shard *shard, instant_ns now)
{
    CHECK(shard_is_held(shard));
    struct packet_side *p = &shard->packets;
    struct list_link *l;
    while ((l = list_pop_head(&shard->due)) != NULL) {
        settle_one(p, LIST_ENTRY(l, struct rnic_qp, on_packets.due_link), now);
    }
    if (p->is_urgent || !p->is_holding) {
        flush(p);
    }
    if (p->is_full) { // who sleeps in the link did not wait for room
        shard_wake_before(shard, 0);
    }
}

// What answers a message is often posted as soon as the message is seen, by who spins on it, and
// may leave with its acknowledgement: one system call, and one turn of the peer. The next pass is
// sure to come soon: the thread is awake, and goes on as long as anything moves, or looks again. Of
// a stream of packets nobody answers each, and its sender waits for room in its window.
void packet_hold(struct shard *shard, unsigned input_count)
{
    const bool has_message = input_count > 0 && input_count < PACKET_STREAM_MIN;
    struct packet_side *p = &shard->packets;
    const bool is_thread_awake =
        shard->has_thread &&
        atomic_load_explicit(&shard->asleep_until_ns, memory_order_relaxed) == 0;
    p->is_holding = has_message && !p->is_holding && is_thread_awake;
}

void packet_on_room(struct shard *shard)
{
    struct packet_side *p = &shard->packets;
    struct list_link *l;
    p->is_full = false;
    flush(p);
    while (!p->is_full && (l = list_pop_head(&p->stopped)) != NULL) {
        packet_due(LIST_ENTRY(l, struct rnic_qp, on_packets.run_link));
    }
}
