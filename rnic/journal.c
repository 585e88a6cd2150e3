#include "rnic/journal.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/port_journal.h"
#include "base/port_link.h"
#include "base/sockaddr.h"
#include "rdmap/early.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"

static uint16_t unpack(const struct sockaddr_storage *from, struct in6_addr *ret)
{
    *ret = sockaddr_octets((const struct sockaddr *)from);
    return ntohs(sockaddr_port((const struct sockaddr *)from));
}

void journal_stream(const struct rnic_ep *ep)
{
    struct journal *journal = ep->rnic->journal;
    struct sockaddr_storage local, remote;
    if (journal == NULL || link_local_addr(ep->stream, &local) != 0 ||
        link_peer_addr(ep->stream, &remote) != 0) {
        return;
    }
    struct journal_record record = {.kind = JOURNAL_CARRIED, .qp_num = ep->qp->qp_num};
    record.carried.local_port = unpack(&local, &record.carried.local);
    record.carried.remote_port = unpack(&remote, &record.carried.remote);
    journal->put(journal, &record);
}

static void on_hole_opened(void *ctx, uint32_t number, uint64_t position, uint64_t len)
{
    const struct rnic_ep *ep = ctx;
    struct journal *journal = ep->rnic->journal;
    journal->put(journal, &(struct journal_record){.kind = JOURNAL_HOLE_OPENED,
                                                   .qp_num = ep->qp->qp_num,
                                                   .key = number,
                                                   .wr_id = position,
                                                   .len = len});
}

static void on_hole_closed(void *ctx, uint32_t number, uint64_t len,
                           const struct place_counts *counts)
{
    const struct rnic_ep *ep = ctx;
    struct journal *journal = ep->rnic->journal;
    journal->put(journal, &(struct journal_record){.kind = JOURNAL_HOLE_CLOSED,
                                                   .qp_num = ep->qp->qp_num,
                                                   .key = number,
                                                   .wr_id = rdmap_held_messages(counts),
                                                   .len = len});
}

void journal_holes(const struct rnic_ep *ep, struct place_port *port)
{
    if (ep->rnic->journal != NULL) {
        port->on_hole_opened = on_hole_opened;
        port->on_hole_closed = on_hole_closed;
    }
}

// Its partners are known from here on; of one that sends datagrams, that it may have some.
static bool has_partners(const struct rnic_qp *qp, const struct qp_change *change)
{
    const bool takes_any = qp->transport->ops->address_len > 0;
    const bool is_ready = (change->mask & QP_CHANGE_STATE) != 0 && change->state == QP_RTR;
    return (change->mask & QP_CHANGE_DEST_QP_NUM) != 0 || (takes_any && is_ready);
}

void journal_packets(const struct rnic_qp *qp, const struct qp_change *change)
{
    struct journal *journal = qp->rnic->journal;
    if (journal == NULL || !has_partners(qp, change)) {
        return;
    }
    struct journal_record record = {.kind = JOURNAL_CARRIED, .qp_num = qp->qp_num};
    if ((change->mask & QP_CHANGE_DEST_QP_NUM) != 0) {
        record.carried.local = change->path.local;
        record.carried.remote = change->path.remote;
        record.carried.remote_qp_num = change->dest_qp_num;
    }
    journal->put(journal, &record);
}
