// Numbers of system calls that the headers beside glibc 2.31 do not name. Since Linux 5.1 a new
// call has one number on all processors, so nothing is asked of the headers. A kernel that does not
// know a call says so when it is made.
#pragma once

enum {
    CALL_PIDFD_GETFD = 438,
    CALL_EPOLL_PWAIT2 = 441,
};
