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

// With link-time optimisation no assembly stands beside the symbols that it names: compilers that
// have it take the version as an attribute.
#if __has_attribute(symver)
#define COMPAT(name, version)                      \
    extern __typeof__(compat_refuse) compat_##name \
        __attribute__((alias("compat_refuse"), symver(#name "@" version)));
#else
#define COMPAT(name, version)                                                                     \
    extern __typeof__(compat_refuse) compat_##name __attribute__((alias("compat_refuse"), used)); \
    __asm__(".symver compat_" #name "," #name "@" version);
#endif

#define COMPAT_1_0(name) COMPAT(name, "IBVERBS_1.0")

VERSIONS_BOTH(COMPAT_1_0)
COMPAT(ibv_register_driver, "IBVERBS_1.1")
