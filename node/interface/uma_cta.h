// Interface 262 on the side of the unit management agent, 280 on that of the common transport
// agent: which units there are, and which client is connected to which volume on which of them.
// Method calls within one process, on one thread; a CTA cannot fail but for want of room.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "node/interface/cta_rta.h"
#include "node/interface/cta_tts.h"
#include "node/interface/request.h"
#include "node/interface/reservation.h"
#include "node/interface/uma_tts.h"

// One row of the routing table, as the UMA asks for it.
struct client_route {
    struct client client; // opaque
    uint32_t connection;  // chosen by the UMA
    uint32_t volume;
    uint32_t unit;                   // the RTA
    struct reservation *reservation; // the volume's; NULL: it can have none
    const struct tts_for_cta *tts;
    void *tts_ctx;
};

// What the clients of a volume may have of it in a second, all together; 0: as much as goes.
struct volume_rate {
    uint64_t iops; // requests
    uint64_t bps;  // octets read and written
};

// What the CTA offers the UMA; `cta` is the context it gave with it.
struct cta_for_uma {
    // A unit with this bus. It is lost until unit_ready. False: NODE_UNIT_COUNT_MAX.
    bool (*unit_add)(void *cta, uint32_t unit, struct frame_port port);
    // No route leads to it any more.
    void (*unit_remove)(void *cta, uint32_t unit);
    // Unused memory of its part of the pool stays where it is from now on.
    void (*unit_keep)(void *cta, uint32_t unit);
    // Its process is gone, or is being taken away: requests wait, buffers lent to it stay lent.
    // Requests of connections whose volume is gone for good end; since no successor opens the
    // volume, no fence tells when their buffers are free, and these stay lent as long as the unit.
    void (*unit_lost)(void *cta, uint32_t unit, instant_ns now);
    // A process serves it, its predecessor's I/O is over (the fence has passed) and the bus is
    // empty: what was not answered is sent again, in order where ranges overlap.
    void (*unit_ready)(void *cta, uint32_t unit, instant_ns now);

    // Adds a row; the status comes back by uma_for_cta.on_route, perhaps before this returns: at
    // once, or when the requests of the same client's former route to the volume have ended.
    void (*route_add)(void *cta, const struct client_route *route);
    // The row goes; its service requests have ended.
    void (*route_remove)(void *cta, uint32_t connection);
    // The volume is gone, and its number with it: so are its counters, once no route leads to it.
    void (*volume_remove)(void *cta, uint32_t volume);
    // From now on the volume's read window is this descriptor, which stays the UMA's, of `size`
    // octets; -1: it has none any more. Nothing is read by it while the unit is lost.
    void (*window_set)(void *cta, uint32_t volume, int fd, uint64_t size);
    // From now on, for the requests that wait too. Without room for another volume it is let be: no
    // route of it can be added then.
    void (*rate_set)(void *cta, uint32_t volume, const struct volume_rate *most);
    // Another node may serve the volume from now on, or it is ours: as long as it stands by, its
    // requests end with NODE_STANDBY, those included that a process of its unit left unanswered:
    // they are sent to no other. Called behind unit_lost, and before unit_ready.
    void (*standby_set)(void *cta, uint32_t volume, bool stands_by, instant_ns now);
    // The volume is gone for good: requests that wait for it end with NODE_NO_VOLUME.
    void (*route_fail)(void *cta, uint32_t connection, instant_ns now);
};

// What the UMA offers the CTA.
struct uma_for_cta {
    void (*on_route)(void *uma, uint32_t connection, enum connect_status status);
    // What came over the unit's bus broke the rules: the UMA ends its process.
    void (*on_unit_broken)(void *uma, uint32_t unit, const char *why);
};
