#include "node/unit/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

// The kernel's interface as its headers of today have it; those of Debian 12 end with version 2.
enum {
    NR_CREATE_RULESET = 444,
    NR_RESTRICT_SELF = 446,
    FLAG_VERSION = 1 << 0,
    VERSION_SIGNALS = 6,
    FS_EXECUTE = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

uint32_t landlock_version(void)
{
    long found = syscall(NR_CREATE_RULESET, NULL, 0, FLAG_VERSION);
    return found > 0 ? (uint32_t)found : 0;
}

// Rights over files that a version knows: 13 at first, then link or rename elsewhere, truncate, and
// ioctl of devices.
static uint64_t all_fs(uint32_t version)
{
    unsigned count = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    return (UINT64_C(1) << count) - 1;
}

// A ruleset without rules: what it handles is refused.
static int restrict_self(const struct ruleset *ruleset, uint32_t version)
{
    size_t len = version >= VERSION_SIGNALS ? sizeof *ruleset : sizeof ruleset->handled_fs;
    int fd = (int)syscall(NR_CREATE_RULESET, ruleset, len, 0);
    if (fd < 0) {
        return -1;
    }
    int result = (int)syscall(NR_RESTRICT_SELF, fd, 0);
    close(fd);
    return result;
}

uint32_t landlock_from_others(void)
{
    uint32_t found = landlock_version();
    const struct ruleset ruleset = {.handled_fs = FS_EXECUTE,
                                    .scoped = found >= VERSION_SIGNALS ? SCOPE_SIGNAL : 0};
    return found > 0 && restrict_self(&ruleset, found) == 0 ? found : 0;
}

void landlock_from_files(void)
{
    uint32_t found = landlock_version();
    const struct ruleset ruleset = {.handled_fs = all_fs(found)};
    if (found > 0) {
        restrict_self(&ruleset, found); // what cannot be had, status has told
    }
}
