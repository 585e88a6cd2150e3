// Creation, the table, and packets on their way out.
#include "roce/ud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "roce/address.h"
#include "roce/packet.h"
#include "roce/state.h"
#include "roce/ud_internal.h"
#include "roce/unreliable.h"
#include "wire/roce.h"
#include "wq/ring.h"
#include "wq/status.h"
#include "wq/wqe.h"

/* ---- out ------------------------------------------------------------------------------------- */

static struct roce_packet packet_to(const struct ud *ud, const struct roce_address *to,
                                    const struct send_wqe *wqe)
{
    const bool has_imm = wqe->opcode == WQE_SEND_WITH_IMM;
    const bool is_own_qkey = (to->qkey & ROCE_QKEY_CONTROLLED) != 0;
    return (struct roce_packet){
        .bth = {.opcode = ROCE_UD | (has_imm ? ROCE_SEND_ONLY_IMM : ROCE_SEND_ONLY),
                .solicited = (wqe->flags & WQE_SOLICITED) != 0,
                .dest_qp = to->qpn},
        .deth = {.qkey = is_own_qkey ? ud->qkey : to->qkey, .src_qp = ud->u.config.qp_num},
        .immdt = {wqe->imm_or_inv},
    };
}

static void put(struct ud *ud, const struct transport_work *work, const struct datagram_sink *sink)
{
    const struct roce_address *to = wq_send_address(&ud->u.wq, work->wqe);
    struct roce_packet packet = packet_to(ud, to, work->wqe);
    struct datagram_path path = to->path;
    if (path.source_port == 0) {
        path.source_port = roce_source_port(path.flow_label, ud->u.config.qp_num, to->qpn);
    }
    if (work->wqe->length <= ud->u.mtu) {
        uint32_t len = (uint32_t)work->wqe->length;
        unreliable_put_packet(&ud->u, work, &packet, 0, len, &path, sink);
    } else {
        unreliable_fail(&ud->u, WC_LOC_LEN_ERR);
    }
}

static void output(struct transport *t, const struct datagram_sink *sink, instant_ns now)
{
    struct ud *ud = ud_of(t);
    struct transport_work work;
    unreliable_begin_turn(&ud->u, now);
    while (unreliable_next(&ud->u, &work)) {
        put(ud, &work, sink);
    }
    unreliable_end_turn(&ud->u);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void ud_destroy(struct transport *t)
{
    unreliable_fini(unreliable_of(t));
    free(ud_of(t));
}

static int modify(struct transport *t, const struct qp_change *change, instant_ns now)
{
    struct ud *ud = ud_of(t);
    int result = unreliable_modify(&ud->u, change, now);
    if (result == 0 && (change->mask & QP_CHANGE_QKEY) != 0) {
        ud->qkey = change->qkey;
    }
    return result;
}

static int attach(struct transport *t, const struct in6_addr *group)
{
    return ud_attach(ud_of(t), group);
}

static int detach(struct transport *t, const struct in6_addr *group)
{
    return ud_detach(ud_of(t), group);
}

static bool check(const struct transport *t)
{
    const struct ud *ud = (const struct ud *)t;
    return unreliable_check(&ud->u) && ud->group_count <= UD_GROUP_MAX;
}

static const char *format(const struct transport *t, char *buf, size_t len)
{
    const struct ud *ud = (const struct ud *)t;
    char common[120];
    snprintf(buf, len, "%s qkey 0x%08x groups %u", unreliable_format(&ud->u, common, sizeof common),
             ud->qkey, ud->group_count);
    return buf;
}

static const struct transport_ops ud_transport_ops = {
    .name = "ud",
    .total_name = "ud_total",
    .segment_name = "path_mtu",
    .address_len = sizeof(struct roce_address),
    UNRELIABLE_TRANSPORT_OPS,
    .destroy = ud_destroy,
    .modify = modify,
    .output = output,
    .on_packet = ud_on_packet,
    .attach = attach,
    .detach = detach,
    .check = check,
    .format = format,
};

int ud_create(const struct ud_config *config, struct ud **ret)
{
    if (!roce_is_path_mtu(config->port_mtu)) {
        return -EINVAL;
    }
    struct ud *ud = aligned_alloc(CACHE_LINE_LEN, sizeof *ud);
    if (ud == NULL) {
        return -ENOMEM;
    }
    memset(ud, 0, sizeof *ud);
    ud->u.transport.ops = &ud_transport_ops;
    struct wq_config wq = config->wq;
    wq.address_len = sizeof(struct roce_address);
    wq.address_key_at = offsetof(struct roce_address, qpn);
    const uint32_t carries = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM;
    int result = unreliable_init(&ud->u, ROCE_SERVICE_UD, carries, &wq, config->events);
    if (result < 0) {
        ud_destroy(&ud->u.transport);
        return result;
    }
    ud->u.mtu = ud->u.wq.facts.whole_len = config->port_mtu;
    *ret = ud;
    return 0;
}

struct transport *ud_transport(struct ud *ud)
{
    return &ud->u.transport;
}

struct wq *ud_wq(struct ud *ud)
{
    return &ud->u.wq;
}
