// What queue pairs on packets have still to do: put down here, done elsewhere.

#include "base/deadlines.h"
#include "base/transport.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"
#include "wq/wq.h"

enum { PACKET_GATHER_MAX = 15 };

void packet_due(void *ctx)
{
    struct rnic_qp *qp = ctx;
    if (list_is_empty(&qp->on_packets.due_link)) {
        list_push_tail(&qp->rnic->shard.due, &qp->on_packets.due_link);
    }
}

// A packet alone costs its receiver as much as a burst. While so much is out that the peer is busy
// with it, what is posted loses nothing by waiting for company: until there is a burst of it, or
// until the program finds nothing to poll.
bool packet_may_gather(struct rnic_qp *qp)
{
    if (!atomic_load_explicit(&qp->rnic->shard.is_polled, memory_order_relaxed)) {
        return false; // no poll may come
    }
    const unsigned gathered =
        atomic_fetch_add_explicit(&qp->on_packets.gathered, 1, memory_order_relaxed) + 1;
    return gathered < PACKET_GATHER_MAX && wq_send_count(qp->wq) - gathered >= PACKET_GATHER_MAX;
}

void packet_posted(struct rnic_qp *qp, instant_ns now)
{
    atomic_store_explicit(&qp->on_packets.gathered, 0, memory_order_relaxed);
    const struct transport_ops *ops = qp->transport->ops;
    ops->on_receive_posted(qp->transport, now);
    ops->on_send_posted(qp->transport, now);
    packet_due(qp);
}

void packet_run_again(struct rnic_qp *qp)
{
    struct shard *shard = &qp->rnic->shard;
    if (list_is_empty(&qp->on_packets.run_link)) {
        list_push_tail(&shard->runnable, &qp->on_packets.run_link);
        shard_wake_before(shard, 0);
    }
}

void packet_stop(struct rnic_qp *qp)
{
    if (list_is_empty(&qp->on_packets.run_link)) {
        list_push_tail(&qp->rnic->shard.packets.stopped, &qp->on_packets.run_link);
    }
}

// A deadline that goes away, or further off, is left where it is: each message has one, which its
// acknowledgement takes back, and to tell the thread of the next each time would be a system call,
// and a turn of the thread for nothing. When the old one comes the queue pair says what is true.
void packet_arm(struct rnic_qp *qp, instant_ns latest_ns)
{
    struct shard *shard = &qp->rnic->shard;
    const instant_ns due_ns = qp->transport->ops->next_deadline(qp->transport);
    const instant_ns at_ns = instant_min(due_ns, latest_ns);
    if (at_ns < deadline_at(&qp->on_packets.deadline)) {
        deadline_arm(&shard->deadlines, &qp->on_packets.deadline, at_ns);
        shard_wake_before(shard, at_ns);
    }
}

void packet_unlist(struct rnic_qp *qp)
{
    list_remove(&qp->on_packets.due_link);
    list_remove(&qp->on_packets.run_link);
    deadline_disarm(&qp->rnic->shard.deadlines, &qp->on_packets.deadline);
}
