// How many descriptors the process may have, and whether they are enough for its volumes.

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/host.h"

enum {
    OF_UNIT = 7,   // a process, its socket, its bus, two bells, its standard error, its buffers
    OF_VOLUME = 2, // a keepsake, a window
    OF_VOLUME_IN_HOST = 4, // a device, its engine
    OF_NODE = 64,          // listeners, the first clients, a process that is being started
};

// Clients and units need more descriptors than a process has by habit.
void host_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool shares_unit(const struct host_config *config, size_t index)
{
    const char *unit = config->volumes[index].unit;
    for (size_t i = 0; i < index; i++) {
        bool is_same = strcmp(config->volumes[i].unit, unit) == 0;
        if (is_same && (unit[0] != '\0' || config->rta != HOST_RTA_EACH)) {
            return true;
        }
    }
    return false;
}

static size_t of_volume(const struct host_config *config, const struct volume_wish *wish)
{
    bool is_in_host = config->rta == HOST_RTA_HOST || strcmp(wish->unit, CONFIG_HOST_UNIT) == 0;
    return OF_VOLUME + (is_in_host ? OF_VOLUME_IN_HOST : 0);
}

int host_descriptors_check(const struct host_config *config, struct why *ret_why)
{
    struct rlimit limit;
    size_t needed = OF_NODE;
    for (size_t i = 0; i < config->volume_count; i++) {
        needed += of_volume(config, &config->volumes[i]) + (shares_unit(config, i) ? 0 : OF_UNIT);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) {
        return 0;
    }
    why_say(ret_why, "%zu volumes need about %zu open files, and the limit is %llu",
            config->volume_count, needed, (unsigned long long)limit.rlim_cur);
    return -EMFILE;
}
