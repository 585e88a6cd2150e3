// Writes past packets (base/port_packet_push.h): the peer's, for which a queue pair's gate is open
// while it takes them, and ours.

#include "base/check.h"
#include "base/gate_mirror.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/port_packet_push.h"
#include "base/port_push.h"
#include "base/transport.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/packet.h"
#include "rnic/puller.h"
#include "rnic/shard.h"

// NULL: none go past them. The child of a fork has nothing of what peers see.
static const struct packet_push_ops *pushes_of(const struct rnic_qp *qp)
{
    const struct packet_push_ops *pushes = qp->rnic->shard.packets.link->pushes;
    return qp->transport->ops->gate != NULL && rnic_is_alive(qp->rnic) ? pushes : NULL;
}

/* ---- the peer's ------------------------------------------------------------------------------ */

// A packet of the peer's may stand for the last word of its connection manager.
static bool takes_writes(const struct rnic_qp *qp, struct gate *ret)
{
    const struct rnic_conn *conn = qp->on_packets.conn;
    return (conn == NULL || !conn->awaits_rtu) && qp->transport->ops->gate(qp->transport, ret);
}

void packet_gate_close(struct rnic_qp *qp)
{
    const struct packet_push_ops *pushes = pushes_of(qp);
    struct rnic_gate *gate = &qp->on_packets.gate;
    if (gate->entry != NULL && pushes != NULL) {
        struct datagram_link *link = qp->rnic->shard.packets.link;
        const bool is_out = pushes->close(link, gate->entry, gate->opening);
        atomic_store(&qp->pull.leaver, is_out ? 0 : gate->opening);
    }
    gate->entry = NULL;
}

// Not while somebody is in by the last opening, who would be forgotten.
static void gate_open(struct rnic_qp *qp, const struct gate *shown)
{
    const struct packet_push_ops *pushes = pushes_of(qp);
    struct datagram_link *link = qp->rnic->shard.packets.link;
    struct rnic_gate *gate = &qp->on_packets.gate;
    const uint64_t leaver = atomic_load(&qp->pull.leaver);
    if (leaver != 0 && !pushes->has_left(link, leaver)) {
        return;
    }
    atomic_store(&qp->pull.leaver, 0);
    gate->entry = pushes->open(link, shown, &gate->opening);
    gate->shown = *shown;
}

void packet_gate_follow(struct rnic_qp *qp)
{
    struct rnic_gate *gate = &qp->on_packets.gate;
    struct gate now;
    if (pushes_of(qp) == NULL) {
        return;
    }
    const bool is_open = takes_writes(qp, &now);
    if (gate->entry != NULL && (!is_open || !gate_is_alike(&gate->shown, &now))) {
        packet_gate_close(qp);
    }
    if (is_open && gate->entry == NULL) {
        gate_open(qp, &now);
    } else if (is_open && gate->shown.psn != now.psn) {
        gate->shown.psn = now.psn;
        gate_mirror_follow(gate->entry, &now);
    }
}

/* ---- ours ------------------------------------------------------------------------------------ */

// Who has the lock may copy, and copies nothing else yet. By anybody else, the background thread
// say, it goes by packets.
static struct puller *puller_for(const struct rnic_qp *qp)
{
    struct puller *puller = qp->rnic->shard.puller;
    const bool may = puller != NULL && puller_is_free(puller) && !qp->pull.is_barred;
    return may ? puller : NULL;
}

// What was acknowledged leaves before: programs know that what they sent is done before they see
// what answers it.
enum past_answer packet_push(void *ctx, const struct packet_push *push)
{
    struct packet_side *p = ctx;
    struct rnic_qp *qp = p->turn;
    const struct packet_push_ops *pushes = pushes_of(qp);
    struct puller *puller = puller_for(qp);
    if (pushes == NULL || puller == NULL ||
        pushes->aim(p->link, push, &puller->push) != PAST_BEGUN) {
        return PAST_REFUSED;
    }
    p->is_urgent = p->has_unsent;
    puller->put = pushes->put;
    puller->turn_len += push->write.len;
    puller_note_begun(puller, qp, true);
    return PAST_BEGUN;
}

void packet_on_pushed(struct rnic_qp *qp, const struct puller *puller, unsigned count,
                      instant_ns now)
{
    CHECK(shard_is_held(&qp->rnic->shard));
    list_remove(&qp->pull.link);
    qp->rnic->shard.packets.link->pushes->conclude(&puller->push, count > 0);
    qp->transport->ops->on_pushed(qp->transport, count > 0, now);
    packet_due(qp);
}
