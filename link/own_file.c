#include "link/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/sys.h"

static int open_private(const char *path, int flags)
{
    return sys_open(path, flags | O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

// Of root: /dev/stdout and the like.
static bool is_link_trusted(const char *path)
{
    struct stat at;
    return fstatat(AT_FDCWD, path, &at, AT_SYMLINK_NOFOLLOW) == 0 &&
           (at.st_uid == geteuid() || at.st_uid == 0);
}

static bool is_same_file(int fd, const struct stat *file)
{
    struct stat at;
    return fstat(fd, &at) == 0 && at.st_dev == file->st_dev && at.st_ino == file->st_ino;
}

// The descriptor writes only. Whatever has the name by now is read if it is the same file still.
static int look_at_head(const char *path, const struct stat *file,
                        bool (*is_ours)(struct span head))
{
    uint8_t head[OWN_FILE_HEAD_LEN];
    const int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0) {
        return fd;
    }
    const ssize_t len = is_same_file(fd, file) ? sys_pread(fd, head, sizeof head, 0) : -1;
    sys_close(fd);
    return len == 0 || (len > 0 && is_ours(span_of(head, (size_t)len))) ? 0 : -EEXIST;
}

// 0, or why nothing is to be written to it.
static int look(int fd, const char *path, bool (*is_ours)(struct span head))
{
    struct stat at;
    if (fstat(fd, &at) != 0) {
        return -EPERM;
    }
    if (!S_ISREG(at.st_mode)) {
        return 0;
    }
    if (at.st_uid != geteuid() || at.st_nlink > 1) {
        return -EPERM;
    }
    return at.st_size == 0 ? 0 : look_at_head(path, &at, is_ours);
}

int own_file_open(const char *path, int flags, bool (*is_ours)(struct span head))
{
    int fd = open_private(path, flags | O_NOFOLLOW);
    if (fd == -ELOOP && is_link_trusted(path)) {
        fd = open_private(path, flags);
    }
    if (fd < 0) {
        return fd == -EISDIR ? -EEXIST : fd;
    }
    const int error = look(fd, path, is_ours);
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    return fd;
}

const char *own_file_error(int error)
{
    switch (error) {
    case -EEXIST:
        return "what is there was not written by weft: move it away, or name another file";
    case -EPERM:
        return "it is another user's, or has a second name: name another file";
    case -ELOOP:
        return "it is another user's link: name another file";
    default:
        return strerror(-error);
    }
}
