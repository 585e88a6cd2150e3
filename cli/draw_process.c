#include "cli/draw_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "draw/capture.h"

enum { MAGIC_LEN = 4, NAME_MAX_LEN = 64 };

// As the descriptor was opened, by its row in /proc/PID/fdinfo.
static bool is_written(const char *pid, const char *number)
{
    char path[PATH_MAX], line[NAME_MAX_LEN];
    unsigned flags = O_RDONLY;
    snprintf(path, sizeof path, "/proc/%s/fdinfo/%s", pid, number);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "flags: %o", &flags) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return (flags & O_ACCMODE) != O_RDONLY;
}

static bool begins_as_capture(const char *path)
{
    uint8_t octets[MAGIC_LEN];
    struct capture capture = {0};
    struct capture_packet packet;
    size_t used;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_read = fd >= 0 && pread(fd, octets, sizeof octets, 0) == MAGIC_LEN;
    if (fd >= 0) {
        close(fd);
    }
    return is_read &&
           capture_next(&capture, span_of(octets, sizeof octets), &used, &packet) == CAPTURE_MORE;
}

// The name by which this process reaches the file, in a container's tree too.
static bool name_of(const char *pid, const char *link, const struct stat *there, char ret[PATH_MAX])
{
    char target[PATH_MAX - NAME_MAX_LEN];
    struct stat here;
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len <= 0) {
        return false;
    }
    target[len] = '\0';
    snprintf(ret, PATH_MAX, "/proc/%s/root%s", pid, target);
    return stat(ret, &here) == 0 && here.st_ino == there->st_ino && here.st_dev == there->st_dev;
}

bool draw_process_capture(const char *pid, char ret_path[PATH_MAX])
{
    char folder[NAME_MAX_LEN], link[2 * NAME_MAX_LEN], path[PATH_MAX];
    off_t longest = -1;
    snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
    DIR *open_files = opendir(folder);
    const struct dirent *entry;
    while (open_files != NULL && (entry = readdir(open_files)) != NULL) {
        struct stat st;
        snprintf(link, sizeof link, "%s/%.16s", folder, entry->d_name);
        if (stat(link, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > longest &&
            is_written(pid, entry->d_name) && begins_as_capture(link) &&
            name_of(pid, link, &st, path)) {
            longest = st.st_size;
            memcpy(ret_path, path, sizeof path);
        }
    }
    if (open_files != NULL) {
        closedir(open_files);
    }
    return longest >= 0;
}
