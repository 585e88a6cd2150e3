// Memory calls of the fronts: mem/ under the shard's lock, so that when a deregistration returns no
// engine touches the memory any more.

#include <errno.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/probe.h"
#include "mem/verdict.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "rnic/pull.h"

// What a table has no room for is memory that the device has not: to programs it is all one.
static int out_of_memory(int error)
{
    return error == -ENOSPC ? -ENOMEM : error;
}

int rnic_pd_alloc(struct rnic *rnic, uint32_t *ret_pd)
{
    rnic_enter(rnic);
    int error = out_of_memory(mem_pd_alloc(rnic->mem, ret_pd));
    return rnic_leave(rnic, error);
}

int rnic_pd_dealloc(struct rnic *rnic, uint32_t pd)
{
    rnic_enter(rnic);
    int error = mem_pd_dealloc(rnic->mem, pd);
    return rnic_leave(rnic, error);
}

int rnic_region_register(struct rnic *rnic, uint32_t pd, void *addr, uint64_t len, uint64_t iova,
                         uint32_t access, uint32_t *ret_stag)
{
    rnic_enter(rnic);
    int error =
        out_of_memory(mem_region_register(rnic->mem, pd, addr, len, iova, access, ret_stag));
    if (error == 0) {
        TRACE(rnic->trace, TRACE_MEM,
              "STag 0x%08x: region of %llu octets at %p, offset 0x%llx, "
              "access 0x%x, pd %u",
              *ret_stag, (unsigned long long)len, addr, (unsigned long long)iova, access, pd);
        PROBE4(region_registered, *ret_stag, addr, len, access);
    } else {
        TRACE(rnic->trace, TRACE_MEM, "no region of %llu octets at %p: %s", (unsigned long long)len,
              addr, errno_name(-error));
    }
    return rnic_leave(rnic, error);
}

// The region is gone from the table, but batches that the link has not taken yet may name its
// octets: those connections end, as they do when a work request's memory proves unusable.
static void region_release(struct rnic *rnic, uint32_t stag)
{
    struct list_link *l = rnic->shard.endpoints.next;
    while (l != &rnic->shard.endpoints) {
        struct rnic_ep *ep = LIST_ENTRY(l, struct rnic_ep, all_link);
        l = l->next;
        if (ep->out.batch != NULL && ep->qp != NULL && wq_reads_from(ep->qp->wq, stag)) {
            ep_close(ep, QP_CLOSE_LOCAL, true, rnic_now(rnic));
        }
    }
}

// A peer may be inside of a Write by the key that was withdrawn: we wait for it, nobody else does.
static int leave_revoked(struct rnic *rnic, int error)
{
    const uint64_t generation = rnic->revoking;
    rnic->revoking = 0;
    rnic_leave(rnic, error);
    shard_await_writers(&rnic->shard, generation);
    return error;
}

int rnic_region_reregister(struct rnic *rnic, uint32_t stag, unsigned flags, uint32_t pd,
                           void *addr, uint64_t len, uint32_t access, uint32_t *ret_stag)
{
    struct mem_reregistration change = {
        .changes = flags,
        .pd = pd,
        .access = access,
        .addr = addr,
        .length = len,
        .iova = (uint64_t)(uintptr_t)addr,
    };
    rnic_enter(rnic);
    shard_await_copies_of(&rnic->shard, stag);
    int error = mem_region_reregister(rnic->mem, stag, &change, ret_stag);
    TRACE(rnic->trace, TRACE_MEM, "STag 0x%08x: changes 0x%x: %s", stag, flags,
          error == 0 ? "done" : errno_name(-error));
    if (error == 0 && (flags & MEM_CHANGE_TRANSLATION) != 0) {
        region_release(rnic, stag);
    }
    return leave_revoked(rnic, error);
}

int rnic_region_deregister(struct rnic *rnic, uint32_t stag)
{
    rnic_enter(rnic);
    shard_await_copies_of(&rnic->shard, stag);
    int error = mem_region_deregister(rnic->mem, stag);
    TRACE(rnic->trace, TRACE_MEM, "STag 0x%08x: deregistered: %s", stag,
          error == 0 ? "done" : errno_name(-error));
    if (error == 0) {
        PROBE1(region_deregistered, stag);
        region_release(rnic, stag);
    }
    return leave_revoked(rnic, error);
}

int rnic_region_prefetch(struct rnic *rnic, uint32_t pd, const struct sge *sge, bool write,
                         bool mapped)
{
    static const int errors[MEM_VERDICT_COUNT] = {
        [MEM_INVALID_STAG] = -ENOENT,      [MEM_WRONG_PD] = -EPERM, [MEM_ACCESS] = -EPERM,
        [MEM_CANNOT_INVALIDATE] = -EINVAL, [MEM_BOUNDS] = -EFAULT,  [MEM_WRAP] = -EFAULT,
        [MEM_UNMAPPED] = -EFAULT,
    };
    rnic_enter(rnic);
    enum mem_verdict verdict = mem_region_prefetch(rnic->mem, pd, sge, write, mapped);
    return rnic_leave(rnic, errors[verdict]);
}

int rnic_window_alloc(struct rnic *rnic, uint32_t pd, unsigned type, uint32_t *ret_rkey)
{
    rnic_enter(rnic);
    int error =
        out_of_memory(mem_window_alloc(rnic->mem, (enum mem_window_type)type, pd, ret_rkey));
    if (error == 0) {
        TRACE(rnic->trace, TRACE_MEM, "STag 0x%08x: window of type %u, pd %u", *ret_rkey, type, pd);
    }
    return rnic_leave(rnic, error);
}

int rnic_window_dealloc(struct rnic *rnic, uint32_t rkey)
{
    rnic_enter(rnic);
    int error = mem_window_dealloc(rnic->mem, rkey);
    TRACE(rnic->trace, TRACE_MEM, "STag 0x%08x: window gone: %s", rkey,
          error == 0 ? "done" : errno_name(-error));
    return rnic_leave(rnic, error);
}
