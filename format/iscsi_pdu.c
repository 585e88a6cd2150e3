#include "format/iscsi_pdu.h"

#include <string.h>

#include "base/bytes.h"

struct iscsi_header iscsi_header_parse(const uint8_t *octets)
{
    uint32_t data_len = get_be24(octets + ISCSI_OFF_DATA_LEN);
    return (struct iscsi_header){.at = octets,
                                 .opcode = octets[ISCSI_OFF_OPCODE] & ISCSI_OPCODE_MASK,
                                 .flags = octets[ISCSI_OFF_FLAGS],
                                 .is_immediate = (octets[ISCSI_OFF_OPCODE] & ISCSI_IMMEDIATE) != 0,
                                 .ahs_len = 4U * octets[ISCSI_OFF_AHS_LEN],
                                 .data_len = data_len,
                                 .pad_len = iscsi_pad_of(data_len),
                                 .itt = get_be32(octets + ISCSI_OFF_ITT),
                                 .cmdsn = get_be32(octets + ISCSI_OFF_CMDSN)};
}

void iscsi_header_emit(uint8_t *ret, enum iscsi_opcode opcode, uint8_t flags, uint32_t itt)
{
    memset(ret, 0, ISCSI_HEADER_LEN);
    ret[ISCSI_OFF_OPCODE] = (uint8_t)opcode;
    ret[ISCSI_OFF_FLAGS] = flags;
    put_be32(ret + ISCSI_OFF_ITT, itt);
    put_be32(ret + ISCSI_OFF_TTT, ISCSI_NO_TAG);
}
