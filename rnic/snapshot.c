#include "rnic/snapshot.h"

#include <errno.h>
#include <unistd.h>

#include "base/port_link.h"
#include "base/sockaddr.h"
#include "conn/state.h"
#include "mem/verdict.h"
#include "rnic/carrier.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/reads.h"

/* ---- what a link counts ---------------------------------------------------------------------- */

static struct report_pairs pairs_since(const struct report *r, uint32_t first)
{
    const uint32_t count = report_next_pair(r) - first;
    return (struct report_pairs){count > 0, first, count};
}

// Of a stream's connection, or with NULL of all that were closed. Nothing of the kernel's TCP.
static struct report_pairs tcp_pairs(struct report *r, const struct link *link,
                                     const struct link_stream *stream)
{
    const uint32_t first = report_next_pair(r);
    link_stream_counters(link, stream, report_add_pair, r);
    return pairs_since(r, first);
}

static struct report_pairs packet_pairs(struct report *r, const struct shard *shard)
{
    const uint32_t first = report_next_pair(r);
    shard->carrier->link->tell_counters(shard, report_add_pair, r);
    return pairs_since(r, first);
}

/* ---- the parts ------------------------------------------------------------------------------- */

static void addresses_copy(const struct rnic_ep *ep, struct report_endpoint *to)
{
    const struct link_ops *ops = ep->stream->link->ops;
    struct sockaddr_storage addr;
    if (ops->local_addr(ep->stream, &addr) == 0) {
        to->local = sockaddr_unmapped((const struct sockaddr *)&addr);
    }
    if (ep->state >= EP_STARTING && ops->peer_addr(ep->stream, &addr) == 0) {
        to->peer = sockaddr_unmapped((const struct sockaddr *)&addr);
    }
}

static void endpoint_copy(struct report *r, const struct rnic_ep *ep)
{
    struct report_pairs tcp = {0};
    if (ep->stream != NULL) {
        tcp = tcp_pairs(r, ep->stream->link, ep->stream); // counted where there is no room, too
    }
    struct report_endpoint *to = report_add_endpoint(r);
    if (to == NULL) {
        return;
    }
    *to = (struct report_endpoint){
        .state = ep_state_name(ep->state),
        .has_qp = ep->qp != NULL,
        .qp_num = ep->qp != NULL ? ep->qp->qp_num : 0,
        .is_listening = ep->state == EP_LISTENING,
        .is_placing = ep->in.is_placing,
        .is_of_host = ep->stream != NULL && (ep->stream->facts & LINK_IS_OF_HOST) != 0,
        .mpa_in = ep->in.rx.counters,
        .mpa_early = ep->in.placer.counters,
        .mpa_out = ep->out.tx.counters,
        .tcp = tcp,
    };
    if (ep->state >= EP_STARTING) {
        to->role = ep->is_initiator ? "initiator" : "responder";
        to->startup = conn_state_name(ep->startup.conn.state);
    }
    if (to->is_listening) {
        to->admissions = ep->listener.counters;
    }
    if (ep->stream != NULL) {
        addresses_copy(ep, to);
    }
}

static void peer_copy(const struct rnic_qp *qp, struct report_qp *to)
{
    const uint32_t wanted = QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM;
    struct qp_change told = {0};
    if (qp->transport->ops->told != NULL) {
        qp->transport->ops->told(qp->transport, &told);
    }
    if ((told.mask & wanted) == wanted) {
        to->peer = sockaddr_of_octets(&told.path.remote, 0);
        to->peer_qp_num = told.dest_qp_num;
    }
}

static void qp_copy(struct report *r, const struct rnic_qp *qp)
{
    const struct transport_ops *ops = qp->transport->ops;
    const struct report_counters counters =
        report_add_counters(r, ops, ops->counters(qp->transport)); // also where there is no room
    struct report_qp *to = report_add_qp(r);
    if (to != NULL) {
        *to = (struct report_qp){
            .qp_num = qp->qp_num,
            .ops = ops,
            .attributes = ops->query(qp->transport),
            .oneshot = ops->oneshot_agreed != NULL ? ops->oneshot_agreed(qp->transport) : 0,
            .counters = counters,
        };
        to->is_reading = reads_are_of(qp, to->attributes.state);
        peer_copy(qp, to);
    }
}

static void device_copy(struct report *r, const struct rnic *rnic)
{
    const struct link *link = rnic->shard.link;
    r->device = (struct report_device){
        .has_streams = link != NULL,
        .qp_count = rnic->qp_count,
        .cq_count = rnic->cq_count,
        .srq_count = rnic->srq_count,
        .live = mem_table_live(rnic->mem),
        .reads = reads_query(rnic),
        .mpa_in_total = rnic->mpa_in_total,
        .mpa_early_total = rnic->mpa_early_total,
        .mpa_out_total = rnic->mpa_out_total,
        .startup = rnic->conn_counters,
        .meetings = rnic->meeting_counters,
    };
    r->device.total_count = rnic->total_count;
    for (unsigned i = 0; i < rnic->total_count; i++) {
        r->device.totals[i] = report_add_counters(r, rnic->totals[i].ops, rnic->totals[i].counters);
    }
    if (link != NULL) {
        r->device.tcp_total = tcp_pairs(r, link, NULL);
    }
    r->device.packets = packet_pairs(r, &rnic->shard);
    for (unsigned i = 0; i < QP_CLOSE_REASON_COUNT; i++) {
        r->device.closes[i] = rnic->closes[i];
    }
    for (unsigned i = 0; i < MEM_VERDICT_COUNT; i++) {
        r->device.memory_refusals[i] = mem_table_verdict_count(rnic->mem, (enum mem_verdict)i);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void copy_locked(struct report *r, const struct rnic *rnic)
{
    const struct list_link *l;
    report_begin(r);
    device_copy(r, rnic);
    r->latency = rnic->latency;
    for (l = rnic->shard.endpoints.next; l != &rnic->shard.endpoints; l = l->next) {
        endpoint_copy(r, LIST_ENTRY(l, const struct rnic_ep, all_link));
    }
    for (l = rnic->all_qps.next; l != &rnic->all_qps; l = l->next) {
        qp_copy(r, LIST_ENTRY(l, const struct rnic_qp, all_link));
    }
}

static void process_note(struct report *r)
{
    r->pid = (uint32_t)getpid();
    r->program = program_invocation_short_name;
}

int snapshot_take(struct rnic *rnic, struct report *ret)
{
    report_init(ret);
    do {
        if (report_make_room(ret) != 0) {
            report_fini(ret);
            return -ENOMEM;
        }
        rnic_enter(rnic);
        copy_locked(ret, rnic);
        rnic_leave(rnic, 0);
    } while (!report_is_whole(ret));
    ret->device.name = rnic->name;
    process_note(ret);
    return 0;
}
