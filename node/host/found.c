#include "node/host/found.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "node/host/config.h"
#include "node/host/pattern.h"
#include "node/host/wish.h"
#include "node/interface/request.h"

enum { LINE_MAX_LEN = 640 };

struct search {
    const struct volume_wish *wish;
    struct host_config *to;
    char folder[PATTERN_PATH_MAX], pattern[PATTERN_PATH_MAX];
    char *names[NODE_VOLUME_COUNT_MAX]; // that match: the first of them by name
    size_t count, left_out;
    void (*say)(void *ctx, const char *line);
    void *ctx;
};

static void complain(const struct search *search, const char *what)
{
    char line[LINE_MAX_LEN];
    snprintf(line, sizeof line, "%.255s: %s", search->wish->uri, what);
    search->say(search->ctx, line);
}

static bool path_of(const struct search *search, const char *name, char ret[PATTERN_PATH_MAX])
{
    const char *folder = search->folder;
    bool has_slash = folder[strlen(folder) - 1] == '/';
    int len = snprintf(ret, PATTERN_PATH_MAX, "%s%s%s", folder, has_slash ? "" : "/", name);
    return len < PATTERN_PATH_MAX;
}

// Links are followed: names of disks are such.
static bool can_be_served(const struct search *search, const char *name)
{
    char path[PATTERN_PATH_MAX];
    struct stat status;
    return path_of(search, name, path) && stat(path, &status) == 0 &&
           (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

// Keeps the names in order, and as many as there can be volumes.
static void name_add(struct search *search, const char *name)
{
    size_t at = search->count;
    while (at > 0 && strcmp(search->names[at - 1], name) > 0) {
        at--;
    }
    bool is_full = search->count == NODE_VOLUME_COUNT_MAX;
    search->left_out += is_full;
    char *copy = at < NODE_VOLUME_COUNT_MAX ? strdup(name) : NULL;
    if (copy == NULL) {
        return;
    }
    if (is_full) {
        free(search->names[--search->count]);
    }
    memmove(&search->names[at + 1], &search->names[at],
            (search->count - at) * sizeof search->names[0]);
    search->names[at] = copy;
    search->count++;
}

static void folder_read(struct search *search)
{
    DIR *folder = opendir(search->folder);
    if (folder == NULL) {
        complain(search, strerror(errno));
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (fnmatch(search->pattern, entry->d_name, FNM_PERIOD) == 0 &&
            can_be_served(search, entry->d_name)) {
            name_add(search, entry->d_name);
        }
    }
    closedir(folder);
}

// One volume, as the pattern's, but for its name and path.
static bool volume_add(struct search *search, const char *name)
{
    struct volume_wish wish = *search->wish;
    char path[PATTERN_PATH_MAX];
    if (search->to->volume_count >= NODE_VOLUME_COUNT_MAX || !path_of(search, name, path) ||
        !pattern_uri_of(search->wish->uri, path, wish.uri)) {
        return false;
    }
    wish.is_found = true;
    wish_name_of_path(path, wish.name);
    wish_name_settle(search->to->volumes, search->to->volume_count, &wish);
    return config_volume_add(search->to, &wish) == 0;
}

static void volumes_add(struct search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        search->left_out += !volume_add(search, search->names[i]);
        free(search->names[i]);
    }
    if (search->left_out > 0) {
        char what[96];
        snprintf(what, sizeof what,
                 "%zu files are not served: they are too many, or their paths too long",
                 search->left_out);
        complain(search, what);
    }
}

int found_add(struct host_config *to, const struct volume_wish *wish,
              void (*say)(void *ctx, const char *line), void *ctx)
{
    if (!pattern_is(wish->uri)) {
        return config_volume_add(to, wish);
    }
    struct why why;
    struct search *search = calloc(1, sizeof *search);
    if (search == NULL) {
        return -ENOMEM;
    }
    *search = (struct search){.wish = wish, .to = to, .say = say, .ctx = ctx};
    if (pattern_parse(wish->uri, search->folder, search->pattern, &why) == 0) {
        folder_read(search);
        volumes_add(search);
    }
    free(search);
    return 0;
}
