// Who has closed its standard input, output and error, as daemons do, opens there later what it
// likes, or writes to them what nobody is to read: no descriptor of the libraries' that stays open
// has such a number.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// Returns the descriptor, close-on-exec, by another number if it was one of those three; -1 and
// errno if there is no room, when it is closed, or if it is negative itself.
static inline int descriptor_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    const int moved = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    syscall(SYS_close, fd); // past libc, like the call before: see link/sys.h
    return moved;
}

// A socket of the kernel's, close-on-exec: past libc, as librspreload makes rsockets of socket().
// Returns as descriptor_above_standard.
static inline int descriptor_of_socket(int family, int type, int protocol)
{
    const int fd = (int)syscall(SYS_socket, family, type | SOCK_CLOEXEC, protocol);
    return descriptor_above_standard(fd);
}
