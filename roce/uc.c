// Creation, the table, attributes, and packets on their way out.
#include "roce/uc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/qp_state.h"
#include "base/time.h"
#include "mem/table.h"
#include "roce/address.h"
#include "roce/packet.h"
#include "roce/state.h"
#include "roce/uc_internal.h"
#include "roce/unreliable.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wq/ring.h"
#include "wq/wqe.h"

enum { PATH_MTU_FIRST = 256, QP_NUM_MAX = 0xffffff };

/* ---- out ------------------------------------------------------------------------------------- */

static void put(struct uc *uc, const struct transport_work *work, const struct datagram_sink *sink)
{
    struct roce_packet packet;
    const uint64_t offset = (uint64_t)work->wqe->progress.message_count * uc->u.mtu;
    uint32_t len = roce_packet_of_message(work->wqe, ROCE_UC, offset, uc->u.mtu, &packet);
    packet.bth.dest_qp = uc->dest_qp_num;
    unreliable_put_packet(&uc->u, work, &packet, offset, len, &uc->path, sink);
}

static void output(struct transport *t, const struct datagram_sink *sink, instant_ns now)
{
    struct uc *uc = uc_of(t);
    struct transport_work work;
    unreliable_begin_turn(&uc->u, now);
    while (unreliable_next(&uc->u, &work)) {
        put(uc, &work, sink);
    }
    unreliable_end_turn(&uc->u);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void use_mtu(struct uc *uc, uint32_t mtu)
{
    uc->u.mtu = mtu;
    uc->u.wq.facts.whole_len = mtu;
}

static void forget_peer(struct uc *uc)
{
    uc->path = (struct datagram_path){.source_port = 0};
    uc->dest_qp_num = uc->expected_psn = 0;
    uc->denied = MEM_ACCESS_REMOTE_WRITE;
    use_mtu(uc, PATH_MTU_FIRST);
}

static bool are_values_possible(const struct qp_change *c)
{
    const uint32_t mask = c->mask;
    return ((mask & QP_CHANGE_PATH_MTU) == 0 || roce_is_path_mtu(c->path_mtu)) &&
           ((mask & QP_CHANGE_DEST_QP_NUM) == 0 || c->dest_qp_num <= QP_NUM_MAX) &&
           ((mask & QP_CHANGE_RQ_PSN) == 0 || c->rq_psn <= PSN_MASK);
}

static void take_attributes(struct uc *uc, const struct qp_change *c)
{
    if ((c->mask & QP_CHANGE_RIGHTS) != 0) {
        uc->denied = MEM_ACCESS_REMOTE_WRITE & ~c->rights;
    }
    if ((c->mask & QP_CHANGE_PATH_MTU) != 0) {
        use_mtu(uc, c->path_mtu);
    }
    if ((c->mask & QP_CHANGE_RQ_PSN) != 0) {
        uc->expected_psn = c->rq_psn;
    }
    if ((c->mask & QP_CHANGE_DEST_QP_NUM) != 0) {
        uc->dest_qp_num = c->dest_qp_num;
    }
    if ((c->mask & QP_CHANGE_PATH) != 0) {
        uc->path = c->path;
    }
    if (uc->path.source_port == 0) {
        uc->path.source_port =
            roce_source_port(uc->path.flow_label, uc->u.config.qp_num, uc->dest_qp_num);
    }
}

static int modify(struct transport *t, const struct qp_change *change, instant_ns now)
{
    struct uc *uc = uc_of(t);
    if (!are_values_possible(change)) {
        return -EINVAL;
    }
    int result = unreliable_modify(&uc->u, change, now);
    if (result < 0) {
        return result;
    }
    if (uc->u.state == QP_RESET) {
        forget_peer(uc);
    }
    take_attributes(uc, change);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void uc_destroy(struct transport *t)
{
    unreliable_fini(unreliable_of(t));
    free(uc_of(t));
}

static bool check(const struct transport *t)
{
    const struct uc *uc = (const struct uc *)t;
    return unreliable_check(&uc->u) && uc->expected_psn <= PSN_MASK;
}

static const char *format(const struct transport *t, char *buf, size_t len)
{
    const struct uc *uc = (const struct uc *)t;
    char common[120];
    snprintf(buf, len, "%s to qp %u expects psn %u",
             unreliable_format(&uc->u, common, sizeof common), uc->dest_qp_num, uc->expected_psn);
    return buf;
}

static const struct transport_ops uc_transport_ops = {
    .name = "uc",
    .total_name = "uc_total",
    .segment_name = "path_mtu",
    UNRELIABLE_TRANSPORT_OPS,
    .destroy = uc_destroy,
    .modify = modify,
    .output = output,
    .on_packet = uc_on_packet,
    .check = check,
    .format = format,
};

int uc_create(const struct uc_config *config, struct uc **ret)
{
    static const uint32_t carries = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM |
                                    1U << WQE_RDMA_WRITE | 1U << WQE_RDMA_WRITE_WITH_IMM |
                                    1U << WQE_LOCAL_INV | 1U << WQE_BIND_MW;
    struct uc *uc = aligned_alloc(CACHE_LINE_LEN, sizeof *uc);
    if (uc == NULL) {
        return -ENOMEM;
    }
    memset(uc, 0, sizeof *uc);
    uc->u.transport.ops = &uc_transport_ops;
    int result = unreliable_init(&uc->u, ROCE_SERVICE_UC, carries, &config->wq, config->events);
    if (result < 0) {
        uc_destroy(&uc->u.transport);
        return result;
    }
    forget_peer(uc);
    *ret = uc;
    return 0;
}

struct transport *uc_transport(struct uc *uc)
{
    return &uc->u.transport;
}

struct wq *uc_wq(struct uc *uc)
{
    return &uc->u.wq;
}
