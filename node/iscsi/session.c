// iSCSI: targets, and what is told of a connection's session; what all phases of it need.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "format/iscsi_pdu.h"
#include "format/iscsi_text.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "text/show.h"

enum { LINE_MAX = 768, NAME_SHOWN_MAX = 256 };

/* ---- targets --------------------------------------------------------------------------------- */

void iscsi_name(const struct resource *row, char ret[ISCSI_NAME_MAX])
{
    const char *group = row->places[VOLUME_IN_TARGET].group;
    char uuid[TEXT_UUID_MAX];
    if (group[0] != '\0') {
        snprintf(ret, ISCSI_NAME_MAX, "%s", group);
        return;
    }
    snprintf(ret, ISCSI_NAME_MAX, "iqn.2026-11.invalid.weft:uuid:%s",
             text_uuid(row->identity.uuid, uuid));
}

uint32_t iscsi_lun(const struct resource *row)
{
    return row->places[VOLUME_IN_TARGET].member - 1; // members count from 1
}

bool iscsi_is_of(const struct resource *row, const char *target)
{
    char name[ISCSI_NAME_MAX];
    iscsi_name(row, name);
    return strcmp(name, target) == 0;
}

bool iscsi_may_see(const struct iscsi_connection *c, const struct resource *row)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    return resource_is_there(row) && parts->uma->may_see(parts->uma_ctx, row->volume, &c->client);
}

const struct iscsi_refusal *iscsi_refusal_of(enum connect_status status)
{
    static const struct iscsi_refusal refusals[CONNECT_STATUS_COUNT] = {
        [CONNECT_NO_VOLUME] = {ISCSI_TARGET_NOT_FOUND, "there is no such target"},
        [CONNECT_NOT_ALLOWED] = {ISCSI_AUTHORIZATION_FAILURE, "it may not use the volume"},
        [CONNECT_NOT_READY] = {ISCSI_SERVICE_UNAVAILABLE, "the volume is not ready"},
        [CONNECT_TOO_MANY] = {ISCSI_OUT_OF_RESOURCES, "there are too many connections"},
        [CONNECT_REFUSED] = {ISCSI_TARGET_ERROR, "the device would not have it"},
    };
    return &refusals[status];
}

/* ---- connections ----------------------------------------------------------------------------- */

void iscsi_say(const struct iscsi_connection *c, const char *what)
{
    const struct iscsi_parts *parts = &c->iscsi->parts;
    char line[LINE_MAX], name[NAME_SHOWN_MAX];
    snprintf(line, sizeof line, "%s: initiator %s at %s is refused: %s", c->door->carrier->name,
             c->login.has_name ? text_quote(c->login.initiator, name, sizeof name) : "(no name)",
             c->client.address, what);
    parts->say(parts->ctx, c->client.host, line);
}

void iscsi_leave(struct iscsi_connection *c)
{
    if (c->state < ISCSI_LEAVING) {
        c->state = ISCSI_LEAVING;
    }
    iscsi_touch(c);
}

enum iscsi_verdict iscsi_malformed(struct iscsi_connection *c)
{
    c->door->counters.malformed++;
    return ISCSI_LEAVES;
}

bool iscsi_tasks_init(struct iscsi_connection *c)
{
    c->tasks = calloc(ISCSI_TASK_COUNT, sizeof c->tasks[0]);
    for (unsigned i = 0; c->tasks != NULL && i < ISCSI_TASK_COUNT; i++) {
        c->tasks[i].connection = c;
        list_push_tail(&c->free, &c->tasks[i].link);
    }
    return c->tasks != NULL;
}

bool iscsi_request_append(struct iscsi_connection *c, const uint8_t *data, uint32_t len)
{
    c->request = c->request != NULL ? c->request : malloc(ISCSI_TEXT_MAX);
    if (c->request == NULL || len > ISCSI_TEXT_MAX - c->request_len) {
        return false;
    }
    memcpy(c->request + c->request_len, data, len);
    c->request_len += len;
    return true;
}

bool iscsi_is_session(const struct iscsi_connection *c)
{
    return c->state == ISCSI_REINSTATING || !list_is_empty(&c->units);
}

bool iscsi_is_there(const struct iscsi *iscsi, const uint8_t isid[ISCSI_ISID_LEN], uint16_t tsih)
{
    const struct list_link *all = &iscsi->connections;
    for (const struct list_link *l = all->next; l != all; l = l->next) {
        const struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        if (c->state == ISCSI_OPEN && c->tsih == tsih &&
            memcmp(c->login.isid, isid, ISCSI_ISID_LEN) == 0) {
            return true;
        }
    }
    return false;
}

// RFC 7143 section 6.3.5: the tasks of the former session have ended before there is a new one, or
// what it wrote last could come after what is written then.
bool iscsi_reinstate(struct iscsi_connection *c)
{
    const struct list_link *all = &c->iscsi->connections;
    bool waits = false;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *other = LIST_ENTRY(l, struct iscsi_connection, link);
        bool is_same = other != c && iscsi_is_session(other) &&
                       memcmp(other->login.isid, c->login.isid, ISCSI_ISID_LEN) == 0 &&
                       strcmp(other->login.initiator, c->login.initiator) == 0 &&
                       strcmp(other->login.target, c->login.target) == 0;
        if (is_same && other->state < ISCSI_LEAVING) {
            iscsi_leave(other);
        }
        waits |= is_same;
    }
    return waits;
}
