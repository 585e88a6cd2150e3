#include "node/ddm/scsi_transport.h"

#include <limits.h>
#include <poll.h>

#include "base/time.h"

static int milliseconds_until(instant_ns at, instant_ns now)
{
    duration_ns left = at > now ? at - now : 0;
    return left / NS_PER_MS >= INT_MAX ? INT_MAX : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

bool scsi_transport_wait(struct scsi_transport *transport, const bool *flag, instant_ns until_ns)
{
    const struct ddm_host *host = &transport->host;
    scsi_transport_flush(transport);
    for (instant_ns now; !*flag && (now = host->clock(host->ctx)) < until_ns;) {
        instant_ns wake_at = instant_min(scsi_transport_next_deadline(transport), until_ns);
        struct pollfd pollfd = {.fd = scsi_transport_poll_fd(transport), .events = POLLIN};
        poll(&pollfd, 1, milliseconds_until(wake_at, now));
        scsi_transport_poll(transport, host->clock(host->ctx));
        scsi_transport_flush(transport);
    }
    return *flag;
}
