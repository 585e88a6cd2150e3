// Volumes that other nodes serve too. As long as one of those may have the device nothing is sent
// there, and nothing is kept to be sent: a client that knows of paths asks the other node, and what
// that has written since must not be written over by what was left here.

#include "node/cta/agent.h"

void standby_set(void *ctx, uint32_t volume, bool stands_by, instant_ns now)
{
    struct cta_volume *v = routes_volume(ctx, volume, stands_by);
    if (v != NULL && v->stands_by != stands_by) {
        v->stands_by = stands_by;
        if (stands_by) {
            service_stand_by(ctx, v, now);
        }
    }
}
