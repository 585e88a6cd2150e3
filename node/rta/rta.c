#include "node/rta/rta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "node/interface/volume.h"
#include "node/rta/agent.h"

enum { LINE_MAX = 128 };

static const duration_ns ring_within_ns = 50 * NS_PER_US; // of a batch that is long

struct rta *rta_create(const struct rta_parts *parts)
{
    struct rta *rta = calloc(1, sizeof *rta);
    if (rta == NULL) {
        return NULL;
    }
    rta->parts = *parts;
    rta->kept = rta->window = -1;
    rta->residual = cta_interface_create(rta);
    rta->store = store_create();
    rta->io = io_create(&(struct io_parts){.ctx = rta, .on_done = result_give});
    dma_init(&rta->dma, parts->pool, parts->pool_len);
    if (rta->residual == NULL || rta->store == NULL || rta->io == NULL) {
        rta_destroy(rta);
        return NULL;
    }
    return rta;
}

// Its requests have ended: what is held now is released by nobody.
static void held_say(struct rta *rta)
{
    char line[LINE_MAX];
    if (rta_is_drained(rta) && rta->dma.held_count > 0) {
        snprintf(line, sizeof line,
                 "drained, and holds %" PRIu64 " buffers of the pool all the same (%" PRIu64
                 " octets)",
                 rta->dma.held_count, rta->dma.held_len);
        rta->parts.say(rta->parts.ctx, line);
    }
}

void rta_destroy(struct rta *rta)
{
    held_say(rta);
    io_destroy(rta->io);
    store_destroy(rta->store);
    residual_destroy(rta->residual);
    free(rta);
}

static void say(struct rta *rta, const struct unit_message *message, int keepsake)
{
    // If the UMA does not hear, it is gone, and the socket's end says so.
    rta->parts.uma.send(rta->parts.uma.ctx, message, keepsake);
}

void rta_start(struct rta *rta)
{
    say(rta, &(struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION}, -1);
}

/* ---- discovery: devices ---------------------------------------------------------------------- */

static void on_keep(void *ctx, int fd)
{
    ((struct rta *)ctx)->kept = fd;
}

static void on_lend(void *ctx, int fd)
{
    ((struct rta *)ctx)->window = fd;
}

static void on_stand_by(void *ctx, const struct volume_profile *profile)
{
    struct rta *rta = ctx;
    struct unit_message message = {
        .kind = UNIT_STANDBY, .volume = rta->opening, .profile = *profile};
    if (rta->parts.on_waiting != NULL) {
        rta->parts.on_waiting(rta->parts.ctx, true);
    }
    rta->stood_by = true;
    say(rta, &message, -1);
}

static instant_ns host_clock(void *ctx)
{
    const struct rta_parts *parts = &((struct rta *)ctx)->parts;
    return parts->clock(parts->ctx);
}

static void host_say(void *ctx, const char *line)
{
    const struct rta_parts *parts = &((struct rta *)ctx)->parts;
    parts->say(parts->ctx, line);
}

static bool chain_has(const struct ddm *chain, const struct ddm *ddm)
{
    while (chain != NULL && chain != ddm) {
        chain = chain->next;
    }
    return chain != NULL;
}

static bool chain_keeps_pages(const struct ddm *chain)
{
    while (chain != NULL && !chain->driver->keeps_pages) {
        chain = chain->next;
    }
    return chain != NULL;
}

static void host_changed(void *ctx, const struct ddm *ddm)
{
    struct rta *rta = ctx;
    for (struct io_volume *v = NULL; (v = io_volume_next(rta->io, v)) != NULL;) {
        v->has_changed |= chain_has(v->ddm, ddm);
    }
}

// The format that the driver at the end of the chain speaks. False: unknown here.
static bool format_find(const struct rta *rta, const struct ddm *ddm, const struct io_format **ret)
{
    while (ddm->next != NULL) {
        ddm = ddm->next;
    }
    *ret = NULL;
    for (const struct io_format *const *f = rta->parts.formats; ddm->driver->format != NULL; f++) {
        if (*f == NULL) {
            return false;
        }
        if (strcmp((*f)->name, ddm->driver->format) == 0) {
            *ret = *f;
            break;
        }
    }
    return true;
}

static int device_add(struct rta *rta, struct ddm *ddm, const struct unit_message *ask,
                      struct volume_profile *ret, struct why *ret_why)
{
    const struct io_format *format;
    *ret = (struct volume_profile){0};
    int error = ddm_probe(ddm, ret);
    if (error != 0 || !volume_profile_is_sane(ret)) {
        why_say(ret_why, "the device could not be probed");
        return error != 0 ? error : -EPROTO;
    }
    if (ask->pin[0] != '\0' && strcmp(ask->pin, volume_profile_pin(ret)) != 0) {
        why_say(ret_why,
                "another device is there now than the one that was first opened; to serve this "
                "one, remove the volume and add it anew");
        return -ESTALE;
    }
    if (!format_find(rta, ddm, &format)) {
        why_say(ret_why, "unknown I/O format %.32s", ddm->driver->format);
        return -EPROTONOSUPPORT;
    }
    if (io_volume_add(rta->io, ask->volume, ddm, format, ret, ask->read_only != 0) == NULL) {
        why_say(ret_why, "too many volumes");
        return -ENOSPC;
    }
    int fd = ddm_poll_fd(ddm);
    if (fd >= 0) {
        rta->parts.watch(rta->parts.ctx, fd, ddm);
    }
    return 0;
}

// Why no device is asked at all; 0: one is.
static int open_refused(const struct rta *rta, const struct unit_message *ask, struct why *ret_why)
{
    if (ask->volume == 0 || io_volume_find(rta->io, ask->volume) != NULL) {
        return -EEXIST;
    }
    if (rta->has_only) {
        why_say(ret_why, "the process of that RTA has given up what opening another device takes; "
                         "give the volume an RTA of its own, or restart the node");
        return -EPERM;
    }
    return 0;
}

static void on_open(struct rta *rta, const struct unit_message *ask, int keepsake)
{
    struct unit_message answer = {.kind = UNIT_OPEN, .volume = ask->volume};
    struct ddm_host host = {.ctx = rta,
                            .pool = rta->parts.pool,
                            .pool_len = rta->parts.pool_len,
                            .keepsake = keepsake,
                            .is_restart = ask->is_restart != 0,
                            .read_only = ask->read_only != 0,
                            .is_alone = rta->parts.is_alone || ask->is_only != 0,
                            .clock = host_clock,
                            .say = host_say,
                            .keep = on_keep,
                            .lend = ask->may_stand_by != 0 ? NULL : on_lend,
                            .stand_by = ask->may_stand_by != 0 ? on_stand_by : NULL,
                            .changed = host_changed};
    struct ddm *ddm = NULL;
    struct why why = {""};
    rta->kept = rta->window = -1;
    rta->opening = ask->volume;
    rta->stood_by = false;
    answer.error = open_refused(rta, ask, &why);
    if (answer.error == 0) {
        answer.error = rta->parts.ddm_open(ask->uri, &host, &ddm, &why);
    } else if (keepsake >= 0) {
        rta->parts.drop(rta->parts.ctx, keepsake); // no device has it, so none would close it
    }
    if (rta->stood_by && rta->parts.on_waiting != NULL) {
        rta->parts.on_waiting(rta->parts.ctx, false);
    }
    if (answer.error == 0) {
        answer.error = device_add(rta, ddm, ask, &answer.profile, &why);
        if (answer.error != 0) {
            ddm_free(ddm);
        }
    }
    if (answer.error == 0 && ask->is_only != 0 && rta->parts.on_only != NULL) {
        rta->has_only = true;
        rta->parts.on_only(rta->parts.ctx, ddm);
    }
    unit_message_put_why(&answer, &why);
    answer.keeps_pages = answer.error == 0 && chain_keeps_pages(ddm);
    // Filters see every request: nothing is read past them.
    answer.is_window = answer.error == 0 && rta->window >= 0 && rta->kept < 0 && ddm->next == NULL;
    int handed = answer.is_window != 0 ? rta->window : rta->kept;
    say(rta, &answer, answer.error == 0 ? handed : -1);
}

// 0 or a negative errno, as from the port.
static int volume_probe(struct rta *rta, uint32_t volume)
{
    struct unit_message answer = {.kind = UNIT_PROBE, .volume = volume, .error = -ENOENT};
    struct io_volume *v = io_volume_find(rta->io, volume);
    if (v != NULL) {
        answer.error = ddm_probe(v->ddm, &answer.profile);
        if (answer.error == 0 && !volume_profile_is_sane(&answer.profile)) {
            answer.error = -EPROTO;
        }
    }
    if (answer.error == 0) {
        v->profile = answer.profile;
    }
    return rta->parts.uma.send(rta->parts.uma.ctx, &answer, -1);
}

// By itself. Where the UMA has not read what was said before, again after the next event.
static void changes_tell(struct rta *rta)
{
    for (struct io_volume *v = NULL; (v = io_volume_next(rta->io, v)) != NULL;) {
        v->has_changed = v->has_changed && volume_probe(rta, v->volume) == -EAGAIN;
    }
}

static void device_remove(struct rta *rta, struct io_volume *v)
{
    int fd = ddm_poll_fd(v->ddm);
    if (fd >= 0) {
        rta->parts.unwatch(rta->parts.ctx, fd);
    }
    io_volume_remove(rta->io, v);
}

static void on_close(struct rta *rta, const struct unit_message *ask)
{
    struct unit_message answer = {.kind = UNIT_CLOSE, .volume = ask->volume};
    struct io_volume *v = io_volume_find(rta->io, ask->volume);
    if (v == NULL) {
        answer.error = -ENOENT;
    } else if (store_rows_of(rta->store, v) > 0) {
        answer.error = -EBUSY;
    } else {
        device_remove(rta, v);
    }
    say(rta, &answer, -1);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_connection_add(struct rta *rta, const struct unit_message *ask)
{
    struct unit_message answer = {
        .kind = UNIT_CONNECTION_ADD, .volume = ask->volume, .connection = ask->connection};
    struct io_volume *v = io_volume_find(rta->io, ask->volume);
    if (v == NULL || rta->is_draining) {
        answer.error = -ENOENT;
    } else if (store_row_add(rta->store, ask->connection, v) == NULL) {
        answer.error = -EEXIST;
    }
    say(rta, &answer, -1);
}

static void on_connection_remove(struct rta *rta, const struct unit_message *ask)
{
    struct unit_message answer = {.kind = UNIT_CONNECTION_REMOVE, .connection = ask->connection};
    if (!store_row_remove(rta->store, ask->connection)) {
        answer.error = -ENOENT;
    }
    say(rta, &answer, -1);
}

/* ---- lifecycle ------------------------------------------------------------------------------- */

static void on_status(struct rta *rta)
{
    struct unit_message answer = {.kind = UNIT_STATUS};
    const struct residual_counters *frames = &rta->residual->counters;
    const struct io_counters *io = io_counters(rta->io);
    answer.counters = rta->counters;
    answer.counters.landlock = rta->parts.landlock;
    answer.counters.in_flight = io_in_flight(rta->io);
    answer.counters.buffers_held = rta->dma.held_count;
    answer.counters.octets_held = rta->dma.held_len;
    answer.counters.retransmissions = frames->resent;
    answer.counters.duplicates += frames->duplicates + io->duplicates;
    answer.counters.resubmissions = io->resubmissions + io->retries;
    say(rta, &answer, -1);
}

// Results first, then whatever else the bus is owed.
static void batch_end(struct rta *rta)
{
    io_settle(rta->io, rta->now);
    changes_tell(rta);
    residual_flush(rta->residual);
}

static void ring_if_due(struct rta *rta)
{
    if (!rta->residual->should_ring) {
        return;
    }
    instant_ns now = rta->parts.clock(rta->parts.ctx);
    if (now >= instant_after(rta->now, ring_within_ns)) {
        rta->now = now;
        residual_flush(rta->residual);
    }
}

// All that have come. What the device does at once has its result on the bus at once, so that the
// CTA, its clients and the device work beside each other and not in turns. A CTA that sleeps is not
// rung for each. False: the bus is broken.
static bool frames_take(struct rta *rta)
{
    enum residual_verdict verdict;
    for (unsigned i = 0; (verdict = cta_interface_take(rta)) == RESIDUAL_FRAME; i++) {
        io_settle_ended(rta->io, rta->now);
        if (i > 0) {
            ring_if_due(rta);
        }
    }
    return verdict != RESIDUAL_BROKEN;
}

bool rta_on_message(struct rta *rta, const struct unit_message *message, int keepsake,
                    instant_ns now)
{
    rta->now = now;
    switch (message->kind) {
    case UNIT_OPEN:
        on_open(rta, message, keepsake);
        return true;
    case UNIT_PROBE:
        volume_probe(rta, message->volume);
        return true;
    case UNIT_CLOSE:
        on_close(rta, message);
        return true;
    case UNIT_CONNECTION_ADD:
        on_connection_add(rta, message);
        return true;
    case UNIT_CONNECTION_REMOVE:
        on_connection_remove(rta, message);
        return true;
    case UNIT_STATUS:
        on_status(rta);
        return true;
    case UNIT_DRAIN:
        rta->is_draining = true;
        return true;
    case UNIT_YIELD: // whoever destroys it waits for its devices, and closes them
    default:
        return false;
    }
}

bool rta_on_bus(struct rta *rta, instant_ns now)
{
    rta->now = now;
    rta->counters.turns++;
    bool is_sound = frames_take(rta);
    batch_end(rta);
    return is_sound;
}

void rta_on_device(struct rta *rta, struct ddm *ddm, instant_ns now)
{
    rta->now = now;
    ddm_poll(ddm, now);
    batch_end(rta);
}

bool rta_look_on(struct rta *rta, instant_ns now)
{
    rta->now = now;
    bool has_ended = io_look_on(rta->io, now);
    if (has_ended) {
        batch_end(rta);
    }
    return has_ended;
}

instant_ns rta_next_deadline(struct rta *rta)
{
    return instant_min(residual_next_deadline(rta->residual), io_next_deadline(rta->io));
}

bool rta_on_deadline(struct rta *rta, instant_ns now)
{
    rta->now = now;
    bool is_sound = frames_take(rta);
    io_on_deadline(rta->io, now);
    residual_on_deadline(rta->residual, now);
    batch_end(rta);
    return is_sound;
}

bool rta_is_drained(const struct rta *rta)
{
    return rta->is_draining && store_count(rta->store) == 0;
}

bool rta_awaits_device(const struct rta *rta)
{
    return io_in_flight(rta->io) > 0;
}

uint64_t rta_under_way(const struct rta *rta)
{
    return store_count(rta->store);
}
