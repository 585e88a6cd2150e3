// A folder as a source: each file or block device in it whose name matches the pattern. It is read
// whenever it is looked at.

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "node/discovery/folders.h"
#include "node/discovery/names.h"
#include "node/discovery/pattern.h"
#include "node/discovery/source.h"
#include "node/interface/request.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"

enum { LINE_MAX_LEN = 640 };

struct folder_source {
    struct source source;
    struct source_host *host;
    char uri[UNIT_URI_MAX];
    char folder[PATTERN_PATH_MAX], pattern[PATTERN_PATH_MAX];
    char *names[NODE_VOLUME_COUNT_MAX]; // while it is read: that match, the first of them by name
    size_t count, left_out;
    uint64_t readings, failures;
    struct why why; // of the last reading
};

static struct folder_source *of(struct source *source)
{
    return (struct folder_source *)source;
}

static bool path_of(const struct folder_source *f, const char *name, char ret[PATTERN_PATH_MAX])
{
    bool has_slash = f->folder[strlen(f->folder) - 1] == '/';
    int len = snprintf(ret, PATTERN_PATH_MAX, "%s%s%s", f->folder, has_slash ? "" : "/", name);
    return len < PATTERN_PATH_MAX;
}

// Links are followed: names of disks are such.
static bool can_be_served(const struct folder_source *f, const char *name)
{
    char path[PATTERN_PATH_MAX];
    struct stat status;
    return path_of(f, name, path) && stat(path, &status) == 0 &&
           (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

// Keeps the names in order, and as many as there can be volumes.
static void name_add(struct folder_source *f, const char *name)
{
    size_t at = f->count;
    while (at > 0 && strcmp(f->names[at - 1], name) > 0) {
        at--;
    }
    bool is_full = f->count == NODE_VOLUME_COUNT_MAX;
    f->left_out += is_full;
    char *copy = at < NODE_VOLUME_COUNT_MAX ? strdup(name) : NULL;
    if (copy == NULL) {
        return;
    }
    if (is_full) {
        free(f->names[--f->count]);
    }
    memmove(&f->names[at + 1], &f->names[at], (f->count - at) * sizeof f->names[0]);
    f->names[at] = copy;
    f->count++;
}

static void folder_failed(struct folder_source *f, int error)
{
    char line[LINE_MAX_LEN];
    f->failures++;
    why_say(&f->why, "%s", strerror(error));
    snprintf(line, sizeof line, "%.255s: %s", f->uri, f->why.text);
    f->host->say(f->host->ctx, line);
}

static void folder_read(struct folder_source *f)
{
    DIR *folder = opendir(f->folder);
    f->count = f->left_out = 0;
    f->readings++;
    f->why.text[0] = '\0';
    if (folder == NULL) {
        folder_failed(f, errno);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (fnmatch(f->pattern, entry->d_name, FNM_PERIOD) == 0 &&
            can_be_served(f, entry->d_name)) {
            name_add(f, entry->d_name);
        }
    }
    closedir(folder);
}

// False: its URI would be too long.
static bool name_tell(const struct folder_source *f, const char *name, source_seen *seen, void *ctx)
{
    char path[PATTERN_PATH_MAX], uri[UNIT_URI_MAX], volume[VOLUME_NAME_MAX];
    if (!path_of(f, name, path) || !pattern_uri_of(f->uri, path, uri)) {
        return false;
    }
    names_of_path(path, volume);
    seen(ctx, &(struct source_found){.name = volume, .uri = uri});
    return true;
}

// It is looked at again when something happens there.
static void folder_watch(struct source_host *host, const char *folder)
{
    char line[PATTERN_PATH_MAX + 128];
    host->folders = host->folders != NULL ? host->folders
                                          : folders_create(host->loop, host->on_change, host->ctx);
    int error = host->folders != NULL ? folders_watch(host->folders, folder) : -ENOMEM;
    if (error != 0) {
        snprintf(line, sizeof line, "%s is not watched, only looked at by weft rescan: %s", folder,
                 strerror(-error));
        host->say(host->ctx, line);
    }
}

static size_t folder_each(struct source *source, source_seen *seen, void *ctx)
{
    struct folder_source *f = of(source);
    folder_watch(f->host, f->folder); // first: what comes meanwhile is found, or told of
    folder_read(f);
    for (size_t i = 0; i < f->count; i++) {
        f->left_out += !name_tell(f, f->names[i], seen, ctx);
        free(f->names[i]);
    }
    return f->left_out;
}

static void folder_status(const struct source *source, struct source_status *ret)
{
    const struct folder_source *f = (const struct folder_source *)source;
    *ret = (struct source_status){.state = f->why.text[0] != '\0' ? "waiting" : "read",
                                  .why = f->why.text,
                                  .volumes = f->count,
                                  .left_out = f->left_out,
                                  .readings = f->readings,
                                  .failures = f->failures};
}

static int folder_check(const char *uri, char ret_one[UNIT_URI_MAX], struct why *ret_why)
{
    char folder[PATTERN_PATH_MAX], pattern[PATTERN_PATH_MAX];
    int error = pattern_parse(uri, folder, pattern, ret_why);
    if (error == 0 && !pattern_uri_of(uri, "/", ret_one)) {
        why_say(ret_why, "the URI is too long");
        return -EINVAL;
    }
    return error;
}

static void folder_close(struct source *source)
{
    free(source);
}

static struct source *folder_open(struct source_host *host, const char *uri)
{
    struct folder_source *f = calloc(1, sizeof *f);
    struct why why;
    if (f == NULL || pattern_parse(uri, f->folder, f->pattern, &why) != 0) {
        free(f);
        return NULL;
    }
    f->source.kind = &source_folder;
    f->host = host;
    snprintf(f->uri, sizeof f->uri, "%s", uri);
    return &f->source;
}

const struct source_kind source_folder = {
    .is = pattern_is,
    .check = folder_check,
    .open = folder_open,
    .each = folder_each,
    .status = folder_status,
    .close = folder_close,
};
