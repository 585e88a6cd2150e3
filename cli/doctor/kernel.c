// Checks of the kernel: its age, the calls that it or a filter refuses.

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup/memory.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/kernel_file.h"
#include "node/unit/landlock.h"

/* ---- its age --------------------------------------------------------------------------------- */

// UDP_GRO and UDP_SEGMENT together: before it, each packet of UDP is a call of its own.
enum { MAJOR_WITH_OFFLOADS = 5 };

static void kernel_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct utsname name;
    unsigned major = 0;
    if (uname(&name) != 0) {
        finding_worsen(ret, FINDING_FAILURE, "uname: %s", strerror(errno));
        return;
    }
    finding_see(ret, "%s %s on %s", name.sysname, name.release, name.machine);
    if (strcmp(name.machine, "x86_64") != 0) {
        finding_worsen(ret, FINDING_WARNING, "weft is untested on other processors than x86-64");
    }
    if (sscanf(name.release, "%u.", &major) == 1 && major < MAJOR_WITH_OFFLOADS) {
        finding_worsen(ret, FINDING_WARNING,
                       "before Linux 5.0 packets of UDP leave and arrive one by one, several times "
                       "as slow");
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

// Each makes the call once, without effect. A negative errno; what it opens is closed.
static long epoll_try(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

static long eventfd_try(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

static long memfd_try(void)
{
    return memfd_create("weft-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static long pidfd_try(void)
{
    return syscall(SYS_pidfd_open, getpid(), 0);
}

static long unix_socket_try(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

struct call {
    const char *name;
    long (*try)(void);
    enum finding_result result; // where it is refused
    const char *who;            // needs it
};

static const struct call calls[] = {
    {"eventfd", eventfd_try, FINDING_FAILURE, "every program: completion channels are made of it"},
    {"epoll_create1", epoll_try, FINDING_FAILURE, "every program: weft waits by it"},
    {"socket(AF_UNIX)", unix_socket_try, FINDING_WARNING,
     "weft stat, and processes that share the port of RoCE"},
    {"memfd_create", memfd_try, FINDING_WARNING,
     "weft serve, for memory that it shares with RTAs, and WEFT_LOCAL=on"},
    {"pidfd_open", pidfd_try, FINDING_WARNING, "weft serve, to see a driver's process end"},
};
enum { CALL_COUNT = sizeof calls / sizeof calls[0] };

static bool has_filter(void)
{
    char line[128];
    int mode = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL &&
           sscanf(line, "Seccomp: %d", &mode) != 1) {
    }
    if (status != NULL) {
        fclose(status);
    }
    return mode != 0;
}

// What is being tried is said before, since a filter may end the process.
static void calls_look(const struct doctor_subject *subject, struct finding *ret)
{
    const bool is_filtered = has_filter();
    for (unsigned i = 0; i < CALL_COUNT; i++) {
        finding_see(ret, "%s", calls[i].name);
        const long fd = calls[i].try();
        const int error = errno;
        if (fd >= 0) {
            close((int)fd);
        } else if (finding_worsen(ret, calls[i].result, "%s: %s; it is wanted by %s", calls[i].name,
                                  strerror(error), calls[i].who)) {
            finding_cure(ret, "docker run --security-opt seccomp=unconfined …");
        }
    }
    finding_see(ret, "%u that weft needs%s", CALL_COUNT,
                is_filtered ? ", under a filter (seccomp)" : "");
}

/* ---- copies ---------------------------------------------------------------------------------- */

#define YAMA_SCOPE "/proc/sys/kernel/yama/ptrace_scope"
enum { YAMA_SCOPE_LOCKED = 3 }; // until the system starts anew

// Whether a process that is no ancestor may copy out of this one, as peers of one host do. 0 or the
// errno of who tried.
static int copy_try(void)
{
    char octets[] = "any";
    const pid_t child = fork();
    if (child == 0) {
        char got[sizeof octets];
        const struct iovec here = {got, sizeof got}, there = {octets, sizeof octets};
        const ssize_t len = process_vm_readv(getppid(), &here, 1, &there, 1, 0);
        _exit(len == sizeof octets ? 0 : errno);
    }
    int status = 0;
    return child < 0 || waitpid(child, &status, 0) < 0 ? errno : WEXITSTATUS(status);
}

static void copies_look(const struct doctor_subject *subject, struct finding *ret)
{
    int64_t scope = 0;
    const bool has_yama = kernel_file_number(YAMA_SCOPE, &scope);
    const int error = copy_try();
    finding_see(ret, "may %sbe made between processes of one user", error == 0 ? "" : "not ");
    if (error == 0) {
        return;
    }
    finding_worsen(ret, FINDING_WARNING,
                   "process_vm_readv: %s%s: Reads of weft0 within this host are copied twice, by "
                   "way of a ring",
                   strerror(error), has_yama && scope > 0 ? ", by Yama" : "");
    if (!has_yama || scope == 0) {
        finding_cure(ret, "docker run --security-opt seccomp=unconfined …");
    } else if (scope < YAMA_SCOPE_LOCKED) {
        finding_cure(ret, "%ssysctl kernel.yama.ptrace_scope=0", finding_sudo());
    }
}

/* ---- io_uring -------------------------------------------------------------------------------- */

static void io_uring_look(const struct doctor_subject *subject, struct finding *ret)
{
    static const char setting[] = "/proc/sys/kernel/io_uring_disabled";
    struct io_uring_params params = {0};
    int64_t disabled = 0;
    const long fd = syscall(SYS_io_uring_setup, 1, &params);
    const int error = errno;
    if (fd >= 0) {
        close((int)fd);
        finding_see(ret, "may be used");
        return;
    }
    finding_see(ret, "refused: %s", strerror(error));
    finding_worsen(ret, FINDING_NOTE,
                   "weft serve reads and writes files by threads instead, with "
                   "more work for the processor");
    if (kernel_file_number(setting, &disabled) && disabled != 0) {
        finding_cure(ret, "%ssysctl -w kernel.io_uring_disabled=0", finding_sudo());
    } else if (error == EPERM) {
        finding_cure(ret, "docker run --security-opt seccomp=unconfined …");
    }
}

/* ---- confinement ----------------------------------------------------------------------------- */

static void confinement_look(const struct doctor_subject *subject, struct finding *ret)
{
    const uint32_t landlock = landlock_version();
    const bool has_seccomp = access("/proc/sys/kernel/seccomp/actions_avail", F_OK) == 0;
    finding_see(ret, "%s", has_seccomp ? "seccomp" : "no seccomp");
    if (landlock > 0) {
        finding_see_more(ret, "Landlock %u", landlock);
    } else {
        finding_see_more(ret, "no Landlock");
    }
    if (!has_seccomp || landlock == 0) {
        finding_worsen(
            ret, FINDING_NOTE,
            "weft serve confines the processes of its drivers by these; weft status says "
            "what each has");
    }
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static void namespaces_look(const struct doctor_subject *subject, struct finding *ret)
{
    int64_t restricted = 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) {
        finding_see(ret, "of users and networks may be made");
        return;
    }
    finding_see(ret, "refused: %s", strerror(errno));
    finding_worsen(ret, FINDING_NOTE,
                   "weft needs none; only a network of one's own to try things in does "
                   "(unshare -rn)");
    if (kernel_file_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", &restricted) &&
        restricted != 0) {
        finding_cure(ret, "%ssysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
                     finding_sudo());
    } else if (kernel_file_number("/proc/sys/user/max_user_namespaces", &restricted) &&
               restricted == 0) {
        finding_cure(ret, "%ssysctl -w user.max_user_namespaces=15000", finding_sudo());
    }
}

/* ---- memory pressure ------------------------------------------------------------------------- */

// 0, or why a file cannot be opened. The kernel is asked for nothing: what can be opened for
// writing takes triggers.
static int error_of_opening(const char *folder, const char *name, int flags)
{
    char path[CGROUP_FOLDER_LEN + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, flags | O_CLOEXEC);
    const int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return error;
}

static void machine_pressure_look(struct finding *ret)
{
    const int error = error_of_opening("/proc/pressure", "memory", O_RDWR);
    if (error == 0) {
        finding_see(ret, "the kernel tells when memory of the machine is short");
        return;
    }
    finding_see(ret, "/proc/pressure/memory: %s", strerror(error));
    finding_worsen(ret, FINDING_NOTE,
                   "the allotment of Reads does not shrink by itself when memory is short "
                   "(WEFT_READ_PRESSURE)");
}

// What a device of this process would hear of (host/pressure.h).
static void pressure_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct cgroup_memory group;
    cgroup_memory_find("/proc/self", &group);
    if (group.folder[0] == '\0') {
        machine_pressure_look(ret);
    } else if (group.is_version_1) {
        machine_pressure_look(ret);
        finding_see_more(ret, "but nothing of %s, a group of version 1", group.folder);
        finding_worsen(ret, FINDING_NOTE,
                       "the allotment of Reads does not shrink by itself when memory of this group "
                       "alone is short (WEFT_READ_PRESSURE)");
    } else {
        const int error = error_of_opening(group.folder, "memory.pressure", O_RDWR);
        if (error == 0) {
            finding_see(ret, "the kernel tells when memory of %s is short", group.folder);
        } else if (error_of_opening(group.folder, "memory.events", O_RDONLY) == 0) {
            finding_see(ret, "%s takes no trigger: %s; that it meets its limits is awaited",
                        group.folder, strerror(error));
        } else {
            machine_pressure_look(ret);
            finding_see_more(ret, "but nothing of %s: %s", group.folder, strerror(error));
        }
    }
}

static const struct doctor_check checks[] = {
    {"kernel", "the age of the kernel and the processor", kernel_look},
    {"calls", "system calls that weft makes", calls_look},
    {"copies", "whether processes of a user may copy out of each other", copies_look},
    {"io_uring", "whether io_uring may be used", io_uring_look},
    {"confinement", "what processes of drivers can be confined by", confinement_look},
    {"namespaces", "whether user namespaces may be made", namespaces_look},
    {"pressure", "whether the kernel tells of memory pressure", pressure_look},
};

const struct doctor_group doctor_kernel = {"Kernel", checks, sizeof checks / sizeof checks[0],
                                           false};
