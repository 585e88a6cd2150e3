// What the filters of an RTA's process say, call by call, as libseccomp writes them down, and which
// capabilities are asked for: nothing is loaded, so that a call that would fail for another reason
// too is seen as well. (node/confinement_calls tries them.)
#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "node/unit/confinement.h"
#include "node/unit/landlock.h"

enum { TEXT_MAX = 1 << 16, NAME_MAX_LEN = 64 };

static char filter[TEXT_MAX]; // as it was to be loaded
static unsigned loads, released, no_new_privileges, from_others, from_files;
static bool all_threads;
static int load_error, capset_error;
static struct __user_cap_data_struct asked[_LINUX_CAPABILITY_U32S_3];

int __wrap_seccomp_load(scmp_filter_ctx ctx);
int __wrap_seccomp_load(scmp_filter_ctx ctx)
{
    uint32_t is_tsync = 0;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(seccomp_export_pfc(ctx, fileno(file)), 0);
    ssize_t len = pread(fileno(file), filter, sizeof filter - 1, 0);
    assert_true(len > 0 && (size_t)len < sizeof filter - 1);
    filter[len] = '\0';
    fclose(file);
    seccomp_attr_get(ctx, SCMP_FLTATR_CTL_TSYNC, &is_tsync);
    all_threads = is_tsync == 1;
    loads++;
    return load_error;
}

void __real_seccomp_release(scmp_filter_ctx ctx);
void __wrap_seccomp_release(scmp_filter_ctx ctx);
void __wrap_seccomp_release(scmp_filter_ctx ctx)
{
    released++;
    __real_seccomp_release(ctx);
}

int __wrap_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    no_new_privileges += option == PR_SET_NO_NEW_PRIVS;
    return 0;
}

// All capabilities are there, inheritable too.
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    const struct __user_cap_header_struct *header =
        va_arg(arguments, struct __user_cap_header_struct *);
    struct __user_cap_data_struct *data = va_arg(arguments, struct __user_cap_data_struct *);
    va_end(arguments);
    assert_int_equal(header->version, _LINUX_CAPABILITY_VERSION_3);
    assert_int_equal(header->pid, 0);
    if (number == SYS_capget) {
        memset(data, 0xff, sizeof asked);
        return 0;
    }
    assert_int_equal(number, SYS_capset);
    memcpy(asked, data, sizeof asked);
    errno = EPERM;
    return capset_error;
}

uint32_t landlock_from_others(void)
{
    from_others++;
    return 4;
}

void landlock_from_files(void)
{
    from_files++;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int err, err_before; // standard error is read from there

static void skip_if_sanitized(void)
{
#if IS_SANITIZED
    print_message("SKIP: builds with sanitizers are not confined\n");
    skip();
#endif
}

static int set_up(void **state)
{
    loads = released = no_new_privileges = from_others = from_files = 0;
    load_error = capset_error = 0;
    all_threads = false;
    memset(asked, 0, sizeof asked);
    FILE *file = tmpfile();
    assert_non_null(file);
    err = dup(fileno(file));
    fclose(file);
    fflush(stderr);
    err_before = dup(STDERR_FILENO);
    dup2(err, STDERR_FILENO);
    return 0;
}

static int tear_down(void **state)
{
    fflush(stderr);
    dup2(err_before, STDERR_FILENO);
    close(err_before);
    close(err);
    return 0;
}

static void expect_said(const char *words)
{
    char said[1024] = "";
    assert_true(pread(err, said, sizeof said - 1, 0) >= 0);
    assert_string_equal(said, words);
}

// What the filter says of a call, without blanks: "action ERRNO(1);". NULL: nothing.
static const char *rule_of(const char *name)
{
    static char rule[512];
    char head[NAME_MAX_LEN + 32];
    snprintf(head, sizeof head, "# filter for syscall \"%s\" ", name);
    const char *at = strstr(filter, head);
    if (at == NULL) {
        return NULL;
    }
    at = strchr(strchr(at, '\n') + 1, '\n') + 1; // behind that line and `if ($syscall == …)`
    const char *end = strstr(at, "  # ");
    size_t len = 0;
    for (; at < end; at++) {
        if (*at != ' ' && *at != '\n' && len < sizeof rule - 1) {
            rule[len++] = *at;
        }
    }
    rule[len] = '\0';
    return rule;
}

static unsigned rule_count(void)
{
    unsigned count = 0;
    for (const char *at = filter; (at = strstr(at, "# filter for syscall ")) != NULL; at++) {
        count++;
    }
    return count;
}

// How many of these this machine has; each is answered so.
static unsigned expect_rules(const char *const *names, const char *rule)
{
    unsigned count = 0;
    for (; *names != NULL; names++) {
        if (seccomp_syscall_resolve_name(*names) >= 0) {
            const char *found = rule_of(*names);
            if (found == NULL || strcmp(found, rule) != 0) {
                fail_msg("%s: %s in place of %s", *names, found != NULL ? found : "nothing", rule);
            }
            count++;
        }
    }
    return count;
}

// Of a call that is looked at more closely: both words stand in its rule.
static void expect_bound(const char *name, const char *action, const char *word)
{
    const char *rule = rule_of(name);
    assert_non_null(rule);
    if (strstr(rule, action) == NULL || strstr(rule, word) == NULL) {
        fail_msg("%s: %s", name, rule);
    }
}

static uint64_t capabilities(void)
{
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        assert_int_equal(asked[i].permitted, asked[i].effective);
        assert_int_equal(asked[i].inheritable, 0);
    }
    return asked[0].permitted | (uint64_t)asked[1].permitted << 32;
}

/* ---- every process --------------------------------------------------------------------------- */

static const char *const refused[] = {"execve",
                                      "execveat",
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
                                      "setpriority",
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
                                      "pivot_root",
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
                                      "open_by_handle_at",
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
                                      "modify_ldt",
                                      NULL};

static void a_process_is_refused_what_is_others(void **state)
{
    static const char *const unknown[] = {"clone3", NULL};
    skip_if_sanitized();
    assert_int_equal(confinement_begin(), 4);
    assert_int_equal(loads, 1);
    assert_int_equal(released, 1);
    assert_int_equal(no_new_privileges, 1);
    assert_int_equal(from_others, 1);
    assert_int_equal(from_files, 0);
    assert_true(all_threads);
    unsigned count = expect_rules(refused, "actionERRNO(1);");
    count += expect_rules(unknown, "actionERRNO(38);");
    expect_bound("tgkill", "actionERRNO(1);", "$a0");
    expect_bound("prlimit64", "actionERRNO(1);", "$a0");
    expect_bound("clone", "actionERRNO(1);", "0x10000000");
    assert_int_equal(rule_count(), count + 3);
    assert_non_null(strstr(filter, "# default action\n  action ALLOW;"));
    assert_true(capabilities() ==
                (1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH | 1U << CAP_SYS_RAWIO |
                 1U << CAP_NET_ADMIN | 1U << CAP_NET_RAW | 1U << CAP_IPC_LOCK));
    expect_said("");
}

static void what_the_system_has_not_is_told(void **state)
{
    skip_if_sanitized();
    load_error = -ENOSYS;
    capset_error = -1;
    confinement_begin();
    expect_said("weft: confinement: no giving up of capabilities here: Operation not permitted\n"
                "weft: confinement: no seccomp here: Function not implemented\n");
    assert_int_equal(released, 1);
}

/* ---- with its device open -------------------------------------------------------------------- */

static const char *const always[] = {"read",
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
                                     NULL};
static const char *const of_driver[] = {"ioctl", "pread64", NULL};
static const char *const of_filter[] = {"timerfd_settime", NULL};

// A filter above a driver.
static void narrow(const struct ddm_driver *driver)
{
    static const struct ddm_driver above = {.calls = of_filter, .capabilities = 1U << CAP_CHOWN};
    skip_if_sanitized();
    const struct ddm bottom = {.driver = driver};
    const struct ddm top = {.driver = &above, .next = (struct ddm *)&bottom};
    confinement_narrow(&top);
}

static unsigned expect_narrow(void)
{
    assert_int_equal(loads, 1);
    assert_int_equal(released, 1);
    assert_true(all_threads);
    assert_non_null(strstr(filter, "# default action\n  action ERRNO(1);"));
    expect_bound("mmap", "actionALLOW;", "$a2");
    expect_bound("mprotect", "actionALLOW;", "$a2");
    expect_bound("tgkill", "actionALLOW;", "$a0");
    return 3 + expect_rules(always, "actionALLOW;") + expect_rules(of_driver, "actionALLOW;") +
           expect_rules(of_filter, "actionALLOW;");
}

static void a_chain_has_its_own_calls_and_those_of_all(void **state)
{
    const struct ddm_driver driver = {.calls = of_driver,
                                      .capabilities = UINT64_C(1) << 33 | 1U << CAP_SYS_RAWIO};
    narrow(&driver);
    assert_int_equal(rule_count(), expect_narrow());
    assert_true(capabilities() == (UINT64_C(1) << 33 | 1U << CAP_SYS_RAWIO | 1U << CAP_CHOWN));
    assert_int_equal(from_files, 1);
    expect_said("");
}

static void who_reads_files_may_open_them(void **state)
{
    const struct ddm_driver driver = {.calls = of_driver, .reads_files = true};
    narrow(&driver);
    expect_bound("openat", "actionALLOW;", "$a2");
    assert_int_equal(rule_count(), expect_narrow() + 1);
    assert_int_equal(from_files, 0);
}

static void who_makes_threads_may_do_so(void **state)
{
    const struct ddm_driver driver = {.calls = of_driver, .makes_threads = true};
    static const char *const unknown[] = {"clone3", NULL};
    narrow(&driver);
    expect_bound("clone", "actionALLOW;", "65536");
    assert_int_equal(rule_count(), expect_narrow() + 1 + expect_rules(unknown, "actionERRNO(38);"));
}

static void who_only_asks_has_threads_and_files(void **state)
{
    skip_if_sanitized();
    confinement_narrow_to(of_driver);
    assert_non_null(rule_of("clone"));
    assert_non_null(rule_of("openat"));
    assert_null(rule_of("timerfd_settime"));
    assert_true(capabilities() == 0);
}

static bool knows_none(void)
{
    return false;
}

static bool knows_all(void)
{
    return true;
}

static void a_chain_of_unknown_calls_is_left_as_it_is(void **state)
{
    static const struct ddm_driver nothing_known = {.capabilities = 1};
    static const struct ddm_driver not_here = {.calls = of_driver, .has_known_calls = knows_none};
    static const struct ddm_driver here = {.calls = of_driver, .has_known_calls = knows_all};
    narrow(&nothing_known);
    assert_int_equal(loads, 0);
    narrow(&not_here);
    assert_int_equal(loads, 0);
    assert_int_equal(from_files, 0);
    assert_true(capabilities() == 0);
    narrow(&here);
    assert_int_equal(loads, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_process_is_refused_what_is_others),
        TEST(what_the_system_has_not_is_told),
        TEST(a_chain_has_its_own_calls_and_those_of_all),
        TEST(who_reads_files_may_open_them),
        TEST(who_makes_threads_may_do_so),
        TEST(who_only_asks_has_threads_and_files),
        TEST(a_chain_of_unknown_calls_is_left_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
