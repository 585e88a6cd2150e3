// What the process of a unit is to be told, as fast as it reads. Nothing is queued: who has
// something to say stands in a list of its unit, at most once, and what is to be said follows from
// the state in which its turn finds it. So there is room for whatever there is to say, and a socket
// that is full is waited for.

#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "node/interface/uma_rta.h"
#include "node/interface/volume.h"
#include "node/uma/agent.h"

// A process that takes nothing for so long while there is something to say is no use. One that
// opens a device may wait for its predecessor's I/O meanwhile, and is left in peace.
static const duration_ns hear_within_ns = 20 * NS_PER_S;

static struct unit_message volume_message(const struct volume *v)
{
    struct unit_message ask = {.kind = UNIT_PROBE, .volume = v->number};
    if (v->state == VOLUME_CLOSING) {
        ask.kind = UNIT_CLOSE;
    } else if (v->state == VOLUME_OPENING) {
        ask.kind = UNIT_OPEN;
        ask.is_restart = v->was_open;
        ask.read_only = v->wish.read_only;
        ask.is_only = v->wish.is_alone;
        ask.may_stand_by = v->wish.may_stand_by;
        snprintf(ask.uri, sizeof ask.uri, "%s", v->wish.uri);
        snprintf(ask.pin, sizeof ask.pin, "%s", v->was_open ? volume_profile_pin(&v->profile) : "");
    }
    return ask;
}

static struct unit_message connection_message(const struct connection *c)
{
    bool is_new = c->state == CONNECTION_ADDING;
    return (struct unit_message){.kind = is_new ? UNIT_CONNECTION_ADD : UNIT_CONNECTION_REMOVE,
                                 .volume = is_new ? c->volume->number : 0,
                                 .connection = c->number};
}

// False: the socket is full.
static bool say(struct uma *uma, struct unit *unit, struct unit_message message, int keepsake)
{
    int error = uma->parts.send(uma->parts.ctx, unit_number(uma, unit), &message, keepsake);
    unit->is_blocked = error == -EAGAIN;
    if (unit->is_blocked) {
        unit->hear_by_ns = instant_after(uma->now, hear_within_ns);
    }
    return !unit->is_blocked;
}

static bool volumes_say(struct uma *uma, struct unit *unit)
{
    while (!list_is_empty(&unit->unsaid_volumes)) {
        struct volume *v = LIST_ENTRY(unit->unsaid_volumes.next, struct volume, unsaid);
        int keepsake = v->state == VOLUME_OPENING ? v->keepsake : -1;
        if (!say(uma, unit, volume_message(v), keepsake)) {
            return false;
        }
        list_remove(&v->unsaid);
    }
    return true;
}

static bool connections_say(struct uma *uma, struct unit *unit)
{
    while (!list_is_empty(&unit->unsaid_connections)) {
        struct connection *c = LIST_ENTRY(unit->unsaid_connections.next, struct connection, unsaid);
        if (!say(uma, unit, connection_message(c), -1)) {
            return false;
        }
        list_remove(&c->unsaid);
    }
    return true;
}

static bool flag_say(struct uma *uma, struct unit *unit, bool *is_unsaid,
                     enum unit_message_kind kind)
{
    if (*is_unsaid && !say(uma, unit, (struct unit_message){.kind = kind}, -1)) {
        return false;
    }
    *is_unsaid = false;
    return true;
}

// What is left waits for unit_on_writable.
static void tell(struct uma *uma, struct unit *unit)
{
    bool all = !unit->is_blocked && volumes_say(uma, unit) && connections_say(uma, unit) &&
               flag_say(uma, unit, &unit->is_status_unsaid, UNIT_STATUS) &&
               flag_say(uma, unit, &unit->is_yield_unsaid, UNIT_YIELD);
    if (all) {
        flag_say(uma, unit, &unit->is_drain_unsaid, UNIT_DRAIN);
    }
}

void unit_tell_volume(struct uma *uma, struct unit *unit, struct volume *volume)
{
    list_remove(&volume->unsaid);
    list_push_tail(&unit->unsaid_volumes, &volume->unsaid);
    tell(uma, unit);
}

void unit_tell_connection(struct uma *uma, struct unit *unit, struct connection *connection)
{
    list_remove(&connection->unsaid);
    list_push_tail(&unit->unsaid_connections, &connection->unsaid);
    tell(uma, unit);
}

void unit_tell_status(struct uma *uma, struct unit *unit)
{
    unit->is_status_unsaid = true;
    tell(uma, unit);
}

void unit_tell_drain(struct uma *uma, struct unit *unit)
{
    unit->is_drain_unsaid = true;
    tell(uma, unit);
}

void unit_tell_yield(struct uma *uma, struct unit *unit)
{
    unit->is_yield_unsaid = true;
    tell(uma, unit);
}

void unit_on_writable(struct uma *uma, struct unit *unit)
{
    unit->is_blocked = false;
    unit->hear_by_ns = INSTANT_NEVER;
    tell(uma, unit);
}

static bool is_opening(struct uma *uma, const struct unit *unit)
{
    for (struct volume *v = NULL; (v = volume_next(uma, v)) != NULL;) {
        if (v->unit == unit_number(uma, unit) && v->state == VOLUME_OPENING) {
            return true;
        }
    }
    return false;
}

bool unit_is_deaf(struct uma *uma, struct unit *unit)
{
    bool is_excused = is_opening(uma, unit);
    unit->hear_by_ns = is_excused ? instant_after(uma->now, hear_within_ns) : INSTANT_NEVER;
    return !is_excused;
}

void unit_telling_reset(struct unit *unit)
{
    while (list_pop_head(&unit->unsaid_volumes) != NULL) {
    }
    while (list_pop_head(&unit->unsaid_connections) != NULL) {
    }
    unit->is_status_unsaid = unit->is_drain_unsaid = unit->is_yield_unsaid = false;
    unit->is_blocked = false;
    unit->hear_by_ns = INSTANT_NEVER;
}
