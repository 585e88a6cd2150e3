#include "link/local/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "link/sys.h"

enum { TEXT_LEN = 256 }; // as much of a line as is looked at

// What /proc says of a thread. False: nothing.
static bool proc_read(pid_t process, pid_t thread, const char *name, char text[TEXT_LEN])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", process, thread, name);
    int fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    ssize_t len = sys_read(fd, text, TEXT_LEN - 1);
    sys_close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

// proc_pid_stat(5): a letter behind the name in brackets. '\0': not known.
static char state_of(pid_t process, pid_t thread)
{
    char text[TEXT_LEN];
    if (!proc_read(process, thread, "stat", text)) {
        return '\0';
    }
    const char *bracket = strrchr(text, ')');
    return bracket != NULL && bracket[1] == ' ' ? bracket[2] : '\0';
}

// proc_pid_syscall(5): the number of the call that a sleeping thread is in, or "running".
static bool is_in_another_call(pid_t process, pid_t thread)
{
    char text[TEXT_LEN], *end;
    if (!proc_read(process, thread, "syscall", text)) {
        return false;
    }
    long number = strtol(text, &end, 10);
    return end != text && number != SYS_process_vm_writev;
}

bool local_thread_is_out(pid_t process, pid_t thread)
{
    char state = state_of(process, thread);
    if (state == '\0') {
        return sys_thread_look(process, thread) == -ESRCH;
    }
    // Traced ones stop at the beginning of a call too, before it has read where to write.
    return strchr("TtZXx", state) != NULL || is_in_another_call(process, thread);
}

/* ---- our own --------------------------------------------------------------------------------- */

static _Thread_local pid_t own_number; // 0: not asked for

// The one thread of the child is another than it was.
static void after_fork_in_child(void)
{
    own_number = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

pid_t local_thread_self(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (own_number == 0) {
        pthread_once(&once, watch_forks);
        own_number = sys_gettid();
    }
    return own_number;
}

/* ---- whether they can be seen ---------------------------------------------------------------- */

static bool namespace_of(pid_t process, char *ret, size_t len)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/pid", process);
    ssize_t got = sys_readlink(path, ret, len - 1);
    ret[got > 0 ? got : 0] = '\0';
    return got > 0;
}

bool local_threads_are_visible(pid_t process)
{
    char theirs[64], ours[64];
    const pid_t self = local_thread_self();
    return process > 0 && state_of(process, process) != '\0' && namespace_of(process, theirs, 64) &&
           namespace_of(self, ours, 64) && strcmp(theirs, ours) == 0;
}
