// Calls each function of libc that libweft-view.so stands before, on paths of a device and on one
// of the system, and says whether it finds what is there: "NAME yes" or "NAME no".
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FOLDER "/sys/class/infiniband"
#define LINK   FOLDER "/weft0"
#define FILE_  LINK "/node_type"
#define NODE   "/dev/infiniband/weft0"

int __xstat(int version, const char *path, struct stat *ret);
int __xstat64(int version, const char *path, struct stat64 *ret);
int __lxstat(int version, const char *path, struct stat *ret);
int __lxstat64(int version, const char *path, struct stat64 *ret);
int __fxstatat(int version, int fd, const char *path, struct stat *ret, int flags);
int __fxstatat64(int version, int fd, const char *path, struct stat64 *ret, int flags);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int fd, const char *path, int flags);
int __openat64_2(int fd, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t capacity);
ssize_t __readlinkat_chk(int fd, const char *path, char *buf, size_t len, size_t capacity);
char *__realpath_chk(const char *path, char *ret, size_t capacity);

static void say(const char *name, bool found)
{
    printf("%s %s\n", name, found ? "yes" : "no");
}

// A device's own file by this descriptor; closes it.
static bool is_node_type(int fd)
{
    char text[8] = "";
    bool found = fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strcmp(text, "4: RNIC") == 0;
    close(fd);
    return found;
}

static bool file_is_node_type(FILE *file)
{
    char text[16] = "";
    bool found = file != NULL && fgets(text, sizeof text, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    return found && strcmp(text, "4: RNIC\n") == 0;
}

static bool leads_to_device(const char *text, long len)
{
    static const char wanted[] = "devices/virtual/weft/weft0/infiniband/weft0";
    const size_t wanted_len = sizeof wanted - 1;
    return len >= (long)wanted_len &&
           memcmp(text + len - (long)wanted_len, wanted, wanted_len) == 0;
}

// Attributes there may be, or none, or a file system without.
static bool has_attributes(ssize_t answer)
{
    return answer >= 0 || errno == ENODATA || errno == ENOTSUP;
}

static void look(void)
{
    struct stat s;
    struct stat64 s64;
    struct statx sx;
    say("stat", stat(NODE, &s) == 0 && S_ISCHR(s.st_mode));
    say("stat64", stat64(NODE, &s64) == 0 && S_ISCHR(s64.st_mode));
    say("lstat", lstat(NODE, &s) == 0 && S_ISCHR(s.st_mode));
    say("lstat64", lstat64(LINK, &s64) == 0 && S_ISLNK(s64.st_mode));
    say("fstatat", fstatat(AT_FDCWD, FOLDER, &s, 0) == 0 && S_ISDIR(s.st_mode));
    say("fstatat64", fstatat64(AT_FDCWD, FILE_, &s64, 0) == 0 && S_ISREG(s64.st_mode));
    say("statx", statx(AT_FDCWD, NODE, 0, STATX_TYPE, &sx) == 0 && S_ISCHR(sx.stx_mode));
    say("__xstat", __xstat(1, NODE, &s) == 0 && S_ISCHR(s.st_mode));
    say("__xstat64", __xstat64(1, NODE, &s64) == 0 && S_ISCHR(s64.st_mode));
    say("__lxstat", __lxstat(1, LINK, &s) == 0 && S_ISLNK(s.st_mode));
    say("__lxstat64", __lxstat64(1, LINK, &s64) == 0 && S_ISLNK(s64.st_mode));
    say("__fxstatat", __fxstatat(1, AT_FDCWD, NODE, &s, 0) == 0 && S_ISCHR(s.st_mode));
    say("__fxstatat64", __fxstatat64(1, AT_FDCWD, NODE, &s64, 0) == 0 && S_ISCHR(s64.st_mode));
    say("getxattr", has_attributes(getxattr(NODE, "user.none", NULL, 0)));
    say("lgetxattr", has_attributes(lgetxattr(LINK, "user.none", NULL, 0)));
    say("listxattr", has_attributes(listxattr(NODE, NULL, 0)));
    say("llistxattr", has_attributes(llistxattr(LINK, NULL, 0)));
    say("access", access(NODE, R_OK | W_OK) == 0);
    say("faccessat", faccessat(AT_FDCWD, NODE, R_OK | W_OK, 0) == 0);
    say("euidaccess", euidaccess(NODE, R_OK | W_OK) == 0);
    say("eaccess", eaccess(NODE, R_OK | W_OK) == 0);
    say("chdir", chdir(FOLDER) == 0 && access("weft0/node_type", R_OK) == 0 && chdir("/") == 0);
}

static void open_all(void)
{
    say("open", is_node_type(open(FILE_, O_RDONLY)));
    say("open64", is_node_type(open64(FILE_, O_RDONLY)));
    say("openat", is_node_type(openat(AT_FDCWD, FILE_, O_RDONLY)));
    say("openat64", is_node_type(openat64(AT_FDCWD, FILE_, O_RDONLY)));
    say("__open_2", is_node_type(__open_2(FILE_, O_RDONLY)));
    say("__open64_2", is_node_type(__open64_2(FILE_, O_RDONLY)));
    say("__openat_2", is_node_type(__openat_2(AT_FDCWD, FILE_, O_RDONLY)));
    say("__openat64_2", is_node_type(__openat64_2(AT_FDCWD, FILE_, O_RDONLY)));
    say("fopen", file_is_node_type(fopen(FILE_, "r")));
    say("fopen64", file_is_node_type(fopen64(FILE_, "r")));
}

static bool has_device(DIR *dir)
{
    bool found = false;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        found |= strcmp(entry->d_name, "weft0") == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

static void list(void)
{
    struct dirent **entries;
    struct dirent64 **entries64;
    const int others = 2; // "." and ".."
    say("opendir", has_device(opendir(FOLDER)));
    say("scandir", scandir(FOLDER, &entries, NULL, alphasort) > others);
    say("scandir64", scandir64(FOLDER, &entries64, NULL, alphasort64) > others);
}

static void follow(void)
{
    char text[PATH_MAX];
    say("readlink", leads_to_device(text, readlink(LINK, text, sizeof text)));
    say("readlinkat", leads_to_device(text, readlinkat(AT_FDCWD, LINK, text, sizeof text)));
    say("__readlink_chk",
        leads_to_device(text, __readlink_chk(LINK, text, sizeof text, sizeof text)));
    say("__readlinkat_chk",
        leads_to_device(text, __readlinkat_chk(AT_FDCWD, LINK, text, sizeof text, sizeof text)));
    say("realpath", realpath(LINK, text) != NULL && leads_to_device(text, (long)strlen(text)));
    say("__realpath_chk", __realpath_chk(LINK, text, sizeof text) != NULL &&
                              leads_to_device(text, (long)strlen(text)));
    char *name = canonicalize_file_name(LINK);
    say("canonicalize_file_name", name != NULL && leads_to_device(name, (long)strlen(name)));
    free(name);
}

// Arguments are handed on as they are.
static void others_are_as_they_were(const char *folder)
{
    char path[PATH_MAX];
    struct stat s;
    snprintf(path, sizeof path, "%s/made", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
    say("mode of a new file", fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0640);
    close(fd);
    say("made twice", open(path, O_WRONLY | O_CREAT | O_EXCL, 0640) >= 0);
    say("path that begins alike", access(FOLDER "x", F_OK) == 0);
    say("device that is not there", access(FOLDER "/weft9", F_OK) == 0);
}

int main(int argc, char **argv)
{
    umask(0);
    look();
    open_all();
    list();
    follow();
    others_are_as_they_were(argv[argc - 1]);
    return 0;
}
