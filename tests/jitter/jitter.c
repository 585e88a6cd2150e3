// A preload that sleeps now and then, before and behind calls that hand something to another thread
// or process: what the scheduler of a busy machine does once in a thousand runs happens in each. A
// run follows from its seed as far as threads ask in the same order.
//
//     JITTER=SEED[,PERCENT,LONG_PERMILLE]
//
// PERCENT of the calls (20) sleep up to 3 ms, and LONG_PERMILLE (5) up to 100 ms, as a thread does
// that has lost its processor.

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SHORT_US = 3000, LONG_US = 100000 };

static struct {
    unsigned long seed;
    unsigned percent, long_permille;
} wish = {.percent = 20, .long_permille = 5};
static _Atomic uint64_t thread_count;
static _Thread_local uint64_t state; // of this thread's generator; 0: it has not asked yet

__attribute__((constructor)) static void wish_read(void)
{
    const char *text = getenv("JITTER");
    if (text != NULL) {
        sscanf(text, "%lu,%u,%u", &wish.seed, &wish.percent, &wish.long_permille);
    }
}

// xorshift64*, a sequence for each thread.
static uint64_t next_number(void)
{
    if (state == 0) {
        state = (wish.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) +
                (atomic_fetch_add(&thread_count, 1) + 1) * UINT64_C(0xd1342543de82ef95);
        state |= 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

// By the system call itself: programs may have a nanosleep of their own.
static void sleep_up_to(uint64_t most_us)
{
    struct timespec time = {.tv_nsec = (long)(next_number() % most_us) * 1000};
    syscall(SYS_nanosleep, &time, NULL);
}

static void jitter(void)
{
    const int error = errno;
    if (next_number() % 1000 < wish.long_permille) {
        sleep_up_to(LONG_US);
    } else if (next_number() % 100 < wish.percent) {
        sleep_up_to(SHORT_US);
    }
    errno = error;
}

// The function of this name that would have been called, at a version where there are several.
#define JITTERED_AT(version, type, name, parameters, arguments)                                   \
    type name parameters;                                                                         \
    type name parameters                                                                          \
    {                                                                                             \
        static type(*_Atomic real) parameters;                                                    \
        type(*call) parameters = atomic_load(&real);                                              \
        if (call == NULL) {                                                                       \
            void *found =                                                                         \
                version[0] == '\0' ? dlsym(RTLD_NEXT, #name) : dlvsym(RTLD_NEXT, #name, version); \
            *(void **)&call = found;                                                              \
            atomic_store(&real, call);                                                            \
        }                                                                                         \
        jitter();                                                                                 \
        type result = call arguments;                                                             \
        jitter();                                                                                 \
        return result;                                                                            \
    }
#define JITTERED(type, name, parameters, arguments) \
    JITTERED_AT("", type, name, parameters, arguments)

JITTERED(int, poll, (struct pollfd * fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms))
JITTERED(int, ppoll,
         (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
         (fds, count, timeout, mask))
JITTERED(int, epoll_wait, (int fd, struct epoll_event *events, int count, int timeout_ms),
         (fd, events, count, timeout_ms))
JITTERED(int, epoll_pwait2,
         (int fd, struct epoll_event *events, int count, const struct timespec *timeout,
          const sigset_t *mask),
         (fd, events, count, timeout, mask))
JITTERED(int, epoll_ctl, (int fd, int what, int other, struct epoll_event *event),
         (fd, what, other, event))
JITTERED(ssize_t, read, (int fd, void *data, size_t len), (fd, data, len))
JITTERED(ssize_t, write, (int fd, const void *data, size_t len), (fd, data, len))
JITTERED(ssize_t, send, (int fd, const void *data, size_t len, int flags), (fd, data, len, flags))
JITTERED(ssize_t, recv, (int fd, void *data, size_t len, int flags), (fd, data, len, flags))
JITTERED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
JITTERED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
JITTERED(int, close, (int fd), (fd))
JITTERED(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
         (fd, addr, len, flags))
JITTERED(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
JITTERED(int, shutdown, (int fd, int how), (fd, how))
JITTERED(ssize_t, process_vm_readv,
         (pid_t process, const struct iovec *ours, unsigned long our_count,
          const struct iovec *theirs, unsigned long their_count, unsigned long flags),
         (process, ours, our_count, theirs, their_count, flags))
JITTERED(ssize_t, process_vm_writev,
         (pid_t process, const struct iovec *ours, unsigned long our_count,
          const struct iovec *theirs, unsigned long their_count, unsigned long flags),
         (process, ours, our_count, theirs, their_count, flags))
JITTERED(int, pthread_create,
         (pthread_t * thread, const pthread_attr_t *attributes, void *(*begin)(void *), void *ctx),
         (thread, attributes, begin, ctx))
JITTERED(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
JITTERED(int, pthread_mutex_unlock, (pthread_mutex_t * mutex), (mutex))
JITTERED_AT("GLIBC_2.3.2", int, pthread_cond_wait,
            (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
JITTERED_AT("GLIBC_2.3.2", int, pthread_cond_signal, (pthread_cond_t * condition), (condition))
JITTERED_AT("GLIBC_2.3.2", int, pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
JITTERED(pid_t, fork, (void), ())
