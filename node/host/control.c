#include "node/host/control.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/host/agent.h"
#include "node/host/runtime.h"
#include "node/host/status.h"
#include "node/host/wish.h"

enum { LINE_MAX_LEN = UNIT_URI_MAX + VOLUME_NAME_MAX + 16, ASKER_MAX = 16 };

// RTAs have this long to send their counters before an answer.
static const duration_ns counters_within_ns = 30 * NS_PER_MS;
static const duration_ns ask_within_ns = 5 * NS_PER_S;

struct asker {
    struct host_control *control;
    int fd; // -1: free
    struct loop_watch *watch;
    size_t len;
    char line[LINE_MAX_LEN];
    instant_ns deadline;
    bool wants_status;
    struct json_object *answer; // on its way; NULL: none
    const char *unsent;         // of its text
};

struct host_control {
    struct host *host;
    char path[RUNTIME_PATH_MAX];
    int fd; // a negative errno: not to be had
    struct loop_watch *watch;
    struct loop_member member;
    struct asker askers[ASKER_MAX];
};

static void asker_end(struct asker *asker)
{
    loop_unwatch(asker->watch);
    close(asker->fd);
    json_object_put(asker->answer);
    *asker = (struct asker){.control = asker->control, .fd = -1, .deadline = INSTANT_NEVER};
}

// As much as the asker takes; the rest when it takes more, until its time is up.
static void answer_send(struct asker *asker)
{
    while (*asker->unsent != '\0') {
        ssize_t sent =
            send(asker->fd, asker->unsent, strlen(asker->unsent), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            return;
        }
        if (sent <= 0) {
            break;
        }
        asker->unsent += sent;
    }
    asker_end(asker);
}

static void answer(struct asker *asker, struct json_object *object)
{
    asker->answer = object;
    asker->unsent = json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE);
    asker->wants_status = false;
    asker->deadline = instant_after(loop_now(asker->control->host->loop), ask_within_ns);
    loop_watch_change(asker->watch, EPOLLOUT);
    answer_send(asker);
}

static void answer_result(struct asker *asker, const char *why)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "ok", json_object_new_boolean(why == NULL));
    if (why != NULL) {
        json_object_object_add(object, "why", json_object_new_string(why));
    }
    answer(asker, object);
}

static void on_add(struct asker *asker, const char *text)
{
    struct volume_wish wish;
    struct why why;
    if (!asker->control->host->config->takes_volumes) {
        answer_result(asker, "this node takes no volumes from outside: start it with --allow-add");
        return;
    }
    if (wish_parse(text, &wish, &why) != 0) {
        answer_result(asker, why.text);
        return;
    }
    int error = host_volume_add(asker->control->host, &wish);
    answer_result(asker, error == 0         ? NULL
                         : error == -EEXIST ? "there is a volume of this name"
                                            : "there are too many volumes");
}

static void on_line(struct asker *asker, instant_ns now)
{
    struct host *host = asker->control->host;
    struct why why;
    if (strcmp(asker->line, "status") == 0) {
        uma_ask_counters(host->uma);
        asker->wants_status = true;
        asker->deadline = instant_after(now, counters_within_ns);
    } else if (strcmp(asker->line, "rescan") == 0) {
        answer_result(asker, host_rescan(host, &why) == 0 ? NULL : why.text);
    } else if (strncmp(asker->line, "add ", 4) == 0) {
        on_add(asker, asker->line + 4);
    } else if (strncmp(asker->line, "remove ", 7) == 0) {
        int error = uma_volume_remove(host->uma, asker->line + 7, now);
        answer_result(asker, error == 0 ? NULL : "there is no such volume");
    } else {
        answer_result(asker, "there is no such request");
    }
}

static void on_asker(void *ctx, uint32_t events)
{
    struct asker *asker = ctx;
    if (asker->answer != NULL) {
        answer_send(asker);
        return;
    }
    ssize_t got = recv(asker->fd, asker->line + asker->len, sizeof asker->line - 1 - asker->len,
                       MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    asker->len += got > 0 ? (size_t)got : 0;
    char *end = memchr(asker->line, '\n', asker->len);
    if (got <= 0 || (end == NULL && asker->len == sizeof asker->line - 1)) {
        asker_end(asker);
    } else if (end != NULL && !asker->wants_status) {
        *end = '\0';
        on_line(asker, loop_now(asker->control->host->loop));
    }
}

static bool may_ask(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void on_listener(void *ctx, uint32_t events)
{
    struct host_control *control = ctx;
    int fd = accept4(control->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct asker *asker = NULL;
    for (unsigned i = 0; i < ASKER_MAX && asker == NULL; i++) {
        asker = control->askers[i].fd < 0 ? &control->askers[i] : NULL;
    }
    if (fd < 0) {
        return;
    }
    if (asker == NULL || !may_ask(fd)) {
        close(fd);
        return;
    }
    asker->fd = fd;
    asker->deadline = instant_after(loop_now(control->host->loop), ask_within_ns);
    asker->watch = loop_watch(control->host->loop, fd, EPOLLIN, on_asker, asker);
    if (asker->watch == NULL) {
        asker_end(asker);
    }
}

static instant_ns next_deadline(void *ctx)
{
    const struct host_control *control = ctx;
    instant_ns at = INSTANT_NEVER;
    for (unsigned i = 0; i < ASKER_MAX; i++) {
        at = instant_min(at, control->askers[i].deadline);
    }
    return at;
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct host_control *control = ctx;
    for (unsigned i = 0; i < ASKER_MAX; i++) {
        struct asker *asker = &control->askers[i];
        if (asker->deadline > now) {
            continue;
        }
        if (asker->wants_status) {
            answer(asker, status_object(control->host));
        } else {
            asker_end(asker);
        }
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof addr.sun_path, "%.*s", RUNTIME_PATH_MAX - 1, path);
    return addr;
}

// Does somebody answer there? What a node left behind that was killed answers nobody.
static bool is_answered(const char *path)
{
    struct sockaddr_un addr = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_there =
        fd >= 0 && (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0 || errno == EAGAIN);
    if (fd >= 0) {
        close(fd);
    }
    return is_there;
}

// Removes the sockets of nodes that were killed. A node listens before its socket has its name, so
// that none is taken for dead that is only young.
static void remains_remove(const char *folder)
{
    char path[RUNTIME_PATH_MAX];
    DIR *names = opendir(folder);
    for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        pid_t pid = runtime_node_pid(entry->d_name);
        if (pid != 0 && runtime_path(folder, RUNTIME_NODE, pid, path) == 0 && !is_answered(path)) {
            unlink(path);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
}

// A socket that listens at `path`, for this user alone.
static int listen_at(const char *path)
{
    struct sockaddr_un addr = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    unlink(path);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0 || chmod(path, 0600) != 0 ||
        listen(fd, ASKER_MAX) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static int control_listen(struct host_control *control, struct why *ret_why)
{
    char folder[RUNTIME_PATH_MAX], young[RUNTIME_PATH_MAX];
    int error = runtime_folder(folder);
    if (error == 0) {
        error = runtime_path(folder, RUNTIME_NODE, getpid(), control->path);
    }
    if (error == 0) {
        error = runtime_path(folder, RUNTIME_YOUNG, getpid(), young);
    }
    if (error != 0) {
        why_say(ret_why, "the path of the runtime folder is too long");
        return error;
    }
    error = runtime_folder_make(folder, ret_why);
    if (error != 0) {
        return error;
    }
    remains_remove(folder);
    if (is_answered(control->path)) {
        why_say(ret_why, "%s: somebody else answers there", control->path);
        return -EADDRINUSE;
    }
    int fd = listen_at(young);
    if (fd < 0 || rename(young, control->path) != 0) {
        error = fd < 0 ? fd : -errno;
        why_say(ret_why, "%s: %s", control->path, strerror(-error));
        unlink(young);
    }
    if (fd >= 0 && error != 0) {
        close(fd);
    }
    return error == 0 ? fd : error;
}

static void socket_open(struct host_control *control)
{
    struct why why;
    control->fd = control_listen(control, &why);
    if (control->fd >= 0) {
        control->watch =
            loop_watch(control->host->loop, control->fd, EPOLLIN, on_listener, control);
        return;
    }
    char line[WHY_MAX + 128];
    snprintf(line, sizeof line,
             "weft status and weft rescan will not find this node: %s; "
             "WEFT_RUNTIME_DIR names another folder",
             why.text);
    host_say(control->host, line);
    control->path[0] = '\0';
}

struct host_control *control_create(struct host *host)
{
    struct host_control *control = calloc(1, sizeof *control);
    if (control == NULL) {
        return NULL;
    }
    control->host = host;
    socket_open(control);
    for (unsigned i = 0; i < ASKER_MAX; i++) {
        control->askers[i] =
            (struct asker){.control = control, .fd = -1, .deadline = INSTANT_NEVER};
    }
    control->member = (struct loop_member){
        .ctx = control, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(host->loop, &control->member);
    return control;
}

void control_destroy(struct host_control *control)
{
    if (control == NULL) {
        return;
    }
    for (unsigned i = 0; i < ASKER_MAX; i++) {
        if (control->askers[i].fd >= 0) {
            asker_end(&control->askers[i]);
        }
    }
    loop_unwatch(control->watch);
    if (control->fd >= 0) {
        unlink(control->path);
        close(control->fd);
    }
    loop_leave(control->host->loop, &control->member);
    free(control);
}
