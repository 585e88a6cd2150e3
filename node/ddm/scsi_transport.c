#include "node/ddm/scsi_transport.h"

#include <poll.h>

#include "base/poll_ms.h"

void scsi_transport_turn(struct scsi_transport *transport, instant_ns now, instant_ns until_ns)
{
    const struct ddm_host *host = &transport->host;
    struct pollfd pollfd = {.fd = scsi_transport_poll_fd(transport), .events = POLLIN};
    poll(&pollfd, 1, poll_ms(now, instant_min(scsi_transport_next_deadline(transport), until_ns)));
    scsi_transport_poll(transport, host->clock(host->ctx));
    scsi_transport_flush(transport);
}
