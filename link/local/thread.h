// Threads of other processes: is one of them inside a call that writes into our memory? What it
// says itself of that, in memory of both, is not enough where it is stopped or dead (slot.h).
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// Threads of the process can be looked at: it lives, numbers its threads as this one does, and the
// kernel says how they are. Otherwise nothing that it is to be waited for may be let in.
bool local_threads_are_visible(pid_t process);
// At some instant during this call the thread was not inside of process_vm_writev: it was stopped,
// which happens at the edge of user space alone, is gone, or in another call. False: perhaps it
// was.
bool local_thread_is_out(pid_t process, pid_t thread);
// The number of the calling thread, also in the child of a fork; a system call the first time.
pid_t local_thread_self(void);
