// Checks of weft's own: its libraries, its settings, its folder, its processes.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/settings.h>

#include "base/why.h"
#include "cli/doctor.h"
#include "cli/environment.h"
#include "cli/finding.h"
#include "control/find.h"
#include "control/process.h"
#include "control/runtime.h"
#include "text/quantity.h"
#include "text/show.h"

enum { CURE_WORD_MAX = 96 }; // of a path in a command; a longer one is left out

/* ---- libraries ------------------------------------------------------------------------------- */

static void libraries_look(const struct doctor_subject *subject, struct finding *ret)
{
    static const char *const names[] = {"libibverbs.so.1", "librdmacm.so.1", "libweft.so.1",
                                        "libweft-view.so"};
    char dir[PATH_MAX], path[PATH_MAX];
    const struct hearer hearer = finding_hearer(ret);
    if (environment_library_find(dir, &hearer) != 0) {
        finding_see(ret, "not found");
        return;
    }
    finding_see(ret, "in %s", dir);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int len = snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if ((len >= (int)sizeof path || access(path, R_OK) != 0) &&
            finding_worsen(ret, FINDING_FAILURE, "weft is not whole: %s: %s", names[i],
                           strerror(errno))) {
            finding_cure(ret, "build it (make), or install it again");
        }
    }
}

/* ---- the loader ------------------------------------------------------------------------------ */

enum { LOADER_LINE_MAX = 2 * PATH_MAX };

// What the loader finds in this environment, asked of itself: it lists what it would load for a
// program that has nothing to do with RDMA, with the libraries before it, and runs nothing.
static FILE *loader_ask(pid_t *ret_pid)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) {
        return NULL;
    }
    *ret_pid = fork();
    if (*ret_pid == 0) {
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(out[1], STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
        setenv("LD_PRELOAD", "libibverbs.so.1:librdmacm.so.1", 1);
        execl("/bin/true", "true", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    close(out[1]);
    return fdopen(out[0], "re");
}

// "\tlibibverbs.so.1 => /usr/lib/x86_64-linux-gnu/libibverbs.so.1 (0x00007f…)", or without the
// arrow where a path was given. The path, which stays in `line`, or NULL.
static char *loader_path(char *line, const char *library)
{
    char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => ");
    if (strncmp(name, library, strlen(library)) != 0 || arrow == NULL) {
        return NULL;
    }
    char *path = arrow + strlen(" => ");
    path[strcspn(path, " \n")] = '\0';
    return *path == '/' ? path : NULL;
}

static void folder_take(char *line, const char *library, char ret[PATH_MAX])
{
    char resolved[PATH_MAX], *path = loader_path(line, library);
    if (path != NULL) {
        const char *folder = dirname(realpath(path, resolved) != NULL ? resolved : path);
        snprintf(ret, PATH_MAX, "%s", folder);
    }
}

// The folders of what it finds; "" where it finds none.
static void loader_folders(char ret_verbs[PATH_MAX], char ret_cm[PATH_MAX])
{
    static char line[LOADER_LINE_MAX], copy[LOADER_LINE_MAX];
    pid_t pid = -1;
    FILE *list = loader_ask(&pid);
    ret_verbs[0] = ret_cm[0] = '\0';
    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        memcpy(copy, line, sizeof copy);
        folder_take(line, "libibverbs.so.1", ret_verbs);
        folder_take(copy, "librdmacm.so.1", ret_cm);
    }
    if (list != NULL) {
        fclose(list);
        waitpid(pid, NULL, 0);
    }
}

// Whether LD_LIBRARY_PATH lists the folder, wherever.
static bool is_listed(const char *folder)
{
    const char *list = getenv("LD_LIBRARY_PATH");
    const size_t len = strlen(folder);
    for (const char *at = list; at != NULL && len > 0; at = strchr(at, ':')) {
        at += *at == ':';
        if (strncmp(at, folder, len) == 0 && (at[len] == '\0' || at[len] == ':')) {
            return true;
        }
    }
    return false;
}

static void loader_look(const struct doctor_subject *subject, struct finding *ret)
{
    char verbs[PATH_MAX], cm[PATH_MAX];
    const char *ours = subject->library_dir;
    loader_folders(verbs, cm);
    if (verbs[0] == '\0' && cm[0] == '\0') {
        finding_see(ret, "neither libibverbs.so.1 nor librdmacm.so.1 is found");
    } else if (strcmp(verbs, cm) == 0) {
        finding_see(ret, "libibverbs.so.1 and librdmacm.so.1 of %s", verbs);
    } else {
        finding_see(ret, "libibverbs.so.1 of %s, librdmacm.so.1 of %s",
                    verbs[0] != '\0' ? verbs : "nowhere", cm[0] != '\0' ? cm : "nowhere");
    }
    if (ours[0] == '\0' || (strcmp(verbs, ours) == 0 && strcmp(cm, ours) == 0)) {
        return;
    }
    if (is_listed(ours)) {
        finding_worsen(ret, FINDING_WARNING,
                       "LD_LIBRARY_PATH has another folder with such libraries before weft's: "
                       "programs do not use weft");
    } else {
        finding_worsen(ret, FINDING_NOTE,
                       "these are for programs that are started by their plain names; `weft run` "
                       "gives them weft's");
    }
    finding_cure(ret, "eval \"$(weft env)\"");
}

/* ---- settings -------------------------------------------------------------------------------- */

extern char **environ;

static const struct weft_setting *setting_find(const char *name, size_t len)
{
    const struct weft_setting *setting;
    for (size_t i = 0; (setting = weft_setting_at(i)) != NULL; i++) {
        if (strncmp(setting->name, name, len) == 0 && setting->name[len] == '\0') {
            return setting;
        }
    }
    return NULL;
}

// Read by others of weft than its device.
static bool is_of_tools(const char *name, size_t len)
{
    static const char *const names[] = {"WEFT_RUNTIME_DIR", "WEFT_SOURCE", "WEFT_BUILD_DIR",
                                        "WEFT_SOURCE_DIR",  "WEFT_SOAK",   "WEFT_OWN_NAMESPACE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0) {
            return true;
        }
    }
    return strncmp(name, "WEFT_CI_", sizeof "WEFT_CI_" - 1) == 0;
}

// A file of a setting is made when the program ends, or while it runs: then is too late to learn
// that it cannot be.
static void file_look(const struct weft_setting *setting, const char *value, struct finding *ret)
{
    char path[PATH_MAX];
    if (strstr(setting->name, "_FILE") == NULL && strcmp(setting->name, "WEFT_PCAP") != 0) {
        return;
    }
    snprintf(path, sizeof path, "%s", value);
    const char *folder = dirname(path);
    if (access(folder, W_OK | X_OK) != 0 &&
        finding_worsen(ret, FINDING_WARNING, "%s: nothing can be written to %s: %s", setting->name,
                       folder, strerror(errno))) {
        char word[CURE_WORD_MAX];
        finding_cure(ret, "mkdir -p %s", text_shell_quote(folder, word, sizeof word));
    }
}

static void setting_look(const char *variable, struct finding *ret)
{
    const size_t len = strcspn(variable, "=");
    const struct weft_setting *setting = setting_find(variable, len);
    const char *value = variable[len] == '=' ? variable + len + 1 : "";
    if (setting == NULL) {
        if (!is_of_tools(variable, len) &&
            finding_worsen(ret, FINDING_WARNING, "there is no setting %.*s: nobody reads it",
                           (int)len, variable)) {
            finding_cure(ret, "weft help environment");
        }
    } else if (*value != '\0' && !weft_setting_accepts(setting, value)) {
        if (finding_worsen(ret, FINDING_WARNING,
                           "%s=%s: it must be %s; the default is used instead", setting->name,
                           value, setting->values)) {
            finding_cure(ret, "unset %s", setting->name);
        }
    } else if (*value != '\0') {
        file_look(setting, value, ret);
    }
}

static void settings_look(const struct doctor_subject *subject, struct finding *ret)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "WEFT_", sizeof "WEFT_" - 1) == 0) {
            finding_see_more(ret, "%s", *variable);
            setting_look(*variable, ret);
        }
    }
    if (ret->seen[0] == '\0') {
        finding_see(ret, "none is given: defaults");
    }
}

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
    if (finding_worsen(ret, FINDING_WARNING,
                       "%s; so weft serve does not start, and files of devices lie in /tmp/weft-%u",
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
    {"libraries", "weft's own libraries", libraries_look},
    {"loader", "which libraries programs get by their plain names", loader_look},
    {"settings", "variables WEFT_* of the environment", settings_look},
    {"folder", "the runtime folder, where processes have their files", folder_look},
    {"leftovers", "files of processes that are gone", leftovers_look},
    {"processes", "who runs on weft now", processes_look},
};

const struct doctor_group doctor_weft = {"Weft", checks, sizeof checks / sizeof checks[0], false};
