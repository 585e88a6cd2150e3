// What the device and its port say of themselves.

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "verbs/front.h"

#ifndef WEFT_VERSION
#define WEFT_VERSION "0"
#endif

enum {
    // An OUI with the local bit: nobody's. Programs switch on the ids of real vendors, this is
    // none.
    VENDOR_ID = 0x027766,
    VENDOR_PART_ID = 0x7766,
    CLOCK_KHZ = 1000000, // completion timestamps are nanoseconds
};

static int clamp_int(uint64_t value)
{
    return value > INT_MAX ? INT_MAX : (int)value;
}

static void device_attr_fill(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct rnic_limits *limits = &rnic_limits;
    const struct identity *identity = front_identity_of(context);
    __be64 guid = ibv_get_device_guid(context->device);
    *attr = (struct ibv_device_attr){
        .fw_ver = WEFT_VERSION,
        .node_guid = guid,
        .sys_image_guid = guid,
        .max_mr_size = limits->max_mr_len,
        // Any page size that the host can have: nothing here is mapped by pages.
        .page_size_cap = ~((uint64_t)sysconf(_SC_PAGESIZE) - 1),
        .vendor_id = VENDOR_ID,
        .vendor_part_id = VENDOR_PART_ID,
        .hw_ver = 1,
        .max_qp = clamp_int(limits->max_qp),
        .max_qp_wr = clamp_int(limits->max_qp_wr),
        .device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_CURR_QP_STATE_MOD | identity->device_cap_flags,
        .max_sge = clamp_int(limits->max_sge),
        .max_sge_rd = clamp_int(limits->max_sge_rd),
        .max_cq = clamp_int(limits->max_cq),
        .max_cqe = clamp_int(limits->max_cqe),
        .max_mr = clamp_int(limits->max_mr),
        .max_pd = clamp_int(limits->max_pd),
        .max_qp_rd_atom = clamp_int(limits->max_qp_rd_atom),
        .max_res_rd_atom = clamp_int((uint64_t)limits->max_qp_rd_atom * limits->max_qp),
        .max_qp_init_rd_atom = clamp_int(limits->max_qp_rd_atom),
        // On iWARP by RFC 7306; between peers that speak it.
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mw = clamp_int(limits->max_mw),
        .max_mcast_grp = clamp_int(identity->max_groups),
        .max_mcast_qp_attach = clamp_int(identity->max_groups > 0 ? limits->max_qp : 0),
        .max_total_mcast_qp_attach = clamp_int((uint64_t)identity->max_groups * limits->max_qp),
        .max_ah = clamp_int(identity->max_ah),
        .max_srq = clamp_int(limits->max_srq),
        .max_srq_wr = clamp_int(limits->max_srq_wr),
        .max_srq_sge = clamp_int(limits->max_sge),
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
}

// `attr_len`: the structure as the program's header knew it, longer or shorter than ours.
int front_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t attr_len)
{
    if ((input != NULL && input->comp_mask != 0) || attr_len < sizeof attr->orig_attr) {
        return front_fail(EINVAL);
    }
    struct ibv_device_attr_ex full = {
        // Nothing is pinned, so all memory is on demand; asking for it has each access look whether
        // the memory is there.
        .odp_caps = {.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
                     .per_transport_caps = {.rc_odp_caps =
                                                IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                                IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV}},
        .completion_timestamp_mask = UINT64_MAX,
        .hca_core_clock = CLOCK_KHZ,
        .cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX},
        .phys_port_cnt_ex = 1,
    };
    device_attr_fill(context, &full.orig_attr);
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
    memset(attr, 0, attr_len);
    memcpy(attr, &full, attr_len < sizeof full ? attr_len : sizeof full);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    device_attr_fill(context, attr);
    return 0;
}

enum ibv_mtu front_mtu_of(uint32_t len)
{
    enum ibv_mtu mtu = IBV_MTU_256;
    while (FRONT_MTU_LEN(mtu) < len) {
        mtu++;
    }
    return mtu;
}

int front_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                     size_t attr_len)
{
    if (port_num != FRONT_PORT_NUM) {
        return front_fail(EINVAL);
    }
    const struct identity *identity = front_identity_of(context);
    const struct rnic_port port = rnic_port(front_context_of(context)->rnic);
    const struct ibv_port_attr full = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = port.addr_count > 0 ? front_mtu_of(port.path_mtu) : IBV_MTU_4096,
        .gid_tbl_len = port.addr_count > 0 ? (int)port.addr_count : 1,
        .port_cap_flags = identity->port_cap_flags,
        .max_msg_sz = rnic_limits.max_msg_len,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .active_width = IDENTITY_PORT_WIDTH_4X,
        .active_speed = IDENTITY_PORT_SPEED_25_GBPS,
        .phys_state = IDENTITY_PORT_LINK_UP,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = identity->port_flags,
    };
    memset(attr, 0, attr_len);
    memcpy(attr, &full, attr_len < sizeof full ? attr_len : sizeof full);
    return 0;
}

// For programs whose header is older than the extended port query: they have the structure up to
// and with `flags`.
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *attr)
{
    return front_query_port(context, port_num, (struct ibv_port_attr *)attr,
                            offsetof(struct ibv_port_attr, port_cap_flags2));
}

// The clock of completion timestamps. Devices hand a plain counter through tv_nsec; so does this
// one.
int front_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
    if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = (long)rnic_now(front_context_of(context)->rnic);
    }
    return 0;
}

/* ---- P_Keys: there is no subnet that has others than the one that stands for all ------------- */

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    if (port_num != FRONT_PORT_NUM || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(IDENTITY_PKEY);
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    if (port_num != FRONT_PORT_NUM || pkey != htobe16(IDENTITY_PKEY)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}
