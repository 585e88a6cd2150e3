// Other processes of this very program, which are told by a hidden command what they are: that of
// an RTA (node/unit/process.h), and those that ask a network (node/discovery/process.h).
#pragma once

#include <sys/types.h>

struct self_process {
    char *const *argv;
    int log_fd;     // its standard error; -1: nobody hears it
    const int *fds; // it has these from `first` on, which are not below `first` + `count` here
    int first, count;
};

// It reads nothing and has nothing to say to programs, and no signal is blocked in it. 0 or a
// negative errno.
int self_spawn(const struct self_process *process, pid_t *ret_pid);

// In it: a terminal's Ctrl-C is for the host, which drains its RTAs first; the host's end is seen
// by the socket, and a limit on the size of files by the error of a write.
void self_ignore_signals(void);
