// The connection manager: between a client's wish and a row in both tables.

#include <string.h>

#include "base/check.h"
#include "node/uma/agent.h"

static struct connection *find(struct uma *uma, uint32_t number)
{
    struct connection *c = &uma->connections[node_connection_slot(number)];
    return c->state != CONNECTION_UNUSED && c->number == number ? c : NULL;
}

static struct unit *unit_of(struct uma *uma, const struct connection *c)
{
    return &uma->units[c->volume->unit];
}

/* ---- connecting ------------------------------------------------------------------------------ */

bool connection_may_see(void *ctx, uint32_t volume, const struct client *client)
{
    const struct volume *v = volume_by_number(ctx, volume);
    if (v == NULL) {
        return false;
    }
    for (unsigned i = 0; i < v->wish.allow_count; i++) {
        if (strcmp(v->wish.allow[i], client->identity) == 0) {
            return true;
        }
    }
    return v->wish.allow_count == 0;
}

static void answer(struct connect_request *request, enum connect_status status, uint32_t connection)
{
    request->status = status;
    request->connection = connection;
    request->tts->on_connected(request->tts_ctx, request);
}

// In turn, so that a number's slot is not used again soon.
static struct connection *take_slot(struct uma *uma)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        uint32_t number = ++uma->connection_serial;
        struct connection *c = &uma->connections[node_connection_slot(number)];
        if (c->state == CONNECTION_UNUSED && number != 0) {
            *c = (struct connection){.state = CONNECTION_ROUTING, .is_new = true, .number = number};
            uma->connection_count++;
            return c;
        }
    }
    return NULL;
}

static void slot_free(struct uma *uma, struct connection *c)
{
    struct volume *v = c->volume;
    *c = (struct connection){0};
    uma->connection_count--;
    volume_leave(uma, v);
    if (uma->is_stopping && uma->connection_count == 0) {
        units_stop(uma);
    }
}

static enum connect_status refusal(struct uma *uma, const struct connect_request *request)
{
    const struct volume *v = volume_by_number(uma, request->volume);
    if (v == NULL || v->state == VOLUME_LEAVING || v->state == VOLUME_CLOSING) {
        return CONNECT_NO_VOLUME;
    }
    if (!connection_may_see(uma, request->volume, &request->client)) {
        return CONNECT_NOT_ALLOWED;
    }
    return uma->is_stopping || !v->was_open ? CONNECT_NOT_READY : CONNECT_OK;
}

void connection_connect(void *ctx, struct connect_request *request)
{
    struct uma *uma = ctx;
    enum connect_status status = refusal(uma, request);
    struct connection *c = status == CONNECT_OK ? take_slot(uma) : NULL;
    if (c == NULL) {
        answer(request, status == CONNECT_OK ? CONNECT_TOO_MANY : status, 0);
        return;
    }
    c->volume = volume_by_number(uma, request->volume);
    c->request = request;
    c->tts = request->tts;
    c->tts_ctx = request->tts_ctx;
    struct route route = {.client = request->client,
                          .connection = c->number,
                          .volume = request->volume,
                          .unit = c->volume->unit,
                          .tts = request->service,
                          .tts_ctx = request->tts_ctx};
    uma->cta->route_add(uma->cta_ctx, &route);
}

static void add(struct uma *uma, struct connection *c)
{
    struct unit_message ask = {
        .kind = UNIT_CONNECTION_ADD, .volume = c->volume->number, .connection = c->number};
    c->state = CONNECTION_ADDING;
    unit_send(uma, unit_of(uma, c), &ask, -1);
}

void connection_on_route(void *ctx, uint32_t number, enum connect_status status)
{
    struct uma *uma = ctx;
    struct connection *c = find(uma, number);
    CHECK(c != NULL && c->state == CONNECTION_ROUTING);
    if (status != CONNECT_OK) {
        struct connect_request *request = c->request;
        slot_free(uma, c);
        answer(request, status, 0);
        return;
    }
    c->state = CONNECTION_ROUTED;
    enum unit_state state = unit_of(uma, c)->state;
    if (state == UNIT_READY || state == UNIT_CONNECTING) {
        add(uma, c);
    }
}

static void refused_by_unit(struct uma *uma, struct connection *c)
{
    struct connect_request *request = c->request;
    uma->cta->route_remove(uma->cta_ctx, c->number);
    slot_free(uma, c);
    answer(request, CONNECT_REFUSED, 0);
}

void connection_on_added(struct uma *uma, const struct unit_message *said)
{
    struct connection *c = find(uma, said->connection);
    if (c == NULL || c->state != CONNECTION_ADDING) {
        return;
    }
    struct unit *unit = unit_of(uma, c);
    if (said->error != 0 && !c->is_new) {
        unit_say(uma, unit, "would not have a connection that its predecessor had");
        unit_on_event(uma, unit, UNIT_ON_BROKEN);
        return;
    }
    if (said->error != 0) {
        refused_by_unit(uma, c);
        unit_check_progress(uma, unit);
        return;
    }
    c->state = CONNECTION_OPEN;
    if (c->is_new) {
        c->is_new = false;
        struct connect_request *request = c->request;
        c->request = NULL;
        answer(request, CONNECT_OK, c->number);
    }
    if (c->state == CONNECTION_OPEN && c->volume->state == VOLUME_LEAVING) {
        connections_drop(uma, c->volume); // it came while the volume was going
    }
    unit_check_progress(uma, unit);
}

/* ---- disconnecting --------------------------------------------------------------------------- */

void connection_disconnect(void *ctx, uint32_t number)
{
    struct uma *uma = ctx;
    struct connection *c = find(uma, number);
    CHECK(c != NULL && !c->is_new);
    uma->cta->route_remove(uma->cta_ctx, number);
    if (c->state != CONNECTION_OPEN) { // its unit's process does not know it, or is being told
        bool is_told = c->state == CONNECTION_ADDING;
        c->state = CONNECTION_REMOVING;
        if (!is_told) {
            slot_free(uma, c);
            return;
        }
    }
    c->state = CONNECTION_REMOVING;
    unit_send(uma, unit_of(uma, c),
              &(struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = number}, -1);
}

void connection_on_removed(struct uma *uma, const struct unit_message *said)
{
    struct connection *c = find(uma, said->connection);
    if (c != NULL && c->state == CONNECTION_REMOVING) {
        slot_free(uma, c);
    }
}

void connections_fail(struct uma *uma)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        if (uma->connections[i].state == CONNECTION_OPEN) {
            uma->cta->route_fail(uma->cta_ctx, uma->connections[i].number, uma->now);
        }
    }
}

void connections_drop(struct uma *uma, const struct volume *volume)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct connection *c = &uma->connections[i];
        bool is_open =
            c->state == CONNECTION_OPEN ||
            (c->state != CONNECTION_UNUSED && c->state != CONNECTION_REMOVING && !c->is_new);
        if (is_open && c->volume == volume && !c->is_dropped) {
            c->is_dropped = true;
            uma->cta->route_fail(uma->cta_ctx, c->number, uma->now);
            c->tts->drop(c->tts_ctx, c->number);
        }
    }
}

/* ---- a unit's process comes and goes --------------------------------------------------------- */

void connections_add_all(struct uma *uma, struct unit *unit)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct connection *c = &uma->connections[i];
        if (c->state == CONNECTION_ROUTED && unit_of(uma, c) == unit) {
            add(uma, c);
        }
    }
}

void connections_lost(struct uma *uma, struct unit *unit)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct connection *c = &uma->connections[i];
        if (c->state == CONNECTION_UNUSED || unit_of(uma, c) != unit) {
            continue;
        }
        if (c->state == CONNECTION_REMOVING) {
            slot_free(uma, c);
        } else if (c->state != CONNECTION_ROUTING) {
            c->state = CONNECTION_ROUTED;
        }
    }
}

bool connections_are_added(const struct uma *uma, const struct unit *unit)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        const struct connection *c = &uma->connections[i];
        bool is_missing = c->state == CONNECTION_ROUTED || c->state == CONNECTION_ADDING;
        if (is_missing && &uma->units[c->volume->unit] == unit) {
            return false;
        }
    }
    return true;
}

unsigned connections_of(const struct uma *uma, const struct volume *volume)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        const struct connection *c = &uma->connections[i];
        count += c->state != CONNECTION_UNUSED && (volume == NULL || c->volume == volume);
    }
    return count;
}
