#include "control/find.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/runtime.h"

enum { SOCKET_IS_LISTENING = 0x10000 }; // __SO_ACCEPTCON in the flags of /proc/net/unix

/* ---- devices --------------------------------------------------------------------------------- */

// A line of /proc/net/unix: address, count, protocol, flags, type, state, inode, name.
static bool line_parse(const char *line, struct process *ret)
{
    char name[RUNTIME_PATH_MAX];
    unsigned flags;
    return sscanf(line, "%*s %*s %*s %x %*s %*s %*s @%107s", &flags, name) == 2 &&
           (flags & SOCKET_IS_LISTENING) != 0 && process_name_parse(name, ret);
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

static int lines_read(FILE *in, struct found *found)
{
    char *line = NULL;
    size_t line_capacity = 0;
    struct process process;
    int error = 0;
    while (error == 0 && getline(&line, &line_capacity, in) >= 0) {
        if (line_parse(line, &process)) {
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

static int devices_find(struct found *found)
{
    int error = 0;
    for (unsigned i = 0; i < READING_COUNT && error == 0; i++) {
        FILE *in = fopen("/proc/net/unix", "re");
        error = in == NULL ? -errno : lines_read(in, found);
        if (in != NULL) {
            fclose(in);
        }
    }
    return error;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

// The nodes whose sockets lie in the folder and are of the user that the folder is of.
static int folder_find(const char *folder, struct found *found)
{
    struct stat of_folder, status;
    int error = 0;
    DIR *names = stat(folder, &of_folder) == 0 ? opendir(folder) : NULL;
    for (struct dirent *e; names != NULL && error == 0 && (e = readdir(names)) != NULL;) {
        struct process node = {.uid = of_folder.st_uid, .pid = runtime_node_pid(e->d_name)};
        if (node.pid != 0 && runtime_path(folder, RUNTIME_NODE, node.pid, node.path) == 0 &&
            lstat(node.path, &status) == 0 && S_ISSOCK(status.st_mode) &&
            status.st_uid == node.uid && process_is_alive(&node)) {
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

/* ---- both ------------------------------------------------------------------------------------ */

int processes_find(enum process_kind kind, struct process **ret_processes, size_t *ret_count)
{
    struct found found = {0};
    int error = kind == PROCESS_NODE ? nodes_find(&found) : devices_find(&found);
    if (error != 0) {
        free(found.processes);
        return error;
    }
    found_sort(&found);
    *ret_processes = found.processes;
    *ret_count = found.count;
    return 0;
}

size_t processes_keep_own(struct process *processes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (geteuid() == 0 || processes[i].uid == geteuid()) {
            processes[kept++] = processes[i];
        }
    }
    return kept;
}

const struct process *processes_at(const struct process *processes, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid == pid) {
            return &processes[i];
        }
    }
    return NULL;
}
