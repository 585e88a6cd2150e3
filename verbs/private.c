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

#define ABSENT_INT(name)    \
    int name(void);         \
    int name(void)          \
    {                       \
        errno = EOPNOTSUPP; \
        return EOPNOTSUPP;  \
    }

#define ABSENT_POINTER(name) \
    void *name(void);        \
    void *name(void)         \
    {                        \
        errno = EOPNOTSUPP;  \
        return NULL;         \
    }

#define ABSENT_VOID(name) \
    void name(void);      \
    void name(void)       \
    {                     \
    }

ABSENT_INT(__ioctl_final_num_attrs)
ABSENT_INT(execute_ioctl)
ABSENT_INT(ibv_cmd_advise_mr)
ABSENT_INT(ibv_cmd_alloc_dm)
ABSENT_INT(ibv_cmd_alloc_mw)
ABSENT_INT(ibv_cmd_alloc_pd)
ABSENT_INT(ibv_cmd_attach_mcast)
ABSENT_INT(ibv_cmd_close_xrcd)
ABSENT_INT(ibv_cmd_create_ah)
ABSENT_INT(ibv_cmd_create_counters)
ABSENT_INT(ibv_cmd_create_cq)
ABSENT_INT(ibv_cmd_create_cq_ex)
ABSENT_INT(ibv_cmd_create_cq_ex2)
ABSENT_INT(ibv_cmd_create_flow)
ABSENT_INT(ibv_cmd_create_flow_action_esp)
ABSENT_INT(ibv_cmd_create_qp)
ABSENT_INT(ibv_cmd_create_qp_ex)
ABSENT_INT(ibv_cmd_create_qp_ex2)
ABSENT_INT(ibv_cmd_create_rwq_ind_table)
ABSENT_INT(ibv_cmd_create_srq)
ABSENT_INT(ibv_cmd_create_srq_ex)
ABSENT_INT(ibv_cmd_create_wq)
ABSENT_INT(ibv_cmd_dealloc_mw)
ABSENT_INT(ibv_cmd_dealloc_pd)
ABSENT_INT(ibv_cmd_dereg_mr)
ABSENT_INT(ibv_cmd_destroy_ah)
ABSENT_INT(ibv_cmd_destroy_counters)
ABSENT_INT(ibv_cmd_destroy_cq)
ABSENT_INT(ibv_cmd_destroy_flow)
ABSENT_INT(ibv_cmd_destroy_flow_action)
ABSENT_INT(ibv_cmd_destroy_qp)
ABSENT_INT(ibv_cmd_destroy_rwq_ind_table)
ABSENT_INT(ibv_cmd_destroy_srq)
ABSENT_INT(ibv_cmd_destroy_wq)
ABSENT_INT(ibv_cmd_detach_mcast)
ABSENT_INT(ibv_cmd_free_dm)
ABSENT_INT(ibv_cmd_get_context)
ABSENT_INT(ibv_cmd_modify_cq)
ABSENT_INT(ibv_cmd_modify_flow_action_esp)
ABSENT_INT(ibv_cmd_modify_qp)
ABSENT_INT(ibv_cmd_modify_qp_ex)
ABSENT_INT(ibv_cmd_modify_srq)
ABSENT_INT(ibv_cmd_modify_wq)
ABSENT_INT(ibv_cmd_open_qp)
ABSENT_INT(ibv_cmd_open_xrcd)
ABSENT_INT(ibv_cmd_poll_cq)
ABSENT_INT(ibv_cmd_post_recv)
ABSENT_INT(ibv_cmd_post_send)
ABSENT_INT(ibv_cmd_post_srq_recv)
ABSENT_INT(ibv_cmd_query_context)
ABSENT_INT(ibv_cmd_query_device_any)
ABSENT_INT(ibv_cmd_query_mr)
ABSENT_INT(ibv_cmd_query_port)
ABSENT_INT(ibv_cmd_query_qp)
ABSENT_INT(ibv_cmd_query_srq)
ABSENT_INT(ibv_cmd_read_counters)
ABSENT_INT(ibv_cmd_reg_dm_mr)
ABSENT_INT(ibv_cmd_reg_dmabuf_mr)
ABSENT_INT(ibv_cmd_reg_mr)
ABSENT_INT(ibv_cmd_req_notify_cq)
ABSENT_INT(ibv_cmd_rereg_mr)
ABSENT_INT(ibv_cmd_resize_cq)
ABSENT_INT(ibv_read_ibdev_sysfs_file)

ABSENT_POINTER(_verbs_init_and_alloc_context)
ABSENT_POINTER(verbs_open_device)

ABSENT_VOID(__verbs_log)
ABSENT_VOID(ibv_copy_ah_attr_from_kern)
ABSENT_VOID(ibv_copy_path_rec_from_kern)
ABSENT_VOID(ibv_copy_path_rec_to_kern)
ABSENT_VOID(ibv_copy_qp_attr_from_kern)
ABSENT_VOID(verbs_init_cq)
ABSENT_VOID(verbs_set_ops)
ABSENT_VOID(verbs_uninit_context)

// Called when libmlx5 and libefa are loaded: a driver more, which will never be matched.
ABSENT_VOID(verbs_register_driver_34)

extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;
