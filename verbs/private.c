// What rdma-core's own libraries ask of libibverbs behind the public interface: commands to kernel
// drivers and services for provider libraries. Programs that link libmlx5 or libefa cannot start
// without these symbols, but nothing calls them: those libraries find that the device is not
// theirs. Each says that it is not there. (What has a meaning here, ibv_query_gid_type, stands in
// gid.c.)
//
// No header declares them with these signatures, and none is needed: an answer is a register.

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "verbs/versions.h"

/* ---- the names ------------------------------------------------------------------------------- */

#define INT_CALLS(X)                  \
    X(__ioctl_final_num_attrs)        \
    X(execute_ioctl)                  \
    X(ibv_cmd_advise_mr)              \
    X(ibv_cmd_alloc_dm)               \
    X(ibv_cmd_alloc_dmah)             \
    X(ibv_cmd_alloc_mw)               \
    X(ibv_cmd_alloc_pd)               \
    X(ibv_cmd_attach_mcast)           \
    X(ibv_cmd_close_xrcd)             \
    X(ibv_cmd_create_ah)              \
    X(ibv_cmd_create_comp_cntr)       \
    X(ibv_cmd_create_counters)        \
    X(ibv_cmd_create_cq)              \
    X(ibv_cmd_create_cq_ex)           \
    X(ibv_cmd_create_cq_ex2)          \
    X(ibv_cmd_create_flow)            \
    X(ibv_cmd_create_flow_action_esp) \
    X(ibv_cmd_create_qp)              \
    X(ibv_cmd_create_qp_ex)           \
    X(ibv_cmd_create_qp_ex2)          \
    X(ibv_cmd_create_rwq_ind_table)   \
    X(ibv_cmd_create_srq)             \
    X(ibv_cmd_create_srq_ex)          \
    X(ibv_cmd_create_wq)              \
    X(ibv_cmd_dealloc_mw)             \
    X(ibv_cmd_dealloc_pd)             \
    X(ibv_cmd_dereg_mr)               \
    X(ibv_cmd_destroy_ah)             \
    X(ibv_cmd_destroy_comp_cntr)      \
    X(ibv_cmd_destroy_counters)       \
    X(ibv_cmd_destroy_cq)             \
    X(ibv_cmd_destroy_flow)           \
    X(ibv_cmd_destroy_flow_action)    \
    X(ibv_cmd_destroy_qp)             \
    X(ibv_cmd_destroy_rwq_ind_table)  \
    X(ibv_cmd_destroy_srq)            \
    X(ibv_cmd_destroy_wq)             \
    X(ibv_cmd_detach_mcast)           \
    X(ibv_cmd_export_dmabuf_fd)       \
    X(ibv_cmd_free_dm)                \
    X(ibv_cmd_free_dmah)              \
    X(ibv_cmd_get_context)            \
    X(ibv_cmd_inc_comp_cntr)          \
    X(ibv_cmd_inc_err_comp_cntr)      \
    X(ibv_cmd_modify_cq)              \
    X(ibv_cmd_modify_flow_action_esp) \
    X(ibv_cmd_modify_qp)              \
    X(ibv_cmd_modify_qp_ex)           \
    X(ibv_cmd_modify_srq)             \
    X(ibv_cmd_modify_wq)              \
    X(ibv_cmd_open_qp)                \
    X(ibv_cmd_open_xrcd)              \
    X(ibv_cmd_poll_cq)                \
    X(ibv_cmd_post_recv)              \
    X(ibv_cmd_post_send)              \
    X(ibv_cmd_post_srq_recv)          \
    X(ibv_cmd_qp_attach_comp_cntr)    \
    X(ibv_cmd_query_comp_cntr_caps)   \
    X(ibv_cmd_query_context)          \
    X(ibv_cmd_query_device_any)       \
    X(ibv_cmd_query_mr)               \
    X(ibv_cmd_query_port)             \
    X(ibv_cmd_query_port_speed)       \
    X(ibv_cmd_query_qp)               \
    X(ibv_cmd_query_srq)              \
    X(ibv_cmd_read_comp_cntr)         \
    X(ibv_cmd_read_counters)          \
    X(ibv_cmd_read_err_comp_cntr)     \
    X(ibv_cmd_reg_dm_mr)              \
    X(ibv_cmd_reg_dmabuf_mr)          \
    X(ibv_cmd_reg_mr)                 \
    X(ibv_cmd_reg_mr_ex)              \
    X(ibv_cmd_req_notify_cq)          \
    X(ibv_cmd_rereg_mr)               \
    X(ibv_cmd_resize_cq)              \
    X(ibv_cmd_set_comp_cntr)          \
    X(ibv_cmd_set_err_comp_cntr)      \
    X(ibv_dmabuf_heap_cc_shared_init) \
    X(ibv_dmabuf_heap_destroy)        \
    X(ibv_dmabuf_heap_free)           \
    X(ibv_read_ibdev_sysfs_file)

#define POINTER_CALLS(X)             \
    X(_verbs_init_and_alloc_context) \
    X(ibv_dmabuf_heap_alloc)         \
    X(verbs_open_device)

#define VOID_CALLS(X) \
    X(__verbs_log)    \
    X(verbs_init_cq)  \
    X(verbs_set_ops)  \
    X(verbs_uninit_context)

/* ---- the answers ----------------------------------------------------------------------------- */

static int absent_int(void)
{
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

static void *absent_pointer(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static void absent_void(void)
{
}

#define INT_CALL(name)     VERSIONS_PRIVATE(name, absent_int)
#define POINTER_CALL(name) VERSIONS_PRIVATE(name, absent_pointer)
#define VOID_CALL(name)    VERSIONS_PRIVATE(name, absent_void)

INT_CALLS(INT_CALL)
POINTER_CALLS(POINTER_CALL)
VOID_CALLS(VOID_CALL)

static bool always_false;
VERSIONS_PRIVATE(verbs_allow_disassociate_destroy, always_false)

// Called when libmlx5 and libefa are loaded: a driver more, which will never be matched.
#define REGISTER_DRIVER(number, at)                                     \
    VERSIONED(verbs_register_driver_##number, register_driver_##number, \
              at "IBVERBS_PRIVATE_" #number, absent_void)

REGISTER_DRIVER(34, "@")
REGISTER_DRIVER(57, "")
REGISTER_DRIVER(59, "")
REGISTER_DRIVER(64, "")
REGISTER_DRIVER(65, "")

/* ---- public, and of no more use -------------------------------------------------------------- */

#define ABSENT_VOID(name) \
    void name(void);      \
    void name(void)       \
    {                     \
    }

ABSENT_VOID(ibv_copy_ah_attr_from_kern)
ABSENT_VOID(ibv_copy_path_rec_from_kern)
ABSENT_VOID(ibv_copy_path_rec_to_kern)
ABSENT_VOID(ibv_copy_qp_attr_from_kern)
