// Reservations, obeyed by all who come through the CTA: what they bar ends at the door.

#include "node/cta/agent.h"
#include "node/interface/request.h"
#include "node/interface/reservation.h"

bool reservation_bars(const struct cta_route *route, unsigned operation, unsigned flags)
{
    const struct reservation *r = route->route.reservation;
    if (r == NULL || (r->type == RESERVATION_NONE && r->claimed_by == 0)) {
        return false;
    }
    bool flushes = operation == NODE_FLUSH && (flags & NODE_FOR_READ) == 0;
    bool writes = node_operation_facts(operation)->changes || flushes;
    bool is_about_device = operation == NODE_PROFILE;
    return !is_about_device &&
           !reservation_allows(r, route->route.client.registrant, route->route.connection,
                               writes ? RESERVATION_TO_WRITE : RESERVATION_TO_READ);
}

void reservation_unclaim_of(struct cta_route *route)
{
    struct reservation *r = route->route.reservation;
    if (r != NULL && r->claimed_by == route->route.connection) {
        r->claimed_by = 0;
    }
}
