// Checks of the files of processes: the runtime folder, what is left of the dead, who lives.

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/why.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "control/find.h"
#include "control/process.h"
#include "control/runtime.h"
#include "text/quantity.h"
#include "text/show.h"

enum { CURE_WORD_MAX = 96 }; // of a path in a command; a longer one is left out

/* ---- the runtime folder ---------------------------------------------------------------------- */

enum { SPACE_WANTED = 1 << 20, FILES_WANTED = 64 };

// Is there room for the files of a process, in the folder or in that above it?
static void space_look(const char *folder, struct finding *ret)
{
    struct statvfs space;
    if (statvfs(folder, &space) != 0) {
        return;
    }
    const bool has_files = space.f_files == 0 || space.f_favail >= FILES_WANTED;
    if ((space.f_bavail < SPACE_WANTED / space.f_frsize || !has_files) &&
        finding_worsen(ret, FINDING_WARNING, "there is no space left where it lies")) {
        char word[CURE_WORD_MAX];
        const char *quoted = text_shell_quote(folder, word, sizeof word);
        finding_cure(ret, "df -h %s; df -i %s", quoted, quoted);
    }
}

static void folder_object(struct finding *ret, const char *why)
{
    if (finding_worsen(
            ret, FINDING_WARNING,
            "%s; so weft status does not find storage nodes, and files of devices lie in "
            "/tmp/weft-%u",
            why, (unsigned)geteuid())) {
        finding_cure(ret, "export WEFT_RUNTIME_DIR=$HOME/.weft");
    }
}

static void folder_look(const struct doctor_subject *subject, struct finding *ret)
{
    char folder[RUNTIME_PATH_MAX], above[RUNTIME_PATH_MAX];
    struct why why;
    if (runtime_folder(folder) != 0) {
        finding_see(ret, "its path is too long");
        folder_object(ret, "a socket there can have no name");
        return;
    }
    finding_see(ret, "%s", folder);
    snprintf(above, sizeof above, "%s", folder);
    if (access(folder, F_OK) == 0) {
        const bool is_usable = access(folder, R_OK | W_OK | X_OK) == 0;
        const int error = errno;
        if (runtime_folder_check(folder, &why) != 0) {
            const size_t len = strlen(folder);
            const bool is_named = strncmp(why.text, folder, len) == 0 && why.text[len] == ':';
            folder_object(ret, is_named ? why.text + len + 2 : why.text);
        } else if (!is_usable) {
            folder_object(ret, strerror(error));
        }
        space_look(folder, ret);
    } else if (errno != ENOENT || access(dirname(above), W_OK | X_OK) != 0) {
        folder_object(ret, errno == ENOENT ? "the folder above it does not exist either"
                                           : strerror(errno));
    } else {
        finding_see_more(ret, "made when it is needed");
        space_look(above, ret);
    }
}

/* ---- what dead processes have left ----------------------------------------------------------- */

#define VIEW_PREFIX "view." // a process id follows (view/place.c)

// Who uses a tree has it locked; the list of all locks tells without taking one.
static bool is_locked(const char *path)
{
    struct stat status;
    char line[256];
    unsigned long inode;
    bool is_found = false;
    FILE *locks = stat(path, &status) == 0 ? fopen("/proc/locks", "re") : NULL;
    while (locks != NULL && fgets(line, sizeof line, locks) != NULL) {
        is_found = is_found || (sscanf(line, "%*s FLOCK %*s %*s %*s %*x:%*x:%lu", &inode) == 1 &&
                                inode == status.st_ino);
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return is_found;
}

static bool is_left_behind(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct process node = {.pid = runtime_node_pid(name)};
    if (node.pid != 0) {
        return runtime_path(folder, RUNTIME_NODE, node.pid, node.path) == 0 &&
               !process_is_alive(&node);
    }
    uint64_t pid;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return strncmp(name, VIEW_PREFIX, sizeof VIEW_PREFIX - 1) == 0 &&
           text_number_parse(name + sizeof VIEW_PREFIX - 1, 1, INT32_MAX, &pid) &&
           kill((pid_t)pid, 0) != 0 && errno == ESRCH && !is_locked(path);
}

// Adds those of a folder to the command that removes them.
static unsigned leftovers_count(const char *folder, char *cure, size_t capacity)
{
    unsigned count = 0;
    DIR *names = opendir(folder);
    for (struct dirent *e; names != NULL && (e = readdir(names)) != NULL;) {
        if (is_left_behind(folder, e->d_name)) {
            char word[CURE_WORD_MAX];
            const char *quoted = text_shell_quote(folder, word, sizeof word);
            const size_t len = strlen(cure), more = strlen(quoted) + strlen(e->d_name) + 2;
            if (len + more < capacity) {
                snprintf(cure + len, capacity - len, " %s/%s", quoted, e->d_name);
            }
            count++;
        }
    }
    if (names != NULL) {
        closedir(names);
    }
    return count;
}

static void leftovers_look(const struct doctor_subject *subject, struct finding *ret)
{
    static const char remover[] = "rm -r";
    char folder[RUNTIME_PATH_MAX], cure[FINDING_CURE_MAX];
    unsigned count = 0;
    snprintf(cure, sizeof cure, "%s", remover);
    if (runtime_folder(folder) == 0) {
        count += leftovers_count(folder, cure, sizeof cure);
    }
    snprintf(folder, sizeof folder, "/tmp/weft-%u", (unsigned)geteuid());
    count += leftovers_count(folder, cure, sizeof cure);
    if (count == 0) {
        finding_see(ret, "none");
        return;
    }
    finding_see(ret, "%u file%s of processes that are gone", count, count == 1 ? "" : "s");
    finding_worsen(ret, FINDING_NOTE, "the next process that starts removes them");
    if (strcmp(cure, remover) != 0) {
        finding_cure(ret, "%s", cure);
    }
}

/* ---- processes ------------------------------------------------------------------------------- */

static size_t own_count(enum process_kind kind)
{
    struct process *all = NULL;
    size_t count = 0;
    if (processes_find(kind, &all, &count) != 0) {
        return 0;
    }
    count = processes_keep_own(all, count);
    free(all);
    return count;
}

static void processes_look(const struct doctor_subject *subject, struct finding *ret)
{
    const size_t programs = own_count(PROCESS_DEVICE), nodes = own_count(PROCESS_NODE);
    finding_see(ret, "%zu program%s on weft, %zu storage node%s", programs,
                programs == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
}

static const struct doctor_check checks[] = {
    {"folder", "the runtime folder, where processes have their files", folder_look},
    {"leftovers", "files of processes that are gone", leftovers_look},
    {"processes", "who runs on weft now", processes_look},
};

const struct doctor_group doctor_files = {"Files", checks, sizeof checks / sizeof checks[0], false};
