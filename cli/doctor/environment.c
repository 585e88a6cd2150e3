// Checks of what programs get from their environment: libraries, preloaded ones, settings.

#include "cli/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/settings.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
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

// Whether the libraries in the folder are weft's, of whatever build.
static bool is_of_weft(const char *folder)
{
    char path[PATH_MAX];
    return folder[0] != '\0' &&
           snprintf(path, sizeof path, "%s/libweft.so.1", folder) < (int)sizeof path &&
           access(path, F_OK) == 0;
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
    if (is_of_weft(verbs)) {
        finding_worsen(
            ret, FINDING_WARNING,
            "that is another weft than this one: programs by their plain names use that, "
            "and those of `weft run` this");
    } else if (is_listed(ours)) {
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

/* ---- preloaded ones -------------------------------------------------------------------------- */

// A library that stands before libc's sockets would have weft's own sockets go over RDMA as well.
static void preload_look(const struct doctor_subject *subject, struct finding *ret)
{
    const char *list = getenv("LD_PRELOAD");
    if (list == NULL || *list == '\0') {
        finding_see(ret, "none");
        return;
    }
    finding_see(ret, "%s", list);
    if (strstr(list, "rspreload") != NULL &&
        finding_worsen(ret, FINDING_WARNING,
                       "librspreload stands before the sockets of all programs, and of `weft run` "
                       "itself: give it to the program alone")) {
        finding_cure(ret, "weft run env LD_PRELOAD=\"$LD_PRELOAD\" PROGRAM");
    }
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

static const struct doctor_check checks[] = {
    {"libraries", "weft's own libraries", libraries_look},
    {"loader", "which libraries programs get by their plain names", loader_look},
    {"preload", "libraries that stand before those", preload_look},
    {"settings", "variables WEFT_* of the environment", settings_look},
};

const struct doctor_group doctor_environment = {"Environment", checks,
                                                sizeof checks / sizeof checks[0], false};
