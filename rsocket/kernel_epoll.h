// The kernel's epoll without libc's wrappers: librspreload of newer rdma-core stands before those,
// and leads them to repoll_create and its relatives.
#pragma once

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int kernel_epoll_create(int flags)
{
    return (int)syscall(SYS_epoll_create1, flags);
}

static inline int kernel_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
}

// What is there now; it does not wait.
static inline int kernel_epoll_look(int set, struct epoll_event *events, int max)
{
    return (int)syscall(SYS_epoll_pwait, set, events, max, 0, NULL, (size_t)0);
}
