#include "host/datagram.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/device_wire.h"
#include "base/key_mirror.h"
#include "base/port_datagram.h"
#include "base/why.h"
#include "host/clock.h"
#include "host/link.h"
#include "link/datagram/fault.h"
#include "link/datagram/numbering.h"
#include "link/datagram/pcap.h"
#include "link/datagram/tap.h"
#include "link/datagram/udp.h"
#include "link/device/tap.h"
#include "link/fault_model.h"
#include "link/own_file.h"

// As of links of streams (host/link.c): before faults, since what is lost does not cross the wire.
static void capture_wrap(const struct host_settings *settings, struct datagram_link **link)
{
    int error =
        settings->pcap_path[0] == '\0'
            ? 0
            : datagram_pcap_wrap(*link, settings->pcap_path, (uint16_t)settings->roce_port, link);
    if (error != 0) {
        fprintf(stderr,
                "weft: cannot capture into %s (WEFT_PCAP): %s; going on without a capture\n",
                settings->pcap_path, own_file_error(error));
    }
}

static int fault_wrap(const struct fault_config *faults, struct datagram_link **link)
{
    int error = fault_config_is_none(faults) ? 0 : datagram_fault_wrap(*link, faults, link);
    if (error != 0) {
        datagram_destroy(*link);
    }
    return error;
}

// Does the kernel number packets as the ICRC takes it to?
static void numbering_try(struct datagram_udp_config *config)
{
    const enum datagram_numbering numbering = datagram_numbering_find();
    if (numbering == DATAGRAM_NUMBERED_SINGLY) {
        config->is_single = true;
        fprintf(stderr, "weft: this kernel numbers the packets of a burst (UDP_SEGMENT) otherwise "
                        "than their ICRC says: " DEVICE_NAME_ROCE " sends each alone\n");
    } else if (numbering == DATAGRAM_NUMBERED_OTHERWISE) {
        config->is_single = true;
        fprintf(
            stderr,
            "weft: this kernel numbers packets otherwise than their ICRC says: " DEVICE_NAME_ROCE
            " reaches weft over IPv4, and others over IPv6 alone\n");
    }
}

/* ---- UDP sockets ----------------------------------------------------------------------------- */

static int udp_create(const struct host_settings *settings, const struct fault_config *faults,
                      struct trace *trace, struct datagram_link **ret)
{
    struct datagram_udp_config config = {
        .port = (uint16_t)settings->roce_port,
        .sndbuf_len = settings->sndbuf_len,
        .rcvbuf_len = settings->rcvbuf_len,
        .is_unchecked = !settings->rnic.crc,
        .is_local = host_settings_may_be_local(settings),
        .rights = settings->push ? KEY_MAY_WRITE : 0U,
        .on_long_revocation = host_say_who_is_waited_for,
        .corrupt = *faults,
        .linger_ns = DATAGRAM_LINGER_NS,
        .clock = host_clock,
        .trace = trace,
    };
    numbering_try(&config);
    int error = datagram_udp_create(&config, ret);
    if (error == -EUSERS) {
        struct why why = {.text = "as many processes of this user have it open as can share its "
                                  "port"};
        datagram_udp_stranger(config.port, &why);
        fprintf(stderr, "weft: cannot open " DEVICE_NAME_ROCE ": %s\n", why.text);
    }
    return error;
}

/* ---- a tap interface ------------------------------------------------------------------------- */

// An interface is one device's: that of streams has it where there is one.
static bool is_on_tap(const struct host_settings *settings, struct device_tap_config *ret)
{
    return settings->wires == 1U << DEVICE_WIRE_ROCE &&
           device_tap_config_parse(settings->link, ret);
}

static void port_fill(const struct device_tap_config *config, struct datagram_link *link,
                      struct rnic_port *ret)
{
    *ret = (struct rnic_port){.addr_count = config->addr_count};
    for (unsigned i = 0; i < config->addr_count; i++) {
        memcpy(ret->addrs[i].addr.s6_addr, config->addrs[i].addr.octets,
               sizeof ret->addrs[i].addr.s6_addr);
        ret->addrs[i].interface = if_nametoindex(config->name);
    }
    ret->path_mtu = datagram_tap_path_mtu(link);
}

static int tap_create(const struct host_settings *settings, const struct fault_config *faults,
                      struct device_tap_config *interface, struct trace *trace,
                      struct rnic_port *port, struct datagram_link **ret)
{
    if (getrandom(&interface->seed, sizeof interface->seed, 0) < 0) {
        return -errno;
    }
    interface->trace = trace;
    const struct datagram_tap_config config = {
        .interface = *interface,
        .port = (uint16_t)settings->roce_port,
        .is_unchecked = !settings->rnic.crc,
        .corrupt = *faults,
        .clock = host_clock,
    };
    int error = datagram_tap_create(&config, ret);
    if (error != 0) {
        host_tap_say_refused(interface->name, error);
        return error;
    }
    port_fill(interface, *ret, port);
    return 0;
}

/* ---- the link -------------------------------------------------------------------------------- */

int host_datagram_link_create(const struct host_settings *settings, struct trace *trace,
                              struct rnic_port *port, struct datagram_link **ret)
{
    struct fault_config faults;
    struct device_tap_config interface;
    if (!fault_config_parse(settings->fault, &faults)) {
        faults = (struct fault_config){0};
    }
    int error = is_on_tap(settings, &interface)
                    ? tap_create(settings, &faults, &interface, trace, port, ret)
                    : udp_create(settings, &faults, trace, ret);
    if (error != 0) {
        return error;
    }
    capture_wrap(settings, ret);
    return fault_wrap(&faults, ret);
}

void host_port_say_refused(const struct host_settings *settings, const struct rnic_port *port,
                           int error)
{
    static const char other_port[] = "; or let both ends have another port, by WEFT_ROCE_PORT";
    struct why why = {.text = ""};
    const char *advice = "";
    if (error == -EADDRINUSE && datagram_udp_stranger((uint16_t)settings->roce_port, &why)) {
        advice = other_port;
    } else if (error == -EADDRINUSE && port->addr_count > 0) {
        datagram_udp_holder(&port->addrs[0].addr, (uint16_t)settings->roce_port, &why);
        advice = other_port;
    }
    fprintf(stderr, "weft: cannot open " DEVICE_NAME_ROCE ": %s%s\n",
            why_is_said(&why) ? why.text : strerror(-error), advice);
}
