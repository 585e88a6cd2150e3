// Address handles: to whom a datagram goes. Nothing of the device's is behind one, so it is made
// and destroyed in the child of a fork as elsewhere. Devices without datagrams have none.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/device_wire.h"
#include "base/port_datagram.h"
#include "verbs/front.h"

enum { QP_NUM_MAX = 0xffffff };

// How many there are of each device; identity->max_ah is the limit.
static atomic_uint counts[DEVICE_WIRE_COUNT];

static atomic_uint *count_of(const struct ibv_context *context)
{
    return &counts[front_device_of(context->device)->wire];
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    const struct identity *identity = front_identity_of(pd->context);
    struct datagram_path path;
    if (identity->max_ah == 0) {
        return front_null(EOPNOTSUPP);
    }
    if (!front_pd_is_known(pd)) {
        return front_null(ENOENT);
    }
    int error = front_datagram_path_fill(pd->context, attr, &path);
    if (error != 0) {
        return front_null(error);
    }
    struct front_ah *ah = calloc(1, sizeof *ah);
    atomic_uint *count = count_of(pd->context);
    if (ah == NULL || atomic_fetch_add(count, 1) >= identity->max_ah) {
        if (ah != NULL) {
            atomic_fetch_sub(count, 1);
        }
        free(ah);
        return front_null(ENOMEM);
    }
    ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd, .handle = front_handle_of(ah)};
    ah->path = path;
    ah->domain = front_domain_of(pd);
    atomic_fetch_add(&ah->domain->ah_count, 1);
    front_context_hold(pd->context);
    return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    if (ah->handle != front_handle_of(ah)) {
        return front_fail(ENOENT);
    }
    atomic_fetch_sub(count_of(ah->context), 1);
    atomic_fetch_sub(&((struct front_ah *)ah)->domain->ah_count, 1);
    front_context_release(ah->context);
    free(ah);
    return 0;
}

int front_address_fill(const struct front_qp *qp, struct send_wqe *wqe, const struct ibv_ah *ah,
                       uint32_t remote_qpn, uint32_t remote_qkey)
{
    const struct front_ah *front = (const struct front_ah *)ah;
    if (ah == NULL || !front_pd_is_same(&front->domain->pd, qp->qp.pd) || remote_qpn > QP_NUM_MAX) {
        return EINVAL;
    }
    *rnic_sq_address(qp->rnic_qp, wqe) = (struct roce_address){
        .path = front->path,
        .qpn = remote_qpn,
        .qkey = remote_qkey,
    };
    return 0;
}

/* ---- back to who sent a datagram ------------------------------------------------------------- */

// How far it has come, a datagram does not say: the answer may go as far as any.
enum { HOP_LIMIT_OF_ANSWERS = 255 };

static bool is_group(const struct in6_addr *addr)
{
    return IN6_IS_ADDR_MULTICAST(addr) ||
           (IN6_IS_ADDR_V4MAPPED(addr) && IN_MULTICAST(ntohl(addr->s6_addr32[3])));
}

// From where it is answered: the GID that it went to, or, of a group, one of its family. -1: it was
// not for us.
static int gid_index_of(const struct ibv_context *context, const struct grh *grh)
{
    return is_group(&grh->dst) ? front_gid_of_family(context, &grh->dst)
                               : front_gid_find(context, &grh->dst);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *ibv_grh, struct ibv_ah_attr *attr)
{
    struct grh grh;
    if (front_identity_of(context)->max_ah == 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    const bool has_grh = (wc->wc_flags & IBV_WC_GRH) && grh_parse((const uint8_t *)ibv_grh, &grh);
    const int index = has_grh ? gid_index_of(context, &grh) : -1;
    if (index < 0 || port_num != FRONT_PORT_NUM) {
        errno = EINVAL;
        return -1;
    }
    *attr = (struct ibv_ah_attr){
        .grh = {.flow_label = grh.flow_label,
                .traffic_class = grh.traffic_class,
                .sgid_index = (uint8_t)index,
                .hop_limit = HOP_LIMIT_OF_ANSWERS},
        .dlid = wc->slid,
        .sl = wc->sl,
        .src_path_bits = wc->dlid_path_bits,
        .is_global = 1,
        .port_num = port_num,
    };
    memcpy(attr->grh.dgid.raw, &grh.src, sizeof grh.src);
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
    struct ibv_ah_attr attr;
    return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) == 0
               ? ibv_create_ah(pd, &attr)
               : NULL;
}
