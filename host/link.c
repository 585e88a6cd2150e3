#include "host/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/key_mirror.h"
#include "base/time.h"
#include "host/clock.h"
#include "host/link_kind.h"
#include "link/compound.h"
#include "link/device/fault.h"
#include "link/device/tap.h"
#include "link/device/udp.h"
#include "link/fault_model.h"
#include "link/local/local.h"
#include "link/own_file.h"
#include "link/packet/cut.h"
#include "link/packet/packet.h"
#include "link/pcap/pcap.h"
#include "link/socket.h"
#include "tcp/tcp.h"

// A program is worth more than its capture: it goes on without.
static void say_no_capture(const struct host_settings *settings, int error)
{
    if (error != 0) {
        fprintf(stderr,
                "weft: cannot capture into %s (WEFT_PCAP): %s; going on without a capture\n",
                settings->pcap_path, own_file_error(error));
    }
}

void host_say_who_is_waited_for(pid_t process, pid_t thread)
{
    fprintf(stderr,
            "weft: waiting for thread %d of process %d, which is writing into memory that is taken "
            "back here\n",
            thread, process);
}

static int local_wrap(const struct host_settings *settings, struct trace *trace, struct link **link)
{
    const struct link_local_config config = {
        .ring_len = LINK_LOCAL_RING_LEN,
        .peer_timeout_ns = settings->peer_timeout_ns,
        .linger_ns = LINK_LOCAL_LINGER_NS,
        .clock = host_clock,
        .rights = (settings->push ? KEY_MAY_WRITE : 0U) | (settings->pull ? KEY_MAY_READ : 0U),
        .on_long_revocation = host_say_who_is_waited_for,
        .trace = trace,
    };
    int error = link_local_wrap(*link, &config, link);
    if (error != 0) {
        link_destroy(*link);
    }
    return error;
}

static int socket_create(const struct host_settings *settings, struct trace *trace,
                         struct link **ret)
{
    struct link_socket_config config = {
        .peer_timeout_ns = settings->peer_timeout_ns,
        .sndbuf_len = settings->sndbuf_len,
        .rcvbuf_len = settings->rcvbuf_len,
        .trace = trace,
    };
    int error = link_socket_create(&config, ret);
    if (error == 0 && host_settings_may_be_local(settings)) {
        return local_wrap(settings, trace, ret);
    }
    if (error == 0 && settings->pcap_path[0] != '\0') {
        say_no_capture(settings, link_pcap_wrap(*ret, settings->pcap_path, ret));
    }
    return error;
}

/* ---- our own TCP ----------------------------------------------------------------------------- */

// As for sockets: what is sent, and a closed window, are bounded by the time-out; an idle peer is
// asked after half of it and then at every sixth.
static void patience_set(struct tcp_config *tcp, duration_ns timeout_ns)
{
    tcp->user_timeout_ns = timeout_ns;
    tcp->user_timeout_when_shut = true;
    tcp->connect_timeout_ns = timeout_ns;
    tcp->keepalive_idle_ns = timeout_ns / 2;
    tcp->keepalive_interval_ns = timeout_ns / 6;
    tcp->keepalive_count = 3;
}

// What WEFT_FAULT says stands before the device.
static int fault_wrap(const struct host_settings *settings, struct device **device)
{
    struct fault_config faults;
    if (!fault_config_parse(settings->fault, &faults) || fault_config_is_none(&faults)) {
        return 0;
    }
    int error = device_fault_wrap(*device, &faults, device);
    if (error != 0) {
        (*device)->ops->destroy(*device);
    }
    return error;
}

static int packet_create(const struct host_settings *settings, struct device *device, bool is_udp,
                         struct trace *trace, struct link **ret)
{
    if (settings->pcap_path[0] != '\0') { // before faults: what is lost does not cross the wire
        say_no_capture(settings, device_pcap_wrap(device, settings->pcap_path, &device));
    }
    int error = fault_wrap(settings, &device);
    if (error != 0) {
        return error;
    }
    struct link_packet_config config = {
        .tcp = tcp_config_default,
        .clock = host_clock,
        .linger_ns = settings->peer_timeout_ns,
        .settles_when_acknowledged = is_udp,
        .refusal_is_reset = is_udp,
        .answers_once = is_udp,
        .trace = trace,
    };
    config.tcp.trace = trace;
    config.tcp.ecn = (enum tcp_ecn_wish)settings->ecn;
    patience_set(&config.tcp, settings->peer_timeout_ns);
    if (is_udp) {
        link_packet_tune(&config.tcp);
    }
    if (getrandom(config.secret, sizeof config.secret, 0) < 0) {
        device->ops->destroy(device);
        return -errno;
    }
    return link_packet_create(&config, device, ret);
}

static int udp_create(const struct host_settings *settings, struct trace *trace, struct link **ret)
{
    struct device *device;
    struct device_udp_config config = {
        .sndbuf_len = settings->sndbuf_len,
        .rcvbuf_len = settings->rcvbuf_len,
        .checksums = settings->fault[0] != '\0', // what is changed on purpose is to be found out
        .transport = &packet_transport,
        .trace = trace,
    };
    int error = device_udp_create(&config, &device);
    return error != 0 ? error : packet_create(settings, device, true, trace, ret);
}

void host_tap_say_refused(const char *interface, int error)
{
    fprintf(stderr,
            "weft: cannot use the network interface %s (WEFT_LINK): %s; make it first, "
            "for this user: ip tuntap add\n",
            interface, strerror(-error));
}

static int tap_create(const struct host_settings *settings, struct trace *trace, struct link **ret)
{
    struct device *device;
    struct device_tap_config config;
    if (!device_tap_config_parse(settings->link, &config)) {
        return -EINVAL;
    }
    config.trace = trace;
    if (getrandom(&config.seed, sizeof config.seed, 0) < 0) {
        return -errno;
    }
    int error = device_tap_create(&config, &device);
    if (error != 0) {
        host_tap_say_refused(config.name, error);
    }
    return error != 0 ? error : packet_create(settings, device, false, trace, ret);
}

/* ---- by peer --------------------------------------------------------------------------------- */

static int member_create(const struct host_settings *settings, const char *text,
                         struct trace *trace, struct link **ret)
{
    struct host_settings own = *settings;
    snprintf(own.link, sizeof own.link, "%s", text);
    own.local = false;
    int error = host_link_create(&own, trace, ret);
    if (error != 0) {
        fprintf(stderr, "weft: cannot bring up %s, which WEFT_LINK names: %s\n", text,
                strerror(-error));
    }
    return error;
}

static int compound_create(const struct host_settings *settings, struct trace *trace,
                           struct link **ret)
{
    struct link_compound_config config;
    struct link *members[LINK_COMPOUND_MEMBER_MAX];
    unsigned count = 0;
    int error = link_compound_config_parse(settings->link, &config) ? 0 : -EINVAL;
    while (error == 0 && count < config.member_count) {
        error = member_create(settings, config.members[count].text, trace, &members[count]);
        count += error == 0;
    }
    if (error == 0) {
        error = link_compound_create(&config, members, ret);
    }
    while (error != 0 && count > 0) {
        link_destroy(members[--count]);
    }
    return error;
}

/* ---- the link -------------------------------------------------------------------------------- */

static int (*const creators[])(const struct host_settings *settings, struct trace *trace,
                               struct link **ret) = {
    [HOST_LINK_SOCKET] = socket_create,
    [HOST_LINK_UDP] = udp_create,
    [HOST_LINK_TAP] = tap_create,
    [HOST_LINK_BY_PEER] = compound_create,
};

int host_link_create(const struct host_settings *settings, struct trace *trace, struct link **ret)
{
    enum host_link_kind kind = host_link_kind_of(settings->link);
    return kind != HOST_LINK_KIND_COUNT ? creators[kind](settings, trace, ret) : -EINVAL;
}
