// The drivers and filters, one file each, and what several of them stand on.
//
//     file.c       a file or a block device, by the engine of file_uring.c or file_threads.c, and
//                  by the page cache (file_cache.h)
//     ram.c        memory
//     null.c       nothing
//     nvme.c       a namespace of another target, by its paths (nvme_paths.h)
//     scsi.c       a logical unit, by a transport (scsi_transport.h): scsi_iscsi.c, scsi_rdma.c,
//                  or scsi_sg.c
//     ata.c        an ATA disk, by the last of these
//     rbd.c        an image of a Ceph cluster, by a module
//
// and filters: delay.c, error.c, log.c, lose.c
#pragma once

#include "node/interface/rta_ddm.h"

extern const struct ddm_driver ddm_ata, ddm_file, ddm_iscsi, ddm_iscsi_rdma, ddm_null, ddm_nvme,
    ddm_nvme_tcp, ddm_ram, ddm_rbd, ddm_sg;
extern const struct ddm_driver ddm_delay, ddm_error, ddm_log, ddm_lose;
