// Before the host sleeps it looks on for answers of RTAs (base/lookout.h): a request that the
// device answers at once then costs no bell and no wake-up of the host.

#include "base/lookout.h"
#include "base/time.h"
#include "node/bus/ring.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/interface/request.h"
#include "node/loop/loop.h"

// Those that an answer is awaited of. One in the host's own process cannot answer meanwhile.
static unsigned awaited(struct host *host, struct bus_end *ret[NODE_UNIT_COUNT_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < host->unit_end; i++) {
        struct host_unit *unit = &host->units[i];
        if (unit->is_running && unit->pid > 0 && cta_awaits_unit(host->cta, i)) {
            ret[count++] = &unit->bus;
        }
    }
    return count;
}

static bool any_has_frames(struct bus_end *const ends[], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (bus_has_frames(ends[i])) {
            return true;
        }
    }
    return false;
}

static bool look_on(struct lookout *lookout, struct bus_end *const ends[], unsigned count)
{
    instant_ns now = loop_clock();
    bool has_come = false;
    lookout_begin(lookout, now);
    while (lookout_lasts(lookout, now) && !(has_come = any_has_frames(ends, count)) &&
           loop_give_way(lookout, now)) {
        now = loop_clock();
    }
    lookout_end(lookout, true);
    return has_come;
}

bool host_units_linger(struct host *host)
{
    struct bus_end *ends[NODE_UNIT_COUNT_MAX];
    unsigned count = awaited(host, ends);
    return count > 0 && look_on(&host->lookout, ends, count);
}
