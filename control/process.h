// A process of weft that can be spoken to, and the address of its control socket. That of a process
// with a device is an abstract Unix socket "weft.<uid>.<pid>", so that nothing is left behind in
// any file system; that of a storage node lies in the runtime folder (control/runtime.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "control/runtime.h"

struct process {
    uid_t uid;
    pid_t pid;                   // as the process itself knows it, in its own namespace
    char path[RUNTIME_PATH_MAX]; // of the socket; empty: it is abstract
};

// Gives back how long the address is. Inline: processes with a device need no more of control/.
static inline socklen_t process_address(const struct process *process, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (process->path[0] != '\0') {
        snprintf(ret->sun_path, sizeof ret->sun_path, "%s", process->path);
        return sizeof *ret;
    }
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft.%u.%d",
                       (unsigned)process->uid, (int)process->pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

// The process whose abstract name this is, without the zero that it begins with. False: it is none.
bool process_name_parse(const char *name, struct process *ret);

// False: nobody listens at its socket. A process that was killed has left one in a folder behind.
bool process_is_alive(const struct process *process);
