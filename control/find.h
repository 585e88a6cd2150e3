// Running processes of weft, by their control sockets: those that have a device up, of this network
// namespace, and storage nodes, those of this user's runtime folder; root sees those of login
// sessions too.
#pragma once

#include "control/process.h"

enum process_kind { PROCESS_DEVICE, PROCESS_NODE };

// All there are, of all users, by pid. 0 and an array that the caller frees, or a negative errno.
int processes_find(enum process_kind kind, struct process **ret_processes, size_t *ret_count);

// Moves those of the caller to the front: for root all are. Gives back how many.
size_t processes_keep_own(struct process *processes, size_t count);

// NULL: there is none with this process id.
const struct process *processes_at(const struct process *processes, size_t count, pid_t pid);
