#include "link/device/tap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/span.h"
#include "base/time.h"
#include "link/device/ip_device.h"
#include "link/device/tap_interface.h"
#include "wire/eth.h"

enum {
    FRAME_MAX = ETH_HEADER_LEN + NET_MTU_MAX,
    READS_MAX = 64, // packets at a look
};

struct tap_device {
    struct ip_device ip;
    struct tap_interface interface;
    unsigned reads_left; // of those that were asked for
    uint8_t buffer[FRAME_MAX];
};

static struct tap_device *tap_of(const struct device *d)
{
    return (struct tap_device *)d;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void tap_receive(struct device *d, struct channel *channel, size_t max_len)
{
    tap_of(d)->reads_left = READS_MAX; // the rest is reported again
}

static bool read_frame(struct tap_device *t, instant_ns now, struct device_event *ret)
{
    struct mspan into = mspan_of(t->buffer, sizeof t->buffer);
    bool is_checked;
    ssize_t len = tap_interface_read(&t->interface, into, &is_checked);
    if (len < 0) {
        t->reads_left = 0;
        return false;
    }
    t->reads_left--;
    return ip_device_on_frame(&t->ip, mspan_of(t->buffer, (size_t)len), is_checked, now, ret);
}

static bool tap_next(struct device *d, instant_ns now, struct device_event *ret)
{
    struct tap_device *t = tap_of(d);
    while (t->reads_left > 0) {
        if (read_frame(t, now, ret)) {
            return true;
        }
    }
    return ip_device_next(&t->ip, ret);
}

static bool tap_poll(struct device *d, instant_ns now)
{
    struct tap_device *t = tap_of(d);
    ip_device_poll(&t->ip, now);
    unsigned ready = tap_interface_look(&t->interface);
    t->ip.news |= (ready & TAP_READY_ROOM) != 0 ? IP_DEVICE_ROOM : 0;
    t->ip.news |= (ready & TAP_READY_FRAMES) != 0 ? IP_DEVICE_READABLE : 0;
    return t->ip.news != 0;
}

/* ---- the device ------------------------------------------------------------------------------ */

static instant_ns tap_next_deadline(struct device *d)
{
    return ip_device_next_deadline(&tap_of(d)->ip);
}

static void tap_wait(struct device *d, duration_ns timeout_ns)
{
    tap_interface_wait(&tap_of(d)->interface, timeout_ns);
}

static void tap_wake(struct device *d)
{
    tap_interface_wake(&tap_of(d)->interface);
}

static int tap_descriptor(const struct device *d)
{
    return tap_of(d)->interface.epoll_fd;
}

static void tap_abandon(struct device *d)
{
    tap_interface_close(&tap_of(d)->interface);
}

static void tap_destroy(struct device *d)
{
    tap_abandon(d);
    ip_device_fini(&tap_of(d)->ip);
    free(d);
}

static const struct device_ops tap_ops = {
    .name = "tap",
    .open = ip_device_open,
    .connect = ip_device_connect,
    .accept = ip_device_accept,
    .close = ip_device_close,
    .set_tos = ip_device_set_tos,
    .segment_len_max = ip_device_segment_len_max,
    .route = ip_device_route,
    .send = ip_device_send,
    .poll = tap_poll,
    .receive = tap_receive,
    .next = tap_next,
    .corrupt = ip_device_corrupt,
    .counters = ip_device_counters,
    .next_deadline = tap_next_deadline,
    .wait = tap_wait,
    .wake = tap_wake,
    .descriptor = tap_descriptor,
    .abandon = tap_abandon,
    .destroy = tap_destroy,
};

/* ---- making it ------------------------------------------------------------------------------- */

int device_tap_create(const struct device_tap_config *config, struct device **ret)
{
    struct tap_device *t = calloc(1, sizeof *t);
    struct net_iface_config iface;
    if (t == NULL) {
        return -ENOMEM;
    }
    int error = tap_interface_open(&t->interface, config, &iface);
    if (error != 0) {
        free(t);
        return error;
    }
    ip_device_init(&t->ip, &tap_ops, &iface, ~config->seed);
    *ret = &t->ip.base;
    return 0;
}

const struct net_iface_counters *device_tap_counters(const struct device *d)
{
    return &tap_of(d)->ip.iface.counters;
}
