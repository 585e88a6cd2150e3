#include "node/ddm/nvme_paths.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "node/ddm/parameters.h"

enum {
    DEPTH_DEFAULT = 128,
    URI_LEN = 1024,
    TEXT_LEN = 2 * WHY_MAX,
    POLL_BATCH_MAX = 16, // polls, before others have their turn
    // A loaded machine may leave the process waiting; with another path that does less harm.
    KEEP_ALIVE_ONE_MS = 15000,
    KEEP_ALIVE_SEVERAL_MS = 5000,
    KEEP_ALIVE_MIN_MS = 100,
    KEEP_ALIVE_MAX_MS = 3600 * 1000,
    // A controller that counts any command as a sign of life (TBKAS) notices within two times the
    // keep-alive time that its host is gone; what it has under way then ends within another one.
    QUIET_KEEP_ALIVES = 3,
};

static const duration_ns meet_every_ns = 1 * NS_PER_S;
static const duration_ns rest_ns = 1 * NS_PER_S; // after an error of the path's own
static const duration_ns patience_default_ns = 60 * NS_PER_S;

static instant_ns clock_of(const struct nvme_paths *paths)
{
    return paths->host->clock(paths->host->ctx);
}

/* ---- what the operator hears ----------------------------------------------------------------- */

static void say(const struct nvme_paths *paths, const char *text)
{
    char line[TEXT_LEN + WEFT_NVME_NAME_MAX + 2];
    snprintf(line, sizeof line, "%s: %s", paths->each[0].address.nqn, text);
    paths->host->say(paths->host->ctx, line);
}

// Of one path, by its name where there are several.
static void say_of(const struct nvme_paths *paths, unsigned index, const char *what,
                   const char *why)
{
    char text[TEXT_LEN];
    if (paths->count > 1) {
        snprintf(text, sizeof text, "%.300s: %s%s", paths->each[index].name, what, why);
    } else {
        snprintf(text, sizeof text, "%s%s", what, why);
    }
    say(paths, text);
}

static void say_in_use(struct nvme_paths *paths)
{
    int last = paths->last_in_use;
    if (last >= 0 && last != paths->in_use) {
        char text[TEXT_LEN];
        snprintf(text, sizeof text, "commands go by %.300s now; %.300s is %s",
                 paths->each[paths->in_use].name, paths->each[last].name,
                 nvme_way_str(&paths->ways[last], paths->now));
        say(paths, text);
    }
    paths->last_in_use = paths->in_use;
}

/* ---- met ------------------------------------------------------------------------------------- */

// The namespace is still the one it was, and not a path to another: else that would be written to.
static bool is_same(const struct weft_nvme_namespace *ns, const struct weft_nvme_namespace *found)
{
    return ns->nsid == found->nsid && ns->block_len == found->block_len &&
           ns->has_uuid == found->has_uuid && memcmp(ns->uuid, found->uuid, sizeof ns->uuid) == 0;
}

// Why a controller that was met is no path. 0: it is one.
static int facts_check(const struct nvme_paths *paths, const struct nvme_path_facts *found,
                       struct why *ret_why)
{
    const struct nvme_path_facts *known = &paths->facts;
    if (paths->count > 1 && !found->ns.has_uuid) {
        why_say(ret_why, "its namespace has no UUID by which another path to it could be known");
        return -EPROTO;
    }
    if (known->ns.nsid == 0) {
        return 0; // the first one
    }
    if (!is_same(&known->ns, &found->ns)) {
        why_say(ret_why, "there is another volume now");
        return -ESTALE;
    }
    if (found->info.transfer_max_len < known->info.transfer_max_len ||
        found->range_max < known->range_max) {
        why_say(ret_why, "it takes less in one command than the path that was met first");
        return -EPROTO;
    }
    return 0;
}

static int watch(const struct nvme_paths *paths, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(paths->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

// The path is UP: is it one of ours? Otherwise it goes, with the reason.
static int path_take(struct nvme_paths *paths, unsigned index)
{
    struct nvme_path *path = &paths->each[index];
    int error = facts_check(paths, &path->facts, &path->why);
    if (error == 0 && (error = watch(paths, weft_nvme_fd(path->controller))) != 0) {
        why_say(&path->why, "its descriptor cannot be waited for: %s", strerror(-error));
    }
    if (error != 0) {
        nvme_path_lose(path);
        return error;
    }
    if (paths->facts.ns.nsid == 0) {
        paths->facts = path->facts;
    }
    paths->ways[index] = (struct nvme_way){
        .is_up = true, .access = weft_nvme_access(path->controller, path->facts.ns.nsid)};
    path->has_complained = false;
    paths->has_more = true;
    return 0;
}

static void path_refused(struct nvme_paths *paths, unsigned index)
{
    struct nvme_path *path = &paths->each[index];
    path->meet_at = instant_after(clock_of(paths), meet_every_ns);
    if (!path->has_complained && paths->count > 1) {
        say_of(paths, index, "no path, it is tried each second: ", path->why.text);
    }
    path->has_complained = true;
}

static void path_met(struct nvme_paths *paths, unsigned index)
{
    bool was_lost = paths->ways[index].quiet_at != 0;
    if (paths->each[index].state == NVME_PATH_DOWN || path_take(paths, index) != 0) {
        path_refused(paths, index);
        return;
    }
    say_of(paths, index, was_lost ? "connected again" : "connected", "");
}

static void due_meet(struct nvme_paths *paths)
{
    for (unsigned i = 0; i < paths->count; i++) {
        struct nvme_path *path = &paths->each[i];
        if (path->state == NVME_PATH_DOWN && path->meet_at <= paths->now &&
            !nvme_path_meet_begin(path)) {
            path->meet_at = instant_after(paths->now, meet_every_ns);
        }
    }
}

/* ---- lost ------------------------------------------------------------------------------------ */

// The driver has heard of everything that was out by it.
static void path_lost(struct nvme_paths *paths, unsigned index)
{
    struct nvme_path *path = &paths->each[index];
    duration_ns quiet = QUIET_KEEP_ALIVES * NS_PER_MS * path->keep_alive_ms;
    say_of(paths, index, "", weft_nvme_why(path->controller));
    nvme_path_lose(path);
    path->meet_at = paths->now;
    paths->ways[index].is_up = false;
    paths->ways[index].quiet_at = instant_after(paths->now, quiet);
}

// Changes that were out by it go first: they are the oldest.
static void unsure_release(struct nvme_paths *paths, unsigned index, enum nvme_quiet quiet,
                           struct list_link *held)
{
    struct list_link *unsure = &paths->each[index].unsure, *last;
    unsigned count = 0;
    while ((last = unsure->prev) != unsure) {
        list_remove(last);
        list_push_head(held, last);
        count++;
    }
    if (quiet != NVME_MET_AGAIN) {
        char text[64];
        snprintf(text, sizeof text, "sent again, %u that were out: ", count);
        say_of(paths, index, text, nvme_quiet_str(quiet));
    }
}

static void unsure_judge(struct nvme_paths *paths, struct list_link *held)
{
    for (unsigned i = 0; i < paths->count; i++) {
        if (!list_is_empty(&paths->each[i].unsure)) {
            enum nvme_quiet quiet = nvme_way_quiet(paths->ways, paths->count, i, paths->now);
            if (quiet != NVME_NOT_QUIET) {
                unsure_release(paths, i, quiet, held);
            }
        }
    }
}

/* ---- in use ---------------------------------------------------------------------------------- */

static void access_look(struct nvme_paths *paths, unsigned index)
{
    const struct nvme_path *path = &paths->each[index];
    struct nvme_way *way = &paths->ways[index];
    enum weft_nvme_access access = weft_nvme_access(path->controller, path->facts.ns.nsid);
    if (!nvme_access_is_good(way->access) && nvme_access_is_good(access)) {
        way->turned_at = paths->now;
    }
    way->access = access;
}

// How long a change of access may take, as controllers say.
static duration_ns change_max(const struct nvme_paths *paths)
{
    unsigned most_ms = 0;
    for (unsigned i = 0; i < paths->count; i++) {
        if (paths->each[i].state == NVME_PATH_UP) {
            unsigned its_ms = weft_nvme_access_change_ms(paths->each[i].controller);
            most_ms = its_ms > most_ms ? its_ms : most_ms;
        }
    }
    return most_ms * NS_PER_MS;
}

// Commands that have no path wait, but not for ever.
static void choose(struct nvme_paths *paths)
{
    paths->in_use = nvme_way_choose(paths->ways, paths->count, paths->in_use, paths->now);
    if (paths->in_use >= 0) {
        paths->give_up_at = INSTANT_NEVER;
        say_in_use(paths);
    } else if (paths->give_up_at == INSTANT_NEVER) {
        duration_ns change = change_max(paths);
        duration_ns patience = paths->patience > change ? paths->patience : change;
        paths->give_up_at = instant_after(paths->now, patience);
    }
}

void nvme_paths_heard(struct nvme_paths *paths, unsigned path)
{
    paths->ways[path].heard_at = paths->now;
}

// Where its access is as good as before, it was an error of the path's own: how long that lasts
// nobody tells.
void nvme_paths_failed(struct nvme_paths *paths, unsigned path)
{
    const struct nvme_path *failed = &paths->each[path];
    if (nvme_access_is_good(weft_nvme_access(failed->controller, failed->facts.ns.nsid))) {
        paths->ways[path].rests_until = instant_after(paths->now, rest_ns);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

static void all_poll(struct nvme_paths *paths)
{
    paths->has_more = false;
    for (unsigned i = 0; i < paths->count; i++) {
        int completed = paths->each[i].state == NVME_PATH_UP ? 1 : 0;
        for (unsigned turn = 0; turn < POLL_BATCH_MAX && completed > 0; turn++) {
            completed = weft_nvme_poll(paths->each[i].controller);
        }
        paths->has_more |= completed > 0;
        if (completed < 0) {
            path_lost(paths, i);
        }
    }
}

static bool is_meeting(const struct nvme_paths *paths)
{
    for (unsigned i = 0; i < paths->count; i++) {
        if (paths->each[i].state == NVME_PATH_MEETING) {
            return true;
        }
    }
    return false;
}

static void all_look(struct nvme_paths *paths)
{
    eventfd_t count = 0;
    bool has_ended = is_meeting(paths) && eventfd_read(paths->wake_fd, &count) == 0;
    for (unsigned i = 0; i < paths->count; i++) {
        if (has_ended && nvme_path_meet_ended(&paths->each[i])) {
            path_met(paths, i);
        } else if (paths->each[i].state == NVME_PATH_UP) {
            access_look(paths, i);
        }
    }
}

// All paths are heard before any of them is judged: what one has carried out counts against what
// another one was told (nvme_way_quiet).
void nvme_paths_poll(struct nvme_paths *paths, instant_ns now, struct list_link *held)
{
    paths->now = now;
    all_poll(paths);
    all_look(paths);
    unsure_judge(paths, held);
    choose(paths);
    due_meet(paths);
}

instant_ns nvme_paths_next_deadline(const struct nvme_paths *paths)
{
    instant_ns at = paths->has_more ? 0 : INSTANT_NEVER;
    for (unsigned i = 0; i < paths->count; i++) {
        const struct nvme_path *path = &paths->each[i];
        const struct nvme_way *way = &paths->ways[i];
        at = path->state == NVME_PATH_DOWN ? instant_min(at, path->meet_at) : at;
        if (!list_is_empty(&path->unsure)) {
            at = instant_min(at, instant_min(way->quiet_at, paths->give_up_at));
        }
        at = way->is_up && way->rests_until > paths->now ? instant_min(at, way->rests_until) : at;
    }
    return at;
}

void nvme_paths_size_look(struct nvme_paths *paths)
{
    const struct nvme_path *path = &paths->each[paths->in_use >= 0 ? paths->in_use : 0];
    struct weft_nvme_namespace *known = &paths->facts.ns, found;
    if (path->state == NVME_PATH_UP &&
        weft_nvme_identify(path->controller, known->nsid, &found, NULL) == 0 &&
        is_same(known, &found)) {
        *known = found;
    }
}

/* ---- a volume's address ---------------------------------------------------------------------- */

static bool is_named(const struct nvme_paths *paths, const struct weft_nvme_address *address)
{
    for (unsigned i = 0; i < paths->count; i++) {
        const struct weft_nvme_address *other = &paths->each[i].address;
        if (strcmp(other->host, address->host) == 0 && strcmp(other->port, address->port) == 0) {
            return true;
        }
    }
    return false;
}

// One of paths=: HOST[:PORT], of the same subsystem and namespace.
static int path_add(struct nvme_paths *paths, const char *scheme, const char *text, int len,
                    struct why *ret_why)
{
    char uri[URI_LEN];
    const struct weft_nvme_address *first = &paths->each[0].address;
    struct weft_nvme_address address;
    snprintf(uri, sizeof uri, "%s://%.*s", scheme, len, text);
    if (weft_nvme_address_parse(uri, &address, NULL) != 0 || address.nqn[0] != '\0') {
        why_say(ret_why, "paths=%.*s: it is HOST[:PORT], and more of them behind commas", len,
                text);
        return -EINVAL;
    }
    if (is_named(paths, &address)) {
        why_say(ret_why, "paths=%.*s: this address is named twice", len, text);
        return -EINVAL;
    }
    if (paths->count == NVME_PATH_COUNT_MAX) {
        why_say(ret_why, "paths: a volume has at most %d", NVME_PATH_COUNT_MAX);
        return -EINVAL;
    }
    snprintf(address.nqn, sizeof address.nqn, "%s", first->nqn);
    address.nsid = first->nsid;
    paths->each[paths->count++].address = address;
    return 0;
}

static int addresses_read(struct nvme_paths *paths, const char *scheme,
                          const struct ddm_target *target, struct why *ret_why)
{
    char uri[URI_LEN];
    const char *more = parameter_find(target, "paths");
    snprintf(uri, sizeof uri, "%s:%s", scheme, target->object);
    if (weft_nvme_address_parse(uri, &paths->each[0].address, ret_why->text) != 0) {
        return -EINVAL;
    }
    if (paths->each[0].address.nqn[0] == '\0') {
        why_say(ret_why, "it names no subsystem: //HOST[:PORT]/NQN[/NSID]");
        return -EINVAL;
    }
    paths->count = 1;
    while (more != NULL) {
        size_t len = strcspn(more, ",");
        int error = path_add(paths, scheme, more, (int)len, ret_why);
        if (error != 0) {
            return error;
        }
        more = more[len] == ',' ? more + len + 1 : NULL;
    }
    return 0;
}

static int numbers_read(struct nvme_paths *paths, const struct ddm_target *target,
                        uint64_t *ret_depth, duration_ns *ret_keep_alive, struct why *ret_why)
{
    bool is_one = paths->count == 1;
    *ret_depth = DEPTH_DEFAULT;
    *ret_keep_alive = (is_one ? KEEP_ALIVE_ONE_MS : KEEP_ALIVE_SEVERAL_MS) * NS_PER_MS;
    paths->patience = patience_default_ns;
    int error = parameter_duration(target, "patience", &paths->patience, ret_why);
    if (error != 0 ||
        (error = parameter_duration(target, "keep_alive", ret_keep_alive, ret_why)) != 0 ||
        (error = parameter_size(target, "depth", ret_depth, ret_why)) != 0) {
        return error;
    }
    if (*ret_depth == 0 || *ret_depth > WEFT_NVME_DEPTH_MAX) {
        why_say(ret_why, "depth must be 1 to %d", WEFT_NVME_DEPTH_MAX);
        return -EINVAL;
    }
    if (*ret_keep_alive < KEEP_ALIVE_MIN_MS * NS_PER_MS ||
        *ret_keep_alive > KEEP_ALIVE_MAX_MS * NS_PER_MS) {
        why_say(ret_why, "keep_alive must be %dms to 1h", KEEP_ALIVE_MIN_MS);
        return -EINVAL;
    }
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int descriptors_open(struct nvme_paths *paths, struct why *ret_why)
{
    paths->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    paths->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = paths->epoll_fd < 0 || paths->wake_fd < 0 ? -errno : watch(paths, paths->wake_fd);
    if (error != 0) {
        why_say(ret_why, "no descriptors: %s", strerror(-error));
    }
    return error;
}

// Here and now, which blocks: until there is one, there is no volume.
static int first_meet(struct nvme_paths *paths, struct why *ret_why)
{
    int error = -ENOTCONN;
    for (unsigned i = 0; i < paths->count && error != 0; i++) {
        error = nvme_path_meet(&paths->each[i]);
        if (error == 0) {
            error = path_take(paths, i);
        }
        if (error != 0) {
            path_refused(paths, i);
            why_say(ret_why, "%s", paths->each[i].why.text);
        }
    }
    if (error == 0) {
        choose(paths);
    }
    return error;
}

int nvme_paths_open(struct nvme_paths *paths, const char *scheme, const struct ddm_target *target,
                    const struct ddm_host *host, struct why *ret_why)
{
    uint64_t depth;
    duration_ns keep_alive;
    *paths = (struct nvme_paths){.host = host,
                                 .in_use = -1,
                                 .last_in_use = -1,
                                 .epoll_fd = -1,
                                 .wake_fd = -1,
                                 .now = host->clock(host->ctx),
                                 .give_up_at = INSTANT_NEVER};
    int error = addresses_read(paths, scheme, target, ret_why);
    if (error == 0) {
        error = numbers_read(paths, target, &depth, &keep_alive, ret_why);
    }
    if (error == 0) {
        error = descriptors_open(paths, ret_why);
    }
    for (unsigned i = 0; i < paths->count && error == 0; i++) {
        paths->each[i].depth = (unsigned)depth;
        paths->each[i].keep_alive_ms = (unsigned)(keep_alive / NS_PER_MS);
        nvme_path_init(&paths->each[i], paths->wake_fd);
    }
    return error == 0 ? first_meet(paths, ret_why) : error;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void nvme_paths_close(struct nvme_paths *paths)
{
    for (unsigned i = 0; i < paths->count; i++) {
        nvme_path_end(&paths->each[i]);
    }
    close_if_open(paths->epoll_fd);
    close_if_open(paths->wake_fd);
}
