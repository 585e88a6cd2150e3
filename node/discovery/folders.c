#include "node/discovery/folders.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"

struct folder {
    int wd;
    char *path;
};

struct folders {
    struct loop *loop;
    int fd;
    struct loop_watch *watch;
    struct loop_member member;
    struct folder *all;
    size_t count;
    instant_ns tell_at; // INSTANT_NEVER: nothing has happened
    void (*on_change)(void *ctx);
    void *ctx;
};

// A file is looked at when it has been written: what is still being copied would be a volume of
// another size. Nodes of devices, and links, are never written.
enum {
    EVENTS = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF |
             IN_MOVE_SELF | IN_ONLYDIR,
};

// Many files come at a time.
static const duration_ns tell_after_ns = 200 * NS_PER_MS;

static struct folder *folder_of(const struct folders *folders, int wd)
{
    for (size_t i = 0; i < folders->count; i++) {
        if (folders->all[i].wd == wd) {
            return &folders->all[i];
        }
    }
    return NULL;
}

static void folder_forget(struct folders *folders, struct folder *folder)
{
    if (folder != NULL) {
        free(folder->path);
        *folder = folders->all[--folders->count];
    }
}

// A new file that has one name is just being written.
static bool is_being_written(const struct folder *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    int len = snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder->path : "", name);
    return len < (int)sizeof path && lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_nlink == 1;
}

static bool matters(struct folders *folders, const struct inotify_event *event)
{
    struct folder *folder = folder_of(folders, event->wd);
    if ((event->mask & IN_IGNORED) != 0) {
        folder_forget(folders, folder);
        return true;
    }
    return (event->mask & IN_CREATE) == 0 || event->len == 0 ||
           !is_being_written(folder, event->name);
}

static void on_ready(void *ctx, uint32_t events)
{
    struct folders *folders = ctx;
    _Alignas(struct inotify_event) char buffer[16 << 10];
    bool has_news = false;
    for (ssize_t got; (got = read(folders->fd, buffer, sizeof buffer)) > 0;) {
        const struct inotify_event *event;
        for (const char *at = buffer; at < buffer + got; at += sizeof *event + event->len) {
            event = (const struct inotify_event *)(const void *)at;
            has_news |= matters(folders, event);
        }
    }
    if (has_news) {
        instant_ns at = instant_after(loop_now(folders->loop), tell_after_ns);
        folders->tell_at = instant_min(folders->tell_at, at);
    }
}

static instant_ns next_deadline(void *ctx)
{
    return ((struct folders *)ctx)->tell_at;
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct folders *folders = ctx;
    folders->tell_at = INSTANT_NEVER;
    folders->on_change(folders->ctx);
}

struct folders *folders_create(struct loop *loop, void (*on_change)(void *ctx), void *ctx)
{
    struct folders *folders = calloc(1, sizeof *folders);
    if (folders == NULL) {
        return NULL;
    }
    *folders = (struct folders){
        .loop = loop, .tell_at = INSTANT_NEVER, .on_change = on_change, .ctx = ctx};
    folders->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    folders->watch =
        folders->fd >= 0 ? loop_watch(loop, folders->fd, EPOLLIN, on_ready, folders) : NULL;
    folders->member = (struct loop_member){
        .ctx = folders, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(loop, &folders->member);
    if (folders->watch == NULL) {
        folders_destroy(folders);
        return NULL;
    }
    return folders;
}

void folders_destroy(struct folders *folders)
{
    if (folders == NULL) {
        return;
    }
    loop_leave(folders->loop, &folders->member);
    loop_unwatch(folders->watch);
    if (folders->fd >= 0) {
        close(folders->fd);
    }
    while (folders->count > 0) {
        folder_forget(folders, &folders->all[0]);
    }
    free(folders->all);
    free(folders);
}

int folders_watch(struct folders *folders, const char *path)
{
    int wd = inotify_add_watch(folders->fd, path, EVENTS);
    if (wd < 0 || folder_of(folders, wd) != NULL) {
        return wd < 0 ? -errno : 0;
    }
    struct folder *longer = reallocarray(folders->all, folders->count + 1, sizeof *longer);
    char *copy = strdup(path);
    folders->all = longer != NULL ? longer : folders->all;
    if (longer == NULL || copy == NULL) {
        inotify_rm_watch(folders->fd, wd);
        free(copy);
        return -ENOMEM;
    }
    folders->all[folders->count++] = (struct folder){.wd = wd, .path = copy};
    return 0;
}
