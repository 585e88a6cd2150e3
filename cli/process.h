// Running processes of weft: those that have a device up, and storage nodes. They are found by the
// names of their control sockets and asked there. Those of devices are abstract Unix sockets
// "weft.<uid>.<pid>", so those of this network namespace; those of nodes lie in the runtime folder
// (node/host/runtime.h), and root sees those of login sessions too.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define PROCESS_DEVICE "weft"
#define PROCESS_NODE   "weft-node"

enum { PROCESS_PATH_MAX = 108 };

struct process {
    const char *kind; // PROCESS_...
    uid_t uid;
    pid_t pid;                   // as the process itself knows it, in its own namespace
    char path[PROCESS_PATH_MAX]; // of the socket; empty: it is abstract
};

// All there are, of all users, by pid. 0 and an array that the caller frees, or a negative errno.
int processes_find(const char *kind, struct process **ret_processes, size_t *ret_count);

// Sends a request, one line with its end. 0 and the answer, which the caller frees; or
//     -ECONNREFUSED  it has ended meanwhile
//     -EACCES        it does not answer this user, or is not the user's it claims to be
//     -ETIMEDOUT     no whole answer came in time
//     -EMSGSIZE      the answer is longer than any of weft's
// or another negative errno.
int process_ask(const struct process *process, const char *request, char **ret_text,
                size_t *ret_len);
