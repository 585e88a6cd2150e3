#include "control/process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "text/quantity.h"

bool process_name_parse(const char *name, struct process *ret)
{
    static const char prefix[] = "weft.";
    char uid[16];
    uint64_t uid_number, pid_number;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    name += sizeof prefix - 1;
    size_t len = strcspn(name, ".");
    if (len >= sizeof uid || name[len] != '.') {
        return false;
    }
    memcpy(uid, name, len);
    uid[len] = '\0';
    if (!text_number_parse(uid, 0, UINT32_MAX, &uid_number) ||
        !text_number_parse(name + len + 1, 1, INT32_MAX, &pid_number)) {
        return false;
    }
    *ret = (struct process){.uid = (uid_t)uid_number, .pid = (pid_t)pid_number};
    return true;
}

bool process_is_alive(const struct process *process)
{
    struct sockaddr_un addr;
    socklen_t len = process_address(process, &addr);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_dead = fd >= 0 && connect(fd, (struct sockaddr *)&addr, len) != 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    if (fd >= 0) {
        close(fd);
    }
    return !is_dead;
}
