// What stands in the UMA's tables, for whoever looks: volumes, units, TTSs.

#include <stdio.h>
#include <string.h>

#include "base/why.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/uma/agent.h"

uint32_t unit_number(const struct uma *uma, const struct unit *unit)
{
    return (uint32_t)(unit - uma->units);
}

void descriptor_drop(struct uma *uma, int *fd)
{
    if (*fd >= 0) {
        uma->parts.close_keepsake(uma->parts.ctx, *fd);
    }
    *fd = -1;
}

void unit_say(struct uma *uma, struct unit *unit, const char *what)
{
    char line[WHY_MAX + VOLUME_NAME_MAX + 32];
    if (unit->state != UNIT_DYING) { // else it is known why it was killed
        why_say(&unit->why, "%s", what);
    }
    snprintf(line, sizeof line, "RTA %s: %s", unit->name, what);
    uma->parts.say(uma->parts.ctx, line);
}

struct volume *volume_next(struct uma *uma, const struct volume *volume)
{
    size_t i = volume == NULL ? 0 : (size_t)(volume - uma->volumes) + 1;
    while (i < NODE_VOLUME_COUNT_MAX && uma->volumes[i].state == VOLUME_UNUSED) {
        i++;
    }
    return i < NODE_VOLUME_COUNT_MAX ? &uma->volumes[i] : NULL;
}

struct volume *volume_by_number(struct uma *uma, uint32_t number)
{
    struct volume *v = NULL;
    while ((v = volume_next(uma, v)) != NULL && v->number != number) {
    }
    return v;
}

struct volume *volume_by_name(struct uma *uma, const char *name)
{
    struct volume *v = NULL;
    while ((v = volume_next(uma, v)) != NULL && strcmp(v->wish.name, name) != 0) {
    }
    return v;
}

bool volume_stands_by(const struct uma *uma, const struct volume *v)
{
    bool is_ours = v->state == VOLUME_OPEN && uma->units[v->unit].state == UNIT_READY;
    return v->wish.may_stand_by && !is_ours;
}

unsigned connections_of(const struct uma *uma, const struct volume *volume)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        const struct connection *c = &uma->connections[i];
        count += c->state != CONNECTION_UNUSED && c->volume == volume;
    }
    return count;
}

void unit_note(struct uma *uma, struct unit *unit, enum unit_note note)
{
    if (unit->is_used) {
        unit->noted |= note;
        list_remove(&unit->noted_link);
        list_push_tail(&uma->noted, &unit->noted_link);
    }
}

bool uma_has_started(const struct uma *uma)
{
    for (unsigned i = 0; i < uma->tts_count; i++) {
        if (!uma->ttss[i].has_started) {
            return false;
        }
    }
    return uma->is_started;
}
