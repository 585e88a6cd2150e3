// How a module gets into the process: which file may, what happens to a process apart that loads it
// first, and what it must say that it is. The loader and the file system are the test's.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/module/load.h"

enum trial { FINE, CRASHES, ENDS, ENDS_WELL, HANGS };

static int token; // its address is the loaded object

static struct {
    // What is there.
    enum trial trial;
    int stat_error;
    mode_t mode;
    uid_t owner, user;
    int pipe_error;
    bool has_no_process, cannot_load;
    unsigned interrupts; // of read and of waitpid, each
    const struct weft_ddm_driver *driver;
    // What was done.
    pid_t parent;
    unsigned reads, waits, loads, forks;
    int flags;
} world;

// What the child saw.
static struct {
    unsigned alarm_s;
    rlim_t core_max;
    int flags;
} * child;

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlsym(void *object, const char *name);
int __wrap_stat64(const char *path, struct stat *ret);
uid_t __wrap_geteuid(void);
unsigned __wrap_alarm(unsigned seconds);
ssize_t __wrap_read(int fd, void *data, size_t len);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __wrap_pipe2(int fds[2], int flags);
pid_t __wrap_fork(void);
_Noreturn void __wrap__exit(int status);
ssize_t __real_read(int fd, void *data, size_t len);
pid_t __real_waitpid(pid_t pid, int *status, int options);
int __real_pipe2(int fds[2], int flags);
pid_t __real_fork(void);
_Noreturn void __real__exit(int status);

int __wrap_stat64(const char *path, struct stat *ret)
{
    *ret = (struct stat){.st_mode = world.mode, .st_uid = world.owner};
    errno = world.stat_error;
    return world.stat_error == 0 ? 0 : -1;
}

uid_t __wrap_geteuid(void)
{
    return world.user;
}

unsigned __wrap_alarm(unsigned seconds)
{
    child->alarm_s = seconds;
    return 0;
}

static void *load_in_child(int flags)
{
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    child->core_max = core.rlim_max + core.rlim_cur;
    child->flags = flags;
    switch (world.trial) {
    case CRASHES:
        raise(SIGKILL);
        break;
    case ENDS:
        _exit(3);
    case ENDS_WELL:
        _exit(0);
    case HANGS:
        raise(SIGALRM);
        break;
    default:
        break;
    }
    return NULL;
}

void *__wrap_dlopen(const char *path, int flags)
{
    if (getpid() != world.parent) {
        return load_in_child(flags);
    }
    world.loads++;
    world.flags = flags;
    return world.cannot_load ? __real_dlopen("/nonexistent.so", flags) : &token;
}

void *__wrap_dlsym(void *object, const char *name)
{
    assert_ptr_equal(object, &token);
    assert_string_equal(name, "weft_ddm_module");
    return (void *)world.driver;
}

ssize_t __wrap_read(int fd, void *data, size_t len)
{
    if (world.reads++ < world.interrupts) {
        errno = EINTR;
        return -1;
    }
    return __real_read(fd, data, len);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (world.waits++ < world.interrupts) {
        errno = EINTR;
        return -1;
    }
    return __real_waitpid(pid, status, options);
}

int __wrap_pipe2(int fds[2], int flags)
{
    assert_int_equal(flags, O_CLOEXEC);
    errno = world.pipe_error;
    return world.pipe_error == 0 ? __real_pipe2(fds, flags) : -1;
}

pid_t __wrap_fork(void)
{
    world.forks++;
    errno = EAGAIN;
    return world.has_no_process ? -1 : __real_fork();
}

// The process that asks goes on.
_Noreturn void __wrap__exit(int status)
{
    if (getpid() == world.parent) {
        abort();
    }
    __real__exit(status);
}

/* ---- a module -------------------------------------------------------------------------------- */

static int it_opens(const struct weft_ddm_target *target, const struct weft_ddm_host *host,
                    void **ret_device, struct weft_ddm_why *ret_why)
{
    return 0;
}

static int it_probes(void *device, struct weft_ddm_profile *ret)
{
    return 0;
}

static int it_takes(void *device, struct weft_ddm_command *command)
{
    return 0;
}

static int its_fd(void *device)
{
    return -1;
}

static uint64_t its_deadline(void *device)
{
    return 0;
}

static void it_polls(void *device, uint64_t now_ns)
{
}

static void it_does(void *device)
{
}

static const char *const calls[] = {NULL};

static const struct weft_ddm_driver whole = {.version = WEFT_DDM_VERSION,
                                             .size = sizeof whole,
                                             .name = "mine",
                                             .open = it_opens,
                                             .probe = it_probes,
                                             .submit = it_takes,
                                             .close = it_does,
                                             .calls = calls,
                                             .can_stand_by = true};

static struct weft_ddm_driver got;
static struct why why;

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 64; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static int load(void)
{
    int before = count_open();
    why = (struct why){""};
    memset(&got, 0xee, sizeof got);
    memset(child, 0, sizeof *child);
    int error = module_load("/proc/self/root/../dev/null", &got, &why);
    assert_int_equal(count_open(), before);
    return error;
}

static int fresh(void **state)
{
    memset(&world, 0, sizeof world);
    world.mode = S_IFREG | 0644;
    world.owner = world.user = 7;
    world.parent = getpid();
    world.driver = &whole;
    return 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void a_file_of_ours_or_roots_that_not_everybody_can_write_is_loaded(void **state)
{
    static const struct {
        mode_t mode;
        uid_t owner;
        int error;
        const char *why;
    } cases[] = {
        {S_IFREG | 0644, 7, 0, NULL},
        {S_IFREG | 0755, 0, 0, NULL},
        {S_IFREG | 0775, 7, 0, NULL},
        {S_IFREG | 0644, 8, 0, "it belongs to another user"},
        {S_IFREG | 0644, 1, 0, "it belongs to another user"},
        {S_IFREG | 0646, 7, 0, "everybody can write it"},
        {S_IFREG | 0002, 0, 0, "everybody can write it"},
        {S_IFDIR | 0755, 7, 0, "it is no file"},
        {S_IFCHR | 0644, 0, 0, "it is no file"},
        {S_IFREG | 0644, 7, EACCES, "Permission denied"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[128];
        fresh(NULL);
        world.mode = cases[i].mode;
        world.owner = cases[i].owner;
        world.stat_error = cases[i].error;
        snprintf(line, sizeof line, "the module /dev/null: %s", cases[i].why);
        assert_int_equal(load(), cases[i].why == NULL ? 0 : -EINVAL);
        assert_string_equal(why.text, cases[i].why == NULL ? "" : line);
        assert_int_equal(world.forks, cases[i].why == NULL);
        assert_int_equal(world.loads, cases[i].why == NULL);
    }
    assert_int_equal(module_load("/nonexistent", &got, &why), -EINVAL);
    assert_string_equal(why.text, "the module /nonexistent: No such file or directory");
}

/* ---- the trial ------------------------------------------------------------------------------- */

static void a_process_apart_loads_it_first(void **state)
{
    static const struct {
        enum trial trial;
        const char *why;
    } cases[] = {
        {FINE, ""},
        {ENDS, "the module /dev/null: it ends the process that loads it"},
        {ENDS_WELL, "the module /dev/null: it ends the process that loads it"},
        {CRASHES, "the module /dev/null: it crashes while it is loaded (Killed)"},
        {HANGS, "the module /dev/null: it does not come back while it is loaded (Alarm clock)"},
    };
    signal(SIGALRM, SIG_IGN); // not so in the child
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const char *said = cases[i / 2].why;
        fresh(NULL);
        world.trial = cases[i / 2].trial;
        world.interrupts = 3 * (i % 2);
        assert_int_equal(load(), said[0] == '\0' ? 0 : -EINVAL);
        assert_string_equal(why.text, said);
        assert_int_equal(child->alarm_s, 10);
        assert_int_equal(child->core_max, 0);
        assert_int_equal(child->flags, RTLD_NOW | RTLD_LOCAL);
        assert_int_equal(world.loads, said[0] == '\0');
        assert_int_equal(__real_waitpid(-1, NULL, 0), -1); // nobody is left
    }
    signal(SIGALRM, SIG_DFL);
}

static void without_a_process_there_is_no_trial_and_without_a_pipe_no_module(void **state)
{
    world.has_no_process = true;
    world.trial = CRASHES;
    assert_int_equal(load(), 0);
    assert_int_equal(world.reads + world.waits, 0);
    assert_int_equal(world.loads, 1);
    fresh(NULL);
    world.pipe_error = EMFILE;
    assert_int_equal(load(), -EINVAL);
    assert_string_equal(why.text, "the module /dev/null: Too many open files");
    assert_int_equal(world.forks, 0);
}

static void an_object_that_does_not_load_says_what_the_loader_says(void **state)
{
    world.cannot_load = true;
    assert_int_equal(load(), -EINVAL);
    assert_memory_equal(why.text, "the module is not loaded: /nonexistent.so: ", 43);
    assert_int_equal(world.flags, RTLD_NOW | RTLD_LOCAL);
}

/* ---- what it says that it is ----------------------------------------------------------------- */

#define SIZE    "its weft_ddm_module has an impossible size"
#define LACKS   "its weft_ddm_module lacks a name, open, probe, submit or close"
#define WAITING "its weft_ddm_module has poll without drain, or something to wait for without poll"

#define OF_VERSION(n)                                                                     \
    "it is of version " n ", and this weft is of version 1: compile it with this weft's " \
    "<weft/ddm.h>"

enum { LEAST = offsetof(struct weft_ddm_driver, calls), WHOLE = sizeof(struct weft_ddm_driver) };
enum { POLL = 1, DRAIN = 2, FD = 4, DEADLINE = 8, FLUSH = 16 };

// A driver as large as one can be.
union largest {
    struct weft_ddm_driver driver;
    char octets[4096];
};

static void expect_load(union largest *it, const char *refusal)
{
    char line[256] = "";
    world.driver = &it->driver;
    if (refusal != NULL) {
        snprintf(line, sizeof line, "the module /dev/null: %s", refusal);
    }
    assert_int_equal(load(), refusal == NULL ? 0 : -EINVAL);
    assert_string_equal(why.text, line);
    if (refusal == NULL) {
        assert_ptr_equal(got.open, it_opens);
        assert_ptr_equal(got.poll, it->driver.poll);
    }
}

static void it_must_be_of_this_version_and_of_a_possible_size(void **state)
{
    static const struct {
        uint32_t version, size;
        const char *why; // NULL: it is good
    } cases[] = {
        {1, WHOLE, NULL},
        {2, WHOLE, OF_VERSION("2")},
        {0, WHOLE, OF_VERSION("0")},
        {1, LEAST, NULL},
        {1, LEAST - 1, SIZE},
        {1, 0, SIZE},
        {1, sizeof(union largest), NULL},
        {1, sizeof(union largest) + 1, SIZE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        union largest it = {.driver = whole};
        fresh(NULL);
        it.driver.version = cases[i].version;
        it.driver.size = cases[i].size;
        expect_load(&it, cases[i].why);
    }
}

static void it_must_have_what_no_driver_does_without(void **state)
{
    static const size_t fields[] = {
        offsetof(struct weft_ddm_driver, name),  offsetof(struct weft_ddm_driver, open),
        offsetof(struct weft_ddm_driver, probe), offsetof(struct weft_ddm_driver, submit),
        offsetof(struct weft_ddm_driver, close),
    };
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        union largest it = {.driver = whole};
        fresh(NULL);
        memset(it.octets + fields[i], 0, sizeof(void *));
        expect_load(&it, LACKS);
    }
}

static void what_is_waited_for_must_be_polled_and_drained(void **state)
{
    static const struct {
        unsigned has; // beside the least
        const char *why;
    } cases[] = {
        {0, NULL},
        {FLUSH, NULL},
        {POLL, WAITING},
        {DRAIN, WAITING},
        {POLL | DRAIN, NULL},
        {FD, WAITING},
        {DEADLINE, WAITING},
        {FD | POLL | DRAIN, NULL},
        {DEADLINE | POLL | DRAIN, NULL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        union largest it = {.driver = whole};
        fresh(NULL);
        it.driver.poll = (cases[i].has & POLL) != 0 ? it_polls : NULL;
        it.driver.drain = (cases[i].has & DRAIN) != 0 ? it_does : NULL;
        it.driver.poll_fd = (cases[i].has & FD) != 0 ? its_fd : NULL;
        it.driver.next_deadline_ns = (cases[i].has & DEADLINE) != 0 ? its_deadline : NULL;
        it.driver.flush_queue = (cases[i].has & FLUSH) != 0 ? it_does : NULL;
        expect_load(&it, cases[i].why);
    }
}

static void an_object_without_a_driver_is_no_module(void **state)
{
    world.driver = NULL;
    assert_int_equal(load(), -EINVAL);
    assert_string_equal(why.text, "the module /dev/null: it is no module: it has no "
                                  "weft_ddm_module");
}

static void what_lies_beyond_a_driver_counts_as_zero(void **state)
{
    static struct {
        struct weft_ddm_driver driver;
        char more[64];
    } larger;
    larger.driver = whole;
    larger.driver.size = LEAST;
    world.driver = &larger.driver;
    assert_int_equal(load(), 0);
    assert_null(got.calls);
    assert_false(got.can_stand_by);
    assert_ptr_equal(got.close, it_does);
    larger.driver.size = sizeof larger;
    memset(larger.more, 0x55, sizeof larger.more);
    struct {
        struct weft_ddm_driver driver;
        char behind[64];
    } ret;
    memset(&ret, 0, sizeof ret);
    assert_int_equal(module_load("/dev/null", &ret.driver, &why), 0);
    assert_ptr_equal(ret.driver.calls, calls);
    assert_true(ret.driver.can_stand_by);
    for (unsigned i = 0; i < sizeof ret.behind; i++) {
        assert_int_equal(ret.behind[i], 0);
    }
}

static void one_of_wefts_own_is_loaded_without_a_trial(void **state)
{
    world.mode = S_IFDIR; // nobody looks
    assert_int_equal(module_load_own("libweft-x.so", &got, &why), 0);
    assert_int_equal(world.forks, 0);
    assert_int_equal(world.loads, 1);
    world.cannot_load = true;
    assert_int_equal(module_load_own("libweft-x.so", &got, &why), -EINVAL);
    world.cannot_load = false;
    world.driver = NULL;
    assert_int_equal(module_load_own("libweft-x.so", &got, &why), -EINVAL);
    assert_string_equal(why.text,
                        "the module libweft-x.so: it is no module: it has no weft_ddm_module");
}

int main(void)
{
    child = mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_of_ours_or_roots_that_not_everybody_can_write_is_loaded,
                               fresh),
        cmocka_unit_test_setup(a_process_apart_loads_it_first, fresh),
        cmocka_unit_test_setup(without_a_process_there_is_no_trial_and_without_a_pipe_no_module,
                               fresh),
        cmocka_unit_test_setup(an_object_that_does_not_load_says_what_the_loader_says, fresh),
        cmocka_unit_test(it_must_be_of_this_version_and_of_a_possible_size),
        cmocka_unit_test(it_must_have_what_no_driver_does_without),
        cmocka_unit_test(what_is_waited_for_must_be_polled_and_drained),
        cmocka_unit_test_setup(an_object_without_a_driver_is_no_module, fresh),
        cmocka_unit_test_setup(what_lies_beyond_a_driver_counts_as_zero, fresh),
        cmocka_unit_test_setup(one_of_wefts_own_is_loaded_without_a_trial, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
