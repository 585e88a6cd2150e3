// Packets from the link: each goes to the queue pair whose number it names.

#include "base/port_datagram.h"
#include "base/transport.h"
#include "link/datagram/slot.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/group.h"
#include "rnic/packet/packet.h"
#include "wire/bth.h"

enum { PACKET_BATCH = 64 }; // that are answered before more are taken: the peer makes the next

static void take(struct rnic_qp *qp, const struct datagram_rx *rx, instant_ns now)
{
    qp->transport->ops->on_packet(qp->transport, rx, now);
    packet_due(qp);
}

// To each queue pair that has the group.
static void take_all(struct packet_side *p, const struct datagram_rx *rx, instant_ns now)
{
    bool is_anyones = false;
    for (struct list_link *l = p->members.next; l != &p->members; l = l->next) {
        struct packet_membership *m = LIST_ENTRY(l, struct packet_membership, link);
        if (IN6_ARE_ADDR_EQUAL(&m->group, &rx->local)) {
            take(m->qp, rx, now);
            is_anyones = true;
        }
    }
    p->counters.no_group += !is_anyones;
}

static void dispatch(struct rnic *rnic, const struct datagram_rx *rx, instant_ns now)
{
    struct packet_counters *counters = &rnic->shard.packets.counters;
    counters->received++;
    if (rx->octets.len < BTH_LEN) {
        counters->too_short++;
        return;
    }
    const uint32_t num = datagram_dest_qp(rx->octets);
    if (num == BTH_QP_GSI) {
        packet_cm_on_packet(&rnic->shard, rx, now);
        return;
    }
    if (num == BTH_QP_MULTICAST) {
        take_all(&rnic->shard.packets, rx, now);
        return;
    }
    struct rnic_qp *qp = rnic_qp_of(rnic, num);
    if (qp == NULL) {
        counters->unknown_qp++;
        return;
    }
    take(qp, rx, now);
    if (qp->on_packets.conn != NULL) {
        packet_conn_on_packet(qp->on_packets.conn, rx, now);
    }
}

unsigned packet_input(struct shard *shard, instant_ns now)
{
    struct datagram_rx rx[PACKET_BATCH];
    const unsigned count = datagram_receive(shard->packets.link, rx, PACKET_BATCH, now);
    for (unsigned i = 0; i < count; i++) {
        dispatch(shard->rnic, &rx[i], now);
    }
    return count;
}
