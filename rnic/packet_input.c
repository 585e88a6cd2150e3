// Packets from the link: each goes to the queue pair whose number it names.

#include "base/port_datagram.h"
#include "base/transport.h"
#include "link/datagram_slot.h"
#include "rnic/internal.h"
#include "rnic/packet.h"
#include "wire/bth.h"

enum {
    PACKET_BATCH = 64,
    PACKET_BATCHES_PER_TURN = 4, // before anything is sent
};

static void take(struct rnic_qp *qp, const struct datagram_rx *rx, instant_ns now)
{
    qp->transport->ops->on_packet(qp->transport, rx, now);
    packet_due(qp);
}

// To each queue pair that might be attached to the group: its transport knows whether it is.
static void take_all(struct rnic *rnic, const struct datagram_rx *rx, instant_ns now)
{
    unsigned count = 0;
    for (struct list_link *l = rnic->all_qps.next; l != &rnic->all_qps; l = l->next) {
        struct rnic_qp *qp = LIST_ENTRY(l, struct rnic_qp, all_link);
        if (qp->on_packets.group_count > 0) {
            take(qp, rx, now);
            count++;
        }
    }
    rnic->shard.packets.counters.no_group += count == 0;
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
    if (num == BTH_QP_MULTICAST) {
        take_all(rnic, rx, now);
        return;
    }
    struct rnic_qp *qp = rnic_qp_of(rnic, num);
    if (qp == NULL) {
        counters->unknown_qp++;
        return;
    }
    take(qp, rx, now);
}

bool packet_input(struct shard *shard, instant_ns now)
{
    struct datagram_rx rx[PACKET_BATCH];
    unsigned count = PACKET_BATCH;
    bool moved = false;
    for (unsigned i = 0; i < PACKET_BATCHES_PER_TURN && count == PACKET_BATCH; i++) {
        count = datagram_receive(shard->packets.link, rx, PACKET_BATCH, now);
        for (unsigned k = 0; k < count; k++) {
            dispatch(shard->rnic, &rx[k], now);
        }
        moved |= count > 0;
    }
    return moved;
}
