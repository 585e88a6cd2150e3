// module: a driver of somebody else's, in a shared object.

#include "node/module/module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"

enum { MODULE_DEPTH_MAX = 1024 };

// A command as the module has it.
struct module_command {
    struct weft_ddm_command theirs;
    struct ddm_command *ours;
    struct list_link link; // free
};

struct module {
    struct ddm ddm;
    struct ddm_driver row; // of the registry, with what the module says of itself
    struct weft_ddm_driver driver;
    struct weft_ddm_host host;
    void *device;
    struct list_link free;
    struct module_command commands[MODULE_DEPTH_MAX];
};

/* ---- commands -------------------------------------------------------------------------------- */

static const enum weft_ddm_operation operations[NODE_DEVICE_OPERATION_COUNT] = {
    [NODE_READ] = WEFT_DDM_READ,
    [NODE_WRITE] = WEFT_DDM_WRITE,
    [NODE_FLUSH] = WEFT_DDM_FLUSH,
    [NODE_TRIM] = WEFT_DDM_TRIM,
    [NODE_WRITE_ZEROES] = WEFT_DDM_WRITE_ZEROES,
    [NODE_EXTENTS] = WEFT_DDM_EXTENTS,
};

static uint32_t flags_of(const struct ddm_command *command)
{
    return ((command->flags & NODE_FUA) != 0 ? WEFT_DDM_FUA : 0) |
           ((command->flags & NODE_NO_HOLE) != 0 ? WEFT_DDM_NO_HOLE : 0) |
           ((command->flags & NODE_FAST_ONLY) != 0 ? WEFT_DDM_FAST_ONLY : 0);
}

static enum node_completion completion_of(int error)
{
    switch (error) {
    case 0:
        return NODE_OK;
    case -EAGAIN:
        return NODE_RETRY;
    case -EINVAL:
        return NODE_MALFORMED;
    case -ERANGE:
        return NODE_RANGE;
    case -EOPNOTSUPP:
        return NODE_UNSUPPORTED;
    case -EROFS:
        return NODE_READ_ONLY;
    case -ENOSPC:
        return NODE_NO_SPACE;
    case -ETIMEDOUT:
        return NODE_TIMED_OUT;
    case -ENODEV:
        return NODE_NO_VOLUME;
    default:
        return NODE_MEDIA;
    }
}

STATIC_CHECK(sizeof(struct weft_ddm_extent) == sizeof(struct node_extent));

static void on_complete(void *ctx, struct weft_ddm_command *theirs, int error)
{
    struct module *module = ctx;
    struct module_command *c = LIST_ENTRY(theirs, struct module_command, theirs);
    struct ddm_command *ours = c->ours;
    CHECK(ours != NULL); // completed twice: what else it wrote, nobody knows
    c->ours = NULL;
    list_push_head(&module->free, &c->link);
    ours->answer_len = theirs->answer_len <= ours->data_len ? theirs->answer_len : 0;
    ddm_command_finish(ours, completion_of(error), (uint32_t)-error);
}

int module_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct module *module = (struct module *)ddm;
    struct list_link *link = list_pop_head(&module->free);
    if (link == NULL) {
        return -EAGAIN;
    }
    struct module_command *c = LIST_ENTRY(link, struct module_command, link);
    c->ours = command;
    c->theirs = (struct weft_ddm_command){.size = sizeof c->theirs,
                                          .operation = operations[command->operation],
                                          .flags = flags_of(command),
                                          .data_len = command->data_len,
                                          .offset = command->offset,
                                          .len = command->len,
                                          .data = command->data,
                                          .submitted_at_ns = command->submitted_at_ns};
    int error = module->driver.submit(module->device, &c->theirs);
    if (error != 0) {
        c->ours = NULL;
        list_push_head(&module->free, &c->link);
    }
    return error;
}

void module_flush_queue(struct ddm *ddm)
{
    struct module *module = (struct module *)ddm;
    if (module->driver.flush_queue != NULL) {
        module->driver.flush_queue(module->device);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

int module_poll_fd(struct ddm *ddm)
{
    struct module *module = (struct module *)ddm;
    return module->driver.poll_fd != NULL ? module->driver.poll_fd(module->device) : -1;
}

instant_ns module_next_deadline(struct ddm *ddm)
{
    struct module *module = (struct module *)ddm;
    return module->driver.next_deadline_ns != NULL ? module->driver.next_deadline_ns(module->device)
                                                   : INSTANT_NEVER;
}

void module_poll(struct ddm *ddm, instant_ns now)
{
    struct module *module = (struct module *)ddm;
    if (module->driver.poll != NULL) {
        module->driver.poll(module->device, now);
    }
}

void module_drain(struct ddm *ddm)
{
    struct module *module = (struct module *)ddm;
    module_flush_queue(ddm);
    if (module->driver.drain != NULL) {
        module->driver.drain(module->device);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static uint32_t abilities_of(uint32_t theirs)
{
    static const struct {
        uint32_t theirs, ours;
    } table[] = {
        {WEFT_DDM_CAN_WRITE, VOLUME_CAN_WRITE},
        {WEFT_DDM_CAN_FLUSH, VOLUME_CAN_FLUSH},
        {WEFT_DDM_CAN_FUA, VOLUME_CAN_FUA},
        {WEFT_DDM_CAN_TRIM, VOLUME_CAN_TRIM},
        {WEFT_DDM_CAN_WRITE_ZEROES, VOLUME_CAN_WRITE_ZEROES},
        {WEFT_DDM_CAN_ZERO_FAST, VOLUME_CAN_ZERO_FAST},
        {WEFT_DDM_CAN_EXTENTS, VOLUME_CAN_EXTENTS},
        {WEFT_DDM_IS_ROTATIONAL, VOLUME_IS_ROTATIONAL},
    };
    uint32_t ours = 0;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        ours |= (theirs & table[i].theirs) != 0 ? table[i].ours : 0;
    }
    return ours;
}

// What a module says of its volume, whichever version of the structure it has. The origin is said
// to be of this driver, so that no module passes for another one's device.
static void profile_take(const struct module *module, const struct weft_ddm_profile *theirs,
                         struct volume_profile *ret)
{
    struct weft_ddm_profile p = {0};
    memcpy(&p, theirs, theirs->size < sizeof p ? theirs->size : sizeof p);
    p.model[sizeof p.model - 1] = p.origin[sizeof p.origin - 1] = '\0';
    p.instance[sizeof p.instance - 1] = '\0';
    *ret =
        (struct volume_profile){.size = p.volume_len,
                                .abilities = abilities_of(p.abilities),
                                .block_size = p.block_len,
                                .alignment = p.alignment,
                                .preferred = p.preferred_len,
                                .transfer_max = p.transfer_max,
                                .range_max = p.range_max,
                                .depth = p.depth < MODULE_DEPTH_MAX ? p.depth : MODULE_DEPTH_MAX};
    snprintf(ret->driver, sizeof ret->driver, "%s", module->driver.name);
    snprintf(ret->model, sizeof ret->model, "%s", p.model);
    snprintf(ret->instance, sizeof ret->instance, "%s", p.instance);
    snprintf(ret->origin, sizeof ret->origin, "%s:%.*s", ret->driver,
             (int)(sizeof ret->origin - sizeof ret->driver - 1), p.origin);
}

int module_probe(struct ddm *ddm, struct volume_profile *ret)
{
    struct module *module = (struct module *)ddm;
    struct weft_ddm_profile p = {.size = sizeof p};
    int error = module->driver.probe(module->device, &p);
    if (error == 0) {
        p.size = sizeof p;
        profile_take(module, &p, ret);
    }
    return error;
}

void module_close(struct ddm *ddm)
{
    struct module *module = (struct module *)ddm;
    module->driver.close(module->device);
    free(module);
}

static void host_say(void *ctx, const char *line)
{
    const struct ddm_host *host = &((struct module *)ctx)->ddm.host;
    host->say(host->ctx, line);
}

static uint64_t host_clock(void *ctx)
{
    const struct ddm_host *host = &((struct module *)ctx)->ddm.host;
    return host->clock(host->ctx);
}

static void host_keep(void *ctx, int fd)
{
    const struct ddm_host *host = &((struct module *)ctx)->ddm.host;
    host->keep(host->ctx, fd);
}

static void host_changed(void *ctx)
{
    const struct module *module = ctx;
    if (module->ddm.host.changed != NULL) {
        module->ddm.host.changed(module->ddm.host.ctx, &module->ddm);
    }
}

static void host_stand_by(void *ctx, const struct weft_ddm_profile *theirs)
{
    struct module *module = ctx;
    struct volume_profile profile;
    profile_take(module, theirs, &profile);
    module->ddm.host.stand_by(module->ddm.host.ctx, &profile);
}

// At once: nothing that the process still does reaches the device, and what it left unanswered is
// for the node that has it.
static void host_lost(void *ctx, const char *why)
{
    host_say(ctx, why);
    _exit(EXIT_FAILURE);
}

static struct module *module_create(const struct weft_ddm_driver *driver,
                                    const struct ddm_driver *row, const struct ddm_host *host)
{
    struct module *module = calloc(1, sizeof *module);
    bool may_stand_by = host->stand_by != NULL;
    if (module == NULL) {
        return NULL;
    }
    module->row = *row;
    module->row.calls = driver->calls != NULL ? driver->calls : row->calls;
    module->ddm = (struct ddm){.driver = &module->row, .host = *host};
    module->driver = *driver;
    module->host = (struct weft_ddm_host){.size = sizeof module->host,
                                          .is_restart = host->is_restart,
                                          .is_read_only = host->read_only,
                                          .keepsake = host->keepsake,
                                          .pool = host->pool,
                                          .pool_len = host->pool_len,
                                          .ctx = module,
                                          .clock_ns = host_clock,
                                          .say = host_say,
                                          .keep = host_keep,
                                          .complete = on_complete,
                                          .changed = host_changed,
                                          .stand_by = may_stand_by ? host_stand_by : NULL,
                                          .lost = may_stand_by ? host_lost : NULL};
    list_init(&module->free);
    for (unsigned i = 0; i < MODULE_DEPTH_MAX; i++) {
        list_push_tail(&module->free, &module->commands[i].link);
    }
    return module;
}

STATIC_CHECK(sizeof(struct ddm_parameter) == sizeof(struct weft_ddm_parameter));

static int parameters_check(const struct weft_ddm_driver *driver, const struct ddm_target *target,
                            struct why *ret_why)
{
    for (size_t i = 0; i < target->parameter_count; i++) {
        if (!ddm_keys_have(driver->parameters, target->parameters[i].key)) {
            why_say(ret_why, "the module %.64s has no parameter %.64s", driver->name,
                    target->parameters[i].key);
            return -EINVAL;
        }
    }
    return 0;
}

int module_open(const struct weft_ddm_driver *driver, const struct ddm_driver *row,
                const struct ddm_target *target, const struct ddm_host *host, struct ddm **ret,
                struct why *ret_why)
{
    int error = parameters_check(driver, target, ret_why);
    if (error == 0 && host->stand_by != NULL && !driver->can_stand_by) {
        why_say(ret_why, "the module %.64s cannot stand by: its driver does not say so",
                driver->name);
        error = -EINVAL;
    }
    struct module *module = error == 0 ? module_create(driver, row, host) : NULL;
    if (module == NULL) {
        return error != 0 ? error : -ENOMEM;
    }
    const struct weft_ddm_target theirs = {
        .size = sizeof theirs,
        .object = target->object,
        .parameters = (const struct weft_ddm_parameter *)target->parameters,
        .parameter_count = target->parameter_count};
    struct weft_ddm_why why = {""};
    error = driver->open(&theirs, &module->host, &module->device, &why);
    if (error != 0) {
        bool is_said = why.text[0] != '\0';
        why_say(ret_why, "%.64s: %.*s", driver->name, (int)sizeof why.text,
                is_said ? why.text : strerror(abs(error)));
        free(module);
        return error < 0 ? error : -EIO;
    }
    *ret = &module->ddm;
    return 0;
}

static int open_object(const struct ddm_target *target, const struct ddm_host *host,
                       struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    struct weft_ddm_driver driver;
    int error = module_load(target->object, &driver, ret_why);
    return error == 0 ? module_open(&driver, &ddm_module, target, host, ret, ret_why) : error;
}

const struct ddm_driver ddm_module = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "module",
    .summary = "a driver of your own, by <weft/ddm.h>",
    .object = "PATH",
    .fence = "the module's own",
    .needs_process = true,
    .can_stand_by = true, // its driver is asked when it is loaded
    .keeps_pages = true,  // nobody knows
    .takes_all = true,
    .open = open_object,
    .probe = module_probe,
    .submit = module_submit,
    .flush_queue = module_flush_queue,
    .poll_fd = module_poll_fd,
    .next_deadline = module_next_deadline,
    .poll = module_poll,
    .drain = module_drain,
    .close = module_close,
};
