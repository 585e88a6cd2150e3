#include "roce/address.h"

enum {
    PORT_FIRST = 0xc000,
    LABEL_MASK = 0xfffff,
    PORT_BITS = 14,
    PORT_MASK = (1 << PORT_BITS) - 1
};

static uint32_t label_of(uint32_t local_qpn, uint32_t remote_qpn)
{
    uint64_t v = (uint64_t)local_qpn * remote_qpn;
    v ^= v >> 20;
    v ^= v >> 40;
    return (uint32_t)(v & LABEL_MASK);
}

uint16_t roce_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn)
{
    uint32_t label = flow_label != 0 ? flow_label & LABEL_MASK : label_of(local_qpn, remote_qpn);
    return (uint16_t)(PORT_FIRST | ((label & PORT_MASK) ^ label >> PORT_BITS));
}
