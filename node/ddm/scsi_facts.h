// What a SCSI device is and can do, asked of the device itself.
#pragma once

#include "format/scsi.h"
#include "node/ddm/scsi_transport.h"
#include "node/interface/volume.h"

struct scsi_facts {
    struct scsi_inquiry inquiry;
    struct scsi_capacity capacity;
    struct scsi_limits limits;
    struct scsi_provisioning provisioning;
    struct scsi_mode mode;
    bool can_write_same;
    struct volume_lineage lineage;
    char name[SCSI_NAME_MAX]; // of the logical unit; empty: it has none
};

// One command, waited for; a unit attention, or a device that is busy, is asked again. 0, or a
// negative errno: no good answer; `ret_why` has what was said. `ret_len` may be NULL.
int scsi_ask(struct scsi_transport *transport, const uint8_t cdb[SCSI_CDB_LEN], void *data,
             uint32_t data_len, uint32_t *ret_len, struct why *ret_why);

// From the page of it, header and all; an empty one where that is none.
void scsi_lineage_take(const uint8_t *page, uint32_t len, struct volume_lineage *ret);

// 0, or a negative errno with the reason in `ret_why`: it cannot be used.
int scsi_facts_find(struct scsi_transport *transport, struct scsi_facts *ret, struct why *ret_why);

// Sizes change: the capacity anew.
int scsi_capacity_find(struct scsi_transport *transport, struct scsi_capacity *ret,
                       struct why *ret_why);
