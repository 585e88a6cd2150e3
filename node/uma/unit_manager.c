// The unit manager: processes of RTAs, their states and restarts.

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/time.h"
#include "node/interface/request.h"
#include "node/interface/uma_rta.h"
#include "node/uma/agent.h"

static const duration_ns backoff_first_ns = 100 * NS_PER_MS;
static const duration_ns backoff_last_ns = 5 * NS_PER_S;
static const duration_ns backoff_served_ns = NS_PER_S; // at most, after a process that has served
static const duration_ns healthy_after_ns = 500 * NS_PER_MS; // a restart after this is no loop
static const duration_ns hello_within_ns = 20 * NS_PER_S;
// More for each process that is starting beside it: a thousand take their time.
static const duration_ns hello_beside_ns = 100 * NS_PER_MS;
static const duration_ns reopen_after_ns = 2 * NS_PER_S; // of volumes that have failed
static const duration_ns drain_within_ns = 5 * NS_PER_S;

/* ---- the table ------------------------------------------------------------------------------- */

#define STAYS UNIT_STATE_COUNT // the event means nothing there

static const enum unit_state next_states[UNIT_STATE_COUNT][UNIT_EVENT_COUNT] = {
    // start, hello, opened, connected, timer, broken, drain, exit
    [UNIT_ABSENT] = {UNIT_STARTING, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS},
    [UNIT_STARTING] = {STAYS, UNIT_OPENING, STAYS, STAYS, UNIT_DYING, UNIT_DYING, UNIT_ENDING,
                       UNIT_WAITING},
    [UNIT_OPENING] = {STAYS, UNIT_DYING, UNIT_CONNECTING, STAYS, UNIT_OPENING, UNIT_DYING,
                      UNIT_ENDING, UNIT_WAITING},
    [UNIT_CONNECTING] = {STAYS, UNIT_DYING, STAYS, UNIT_READY, STAYS, UNIT_DYING, UNIT_ENDING,
                         UNIT_WAITING},
    [UNIT_READY] = {STAYS, UNIT_DYING, STAYS, STAYS, UNIT_READY, UNIT_DYING, UNIT_ENDING,
                    UNIT_WAITING},
    [UNIT_ENDING] = {STAYS, STAYS, STAYS, STAYS, UNIT_ENDING, UNIT_ENDING, STAYS, UNIT_ABSENT},
    [UNIT_DYING] = {STAYS, STAYS, STAYS, STAYS, UNIT_DYING, STAYS, UNIT_ENDING, UNIT_WAITING},
    [UNIT_WAITING] = {STAYS, STAYS, STAYS, STAYS, UNIT_STARTING, STAYS, UNIT_ABSENT, STAYS},
};

enum unit_state unit_next_state(enum unit_state state, enum unit_event event)
{
    return next_states[state][event];
}

/* ---- names ----------------------------------------------------------------------------------- */

struct unit *unit_of_name(struct uma *uma, const char *name)
{
    struct unit *unused = NULL;
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        struct unit *unit = &uma->units[i];
        if (unit->is_used && strcmp(unit->name, name) == 0 && unit->state != UNIT_ENDING) {
            return unit;
        }
        unused = unused == NULL && !unit->is_used ? unit : unused;
    }
    if (unused == NULL) {
        return NULL;
    }
    *unused = (struct unit){.is_used = true,
                            .since_ns = uma->now,
                            .timer_ns = INSTANT_NEVER,
                            .hear_by_ns = INSTANT_NEVER,
                            .backoff_ns = backoff_first_ns};
    list_init(&unused->noted_link);
    list_init(&unused->unsaid_volumes);
    list_init(&unused->unsaid_connections);
    snprintf(unused->name, sizeof unused->name, "%s", name);
    uint32_t number = unit_number(uma, unused);
    if (!uma->cta->unit_add(uma->cta_ctx, number, uma->parts.bus(uma->parts.ctx, number))) {
        unused->is_used = false;
        return NULL;
    }
    uma->unit_end = uma->unit_end > number ? uma->unit_end : number + 1;
    return unused;
}

/* ---- what entering a state does -------------------------------------------------------------- */

static duration_ns hello_within(const struct uma *uma, const struct unit *unit)
{
    duration_ns within = hello_within_ns;
    for (unsigned i = 0; i < uma->unit_end; i++) {
        const struct unit *other = &uma->units[i];
        bool starts = other->is_used && other->state == UNIT_STARTING;
        within += other != unit && starts ? hello_beside_ns : 0;
    }
    return within;
}

static void enter_starting(struct uma *uma, struct unit *unit)
{
    unit->timer_ns = instant_after(uma->now, hello_within(uma, unit));
    int error = uma->parts.spawn(uma->parts.ctx, unit_number(uma, unit));
    unit->error = 0;
    unit->has_served = false;
    if (error != 0) {
        char what[128];
        snprintf(what, sizeof what, "its process could not be started: %s", strerror(-error));
        unit_say(uma, unit, what);
        unit->error = error;
        unit_on_event(uma, unit, UNIT_ON_EXIT);
    }
}

static void enter_opening(struct uma *uma, struct unit *unit)
{
    unit->timer_ns = INSTANT_NEVER;
    volumes_open(uma, unit);
    unit_check_progress(uma, unit);
}

static void enter_ready(struct uma *uma, struct unit *unit)
{
    unit->was_ready = unit->has_served = true;
    unit->failures = 0;
    unit->why = (struct why){""};
    volumes_standby_tell(uma, unit);
    uma->cta->unit_ready(uma->cta_ctx, unit_number(uma, unit), uma->now);
    resources_advertise(uma);
    resources_check_started(uma);
}

// Who is told to yield has so long for what its device is doing.
static void enter_dying(struct uma *uma, struct unit *unit)
{
    if (unit->yields) {
        unit->timer_ns = instant_after(uma->now, drain_within_ns);
        unit_tell_yield(uma, unit);
    } else {
        uma->parts.kill(uma->parts.ctx, unit_number(uma, unit));
    }
}

static void enter_waiting(struct uma *uma, struct unit *unit)
{
    unit->restarts++;
    unit->failures += !unit->has_served;
    duration_ns pause_ns = unit->backoff_ns - backoff_first_ns;
    unit->timer_ns = instant_after(uma->now, pause_ns > unit->pause_ns ? pause_ns : unit->pause_ns);
    unit->pause_ns = 0;
    unit->yields = false;
    unit->backoff_ns *= 2;
    if (unit->backoff_ns > backoff_last_ns) {
        unit->backoff_ns = backoff_last_ns;
    }
}

static void enter_absent(struct uma *uma, struct unit *unit)
{
    uma->cta->unit_remove(uma->cta_ctx, unit_number(uma, unit));
    list_remove(&unit->noted_link);
    *unit = (struct unit){0};
}

static void enter(struct uma *uma, struct unit *unit)
{
    switch (unit->state) {
    case UNIT_ABSENT:
        enter_absent(uma, unit);
        break;
    case UNIT_STARTING:
        enter_starting(uma, unit);
        break;
    case UNIT_OPENING:
        enter_opening(uma, unit);
        break;
    case UNIT_CONNECTING:
        connections_add_all(uma, unit);
        unit_check_progress(uma, unit);
        break;
    case UNIT_READY:
        enter_ready(uma, unit);
        break;
    case UNIT_ENDING:
        unit->timer_ns = instant_after(uma->now, drain_within_ns);
        if (unit_is_waiting(uma, unit)) {
            uma->parts.kill(uma->parts.ctx, unit_number(uma, unit)); // it hears nothing
        } else {
            unit_tell_drain(uma, unit);
        }
        break;
    case UNIT_DYING:
        enter_dying(uma, unit);
        break;
    case UNIT_WAITING:
        enter_waiting(uma, unit);
        break;
    default:
        CHECK(false);
    }
}

// Events that keep the state do something all the same.
static void stay(struct uma *uma, struct unit *unit, enum unit_event event)
{
    unit->timer_ns = INSTANT_NEVER;
    if (unit->state == UNIT_ENDING || unit->state == UNIT_DYING) {
        uma->parts.kill(uma->parts.ctx, unit_number(uma, unit));
    } else if (event == UNIT_ON_TIMER) {
        volumes_retry(uma, unit);
    }
}

static bool has_process(enum unit_state state)
{
    return state != UNIT_ABSENT && state != UNIT_WAITING;
}

// The process that served it is gone, or does not count any more.
static void leave_process(struct uma *uma, struct unit *unit)
{
    bool has_served = unit->state == UNIT_READY;
    if (has_served && uma->now - unit->since_ns >= healthy_after_ns) {
        unit->backoff_ns = backoff_first_ns;
    } else if (has_served && unit->backoff_ns > backoff_served_ns) {
        unit->backoff_ns = backoff_served_ns; // clients wait
    }
    uma->cta->unit_lost(uma->cta_ctx, unit_number(uma, unit), uma->now);
    unit_telling_reset(unit);
    connections_lost(uma, unit);
    volumes_lost(uma, unit);
}

void unit_on_event(struct uma *uma, struct unit *unit, enum unit_event event)
{
    enum unit_state next = unit_next_state(unit->state, event);
    if (next == STAYS) {
        return;
    }
    if (next == unit->state) {
        stay(uma, unit, event);
        return;
    }
    bool is_lost = has_process(unit->state) && (next == UNIT_DYING || !has_process(next));
    if (is_lost) {
        leave_process(uma, unit);
    }
    unit->state = next;
    unit->since_ns = uma->now;
    unit->timer_ns = INSTANT_NEVER;
    enter(uma, unit);
    if (is_lost) {
        volumes_leave(uma, unit);
    }
}

/* ---- progress -------------------------------------------------------------------------------- */

void unit_on_hello(struct uma *uma, struct unit *unit, const struct unit_message *message)
{
    bool is_ours = message->version == UMA_RTA_VERSION;
    if (!is_ours) {
        unit_say(uma, unit, "is of another version of weft");
    }
    unit_on_event(uma, unit, is_ours ? UNIT_ON_HELLO : UNIT_ON_BROKEN);
}

// Volumes of a unit that was ready before must all come back before anything is sent again: a
// request to one that is missing would be refused.
static bool volumes_are_back(struct uma *uma, const struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        bool is_opening = v->state == VOLUME_OPENING || v->state == VOLUME_NEW;
        bool is_missing = v->state == VOLUME_FAILED && v->was_open;
        if (v->unit == unit_number(uma, unit) && (is_opening || is_missing)) {
            return false;
        }
    }
    return true;
}

// Is there a volume that the process is to open or to close, and could not?
static bool has_failed_volume(struct uma *uma, const struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        bool could_not = v->state == VOLUME_FAILED || v->state == VOLUME_LEAVING;
        if (v->unit == unit_number(uma, unit) && could_not) {
            return true;
        }
    }
    return false;
}

void unit_check_progress(struct uma *uma, struct unit *unit)
{
    if (unit->state == UNIT_OPENING && volumes_are_back(uma, unit)) {
        unit_on_event(uma, unit, UNIT_ON_OPENED);
    } else if (unit->state == UNIT_CONNECTING && unit->missing_count == 0) {
        unit_on_event(uma, unit, UNIT_ON_CONNECTED);
    }
    if ((unit->state == UNIT_READY || unit->state == UNIT_OPENING) &&
        unit->timer_ns == INSTANT_NEVER && has_failed_volume(uma, unit)) {
        unit->timer_ns = instant_after(uma->now, reopen_after_ns);
    }
}

// Units without volumes end.
static void unit_check_needed(struct uma *uma, struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == unit_number(uma, unit)) {
            return;
        }
    }
    unit_on_event(uma, unit, UNIT_ON_DRAIN);
}

static void units_stop(struct uma *uma)
{
    bool has_units = false;
    for (unsigned i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        if (uma->units[i].is_used) {
            unit_on_event(uma, &uma->units[i], UNIT_ON_DRAIN);
        }
        has_units |= uma->units[i].is_used;
    }
    if (!has_units && !uma->has_stopped) {
        uma->has_stopped = true;
        uma->parts.on_stopped(uma->parts.ctx);
    }
}

/* ---- what was noted -------------------------------------------------------------------------- */

static void left_volumes_leave(struct uma *uma, const struct unit *unit)
{
    uint32_t number = unit_number(uma, unit);
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == number && v->is_left) {
            v->is_left = false;
            volume_leave(uma, v);
        }
    }
}

static void unit_settle(struct uma *uma, struct unit *unit)
{
    unsigned noted = unit->noted;
    unit->noted = 0;
    if ((noted & UNIT_NOTE_BROKEN) != 0) {
        unit_on_event(uma, unit, UNIT_ON_BROKEN);
    }
    if ((noted & UNIT_NOTE_LEAVES) != 0) {
        left_volumes_leave(uma, unit);
    }
    if ((noted & UNIT_NOTE_STANDBY) != 0) {
        connections_stand_by(uma, unit);
    }
    if ((noted & UNIT_NOTE_NEEDED) != 0) {
        unit_check_needed(uma, unit);
    }
    if ((noted & UNIT_NOTE_PROGRESS) != 0) {
        unit_check_progress(uma, unit);
    }
}

void units_settle(struct uma *uma)
{
    do {
        for (struct list_link *l; (l = list_pop_head(&uma->noted)) != NULL;) {
            unit_settle(uma, LIST_ENTRY(l, struct unit, noted_link));
        }
        if (uma->is_stopping && uma->connection_count == 0) {
            units_stop(uma);
        }
    } while (!list_is_empty(&uma->noted));
}
