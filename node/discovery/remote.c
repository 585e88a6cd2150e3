// A portal or a discovery service as a source: asked by an envoy of its own, whose reports become
// URIs and names here. What there was last stands until a reading has ended well.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/why.h"
#include "node/discovery/envoy.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/report.h"
#include "node/discovery/source.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "text/show.h"

enum { LINE_MAX_LEN = UNIT_URI_MAX + WHY_MAX };

// A reading that lasts longer is over; so long may what begins with it not be heard of.
static const duration_ns read_within_ns = 60 * NS_PER_S;
// A node that starts, and weft rescan, wait no longer for an answer.
static const duration_ns settle_within_ns = 12 * NS_PER_S;

struct unit {
    char target[REMOTE_TARGET_MAX];
    uint32_t number;
    char name[VOLUME_NAME_MAX], uri[UNIT_URI_MAX];
};

struct units {
    struct unit *all;
    size_t count;
};

struct remote {
    struct source source;
    struct source_host *host;
    struct remote_uri asked;
    char where[REMOTE_HOST_MAX + 24]; // as lines name it
    struct envoy *envoy;
    struct loop_member member;
    struct units known, coming;     // as last read to the end; of the reading under way
    size_t left_out, strange;       // of the last reading; of the one under way
    size_t unasked, unasked_coming; // likewise: targets
    size_t own, own_coming;         // likewise: of the host itself
    struct why first_unasked, said_unasked;
    bool awaits_begin;             // of a reading that was ordered while another one was under way
    bool is_settled;               // since it was to be asked
    instant_ns settle_by, read_by; // INSTANT_NEVER: nothing is awaited
    instant_ns tell_at;            // likewise: nothing has changed
    uint64_t readings, failures;
    struct why why; // of the last failure; empty: the last reading was good
};

static struct remote *of(struct source *source)
{
    return (struct remote *)source;
}

// A stranger's words, for a terminal and for JSON.
static void tame(char *text, size_t capacity)
{
    text_tame(text, capacity);
    text_tame_utf8(text);
}

static void say(const struct remote *remote, const char *what)
{
    char line[LINE_MAX_LEN];
    snprintf(line, sizeof line, "%s: %s", remote->where, what);
    tame(line, sizeof line);
    remote->host->say(remote->host->ctx, line);
}

/* ---- units ----------------------------------------------------------------------------------- */

static int unit_compare(const void *left, const void *right)
{
    const struct unit *a = left, *b = right;
    int order = strcmp(a->target, b->target);
    return order != 0 ? order : (a->number > b->number) - (a->number < b->number);
}

static void units_free(struct units *units)
{
    free(units->all);
    *units = (struct units){0};
}

// False: no memory.
static bool unit_add(struct units *units, const struct unit *unit)
{
    struct unit *longer = reallocarray(units->all, units->count + 1, sizeof *longer);
    if (longer == NULL) {
        return false;
    }
    units->all = longer;
    units->all[units->count++] = *unit;
    return true;
}

// In order, and none of them twice.
static void units_settle(struct units *units)
{
    size_t left = 0;
    if (units->count > 0) {
        qsort(units->all, units->count, sizeof units->all[0], unit_compare);
    }
    for (size_t i = 0; i < units->count; i++) {
        if (left == 0 || unit_compare(&units->all[left - 1], &units->all[i]) != 0) {
            units->all[left++] = units->all[i];
        }
    }
    units->count = left;
}

static bool units_are_same(const struct units *a, const struct units *b)
{
    bool are_same = a->count == b->count;
    for (size_t i = 0; are_same && i < a->count; i++) {
        are_same = strcmp(a->all[i].uri, b->all[i].uri) == 0;
    }
    return are_same;
}

/* ---- what the envoy reports ------------------------------------------------------------------ */

// Whoever waits for an answer need wait no longer.
static void settle(struct remote *remote)
{
    remote->is_settled = true;
    remote->awaits_begin = false;
    remote->settle_by = INSTANT_NEVER;
}

// A reading has ended.
static void read_end(struct remote *remote)
{
    remote->read_by = INSTANT_NEVER;
    if (!remote->awaits_begin) {
        settle(remote);
    }
}

static void on_begin(struct remote *remote, const struct report *report)
{
    units_free(&remote->coming);
    remote->strange = remote->unasked_coming = remote->own_coming = 0;
    remote->first_unasked.text[0] = '\0';
    remote->awaits_begin = false;
    remote->read_by = instant_after(loop_now(remote->host->loop), read_within_ns);
}

// A node that served what it serves would find that, too, and serve it again. What has been found
// here before, and is served by a name that its target has as well, is none of these.
static bool is_own(const struct remote *remote, const char *target)
{
    for (size_t i = 0; i < remote->known.count; i++) {
        if (strcmp(remote->known.all[i].target, target) == 0) {
            return false;
        }
    }
    return remote->host->is_own(remote->host->ctx, target);
}

static void unit_take(struct remote *remote, const struct unit *unit)
{
    bool has_room = remote->coming.count < remote->asked.most;
    remote->strange += !has_room || !unit_add(&remote->coming, unit);
}

static void on_unit(struct remote *remote, const struct report *report)
{
    struct unit unit = {.number = report->number};
    if (is_own(remote, report->target) ||
        remote->host->is_of_own(remote->host->ctx, &report->lineage)) {
        remote->own_coming++;
        return;
    }
    if (!remote_uri_of(&remote->asked, report->where, report->target, report->number, unit.uri,
                       unit.name)) {
        remote->strange++;
        return;
    }
    snprintf(unit.target, sizeof unit.target, "%s", report->target);
    unit_take(remote, &unit);
}

static void on_kept(struct remote *remote, const struct report *report)
{
    if (is_own(remote, report->target)) {
        remote->own_coming++;
        return;
    }
    if (remote->unasked_coming++ == 0) {
        why_say(&remote->first_unasked, "%.100s: %.300s", report->target, report->text);
    }
    for (size_t i = 0; i < remote->known.count; i++) {
        if (strcmp(remote->known.all[i].target, report->target) == 0) {
            unit_take(remote, &remote->known.all[i]);
        }
    }
}

// What is left out is said when it is another number than before.
static void left_out_take(struct remote *remote, size_t left_out)
{
    char what[160];
    if (left_out != remote->left_out && left_out > 0) {
        snprintf(what, sizeof what,
                 "%zu targets or volumes are left out: they are more than most=%u, or have names "
                 "that no volume can have",
                 left_out, remote->asked.most);
        say(remote, what);
    }
    remote->left_out = left_out;
}

// Of targets that could not be asked the first is said, when it is another one, or for another
// reason, than before.
static void unasked_take(struct remote *remote)
{
    char what[WHY_MAX + 96];
    const char *first = remote->first_unasked.text;
    if (*first != '\0' && strcmp(first, remote->said_unasked.text) != 0) {
        snprintf(what, sizeof what,
                 "%zu targets could not be asked, their volumes stay as they are; the first: %s",
                 remote->unasked_coming, first);
        say(remote, what);
    }
    remote->said_unasked = remote->first_unasked;
    remote->unasked = remote->unasked_coming;
}

static void own_take(struct remote *remote)
{
    char what[128];
    if (remote->own_coming != remote->own && remote->own_coming > 0) {
        snprintf(what, sizeof what,
                 "%zu volumes there are this node's own, which are not served again",
                 remote->own_coming);
        say(remote, what);
    }
    remote->own = remote->own_coming;
}

static void on_end_of_reading(struct remote *remote, const struct report *report)
{
    units_settle(&remote->coming);
    if (!units_are_same(&remote->known, &remote->coming)) {
        remote->tell_at = 0;
    }
    units_free(&remote->known);
    remote->known = remote->coming;
    remote->coming = (struct units){0};
    if (remote->why.text[0] != '\0') {
        say(remote, "it answers again");
    }
    left_out_take(remote, remote->strange + report->number);
    unasked_take(remote);
    own_take(remote);
    remote->why.text[0] = '\0';
    remote->readings++;
    envoy_is_well(remote->envoy);
    read_end(remote);
}

// Said once; the same reason again is counted.
static void failed(struct remote *remote, const char *why)
{
    struct why former = remote->why;
    char what[WHY_MAX + 64];
    units_free(&remote->coming);
    remote->failures++;
    why_say(&remote->why, "%s", why);
    tame(remote->why.text, sizeof remote->why.text);
    if (strcmp(former.text, remote->why.text) != 0) {
        snprintf(what, sizeof what, "%s: its volumes stay as they are, and it is asked again",
                 remote->why.text);
        say(remote, what);
    }
    read_end(remote);
}

static void on_failed(struct remote *remote, const struct report *report)
{
    failed(remote, report->text);
}

static void on_report(void *ctx, const struct report *report)
{
    static void (*const takes[])(struct remote *, const struct report *) = {
        [REPORT_BEGIN] = on_begin,        [REPORT_UNIT] = on_unit,     [REPORT_KEPT] = on_kept,
        [REPORT_END] = on_end_of_reading, [REPORT_FAILED] = on_failed,
    };
    struct remote *remote = ctx;
    if (report->kind < sizeof takes / sizeof takes[0] && takes[report->kind] != NULL) {
        takes[report->kind](remote, report);
    } else {
        envoy_kill(remote->envoy);
    }
}

static void on_end(void *ctx, const char *how)
{
    struct remote *remote = ctx;
    char why[128];
    snprintf(why, sizeof why, "it cannot be asked: %s", how);
    remote->awaits_begin = false; // the order went with it
    failed(remote, why);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static instant_ns next_deadline(void *ctx)
{
    const struct remote *remote = ctx;
    return instant_min(remote->tell_at, instant_min(remote->settle_by, remote->read_by));
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct remote *remote = ctx;
    if (remote->settle_by <= now) {
        settle(remote);
    }
    if (remote->read_by <= now) {
        remote->read_by = INSTANT_NEVER;
        envoy_kill(remote->envoy); // which is told of as an end
    }
    if (remote->tell_at <= now) {
        remote->tell_at = INSTANT_NEVER;
        remote->host->on_change(remote->host->ctx);
    }
}

/* ---- as a source ----------------------------------------------------------------------------- */

static void await(struct remote *remote)
{
    instant_ns now = loop_now(remote->host->loop);
    remote->is_settled = false;
    remote->settle_by = instant_after(now, settle_within_ns);
}

// Who is not there yet asks when it is.
static void remote_ask(struct source *source)
{
    struct remote *remote = of(source);
    if (envoy_tell(remote->envoy, ORDER_AGAIN)) {
        remote->awaits_begin = remote->read_by != INSTANT_NEVER;
        await(remote);
    }
}

static bool remote_is_settled(const struct source *source)
{
    const struct remote *remote = (const struct remote *)source;
    return remote->is_settled && remote->tell_at == INSTANT_NEVER;
}

static size_t remote_each(struct source *source, source_seen *seen, void *ctx)
{
    const struct units *known = &of(source)->known;
    for (size_t i = 0; i < known->count; i++) {
        seen(ctx, &(struct source_found){.name = known->all[i].name, .uri = known->all[i].uri});
    }
    return 0; // what is left out has been said
}

static void remote_status(const struct source *source, struct source_status *ret)
{
    const struct remote *remote = (const struct remote *)source;
    bool is_asking = remote->read_by != INSTANT_NEVER;
    *ret = (struct source_status){.state = remote->why.text[0] != '\0' ? "waiting"
                                           : is_asking                 ? "asking"
                                                                       : "read",
                                  .why = remote->why.text,
                                  .volumes = remote->known.count,
                                  .left_out = remote->left_out,
                                  .unasked = remote->unasked,
                                  .own = remote->own,
                                  .readings = remote->readings,
                                  .failures = remote->failures};
}

static int remote_check(const char *uri, char ret_one[UNIT_URI_MAX], struct why *ret_why)
{
    struct remote_uri parsed;
    char name[VOLUME_NAME_MAX];
    int error = remote_uri_parse(uri, &parsed, ret_why);
    if (error == 0 && !remote_uri_of(&parsed, "", "target", 1, ret_one, name)) {
        why_say(ret_why, "the URI is too long");
        return -EINVAL;
    }
    return error;
}

static void remote_close(struct source *source)
{
    struct remote *remote = of(source);
    loop_leave(remote->host->loop, &remote->member);
    envoy_destroy(remote->envoy);
    units_free(&remote->known);
    units_free(&remote->coming);
    free(remote);
}

static struct source *remote_open(struct source_host *host, const char *uri)
{
    struct remote *remote = calloc(1, sizeof *remote);
    struct why why;
    if (remote == NULL || remote_uri_parse(uri, &remote->asked, &why) != 0) {
        free(remote);
        return NULL;
    }
    remote->source.kind = &source_remote;
    remote->host = host;
    remote->read_by = remote->tell_at = INSTANT_NEVER;
    snprintf(remote->where, sizeof remote->where, "%s://%s", remote->asked.driver,
             remote->asked.where);
    struct order task = {.kind = ORDER_ASK};
    snprintf(task.text, sizeof task.text, "%s", uri);
    remote->envoy = envoy_create(host->loop, &task, on_report, on_end, remote);
    remote->member = (struct loop_member){
        .ctx = remote, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(host->loop, &remote->member);
    await(remote);
    if (remote->envoy == NULL) {
        remote_close(&remote->source);
        return NULL;
    }
    return &remote->source;
}

const struct source_kind source_remote = {
    .is = remote_uri_is,
    .check = remote_check,
    .open = remote_open,
    .ask = remote_ask,
    .is_settled = remote_is_settled,
    .each = remote_each,
    .status = remote_status,
    .close = remote_close,
};
