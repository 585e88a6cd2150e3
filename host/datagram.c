#include "host/datagram.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/device_wire.h"
#include "base/why.h"
#include "link/datagram_udp.h"

int host_datagram_link_create(const struct host_settings *settings, struct trace *trace,
                              struct datagram_link **ret)
{
    const struct datagram_udp_config config = {
        .sndbuf_len = settings->sndbuf_len,
        .rcvbuf_len = settings->rcvbuf_len,
        .trace = trace,
    };
    int error = datagram_udp_create(&config, ret);
    if (error == -EUSERS) {
        fprintf(stderr, "weft: cannot open " DEVICE_NAME_ROCE ": as many processes of this user "
                        "have it open as can share its port\n");
    }
    return error;
}

void host_port_say_refused(const struct rnic_port *port, int error)
{
    struct why why = {.text = ""};
    if (error == -EADDRINUSE && port->addr_count > 0) {
        datagram_udp_holder(&port->addrs[0].addr, 0, &why);
    }
    fprintf(stderr, "weft: cannot open " DEVICE_NAME_ROCE ": %s\n",
            why_is_said(&why) ? why.text : strerror(-error));
}
