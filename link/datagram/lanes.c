// All lanes of a link at once (lanes.h).

#include "link/datagram/lanes.h"

#include "base/list.h"
#include "link/datagram/udp_link.h"
#include "link/datagram/way.h"
#include "link/local/keys.h"
#include "link/sys.h"

void datagram_lanes_init(struct datagram_udp *d)
{
    static const struct in6_addr nowhere;
    list_init(&d->lanes.turns);
    list_init(&d->lanes.ways);
    d->lanes.own_keys.fd = -1;
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        struct datagram_lane_in *in = &d->lanes.in[slot];
        datagram_inlet_init(&d->lanes.out[slot].inlet, DATAGRAM_INLET_LANE_OUT, -1, &nowhere);
        datagram_inlet_init(&in->inlet, DATAGRAM_INLET_LANE_IN, -1, &nowhere);
        list_init(&in->turn);
    }
}

void datagram_lanes_fini(struct datagram_udp *d)
{
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        datagram_lane_leave(d, &d->lanes.out[slot]);
    }
    datagram_lanes_in_fini(d);
    local_own_keys_destroy(&d->lanes.own_keys);
}

// What is mapped the child does not have.
void datagram_lanes_abandon(struct datagram_udp *d)
{
    datagram_ways_abandon(d);
    local_own_keys_abandon(&d->lanes.own_keys);
    list_init(&d->lanes.turns);
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        sys_close_fd(&d->lanes.out[slot].inlet.fd);
        sys_close_fd(&d->lanes.in[slot].inlet.fd);
        d->lanes.out[slot].memory = d->lanes.in[slot].memory = NULL;
    }
}
