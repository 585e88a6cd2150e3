#include "cli/unsupported.h"

#include <stddef.h>
#include <string.h>

// In step with verbs/absent.c: tests/cli/test_unsupported.py compares them and calls each.
static const char *const functions[] = {
    "ibv_alloc_dmah",
    "ibv_dealloc_dmah",
    "ibv_dm_export_dmabuf_fd",
    "ibv_import_device",
    "ibv_import_dm",
    "ibv_import_mr",
    "ibv_import_pd",
    "ibv_query_ece",
    "ibv_reg_dmabuf_mr",
    "ibv_resolve_eth_l2_from_gid",
    "ibv_set_ece",
};

bool is_unsupported(const char *function)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(functions[i], function) == 0) {
            return true;
        }
    }
    return false;
}
