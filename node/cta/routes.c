// The connection manager of the CTA and its routing table.

#include <string.h>

#include "base/check.h"
#include "node/cta/agent.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"

static struct cta_route *slot(struct cta *cta, uint32_t connection)
{
    return &cta->routes[node_connection_slot(connection)];
}

struct cta_route *routes_find(struct cta *cta, uint32_t connection)
{
    struct cta_route *r = slot(cta, connection);
    bool is_it = connection != 0 && r->route.connection == connection && !r->is_leaving;
    return is_it && !r->is_pending ? r : NULL;
}

// A client with a name that comes back: what it asked for before may still be written, and must not
// be written over what it asks for from now on.
static bool is_former(const struct cta_route *r, const struct client_route *route)
{
    return r->route.connection != 0 && r->is_leaving && r->route.volume == route->volume &&
           route->client.identity[0] != '\0' &&
           strcmp(r->route.client.identity, route->client.identity) == 0;
}

static bool must_wait(const struct cta *cta, const struct client_route *route)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        if (is_former(&cta->routes[i], route)) {
            return true;
        }
    }
    return false;
}

// NULL: there is none.
static struct cta_volume *volume_find(struct cta *cta, uint32_t volume)
{
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        if (cta->volumes[i].counters.volume == volume) {
            return &cta->volumes[i];
        }
    }
    return NULL;
}

// No room: volumes that are gone have all slots, and their last requests are still under way.
struct cta_volume *routes_volume(struct cta *cta, uint32_t volume, bool may_make)
{
    struct cta_volume *v = volume_find(cta, volume);
    if (v == NULL && may_make) {
        v = volume_find(cta, 0);
        if (v != NULL) {
            v->counters.volume = volume;
            list_init(&v->rate.waiting);
            list_init(&v->rate.link);
        }
    }
    return v;
}

static void volume_free_if_over(struct cta_volume *v)
{
    if (v->is_gone && v->counters.connections == 0) {
        list_remove(&v->rate.link);
        *v = (struct cta_volume){0};
    }
}

void routes_volume_remove(void *ctx, uint32_t volume)
{
    struct cta_volume *v = volume != 0 ? volume_find(ctx, volume) : NULL;
    if (v != NULL) {
        v->is_gone = true;
        volume_free_if_over(v);
    }
}

// There are as many slots as connections.
static struct cta_client *client_of(struct cta *cta, const char *host)
{
    struct cta_client *unused = NULL;
    if (host[0] == '\0') {
        return NULL;
    }
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct cta_client *c = &cta->clients[i];
        if (c->connections > 0 && strcmp(c->host, host) == 0) {
            return c;
        }
        unused = unused == NULL && c->connections == 0 ? c : unused;
    }
    CHECK(unused != NULL);
    *unused = (struct cta_client){0};
    memcpy(unused->host, host, strlen(host) + 1);
    return unused;
}

static void on_route(struct cta *cta, uint32_t connection, enum connect_status status)
{
    cta->parts.uma->on_route(cta->parts.uma_ctx, connection, status);
}

void routes_add(void *ctx, const struct client_route *route)
{
    struct cta *cta = ctx;
    struct cta_route *r = slot(cta, route->connection);
    bool is_free = r->route.connection == 0;
    struct cta_volume *volume = is_free ? routes_volume(cta, route->volume, true) : NULL;
    if (volume == NULL) {
        on_route(cta, route->connection, CONNECT_TOO_MANY);
        return;
    }
    *r = (struct cta_route){.route = *route, .is_pending = must_wait(cta, route)};
    r->volume = volume;
    r->volume->counters.connections++;
    r->client = client_of(cta, route->client.host);
    if (r->client != NULL) {
        r->client->connections++;
    }
    list_init(&r->hungry);
    list_init(&r->link);
    if (!r->is_pending) {
        on_route(cta, route->connection, CONNECT_OK);
    }
}

static void admit_pending(struct cta *cta)
{
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        struct cta_route *r = &cta->routes[i];
        if (r->is_pending && !must_wait(cta, &r->route)) {
            r->is_pending = false;
            on_route(cta, r->route.connection, CONNECT_OK);
        }
    }
}

static void free_if_over(struct cta *cta, struct cta_route *r)
{
    if (r->is_leaving && r->share.request_count == 0) {
        list_remove(&r->link);
        r->volume->counters.connections--;
        volume_free_if_over(r->volume);
        if (r->client != NULL) {
            r->client->connections--;
        }
        *r = (struct cta_route){0};
        admit_pending(cta);
    }
}

void routes_remove(void *ctx, uint32_t connection)
{
    struct cta *cta = ctx;
    struct cta_route *r = slot(cta, connection);
    if (connection != 0 && r->route.connection == connection && !r->is_leaving) {
        CHECK(list_is_empty(&r->hungry));
        reservation_unclaim_of(r);
        r->is_leaving = true;
        free_if_over(cta, r);
    }
}

void routes_settled(struct cta *cta, struct cta_route *route)
{
    free_if_over(cta, route);
}
