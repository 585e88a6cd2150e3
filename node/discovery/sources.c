#include "node/discovery/sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/discovery/folders.h"
#include "node/interface/uma_rta.h"

struct entry {
    struct source *source;
    unsigned number;
    bool is_wanted; // since the last sweep
    char uri[UNIT_URI_MAX], shown[UNIT_URI_MAX];
};

struct sources {
    struct source_host host;
    struct entry **all;
    size_t count;
    unsigned last_number;
};

static const struct source_kind *const kinds[] = {&source_folder, &source_remote};

static const struct source_kind *kind_of(const char *uri)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i]->is(uri)) {
            return kinds[i];
        }
    }
    return NULL;
}

bool sources_is(const char *uri)
{
    return kind_of(uri) != NULL;
}

int sources_check(const char *uri, char ret_one[UNIT_URI_MAX], struct why *ret_why)
{
    const struct source_kind *kind = kind_of(uri);
    if (kind == NULL) {
        why_say(ret_why, "it names one device");
        return -EINVAL;
    }
    return kind->check(uri, ret_one, ret_why);
}

struct sources *sources_create(const struct source_host *host)
{
    struct sources *sources = calloc(1, sizeof *sources);
    if (sources != NULL) {
        sources->host = *host;
    }
    return sources;
}

static void entry_end(struct entry *entry)
{
    entry->source->kind->close(entry->source);
    free(entry);
}

void sources_destroy(struct sources *sources)
{
    if (sources == NULL) {
        return;
    }
    for (size_t i = 0; i < sources->count; i++) {
        entry_end(sources->all[i]);
    }
    folders_destroy(sources->host.folders);
    free(sources->all);
    free(sources);
}

/* ---- which there are ------------------------------------------------------------------------- */

// Of the words behind the question mark, those that are one.
static void secret_leave_out(char *uri)
{
    static const char key[] = "target_secret=";
    char *at = strchr(uri, '?'); // what stands before a word
    while (at != NULL && *at != '\0') {
        char *next = at + 1 + strcspn(at + 1, "&");
        if (strncmp(at + 1, key, sizeof key - 1) != 0) {
            at = next;
        } else if (*next == '&') {
            memmove(at + 1, next + 1, strlen(next));
        } else {
            *at = '\0';
        }
    }
}

// User and password stand before the last @ in front of the parameters, for a password may have
// slashes, and neither a host nor a name of a target has an @.
static void shown_make(const char *uri, char ret[UNIT_URI_MAX])
{
    const char *begin = strstr(uri, "://");
    begin = begin != NULL ? begin + 3 : uri + strlen(uri);
    const char *at = memrchr(begin, '@', strcspn(begin, "?"));
    const char *rest = at != NULL ? at + 1 : begin;
    snprintf(ret, UNIT_URI_MAX, "%.*s%s", (int)(begin - uri), uri, rest);
    secret_leave_out(ret);
}

static struct entry *entry_find(const struct sources *sources, unsigned number)
{
    for (size_t i = 0; i < sources->count; i++) {
        if (sources->all[i]->number == number) {
            return sources->all[i];
        }
    }
    return NULL;
}

static struct entry *entry_add(struct sources *sources, const char *uri)
{
    const struct source_kind *kind = kind_of(uri);
    struct entry **longer = reallocarray(sources->all, sources->count + 1, sizeof(struct entry *));
    struct entry *entry = calloc(1, sizeof *entry);
    sources->all = longer != NULL ? longer : sources->all;
    struct source *source =
        longer != NULL && entry != NULL && kind != NULL ? kind->open(&sources->host, uri) : NULL;
    if (source == NULL) {
        free(entry);
        return NULL;
    }
    entry->source = source;
    entry->number = ++sources->last_number;
    snprintf(entry->uri, sizeof entry->uri, "%s", uri);
    shown_make(uri, entry->shown);
    sources->all[sources->count++] = entry;
    return entry;
}

unsigned sources_want(struct sources *sources, const char *uri)
{
    struct entry *entry = NULL;
    for (size_t i = 0; i < sources->count && entry == NULL; i++) {
        entry = strcmp(sources->all[i]->uri, uri) == 0 ? sources->all[i] : NULL;
    }
    entry = entry != NULL ? entry : entry_add(sources, uri);
    if (entry == NULL) {
        return 0;
    }
    entry->is_wanted = true;
    return entry->number;
}

void sources_sweep(struct sources *sources)
{
    size_t left = 0;
    for (size_t i = 0; i < sources->count; i++) {
        struct entry *entry = sources->all[i];
        if (entry->is_wanted) {
            entry->is_wanted = false;
            sources->all[left++] = entry;
        } else {
            entry_end(entry);
        }
    }
    sources->count = left;
}

/* ---- all of them ----------------------------------------------------------------------------- */

void sources_ask(struct sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        struct source *source = sources->all[i]->source;
        if (source->kind->ask != NULL) {
            source->kind->ask(source);
        }
    }
}

bool sources_are_settled(const struct sources *sources)
{
    bool are_settled = true;
    for (size_t i = 0; i < sources->count; i++) {
        const struct source *source = sources->all[i]->source;
        are_settled &= source->kind->is_settled == NULL || source->kind->is_settled(source);
    }
    return are_settled;
}

/* ---- one of them ----------------------------------------------------------------------------- */

size_t sources_each(struct sources *sources, unsigned number, source_seen *seen, void *ctx)
{
    struct entry *entry = entry_find(sources, number);
    return entry != NULL ? entry->source->kind->each(entry->source, seen, ctx) : 0;
}

const char *sources_uri(const struct sources *sources, unsigned number)
{
    const struct entry *entry = entry_find(sources, number);
    return entry != NULL ? entry->shown : NULL;
}

unsigned sources_at(const struct sources *sources, size_t index, struct source_status *ret)
{
    if (index >= sources->count) {
        return 0;
    }
    const struct entry *entry = sources->all[index];
    entry->source->kind->status(entry->source, ret);
    return entry->number;
}
