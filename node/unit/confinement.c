#include "node/unit/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "node/unit/landlock.h"

// What drivers open devices with: files of others, disks, network devices, memory of an RNIC.
#define CAPABILITY(number) (UINT64_C(1) << (number))
static const uint64_t opening_capabilities =
    CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_SYS_RAWIO) |
    CAPABILITY(CAP_NET_ADMIN) | CAPABILITY(CAP_NET_RAW) | CAPABILITY(CAP_IPC_LOCK);

// Calls that are refused to every RTA. Names that this system does not know are passed over.
static const char *const refused[] = {
    "execve",
    "execveat", // other programs
    "kill",
    "tkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_open",
    "pidfd_getfd",
    "pidfd_send_signal",
    "setpriority", // other processes
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setfsuid",
    "setfsgid",
    "setgroups",
    "setns",
    "unshare",
    "chroot",
    "pivot_root", // who it is, and where
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "swapon",
    "swapoff",
    "quotactl",
    "quotactl_fd",
    "acct",
    "open_by_handle_at", // file systems
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "settimeofday",
    "clock_settime",
    "adjtimex",
    "clock_adjtime",
    "sethostname",
    "setdomainname",
    "iopl",
    "ioperm",
    "syslog",
    "vhangup",
    "modify_ldt", // the system
    NULL,
};

// Calls of every RTA whose device is open: its loop, its socket, memory, time, its end.
static const char *const always[] = {
    "read",
    "write",
    "readv",
    "writev",
    "close",
    "lseek",
    "fcntl",
    "fstat",
    "newfstatat",
    "statx",
    "sendmsg",
    "recvmsg",
    "poll",
    "ppoll",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_ctl",
    "eventfd2",
    "brk",
    "munmap",
    "mremap",
    "madvise",
    "clock_gettime",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "futex",
    "set_robust_list",
    "rseq",
    "membarrier",
    "sched_yield",
    "sched_getaffinity",
    "getpid",
    "gettid",
    "getrandom",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    NULL,
};

static void say_missing(const char *what, int error)
{
    fprintf(stderr, "weft: confinement: no %s here: %s\n", what, strerror(-error));
}

/* ---- capabilities ---------------------------------------------------------------------------- */

// All but these are given up for good.
static void capabilities_keep(uint64_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) != 0) {
        return;
    }
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        uint32_t part = (uint32_t)(kept >> (32 * i));
        data[i].permitted &= part;
        data[i].effective &= part;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) != 0) {
        say_missing("giving up of capabilities", -errno);
    }
}

/* ---- seccomp --------------------------------------------------------------------------------- */

// Signals and limits are this process's own alone; that one is called 0 where it asks for its own
// limits, as libc does.
static int refuse_others(scmp_filter_ctx filter)
{
    int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(tgkill), 1,
                                 SCMP_A0(SCMP_CMP_NE, (scmp_datum_t)getpid()));
    return error != 0 ? error
                      : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 1,
                                         SCMP_A0(SCMP_CMP_NE, 0));
}

// A process of another user namespace has all capabilities there. What clone3 is told a filter does
// not see, so that libc must do without it.
static int refuse_namespaces(scmp_filter_ctx filter)
{
    int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return error != 0 ? error
                      : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
}

static int rules_add(scmp_filter_ctx filter, uint32_t action, const char *const *names)
{
    int error = 0;
    for (; error == 0 && *names != NULL; names++) {
        int number = seccomp_syscall_resolve_name(*names);
        error = number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
    }
    return error;
}

static void filter_load(scmp_filter_ctx filter, int error)
{
    error = error == 0 ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : error;
    error = error == 0 ? seccomp_load(filter) : error;
    if (error != 0) {
        say_missing("seccomp", error);
    }
    seccomp_release(filter);
}

static void filter_begin(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (filter == NULL) {
        say_missing("seccomp", -ENOMEM);
        return;
    }
    int error = rules_add(filter, SCMP_ACT_ERRNO(EPERM), refused);
    error = error == 0 ? refuse_others(filter) : error;
    filter_load(filter, error == 0 ? refuse_namespaces(filter) : error);
}

// Memory that is executed, files that are written, and others' signals are refused by what stands
// beside the call's number.
static int allow_bounded(scmp_filter_ctx filter)
{
    const struct {
        int call;
        struct scmp_arg_cmp bound;
    } bounded[] = {
        {SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
        {SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())},
    };
    int error = 0;
    for (unsigned i = 0; error == 0 && i < sizeof bounded / sizeof bounded[0]; i++) {
        error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, bounded[i].call, 1, bounded[i].bound);
    }
    return error;
}

// As libc starts one where it does without clone3.
static int allow_threads(scmp_filter_ctx filter)
{
    int error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return error != 0 ? error
                      : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

static int allow_chain(scmp_filter_ctx filter, const struct ddm *chain, bool reads_files)
{
    int error = 0;
    bool makes_threads = false;
    for (const struct ddm *ddm = chain; error == 0 && ddm != NULL; ddm = ddm->next) {
        error = rules_add(filter, SCMP_ACT_ALLOW, ddm->driver->calls);
        makes_threads |= ddm->driver->makes_threads;
    }
    error = error == 0 && makes_threads ? allow_threads(filter) : error;
    if (error == 0 && reads_files) {
        error =
            seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
    }
    return error;
}

static void filter_narrow(const struct ddm *chain, bool reads_files)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (filter == NULL) {
        say_missing("seccomp", -ENOMEM);
        return;
    }
    int error = rules_add(filter, SCMP_ACT_ALLOW, always);
    error = error == 0 ? allow_bounded(filter) : error;
    filter_load(filter, error == 0 ? allow_chain(filter, chain, reads_files) : error);
}

/* ---- the two steps --------------------------------------------------------------------------- */

uint32_t confinement_begin(void)
{
    if (IS_SANITIZED) {
        return 0;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        say_missing("giving up of privileges to come", -errno);
        return 0;
    }
    capabilities_keep(opening_capabilities);
    uint32_t landlock = landlock_from_others();
    filter_begin();
    return landlock;
}

static bool has_known_calls(const struct ddm_driver *driver)
{
    return driver->calls != NULL && (driver->has_known_calls == NULL || driver->has_known_calls());
}

void confinement_narrow(const struct ddm *chain)
{
    uint64_t capabilities = 0;
    bool reads_files = false, is_known = true;
    for (const struct ddm *ddm = chain; ddm != NULL; ddm = ddm->next) {
        capabilities |= ddm->driver->capabilities;
        reads_files |= ddm->driver->reads_files;
        is_known &= has_known_calls(ddm->driver);
    }
    if (IS_SANITIZED || !is_known) {
        return;
    }
    capabilities_keep(capabilities);
    if (!reads_files) {
        landlock_from_files();
    }
    filter_narrow(chain, reads_files);
}

void confinement_narrow_to(const char *const *calls)
{
    const struct ddm_driver asking = {.calls = calls, .makes_threads = true, .reads_files = true};
    const struct ddm chain = {.driver = &asking};
    confinement_narrow(&chain);
}

void confinement_limit_memory(uint64_t len)
{
    const struct rlimit limit = {.rlim_cur = len, .rlim_max = len};
    if (!IS_SANITIZED && setrlimit(RLIMIT_DATA, &limit) != 0) {
        say_missing("limit of memory", -errno);
    }
}
