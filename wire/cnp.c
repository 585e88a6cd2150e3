#include "wire/cnp.h"

#include <string.h>

#include "wire/roce.h"

struct bth cnp_bth(uint32_t dest_qp)
{
    return (struct bth){
        .opcode = ROCE_CNP,
        .mig_req = true,
        .pkey = BTH_PKEY_DEFAULT,
        .becn = true,
        .dest_qp = dest_qp,
    };
}

size_t cnp_emit(uint32_t dest_qp, uint8_t *buf)
{
    struct bth h = cnp_bth(dest_qp);
    memset(buf + bth_emit(&h, buf), 0, CNP_RESERVED_LEN);
    return CNP_LEN;
}
