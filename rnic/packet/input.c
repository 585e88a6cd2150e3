// Packets from the link: each goes to the queue pair whose number it names. Who has several that
// follow each other is told when they are over, before anything else happens.

#include "base/port_datagram.h"
#include "base/transport.h"
#include "link/datagram/slot.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/group.h"
#include "rnic/packet/packet.h"
#include "wire/bth.h"
#include "wire/roce.h"

enum { PACKET_BATCH = 64 }; // that are answered before more are taken: the peer makes the next

// The queue pair that has had packets and does not know yet that they are over; NULL: none.
struct receiver {
    struct rnic_qp *qp;
};

static void packets_are_over(struct receiver *receiver, instant_ns now)
{
    if (receiver->qp != NULL) {
        transport_packets_over(receiver->qp->transport, now);
        receiver->qp = NULL;
    }
}

static void take(struct receiver *receiver, struct rnic_qp *qp, const struct datagram_rx *rx,
                 instant_ns now)
{
    if (receiver->qp != qp) {
        packets_are_over(receiver, now);
        receiver->qp = qp;
    }
    qp->transport->ops->on_packet(qp->transport, rx, now);
    packet_due(qp);
}

// To each queue pair that has the group.
static void take_all(struct packet_side *p, struct receiver *receiver, const struct datagram_rx *rx,
                     instant_ns now)
{
    bool is_anyones = false;
    for (struct list_link *l = p->members.next; l != &p->members; l = l->next) {
        struct packet_membership *m = LIST_ENTRY(l, struct packet_membership, link);
        if (IN6_ARE_ADDR_EQUAL(&m->group, &rx->local)) {
            take(receiver, m->qp, rx, now);
            is_anyones = true;
        }
    }
    p->counters.no_group += !is_anyones;
}

static void dispatch(struct rnic *rnic, struct receiver *receiver, const struct datagram_rx *rx,
                     instant_ns now)
{
    struct rnic_packet_counters *counters = &rnic->shard.packets.counters;
    counters->received++;
    if (rx->octets.len < BTH_LEN) {
        counters->too_short++;
        return;
    }
    const uint32_t num = datagram_dest_qp(rx->octets);
    if (num == BTH_QP_GSI) {
        packets_are_over(receiver, now);
        packet_cm_on_packet(&rnic->shard, rx, now);
        // Before the next one: a DREQ right behind a Reply is to find an established connection.
        packet_conns_settle(&rnic->shard, now);
        return;
    }
    if (num == BTH_QP_MULTICAST) {
        take_all(&rnic->shard.packets, receiver, rx, now);
        return;
    }
    struct rnic_qp *qp = rnic_qp_of(rnic, num);
    if (qp == NULL) {
        counters->unknown_qp++;
        return;
    }
    take(receiver, qp, rx, now);
    if (qp->on_packets.conn != NULL && qp->on_packets.conn->awaits_rtu) {
        packets_are_over(receiver, now);
        packet_conn_on_packet(qp->on_packets.conn, rx, now);
    }
}

// Is it an acknowledgement that came with a request of the same peer's?
static bool is_behind_request(const struct datagram_rx *before, const struct datagram_rx *rx)
{
    return rx->octets.len >= BTH_LEN && before->octets.len >= BTH_LEN &&
           rx->octets.ptr[BTH_OFF_OPCODE] == (ROCE_RC | ROCE_ACKNOWLEDGE) &&
           before->octets.ptr[BTH_OFF_OPCODE] < (ROCE_RC | ROCE_READ_RESPONSE_FIRST) &&
           datagram_dest_qp(rx->octets) == datagram_dest_qp(before->octets);
}

// Who answers a message may send the acknowledgement behind the answer (packet_hold). Programs have
// seen cards, which acknowledge at once: what they sent is done before they see what answers it.
static void put_acknowledgements_first(struct datagram_rx *rx, unsigned count)
{
    for (unsigned i = 1; i < count; i++) {
        for (unsigned j = i; j > 0 && is_behind_request(&rx[j - 1], &rx[j]); j--) {
            const struct datagram_rx request = rx[j - 1];
            rx[j - 1] = rx[j];
            rx[j] = request;
        }
    }
}

unsigned packet_input(struct shard *shard, instant_ns now)
{
    struct datagram_rx rx[PACKET_BATCH];
    const unsigned count = datagram_receive(shard->packets.link, rx, PACKET_BATCH, now);
    struct receiver receiver = {.qp = NULL};
    put_acknowledgements_first(rx, count);
    for (unsigned i = 0; i < count; i++) {
        dispatch(shard->rnic, &receiver, &rx[i], now);
    }
    packets_are_over(&receiver, now);
    return count;
}
