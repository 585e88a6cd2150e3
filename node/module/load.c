#include "node/module/load.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TRIAL_SECONDS = 10,
    DRIVER_SIZE_MAX = 4096, // of a struct weft_ddm_driver of versions to come
};

static const char symbol[] = "weft_ddm_module";

// Said with the one error that means a wrong URI, whatever the system called it.
static int refuse(struct why *ret_why, const char *path, const char *what)
{
    why_say(ret_why, "the module %.150s: %.200s", path, what);
    return -EINVAL;
}

/* ---- the file -------------------------------------------------------------------------------- */

// Whoever can write it can run what he likes as the node's user.
static const char *fault_of_file(const struct stat *status)
{
    if (!S_ISREG(status->st_mode)) {
        return "it is no file";
    }
    if (status->st_uid != 0 && status->st_uid != geteuid()) {
        return "it belongs to another user";
    }
    return (status->st_mode & S_IWOTH) != 0 ? "everybody can write it" : NULL;
}

static int file_check(const char *path, struct why *ret_why)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return refuse(ret_why, path, strerror(errno));
    }
    const char *fault = fault_of_file(&status);
    return fault == NULL ? 0 : refuse(ret_why, path, fault);
}

/* ---- the trial ------------------------------------------------------------------------------- */

_Noreturn static void try_in_child(const char *path, int done_fd)
{
    const struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGALRM, SIG_DFL);
    alarm(TRIAL_SECONDS);
    dlopen(path, RTLD_NOW | RTLD_LOCAL); // why it fails, the process itself will hear
    ssize_t written = write(done_fd, "", 1);
    _exit(written == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
}

// What runs when an object is loaded may crash, end the process or not come back.
static int trial(const char *path, struct why *ret_why)
{
    int pipe_fds[2], status = 0;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return refuse(ret_why, path, strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        try_in_child(path, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    char done;
    ssize_t got;
    do {
        got = child > 0 ? read(pipe_fds[0], &done, 1) : 1;
    } while (got < 0 && errno == EINTR);
    close(pipe_fds[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (got == 1) {
        return 0; // where there is no process for a trial, there is none
    }
    if (!WIFSIGNALED(status)) {
        return refuse(ret_why, path, "it ends the process that loads it");
    }
    bool hangs = WTERMSIG(status) == SIGALRM;
    why_say(ret_why, "the module %.150s: %s while it is loaded (%s)", path,
            hangs ? "it does not come back" : "it crashes", strsignal(WTERMSIG(status)));
    return -EINVAL;
}

/* ---- what it says that it is ----------------------------------------------------------------- */

// The first ones end with `close`.
static const char *fault_of_driver(const struct weft_ddm_driver *driver)
{
    size_t least = offsetof(struct weft_ddm_driver, calls);
    if (driver->size < least || driver->size > DRIVER_SIZE_MAX) {
        return "its weft_ddm_module has an impossible size";
    }
    if (driver->name == NULL || driver->open == NULL || driver->probe == NULL ||
        driver->submit == NULL || driver->close == NULL) {
        return "its weft_ddm_module lacks a name, open, probe, submit or close";
    }
    bool waits = driver->poll_fd != NULL || driver->next_deadline_ns != NULL;
    if ((driver->poll == NULL) != (driver->drain == NULL) || (waits && driver->poll == NULL)) {
        return "its weft_ddm_module has poll without drain, or something to wait for without poll";
    }
    return NULL;
}

static int driver_take(void *object, const char *path, struct weft_ddm_driver *ret,
                       struct why *ret_why)
{
    const struct weft_ddm_driver *driver = dlsym(object, symbol);
    if (driver == NULL) {
        return refuse(ret_why, path, "it is no module: it has no weft_ddm_module");
    }
    if (driver->version != WEFT_DDM_VERSION) {
        why_say(ret_why,
                "the module %.150s: it is of version %u, and this weft is of version %d: "
                "compile it with this weft's <weft/ddm.h>",
                path, driver->version, WEFT_DDM_VERSION);
        return -EINVAL;
    }
    const char *fault = fault_of_driver(driver);
    if (fault != NULL) {
        return refuse(ret_why, path, fault);
    }
    *ret = (struct weft_ddm_driver){0};
    memcpy(ret, driver, driver->size < sizeof *ret ? driver->size : sizeof *ret);
    return 0;
}

static int object_load(const char *path, struct weft_ddm_driver *ret, struct why *ret_why)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        why_say(ret_why, "the module is not loaded: %.300s", dlerror());
        return -EINVAL;
    }
    return driver_take(object, path, ret, ret_why);
}

int module_load(const char *path, struct weft_ddm_driver *ret, struct why *ret_why)
{
    char whole[PATH_MAX]; // the loader looks for a bare name elsewhere
    if (realpath(path, whole) == NULL) {
        return refuse(ret_why, path, strerror(errno));
    }
    int error = file_check(whole, ret_why);
    if (error == 0) {
        error = trial(whole, ret_why);
    }
    return error == 0 ? object_load(whole, ret, ret_why) : error;
}

int module_load_own(const char *file, struct weft_ddm_driver *ret, struct why *ret_why)
{
    return object_load(file, ret, ret_why);
}
