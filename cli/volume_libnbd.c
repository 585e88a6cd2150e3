// Exports of NBD servers, by libnbd: all of the module weft-nbd.so.

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <libnbd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/export.h"
#include "base/list.h"
#include "base/why.h"
#include "cli/volume.h"
#include "cli/volume_nbd.h"
#include "text/quantity.h"

enum {
    TRANSFER_DEFAULT = 32 << 20, // what servers that say nothing must take
    EXTENT_MAX = 128,            // of one answer: what is behind them is asked for again
};

#define MAP_LEN (UINT64_C(1) << 30) // asked for at a time

// What a server says of the range that it was last asked about.
struct map {
    bool is_known; // to the server; false: it cannot be asked, or gave no good answer
    uint64_t start, end;
    unsigned count;
    struct {
        uint64_t end;
        bool is_zero;
    } extents[EXTENT_MAX];
};

struct session {
    struct nbd_handle *nbd;
    bool can_flush;
    struct why lost_why; // empty: the connection is there
    struct map map;
    uint64_t commands, octets_read, octets_written, octets_known, errors;
};

static struct session *session_of(const struct volume *volume)
{
    return volume->session;
}

// An I/O's own: whose it is.
static struct volume **volume_of(struct volume_io *io)
{
    return (struct volume **)io->own;
}

// What libnbd says of its last call that failed, without the name of its function.
static int say_last(struct why *ret_why)
{
    const char *said = nbd_get_error(), *colon = said != NULL ? strstr(said, ": ") : NULL;
    int error = nbd_get_errno();
    why_say(ret_why, "%s", colon != NULL ? colon + 2 : said != NULL ? said : "it failed");
    return error != 0 ? -error : -EIO;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int handle_open(const char *uri, bool only_asks, struct nbd_handle **ret,
                       struct why *ret_why)
{
    struct nbd_handle *nbd = nbd_create();
    bool is_ready = nbd != NULL && nbd_set_opt_mode(nbd, only_asks) == 0 &&
                    (only_asks || nbd_add_meta_context(nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) == 0) &&
                    nbd_connect_uri(nbd, uri) == 0;
    int error = is_ready ? 0 : say_last(ret_why);
    if (error != 0 && nbd != NULL) {
        nbd_close(nbd);
        nbd = NULL;
    }
    *ret = nbd;
    return error;
}

// A server that names no blocks takes any octets; libnbd passes over blocks that NBD does not know.
static int sizes_take(struct nbd_handle *nbd, struct volume_facts *ret, struct why *ret_why)
{
    int64_t len = nbd_get_size(nbd), least = nbd_get_block_size(nbd, LIBNBD_SIZE_MINIMUM),
            most = nbd_get_block_size(nbd, LIBNBD_SIZE_MAXIMUM);
    if (len < 0) {
        return say_last(ret_why);
    }
    least = least > 0 ? least : 1;
    most = most > 0 && most < TRANSFER_DEFAULT ? most : TRANSFER_DEFAULT;
    if (len % least != 0) {
        why_say(ret_why, "its size, %" PRId64 " octets, is not in whole blocks of %" PRId64, len,
                least);
        return -EPROTO;
    }
    ret->len = (uint64_t)len;
    ret->block_len = (uint32_t)least;
    ret->transfer_max_len = (uint32_t)most;
    return 0;
}

static int facts_take(struct nbd_handle *nbd, const char *uri, struct volume_facts *ret,
                      struct why *ret_why)
{
    char *name = nbd_get_export_name(nbd);
    *ret = (struct volume_facts){.name_key = "export",
                                 .is_read_only = nbd_is_read_only(nbd) != 0,
                                 .can_write_zeroes = nbd_can_zero(nbd) == 1};
    snprintf(ret->uri, sizeof ret->uri, "%s", uri);
    snprintf(ret->name, sizeof ret->name, "%s", name != NULL ? name : "");
    free(name);
    return sizes_take(nbd, ret, ret_why);
}

static int export_open(struct volume *volume, const char *uri, unsigned depth, struct why *ret_why)
{
    struct session *session = calloc(1, sizeof *session);
    volume->session = session;
    if (session == NULL) {
        why_say(ret_why, "no memory");
        return -ENOMEM;
    }
    int error = handle_open(uri, false, &session->nbd, ret_why);
    if (error != 0) {
        return error;
    }
    session->can_flush = nbd_can_flush(session->nbd) == 1;
    session->map.is_known = nbd_can_meta_context(session->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) == 1;
    return facts_take(session->nbd, uri, &volume->facts, ret_why);
}

static void export_close(struct volume *volume)
{
    struct session *session = session_of(volume);
    if (session != NULL && session->nbd != NULL) {
        if (!why_is_said(&session->lost_why) && nbd_aio_is_ready(session->nbd) == 1) {
            nbd_shutdown(session->nbd, 0);
        }
        nbd_close(session->nbd);
    }
    free(session);
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void io_count(struct session *session, const struct volume_io *io)
{
    if (io->error != 0) {
        session->errors++;
    } else if (io->operation == VOLUME_READ) {
        session->octets_read += io->len;
    } else if (io->operation == VOLUME_WRITE) {
        session->octets_written += io->len;
    }
}

// Within libnbd, which may not be called from here, and will not be asked for this command again.
static int on_complete(void *context, int *error)
{
    struct volume_io *io = context;
    struct volume *volume = *volume_of(io);
    io->error = -*error;
    if (*error != 0) {
        snprintf(io->answer, sizeof io->answer, "%s", strerror(*error));
    }
    io_count(session_of(volume), io);
    list_push_tail(&volume->ended, &io->link);
    return 1;
}

static int64_t command_send(struct session *session, struct volume_io *io)
{
    const nbd_completion_callback done = {.callback = on_complete, .user_data = io};
    switch (io->operation) {
    case VOLUME_READ:
        return nbd_aio_pread(session->nbd, io->data, io->len, io->offset, done, 0);
    case VOLUME_WRITE:
        return nbd_aio_pwrite(session->nbd, io->data, io->len, io->offset, done, 0);
    case VOLUME_WRITE_ZEROES:
        return nbd_aio_zero(session->nbd, io->len, io->offset, done, 0);
    default:
        return nbd_aio_flush(session->nbd, done, 0);
    }
}

static bool is_lost(const struct session *session)
{
    return nbd_aio_is_dead(session->nbd) == 1 || nbd_aio_is_closed(session->nbd) == 1;
}

// libnbd has its words for it only where it happens.
static void lost_note(struct session *session, const struct why *why)
{
    if (!why_is_said(&session->lost_why) && is_lost(session)) {
        session->lost_why = *why;
    }
}

static int export_submit(struct volume *volume, struct volume_io *io)
{
    struct session *session = session_of(volume);
    struct why why;
    *volume_of(io) = volume;
    io->error = 0;
    io->answer[0] = '\0';
    if (io->operation == VOLUME_FLUSH && !session->can_flush) {
        list_push_tail(&volume->ended, &io->link); // what was answered is stable
        return 0;
    }
    if (command_send(session, io) < 0) {
        int error = say_last(&why);
        lost_note(session, &why);
        return error != -EAGAIN ? error : -EIO;
    }
    session->commands++;
    return 0;
}

static int export_wait(struct volume *volume, int timeout_ms)
{
    struct session *session = session_of(volume);
    struct why why;
    int error = 0;
    if (list_is_empty(&volume->ended) && nbd_poll(session->nbd, timeout_ms) < 0) {
        error = say_last(&why);
        lost_note(session, &why);
    } else {
        why_say(&why, "the server ended the connection"); // libnbd has no words for that
        lost_note(session, &why);
    }
    return error != -EINTR ? error : 0;
}

static const char *export_lost_why(const struct volume *volume)
{
    const struct session *session = session_of(volume);
    return why_is_said(&session->lost_why) ? session->lost_why.text : NULL;
}

/* ---- holes ----------------------------------------------------------------------------------- */

// One answer: pairs of length and flags, from the begin of the map on.
static int on_extents(void *context, const char *metacontext, uint64_t offset, uint32_t *entries,
                      size_t count, int *error)
{
    struct map *map = context;
    if (strcmp(metacontext, LIBNBD_CONTEXT_BASE_ALLOCATION) != 0) {
        return 0;
    }
    for (size_t i = 0; i + 1 < count && map->count < EXTENT_MAX && entries[i] > 0; i += 2) {
        map->end += entries[i];
        map->extents[map->count].end = map->end;
        map->extents[map->count++].is_zero = (entries[i + 1] & LIBNBD_STATE_ZERO) != 0;
    }
    return 0;
}

static bool map_ask(const struct volume *volume, uint64_t offset)
{
    struct session *session = session_of(volume);
    struct map *map = &session->map;
    uint64_t left = volume->facts.len - offset, len = left < MAP_LEN ? left : MAP_LEN;
    const nbd_extent_callback extents = {.callback = on_extents, .user_data = map};
    map->start = map->end = offset;
    map->count = 0;
    map->is_known = nbd_block_status(session->nbd, len, offset, extents, 0) == 0 && map->count > 0;
    if (!map->is_known) {
        struct why why;
        say_last(&why);
        lost_note(session, &why);
    }
    return map->is_known;
}

// From `offset` on: true as far as *ret_end.
static bool map_find(const struct map *map, uint64_t offset, uint64_t *ret_end)
{
    for (unsigned i = 0; i < map->count; i++) {
        if (offset < map->extents[i].end) {
            *ret_end = map->extents[i].end;
            return map->extents[i].is_zero;
        }
    }
    *ret_end = offset;
    return false;
}

static bool export_is_zero(struct volume *volume, uint64_t offset, uint32_t len)
{
    struct session *session = session_of(volume);
    struct map *map = &session->map;
    uint64_t at = offset;
    while (at - offset < len) {
        uint64_t end;
        bool is_there = at >= map->start && at < map->end;
        if (!map->is_known || (!is_there && !map_ask(volume, at)) || !map_find(map, at, &end)) {
            return false;
        }
        at = end;
    }
    session->octets_known += len;
    return true;
}

/* ---- what is shown --------------------------------------------------------------------------- */

struct ability {
    const char *word, *key;
    int (*has)(struct nbd_handle *nbd);
};

static const struct ability abilities[] = {
    {"flush", "flush", nbd_can_flush},
    {"FUA", "fua", nbd_can_fua},
    {"trim", "trim", nbd_can_trim},
    {"write zeroes", "write_zeroes", nbd_can_zero},
    {"fast zeroes", "fast_zeroes", nbd_can_fast_zero},
    {"cache", "cache", nbd_can_cache},
    {"several connections", "multi_conn", nbd_can_multi_conn},
    {"structured replies", "structured_replies", nbd_get_structured_replies_negotiated},
};

enum { ABILITY_COUNT = sizeof abilities / sizeof abilities[0] };

static void export_count(const struct volume *volume, struct json_object *to)
{
    const struct session *session = session_of(volume);
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {{"commands", session->commands},
                  {"octets_read", session->octets_read},
                  {"octets_written", session->octets_written},
                  {"octets_known", session->octets_known},
                  {"errors", session->errors}};
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_object_object_add(to, fields[i].key, json_object_new_uint64(fields[i].value));
    }
}

static void export_describe(const struct volume *volume, struct json_object *to)
{
    const struct session *session = session_of(volume);
    struct json_object *object = json_object_new_object();
    const char *protocol = nbd_get_protocol(session->nbd);
    char *description = nbd_get_export_description(session->nbd);
    json_object_object_add(object, "protocol",
                           json_object_new_string(protocol != NULL ? protocol : ""));
    if (description != NULL) {
        json_object_object_add(object, "description", json_object_new_string(description));
    }
    json_object_object_add(object, "transfer_max",
                           json_object_new_int64(volume->facts.transfer_max_len));
    json_object_object_add(object, "block_status", json_object_new_boolean(session->map.is_known));
    for (unsigned i = 0; i < ABILITY_COUNT; i++) {
        json_object_object_add(object, abilities[i].key,
                               json_object_new_boolean(abilities[i].has(session->nbd) == 1));
    }
    json_object_object_add(to, "server", object);
    free(description);
}

static void export_show(const struct volume *volume)
{
    const struct session *session = session_of(volume);
    const struct volume_facts *facts = &volume->facts;
    const char *protocol = nbd_get_protocol(session->nbd);
    char *description = nbd_get_export_description(session->nbd);
    char size[TEXT_SIZE_MAX], transfer[TEXT_SIZE_MAX];
    printf("export '%s'%s%s\n", facts->name, description != NULL ? ", " : "",
           description != NULL ? description : "");
    printf("  size          %s, %" PRIu64 " octets in blocks of %u%s\n",
           text_size_format(facts->len, size), facts->len, facts->block_len,
           facts->is_read_only ? ", read-only" : "");
    printf("server\n");
    printf("  protocol      NBD, %s\n", protocol != NULL ? protocol : "unknown");
    printf("  transfer      at most %s\n", text_size_format(facts->transfer_max_len, transfer));
    printf("  can           read");
    for (unsigned i = 0; i < ABILITY_COUNT; i++) {
        printf("%s%s", abilities[i].has(session->nbd) == 1 ? ", " : "",
               abilities[i].has(session->nbd) == 1 ? abilities[i].word : "");
    }
    printf("%s\n", session->map.is_known ? ", block status" : "");
    free(description);
}

/* ---- servers --------------------------------------------------------------------------------- */

struct listing {
    const char *uri;
    volume_seen *seen;
    void *context;
    char **names; // of exports
    size_t count;
    bool is_short; // of memory
};

static int on_name(void *context, const char *name, const char *description)
{
    struct listing *listing = context;
    char **names = realloc(listing->names, (listing->count + 1) * sizeof *names);
    char *copy = strdup(name);
    listing->names = names != NULL ? names : listing->names;
    listing->is_short |= names == NULL || copy == NULL;
    if (names == NULL || copy == NULL) {
        free(copy);
        return 0;
    }
    names[listing->count++] = copy;
    return 0;
}

static int names_ask(struct listing *listing, struct why *ret_why)
{
    struct nbd_handle *nbd;
    const nbd_list_callback names = {.callback = on_name, .user_data = listing};
    int error = handle_open(listing->uri, true, &nbd, ret_why);
    if (error != 0) {
        return error;
    }
    if (nbd_aio_is_negotiating(nbd) != 1) {
        why_say(ret_why, "the server is of the old style, with one export and no list");
        error = -EOPNOTSUPP;
    } else if (nbd_opt_list(nbd, names) < 0) {
        error = say_last(ret_why);
    }
    if (nbd_aio_is_negotiating(nbd) == 1) {
        nbd_opt_abort(nbd);
    }
    nbd_close(nbd);
    if (error == 0 && listing->is_short) {
        why_say(ret_why, "no memory");
        error = -ENOMEM;
    }
    return error;
}

// Each by a connection of its own, as whoever uses it will. 0 or EXIT_FAILED.
static int export_see(const struct listing *listing, const char *name)
{
    struct volume volume = {.protocol = &volume_libnbd};
    char uri[VOLUME_URI_MAX];
    struct why why;
    int error = -ENAMETOOLONG;
    why_say(&why, "an export's name is too long");
    if (volume_nbd_name_put(listing->uri, name, uri, sizeof uri)) {
        error = export_open(&volume, uri, 0, &why);
    }
    if (error == 0) {
        listing->seen(listing->context, &volume.facts);
    }
    export_close(&volume);
    return error == 0 ? 0
                      : volume_say_failed("cannot list", uri, volume_nbd_remedy(error), why.text);
}

static int export_list(const char *uri, volume_seen *seen, void *context)
{
    struct listing listing = {.uri = uri, .seen = seen, .context = context};
    struct why why;
    if (volume_nbd_has_name(uri)) {
        return export_see(&listing, NULL);
    }
    int error = names_ask(&listing, &why);
    int result =
        error == 0 ? 0 : volume_say_failed("cannot list", uri, volume_nbd_remedy(error), why.text);
    for (size_t i = 0; i < listing.count; i++) {
        result |= error == 0 ? export_see(&listing, listing.names[i]) : 0;
        free(listing.names[i]);
    }
    free(listing.names);
    return result;
}

WEFT_EXPORT const struct volume_protocol volume_libnbd = {
    .schemes = volume_nbd_schemes,
    .check = volume_nbd_check,
    .open = export_open,
    .close = export_close,
    .submit = export_submit,
    .wait = export_wait,
    .lost_why = export_lost_why,
    .remedy = volume_nbd_remedy,
    .is_zero = export_is_zero,
    .count = export_count,
    .show = export_show,
    .describe = export_describe,
    .list = export_list,
};
