// The calls that exist at two versions: those of libibverbs 1.0, of before 2007 (compat.c), and
// those of today, which programs are linked to (libibverbs.map).
#pragma once

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
