#include "cli/process.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "node/host/runtime.h"

enum {
    ANSWER_MAX_LEN = 64 << 20,
    ANSWER_SECONDS = 5,
    SOCKET_IS_LISTENING = 0x10000, // __SO_ACCEPTCON in the flags of /proc/net/unix
};

/* ---- finding --------------------------------------------------------------------------------- */

// A line of /proc/net/unix: address, count, protocol, flags, type, state, inode, name.
static bool line_parse(const char *line, const char *kind, struct process *ret)
{
    char name[64];
    unsigned flags, uid;
    int pid, end = 0;
    if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s @%63[^.].%u.%d%n", &flags, name, &uid, &pid,
               &end) != 4 ||
        strcmp(name, kind) != 0 || pid <= 0 || (flags & SOCKET_IS_LISTENING) == 0) {
        return false;
    }
    *ret = (struct process){.kind = kind, .uid = uid, .pid = pid};
    return line[end] == '\n' || line[end] == '\0';
}

static int by_pid(const void *a, const void *b)
{
    const struct process *left = a, *right = b;
    int order = (left->pid > right->pid) - (left->pid < right->pid);
    return order != 0 ? order : (left->uid > right->uid) - (left->uid < right->uid);
}

struct found {
    struct process *processes;
    size_t count, capacity;
};

static int found_add(struct found *f, const struct process *process)
{
    if (f->count == f->capacity) {
        size_t capacity = 2 * f->capacity + 16;
        struct process *larger = reallocarray(f->processes, capacity, sizeof *larger);
        if (larger == NULL) {
            return -ENOMEM;
        }
        f->processes = larger;
        f->capacity = capacity;
    }
    f->processes[f->count++] = *process;
    return 0;
}

static int lines_read(FILE *in, const char *kind, struct found *found)
{
    char *line = NULL;
    size_t line_capacity = 0;
    struct process process;
    int error = 0;
    while (error == 0 && getline(&line, &line_capacity, in) >= 0) {
        if (line_parse(line, kind, &process)) {
            error = found_add(found, &process);
        }
    }
    free(line);
    return error;
}

// By pid, each once.
static void found_sort(struct found *f)
{
    size_t kept = 0;
    if (f->count > 0) {
        qsort(f->processes, f->count, sizeof *f->processes, by_pid);
    }
    for (size_t i = 0; i < f->count; i++) {
        if (kept == 0 || by_pid(&f->processes[kept - 1], &f->processes[i]) != 0) {
            f->processes[kept++] = f->processes[i];
        }
    }
    f->count = kept;
}

// The kernel gives the list page by page, and counts from the start of a hash chain for each: what
// comes and goes in between makes it leave a socket out, or name it twice. Who is missing in one
// reading is in another.
enum { READING_COUNT = 3 };

static int abstract_find(const char *kind, struct found *found)
{
    int error = 0;
    for (unsigned i = 0; i < READING_COUNT && error == 0; i++) {
        FILE *in = fopen("/proc/net/unix", "re");
        error = in == NULL ? -errno : lines_read(in, kind, found);
        if (in != NULL) {
            fclose(in);
        }
    }
    return error;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static socklen_t address_of(const struct process *process, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (process->path[0] != '\0') {
        snprintf(ret->sun_path, sizeof ret->sun_path, "%s", process->path);
        return sizeof *ret;
    }
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "%s.%u.%d", process->kind,
                       (unsigned)process->uid, (int)process->pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int control_connect(const struct process *process)
{
    struct sockaddr_un addr;
    socklen_t addr_len = address_of(process, &addr);
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (struct sockaddr *)&addr, addr_len) != 0) {
        int error = errno == EAGAIN ? ETIMEDOUT : errno;
        close(fd);
        return -error;
    }
    return fd;
}

// Anybody may take an abstract name, and a path may lead elsewhere. In a user namespace a process
// may know its user by another number than we do; it is believed if it is our own.
static bool is_genuine(int fd, const struct process *process)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == process->uid || (process->path[0] == '\0' && peer.uid == geteuid()));
}

static int answer_read(int fd, char **ret_text, size_t *ret_len)
{
    char *text = NULL;
    size_t len = 0, capacity = 0;
    int error = 0;
    time_t deadline = time(NULL) + ANSWER_SECONDS;
    for (;;) {
        if (len == capacity) {
            capacity = capacity == 0 ? 64 << 10 : 2 * capacity;
            char *larger = capacity <= ANSWER_MAX_LEN ? realloc(text, capacity) : NULL;
            if (larger == NULL) {
                error = capacity <= ANSWER_MAX_LEN ? -ENOMEM : -EMSGSIZE;
                break;
            }
            text = larger;
        }
        ssize_t got = read(fd, text + len, capacity - len);
        if (got <= 0) {
            error = got == 0 ? 0 : (errno == EAGAIN ? -ETIMEDOUT : -errno);
            break;
        }
        len += (size_t)got;
        if (time(NULL) > deadline) {
            error = -ETIMEDOUT;
            break;
        }
    }
    if (error == 0 && len == 0) {
        error = -EACCES; // how a device shows strangers the door
    }
    if (error != 0) {
        free(text);
        return error;
    }
    *ret_text = text;
    *ret_len = len;
    return 0;
}

int process_ask(const struct process *process, const char *request, char **ret_text,
                size_t *ret_len)
{
    ssize_t request_len = (ssize_t)strlen(request);
    int fd = control_connect(process);
    if (fd < 0) {
        return fd;
    }
    int error = 0;
    if (!is_genuine(fd, process)) {
        error = -EACCES;
    } else if (send(fd, request, (size_t)request_len, MSG_NOSIGNAL) != request_len) {
        error = errno == EPIPE ? -EACCES : -errno;
    } else {
        error = answer_read(fd, ret_text, ret_len);
    }
    close(fd);
    return error == -ECONNRESET ? -EACCES : error;
}

/* ---- finding nodes --------------------------------------------------------------------------- */

// A node that was killed has left its socket behind.
static bool is_alive(const struct process *node)
{
    int fd = control_connect(node);
    if (fd >= 0) {
        close(fd);
    }
    return fd != -ECONNREFUSED;
}

// The nodes whose sockets lie in the folder and are of the user that the folder is of.
static int folder_find(const char *folder, struct found *found)
{
    struct stat of_folder, status;
    int error = 0;
    DIR *names = stat(folder, &of_folder) == 0 ? opendir(folder) : NULL;
    for (struct dirent *e; names != NULL && error == 0 && (e = readdir(names)) != NULL;) {
        struct process node = {
            .kind = PROCESS_NODE, .uid = of_folder.st_uid, .pid = runtime_node_pid(e->d_name)};
        if (node.pid != 0 && runtime_path(folder, RUNTIME_NODE, node.pid, node.path) == 0 &&
            lstat(node.path, &status) == 0 && S_ISSOCK(status.st_mode) &&
            status.st_uid == node.uid && is_alive(&node)) {
            error = found_add(found, &node);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
    return error;
}

static int nodes_find(struct found *found)
{
    char folder[RUNTIME_PATH_MAX];
    int error = runtime_folder(folder);
    if (error == 0) {
        error = folder_find(folder, found);
    }
    glob_t sessions = {0};
    if (error == 0 && geteuid() == 0 && glob("/run/user/*/weft", 0, NULL, &sessions) == 0) {
        for (size_t i = 0; i < sessions.gl_pathc && error == 0; i++) {
            error = folder_find(sessions.gl_pathv[i], found);
        }
    }
    globfree(&sessions);
    return error;
}

int processes_find(const char *kind, struct process **ret_processes, size_t *ret_count)
{
    struct found found = {0};
    bool is_node = strcmp(kind, PROCESS_NODE) == 0;
    int error = is_node ? nodes_find(&found) : abstract_find(kind, &found);
    if (error != 0) {
        free(found.processes);
        return error;
    }
    found_sort(&found);
    *ret_processes = found.processes;
    *ret_count = found.count;
    return 0;
}
