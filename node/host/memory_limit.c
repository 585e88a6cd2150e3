#include "node/host/memory_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_LEN_MAX = 1024 };

// One group's limit; "max", and a file that is not there, are none.
static uint64_t limit_read(const char *path)
{
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%" SCNu64, &limit) != 1) {
        limit = UINT64_MAX;
    }
    if (file != NULL) {
        fclose(file);
    }
    return limit;
}

// From the group up to the root of its hierarchy.
static uint64_t hierarchy_limit(const char *mount, char *group, const char *file)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[2 * PATH_LEN_MAX];
        snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
        uint64_t limit = limit_read(path);
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

// A line of /proc/self/cgroup is NUMBER:CONTROLLERS:GROUP; version 2 names no controllers.
static uint64_t line_limit(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return UINT64_MAX;
    }
    *group++ = '\0';
    if (strcmp(controllers + 1, "memory") == 0) {
        return hierarchy_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
    return controllers[1] == '\0' ? hierarchy_limit("/sys/fs/cgroup", group, "memory.max")
                                  : UINT64_MAX;
}

uint64_t memory_limit(void)
{
    char line[PATH_LEN_MAX];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t limit = line_limit(line);
        least = limit < least ? limit : least;
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
