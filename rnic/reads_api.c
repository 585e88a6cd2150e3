// What the fronts and an operator ask and say of reads: the lock here, the work in reads.c.

#include "rnic/internal.h"
#include "rnic/reads.h"

struct report_reads rnic_reads(struct rnic *rnic)
{
    rnic_enter(rnic);
    struct report_reads reads = reads_query(rnic);
    rnic_leave(rnic, 0);
    return reads;
}

void rnic_reads_set_allotment(struct rnic *rnic, uint32_t allotment_len)
{
    rnic_enter(rnic);
    uint32_t old_len = rnic->allotment.len;
    if (allotment_policy_on_operator(&rnic->allotment, allotment_len)) {
        reads_spread(rnic, old_len, ALLOTMENT_OPERATOR, rnic_now(rnic));
    }
    rnic_leave(rnic, 0);
}

void rnic_reads_release_allotment(struct rnic *rnic)
{
    rnic_enter(rnic);
    uint32_t old_len = rnic->allotment.len;
    if (allotment_policy_on_release(&rnic->allotment, rnic->config.read_allotment_len)) {
        reads_spread(rnic, old_len, ALLOTMENT_OPERATOR, rnic_now(rnic));
    }
    rnic_leave(rnic, 0);
}

void rnic_reads_set_memory(struct rnic *rnic, enum rnic_memory_source source, bool is_short)
{
    rnic_enter(rnic);
    uint32_t old_len = rnic->allotment.len;
    rnic->memory_short_by &= ~(unsigned)source;
    rnic->memory_short_by |= is_short ? source : 0;
    if (allotment_policy_on_memory(&rnic->allotment, rnic->memory_short_by != 0)) {
        reads_spread(rnic, old_len, ALLOTMENT_MEMORY, rnic_now(rnic));
    }
    rnic_leave(rnic, 0);
}
