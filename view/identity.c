#include "view/identity.h"

#include "base/fnv.h"
#include "machine/machine.h"

#define TYPE(name) (1U << IBV_QPT_##name)

static const struct identity identities[DEVICE_WIRE_COUNT] = {
    [DEVICE_WIRE_IWARP] =
        {
            .name = DEVICE_NAME_IWARP,
            .guid_seed = "weft ",
            .node_type = IBV_NODE_RNIC,
            .node_type_text = "4: RNIC",
            .transport = IBV_TRANSPORT_IWARP,
            .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
            // Types of 0 stand for InfiniBand, RoCE v1 and, as the kernel's iWARP drivers have it,
            // iWARP.
            .gid_type = IBV_GID_TYPE_IB,
            .gid_type_sysfs = 0,
            .gid_type_text = "IB/RoCE v1",
            .has_streams = true,
            .qp_types = TYPE(RC),
        },
    [DEVICE_WIRE_ROCE] =
        {
            .name = DEVICE_NAME_ROCE,
            .guid_seed = "weft roce ",
            .node_type = IBV_NODE_CA,
            .node_type_text = "1: CA",
            .transport = IBV_TRANSPORT_IB,
            .device_cap_flags = IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_RC_RNR_NAK_GEN,
            .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
            .port_flags = IBV_QPF_GRH_REQUIRED, // as the kernel says of every port of RoCE
            .gid_type = IBV_GID_TYPE_ROCE_V2,
            .gid_type_sysfs = 1,
            .gid_type_text = "RoCE v2",
            .qp_types = TYPE(RC) | TYPE(UC) | TYPE(UD),
            .max_ah = 1 << 16,
            .max_groups = 16, // Linux lets a socket have 20 (igmp_max_memberships)
            // IPv6, UDP, BTH, AtomicETH or RETH with Immediate, ICRC: 96 leave room for all.
            .header_len = 96,
        },
};

const struct identity *identity_of(enum device_wire wire)
{
    return &identities[wire];
}

/* ---- GUID ------------------------------------------------------------------------------------ */

// It is ours to choose, so it bears the local bit (0x02) and not the group bit (0x01) of its first
// octet.
uint64_t identity_guid(const struct identity *identity)
{
    char machine[MACHINE_NAME_MAX];
    machine_name(machine);
    const uint64_t guid = fnv_text(fnv_text(FNV_START, identity->guid_seed), machine);
    return (guid & ~(3ULL << 56)) | 2ULL << 56;
}

/* ---- MTU ------------------------------------------------------------------------------------- */

enum ibv_mtu identity_active_mtu(const struct identity *identity, unsigned interface_mtu)
{
    if (identity->header_len == 0) {
        return IBV_MTU_4096;
    }
    enum ibv_mtu mtu = IBV_MTU_256;
    while (mtu < IBV_MTU_4096 && (256U << mtu) + identity->header_len <= interface_mtu) {
        mtu++;
    }
    return mtu;
}
