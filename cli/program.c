#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/elf_file.h"
#include "cli/needs.h"
#include "cli/objection.h"
#include "cli/say.h"

static const char cannot[] = "cannot run program on weft";

/* ---- where it is ----------------------------------------------------------------------------- */

// 0, EXIT_CANNOT (there, but not to be executed) or EXIT_MISSING; says nothing.
static int path_try(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? EXIT_MISSING : EXIT_CANNOT;
    }
    if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EACCES;
        return EXIT_CANNOT;
    }
    return access(path, X_OK) == 0 ? 0 : EXIT_CANNOT;
}

static int not_found(const struct hearer *hearer, const char *name, int result, int error)
{
    if (result == EXIT_CANNOT) {
        return object_to(hearer, result, "cannot run program", name, "name an executable file",
                         "%s", strerror(error));
    }
    if (strchr(name, '/') != NULL) {
        return object_to(hearer, result, "no such program", name, "look for a misspelt path",
                         "the file does not exist");
    }
    return object_to(hearer, result, "no such program", name,
                     "install it, or give its path, with a / in it", "no folder of PATH has it");
}

int program_find(const char *name, char ret_path[PATH_MAX], const struct hearer *hearer)
{
    if (strchr(name, '/') != NULL || *name == '\0') {
        int result = *name == '\0' ? EXIT_MISSING : path_try(name);
        snprintf(ret_path, PATH_MAX, "%s", name);
        return result == 0 ? 0 : not_found(hearer, name, result, errno);
    }
    const char *path = getenv("PATH");
    int worst = EXIT_MISSING, error = 0;
    for (const char *at = path != NULL ? path : "/bin:/usr/bin"; at != NULL;) {
        const char *end = strchrnul(at, ':');
        int folder_len = (int)(end - at);
        int len = snprintf(ret_path, PATH_MAX, "%.*s%s%s", folder_len, at,
                           folder_len > 0 ? "/" : "./", name);
        int result = len < PATH_MAX ? path_try(ret_path) : EXIT_MISSING;
        if (result == 0) {
            return 0;
        }
        const int reason = errno;
        // A folder that may not be searched has nothing, as for a shell.
        if (result == EXIT_CANNOT && (reason != EACCES || access(ret_path, F_OK) == 0)) {
            worst = result;
            error = reason;
        }
        at = *end == ':' ? end + 1 : NULL;
    }
    return not_found(hearer, name, worst, error);
}

/* ---- whether the loader will listen to us ---------------------------------------------------- */

// Why the kernel will start the program in secure-execution mode, in which the loader ignores
// LD_LIBRARY_PATH (ld.so(8)); NULL if it will not.
static const char *privilege_of(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return NULL;
    }
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) {
        return "it is set-user-ID";
    }
    if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
        status.st_gid != getegid()) {
        return "it is set-group-ID";
    }
    if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0) {
        return "it has file capabilities";
    }
    return NULL;
}

int program_rights_check(const char *path, const struct hearer *hearer)
{
    const char *privilege = privilege_of(path);
    return privilege == NULL
               ? 0
               : object_to(hearer, EXIT_CANNOT, cannot, path,
                           "run a copy of it without privileges: cp FILE /tmp/ and weft run that",
                           "%s, so the loader ignores LD_LIBRARY_PATH and takes the system's "
                           "libraries",
                           privilege);
}

int program_machine_check(const struct elf_file *program, const char *path,
                          const struct hearer *hearer)
{
    struct elf_file own;
    if (elf_file_open("/proc/self/exe", &own) != ELF_IS_READ) {
        return 0; // without /proc there is nothing to compare with
    }
    bool is_same = own.class == program->class && own.machine == program->machine;
    elf_file_close(&own);
    return is_same ? 0
                   : object_to(hearer, EXIT_CANNOT, cannot, path,
                               "use a build of it for this machine, or build weft for its "
                               "architecture",
                               "it is built for another architecture than weft's libraries");
}

int program_linking_check(const struct elf_file *program, const char *path,
                          const struct hearer *hearer)
{
    return program->has_interpreter
               ? 0
               : object_to(hearer, EXIT_CANNOT, cannot, path, "link it dynamically",
                           "it is statically linked, so its libibverbs cannot be replaced");
}

static int elf_check(const struct elf_file *program, const char *path, const char *library_dir,
                     bool is_quiet)
{
    const struct hearer *aloud = &hearer_aloud;
    int result;
    if ((result = program_rights_check(path, aloud)) != 0 ||
        (result = program_machine_check(program, path, aloud)) != 0 ||
        (result = program_linking_check(program, path, aloud)) != 0) {
        return result;
    }
    return needs_check(program, path, library_dir, is_quiet, aloud, NULL);
}

bool program_is_elf(const char *path)
{
    static const char magic[] = ELFMAG;
    char begin[SELFMAG];
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        return false;
    }
    bool is_elf = fread(begin, sizeof begin, 1, in) == 1 && memcmp(begin, magic, SELFMAG) == 0;
    fclose(in);
    return is_elf;
}

int program_check(const char *path, const char *library_dir, bool is_quiet)
{
    struct elf_file program;
    if (elf_file_open(path, &program) != ELF_IS_READ) {
        return 0; // a script, or executable but not readable: the kernel decides
    }
    int result = elf_check(&program, path, library_dir, is_quiet);
    elf_file_close(&program);
    return result;
}
