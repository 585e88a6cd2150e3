// The connection manager: between a client's wish and a row in both tables.

#include <string.h>

#include "base/check.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
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

// Has the unit no process that knows it, and is the next one to?
static bool is_missing(const struct connection *c)
{
    return (c->state == CONNECTION_ROUTED || c->state == CONNECTION_ADDING) && !c->is_dropped;
}

static void set_state(struct uma *uma, struct connection *c, enum connection_state state)
{
    struct unit *unit = unit_of(uma, c);
    unit->missing_count -= is_missing(c);
    c->state = state;
    unit->missing_count += is_missing(c);
}

// Its volume goes.
static void set_dropped(struct uma *uma, struct connection *c)
{
    unit_of(uma, c)->missing_count -= is_missing(c);
    c->is_dropped = true;
}

/* ---- connecting ------------------------------------------------------------------------------ */

bool volume_is_by(const struct volume *v, const char *service)
{
    for (unsigned i = 0; i < v->wish.service_count; i++) {
        if (strcmp(v->wish.services[i], service) == 0) {
            return true;
        }
    }
    return v->wish.service_count == 0;
}

bool connection_may_see(void *ctx, uint32_t volume, const struct client *client)
{
    const struct volume *v = volume_by_number(ctx, volume);
    if (v == NULL || !volume_is_by(v, client->service)) {
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
            list_init(&c->unsaid);
            uma->connection_count++;
            return c;
        }
    }
    return NULL;
}

static void slot_free(struct uma *uma, struct connection *c)
{
    set_state(uma, c, CONNECTION_UNUSED);
    if (c->volume->state == VOLUME_LEAVING) {
        c->volume->is_left = true;
        unit_note(uma, unit_of(uma, c), UNIT_NOTE_LEAVES);
    }
    list_remove(&c->unsaid);
    *c = (struct connection){0};
    list_init(&c->unsaid);
    uma->connection_count--;
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
    struct client_route route = {.client = request->client,
                                 .connection = c->number,
                                 .volume = request->volume,
                                 .unit = c->volume->unit,
                                 .reservation = c->volume->reservation,
                                 .tts = request->service,
                                 .tts_ctx = request->tts_ctx};
    uma->cta->rate_set(uma->cta_ctx, request->volume, &c->volume->wish.rate);
    if (c->volume->wish.may_stand_by) {
        uma->cta->standby_set(uma->cta_ctx, request->volume, volume_stands_by(uma, c->volume),
                              uma->now);
    }
    uma->cta->route_add(uma->cta_ctx, &route);
}

static void add(struct uma *uma, struct connection *c)
{
    set_state(uma, c, CONNECTION_ADDING);
    unit_tell_connection(uma, unit_of(uma, c), c);
}

static void refuse(struct uma *uma, struct connection *c, enum connect_status status)
{
    struct connect_request *request = c->request;
    slot_free(uma, c);
    answer(request, status, 0);
}

static void refuse_routed(struct uma *uma, struct connection *c, enum connect_status status)
{
    uma->cta->route_remove(uma->cta_ctx, c->number);
    refuse(uma, c, status);
}

static void admit(struct connection *c)
{
    struct connect_request *request = c->request;
    c->is_new = false;
    c->request = NULL;
    answer(request, CONNECT_OK, c->number);
}

void connection_on_route(void *ctx, uint32_t number, enum connect_status status)
{
    struct uma *uma = ctx;
    struct connection *c = find(uma, number);
    CHECK(c != NULL && c->state == CONNECTION_ROUTING);
    if (status != CONNECT_OK) {
        refuse(uma, c, status);
        return;
    }
    if (c->volume->state == VOLUME_LEAVING) { // it came while the volume was going
        refuse_routed(uma, c, CONNECT_NO_VOLUME);
        return;
    }
    set_state(uma, c, CONNECTION_ROUTED);
    enum unit_state state = unit_of(uma, c)->state;
    if (state == UNIT_READY || state == UNIT_CONNECTING) {
        add(uma, c);
    } else if (volume_stands_by(uma, c->volume)) {
        admit(c);
    }
}

void connections_stand_by(struct uma *uma, const struct unit *unit)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct connection *c = &uma->connections[i];
        bool waits = c->state == CONNECTION_ROUTED && c->is_new;
        if (waits && unit_of(uma, c) == unit && volume_stands_by(uma, c->volume)) {
            admit(c);
        }
    }
}

// A process answers for the connections of its own unit, once each: whatever else it says of any.
static struct connection *answered(struct uma *uma, struct unit *unit,
                                   const struct unit_message *said)
{
    struct connection *c = find(uma, said->connection);
    if (c == NULL || unit_of(uma, c) != unit) {
        unit_say(uma, unit, "answered for a connection that is not its");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
        return NULL;
    }
    return c;
}

void connection_on_added(struct uma *uma, struct unit *unit, const struct unit_message *said)
{
    struct connection *c = answered(uma, unit, said);
    if (c == NULL || c->state != CONNECTION_ADDING || !list_is_empty(&c->unsaid)) {
        return;
    }
    if (said->error != 0 && !c->is_new) {
        unit_say(uma, unit, "would not have a connection that its predecessor had");
        unit_note(uma, unit, UNIT_NOTE_BROKEN);
        return;
    }
    if (said->error != 0) {
        refuse_routed(uma, c, CONNECT_REFUSED);
        unit_note(uma, unit, UNIT_NOTE_PROGRESS);
        return;
    }
    set_state(uma, c, CONNECTION_OPEN);
    if (c->is_new) {
        admit(c);
    }
    if (c->state == CONNECTION_OPEN && c->volume->state == VOLUME_LEAVING) {
        connections_drop(uma, c->volume); // it came while the volume was going
    }
    unit_note(uma, unit, UNIT_NOTE_PROGRESS);
}

/* ---- disconnecting --------------------------------------------------------------------------- */

void connection_disconnect(void *ctx, uint32_t number)
{
    struct uma *uma = ctx;
    struct connection *c = find(uma, number);
    CHECK(c != NULL && !c->is_new);
    struct unit *unit = unit_of(uma, c);
    bool is_told =
        c->state == CONNECTION_OPEN || (c->state == CONNECTION_ADDING && list_is_empty(&c->unsaid));
    uma->cta->route_remove(uma->cta_ctx, number);
    if (is_told) {
        set_state(uma, c, CONNECTION_REMOVING);
        unit_tell_connection(uma, unit, c);
    } else {
        slot_free(uma, c);
    }
    unit_note(uma, unit, UNIT_NOTE_PROGRESS); // the others may have waited for it
}

void connection_on_removed(struct uma *uma, struct unit *unit, const struct unit_message *said)
{
    struct connection *c = answered(uma, unit, said);
    if (c != NULL && c->state == CONNECTION_REMOVING && list_is_empty(&c->unsaid)) {
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
        if (c->volume == volume && c->is_new && c->state == CONNECTION_ROUTED) {
            refuse_routed(uma, c, CONNECT_NO_VOLUME);
        } else if (is_open && c->volume == volume && !c->is_dropped) {
            set_dropped(uma, c);
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
        if (c->state == CONNECTION_ROUTED && !c->is_dropped && unit_of(uma, c) == unit) {
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
        } else if (c->is_new && c->volume->state == VOLUME_LEAVING) {
            refuse_routed(uma, c, CONNECT_NO_VOLUME);
        } else if (c->state != CONNECTION_ROUTING) {
            set_state(uma, c, CONNECTION_ROUTED);
        }
    }
}
