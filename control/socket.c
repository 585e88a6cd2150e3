#include "control/socket.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/process.h"

static bool is_answered(const char *path)
{
    struct process process = {.path = ""};
    snprintf(process.path, sizeof process.path, "%s", path);
    return process_is_alive(&process);
}

static bool is_old(const char *path)
{
    enum { SECONDS = 10 };
    struct stat status;
    return lstat(path, &status) == 0 && time(NULL) - status.st_mtime > SECONDS;
}

// Of nodes: one that listens answers. One that is young does not yet: its process tells, unless it
// is of another process namespace, and so is an instant of youth.
static bool is_left(const char *name, const char *path)
{
    pid_t young = runtime_young_pid(name);
    bool may_be_left = young != 0 ? kill(young, 0) != 0 && errno == ESRCH && is_old(path)
                                  : runtime_node_pid(name) != 0;
    return may_be_left && !is_answered(path);
}

// Removes the sockets of nodes that were killed. A node listens before its socket has its name, so
// that none is taken for dead that is only young.
static void remains_remove(const char *folder)
{
    DIR *names = opendir(folder);
    for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        char path[RUNTIME_PATH_MAX];
        int len = snprintf(path, sizeof path, "%.*s/%s", RUNTIME_PATH_MAX, folder, entry->d_name);
        if (len < RUNTIME_PATH_MAX && is_left(entry->d_name, path)) {
            unlink(path);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
}

static int listen_at(const char *path, int backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof addr.sun_path, "%.*s", RUNTIME_PATH_MAX - 1, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    unlink(path);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0 || chmod(path, 0600) != 0 ||
        listen(fd, backlog) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int control_socket_listen(int backlog, char ret_path[RUNTIME_PATH_MAX], struct why *ret_why)
{
    char folder[RUNTIME_PATH_MAX], young[RUNTIME_PATH_MAX];
    int error = runtime_folder(folder);
    if (error == 0) {
        error = runtime_path(folder, RUNTIME_NODE, getpid(), ret_path);
    }
    if (error == 0) {
        error = runtime_path(folder, RUNTIME_YOUNG, getpid(), young);
    }
    if (error != 0) {
        why_say(ret_why, "the path of the runtime folder is too long");
        return error;
    }
    error = runtime_folder_make(folder, ret_why);
    if (error != 0) {
        return error;
    }
    remains_remove(folder);
    if (is_answered(ret_path)) {
        why_say(ret_why, "%s: somebody else answers there", ret_path);
        return -EADDRINUSE;
    }
    int fd = listen_at(young, backlog);
    if (fd < 0 || rename(young, ret_path) != 0) {
        error = fd < 0 ? fd : -errno;
        why_say(ret_why, "%s: %s", ret_path, strerror(-error));
        unlink(young);
    }
    if (fd >= 0 && error != 0) {
        close(fd);
    }
    return error == 0 ? fd : error;
}
