// The calls of libibverbs 1.0. Their structures were others, so they are not the calls of today
// under an old name: there is no device for them, and nothing but that is ever asked.

#include <errno.h>
#include <stddef.h>

#include "verbs/versions.h"

void *compat_refuse(void);
void *compat_refuse(void)
{
    errno = ENOSYS;
    return NULL;
}

#define COMPAT(name, version) VERSIONED(name, compat_##name, version, compat_refuse)
#define COMPAT_1_0(name)      COMPAT(name, "IBVERBS_1.0")

VERSIONS_BOTH(COMPAT_1_0)
COMPAT(ibv_register_driver, "IBVERBS_1.1")
