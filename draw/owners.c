#include "draw/owners.h"

#include <stdlib.h>

#include "draw/frame.h"

// What a connection's packets and the record of it may be apart, the clocks of two hosts included.
static const duration_ns slack_ns = NS_PER_S;

bool owners_create(struct owners *o)
{
    *o = (struct owners){.owner = calloc(OWNERS_MAX, sizeof *o->owner)};
    return o->owner != NULL;
}

void owners_destroy(struct owners *o)
{
    free(o->owner);
    *o = (struct owners){0};
}

// The queue pair's latest; NULL: it has none yet.
static struct owner *latest_of(struct owners *o, unsigned origin, uint32_t qp_num)
{
    for (uint32_t i = o->count; i-- > 0;) {
        if (o->owner[i].origin == origin && o->owner[i].qp_num == qp_num) {
            return &o->owner[i];
        }
    }
    return NULL;
}

static void on_carried(struct owners *o, unsigned origin, const struct capture_record *record)
{
    struct owner *before = latest_of(o, origin, record->what.qp_num);
    if (o->count == OWNERS_MAX) {
        o->left_out++;
        return;
    }
    if (before != NULL) {
        before->to = record->number;
    }
    o->owner[o->count++] = (struct owner){.origin = origin,
                                          .qp_num = record->what.qp_num,
                                          .from = before != NULL ? record->number : 0,
                                          .to = UINT64_MAX,
                                          .at = record->at,
                                          .carried = record->what.carried};
}

void owners_see(struct owners *o, unsigned origin, const struct capture_record *record)
{
    struct owner *of;
    switch (record->what.kind) {
    case JOURNAL_CARRIED:
        on_carried(o, origin, record);
        break;
    case JOURNAL_HOLE_OPENED:
        of = latest_of(o, origin, record->what.qp_num);
        if (of != NULL) {
            of->tells_holes = true;
        }
        break;
    default:
        break;
    }
}

// Of datagrams: from any address to any.
static bool takes_any(const struct owner *o)
{
    return IN6_IS_ADDR_UNSPECIFIED(&o->carried.local) && o->carried.local_port == 0;
}

static bool is_end(const struct owner *o, const struct registry_connection *c, unsigned side)
{
    const struct frame_end *own = &c->end[side], *peer = &c->end[1 - side];
    if (c->wire == REGISTRY_UD) {
        return takes_any(o) && o->qp_num == c->qp[side];
    }
    if (!IN6_ARE_ADDR_EQUAL(&o->carried.local, &own->addr) ||
        !IN6_ARE_ADDR_EQUAL(&o->carried.remote, &peer->addr)) {
        return false;
    }
    if (c->wire == REGISTRY_IWARP) {
        return o->carried.local_port == own->port && o->carried.remote_port == peer->port;
    }
    return o->carried.local_port == 0 && o->qp_num == c->qp[side] &&
           o->carried.remote_qp_num == c->qp[1 - side];
}

unsigned owner_side(const struct owner *owner, const struct registry_connection *c)
{
    bool is_then = owner->at <= instant_after(c->last, slack_ns) &&
                   (c->wire == REGISTRY_UD || instant_after(owner->at, slack_ns) >= c->first);
    unsigned side = 0;
    while (side < 2 && !(is_then && is_end(owner, c, side))) {
        side++;
    }
    return side;
}
