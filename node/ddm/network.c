#include "node/ddm/network.h"

#include <stddef.h>

#include <weft/oneshot.h>

// Sockets, the clock of a connection that is being made, names.
#define OF_SOCKETS                                                                            \
    "socket", "connect", "bind", "shutdown", "getsockopt", "setsockopt", "getsockname",       \
        "getpeername", "sendto", "sendmmsg", "recvfrom", "dup2", "dup3", "readlink", "uname", \
        "ioctl", "epoll_create1", "timerfd_create", "timerfd_settime"

const char *const network_calls[] = {OF_SOCKETS, NULL};

// All that weft's libraries call, but for what makes or changes files, and reaches into other
// processes: those are refused to each RTA.
const char *const rnic_calls[] = {
    OF_SOCKETS,  "recvmmsg",   "socketpair", "accept4",   "pipe2",  "memfd_create",
    "ftruncate", "preadv2",    "pread64",    "pwrite64",  "getuid", "geteuid",
    "access",    "readlinkat", "getdents64", "prlimit64", NULL};

bool network_rnic_is_known(void)
{
    struct weft_oneshot_calls calls;
    return weft_oneshot_find(&calls); // no other library has them
}
