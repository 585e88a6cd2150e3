// <weft/reads.h>: the reads of this process's devices, for the program itself.
#include "rnic/reads.h"

#include <errno.h>

#include <weft/reads.h>

#include "base/device_wire.h"
#include "host/process.h"

#define ALLOTMENT_MAX_LEN (1U << 30)

int weft_reads_query(struct weft_reads *ret)
{
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    const int count = host_rnics(rnics);
    if (count < 0) {
        return count;
    }
    struct report_reads reads = rnic_reads(rnics[0]);
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
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    if (octets > ALLOTMENT_MAX_LEN) {
        return -EINVAL;
    }
    const int count = host_rnics(rnics);
    for (int i = 0; i < count; i++) {
        rnic_reads_set_allotment(rnics[i], octets);
    }
    return count < 0 ? count : 0;
}

int weft_reads_release_allotment(void)
{
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    const int count = host_rnics(rnics);
    for (int i = 0; i < count; i++) {
        rnic_reads_release_allotment(rnics[i]);
    }
    return count < 0 ? count : 0;
}

int weft_reads_set_memory_short(bool is_short)
{
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    const int count = host_rnics(rnics);
    for (int i = 0; i < count; i++) {
        rnic_reads_set_memory(rnics[i], RNIC_MEMORY_TOLD, is_short);
    }
    return count < 0 ? count : 0;
}
