// Volumes as the operator wants them: at the start, and by each rescan.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "format/nvme_wire.h"
#include "node/discovery/sources.h"
#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/found.h"
#include "node/host/host.h"
#include "node/host/secrets.h"
#include "node/host/wish.h"
#include "node/interface/volume.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/uma/uma.h"

void host_note_said(void *ctx, const char *volume, const char *what)
{
    char line[VOLUME_NAME_MAX + 64];
    snprintf(line, sizeof line, "volume %s: %s", volume, what);
    host_say(ctx, line);
}

static void on_change(void *ctx)
{
    struct host *host = ctx;
    host->has_news = true;
}

// By any protocol: whoever asks need not be told by which.
static bool is_own(void *ctx, const char *target)
{
    const struct host *host = ctx;
    const struct resource_table *table = uma_resources(host->uma);
    char nqn[NVME_NQN_MAX], iqn[ISCSI_NAME_MAX];
    bool is_there = false;
    for (size_t i = 0; i < table->count && !is_there; i++) {
        nvme_subsystem_nqn(&table->rows[i], nqn);
        iscsi_name(&table->rows[i], iqn);
        is_there = strcmp(nqn, target) == 0 || strcmp(iqn, target) == 0;
    }
    return is_there;
}

static bool is_of_own(void *ctx, const struct volume_lineage *lineage)
{
    const struct host *host = ctx;
    return volume_lineage_is_of(lineage, uma_resources(host->uma));
}

// Will the RTA that it is placed in never have another volume?
static bool is_alone(const struct host_config *config)
{
    bool is_fixed = config->volume_count == 1 && config->path == NULL && !config->takes_volumes &&
                    !sources_is(config->volumes[0].uri);
    return config->rta == HOST_RTA_EACH || is_fixed;
}

static const char *refusal(int error)
{
    switch (error) {
    case -EEXIST:
        return "there is a volume of this name";
    case -ENOTUNIQ:
        return "another volume has this NSID of the NQN, or LUN of the target";
    default:
        return "there are too many volumes";
    }
}

int host_volume_add(struct host *host, const struct volume_wish *wish, struct why *ret_why)
{
    const struct host_config *config = host->config;
    struct volume_wish placed = *wish;
    placed.read_only |= config->is_read_only;
    if (placed.unit[0] == '\0') {
        placed.is_alone = is_alone(config);
        snprintf(placed.unit, sizeof placed.unit, "%s",
                 config->rta == HOST_RTA_EACH ? placed.name : "all");
    }
    bool has_process = placed.is_alone && config->rta != HOST_RTA_HOST;
    int error = wish_standby_check(&placed, has_process, ret_why);
    if (error != 0) {
        return error;
    }
    error = uma_volume_add(host->uma, &placed, loop_now(host->loop));
    if (error != 0) {
        why_say(ret_why, "%s", refusal(error));
    }
    return error;
}

// What is to be served now: the volumes of the file as it was last read, those of the command line,
// and of sources among them what they have.
static int wanted_read(struct host *host, struct host_config *ret, struct why *ret_why)
{
    const struct host_config *config = host->config, *in_file = &host->in_file;
    size_t own_count = config->volume_count - config->file_volume_count;
    for (size_t i = 0; i < in_file->volume_count + own_count; i++) {
        bool is_in_file = i < in_file->volume_count;
        const struct volume_wish *wish =
            is_in_file ? &in_file->volumes[i]
                       : &config->volumes[config->file_volume_count + i - in_file->volume_count];
        int error = host_found_add(ret, wish, host->sources, host_say, host);
        if (error != 0) {
            why_say(ret_why, "%s: %s", wish->name,
                    error == -EEXIST ? "there is another volume of this name" : strerror(-error));
            return error;
        }
    }
    sources_sweep(host->sources);
    return 0;
}

static int sources_setup(struct host *host)
{
    const struct source_host parts = {.loop = host->loop,
                                      .ctx = host,
                                      .on_change = on_change,
                                      .say = host_say,
                                      .is_own = is_own,
                                      .is_of_own = is_of_own};
    host->sources = sources_create(&parts);
    return host->sources != NULL ? 0 : -ENOMEM;
}

static int in_file_copy(struct host *host)
{
    int error = 0;
    for (size_t i = 0; i < host->config->file_volume_count && error == 0; i++) {
        error = config_volume_add(&host->in_file, &host->config->volumes[i]);
    }
    return error;
}

int host_volumes_add(struct host *host)
{
    struct host_config *wanted = &host->wanted;
    const char *object = "these volumes";
    struct why why = {""};
    int error = sources_setup(host);
    error = error == 0 ? in_file_copy(host) : error;
    error = error == 0 ? wanted_read(host, wanted, &why) : error;
    for (size_t i = 0; i < wanted->volume_count && error == 0; i++) {
        object = wanted->volumes[i].name;
        error = host_volume_add(host, &wanted->volumes[i], &why);
    }
    if (error != 0) {
        host_say_failure("cannot serve", object, why.text[0] != '\0' ? why.text : strerror(-error),
                         error == -EINVAL
                             ? "see TWO NODES in weft-serve(1)"
                             : "give each volume a name of its own, and fewer of them");
    }
    return error;
}

const struct volume_wish *host_wish_find(const struct host_config *config, const char *name)
{
    for (size_t i = 0; i < config->volume_count; i++) {
        if (strcmp(config->volumes[i].name, name) == 0) {
            return &config->volumes[i];
        }
    }
    return NULL;
}

/* ---- what has changed ------------------------------------------------------------------------ */

static bool is_same_place(const struct volume_wish *a, const struct volume_wish *b,
                          enum volume_grouping grouping)
{
    const struct volume_place *one = &a->places[grouping], *other = &b->places[grouping];
    return strcmp(one->group, other->group) == 0 && one->member == other->member;
}

// Would it be opened in another way, or be another volume?
static bool is_same_device(const struct volume_wish *a, const struct volume_wish *b)
{
    return strcmp(a->uri, b->uri) == 0 && strcmp(a->unit, b->unit) == 0 &&
           a->read_only == b->read_only && a->may_stand_by == b->may_stand_by &&
           a->has_uuid == b->has_uuid && a->has_alias == b->has_alias &&
           is_same_place(a, b, VOLUME_IN_SUBSYSTEM) && is_same_place(a, b, VOLUME_IN_TARGET) &&
           memcmp(&a->identity, &b->identity, sizeof a->identity) == 0;
}

static bool is_same_list(const struct volume_wish *a, const struct volume_wish *b)
{
    bool is_same = a->allow_count == b->allow_count;
    for (unsigned i = 0; is_same && i < a->allow_count; i++) {
        is_same = strcmp(a->allow[i], b->allow[i]) == 0;
    }
    is_same = is_same && a->service_count == b->service_count;
    for (unsigned i = 0; is_same && i < a->service_count; i++) {
        is_same = strcmp(a->services[i], b->services[i]) == 0;
    }
    return is_same;
}

static bool is_same_rate(const struct volume_wish *a, const struct volume_wish *b)
{
    return a->rate.iops == b->rate.iops && a->rate.bps == b->rate.bps;
}

struct rescan {
    struct host *host;
    host_note *note;
    void *ctx;
};

static void tell(const struct rescan *rescan, const struct volume_wish *wish, const char *what)
{
    rescan->note(rescan->ctx, wish->name, what);
}

// What an earlier rescan wanted of it counts no more.
static void coming_drop(struct host_config *coming, const char *name)
{
    size_t left = 0;
    for (size_t i = 0; i < coming->volume_count; i++) {
        if (strcmp(coming->volumes[i].name, name) != 0) {
            coming->volumes[left++] = coming->volumes[i];
        }
    }
    coming->volume_count = left;
}

static void volume_go(const struct rescan *rescan, const struct volume_wish *wish)
{
    struct host *host = rescan->host;
    coming_drop(&host->coming, wish->name);
    uma_volume_remove(host->uma, wish->name, loop_now(host->loop));
    tell(rescan, wish, "removed");
}

static void volume_come(const struct rescan *rescan, const struct volume_wish *wish,
                        const char *what)
{
    struct host_config *coming = &rescan->host->coming;
    coming_drop(coming, wish->name);
    tell(rescan, wish, config_volume_add(coming, wish) == 0 ? what : "not added: no memory");
}

static void volume_change(const struct rescan *rescan, const struct volume_wish *old,
                          const struct volume_wish *fresh)
{
    struct host *host = rescan->host;
    if (!is_same_device(old, fresh)) {
        uma_volume_remove(host->uma, old->name, loop_now(host->loop));
        volume_come(rescan, fresh, "opened anew");
        return;
    }
    if (!is_same_list(old, fresh)) {
        uma_volume_allow(host->uma, fresh);
        tell(rescan, fresh, "other clients");
    }
    if (!is_same_rate(old, fresh)) {
        uma_volume_rate_set(host->uma, fresh);
        tell(rescan, fresh, "another rate");
    }
}

// What is no longer wanted goes; what is now comes; what is otherwise goes and comes.
static void wanted_follow(const struct rescan *rescan, const struct host_config *fresh)
{
    const struct host_config *old = &rescan->host->wanted;
    for (size_t i = 0; i < old->volume_count; i++) {
        if (host_wish_find(fresh, old->volumes[i].name) == NULL) {
            volume_go(rescan, &old->volumes[i]);
        }
    }
    for (size_t i = 0; i < fresh->volume_count; i++) {
        const struct volume_wish *wish = &fresh->volumes[i];
        const struct volume_wish *before = host_wish_find(old, wish->name);
        if (before == NULL) {
            volume_come(rescan, wish, "added");
        } else {
            volume_change(rescan, before, wish);
        }
    }
}

static int file_read(struct host *host, struct why *ret_why)
{
    struct host_config fresh = {0};
    int error = config_read(host->config->path, &fresh, ret_why);
    if (error != 0) {
        config_free(&fresh);
        return error;
    }
    config_free(&host->in_file);
    host->in_file = fresh;
    return 0;
}

int host_look(struct host *host, host_note *note, void *ctx, struct why *ret_why)
{
    const struct rescan rescan = {host, note, ctx};
    struct host_config fresh = {0};
    int error = wanted_read(host, &fresh, ret_why);
    if (error != 0) {
        config_free(&fresh);
        return error;
    }
    wanted_follow(&rescan, &fresh);
    config_free(&host->wanted);
    host->wanted = fresh;
    host_volumes_come(host);
    uma_rescan(host->uma, loop_now(host->loop));
    return 0;
}

static int files_read(struct host *host, struct why *ret_why)
{
    int error = secrets_read(host->config->iscsi_secrets, &host->accounts, ret_why);
    return error == 0 && host->config->path != NULL ? file_read(host, ret_why) : error;
}

int host_rescan(struct host *host, host_note *note, void *ctx, struct why *ret_why)
{
    int error = files_read(host, ret_why);
    sources_ask(host->sources);
    return error == 0 ? host_look(host, note, ctx, ret_why) : error;
}

void host_volumes_come(struct host *host)
{
    struct host_config *coming = &host->coming;
    size_t left = 0;
    for (size_t i = 0; i < coming->volume_count; i++) {
        struct volume_wish *wish = &coming->volumes[i];
        if (uma_has_volume(host->uma, wish->name)) {
            coming->volumes[left++] = *wish;
            continue;
        }
        struct why why;
        if (host_volume_add(host, wish, &why) != 0) {
            host_say_failure("volume not added", wish->name, why.text,
                             "remove that one, or one of them");
        }
    }
    coming->volume_count = left;
}

bool host_volumes_are_settled(const struct host *host)
{
    return sources_are_settled(host->sources) && !host->has_news &&
           host->coming.volume_count == 0 && uma_is_settled(host->uma);
}
