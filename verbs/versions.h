// Symbols at more than one version: how a further one is said, the versions of rdma-core's private
// interface, and the calls that were others in libibverbs 1.0, of before 2007 (compat.c). The
// versions that programs are linked to stand in libibverbs.map.
#pragma once

// `name` at `version` is `target`, which the same file defines; `alias_name` is nobody else's. With
// link-time optimisation no assembly stands beside the symbols that it names: compilers that have
// it take the version as an attribute.
#if __has_attribute(symver)
#define VERSIONED(name, alias_name, version, target) \
    extern __typeof__(target) alias_name __attribute__((alias(#target), symver(#name "@" version)));
#else
#define VERSIONED(name, alias_name, version, target)                            \
    extern __typeof__(target) alias_name __attribute__((alias(#target), used)); \
    __asm__(".symver " #alias_name "," #name "@" version);
#endif

// The private interface has the number of the rdma-core that changed it last; the default here is
// that of 39 to 56. What changed since is nothing that anybody here is asked for.
#define VERSIONS_PRIVATE(name, target)                                \
    VERSIONED(name, name##_private_34, "@IBVERBS_PRIVATE_34", target) \
    VERSIONED(name, name##_private_57, "IBVERBS_PRIVATE_57", target)  \
    VERSIONED(name, name##_private_59, "IBVERBS_PRIVATE_59", target)  \
    VERSIONED(name, name##_private_64, "IBVERBS_PRIVATE_64", target)  \
    VERSIONED(name, name##_private_65, "IBVERBS_PRIVATE_65", target)

#define VERSIONS_BOTH(X)    \
    X(ibv_ack_async_event)  \
    X(ibv_ack_cq_events)    \
    X(ibv_alloc_pd)         \
    X(ibv_attach_mcast)     \
    X(ibv_close_device)     \
    X(ibv_create_ah)        \
    X(ibv_create_cq)        \
    X(ibv_create_qp)        \
    X(ibv_create_srq)       \
    X(ibv_dealloc_pd)       \
    X(ibv_dereg_mr)         \
    X(ibv_destroy_ah)       \
    X(ibv_destroy_cq)       \
    X(ibv_destroy_qp)       \
    X(ibv_destroy_srq)      \
    X(ibv_detach_mcast)     \
    X(ibv_free_device_list) \
    X(ibv_get_async_event)  \
    X(ibv_get_cq_event)     \
    X(ibv_get_device_guid)  \
    X(ibv_get_device_list)  \
    X(ibv_get_device_name)  \
    X(ibv_modify_qp)        \
    X(ibv_modify_srq)       \
    X(ibv_open_device)      \
    X(ibv_query_device)     \
    X(ibv_query_gid)        \
    X(ibv_query_pkey)       \
    X(ibv_query_port)       \
    X(ibv_query_qp)         \
    X(ibv_query_srq)        \
    X(ibv_reg_mr)           \
    X(ibv_resize_cq)
