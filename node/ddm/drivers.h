// The drivers and filters, one file each.
#pragma once

#include "node/interface/rta_ddm.h"

extern const struct ddm_driver ddm_ata, ddm_file, ddm_iscsi, ddm_iscsi_rdma, ddm_null, ddm_nvme,
    ddm_nvme_tcp, ddm_ram, ddm_rbd, ddm_sg;
extern const struct ddm_driver ddm_delay, ddm_error, ddm_log, ddm_lose;
