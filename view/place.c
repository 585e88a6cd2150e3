#include "view/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "base/why.h"
#include "control/runtime.h"
#include "descriptor/descriptor.h"
#include "view/tree.h"
#include "view/wires.h"

#define VIEW_PREFIX    "view."     // a process id follows
#define UNNAMED_PREFIX "new-view." // likewise

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PLACE_PATH_MAX], root[PLACE_PATH_MAX];
static bool is_known, is_tried;
static atomic_bool is_there;
static int root_fd = -1; // locked, shared, by who uses the tree

/* ---- where ----------------------------------------------------------------------------------- */

// Can files be made in this folder, once it is there?
static bool is_reachable(const char *path)
{
    char above[RUNTIME_PATH_MAX];
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(path, '/') - path), path);
    return access(path, W_OK | X_OK) == 0 || (errno == ENOENT && access(above, W_OK | X_OK) == 0);
}

// The lock held. /tmp is every user's: a folder there is only used if it is this user's.
static void find(void)
{
    char runtime[RUNTIME_PATH_MAX];
    if (is_known) {
        return;
    }
    is_known = true;
    if (runtime_folder(runtime) == 0 && runtime[0] == '/' && is_reachable(runtime)) {
        snprintf(folder, sizeof folder, "%s", runtime);
    } else {
        snprintf(folder, sizeof folder, "/tmp/weft-%u", (unsigned)geteuid());
    }
    const int len = snprintf(root, sizeof root, "%s/" VIEW_PREFIX "%d", folder, (int)getpid());
    if (len >= (int)sizeof root) {
        root[0] = '\0';
    }
}

const char *place_root(void)
{
    pthread_mutex_lock(&lock);
    find();
    pthread_mutex_unlock(&lock);
    return root;
}

/* ---- how long -------------------------------------------------------------------------------- */

// -1: it is not there, or nobody's to open.
static int open_locked(const char *path, int how)
{
    int fd = descriptor_above_standard(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd >= 0 && flock(fd, how | LOCK_NB) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// Unless somebody has it locked.
static void remove_unused(const char *path)
{
    const int fd = open_locked(path, LOCK_EX);
    if (fd >= 0) {
        tree_remove(path);
        close(fd);
    }
}

static void remove_left_behind(void)
{
    char path[PLACE_PATH_MAX + NAME_MAX + 1];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, VIEW_PREFIX, sizeof VIEW_PREFIX - 1) == 0) {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            remove_unused(path);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

// A child of a fork has the same descriptor, hence the same lock: the last of them removes it.
static void on_exit_of_process(void)
{
    if (root_fd >= 0) {
        close(root_fd);
        remove_unused(root);
    }
}

// A folder that nobody has locked is one left behind: it gets its name when it is locked.
static int begin(void)
{
    char unnamed[PLACE_PATH_MAX + sizeof UNNAMED_PREFIX "-2147483648"];
    snprintf(unnamed, sizeof unnamed, "%s/" UNNAMED_PREFIX "%d", folder, (int)getpid());
    if (mkdir(unnamed, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    const int fd = open_locked(unnamed, LOCK_SH);
    if (fd >= 0 && rename(unnamed, root) == 0) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    rmdir(unnamed);
    return open_locked(root, LOCK_SH); // of one with this number, whose child may still use it
}

static bool make(unsigned wires)
{
    root_fd = begin();
    int error = root_fd < 0 ? -EAGAIN : 0;
    for (enum device_wire wire = 0; wire < DEVICE_WIRE_COUNT; wire++) {
        if (error == 0 && (wires & (1U << wire)) != 0) {
            error = tree_make(root, identity_of(wire));
        }
    }
    if (error != 0 && root_fd >= 0) {
        close(root_fd);
        root_fd = -1;
    }
    return error == 0;
}

static bool make_first(unsigned wires)
{
    const unsigned attempts_max = 3;
    struct why why;
    if (!view_is_wanted() || root[0] == '\0' || runtime_folder_make(folder, &why) != 0) {
        return false;
    }
    remove_left_behind();
    for (unsigned i = 0; root_fd < 0 && i < attempts_max; i++) {
        if (make(wires)) {
            atexit(on_exit_of_process);
        }
    }
    return root_fd >= 0;
}

bool place_make(unsigned wires)
{
    if (atomic_load(&is_there)) {
        return true;
    }
    pthread_mutex_lock(&lock);
    find();
    if (!is_tried) {
        is_tried = true;
        make_first(wires);
    }
    atomic_store(&is_there, root_fd >= 0);
    pthread_mutex_unlock(&lock);
    return is_there;
}
