// What is left to a process that has confined itself: each call is tried in a child, with arguments
// that mean nothing, and what a filter refuses fails with EPERM before anybody looks at them.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "node/unit/confinement.h"

enum { CALLS_MAX = 64 };
#define CALL(name)        \
    {                     \
#name, SYS_##name \
    }

struct call {
    const char *name;
    long number;
};

// What a child found, in memory that both have.
struct findings {
    int error[CALLS_MAX]; // of each call; 0: it succeeded
    struct __user_cap_data_struct before[_LINUX_CAPABILITY_U32S_3], after[_LINUX_CAPABILITY_U32S_3];
};

static struct findings *findings;

static int setup(void **state)
{
    findings =
        mmap(NULL, sizeof *findings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return findings == MAP_FAILED ? -1 : 0;
}

static void in_a_child(void (*act)(void))
{
    int status;
#if IS_SANITIZED
    print_message("SKIP: builds with sanitizers are not confined\n");
    skip();
#endif
    memset(findings, 0, sizeof *findings);
    pid_t pid = fork();
    if (pid == 0) {
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int error_of(long result)
{
    return result < 0 ? errno : 0;
}

static void try_all(const struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        findings->error[i] = error_of(syscall(calls[i].number, -1L, -1L, -1L, -1L, -1L, -1L));
    }
}

static void get_capabilities(struct __user_cap_data_struct *ret)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    if (syscall(SYS_capget, &header, ret) != 0) {
        _exit(1);
    }
}

/* ---- every process --------------------------------------------------------------------------- */

static const struct call of_others[] = {
    CALL(execve),
    CALL(execveat),
    CALL(kill),
    CALL(tkill),
    CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo),
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(kcmp),
    CALL(pidfd_open),
    CALL(pidfd_getfd),
    CALL(setpriority),
    CALL(pidfd_send_signal),
    CALL(process_madvise),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setgroups),
    CALL(setns),
    CALL(unshare),
    CALL(chroot),
    CALL(pivot_root),
    CALL(mount),
    CALL(umount2),
    CALL(move_mount),
    CALL(open_tree),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    CALL(swapon),
    CALL(swapoff),
    CALL(quotactl),
    CALL(acct),
    CALL(bpf),
    CALL(open_by_handle_at),
    CALL(perf_event_open),
    CALL(add_key),
    CALL(request_key),
    CALL(keyctl),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(adjtimex),
    CALL(clock_adjtime),
    CALL(sethostname),
    CALL(setdomainname),
    CALL(syslog),
    CALL(userfaultfd),
    CALL(kexec_load),
};
enum { OF_OTHERS_COUNT = sizeof of_others / sizeof of_others[0] };

static void try_others(void)
{
    confinement_begin();
    try_all(of_others, OF_OTHERS_COUNT);
}

static void calls_that_reach_others_are_refused(void **state)
{
    in_a_child(try_others);
    for (size_t i = 0; i < OF_OTHERS_COUNT; i++) {
        if (findings->error[i] != EPERM) {
            fail_msg("%s: %s", of_others[i].name, strerror(findings->error[i]));
        }
    }
}

static void *nothing(void *arg)
{
    return arg;
}

enum { SIGNAL_OWN, SIGNAL_OTHER, LIMITS_OWN, LIMITS_OTHER, CLONE3, NAMESPACE, THREAD, ACTS };

static void try_bounded(void)
{
    struct rlimit limit;
    pthread_t thread;
    pid_t other = getppid();
    confinement_begin();
    findings->error[SIGNAL_OWN] = error_of(syscall(SYS_tgkill, getpid(), gettid(), 0));
    findings->error[SIGNAL_OTHER] = error_of(syscall(SYS_tgkill, other, other, 0));
    findings->error[LIMITS_OWN] = error_of(prlimit(0, RLIMIT_CORE, NULL, &limit));
    findings->error[LIMITS_OTHER] = error_of(prlimit(other, RLIMIT_CORE, NULL, &limit));
    findings->error[CLONE3] = error_of(syscall(SYS_clone3, NULL, 0));
    findings->error[NAMESPACE] = error_of(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    findings->error[THREAD] = pthread_create(&thread, NULL, nothing, NULL);
    if (findings->error[THREAD] == 0) {
        pthread_join(thread, NULL);
    }
}

static void signals_limits_and_threads_are_its_own(void **state)
{
    static const int expected[ACTS] = {
        [SIGNAL_OTHER] = EPERM, [LIMITS_OTHER] = EPERM, [CLONE3] = ENOSYS, [NAMESPACE] = EPERM};
    in_a_child(try_bounded);
    for (size_t i = 0; i < ACTS; i++) {
        assert_int_equal(findings->error[i], expected[i]);
    }
}

static void begin_between(void)
{
    get_capabilities(findings->before);
    confinement_begin();
    get_capabilities(findings->after);
}

static void capabilities_to_open_devices_alone_are_kept(void **state)
{
    const uint64_t opens = UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_DAC_READ_SEARCH |
                           UINT64_C(1) << CAP_SYS_RAWIO | UINT64_C(1) << CAP_NET_ADMIN |
                           UINT64_C(1) << CAP_NET_RAW | UINT64_C(1) << CAP_IPC_LOCK;
    in_a_child(begin_between);
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t part = (uint32_t)(opens >> (32 * i));
        assert_int_equal(findings->after[i].permitted, findings->before[i].permitted & part);
        assert_int_equal(findings->after[i].effective, findings->before[i].effective & part);
        assert_int_equal(findings->after[i].inheritable, 0);
    }
}

/* ---- one that serves a single device --------------------------------------------------------- */

static const char *const first_calls[] = {"getppid", NULL};
static const char *const second_calls[] = {"getuid", NULL};
static const struct ddm_driver first = {.calls = first_calls};
static const struct ddm_driver second = {.calls = second_calls,
                                         .capabilities = 1 << CAP_DAC_OVERRIDE};
static const struct ddm_driver reader = {.calls = first_calls, .reads_files = true};
static const struct ddm_driver stranger = {.calls = NULL};

// What every loop needs; those that end the process, or leave a signal handler, are seen elsewhere.
static const struct call of_all[] = {
    CALL(read),         CALL(write),
    CALL(readv),        CALL(writev),
    CALL(close),        CALL(lseek),
    CALL(fcntl),        CALL(fstat),
    CALL(newfstatat),   CALL(statx),
    CALL(sendmsg),      CALL(recvmsg),
    CALL(ppoll),        CALL(epoll_pwait),
    CALL(epoll_pwait2), CALL(epoll_ctl),
    CALL(eventfd2),     CALL(brk),
    CALL(munmap),       CALL(mremap),
    CALL(madvise),      CALL(clock_gettime),
    CALL(gettimeofday), CALL(clock_nanosleep),
    CALL(nanosleep),    CALL(futex),
    CALL(rseq),         CALL(set_robust_list),
    CALL(membarrier),   CALL(sched_yield),
    CALL(rt_sigaction), CALL(sched_getaffinity),
    CALL(getpid),       CALL(gettid),
    CALL(getrandom),    CALL(rt_sigprocmask),
    CALL(sigaltstack),  CALL(restart_syscall),
#ifdef __x86_64__
    CALL(poll),         CALL(epoll_wait),
    CALL(time),
#endif
};
enum { OF_ALL_COUNT = sizeof of_all / sizeof of_all[0] };

static void try_what_all_need(void)
{
    struct ddm ddm = {.driver = &first};
    confinement_begin();
    confinement_narrow(&ddm);
    try_all(of_all, OF_ALL_COUNT);
}

static void calls_that_every_loop_needs_are_left(void **state)
{
    in_a_child(try_what_all_need);
    for (size_t i = 0; i < OF_ALL_COUNT; i++) {
        if (findings->error[i] == EPERM) {
            fail_msg("%s is refused", of_all[i].name);
        }
    }
}

enum {
    OF_FIRST,
    OF_SECOND,
    OF_NONE,
    MEMORY,
    EXECUTABLE,
    MADE_EXECUTABLE,
    OWN_SIGNAL,
    FOREIGN_SIGNAL,
    READ_FILE,
    WRITE_FILE,
    MAKE_FILE,
    NARROWED_ACTS
};
static const struct ddm *chain;

static void try_narrowed(void)
{
    pid_t other = getppid();
    confinement_begin();
    confinement_narrow(chain);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *error = findings->error;
    error[MEMORY] = page == MAP_FAILED ? EPERM : 0;
    error[EXECUTABLE] = code == MAP_FAILED ? EPERM : 0;
    error[MADE_EXECUTABLE] = error_of(mprotect(page, 4096, PROT_READ | PROT_EXEC));
    error[OF_FIRST] = error_of(syscall(SYS_getppid));
    error[OF_SECOND] = error_of(syscall(SYS_getuid));
    error[OF_NONE] = error_of(syscall(SYS_getgid));
    error[OWN_SIGNAL] = error_of(syscall(SYS_tgkill, getpid(), gettid(), 0));
    error[FOREIGN_SIGNAL] = error_of(syscall(SYS_tgkill, other, other, 0));
    error[READ_FILE] = error_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY));
    error[WRITE_FILE] = error_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY));
    error[MAKE_FILE] = error_of(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CREAT, 0));
    syscall(SYS_close, -1);
}

static void expect_narrowed(const struct ddm *ddm, const int *expected)
{
    chain = ddm;
    in_a_child(try_narrowed);
    for (size_t i = 0; i < NARROWED_ACTS; i++) {
        if (findings->error[i] != expected[i]) {
            fail_msg("act %zu: %s", i, strerror(findings->error[i]));
        }
    }
}

static void all_but_what_the_drivers_of_a_chain_name_is_refused(void **state)
{
    struct ddm next = {.driver = &second}, ddm = {.driver = &first, .next = &next};
    static const int expected[NARROWED_ACTS] = {
        [OF_NONE] = EPERM,        [EXECUTABLE] = EPERM, [MADE_EXECUTABLE] = EPERM,
        [FOREIGN_SIGNAL] = EPERM, [READ_FILE] = EPERM,  [WRITE_FILE] = EPERM,
        [MAKE_FILE] = EPERM};
    expect_narrowed(&ddm, expected);
}

static void who_reads_files_neither_writes_nor_makes_any(void **state)
{
    struct ddm last = {.driver = &first}, ddm = {.driver = &reader, .next = &last};
    static const int expected[NARROWED_ACTS] = {
        [OF_SECOND] = EPERM,       [OF_NONE] = EPERM,        [EXECUTABLE] = EPERM,
        [MADE_EXECUTABLE] = EPERM, [FOREIGN_SIGNAL] = EPERM, [WRITE_FILE] = EPERM,
        [MAKE_FILE] = EPERM};
    expect_narrowed(&ddm, expected);
}

enum { NEW_THREAD, NEW_PROCESS };

static void try_to_begin(void)
{
    pthread_t thread;
    confinement_begin();
    confinement_narrow(chain);
    findings->error[NEW_THREAD] = pthread_create(&thread, NULL, nothing, NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(EXIT_SUCCESS);
    }
    findings->error[NEW_PROCESS] = child < 0 ? errno : 0;
}

static void who_makes_threads_makes_no_process(void **state)
{
    static const struct ddm_driver maker = {.calls = first_calls, .makes_threads = true};
    struct ddm ddm = {.driver = &maker};
    chain = &ddm;
    in_a_child(try_to_begin);
    assert_int_equal(findings->error[NEW_THREAD], 0);
    assert_int_equal(findings->error[NEW_PROCESS], EPERM);
    ddm.driver = &first;
    in_a_child(try_to_begin);
    assert_int_equal(findings->error[NEW_THREAD], EPERM);
}

static bool nobody_knows(void)
{
    return false;
}

static void a_driver_whose_calls_nobody_knows_is_not_narrowed(void **state)
{
    static const struct ddm_driver elsewhere = {.calls = first_calls,
                                                .has_known_calls = nobody_knows};
    static const int expected[NARROWED_ACTS] = {[FOREIGN_SIGNAL] = EPERM};
    struct ddm last = {.driver = &first}, ddm = {.driver = &stranger, .next = &last};
    expect_narrowed(&ddm, expected);
    ddm.driver = &first;
    last.driver = &stranger;
    expect_narrowed(&ddm, expected);
    last.driver = &elsewhere;
    expect_narrowed(&ddm, expected);
}

static void narrow_between(void)
{
    static const char *const looks[] = {"capget", NULL};
    static const struct ddm_driver looker = {.calls = looks};
    struct ddm last = {.driver = &looker}, ddm = {.driver = &second, .next = &last};
    get_capabilities(findings->before);
    confinement_begin();
    confinement_narrow(&ddm);
    get_capabilities(findings->after);
}

static void capabilities_that_a_driver_names_alone_are_kept(void **state)
{
    in_a_child(narrow_between);
    const uint32_t kept = findings->before[0].permitted & 1U << CAP_DAC_OVERRIDE;
    assert_int_equal(findings->after[0].permitted, kept);
    assert_int_equal(findings->after[0].effective, kept);
    assert_int_equal(findings->after[1].permitted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_reach_others_are_refused),
        cmocka_unit_test(signals_limits_and_threads_are_its_own),
        cmocka_unit_test(capabilities_to_open_devices_alone_are_kept),
        cmocka_unit_test(calls_that_every_loop_needs_are_left),
        cmocka_unit_test(all_but_what_the_drivers_of_a_chain_name_is_refused),
        cmocka_unit_test(who_reads_files_neither_writes_nor_makes_any),
        cmocka_unit_test(who_makes_threads_makes_no_process),
        cmocka_unit_test(a_driver_whose_calls_nobody_knows_is_not_narrowed),
        cmocka_unit_test(capabilities_that_a_driver_names_alone_are_kept),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
