#include "node/rta/io_interface.h"

#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "node/interface/request.h"

enum { COMMAND_COUNT = 1024 };

static const duration_ns answer_within_ns = 1 * NS_PER_S; // of drivers that may lose commands
static const duration_ns retry_first_ns = 5 * NS_PER_MS;
static const duration_ns retry_for_ns = 5 * NS_PER_S;

struct io_command {
    struct ddm_command command;
    struct list_link link; // free, out, or ended
    struct io *io;
    struct io_volume *volume;
    struct store_transaction *transaction; // NULL: given to the device again meanwhile
};

struct io {
    struct io_parts parts;
    struct list_link free;
    struct list_link ended;
    struct io_counters counters;
    unsigned volumes_end; // no volume is at or beyond this index
    struct io_volume volumes[NODE_VOLUME_COUNT_MAX];
    struct io_command commands[COMMAND_COUNT];
};

struct io *io_create(const struct io_parts *parts)
{
    struct io *io = calloc(1, sizeof *io);
    if (io == NULL) {
        return NULL;
    }
    io->parts = *parts;
    list_init(&io->free);
    list_init(&io->ended);
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        io->commands[i].io = io;
        list_push_tail(&io->free, &io->commands[i].link);
    }
    return io;
}

void io_destroy(struct io *io)
{
    for (struct io_volume *v = NULL; io != NULL && (v = io_volume_next(io, NULL)) != NULL;) {
        io_volume_remove(io, v);
    }
    free(io);
}

/* ---- volumes --------------------------------------------------------------------------------- */

struct io_volume *io_volume_add(struct io *io, uint32_t volume, struct ddm *ddm,
                                const struct io_format *format,
                                const struct volume_profile *profile, bool is_read_only)
{
    unsigned i = 0;
    while (i < NODE_VOLUME_COUNT_MAX && io->volumes[i].volume != 0) {
        i++;
    }
    if (i == NODE_VOLUME_COUNT_MAX) {
        return NULL;
    }
    io->volumes_end = i < io->volumes_end ? io->volumes_end : i + 1;
    struct io_volume *v = &io->volumes[i];
    *v = (struct io_volume){.volume = volume,
                            .ddm = ddm,
                            .format = format,
                            .profile = *profile,
                            .is_read_only = is_read_only};
    list_init(&v->out);
    list_init(&v->ready);
    return v;
}

struct io_volume *io_volume_next(struct io *io, const struct io_volume *volume)
{
    size_t i = volume == NULL ? 0 : (size_t)(volume - io->volumes) + 1;
    while (i < io->volumes_end && io->volumes[i].volume == 0) {
        i++;
    }
    return i < io->volumes_end ? &io->volumes[i] : NULL;
}

struct io_volume *io_volume_find(struct io *io, uint32_t volume)
{
    struct io_volume *v = NULL;
    while ((v = io_volume_next(io, v)) != NULL && v->volume != volume) {
    }
    return v;
}

void io_volume_remove(struct io *io, struct io_volume *volume)
{
    ddm_close(volume->ddm);
    while (!list_is_empty(&volume->out)) { // commands whose answers never came
        list_push_tail(&io->free, list_pop_head(&volume->out));
    }
    *volume = (struct io_volume){0};
}

/* ---- commands to devices --------------------------------------------------------------------- */

static void on_end(void *ctx, struct ddm_command *command)
{
    struct io_command *c = LIST_ENTRY(command, struct io_command, command);
    list_remove(&c->link);
    list_push_tail(&c->io->ended, &c->link);
}

static void command_free(struct io *io, struct io_command *c)
{
    list_remove(&c->link);
    list_push_head(&io->free, &c->link);
}

// Gives the device one command of the transaction. False: it must wait.
static bool issue(struct io *io, struct io_volume *v, struct store_transaction *t, instant_ns now)
{
    if (v->is_full || v->out_count >= v->profile.depth || list_is_empty(&io->free)) {
        return false;
    }
    struct io_command *c = LIST_ENTRY(list_pop_head(&io->free), struct io_command, link);
    c->volume = v;
    c->transaction = t;
    c->command.submitted_at_ns = now;
    list_push_tail(&v->out, &c->link);
    v->out_count++;
    enum node_completion completion = converter_command(&v->profile, v->format, t, &c->command);
    ddm_command_expect(&c->command, on_end, NULL);
    if (completion != NODE_OK) {
        c->command.native_len = 0;
        ddm_command_finish(&c->command, completion, 0);
        return true;
    }
    int error = ddm_submit(v->ddm, &c->command);
    if (error == -EAGAIN) {
        v->is_full = true;
        v->out_count--;
        command_free(io, c);
        return false;
    }
    v->has_queued = true;
    if (error != 0) {
        c->command.native_len = 0;
        ddm_command_finish(&c->command, NODE_INTERNAL, (uint32_t)-error);
    }
    return true;
}

void io_submit(struct io *io, struct store_transaction *t, instant_ns now)
{
    struct io_volume *v = t->row->volume;
    t->retry_until_ns = instant_min(instant_after(now, retry_for_ns), t->request.deadline);
    t->retry_in_ns = retry_first_ns;
    if (!list_is_empty(&v->ready) || !issue(io, v, t, now)) {
        list_push_tail(&v->ready, &t->link);
    }
}

static void issue_ready(struct io *io, struct io_volume *v, instant_ns now)
{
    while (!list_is_empty(&v->ready)) {
        struct store_transaction *t = LIST_ENTRY(v->ready.next, struct store_transaction, link);
        list_remove(&t->link);
        if (!issue(io, v, t, now)) {
            list_push_head(&v->ready, &t->link);
            return;
        }
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void settle_one(struct io *io, struct io_command *c, instant_ns now)
{
    struct io_volume *v = c->volume;
    struct store_transaction *t = c->transaction;
    v->is_full = false;
    if (t == NULL) {
        io->counters.duplicates++;
        command_free(io, c);
        return;
    }
    v->out_count--;
    bool has_more = converter_result(&v->profile, v->format, t, &c->command);
    enum node_completion completion = c->command.completion;
    uint32_t detail = c->command.detail;
    command_free(io, c);
    if (has_more) {
        list_push_head(&v->ready, &t->link);
    } else if (completion == NODE_RETRY && now < t->retry_until_ns) {
        io->counters.retries++;
        deadline_arm(&v->retry, &t->retry, instant_after(now, t->retry_in_ns));
        t->retry_in_ns *= 2;
    } else {
        io->parts.on_done(io->parts.ctx, t, completion, detail);
    }
}

void io_settle_ended(struct io *io, instant_ns now)
{
    while (!list_is_empty(&io->ended)) {
        settle_one(io, LIST_ENTRY(io->ended.next, struct io_command, link), now);
    }
}

void io_settle(struct io *io, instant_ns now)
{
    do {
        io_settle_ended(io, now);
        for (struct io_volume *v = NULL; (v = io_volume_next(io, v)) != NULL;) {
            issue_ready(io, v, now);
            if (v->has_queued) {
                ddm_flush_queue(v->ddm);
            }
            v->has_queued = false;
        }
    } while (!list_is_empty(&io->ended));
}

/* ---- time ------------------------------------------------------------------------------------ */

bool io_look_on(struct io *io, instant_ns now)
{
    bool has_ended = false;
    for (struct io_volume *v = NULL; !has_ended && (v = io_volume_next(io, v)) != NULL;) {
        const struct ddm_driver *driver = v->ddm->driver;
        has_ended = v->out_count > 0 && driver->look_on != NULL && driver->look_on(v->ddm, now);
    }
    return has_ended;
}

static struct io_command *oldest_out(struct io_volume *v)
{
    for (struct list_link *l = v->out.next; l != &v->out; l = l->next) {
        struct io_command *c = LIST_ENTRY(l, struct io_command, link);
        if (c->transaction != NULL) {
            return c;
        }
    }
    return NULL;
}

static instant_ns volume_deadline(struct io_volume *v)
{
    const struct ddm_driver *driver = v->ddm->driver;
    instant_ns at = instant_min(ddm_next_deadline(v->ddm), deadlines_next(&v->retry));
    struct io_command *oldest = driver->may_lose ? oldest_out(v) : NULL;
    if (oldest != NULL) {
        at = instant_min(at, instant_after(oldest->command.submitted_at_ns, answer_within_ns));
    }
    return at;
}

instant_ns io_next_deadline(struct io *io)
{
    instant_ns at = INSTANT_NEVER;
    for (struct io_volume *v = NULL; (v = io_volume_next(io, v)) != NULL;) {
        at = instant_min(at, volume_deadline(v));
    }
    return at;
}

static void retry_due(struct io_volume *v, instant_ns now)
{
    struct deadline *d;
    while ((d = deadlines_take_due(&v->retry, now)) != NULL) {
        list_push_tail(&v->ready, &DEADLINE_ENTRY(d, struct store_transaction, retry)->link);
    }
}

// What the device does not answer is given to it again; the command it has is no longer ours.
static void resubmit_due(struct io *io, struct io_volume *v, instant_ns now)
{
    for (struct io_command *c;
         (c = oldest_out(v)) != NULL &&
         instant_after(c->command.submitted_at_ns, answer_within_ns) <= now;) {
        struct store_transaction *t = c->transaction;
        c->transaction = NULL;
        v->out_count--;
        io->counters.resubmissions++;
        list_push_tail(&v->ready, &t->link);
    }
}

void io_on_deadline(struct io *io, instant_ns now)
{
    for (struct io_volume *v = NULL; (v = io_volume_next(io, v)) != NULL;) {
        const struct ddm_driver *driver = v->ddm->driver;
        if (ddm_next_deadline(v->ddm) <= now) {
            ddm_poll(v->ddm, now);
        }
        retry_due(v, now);
        if (driver->may_lose) {
            resubmit_due(io, v, now);
        }
    }
    io_settle(io, now);
}

const struct io_counters *io_counters(const struct io *io)
{
    return &io->counters;
}

uint64_t io_in_flight(const struct io *io)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < io->volumes_end; i++) {
        count += io->volumes[i].out_count;
    }
    return count;
}
