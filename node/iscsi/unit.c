// iSCSI: the logical units of a session. Each is a connection of the UMA's and a nexus of the
// device's.
//
//     ASKED ─yes─▶ OPEN ─its volume goes─▶ LEAVING ─its commands have ended─▶ (none)
//       └─no──▶ (none)

#include <stdlib.h>

#include "base/list.h"
#include "base/time.h"
#include "node/interface/cta_tts.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/scsi/device.h"

static const struct resource_table *resources(const struct iscsi_connection *c)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    return parts->uma->resources(parts->uma_ctx);
}

static struct iscsi_unit *unit_of(struct list_link *l)
{
    return LIST_ENTRY(l, struct iscsi_unit, link);
}

static struct iscsi_unit *unit_create(struct iscsi_connection *c, const struct resource *row)
{
    struct iscsi_unit *unit = calloc(1, sizeof *unit);
    if (unit == NULL) {
        return NULL;
    }
    unit->session = c;
    unit->connect = (struct connect_request){.client = c->client,
                                             .volume = row->volume,
                                             .tts = c->door->carrier->tts,
                                             .service = &c->iscsi->for_cta,
                                             .tts_ctx = c->door};
    list_push_tail(&c->units, &unit->link);
    return unit;
}

static void unit_destroy(struct iscsi_unit *unit)
{
    list_remove(&unit->link);
    free(unit);
}

bool iscsi_has_unit(const struct iscsi_connection *c, enum iscsi_unit_state state)
{
    for (struct list_link *l = c->units.next; l != &c->units; l = l->next) {
        if (unit_of(l)->state == state) {
            return true;
        }
    }
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void unit_ask(struct iscsi_connection *c, const struct resource *row)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    struct iscsi_unit *unit = unit_create(c, row);
    if (unit == NULL) {
        c->refusal = CONNECT_TOO_MANY;
        return;
    }
    parts->uma->connect(parts->uma_ctx, &unit->connect); // which may answer at once
}

enum connect_status iscsi_units_connect(struct iscsi_connection *c)
{
    const struct resource_table *table = resources(c);
    c->refusal = CONNECT_NO_VOLUME;
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        if (!iscsi_is_of(row, c->login.target) || !resource_is_there(row)) {
            continue;
        }
        if (iscsi_may_see(c, row)) {
            unit_ask(c, row);
        } else {
            c->refusal = CONNECT_NOT_ALLOWED;
        }
    }
    return list_is_empty(&c->units) ? c->refusal : CONNECT_OK;
}

static bool has_volume(const struct iscsi_connection *c, uint32_t volume)
{
    for (struct list_link *l = c->units.next; l != &c->units; l = l->next) {
        if (unit_of(l)->connect.volume == volume) {
            return true;
        }
    }
    return false;
}

// The volume of a target that is its own goes with the session, so that none can follow it.
void iscsi_units_look(struct iscsi_connection *c, const struct resource_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        bool is_possible = row->places[VOLUME_IN_TARGET].group[0] != '\0' && iscsi_may_see(c, row);
        if (is_possible && iscsi_is_of(row, c->login.target) && !has_volume(c, row->volume)) {
            unit_ask(c, row);
        }
    }
}

/* ---- answered -------------------------------------------------------------------------------- */

// There is no memory for the nexus, or the volume has gone meanwhile: it has one no longer.
static void unit_open(struct iscsi_unit *unit)
{
    struct iscsi_connection *c = unit->session;
    const struct resource *row = resource_by_volume(resources(c), unit->connect.volume);
    unit->nexus.it = &c->it;
    unit->nexus.connection = unit->connect.connection;
    unit->nexus.lun = row != NULL ? iscsi_lun(row) : 0;
    bool is_open = row != NULL && nexus_begin(&unit->nexus, row);
    unit->state = is_open ? ISCSI_UNIT_OPEN : ISCSI_UNIT_LEAVING;
}

void iscsi_unit_on_connected(struct iscsi_unit *unit)
{
    struct iscsi_connection *c = unit->session;
    enum connect_status status = unit->connect.status;
    if (status == CONNECT_OK) {
        unit_open(unit);
        return;
    }
    unit_destroy(unit);
    c->refusal = status;
    if (c->state == ISCSI_OPEN) { // else its login is
        iscsi_say(c, iscsi_refusal_of(status)->why);
    }
}

/* ---- their end ------------------------------------------------------------------------------- */

static void unit_leave(struct iscsi_unit *unit)
{
    if (unit->state == ISCSI_UNIT_OPEN) {
        unit->state = ISCSI_UNIT_LEAVING;
        nexus_leave(&unit->nexus);
    }
}

bool iscsi_unit_leave(struct iscsi_unit *unit)
{
    unit_leave(unit);
    iscsi_touch(unit->session);
    return !iscsi_has_unit(unit->session, ISCSI_UNIT_OPEN);
}

static void unit_end(struct iscsi_unit *unit)
{
    const struct iscsi_parts *parts = &unit->session->iscsi->parts;
    uint32_t connection = unit->connect.connection;
    if (unit->nexus.unit != NULL) {
        nexus_end(&unit->nexus);
    }
    unit_destroy(unit);
    parts->uma->disconnect(parts->uma_ctx, connection);
}

void iscsi_units_settle(struct iscsi_connection *c)
{
    struct list_link *next;
    for (struct list_link *l = c->units.next; l != &c->units; l = next) {
        struct iscsi_unit *unit = unit_of(l);
        next = l->next;
        if (unit->state == ISCSI_UNIT_LEAVING && unit->task_count == 0) {
            unit_end(unit);
        }
    }
}

void iscsi_units_abandon(struct iscsi_connection *c, instant_ns now)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    for (struct list_link *l = c->units.next; l != &c->units; l = l->next) {
        if (unit_of(l)->state != ISCSI_UNIT_ASKED) {
            parts->cta->leave(parts->cta_ctx, unit_of(l)->connect.connection, now);
        }
    }
}

bool iscsi_units_end(struct iscsi_connection *c)
{
    if (iscsi_has_unit(c, ISCSI_UNIT_ASKED)) {
        return false;
    }
    for (struct list_link *l = c->units.next; l != &c->units; l = l->next) {
        unit_leave(unit_of(l));
    }
    iscsi_units_settle(c);
    return true;
}

void iscsi_units_fini(struct iscsi_connection *c)
{
    for (struct list_link *l; (l = list_pop_head(&c->units)) != NULL;) {
        struct iscsi_unit *unit = unit_of(l);
        if (unit->nexus.unit != NULL) {
            list_remove(&unit->nexus.link);
        }
        free(unit);
    }
}
