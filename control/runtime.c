#include "control/runtime.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/quantity.h"

static int fits(int len)
{
    return len < RUNTIME_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int runtime_folder(char ret[RUNTIME_PATH_MAX])
{
    const char *own = getenv("WEFT_RUNTIME_DIR"), *session = getenv("XDG_RUNTIME_DIR");
    if (own != NULL && *own != '\0') {
        return fits(snprintf(ret, RUNTIME_PATH_MAX, "%s", own));
    }
    if (geteuid() == 0) {
        return fits(snprintf(ret, RUNTIME_PATH_MAX, "/run/weft"));
    }
    if (session != NULL && *session != '\0') {
        return fits(snprintf(ret, RUNTIME_PATH_MAX, "%s/weft", session));
    }
    return fits(snprintf(ret, RUNTIME_PATH_MAX, "/run/user/%u/weft", (unsigned)geteuid()));
}

int runtime_path(const char *folder, const char *prefix, pid_t pid, char ret[RUNTIME_PATH_MAX])
{
    return fits(snprintf(ret, RUNTIME_PATH_MAX, "%s/%s%d", folder, prefix, (int)pid));
}

static pid_t pid_behind(const char *prefix, const char *name)
{
    size_t len = strlen(prefix);
    uint64_t pid;
    bool is_one = strncmp(name, prefix, len) == 0 && name[len] != '0' &&
                  text_number_parse(name + len, 1, INT32_MAX, &pid);
    return is_one ? (pid_t)pid : 0;
}

pid_t runtime_node_pid(const char *name)
{
    return pid_behind(RUNTIME_NODE, name);
}

pid_t runtime_young_pid(const char *name)
{
    return pid_behind(RUNTIME_YOUNG, name);
}

int runtime_folder_make(const char *folder, struct why *ret_why)
{
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        int error = -errno;
        why_say(ret_why, "%s: %s", folder, strerror(-error));
        return error;
    }
    return runtime_folder_check(folder, ret_why);
}

int runtime_folder_check(const char *folder, struct why *ret_why)
{
    struct stat status;
    if (lstat(folder, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        why_say(ret_why, "%s: not a folder of this user that others may not write to", folder);
        return -EPERM;
    }
    return 0;
}
