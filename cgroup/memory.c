#include "cgroup/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_LEN = 4096 };

// A hierarchy that this process sees: the group that is its root here, and where that is mounted.
struct hierarchy {
    char root[CGROUP_FOLDER_LEN], mounted_at[CGROUP_FOLDER_LEN];
};

// Version 1 writes a number of this size for none.
static const uint64_t no_limit_len = UINT64_C(1) << 62;

// One of a group's limits; "max", and a file that is not there, are none.
static uint64_t limit_read(const char *folder, const char *name)
{
    char path[CGROUP_FOLDER_LEN + 64];
    uint64_t len = UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    if (fscanf(file, "%" SCNu64, &len) != 1 || len >= no_limit_len) {
        len = UINT64_MAX;
    }
    fclose(file);
    return len;
}

// Takes one group into what is known of those below it.
static void group_look(const char *folder, bool is_version_1, struct cgroup_memory *ret)
{
    uint64_t most_len = limit_read(folder, is_version_1 ? "memory.limit_in_bytes" : "memory.max");
    ret->most_len = most_len < ret->most_len ? most_len : ret->most_len;
    if (ret->folder[0] == '\0' &&
        (most_len != UINT64_MAX ||
         (!is_version_1 && limit_read(folder, "memory.high") != UINT64_MAX))) {
        snprintf(ret->folder, sizeof ret->folder, "%s", folder);
        ret->is_version_1 = is_version_1;
    }
}

// A line of mountinfo: numbers, the group that is the mount's root, where it is mounted, options;
// behind a dash the kind, the source and the hierarchy's options: version 1 names controllers.
static bool mount_read(char *line, bool is_version_1, struct hierarchy *ret)
{
    char options[LINE_LEN] = "", kind[32] = "";
    const char *rest = strstr(line, " - ");
    if (rest == NULL || sscanf(rest, " - %31s %*s %4095s", kind, options) < 1 ||
        strcmp(kind, is_version_1 ? "cgroup" : "cgroup2") != 0 ||
        sscanf(line, "%*s %*s %*s %1023s %1023s", ret->root, ret->mounted_at) != 2) {
        return false;
    }
    if (!is_version_1) {
        return true;
    }
    char *rest_of_options = options;
    const char *option;
    while ((option = strsep(&rest_of_options, ",")) != NULL) {
        if (strcmp(option, "memory") == 0) {
            return true;
        }
    }
    return false;
}

static bool hierarchy_find(const char *proc, bool is_version_1, struct hierarchy *ret)
{
    char path[CGROUP_FOLDER_LEN], line[LINE_LEN];
    bool is_found = false;
    snprintf(path, sizeof path, "%s/mountinfo", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && !is_found && fgets(line, sizeof line, file) != NULL) {
        is_found = mount_read(line, is_version_1, ret);
    }
    if (file != NULL) {
        fclose(file);
    }
    return is_found;
}

// The part of a group's name below the mount's root; NULL: it is not below it.
static const char *group_below(const struct hierarchy *seen, const char *group)
{
    size_t root_len = strcmp(seen->root, "/") == 0 ? 0 : strlen(seen->root);
    if (strncmp(group, seen->root, root_len) != 0 || strncmp(group, "/..", 3) == 0 ||
        (group[root_len] != '\0' && group[root_len] != '/')) {
        return NULL;
    }
    return strcmp(group + root_len, "/") == 0 ? "" : group + root_len;
}

// From the group up to the root that is seen.
static void group_walk(const struct hierarchy *seen, const char *group, bool is_version_1,
                       struct cgroup_memory *ret)
{
    const char *below = group_below(seen, group);
    char folder[CGROUP_FOLDER_LEN];
    const size_t root_len = strlen(seen->mounted_at);
    if (below == NULL ||
        snprintf(folder, sizeof folder, "%s%s", seen->mounted_at, below) >= (int)sizeof folder) {
        return;
    }
    group_look(folder, is_version_1, ret);
    while (strlen(folder) > root_len) {
        *strrchr(folder, '/') = '\0';
        group_look(folder, is_version_1, ret);
    }
}

// A line of `cgroup` is NUMBER:CONTROLLERS:GROUP; version 2 names no controllers.
static void line_look(const char *proc, char *line, struct cgroup_memory *ret)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return;
    }
    *group++ = '\0';
    const bool is_version_1 = strcmp(controllers + 1, "memory") == 0;
    struct hierarchy seen;
    if ((is_version_1 || controllers[1] == '\0') && hierarchy_find(proc, is_version_1, &seen)) {
        group_walk(&seen, group, is_version_1, ret);
    }
}

void cgroup_memory_find(const char *proc, struct cgroup_memory *ret)
{
    char path[CGROUP_FOLDER_LEN], line[LINE_LEN];
    *ret = (struct cgroup_memory){.most_len = UINT64_MAX};
    snprintf(path, sizeof path, "%s/cgroup", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line_look(proc, line, ret);
    }
    if (file != NULL) {
        fclose(file);
    }
}
