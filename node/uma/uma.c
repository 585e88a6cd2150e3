#include "node/uma/uma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "node/interface/request.h"
#include "node/uma/agent.h"

// Another node that waits for a device has it at once: this is for one that is just about to.
static const duration_ns hand_over_ns = 2 * NS_PER_S;

struct uma *uma_create(const struct uma_parts *parts)
{
    struct uma *uma = calloc(1, sizeof *uma);
    if (uma == NULL) {
        return NULL;
    }
    uma->parts = *parts;
    uma->tts_retry_ns = INSTANT_NEVER;
    uma->table.rows = uma->rows;
    list_init(&uma->noted);
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        uma->volumes[i].keepsake = uma->volumes[i].window = -1;
        list_init(&uma->volumes[i].unsaid);
    }
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        list_init(&uma->connections[i].unsaid);
    }
    return uma;
}

void uma_destroy(struct uma *uma)
{
    for (struct volume *v = NULL; uma != NULL && (v = volume_next(uma, v)) != NULL;) {
        descriptor_drop(uma, &v->keepsake);
        descriptor_drop(uma, &v->window);
    }
    free(uma);
}

void uma_join_cta(struct uma *uma, const struct cta_for_uma *cta, void *cta_ctx)
{
    uma->cta = cta;
    uma->cta_ctx = cta_ctx;
}

/* ---- calls ----------------------------------------------------------------------------------- */

// Everybody enters the UMA by a call that begins and ends so; TTSs and the CTA call back from
// within one. What its files note of units meanwhile is done when the outermost is over.
static void call_begin(struct uma *uma)
{
    uma->depth++;
}

static void call_end(struct uma *uma)
{
    if (uma->depth == 1) {
        units_settle(uma);
    }
    uma->depth--;
}

static const struct resource_table *resources(void *ctx)
{
    return &((struct uma *)ctx)->table;
}

static void on_unit_broken(void *ctx, uint32_t number, const char *why)
{
    struct uma *uma = ctx;
    call_begin(uma);
    unit_say(uma, &uma->units[number], why);
    unit_on_event(uma, &uma->units[number], UNIT_ON_BROKEN);
    call_end(uma);
}

static void on_route(void *ctx, uint32_t connection, enum connect_status status)
{
    struct uma *uma = ctx;
    call_begin(uma);
    connection_on_route(uma, connection, status);
    call_end(uma);
}

static void on_connect(void *ctx, struct connect_request *request)
{
    struct uma *uma = ctx;
    call_begin(uma);
    connection_connect(uma, request);
    call_end(uma);
}

static void on_disconnect(void *ctx, uint32_t connection)
{
    struct uma *uma = ctx;
    call_begin(uma);
    connection_disconnect(uma, connection);
    call_end(uma);
}

const struct uma_for_cta uma_for_cta = {
    .on_route = on_route,
    .on_unit_broken = on_unit_broken,
};

static const struct reservation *reservation(void *ctx, uint32_t volume)
{
    const struct volume *v = volume_by_number(ctx, volume);
    return v != NULL ? v->reservation : NULL;
}

const struct uma_for_tts uma_for_tts = {
    .resources = resources,
    .may_see = connection_may_see,
    .connect = on_connect,
    .disconnect = on_disconnect,
    .reservation = reservation,
};

/* ---- what the operator wants ----------------------------------------------------------------- */

static struct volume *unused_volume(struct uma *uma)
{
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        if (uma->volumes[i].state == VOLUME_UNUSED) {
            return &uma->volumes[i];
        }
    }
    return NULL;
}

static bool is_member_taken(struct uma *uma, enum volume_grouping grouping, const char *group,
                            uint32_t member)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        bool is_going = v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING;
        bool is_its = v->members[grouping] == member;
        if (!is_going && is_its && strcmp(v->wish.places[grouping].group, group) == 0) {
            return true;
        }
    }
    return false;
}

// The number in its group: as wished, or the first that is free. A negative errno: none.
static int member_of(struct uma *uma, enum volume_grouping grouping,
                     const struct volume_place *place)
{
    uint32_t member = place->member != 0 ? place->member : 1;
    bool is_alone = place->group[0] == '\0';
    while (!is_alone && is_member_taken(uma, grouping, place->group, member)) {
        if (place->member != 0) {
            return -ENOTUNIQ;
        }
        if (++member > VOLUME_MEMBER_MAX) {
            return -ENOSPC;
        }
    }
    return (int)member;
}

static int members_of(struct uma *uma, const struct volume_wish *wish,
                      uint32_t ret[VOLUME_GROUPING_COUNT])
{
    for (unsigned i = 0; i < VOLUME_GROUPING_COUNT; i++) {
        int member = member_of(uma, (enum volume_grouping)i, &wish->places[i]);
        if (member < 0) {
            return member;
        }
        ret[i] = (uint32_t)member;
    }
    return 0;
}

int uma_volume_add(struct uma *uma, const struct volume_wish *wish, instant_ns now)
{
    uma->now = now;
    if (volume_by_name(uma, wish->name) != NULL) {
        return -EEXIST;
    }
    uint32_t members[VOLUME_GROUPING_COUNT];
    int error = members_of(uma, wish, members);
    if (error != 0) {
        return error;
    }
    struct volume *v = unused_volume(uma);
    struct unit *unit = v != NULL ? unit_of_name(uma, wish->unit) : NULL;
    if (unit == NULL) {
        return -ENOSPC;
    }
    *v = (struct volume){.state = VOLUME_NEW,
                         .number = ++uma->volume_serial,
                         .unit = unit_number(uma, unit),
                         .keepsake = -1,
                         .window = -1,
                         .wish = *wish};
    memcpy(v->members, members, sizeof v->members);
    list_init(&v->unsaid);
    call_begin(uma);
    if (uma->is_started && unit->state == UNIT_READY) {
        volumes_open(uma, unit);
    } else if (uma->is_started) {
        unit_on_event(uma, unit, UNIT_ON_START);
    }
    resources_advertise(uma);
    call_end(uma);
    return 0;
}

int uma_volume_remove(struct uma *uma, const char *name, instant_ns now)
{
    uma->now = now;
    struct volume *v = volume_by_name(uma, name);
    if (v == NULL || v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING) {
        return -ENOENT;
    }
    struct unit *unit = &uma->units[v->unit];
    bool is_being_opened = v->state == VOLUME_OPENING && list_is_empty(&v->unsaid);
    call_begin(uma);
    list_remove(&v->unsaid);
    v->state = VOLUME_LEAVING;
    resources_advertise(uma);
    connections_drop(uma, v);
    if (v->is_waited) {
        unit_on_event(uma, unit, UNIT_ON_BROKEN); // it hears nothing until it has the device
    } else if (!is_being_opened) {
        volume_leave(uma, v);
    }
    unit_check_progress(uma, unit); // the others may have waited for it
    call_end(uma);
    return 0;
}

// The process goes, and with it the fence, once its I/O is over. Whoever waits for that has it; its
// successor here comes late enough. That it yields matters where others would take long to find out
// that it is dead.
int uma_volume_stand_by(struct uma *uma, const char *name, instant_ns now)
{
    uma->now = now;
    struct volume *v = volume_by_name(uma, name);
    if (v == NULL || v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING) {
        return -ENOENT;
    }
    if (!v->wish.may_stand_by) {
        return -EINVAL;
    }
    if (volume_stands_by(uma, v)) {
        return -EALREADY;
    }
    struct unit *unit = &uma->units[v->unit];
    unit->yields = true;
    unit->pause_ns = hand_over_ns;
    on_unit_broken(uma, v->unit, "gives its device up: another node is to have it");
    return 0;
}

int uma_volume_allow(struct uma *uma, const struct volume_wish *wish)
{
    struct volume *v = volume_by_name(uma, wish->name);
    if (v == NULL || v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING) {
        return -ENOENT;
    }
    v->wish.allow_count = wish->allow_count;
    memcpy(v->wish.allow, wish->allow, sizeof v->wish.allow);
    v->wish.service_count = wish->service_count;
    memcpy(v->wish.services, wish->services, sizeof v->wish.services);
    resources_advertise(uma); // it may be seen by others
    return 0;
}

bool uma_volume_is_by(struct uma *uma, uint32_t volume, const char *service)
{
    const struct volume *v = volume_by_number(uma, volume);
    return v != NULL && volume_is_by(v, service);
}

int uma_volume_rate_set(struct uma *uma, const struct volume_wish *wish)
{
    struct volume *v = volume_by_name(uma, wish->name);
    if (v == NULL || v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING) {
        return -ENOENT;
    }
    v->wish.rate = wish->rate;
    uma->cta->rate_set(uma->cta_ctx, v->number, &v->wish.rate);
    return 0;
}

bool uma_has_volume(const struct uma *uma, const char *name)
{
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct volume *v = &uma->volumes[i];
        if (v->state != VOLUME_UNUSED && strcmp(name, v->wish.name) == 0) {
            return true;
        }
    }
    return false;
}

void uma_tts_add(struct uma *uma, const struct tts_for_uma *tts, void *tts_ctx)
{
    if (uma->tts_count < UMA_TTS_COUNT_MAX) {
        uma->ttss[uma->tts_count++] = (struct uma_tts){.tts = tts, .ctx = tts_ctx};
    }
}

/* ---- reset events ---------------------------------------------------------------------------- */

void uma_start(struct uma *uma, instant_ns now)
{
    uma->now = now;
    call_begin(uma);
    uma->is_started = true;
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        if (uma->units[i].is_used) {
            unit_on_event(uma, &uma->units[i], UNIT_ON_START);
        }
    }
    resources_check_started(uma);
    call_end(uma);
}

void uma_rescan(struct uma *uma, instant_ns now)
{
    uma->now = now;
    call_begin(uma);
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        struct unit *unit = &uma->units[v->unit];
        if (unit->state == UNIT_READY && v->state == VOLUME_OPEN) {
            v->is_probing = true;
            unit_tell_volume(uma, unit, v);
        } else if (unit->state == UNIT_READY && v->state == VOLUME_FAILED) {
            volumes_open(uma, unit);
        }
    }
    call_end(uma);
}

bool uma_is_settled(const struct uma *uma)
{
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct volume *v = &uma->volumes[i];
        bool is_as_it_is = (v->state == VOLUME_OPEN && !v->is_probing) || v->is_waited;
        if (!is_as_it_is && v->state != VOLUME_UNUSED && v->state != VOLUME_FAILED) {
            return false;
        }
    }
    return true;
}

void uma_rates_lift(struct uma *uma)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        uma->cta->rate_set(uma->cta_ctx, v->number, &(struct volume_rate){0});
    }
}

void uma_stop(struct uma *uma, instant_ns now)
{
    uma->now = now;
    if (uma->is_stopping) {
        return;
    }
    call_begin(uma);
    uma->is_stopping = true;
    for (unsigned i = 0; i < uma->tts_count; i++) {
        uma->ttss[i].tts->stop(uma->ttss[i].ctx);
    }
    connections_fail(uma);
    call_end(uma);
}

/* ---- from units ------------------------------------------------------------------------------ */

static void on_message(struct uma *uma, struct unit *unit, const struct unit_message *message,
                       int keepsake)
{
    bool counts = unit->state != UNIT_DYING;
    if (message->kind == UNIT_OPEN && counts) {
        volume_on_open(uma, unit, message, keepsake);
        return;
    }
    descriptor_drop(uma, &keepsake);
    if (!counts) {
        return;
    }
    switch (message->kind) {
    case UNIT_HELLO:
        unit_on_hello(uma, unit, message);
        break;
    case UNIT_PROBE:
        volume_on_probe(uma, unit, message);
        break;
    case UNIT_STANDBY:
        volume_on_standby(uma, unit, message);
        break;
    case UNIT_CLOSE:
        volume_on_close(uma, unit, message);
        break;
    case UNIT_CONNECTION_ADD:
        connection_on_added(uma, unit, message);
        break;
    case UNIT_CONNECTION_REMOVE:
        connection_on_removed(uma, unit, message);
        break;
    case UNIT_STATUS:
        unit->counters = message->counters;
        break;
    default:
        unit_say(uma, unit, "said what means nothing");
        unit_on_event(uma, unit, UNIT_ON_BROKEN);
    }
}

void uma_on_message(struct uma *uma, uint32_t number, const struct unit_message *message,
                    int keepsake, instant_ns now)
{
    uma->now = now;
    call_begin(uma);
    on_message(uma, &uma->units[number], message, keepsake);
    call_end(uma);
}

void uma_on_writable(struct uma *uma, uint32_t number, instant_ns now)
{
    uma->now = now;
    unit_on_writable(uma, &uma->units[number]);
}

void uma_on_exit(struct uma *uma, uint32_t number, const char *how, instant_ns now)
{
    struct unit *unit = &uma->units[number];
    uma->now = now;
    call_begin(uma);
    if (unit->state != UNIT_ENDING) {
        unit_say(uma, unit, how);
    }
    unit_on_event(uma, unit, UNIT_ON_EXIT);
    call_end(uma);
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns uma_next_deadline(const struct uma *uma)
{
    instant_ns at = uma->tts_retry_ns;
    for (unsigned i = 0; i < uma->unit_end; i++) {
        const struct unit *unit = &uma->units[i];
        if (unit->is_used) {
            at = instant_min(at, instant_min(unit->timer_ns, unit->hear_by_ns));
        }
    }
    return at;
}

void uma_on_deadline(struct uma *uma, instant_ns now)
{
    uma->now = now;
    call_begin(uma);
    for (unsigned i = 0; i < uma->unit_end; i++) {
        struct unit *unit = &uma->units[i];
        if (unit->is_used && unit->timer_ns <= now) {
            unit_on_event(uma, unit, UNIT_ON_TIMER);
        }
        if (unit->is_used && unit->hear_by_ns <= now && unit_is_deaf(uma, unit)) {
            on_unit_broken(uma, i, "does not read what it is told");
        }
    }
    if (uma->tts_retry_ns <= now) {
        uma->tts_retry_ns = INSTANT_NEVER;
        resources_check_started(uma);
    }
    call_end(uma);
}

/* ---- status ---------------------------------------------------------------------------------- */

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &uma->table;
}

bool uma_unit_status(const struct uma *uma, uint32_t number, struct uma_unit_status *ret)
{
    static const char *const names[UNIT_STATE_COUNT] = {
        [UNIT_ABSENT] = "absent",         [UNIT_STARTING] = "starting", [UNIT_OPENING] = "opening",
        [UNIT_CONNECTING] = "connecting", [UNIT_READY] = "ready",       [UNIT_ENDING] = "ending",
        [UNIT_DYING] = "dying",           [UNIT_WAITING] = "waiting",
    };
    const struct unit *unit = &uma->units[number];
    *ret = (struct uma_unit_status){.name = unit->name,
                                    .state = names[unit->state],
                                    .since_ns = unit->since_ns,
                                    .restarts = unit->restarts,
                                    .failures = unit->failures,
                                    .why = unit->why.text,
                                    .error = unit->error,
                                    .counters = unit->counters};
    return unit->is_used;
}

static const struct volume *volume_const(const struct uma *uma, uint32_t number)
{
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        if (uma->volumes[i].state != VOLUME_UNUSED && uma->volumes[i].number == number) {
            return &uma->volumes[i];
        }
    }
    return NULL;
}

const char *uma_volume_why(const struct uma *uma, uint32_t volume)
{
    const struct volume *v = volume_const(uma, volume);
    return v != NULL ? v->why.text : "";
}

int uma_volume_error(const struct uma *uma, uint32_t volume)
{
    const struct volume *v = volume_const(uma, volume);
    return v != NULL ? v->error : 0;
}

struct volume_rate uma_volume_rate(const struct uma *uma, uint32_t volume)
{
    const struct volume *v = volume_const(uma, volume);
    return v != NULL ? v->wish.rate : (struct volume_rate){0};
}

uint32_t uma_volume_unit(const struct uma *uma, uint32_t volume)
{
    const struct volume *v = volume_const(uma, volume);
    return v != NULL ? v->unit : NODE_UNIT_COUNT_MAX;
}

const char *uma_tts_why(const struct uma *uma, size_t index)
{
    bool has_failed = index < uma->tts_count && why_is_said(&uma->ttss[index].why);
    return has_failed ? uma->ttss[index].why.text : NULL;
}

int uma_tts_error(const struct uma *uma, size_t index)
{
    return index < uma->tts_count ? uma->ttss[index].error : 0;
}

const char *uma_tts_name(const struct uma *uma, size_t index)
{
    return index < uma->tts_count ? uma->ttss[index].tts->name : NULL;
}

void uma_tts_figures(const struct uma *uma, size_t index, tts_figure *figure, void *figure_ctx)
{
    if (uma->ttss[index].tts->figures != NULL) {
        uma->ttss[index].tts->figures(uma->ttss[index].ctx, figure, figure_ctx);
    }
}

unsigned uma_connection_count(const struct uma *uma)
{
    return uma->connection_count;
}

void uma_ask_counters(struct uma *uma)
{
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        if (uma->units[i].is_used && uma->units[i].state == UNIT_READY) {
            unit_tell_status(uma, &uma->units[i]);
        }
    }
}
