// The drivers and filters, one file each.
#pragma once

#include "node/interface/rta_ddm.h"

extern const struct ddm_driver ddm_file, ddm_null, ddm_nvme, ddm_ram;
extern const struct ddm_driver ddm_delay, ddm_error, ddm_log, ddm_lose;
