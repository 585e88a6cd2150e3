// Memory regions.

#include <stdlib.h>

#include "base/check.h"
#include "verbs/front.h"

STATIC_CHECK((int)MEM_ACCESS_ON_DEMAND == (int)IBV_ACCESS_ON_DEMAND);

// What ibv_reg_mr(3) names and needs an RNIC with persistent memory, beside a hint.
enum {
    ACCESS_HUGETLB = 1 << 7, // a hint
    ACCESS_FLUSH_GLOBAL = 1 << 8,
    ACCESS_FLUSH_PERSISTENT = 1 << 9,
    ACCESS_ABSENT = ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT,
};

// Access rights as the STag table has them. 0, or EOPNOTSUPP.
static int access_translate(unsigned int access, uint32_t *ret)
{
    const bool is_relaxed = (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
    access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
    if (access & ACCESS_ABSENT) {
        return EOPNOTSUPP;
    }
    *ret = (access & ~(unsigned int)ACCESS_HUGETLB) |
           (is_relaxed ? (uint32_t)MEM_ACCESS_RELAXED_ORDERING : 0U);
    return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    uint32_t rights;
    int error = access_translate(access, &rights);
    if (error != 0) {
        return front_null(error);
    }
    if (!front_pd_is_known(pd)) {
        return front_null(ENOENT);
    }
    if (!front_is_alive(pd->context)) {
        return front_null(EIO);
    }
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    if (mr == NULL) {
        return front_null(ENOMEM);
    }
    uint32_t stag;
    error = rnic_region_register(front_context_of(pd->context)->rnic, pd->handle, addr, length,
                                 iova, rights, &stag);
    if (error != 0) {
        free(mr);
        return front_null(-error);
    }
    *mr = (struct ibv_mr){
        .context = pd->context,
        .pd = pd,
        .addr = addr,
        .length = length,
        .handle = stag,
        .lkey = stag,
        .rkey = stag,
    };
    front_context_hold(mr->context);
    return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

// A refused change leaves the region as it was, so every refusal is IBV_REREG_MR_ERR_INPUT: "old MR
// is valid".
static int rereg_refuse(int error)
{
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    const bool translates = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || flags == 0 ||
        (translates && (addr == NULL || length == 0)) ||
        (access != 0 && !(flags & IBV_REREG_MR_CHANGE_ACCESS)) ||
        ((flags & IBV_REREG_MR_CHANGE_PD) && (pd == NULL || pd->context != mr->context))) {
        return rereg_refuse(EINVAL);
    }
    uint32_t rights;
    int error = access_translate((unsigned int)access, &rights);
    if (error != 0) {
        return rereg_refuse(error);
    }
    if (mr->handle != mr->lkey || ((flags & IBV_REREG_MR_CHANGE_PD) && !front_pd_is_known(pd))) {
        return rereg_refuse(ENOENT);
    }
    if (!front_is_alive(mr->context)) {
        return rereg_refuse(EIO);
    }
    uint32_t stag;
    error = rnic_region_reregister(front_context_of(mr->context)->rnic, mr->lkey, (unsigned)flags,
                                   flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0, addr, length,
                                   rights, &stag);
    if (error != 0) {
        return rereg_refuse(-error);
    }
    mr->handle = mr->lkey = mr->rkey = stag;
    if (flags & IBV_REREG_MR_CHANGE_PD) {
        mr->pd = pd;
    }
    if (translates) {
        mr->addr = addr;
        mr->length = length;
    }
    return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    int error = mr->handle == mr->lkey ? 0 : -ENOENT;
    if (error == 0 && front_is_alive(mr->context)) {
        error = rnic_region_deregister(front_context_of(mr->context)->rnic, mr->lkey);
    }
    if (error != 0) {
        return front_fail(-error);
    }
    front_context_release(mr->context);
    free(mr);
    return 0;
}

/* ---- advice ---------------------------------------------------------------------------------- */

// No table of a device has to be filled before an access: what is left of a prefetch is to say
// whether it could be done.
int front_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                    struct ibv_sge *sg_list, uint32_t num_sge)
{
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
        return front_fail(EOPNOTSUPP);
    }
    if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) != 0 || num_sge == 0) {
        return front_fail(EINVAL);
    }
    if (!front_pd_is_known(pd)) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(pd->context)) {
        return front_fail(EIO);
    }
    for (uint32_t i = 0; i < num_sge; i++) {
        const struct sge sge = {sg_list[i].addr, sg_list[i].length, sg_list[i].lkey};
        int error = rnic_region_prefetch(front_context_of(pd->context)->rnic, pd->handle, &sge,
                                         advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                         advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
        if (error != 0) {
            return front_fail(-error);
        }
    }
    return 0;
}
