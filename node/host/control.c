#include "node/host/control.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "base/why.h"
#include "control/runtime.h"
#include "control/socket.h"
#include "node/discovery/sources.h"
#include "node/host/agent.h"
#include "node/host/status.h"
#include "node/host/wish.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "node/uma/uma.h"
#include "text/quantity.h"

enum { LINE_MAX_LEN = UNIT_URI_MAX + VOLUME_NAME_MAX + 16, ASKER_MAX = 16 };

// RTAs have this long to send their counters before an answer.
static const duration_ns counters_within_ns = 30 * NS_PER_MS;
static const duration_ns ask_within_ns = 5 * NS_PER_S;
// What a device takes longer for is answered as under way, before the asker gives up.
static const duration_ns settle_within_ns = 3 * NS_PER_S;

// What an asker waits for.
enum asked { ASKED_NOTHING, ASKED_STATUS, ASKED_RESCAN, ASKED_ADD, ASKED_REMOVE };

struct asker {
    struct host_control *control;
    int fd; // -1: free
    struct loop_watch *watch;
    size_t len;
    char line[LINE_MAX_LEN];
    instant_ns deadline;
    enum asked asked;
    char volume[VOLUME_NAME_MAX]; // that was added or removed
    struct json_object *changes;  // of a rescan so far
    struct json_object *sizes;    // before it, by volume
    struct json_object *answer;   // on its way; NULL: none
    const char *unsent;           // of its text
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
    json_object_put(asker->changes);
    json_object_put(asker->sizes);
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
    asker->asked = ASKED_NOTHING;
    asker->deadline = instant_after(loop_now(asker->control->host->loop), ask_within_ns);
    loop_watch_change(asker->watch, EPOLLOUT);
    answer_send(asker);
}

// Why it was not done, or NULL; with what has changed.
static void answer_result(struct asker *asker, const char *why)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "ok", json_object_new_boolean(why == NULL));
    if (why != NULL) {
        json_object_object_add(object, "why", json_object_new_string(why));
    }
    if (asker->changes != NULL) {
        json_object_object_add(object, "changes", asker->changes);
        asker->changes = NULL;
    }
    answer(asker, object);
}

/* ---- what was asked for is waited for -------------------------------------------------------- */

static void await(struct asker *asker, enum asked asked, const char *volume)
{
    asker->asked = asked;
    snprintf(asker->volume, sizeof asker->volume, "%s", volume);
    asker->deadline = instant_after(loop_now(asker->control->host->loop), settle_within_ns);
}

static void note_change(void *ctx, const char *volume, const char *what)
{
    struct asker *asker = ctx;
    struct json_object *change = json_object_new_object();
    json_object_object_add(change, "volume", json_object_new_string(volume));
    json_object_object_add(change, "what", json_object_new_string(what));
    if (asker->changes == NULL) {
        asker->changes = json_object_new_array();
    }
    json_object_array_add(asker->changes, change);
}

void control_note(struct host_control *control, const char *volume, const char *what)
{
    for (unsigned i = 0; control != NULL && i < ASKER_MAX; i++) {
        if (control->askers[i].asked == ASKED_RESCAN) {
            note_change(&control->askers[i], volume, what);
        }
    }
}

static const struct resource *row_of(const struct host *host, const char *volume)
{
    const struct resource_table *table = uma_resources(host->uma);
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].name, volume) == 0) {
            return &table->rows[i];
        }
    }
    return NULL;
}

// What cannot be opened is not added.
static void add_end(struct asker *asker, const struct resource *row)
{
    struct host *host = asker->control->host;
    struct why why;
    if (row == NULL || row->state != RESOURCE_FAILED) {
        note_change(asker, asker->volume,
                    row == NULL || row->state == RESOURCE_NOT_READY
                        ? "added; it is still being opened"
                    : row->state == RESOURCE_STANDBY ? "added; another node has it"
                                                     : "added");
        answer_result(asker, NULL);
        return;
    }
    why_say(&why, "%s", uma_volume_why(host->uma, row->volume));
    uma_volume_remove(host->uma, asker->volume, loop_now(host->loop));
    answer_result(asker, why.text);
}

static void sizes_compare(struct asker *asker)
{
    const struct resource_table *table = uma_resources(asker->control->host->uma);
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        struct json_object *before;
        if (row->state == RESOURCE_READY &&
            json_object_object_get_ex(asker->sizes, row->name, &before) &&
            json_object_get_uint64(before) != row->profile.size) {
            char size[TEXT_SIZE_MAX], what[64];
            snprintf(what, sizeof what, "%s octets", text_size_format(row->profile.size, size));
            note_change(asker, row->name, what);
        }
    }
}

// The first source that could not be asked.
static void source_look(const struct host *host, struct why *ret_why)
{
    struct source_status status;
    unsigned number = 1;
    for (size_t i = 0; number != 0 && ret_why->text[0] == '\0'; i++) {
        number = sources_at(host->sources, i, &status);
        if (number != 0 && *status.why != '\0') {
            why_say(ret_why, "%.200s: %.280s", sources_uri(host->sources, number), status.why);
        }
    }
}

// A volume that cannot be opened, and a source that cannot be asked, make the whole a failure, but
// not what was done.
static void rescan_end(struct asker *asker)
{
    struct host *host = asker->control->host;
    const struct resource_table *table = uma_resources(host->uma);
    struct why why = {.text = ""};
    sizes_compare(asker);
    source_look(host, &why);
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].state == RESOURCE_FAILED && why.text[0] == '\0') {
            why_say(&why, "volume %s: %s", table->rows[i].name,
                    uma_volume_why(host->uma, table->rows[i].volume));
        }
    }
    answer_result(asker, why.text[0] != '\0' ? why.text : NULL);
}

// Answers if what was asked for has come about, or in any case.
static void outcome_look(struct asker *asker, bool is_late)
{
    struct host *host = asker->control->host;
    const struct resource *row = row_of(host, asker->volume);
    if (asker->asked == ASKED_ADD && (is_late || row == NULL || row->state != RESOURCE_NOT_READY)) {
        add_end(asker, row);
    } else if (asker->asked == ASKED_REMOVE &&
               (is_late || !uma_has_volume(host->uma, asker->volume))) {
        note_change(asker, asker->volume,
                    is_late ? "going; its device has not answered yet" : "removed");
        answer_result(asker, NULL);
    } else if (asker->asked == ASKED_RESCAN && (is_late || host_volumes_are_settled(host))) {
        rescan_end(asker);
    }
}

static void on_batch_end(void *ctx, instant_ns now)
{
    struct host_control *control = ctx;
    for (unsigned i = 0; i < ASKER_MAX; i++) {
        if (control->askers[i].asked > ASKED_STATUS) {
            outcome_look(&control->askers[i], false);
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

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
    if (sources_is(wish.uri)) {
        answer_result(asker, "a pattern stands on the command line or in the configuration file");
        return;
    }
    if (host_volume_add(asker->control->host, &wish, &why) == 0) {
        await(asker, ASKED_ADD, wish.name);
    } else {
        answer_result(asker, why.text);
    }
}

static void on_remove(struct asker *asker, const char *volume)
{
    struct host *host = asker->control->host;
    if (uma_volume_remove(host->uma, volume, loop_now(host->loop)) == 0) {
        await(asker, ASKED_REMOVE, volume);
    } else {
        answer_result(asker, "there is no such volume");
    }
}

static void on_stand_by(struct asker *asker, const char *volume)
{
    struct host *host = asker->control->host;
    switch (uma_volume_stand_by(host->uma, volume, loop_now(host->loop))) {
    case 0:
        note_change(asker, volume, "stands by");
        answer_result(asker, NULL);
        break;
    case -EINVAL:
        answer_result(asker, "no other node serves it: both serve it with standby=on");
        break;
    case -EALREADY:
        answer_result(asker, "it stands by: ask the node that serves it");
        break;
    default:
        answer_result(asker, "there is no such volume");
    }
}

static void on_rescan(struct asker *asker)
{
    struct host *host = asker->control->host;
    const struct resource_table *table = uma_resources(host->uma);
    struct why why;
    asker->sizes = json_object_new_object();
    for (size_t i = 0; i < table->count; i++) {
        json_object_object_add(asker->sizes, table->rows[i].name,
                               json_object_new_uint64(table->rows[i].profile.size));
    }
    if (host_rescan(host, note_change, asker, &why) == 0) {
        await(asker, ASKED_RESCAN, "");
    } else {
        answer_result(asker, why.text);
    }
}

static void on_line(struct asker *asker, instant_ns now)
{
    if (strcmp(asker->line, "status") == 0) {
        uma_ask_counters(asker->control->host->uma);
        asker->asked = ASKED_STATUS;
        asker->deadline = instant_after(now, counters_within_ns);
    } else if (strcmp(asker->line, "rescan") == 0) {
        on_rescan(asker);
    } else if (strncmp(asker->line, "add ", 4) == 0) {
        on_add(asker, asker->line + 4);
    } else if (strncmp(asker->line, "remove ", 7) == 0) {
        on_remove(asker, asker->line + 7);
    } else if (strncmp(asker->line, "stand-by ", 9) == 0) {
        on_stand_by(asker, asker->line + 9);
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
    } else if (end != NULL && asker->asked == ASKED_NOTHING) {
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
    int fd = loop_accept(control->watch);
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
        if (asker->asked == ASKED_STATUS) {
            answer(asker, status_object(control->host));
        } else if (asker->asked != ASKED_NOTHING) {
            outcome_look(asker, true);
        } else {
            asker_end(asker);
        }
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void socket_open(struct host_control *control)
{
    struct why why;
    control->fd = control_socket_listen(ASKER_MAX, control->path, &why);
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
    control->member = (struct loop_member){.ctx = control,
                                           .on_batch_end = on_batch_end,
                                           .next_deadline = next_deadline,
                                           .on_deadline = on_deadline};
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
