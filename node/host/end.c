// The end: what is under way is finished, nothing new begins.
#include "base/time.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/host/notify.h"
#include "node/loop/loop.h"
#include "node/uma/uma.h"

static const duration_ns stop_within_ns = 10 * NS_PER_S;

void host_end(struct host *host, int exit_status)
{
    host->exit_status = exit_status;
    notify_send("STOPPING=1\nSTATUS=ending what is under way");
    instant_ns now = loop_now(host->loop);
    host->stop_by_ns = instant_min(host->stop_by_ns, instant_after(now, stop_within_ns));
    uma_rates_lift(host->uma); // who waits for a rate is to have an answer
    cta_flush(host->cta, now);
    uma_stop(host->uma, now);
}
