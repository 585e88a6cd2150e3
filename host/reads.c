// <weft/reads.h>: the reads of this process's device, for the program itself.
#include "rnic/reads.h"

#include <errno.h>

#include <weft/reads.h>

#include "base/device_wire.h"
#include "host/process.h"

#define ALLOTMENT_MAX_LEN (1U << 30)

int weft_reads_query(struct weft_reads *ret)
{
    int error;
    struct rnic *rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    if (rnic == NULL) {
        return error;
    }
    struct report_reads reads = rnic_reads(rnic);
    *ret = (struct weft_reads){
        .allotment = reads.allotment_len,
        .allotment_base = reads.allotment_base_len,
        .contexts = reads.context_count,
        .contexts_in_use = reads.contexts_in_use,
        .waiting = reads.waiting_count,
    };
    return 0;
}

int weft_reads_set_allotment(uint32_t octets)
{
    int error;
    if (octets > ALLOTMENT_MAX_LEN) {
        return -EINVAL;
    }
    struct rnic *rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    if (rnic != NULL) {
        rnic_reads_set_allotment(rnic, octets);
    }
    return error;
}

int weft_reads_release_allotment(void)
{
    int error;
    struct rnic *rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    if (rnic != NULL) {
        rnic_reads_release_allotment(rnic);
    }
    return error;
}

int weft_reads_set_memory_short(bool is_short)
{
    int error;
    struct rnic *rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    if (rnic != NULL) {
        rnic_reads_set_memory(rnic, RNIC_MEMORY_TOLD, is_short);
    }
    return error;
}
