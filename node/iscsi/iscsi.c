// iSCSI: the target, whose sessions come over any carrier; what of them the UMA hears of.

#include "node/iscsi/iscsi.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/interface/reservation.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/keys.h"
#include "node/scsi/device.h"

/* ---- connections ----------------------------------------------------------------------------- */

bool iscsi_connection_init(struct iscsi_connection *c, struct iscsi_door *door)
{
    c->door = door;
    c->iscsi = door->iscsi;
    c->parameters = iscsi_parameters_default;
    c->parameters.has_immediate_data &= !door->carrier->is_oneshot;
    list_init(&c->outs);
    list_init(&c->free);
    list_init(&c->free_controls);
    list_init(&c->units);
    list_push_tail(&c->iscsi->connections, &c->link);
    c->controls = calloc(ISCSI_CONTROL_COUNT, sizeof c->controls[0]);
    for (unsigned i = 0; c->controls != NULL && i < ISCSI_CONTROL_COUNT; i++) {
        list_push_tail(&c->free_controls, &c->controls[i].out.link);
        c->free_control_count++;
    }
    return c->controls != NULL;
}

bool iscsi_connection_is_over(struct iscsi_connection *c)
{
    bool is_over = c->task_count == 0 && iscsi_units_end(c);
    if (is_over) {
        list_remove(&c->link);
        iscsi_logins_go_on(c->iscsi);
    }
    return is_over;
}

void iscsi_connection_fini(struct iscsi_connection *c)
{
    for (unsigned i = 0; c->tasks != NULL && i < ISCSI_TASK_COUNT; i++) {
        free(c->tasks[i].stream.staged);
        free(c->tasks[i].is_used ? c->tasks[i].scsi.scratch : NULL);
    }
    for (unsigned i = 0; c->controls != NULL && i < ISCSI_CONTROL_COUNT; i++) {
        free(c->controls[i].data);
    }
    iscsi_units_fini(c);
    list_remove(&c->link);
    free(c->tasks);
    free(c->controls);
    free(c->request);
    free(c->answer);
}

// The target drops all connections of the session (RFC 7143 section 11.9), and when again.
void iscsi_say_goodbye(struct iscsi_connection *c)
{
    uint8_t *head = c->state == ISCSI_OPEN ? iscsi_control_put(c, ISCSI_ASYNC_MESSAGE, ISCSI_FINAL,
                                                               ISCSI_NO_TAG, NULL, 0)
                                           : NULL;
    if (head != NULL) {
        head[ISCSI_ASYNC_OFF_EVENT] = ISCSI_ASYNC_DROPS_ALL;
        put_be16(head + ISCSI_ASYNC_OFF_PARAMETERS + 2, (uint16_t)c->parameters.time_to_wait);
    }
    iscsi_leave(c);
}

void iscsi_target_end(struct iscsi_connection *c)
{
    const struct list_link *all = &c->iscsi->connections;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *other = LIST_ENTRY(l, struct iscsi_connection, link);
        if (iscsi_is_session(other) && strcmp(other->login.target, c->login.target) == 0) {
            iscsi_say_goodbye(other);
        }
    }
}

/* ---- what the UMA calls of any of them ------------------------------------------------------- */

void iscsi_door_advertise(void *ctx, const struct resource_table *table)
{
    struct iscsi_door *door = ctx;
    const struct list_link *all = &door->iscsi->connections;
    scsi_target_advertise(door->iscsi->target, table);
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        if (c->door == door && c->state == ISCSI_OPEN && !c->login.is_discovery) {
            iscsi_units_look(c, table);
        }
    }
}

void iscsi_door_on_connected(void *ctx, struct connect_request *request)
{
    struct iscsi_unit *unit = LIST_ENTRY(request, struct iscsi_unit, connect);
    struct iscsi_connection *c = unit->session;
    iscsi_unit_on_connected(unit);
    if (c->state == ISCSI_CONNECTING && !iscsi_has_unit(c, ISCSI_UNIT_ASKED)) {
        iscsi_answer_connect(c);
    }
    iscsi_touch(c);
}

static struct iscsi_unit *unit_find(const struct iscsi_door *door, uint32_t connection)
{
    const struct list_link *all = &door->iscsi->connections;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        for (struct list_link *u = c->units.next; u != &c->units; u = u->next) {
            struct iscsi_unit *unit = LIST_ENTRY(u, struct iscsi_unit, link);
            if (unit->state != ISCSI_UNIT_ASKED && unit->connect.connection == connection) {
                return unit;
            }
        }
    }
    return NULL;
}

void iscsi_door_drop(void *ctx, uint32_t connection)
{
    struct iscsi_unit *unit = unit_find(ctx, connection);
    if (unit != NULL && iscsi_unit_leave(unit)) {
        iscsi_say_goodbye(unit->session);
    }
}

void iscsi_door_stop(struct iscsi_door *door)
{
    const struct list_link *all = &door->iscsi->connections;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        if (c->door == door) {
            iscsi_say_goodbye(c);
        }
    }
}

static void on_reservation(void *ctx, uint32_t connection, enum reservation_event event,
                           instant_ns now)
{
    const struct iscsi_door *door = ctx;
    scsi_target_on_reservation(door->iscsi->target, connection, event, now);
}

/* ---- its life -------------------------------------------------------------------------------- */

struct iscsi *iscsi_create(const struct iscsi_parts *parts)
{
    struct iscsi *iscsi = calloc(1, sizeof *iscsi);
    struct scsi_target *target = scsi_target_create(
        &(struct scsi_target_parts){.cta = parts->cta, .cta_ctx = parts->cta_ctx});
    if (iscsi == NULL || target == NULL) {
        free(iscsi);
        scsi_target_destroy(target);
        return NULL;
    }
    iscsi->parts = *parts;
    iscsi->target = target;
    iscsi->for_cta = scsi_for_cta;
    iscsi->for_cta.on_reservation = on_reservation;
    list_init(&iscsi->connections);
    return iscsi;
}

void iscsi_destroy(struct iscsi *iscsi)
{
    if (iscsi != NULL) {
        scsi_target_destroy(iscsi->target);
        free(iscsi);
    }
}

void iscsi_door_figures(const struct iscsi_door *door, tts_figure *figure, void *figure_ctx)
{
    const struct iscsi_counters *c = &door->counters;
    struct scsi_device_counters device = scsi_target_counters(door->iscsi->target);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c->name);
    ISCSI_DOOR_COUNTERS(X)
#undef X
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, device.name);
    SCSI_DEVICE_COUNTERS(X)
#undef X
}
