// Queue pairs on packets: what the shard asks (rnic/carrier.h).

#include "base/port_datagram.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "base/transport.h"
#include "cq/cq.h"
#include "ibcm/ibcm.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/group.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"
#include "wq/wq.h"

enum { PACKET_LOOKS_MAX = 16 }; // one behind the other, while each finds something

// Who exits is not to be held up by peers that are gone.
static const duration_ns ending_ns = 500 * NS_PER_MS;

static bool serve(struct shard *shard, instant_ns now)
{
    const unsigned ready = datagram_poll(shard->packets.link, now);
    if ((ready & DATAGRAM_READY_ROOM) != 0) {
        packet_on_room(shard);
    }
    if ((ready & DATAGRAM_READY_HOST) != 0) {
        packet_port_follow(shard);
    }
    const unsigned count = (ready & DATAGRAM_READY_IN) != 0 ? packet_input(shard, now) : 0;
    if (count > 0) {
        packet_conns_settle(shard, now);
    }
    packet_hold(shard, count);
    return count > 0;
}

// Of a program's look: what it has posted leaves first, so that what comes meanwhile is found in
// the same look, and none is in vain.
static bool serve_busy(struct shard *shard, instant_ns now)
{
    if (!list_is_empty(&shard->due)) {
        packet_settle(shard, now);
    }
    return serve(shard, now);
}

void packet_take_in(struct shard *shard, instant_ns now)
{
    datagram_look_around(shard->packets.link);
    for (unsigned i = 0; i < PACKET_LOOKS_MAX && serve(shard, now); i++) {
    }
}

static void run(struct list_link *entry, instant_ns now)
{
    packet_due(LIST_ENTRY(entry, struct rnic_qp, on_packets.run_link));
}

static void expire(struct deadline *deadline, instant_ns now)
{
    struct rnic_qp *qp = DEADLINE_ENTRY(deadline, struct rnic_qp, on_packets.deadline);
    qp->transport->ops->on_deadline(qp->transport, now);
    packet_due(qp);
}

// What had come before a deadline was over counts, also for who got no processor until then.
static void on_noted(struct shard *shard, instant_ns now)
{
    packet_take_in(shard, now);
    ibcm_on_deadline(shard->packets.cm.ibcm, now);
    packet_conns_settle(shard, now);
}

static void tidy(struct shard *shard)
{
}

// What window or pace hold back has not left, and what is lost nobody else sends again: all that is
// posted is waited for until it is complete.
static bool has_unsent(const struct shard *shard)
{
    const struct list_link *all = &shard->rnic->all_qps;
    for (const struct list_link *l = all->next; l != all; l = l->next) {
        const struct rnic_qp *qp = LIST_ENTRY(l, const struct rnic_qp, all_link);
        const struct transport_ops *ops = qp->transport->ops;
        const bool is_out = ops->state(qp->transport) == QP_RTS && wq_send_count(qp->wq) > 0;
        if (is_out || ops->has_output(qp->transport)) {
            return true;
        }
    }
    return shard->packets.has_unsent;
}

// Those of connection managers are told, as a card's kernel would; others find out.
static bool end(struct shard *shard)
{
    struct packet_cm *cm = &shard->packets.cm;
    const instant_ns now = rnic_now(shard->rnic);
    ibcm_disconnect_all(cm->ibcm, now);
    cm->ending_until = instant_after(now, ending_ns);
    shard_note_deadline(shard, ibcm_next_deadline(cm->ibcm)); // sooner than it was
    packet_settle(shard, now);
    return ibcm_is_disconnecting(cm->ibcm);
}

static void on_changed(struct rnic_qp *qp)
{
    packet_due(qp);
}

// Who uses the queue pair again is not to find what became of it before.
static void on_moved(struct rnic_qp *qp, enum qp_state to, instant_ns now)
{
    if (to == QP_RESET) {
        cq_purge(qp->send_cq->cq, qp->qp_num);
        cq_purge(qp->recv_cq->cq, qp->qp_num);
    }
    packet_due(qp);
}

static void forget(struct rnic_qp *qp, instant_ns now)
{
    packet_conn_forget(qp);
    packet_group_forget(qp);
    packet_gate_close(qp);
    packet_unlist(qp);
}

const struct carrier_ops packet_carrier = {
    .link = &packet_carrier_link,
    .create_qp = packet_create_qp,
    .serve = serve,
    .serve_busy = serve_busy,
    .run = run,
    .settle = packet_settle,
    .expire = expire,
    .on_noted = on_noted,
    .tidy = tidy,
    .has_unsent = has_unsent,
    .end = end,
    .may_gather = packet_may_gather,
    .serve_doorbell = packet_posted,
    .on_pulled = packet_on_pushed,
    .on_changed = on_changed,
    .on_moved = on_moved,
    .forget = forget,
};
