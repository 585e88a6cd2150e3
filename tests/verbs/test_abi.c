// The layouts that programs have compiled in. Where the header this is built with is older or newer
// than rdma-core 44, a structure may have less or more at its end; nothing else may differ. And the
// statuses of completions.
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "wq/status.h"

struct layout {
    const char *what;
    size_t actual, expected;
};

#define SIZE(type, expected)                           \
    {                                                  \
        "sizeof " #type, sizeof(struct type), expected \
    }
#define OFFSET(type, member, expected)                                          \
    {                                                                           \
        "offset of " #type "." #member, offsetof(struct type, member), expected \
    }
#define STATUS(name)                          \
    {                                         \
        "WC_" #name, WC_##name, IBV_WC_##name \
    }

static void check(const struct layout *layouts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (layouts[i].actual != layouts[i].expected) {
            fail_msg("%s is %zu, programs have %zu", layouts[i].what, layouts[i].actual,
                     layouts[i].expected);
        }
    }
}

static void sizes_are_those_of_programs(void **state)
{
    static const struct layout sizes[] = {
        SIZE(ibv_device, 664),
        SIZE(ibv_context, 328),
        SIZE(verbs_context, 648),
        SIZE(ibv_pd, 16),
        SIZE(ibv_mr, 48),
        SIZE(ibv_mw, 32),
        SIZE(ibv_cq, 128),
        SIZE(ibv_cq_ex, 288),
        SIZE(ibv_qp, 160),
        SIZE(ibv_srq, 128),
        SIZE(ibv_comp_channel, 16),
        SIZE(ibv_wc, 48),
        SIZE(ibv_send_wr, 128),
        SIZE(ibv_recv_wr, 32),
        SIZE(ibv_sge, 16),
        SIZE(ibv_device_attr, 232),
        SIZE(ibv_device_attr_ex, 400),
    };
    check(sizes, sizeof sizes / sizeof sizes[0]);
}

static void members_stand_where_inline_functions_look(void **state)
{
    static const struct layout offsets[] = {
        OFFSET(ibv_context, ops, 8),
        OFFSET(ibv_context, abi_compat, 320),
        OFFSET(verbs_context, query_port, 0),
        OFFSET(verbs_context, sz, 312),
        OFFSET(verbs_context, context, 320),
        OFFSET(ibv_cq_ex, start_poll, 144),
        OFFSET(ibv_qp_ex, wr_start, 320),
        OFFSET(ibv_port_attr, flags, 47),
        OFFSET(ibv_port_attr, port_cap_flags2, 48),
    };
    check(offsets, sizeof offsets / sizeof offsets[0]);
}

static void tail_of_a_growing_structure_is_not_cut(void **state)
{
    assert_true(sizeof(struct ibv_port_attr) >= 52);
    assert_true(sizeof(struct ibv_qp_ex) >= 344);
}

// verbs/cq.c hands the engine's on as they are.
static void statuses_are_those_of_programs(void **state)
{
    static const struct layout statuses[] = {
        STATUS(LOC_LEN_ERR),     STATUS(LOC_QP_OP_ERR),     STATUS(LOC_PROT_ERR),
        STATUS(WR_FLUSH_ERR),    STATUS(MW_BIND_ERR),       STATUS(BAD_RESP_ERR),
        STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR),    STATUS(REM_OP_ERR),
        STATUS(RETRY_EXC_ERR),   STATUS(RNR_RETRY_EXC_ERR), STATUS(GENERAL_ERR),
    };
    check(statuses, sizeof statuses / sizeof statuses[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_programs),
        cmocka_unit_test(members_stand_where_inline_functions_look),
        cmocka_unit_test(statuses_are_those_of_programs),
        cmocka_unit_test(tail_of_a_growing_structure_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
